/* agent audit [RUN | --config]: all that crossed a boundary of a run, as it was applied. */
#include "agent.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/audit.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/fds.h"
#include "pipeline/scope.h"
#include "pipeline/stages.h"

#define EVENTS_MAX ((size_t)64 << 20)
#define EVENT_MAX 65536
#define STAGES_MAX 1000 /* starts of rows that are told */

/* ---- stages: what the table gives to the row, and what this start of it got ---- */

static const char *use_text(enum path_use use)
{
	return use == PATH_READ ? "read" : use == PATH_WRITE ? "write" : "execute";
}

static bool holds(const struct json *list, const char *text)
{
	for (size_t i = 0; i < js_len(list); i++)
		if (js_text(js_at(list, i)) && strcmp(js_text(js_at(list, i)), text) == 0)
			return true;
	return false;
}

/* The row's paths, those of the job filled in. paths: NULL when there is no job. */
static struct json *stage_paths(const struct stage_row *row, const struct json *paths)
{
	struct json *list = js_array_new();

	for (const struct stage_path *path = row->paths; path->name; path++) {
		char *key AUTO_FREE = NULL, *text AUTO_FREE = NULL;
		const char *place = path->name;

		if (path->name[0] == '{') {
			key = mem_strndup(path->name + 1, strlen(path->name) - 2);
			place = paths ? js_str(paths, key, NULL) : path->name;
		}
		if (!place)
			continue; /* this job had none */
		text = mem_printf("%s %s", use_text(path->use), place);
		if (!holds(list, text)) /* two names of the job may mean one place */
			js_push_str(list, text);
	}
	return list;
}

static struct json *stage_entry(const struct stage_row *row, const struct json *descriptors,
				const struct json *paths)
{
	struct json *entry = js_object_new(), *env = js_array_new(), *children = js_array_new();
	struct json *fds = descriptors ? js_copy(descriptors) : js_array_new();
	char *net AUTO_FREE =
	    mem_printf("%s%s%s", stage_net_text(row->net), row->net_what ? ": " : "",
		       row->net_what ? row->net_what : "");

	for (const struct stage_env *var = row->env; var->name; var++) {
		char *pair AUTO_FREE = mem_printf("%s=%s", var->name, var->value);

		js_push_str(env, pair);
	}
	for (const char *const *child = row->children; *child; child++)
		js_push_str(children, *child);
	for (const int *fd = row->fds; !descriptors && *fd >= 0; fd++)
		js_push_str(fds, stage_fd_text(*fd));
	js_set_str(entry, "row", row->name);
	js_set_str(entry, "network", net);
	if (row->secret != SECRET_NONE && descriptors && !holds(fds, stage_fd_text(FD_SECRET)))
		js_set_str(entry, "secret", "none was given");
	else
		js_set_str(entry, "secret", stage_secret_text(row->secret));
	js_set(entry, "descriptors", fds);
	js_set(entry, "environment", env);
	js_set(entry, "paths", stage_paths(row, paths));
	js_set(entry, "children", children);
	return entry;
}

static const struct stage_row *row_named(const char *name)
{
	for (int id = 0; id < STAGE_COUNT; id++)
		if (strcmp(stage_row((enum stage_id)id)->name, name) == 0)
			return stage_row((enum stage_id)id);
	return NULL;
}

/* One line of events.jsonl; the file is ours, but a stage's words are in it. */
static void add_start(struct json *stages, const char *line, size_t len)
{
	struct error ignored = {0};
	struct json *event AUTO_JSON = js_parse(line, len, EVENT_MAX, "event", &ignored);
	const struct stage_row *row;

	if (!event || strcmp(js_str(event, "event", ""), "started") != 0 ||
	    js_len(stages) >= STAGES_MAX)
		return;
	row = row_named(js_str(event, "row", ""));
	if (row)
		js_push(stages,
			stage_entry(row, js_get(event, "descriptors"), js_get(event, "paths")));
}

static struct json *stages_of_run(const struct rundir *dir, struct error *err)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	struct json *stages AUTO_JSON = js_array_new();

	strbuf_init(&text, EVENTS_MAX);
	if (fd_read_file(dir->fd, "events.jsonl", &text, err))
		return NULL;
	for (const char *line = text.data; *line;) {
		size_t len = strcspn(line, "\n");

		add_start(stages, line, len);
		line += len + (line[len] == '\n');
	}
	return MEM_STEAL(stages);
}

static struct json *stages_of_table(void)
{
	struct json *stages = js_array_new();

	for (int id = 0; id < STAGE_COUNT; id++)
		js_push(stages, stage_entry(stage_row((enum stage_id)id), NULL, NULL));
	return stages;
}

/* ---- text ---- */

/* Escaped; short ones in one line, paths one a line. */
static void print_list(struct strbuf *out, const char *label, const struct json *list,
		       const char *between)
{
	strbuf_addf(out, "  %-12s", label);
	for (size_t i = 0; i < js_len(list); i++) {
		char shown[8192];
		const char *text = js_text(js_at(list, i)) ? js_text(js_at(list, i)) : "?";

		text_escape(shown, sizeof(shown), text, strlen(text));
		strbuf_addf(out, "%s%s", i ? between : "", shown);
	}
	strbuf_adds(out, js_len(list) ? "\n" : "none\n");
}

