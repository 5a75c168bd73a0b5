/* The command line: one table a command (main.c), one loop here. */
#include "agent.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

/* Options that are no configuration key: where their value goes. */
static const char **text_field(struct options *options, const char *name)
{
	const struct {
		const char *name;
		const char **field;
	} fields[] = {{"-m", &options->message},
		      {"-C", &options->directory},
		      {"--branch", &options->branch},
		      {"--base", &options->base},
		      {"--tree", &options->tree},
		      {"--run", &options->run},
		      {"--round", &options->round},
		      {"--days", &options->days},
		      {"--dir", &options->dir},
		      {"--format", &options->format},
		      {"--allowed-signers", &options->allowed_signers},
		      {"--backend", &options->backend},
		      {"--command", &options->change_command},
		      {"--command-network", &options->change_network},
		      {"--priority", &options->priority},
		      {"--origin", &options->origin},
		      {"--repo", &options->repo}};

	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		if (strcmp(fields[i].name, name) == 0)
			return fields[i].field;
	return NULL;
}

static bool *flag_field(struct options *options, const char *name)
{
	const struct {
		const char *name;
		bool *field;
	} fields[] = {{"--json", &options->json},
		      {"--dry-run", &options->dry_run},
		      {"--no-status", &options->no_status},
		      {"--dirty", &options->dirty},
		      {"--verify", &options->verify},
		      {"--write", &options->write},
		      {"--input", &options->input},
		      {"--config", &options->for_config},
		      {"--attack", &options->attack},
		      {"--again", &options->again},
		      {"--all", &options->all},
		      {"--once", &options->once},
		      {"--due", &options->due},
		      {"--list", &options->list}};

	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		if (strcmp(fields[i].name, name) == 0)
			return fields[i].field;
	return NULL;
}

static const struct option_spec *find_option(const struct command *command, const char *word,
					     size_t len)
{
	for (const struct option_spec *spec = command->options; spec->name; spec++)
		if (strlen(spec->name) == len && strncmp(spec->name, word, len) == 0)
			return spec;
	return NULL;
}

/* replay:FILE is relative to where the user stands, also when the run is resumed elsewhere. */
static char *absolute_replay(const char *value)
{
	const char *file = value + strlen("replay:");
	char *cwd AUTO_FREE = getcwd(NULL, 0);

	if (strncmp(value, "replay:", 7) != 0 || file[0] == '/' || !cwd)
		return mem_strdup(value);
	return mem_printf("replay:%s/%s", cwd, file);
}

/* key is NULL for -c, whose value has it. */
static int set_pair(struct options *options, const char *option, const char *key,
		    const char *value, struct error *err)
{
	char *whole AUTO_FREE = NULL;

	if (key && strcmp(key, "model.name") == 0) {
		char *absolute AUTO_FREE = absolute_replay(value);

		whole = mem_printf("%s=%s", key, absolute);
	} else {
		whole = key ? mem_printf("%s=%s", key, value) : mem_strdup(value);
	}
	js_push_str(options->pairs, whole);
	return config_add_option(options->config, option, whole, err);
}

static int take_option(struct options *options, const struct option_spec *spec,
		       const char *value, struct error *err)
{
	const char **text = text_field(options, spec->name);
	bool *flag = flag_field(options, spec->name);

	if (!spec->value && flag) {
		*flag = true;
		return 0;
	}
	if (spec->config || strcmp(spec->name, "-c") == 0)
		return set_pair(options, spec->name, spec->config, value, err);
	if (!text)
		abort(); /* an option in the table of main.c that has no field here */
	*text = value;
	return 0;
}

static int no_option(const struct command *command, const char *word, struct error *err)
{
	char *name AUTO_FREE = mem_strndup(word, strcspn(word, "="));

	error_set(err, ERROR_USAGE, "agent %s has no option %s", command->name, word);
	for (const struct option_spec *spec = command->options; spec->name; spec++)
		if (strlen(spec->name) > 2 && text_is_slip(name, spec->name))
			return error_next(err,
					  "did you mean %s? agent %s --help lists its options",
					  spec->name, command->name);
	return error_next(err, "agent %s --help lists its options", command->name);
}

static int parse_words(struct options *options, int argc, char **argv, struct error *err)
{
	const struct command *command = options->command;

	for (int i = 0; i < argc; i++) {
		const char *word = argv[i], *equals = strchr(word, '=');
		const struct option_spec *spec;
		bool joined = word[0] == '-' && word[1] == '-' && equals;

		if (strcmp(word, "--") == 0) {
			if (command->takes_command) {
				options->argv = argv + i + 1;
				return 0;
			}
			while (++i < argc)
				options->words[options->word_count++] = argv[i];
			return 0;
		}
		if (word[0] != '-' || !word[1]) {
			options->words[options->word_count++] = argv[i];
			continue;
		}
		if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
			options->help = true;
			continue;
		}
		spec =
		    find_option(command, word, joined ? (size_t)(equals - word) : strlen(word));
		if (!spec || (joined && !spec->value)) {
			return no_option(command, word, err);
		}
		if (spec->value && !joined && i + 1 >= argc)
			return error_set(err, ERROR_USAGE, "%s needs %s behind it", word,
					 spec->value);
		if (take_option(options, spec,
				!spec->value ? NULL : (joined ? equals + 1 : argv[++i]), err))
			return err->kind;
	}
	return 0;
}

int options_parse(const struct command *command, int argc, char **argv, struct options *options,
		  struct error *err)
{
	memset(options, 0, sizeof(*options));
	options->command = command;
	options->config = config_new();
	options->pairs = js_array_new();
	options->words = mem_calloc((size_t)argc + 1, sizeof(*options->words));
	if (parse_words(options, argc, argv, err) || options->help)
		return err->kind;
	if (options->directory && chdir(options->directory) < 0)
		return error_errno(err, ERROR_USAGE, errno, "-C %s", options->directory);
	if (config_add_operator(options->config, err) && command->judges_config) {
		options->config_error = *err;
		memset(err, 0, sizeof(*err));
	}
	return err->kind;
}

void options_release(struct options *options)
{
	config_free(options->config);
	js_free(options->pairs);
	free(options->words);
	memset(options, 0, sizeof(*options));
}

#define HELP_WIDTH 80
#define HELP_COLUMN 27

void options_print_help(const struct command *command)
{
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&out, STRBUF_MAX);
	strbuf_addf(&out, "usage: agent %s %s\n\n%s\n", command->name, command->usage,
		    command->help);
	if (command->options->name)
		strbuf_adds(&out, "\noptions:\n");
	for (const struct option_spec *spec = command->options; spec->name; spec++) {
		char left[64];

		snprintf(left, sizeof(left), "%s%s%s", spec->name, spec->value ? " " : "",
			 spec->value ? spec->value : "");
		strbuf_addf(&out, "  %-24s ", left);
		strbuf_add_wrapped(&out, spec->help, HELP_COLUMN, HELP_COLUMN, HELP_WIDTH);
		strbuf_addc(&out, '\n');
	}
	fputs(out.data, stdout);
}
