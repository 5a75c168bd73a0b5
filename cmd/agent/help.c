/* agent help [TOPIC]: what is printed here is compared with the README and agent(1) by a test.
 */
#include "agent.h"

#include <stdio.h>
#include <string.h>

#include "gitops/policy_defaults.h"
#include "pipeline/base/error.h"
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

static void print_overview(void)
{
	printf("usage: agent COMMAND [options] …\n       agent --version\n\ncommands:\n");
	for (size_t i = 0; command_at(i); i++)
		printf("  %-9s %s\n", command_at(i)->name, command_at(i)->help);
	printf(
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

int cmd_help(struct options *options, struct error *err)
{
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;
	const char *topic = options->word_count ? options->words[0] : NULL;
	const struct command *command = topic ? command_find(topic) : NULL;

	strbuf_init(&out, STRBUF_MAX);
	if (!topic)
		print_overview();
	else if (command)
		options_print_help(command);
	else if (strcmp(topic, "config") == 0)
		config_print_table(&out);
	else if (strcmp(topic, "stages") == 0)
		stage_print_table(&out);
	else if (strcmp(topic, "exit") == 0)
		strbuf_adds(&out, exit_statuses);
	else if (strcmp(topic, "hooks") == 0)
		hook_rules_print_table(&out);
	else if (strcmp(topic, "protect") == 0)
		print_protected(&out);
	else {
		error_set(err, ERROR_USAGE, "no help on %s", topic);
		return error_next(
		    err, "topics: config, stages, hooks, protect, exit, and each command");
	}
	fputs(out.data, stdout);
	return 0;
}
