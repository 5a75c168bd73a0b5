/* The change step of a run that a command makes, in place of the model's: agent-change lays out the base, starts
 * the jail and takes what the command changed there. No model is asked, no key is read. */
#include "agent.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/fds.h"
#include "pipeline/fetch/plan.h"
#include "pipeline/fetch/store.h"
#include "pipeline/jailtested.h"
#include "sandbox/jail_spec.h"

extern char **environ;

#define LAYOUT_SLACK_S 1500 /* laying out the base, and reading what changed */
#define LOG_MAX ((size_t)1 << 30)

const char *run_change_command(const struct run *run)
{
	const struct json *change = js_get(run->request, "change");

	return change ? js_str(change, "command", "") : NULL;
}

static bool wants_network(const struct run *run)
{
	return strcmp(js_str(js_get(run->request, "change"), "network", "none"),
		      "registries") == 0;
}

int run_check_change(const struct run *run, struct error *err)
{
	const char *permitted = config_get(run->config, "command.network");

	if (!wants_network(run) || strcmp(permitted, "registries") == 0)
		return 0;
	error_set(err, ERROR_USAGE,
		  "the command asks for the network of the registries, which the operator does "
		  "not permit (%s: command.network = %s)",
		  config_origin(run->config, "command.network"), permitted);
	return error_next(err, "set command.network = registries in the operator "
			       "configuration, after a look at the command");
}

struct change_files {
	int out, log, spec, egress, facts[2];
	struct jailtested tested;
	struct json *egress_job; /* owned; NULL: no network */
	unsigned egress_s;
};

static void close_files(struct change_files *files)
{
	fd_close_ptr(&files->out);
	fd_close_ptr(&files->log);
	fd_close_ptr(&files->spec);
	fd_close_ptr(&files->egress);
	js_free(files->egress_job);
	fd_close_ptr(&files->facts[0]);
	fd_close_ptr(&files->facts[1]);
}

/* The spec of the jail; with the registries' network, what agent-egress is told. */
static int plan(struct run *run, const char *scratch, struct jail_spec *spec,
		struct change_files *files, struct error *err)
{
	const bool network = wants_network(run);
	const struct fetch_request request = {.config = run->config,
					      .base = run->base,
					      .state = run->dir.state,
					      .run_id = run->dir.id,
					      .trust = run->repo.common_dir,
					      .work_tree = run->repo.work_dir,
					      .env = environ};

	/* Offline switches are for jails that are. */
	if (jailplan_change(run->config, run->dir.state, scratch,
			    network ? FETCH_NONE : run->recipe, run_change_command(run), spec,
			    err))
		return err->kind;
	spec->audit = true;
	spec->separate_uid = run->separate_uid;
	if (!network)
		return 0;
	return store_prepare(run->dir.state, STAGE_UID_BASE + STAGE_FETCH, err)
		   ? err->kind
		   : fetch_plan_command(&request, spec, &files->egress_job, &files->egress_s,
					err);
}

static int open_files(struct run *run, int round, const char *scratch,
		      struct change_files *files, struct error *err)
{
	char *out AUTO_FREE = round_file(round, "changes.json");
	char *log AUTO_FREE = round_file(round, "command.log");
	struct jail_spec spec;
	int result;

	files->out = rundir_part(&run->dir, out, err);
	files->log = files->out < 0 ? -1 : rundir_part(&run->dir, log, err);
	if (files->log < 0 || jailplan_stream(files->facts, err))
		return err->kind;
	jail_spec_init(&spec);
	result = plan(run, scratch, &spec, files, err);
	if (result == 0) {
		jailtested_look(run->dir.state, &spec, &files->tested);
		files->spec = jailplan_memfd(&spec, err);
	}
	jail_spec_release(&spec);
	return files->spec < 0 ? err->kind : 0;
}

static struct json *change_job(const struct run *run, const char *scratch)
{
	struct json *job = test_job(run, scratch, NULL, run_base(run, "tree"));
	struct json *limits = js_object_new();

	js_set_str(job, "command", run_change_command(run));
	js_set_str(job, "network", wants_network(run) ? "registries" : "none");
	js_set_int(limits, "files", config_number(run->config, "apply.maxFiles"));
	js_set_int(limits, "bytes", config_number(run->config, "apply.maxBytes"));
	js_set(job, "limits", limits);
	return job;
}

/* The stage's own result waits until the exit facts are known: they say more. */
static int run_stage(struct run *run, const struct json *job, struct change_files *files,
		     struct jail_facts *facts, struct json **audit, struct error *stage_err,
		     struct error *err)
{
	struct supervised stage = {0};
	const struct spawn_fd fds[] = {{FD_OUT, files->out},
				       {FD_LOG, files->log},
				       {FD_SPEC, files->spec},
				       {FD_FACTS, files->facts[1]},
				       {FD_EGRESS, files->egress}};
	unsigned wall_s =
	    (unsigned)config_number(run->config, "command.timeout") + LAYOUT_SLACK_S;
	int result = supervise_start(&run->sup, &stage, STAGE_CHANGE, job, fds,
				     ARRAY_LEN(fds) - (files->egress < 0), wall_s, NULL, NULL,
				     stage_err);

