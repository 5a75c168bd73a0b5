/* agent help [TOPIC [table]]: tables, printed for a terminal of 80 columns, or as the README and agent(1) have them, with which a test
 * compares them. */
#include "agent.h"

#include <stdio.h>
#include <stdlib.h>
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

static const struct topic {
	const char *name;
	void (*print)(struct strbuf *out);
	bool table;
} topics[] = {{"config", config_print_table, true},
	      {"stages", stage_print_table, true},
	      {"hooks", hook_rules_print_table, true},
	      {"protect", print_protected},
	      {"exit", print_exit, true}};

/* ---- a table for people ---- */

#define WIDTH 80
#define CELLS_MAX 8

/* "| a | `b` | |": each without its quotes, new; how many. */
static size_t take_cells(const char *line, size_t len, char *cells[CELLS_MAX])
{
	const char *end = line + len, *p = line + 1;
	size_t count = 0;

	while (p < end && count < CELLS_MAX) {
		const char *bar = memchr(p, '|', (size_t)(end - p));
		struct strbuf cell;

		if (!bar)
			break;
		strbuf_init(&cell, STRBUF_MAX);
		for (const char *last = bar; p < bar; p++)
			if (*p != '`' && !(*p == ' ' && (!cell.len || p + 1 == last)))
				strbuf_addc(&cell, *p);
		cells[count++] = mem_strndup(cell.len ? cell.data : "", cell.len);
		strbuf_release(&cell);
		p = bar + 1;
	}
	return count;
}

static void release_cells(char *cells[CELLS_MAX], size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(cells[i]);
}

/* What the row is about, and below it what the columns say of it. */
static void print_row(char *const heads[], char *const cells[], size_t count,
		      struct strbuf *out)
{
	bool short_one = count == 2;

	strbuf_addf(out, short_one ? "%-5s " : "%s\n", cells[0]);
	for (size_t i = 1; i < count; i++) {
		bool plain = strcmp(heads[i], "meaning") == 0 || strcmp(heads[i], "does") == 0;
		char *text AUTO_FREE =
		    mem_printf("%s%s%s", plain ? "" : heads[i], plain ? "" : ": ", cells[i]);

		if (!cells[i][0])
			continue;
		if (!short_one)
			strbuf_adds(out, "      ");
		strbuf_add_wrapped(out, text, 6, 6, WIDTH);
		strbuf_addc(out, '\n');
	}
}

static void print_for_people(const char *table, struct strbuf *out)
{
	char *heads[CELLS_MAX], *cells[CELLS_MAX];
	size_t columns = 0;

	for (const char *next; *table; table = next) {
		size_t len = strcspn(table, "\n"), count;

		next = table + len + (table[len] != '\0');
		if (*table != '|') {
			char *text AUTO_FREE = mem_strndup(table, len);

			strbuf_add_wrapped(out, text, 0, 0, WIDTH);
			strbuf_addc(out, '\n');
		} else if (!columns) {
			columns = take_cells(table, len, heads);
		} else if (table[1] != '-') {
			count = take_cells(table, len, cells);
			if (count == columns)
				print_row(heads, cells, count, out);
			release_cells(cells, count);
		}
	}
	release_cells(heads, columns);
}

static void print_topic(const struct topic *topic, bool as_table, struct strbuf *out)
{
	struct strbuf table AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&table, STRBUF_MAX);
	topic->print(topic->table ? &table : out);
	if (as_table)
		strbuf_adds(out, table.data);
	else if (topic->table)
		print_for_people(table.data, out);
}

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
	bool table = options->word_count == 2 && strcmp(options->words[1], "table") == 0;

	strbuf_init(&out, STRBUF_MAX);
	if (options->word_count > (table ? 2 : 1))
		return error_set(err, ERROR_USAGE, "agent help takes one topic, or none");
	if (!topic) {
		help_print_overview(stdout);
		return 0;
	}
	if (command_find(topic) && !table) {
		options_print_help(command_find(topic));
		return 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(topics); i++)
		if (strcmp(topics[i].name, topic) == 0 && (topics[i].table || !table)) {
			print_topic(&topics[i], table, &out);
			fputs(out.data, stdout);
			return 0;
		}
	help_topics(&out);
	error_set(err, ERROR_USAGE, table ? "no table of %s" : "no help on %s", topic);
	return error_next(err, "topics: %.*s", (int)out.len - 1, out.data);
}