static void print_stages(struct strbuf *out, const struct json *stages)
{
	for (size_t i = 0; i < js_len(stages); i++) {
		const struct json *stage = js_at(stages, i);

		strbuf_addf(out, "\n%s\n  network     %s\n  secret      %s\n",
			    js_str(stage, "row", "?"), js_str(stage, "network", "?"),
			    js_str(stage, "secret", "?"));
		print_list(out, "descriptors", js_get(stage, "descriptors"), ", ");
		print_list(out, "environment", js_get(stage, "environment"), ", ");
		print_list(out, "paths", js_get(stage, "paths"), "\n              ");
		print_list(out, "may run", js_get(stage, "children"), ", ");
	}
}

static void print_text(struct json *report, struct strbuf *out)
{
	struct json *audit;
	void *iter = NULL;
	const char *name;

	while ((name = js_next(js_get(report, "jails"), &iter, &audit))) {
		strbuf_addf(out, "==== jail: %s ====\n", name);
		audit_print(audit, out);
		strbuf_addc(out, '\n');
	}
	strbuf_addf(out, "==== stages: %s ====\n",
		    js_str(report, "run", NULL)
			? "each start of one in this run; a stage refuses to work with other "
			  "descriptors or another environment"
			: "the table; {…} is filled in by a run");
	print_stages(out, js_get(report, "stages"));
}

static int print_report(const struct options *options, struct json *report, struct error *err)
{
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&out, STRBUF_MAX);
	if (options->json) {
		js_format_ascii(report, &out);
		strbuf_addc(&out, '\n');
	} else {
		print_text(report, &out);
	}
	if (fd_write_all(STDOUT_FILENO, out.data, out.len) < 0)
		return error_errno(err, ERROR_FAILED, errno, "standard output");
	return 0;
}

/* ---- which ---- */

/* 1 added, 0 there is none, or an error kind. */
static int add_jail(const struct rundir *dir, const char *file, const char *name,
		    struct json *jails, struct error *err)
{
	struct json *audit = rundir_read(dir, file, "audit", AUDIT_MAX, err);

	if (!audit)
		return err->kind;
	js_set(jails, name, audit);
	return 1;
}

static int add_round(const struct rundir *dir, const struct options *options,
		     struct json *jails, struct error *err)
{
	long long wanted = 0;
	int found = 0;

	if (options->round &&
	    (text_parse_size(options->round, RUN_ROUNDS_MAX, &wanted) < 0 || !wanted))
		return error_set(err, ERROR_USAGE, "--round %s is not the number of a round",
				 options->round);
	for (int round = wanted ? (int)wanted : RUN_ROUNDS_MAX; round > 0 && !found; round--) {
		char *file AUTO_FREE = round_file(round, "audit.json");
		char *name AUTO_FREE = round_file(round, "test");

		found = add_jail(dir, file, name, jails, err);
		if (wanted)
			break;
	}
	if (wanted && !found)
		return error_set(err, ERROR_USAGE, "run %s: no test of round %lld was started",
				 dir->id, wanted);
	return found < 0 ? found : 0;
}

static int of_run(const struct options *options, struct json *report, struct error *err)
{
	char *state AUTO_FREE = rundir_state_dir(err);
	struct json *jails = js_object_new(), *stages = NULL;
	struct rundir dir;
	int result = 0;

	js_set(report, "jails", jails);
	if (!state)
		return err->kind;
	if (rundir_open(state, options->word_count ? options->words[0] : NULL, false, &dir,
			err) == 0) {
		js_set_str(report, "run", dir.id);
		result = add_jail(&dir, "fetch/audit-warm.json", "fetch/warm", jails, err);
		if (result >= 0)
			result = add_jail(&dir, "fetch/audit-verify.json", "fetch/verify",
					  jails, err);
		if (result >= 0)
			result = add_round(&dir, options, jails, err);
		if (result >= 0 && (stages = stages_of_run(&dir, err)))
			js_set(report, "stages", stages);
	}
	rundir_release(&dir);
	return err->kind ? err->kind : result < 0 ? result : 0;
}

static int of_config(const struct options *options, struct json *report, struct error *err)
{
	struct json *jails = js_object_new(), *audit = NULL;
	struct error no_place = {0};

	js_set(report, "jails", jails);
	js_set_str(report, "run", NULL);
	js_set(report, "stages", stages_of_table());
	scope_enter(
	    &no_place); /* as a run does; where there is none, the jail says what that means */
	if (jail_audit(options, &audit, err)) {
		js_free(audit);
		return err->kind;
	}
	if (!audit)
		return error_set(err, ERROR_FAILED, "the jail did not tell what it was given");
	js_set(jails, "test", audit);
	return 0;
}

int cmd_audit(struct options *options, struct error *err)
{
	struct json *report AUTO_JSON = js_artefact_new("audit-report", 1);

	if (options->word_count > 1 || (options->for_config && options->word_count)) {
		error_set(err, ERROR_USAGE, "agent audit takes one run, or --config");
		return error_next(err, "agent show lists the runs");
	}
	if (options->for_config && options->round)
		return error_set(err, ERROR_USAGE, "--round is of a run, not of --config");
	if (options->for_config ? of_config(options, report, err)
				: of_run(options, report, err))
		return err->kind;
	return print_report(options, report, err);
}