	fd_close_ptr(&files->facts[1]);
	fd_close_ptr(&files->egress);
	files->facts[1] = files->egress = -1;
	if (result == 0)
		result = supervise_wait(&run->sup, &stage, stage_err);
	supervise_end(&run->sup, &stage);
	if (result == ERROR_INTERRUPTED) {
		*err = *stage_err;
		return result;
	}
	result = jailplan_read_facts(&run->sup, files->facts[0], facts, audit, err);
	if (result && stage_err->kind)
		*err = *stage_err; /* it never came to a jail */
	if (result == 0)
		jailtested_keep(run->dir.state, &files->tested, facts);
	return err->kind;
}

/* The stage, with agent-egress beside it where the command has a network. */
static int run_both(struct run *run, const struct json *job, struct change_files *files,
		    struct egress *egress, struct jail_facts *facts, struct json **audit,
		    struct error *stage_err, struct error *err)
{
	int result = 0;

	if (files->egress_job)
		result = egress_begin(run, egress, files->egress_job, files->egress_s,
				      &files->egress, err);
	if (result == 0)
		result = run_stage(run, job, files, facts, audit, stage_err, err);
	if (files->egress_job)
		egress_end(run, egress);
	return result;
}

/* Which hosts it was denied, and the line that would admit them. */
static void explain(const struct egress *egress, struct error *err)
{
	struct fetch_plan as_plan = {.recipe = FETCH_NONE};

	jail_spec_add_arg(&as_plan.warm, "it");
	fetch_explain(&as_plan, egress->decisions, "", 0, err);
	jail_spec_release(&as_plan.warm);
}

/* 0, or ERROR_NO for a command that did not exit with 0. */
static int judge(struct run *run, int round, const struct jail_facts *facts, struct error *err)
{
	const char *command = run_change_command(run);
	char *log AUTO_FREE = round_file(round, "command.log");
	char text[512];

	if (jailplan_judge(facts, command, err))
		return err->kind;
	if (rundir_accept(&run->dir, log, LOG_MAX, true, err))
		return err->kind;
	if (facts->outcome == JAIL_EXITED && facts->value == 0)
		return 0;
	jailplan_describe(facts, text, sizeof(text));
	journal_done(&run->journal, "failed: %s", text);
	step_show_tail(run, log);
	error_set(err, ERROR_NO, "the command failed: %s", text);
	return error_next(err, "%s/%s has its output; agent resume %s tries again",
			  run->dir.path, log, run->dir.id);
}

static int tell_change(struct run *run, int round, struct error *err)
{
	char *name AUTO_FREE = round_file(round, "changes.json");
	struct json *changes AUTO_JSON =
	    rundir_read(&run->dir, name, "changes", CHANGES_MAX, err);
	const struct json *left_out = js_get(changes, "left_out");
	size_t files = js_len(js_get(changes, "files"));

	if (!changes)
		return err->kind;
	if (!files)
		return error_set(err, ERROR_SKIPPED,
				 "nothing to do: the command changed nothing");
	if (run->journal.stage[0])
		journal_done(&run->journal, "%zu file%s changed by the command%s", files,
			     files == 1 ? "" : "s",
			     wants_network(run) ? ", which had the registries' network" : "");
	for (size_t i = 0; i < js_len(left_out); i++)
		journal_note(&run->journal, "           left out: %s is no file",
			     js_text(js_at(left_out, i)));
	return 0;
}

static int make_change(struct run *run, int round, struct error *err)
{
	char *name AUTO_FREE = round_file(round, "changes.json");
	char *audit_name AUTO_FREE = round_file(round, "audit-command.json");
	char *scratch_name AUTO_FREE = round_file(round, "command"), *scratch AUTO_FREE = NULL;
	struct json *job AUTO_JSON = NULL, *audit AUTO_JSON = NULL;
	struct change_files files = {-1, -1, -1, -1, {-1, -1}, {""}, NULL, 0};
	struct egress egress = {.run = run};
	struct jail_facts facts = {0};
	struct error stage_err = {0};
	int result;

	scratch = rundir_subdir(&run->dir, scratch_name, err);
	if (!scratch || rundir_give(scratch, STAGE_UID_BASE + STAGE_CHANGE, err))
		return err->kind;
	job = change_job(run, scratch);
	result = open_files(run, round, scratch, &files, err);
	if (result == 0)
		result = run_both(run, job, &files, &egress, &facts, &audit, &stage_err, err);
	close_files(&files);
	if (result == 0 && audit)
		result = rundir_write(&run->dir, audit_name, audit, err);
	/* The jail saw its starter end; the starter knows why. */
	if (result == 0 && stage_err.kind && facts.outcome == JAIL_INTERNAL) {
		*err = stage_err;
		result = err->kind;
	}
	if (result == 0)
		result = judge(run, round, &facts, err);
	if (result == ERROR_NO)
		explain(&egress, err);
	js_free(egress.decisions);
	if (result == 0 && stage_err.kind) {
		*err = stage_err;
		result = err->kind;
	}
	return result ? result : rundir_accept(&run->dir, name, CHANGES_MAX, false, err);
}

int step_change(struct run *run, int round, struct error *err)
{
	char *name AUTO_FREE = round_file(round, "changes.json");

	if (!rundir_has(&run->dir, name)) {
		journal_stage(&run->journal, "change", run_change_command(run));
		if (make_change(run, round, err))
			return err->kind;
	}
	return tell_change(run, round, err);
}
