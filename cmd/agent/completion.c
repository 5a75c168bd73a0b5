/* agent completion bash: what a shell needs to complete our command line, printed from the tables that
 * the command line is read by (main.c), so that it cannot say anything else. */
#include "agent.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

static const char head[] =
    "# Completion of agent(1) for bash: source <(agent completion bash)\n"
    "# Adds names of a kind. They are no list for compgen -W, which expands what it is given.\n"
    "_agent_names()\n"
    "{\n"
    "\tlocal i name where=()\n"
    "\tfor ((i = 3; i < COMP_CWORD; i++)); do\n"
    "\t\tcase ${COMP_WORDS[i-1]} in\n"
    "\t\t-C | --repo) where+=(\"${COMP_WORDS[i-1]}\" \"${COMP_WORDS[i]/#\\~\\//$HOME/}\") ;;\n"
    "\t\tesac\n"
    "\tdone\n"
    "\twhile read -r name; do\n"
    "\t\tCOMPREPLY+=(\"$name\")\n"
    "\tdone < <(agent completion names \"${where[@]}\" \"$1\" \"$word\" 2>/dev/null)\n"
    "}\n"
    "\n"
    "# As file names, which the shell quotes.\n"
    "_agent_directories()\n"
    "{\n"
    "\tlocal name\n"
    "\tcompopt -o filenames\n"
    "\twhile read -r name; do\n"
    "\t\tCOMPREPLY+=(\"$name\")\n"
    "\tdone < <(compgen -d -- \"$word\")\n"
    "}\n"
    "\n"
    "_agent_keys()\n"
    "{\n"
    "\tagent help config table | sed -n 's/^| `\\([^`]*\\)`.*/\\1/p'\n"
    "}\n"
    "\n"
    "_agent()\n"
    "{\n"
    "\tlocal word=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD-1]} options= words= "
    "names=\n"
    "\tCOMPREPLY=()\n";

static const char tail[] =
    "\tcase $word in\n"
    "\t-*) COMPREPLY=($(compgen -W \"$options --help\" -- \"$word\")) ;;\n"
    "\t*)\n"
    "\t\tCOMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
    "\t\t[ -z \"$names\" ] || { compopt +o default; _agent_names \"$names\"; }\n"
    "\t\t;;\n"
    "\tesac\n"
    "}\n"
    "complete -o default -F _agent agent\n";

static void print_commands(struct strbuf *out)
{
	strbuf_adds(out, "\tif [ \"$COMP_CWORD\" -eq 1 ]; then\n"
			 "\t\tCOMPREPLY=($(compgen -W \"");
	for (size_t i = 0; command_at(i); i++)
		strbuf_addf(out, "%s ", command_at(i)->name);
	strbuf_adds(out, "--help --version\" -- \"$word\"))\n\t\treturn\n\tfi\n");
}

/* What may stand behind an option that takes a value: directories, names, keys, files (the shell's own
 * way), one of a few words, or nothing that can be guessed. */
static const char *value_words(const struct option_spec *spec)
{
	static const struct {
		const char *option, *words;
	} few[] = {
	    {"--backend", "COMPREPLY=($(compgen -W \"native gvisor\" -- \"$word\"))"},
	    {"--limits", "COMPREPLY=($(compgen -W \"degraded-ok\" -- \"$word\"))"},
	    {"--origin", "COMPREPLY=($(compgen -W \"person hook cron\" -- \"$word\"))"},
	    {"--command-network", "COMPREPLY=($(compgen -W \"none registries\" -- \"$word\"))"},
	    {"--format",
	     "COMPREPLY=($(compgen -W \"auto udiff search-replace apply-patch whole "
	     "tool\" -- \"$word\"))"},
	    {"--branch", "compopt +o default; _agent_names branches"},
	};

	for (size_t i = 0; i < ARRAY_LEN(few); i++)
		if (strcmp(spec->name, few[i].option) == 0)
			return few[i].words;
	if (strcmp(spec->value, "DIR") == 0)
		return "_agent_directories";
	if (strcmp(spec->value, "RUN") == 0)
		return "compopt +o default; _agent_names runs";
	if (strcmp(spec->value, "REV") == 0)
		return "compopt +o default; _agent_names revisions";
	if (strcmp(spec->value, "FILE") == 0 || strcmp(spec->value, "SOURCE") == 0)
		return ":";
	if (strcmp(spec->value, "KEY=VALUE") == 0)
		return "compopt -o nospace; COMPREPLY=($(compgen -S = -W \"$(_agent_keys)\" -- "
		       "\"$word\"))";
	return "compopt +o default";
}

static void print_values(struct strbuf *out)
{
	strbuf_adds(out, "\tcase ${COMP_WORDS[1]}:$last in\n");
	for (size_t i = 0; command_at(i); i++)
		for (const struct option_spec *spec = command_at(i)->options; spec->name;
		     spec++)
			if (spec->value)
				strbuf_addf(out, "\t%s:%s) %s; return ;;\n",
					    command_at(i)->name, spec->name, value_words(spec));
	strbuf_adds(out, "\tesac\n");
}

/* The words of a usage text that stand for themselves: install|uninstall|check. */
static void print_verbs(struct strbuf *out, const char *usage)
{
	while (*usage) {
		size_t len = strcspn(usage, " |"), letters = 0;

		while (letters < len && islower((unsigned char)usage[letters]))
			letters++;
		if (letters == len && len)
			strbuf_addf(out, "%.*s ", (int)len, usage);
		usage += len + (usage[len] ? 1 : 0);
	}
}

/* Of what there are names that its words may be; "": of nothing. */
static const char *names_kind(const struct command *command)
{
	if (strstr(command->usage, "[RUN]"))
		return "runs";
	if (strstr(command->usage, "[COMMIT]"))
		return "revisions";
	if (strstr(command->usage, "[TASK…]"))
		return "tasks";
	return command->main == cmd_mirror ? "mirrors" : "";
}

static void print_options(struct strbuf *out)
{
	strbuf_adds(out, "\tcase ${COMP_WORDS[1]} in\n");
	for (size_t i = 0; command_at(i); i++) {
		const struct command *command = command_at(i);

		strbuf_addf(out, "\t%s)\n\t\toptions=\"", command->name);
		for (const struct option_spec *spec = command->options; spec->name; spec++)
			strbuf_addf(out, "%s ", spec->name);
		strbuf_adds(out, "\"\n\t\twords=\"");
		print_verbs(out, command->usage);
		if (strstr(command->usage, "[TOPIC"))
			help_topics(out);
		strbuf_addf(out, "\"\n\t\tnames=%s\n\t\t;;\n", names_kind(command));
	}
	strbuf_adds(out, "\tesac\n");
}

int cmd_completion(struct options *options, struct error *err)
{
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;

	if (options->word_count && strcmp(options->words[0], "names") == 0 &&
	    (options->word_count == 2 || options->word_count == 3))
		return complete_names(options, options->words[1],
				      options->word_count == 3 ? options->words[2] : "", err);
	if (options->word_count != 1 || strcmp(options->words[0], "bash") != 0) {
		error_set(err, ERROR_USAGE, "agent completion knows one shell: bash");
		return error_next(err, "source <(agent completion bash)");
	}
	strbuf_init(&out, STRBUF_MAX);
	strbuf_adds(&out, head);
	print_commands(&out);
	print_values(&out);
	print_options(&out);
	strbuf_adds(&out, tail);
	fputs(out.data, stdout);
	return 0;
}
