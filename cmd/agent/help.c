/* agent help [TOPIC]: what is printed here is compared with the README and agent(1) by a test.
 */
#include "agent.h"

#include <stdio.h>
#include <string.h>

#include "gitops/policy_defaults.h"
#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/hookrules.h"
#include "pipeline/stages.h"

static const char exit_statuses[] =
    "| status | meaning |\n|---|---|\n"
    "| 0 | done |\n"
    "| 1 | a clean \"no\": tests red, change or push refused |\n"
    "| 2 | usage, or bad input |\n"
    "| 3 | skipped: nothing to do, already running |\n"
    "| 4 | failed outside the change: provider, remote, disk, internal; the run is saved |\n"
    "| 75 | try again later |\n"
    "| 125 | isolation not available: nothing untrusted was started |\n"
    "| 130 | interrupted |\n"
    "\n`agent jail` ends with the command's own status; 125, 126, 127, 128+n as env(1) and "
    "sh(1).\n";

void help_print_overview(FILE *out)
{
	fprintf(out, "usage: agent COMMAND [options] …\n       agent --version\n\ncommands:\n");
	for (size_t i = 0; command_at(i); i++)
		fprintf(out, "  %-10s %s\n", command_at(i)->name, command_at(i)->help);
	fprintf(
	    out,
	    "\nagent COMMAND --help lists the options of a command; agent(1) is the manual.\n");
}

/* As apply.protect takes them: a copy of the list is a configuration. */
static void print_protected(struct strbuf *out)
{
	size_t count;
	const char *const *rules = policy_defaults(&count);

	strbuf_adds(out, "[apply]\n");
	for (size_t i = 0; i < count; i++)
		strbuf_addf(out, "\tprotect = %s\n", rules[i]);
}

static void print_exit(struct strbuf *out)
{
	strbuf_adds(out, exit_statuses);
}

static const struct {
	const char *name;
	void (*print)(struct strbuf *out);
} topics[] = {{"config", config_print_table},
	      {"stages", stage_print_table},
	      {"hooks", hook_rules_print_table},
	      {"protect", print_protected},
	      {"exit", print_exit}};

void help_topics(struct strbuf *out)
{
	for (size_t i = 0; i < ARRAY_LEN(topics); i++)
		strbuf_addf(out, "%s ", topics[i].name);
	for (size_t i = 0; command_at(i); i++)
		strbuf_addf(out, "%s ", command_at(i)->name);
}

int cmd_help(struct options *options, struct error *err)
{
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;
	const char *topic = options->word_count ? options->words[0] : NULL;

	strbuf_init(&out, STRBUF_MAX);
	if (options->word_count > 1)
		return error_set(err, ERROR_USAGE, "agent help takes one topic, or none");
	if (!topic) {
		help_print_overview(stdout);
		return 0;
	}
	if (command_find(topic)) {
		options_print_help(command_find(topic));
		return 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(topics); i++)
		if (strcmp(topics[i].name, topic) == 0) {
			topics[i].print(&out);
			fputs(out.data, stdout);
			return 0;
		}
	help_topics(&out);
	error_set(err, ERROR_USAGE, "no help on %s", topic);
	return error_next(err, "topics: %s", out.data);
}
