/*
 * A run from its request to its end. The order of steps is run_go; what is done is told by the
 * files of the run directory, so that a run, a resumed run and a run killed in between are the
 * same code.
 */
#include "agent.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/secret.h"

extern char **environ;

/* ---- opening ---- */

void run_release(struct run *run)
{
	step_status_end(run);
	supervise_release(&run->sup);
	journal_release(&run->journal);
	config_free(run->config);
	repository_release(&run->repo);
	ledger_close(run->ledger);
	js_free(run->request);
	js_free(run->base);
	js_free(run->remote);
	free(run->deps_key);
	fd_close_ptr(&run->deps_lock);
	layer_stack_release(&run->layers);
	free(run->remote_url);
	fd_close_ptr(&run->key_fd);
	rundir_release(&run->dir);
}

/* Variables that the configuration names, well known or not, leave the environment before
 * anything is started (law L2), long before the row that needs them. */
static void adopt_named_secrets(const struct config *config)
{
	static const char *const keys[] = {
	    "model.key",       "publish.token",	   "publish.sshKey",	  "publish.signingKey",
	    "forge.readToken", "forge.writeToken", "http.proxyCredential"};

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const char *source = config_get(config, keys[i]);

		if (source && strncmp(source, "env:", 4) == 0)
			secret_adopt_env(environ, source + 4);
	}
}

/* What a maintenance task narrows, if it is one. */
static int narrow_config(struct run *run, struct error *err)
{
	static const char *const limits[] = {
	    "run.rounds",     "budget.runTokens", "model.turns",    "apply.maxFiles",
	    "apply.maxBytes", "test.timeout",	  "command.timeout"};
	const struct json *task = js_get(run->request, "maintenance");
	const char *origin = js_str(task, "origin", "task");

	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		long long most = js_int(js_get(task, "limits"), limits[i], 0);
		char *value AUTO_FREE = mem_printf("%lld", most);

		if (most && config_narrow(run->config, limits[i], value, origin, err))
			return err->kind;
	}
	return 0;
}

/* The run's own -c pairs below those of this command line. */
static int merge_config(struct run *run, struct options *options, struct error *err)
{
	struct json *pairs = js_get(run->request, "pairs");

	run->config = config_new();
	if (config_add_operator(run->config, err))
		return err->kind;
	for (size_t i = 0; i < js_len(pairs); i++)
		if (config_add_pair(run->config, js_text(js_at(pairs, i)), err))
			return err->kind;
	for (size_t i = 0;
	     options->command != command_find("run") && i < js_len(options->pairs); i++)
		if (config_add_pair(run->config, js_text(js_at(options->pairs, i)), err))
			return err->kind;
	adopt_named_secrets(run->config);
	return narrow_config(run, err);
}

int run_open(struct run *run, struct options *options, struct error *err)
{
	run->key_fd = run->deps_lock = -1;
	run->request = rundir_read(&run->dir, "request.json", "request", REQUEST_MAX, err);
	if (!run->request) {
		if (!err->kind)
			error_set(err, ERROR_USAGE,
				  "run %s has no request: it was stopped before it began",
				  run->dir.id);
		return err->kind;
	}
	journal_init(&run->journal, options->json);
	if (journal_open(&run->journal, &run->dir, err) || merge_config(run, options, err) ||
	    supervise_init(&run->sup, &run->journal, err) ||
	    repository_find(js_str(run->request, "repository", "."), &run->repo, err))
		return err->kind;
	if (js_bool(run->request, "separate_uid", false))
		run->separate_uid = true;
	run->ledger = ledger_open(run->dir.state, err);
	return run->ledger ? 0 : err->kind;
}

/* ---- the steps in order ---- */

const char *run_base(const struct run *run, const char *key)
{
	return js_str(run->base, key, "");
}

const char *run_ref(const struct run *run)
{
	return js_str(run->request, "ref", "");
}

const char *run_branch(const struct run *run)
{
	const char *ref = run_ref(run);

	return strncmp(ref, "refs/heads/", 11) == 0 ? ref + 11 : ref;
}

char *round_file(int round, const char *name)
{
	return mem_printf("round-%d/%s", round, name);
}

/* Between two steps: whether a worker has asked for the end of it (agent work). */
static int check_stop(struct run *run, struct error *err)
{
	if (unlinkat(run->dir.fd, RUN_STOP_FILE, 0) < 0)
		return 0;
	return error_set(err, ERROR_INTERRUPTED, "stopped between two steps, as asked");
}

/* One round: 1 green, 0 red (feedback set), or an error kind. */
static int go_round(struct run *run, int round, char **feedback, struct error *err)
{
	char *dir_name AUTO_FREE = mem_printf("round-%d", round), *dir AUTO_FREE = NULL;
	bool green = false;
	int result;

	dir = rundir_subdir(&run->dir, dir_name, err);
	if (!dir)
		return err->kind;
	result = check_stop(run, err);
	if (result == 0)
		result = run_change_command(run) ? step_change(run, round, err)
						 : step_model(run, round, *feedback, err);
	if (result == 0)
		result = check_stop(run, err);
	if (result == 0)
		result = step_edit(run, round, err);
	if (result == 0)
		result = step_test(run, round, &green, err);
	free(*feedback);
	*feedback = NULL;
	if (result == ERROR_NO && err->message[0] && rundir_has(&run->dir, "base.json")) {
		char *changes AUTO_FREE = round_file(round, "changes.json");

		/* Refused by the edit stage: the model may mend it. No change at all is its
		 * last word. */
		if (!rundir_has(&run->dir, changes))
			return result;
		*feedback =
		    mem_printf("The change was refused before it was tested: %s", err->message);
		return 0;
	}
	if (result)
		return result;
	if (!green)
		*feedback = step_feedback(run, round);
	return green;
}

static int go_rounds(struct run *run, int *green_round, struct error *err)
{
	long long wanted = config_number(run->config, "run.rounds");
	int rounds = (int)(wanted < RUN_ROUNDS_MAX ? wanted : RUN_ROUNDS_MAX);
	char *feedback AUTO_FREE = NULL;

	if (run_change_command(run))
		rounds = 1; /* it would make the same change again */
	for (int round = 1; round <= rounds; round++) {
		struct error refused = {0};
		int result = go_round(run, round, &feedback, &refused);

		if (result == 1) {
			*green_round = round;
			return 0;
		}
		if (result < 0) {
			*err = refused;
			return result;
		}
		if (round == rounds && refused.kind == ERROR_NO) {
			*err = refused;
			return err->kind;
		}
	}
	if (run_change_command(run)) {
		error_set(err, ERROR_NO, "the tests are red with what the command changed");
		return error_next(
		    err,
		    "agent show %s tells why; agent jail --run %s -- sh opens the "
		    "jail of its tests",
		    run->dir.id, run->dir.id);
	}
	error_set(err, ERROR_NO, "the tests are still red after %d round%s", rounds,
		  rounds == 1 ? "" : "s");
	return error_next(
	    err,
	    "agent show %s tells why; agent jail --run %s -- sh opens the jail of the last "
	    "round; agent resume -c run.rounds=%d %s goes on",
	    run->dir.id, run->dir.id, rounds + 2, run->dir.id);
}

/* The round whose verdict is green, or 0. */
static int find_green(const struct run *run)
{
	for (int round = 1; round <= RUN_ROUNDS_MAX; round++) {
		char *name AUTO_FREE = round_file(round, "verdict.json");
		struct error ignored = {0};
		struct json *verdict AUTO_JSON =
		    rundir_read(&run->dir, name, "verdict", VERDICT_MAX, &ignored);

		if (js_bool(verdict, "green", false))
			return round;
	}
	return 0;
}

static int go_steps(struct run *run, bool dry, int *green_round, struct error *err)
{
	int result = run_check_uid(run, err);

	if (result == 0) {
		step_base_anew(run);
		result = step_base(run, err);
	}
	if (result == 0)
		result = run_check_command(run, err);
	if (result == 0 && !dry)
		result = run_check_remote(run, err);
	if (result == 0 && !dry)
		result = run_check_forge(run, err);
	if (result == 0 && js_bool(run->request, "status", true))
		step_status_begin(run);
	if (result == 0 && run_change_command(run))
		result = run_check_change(run, err);
	else if (result == 0 && !rundir_has(&run->dir, "round-1/changes.json"))
		result = run_check_model(run, err);
	if (result == 0)
		result = step_preflight(run, err);
	if (result == 0)
		result = check_stop(run, err);
	if (result == 0)
		result = step_fetch(run, false, err);
	if (result == 0 && !find_green(run))
		result = step_layer(run, err);
	if (result == 0)
		result = go_rounds(run, green_round, err);
	step_status_end(run);
	if (result == 0)
		result = check_stop(run, err);
	if (result == 0 && !dry)
		result = step_publish(run, *green_round, err);
	if (result == 0 && !dry)
		result = step_pull(run, *green_round, err);
	return result;
}

static const char *outcome_text(const struct error *err, bool dry)
{
	switch (err->kind) {
	case ERROR_NONE:
		return dry ? "dry-run" : "published";
	case ERROR_NO:
		return strncmp(err->message, "the tests", 9) == 0 ? "red" : "refused";
	case ERROR_USAGE:
		return "bad-input";
	case ERROR_SKIPPED:
		return "nothing-to-do";
	case ERROR_LATER:
		return "later";
	case ERROR_ISOLATION:
		return "isolation";
	case ERROR_INTERRUPTED:
		return "stopped";
	default:
		return "failed";
	}
}

/* Whether nobody will go on with it but a person. */
static bool is_final(const struct run *run, const struct error *err)
{
	switch (err->kind) {
	case ERROR_INTERRUPTED:
		return false;
	case ERROR_ISOLATION: /* of a jail: it may have been killed */
		if (!rundir_has(&run->dir, "base.json"))
			return true;
		return rundir_has(&run->dir, RUN_LAST_FILE);
	case ERROR_FAILED:
	case ERROR_LATER:
		return rundir_has(&run->dir, RUN_LAST_FILE);
	default:
		return true;
	}
}

static void write_report(struct run *run, bool dry, int green_round, const struct error *err)
{
	struct json *report AUTO_JSON = js_artefact_new("report", 1);
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	struct error ignored = {0};
	long long input = 0, output = 0, reserved = 0;

	ledger_usage(run->ledger, run->dir.id, &input, &output, &reserved, &ignored);
	js_set_str(report, "run", run->dir.id);
	js_set_str(report, "outcome", outcome_text(err, dry));
	js_set_str(report, "directory", run->dir.path);
	js_set_str(report, "ref", run_ref(run));
	js_set_str(report, "branch", run_branch(run));
	js_set_int(report, "exit_status", error_exit_status(err->kind));
	js_set_int(report, "green_round", green_round);
	js_set_int(report, "input_tokens", input);
	js_set_int(report, "output_tokens", output);
	js_set_int(report, "unsettled_tokens", reserved);
	js_set_int(report, "elapsed_ms", fd_now_ms() - run->journal.start_ms);
	if (err->kind) {
		js_set_str(report, "message", err->message);
		js_set_str(report, "next", err->next);
	}
	strbuf_init(&text, STRBUF_MAX);
	js_format_pretty(report, &text);
	strbuf_addc(&text, '\n');
	fd_replace_file(run->dir.fd, "report.json", text.data, text.len, 0600, &ignored);
	if (is_final(run, err))
		step_told(run, report);
	js_unset(report, "kind");
	js_unset(report, "version");
	journal_event(&run->journal, "end", MEM_STEAL(report));
}

static int print_diff(struct run *run, int round, struct error *err)
{
	char *name AUTO_FREE = round_file(round, "patch.diff");
	struct strbuf raw AUTO_STRBUF = STRBUF_NONE, shown AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&raw, STRBUF_MAX);
	strbuf_init(&shown, STRBUF_MAX);
	if (run->journal.json)
		return 0;
	if (fd_read_file(run->dir.fd, name, &raw, err))
		return err->kind;
	if (isatty(STDOUT_FILENO) == 1)
		text_escape_lines(&shown, raw.data, raw.len);
	else
		strbuf_add(&shown, raw.data,
			   raw.len); /* a patch for git apply: bytes are kept */
	if (fd_write_all(STDOUT_FILENO, shown.data, shown.len) < 0)
		return error_errno(err, ERROR_FAILED, errno, "standard output");
	return 0;
}

static void begin_event(struct run *run)
{
	struct json *fields = js_object_new();

	js_set_str(fields, "run", run->dir.id);
	js_set_str(fields, "directory", run->dir.path);
	journal_event(&run->journal, "run", fields);
}

/* What did not fail by the change is gone on with. */
static void tell_saved(const struct run *run, int result, struct error *err)
{
	if (result == ERROR_INTERRUPTED ||
	    ((result == ERROR_FAILED || result == ERROR_LATER) && !err->next[0]))
		error_next(err, "the run is saved: agent resume %s", run->dir.id);
	else if ((result == ERROR_FAILED && strncmp(err->next, "make room", 9) == 0) ||
		 (result == ERROR_LATER && err->next[0] &&
		  !strstr(err->next, "agent resume"))) {
		char *first AUTO_FREE = mem_strdup(err->next);

		error_next(err, "%s, then: agent resume %s", first, run->dir.id);
	}
}

int run_go(struct run *run, bool dry, struct error *err)
{
	int green_round = 0, result;
	const struct json *issue = js_get(run->request, "issue");

	begin_event(run);
	journal_note(&run->journal, "run %s  %s: %s", run->dir.id, js_str(issue, "source", ""),
		     js_str(issue, "title", ""));
	forge_tell_issue(run);
	result = go_steps(run, dry, &green_round, err);
	tell_saved(run, result, err);
	write_report(run, dry, green_round, err);
	if (result == 0 && dry) {
		result = print_diff(run, green_round, err);
		journal_note(&run->journal, "dry run: agent publish %s pushes exactly this",
			     run->dir.id);
	}
	if (result == 0 || result == ERROR_NO)
		journal_note(&run->journal, "report   agent show %s", run->dir.id);
	return result;
}

int run_lock_issue(const struct run *run, bool dry, int *fd, struct error *err)
{
	char *key AUTO_FREE =
	    mem_printf("%s\n%s", js_str(run->request, "repository", ""),
		       js_str(js_get(run->request, "issue"), "identity", run->dir.id));

	return dry ? 0 : rundir_lock_key(&run->dir, key, fd, err);
}

/* What was refused before anything was done for it leaves nothing behind: its message says all. */
static bool is_nothing_done(const struct run *run, int result)
{
	if (!rundir_has(&run->dir, "request.json"))
		return true;
	return (result == ERROR_USAGE || result == ERROR_SKIPPED) &&
	       !rundir_has(&run->dir, "round-1");
}

int cmd_run(struct options *options, struct error *err)
{
	int lock AUTO_FD = -1;

	struct run run = {.key_fd = -1,
			  .deps_lock = -1,
			  .dir = {.fd = -1, .lock_fd = -1},
			  .sup = {.signal_fd = -1},
			  .journal = {.events_fd = -1}};
	struct error ignored = {0};
	int result = run_begin(&run, options, err);

	if (result == 0)
		result = run_open(&run, options, err);
	if (result == 0)
		result = run_lock_issue(&run, options->dry_run, &lock, err);
	if (result == 0)
		result = run_go(&run, options->dry_run, err);
	else if (run.dir.fd >= 0 && rundir_has(&run.dir, "request.json"))
		tell_saved(&run, result, err);
	if (result && run.dir.fd >= 0 && is_nothing_done(&run, result)) {
		supervise_release(&run.sup);
		rundir_remove(&run.dir, &ignored);
	}
	run_release(&run);
	return result;
}

/* Whether a run belongs to the repository and got past its own command line. */
static bool is_ours(const char *state, const char *id, const char *where)
{
	struct rundir dir;
	struct error ignored = {0};
	struct json *request AUTO_JSON = NULL, *report AUTO_JSON = NULL;
	bool ours = false;

	if (rundir_open(state, id, false, &dir, &ignored) == 0) {
		request = rundir_read(&dir, "request.json", "request", REQUEST_MAX, &ignored);
		report = rundir_read(&dir, "report.json", "report", REQUEST_MAX, &ignored);
		ours =
		    strcmp(js_str(request, "repository", ""), where) == 0 &&
		    (strcmp(js_str(report, "outcome", ""), "bad-input") != 0 ||
		     rundir_has(&dir,
				"round-1")); /* a model was asked: there is something to lose */
	}
	rundir_release(&dir);
	return ours;
}

/* The newest run of the repository that we stand in. Owned by the caller; NULL with err. */
static char *newest_here(const char *state, struct error *err)
{
	struct repository repo;
	char **ids, *found = NULL;
	size_t count = 0;

	if (repository_find(NULL, &repo, err)) {
		repository_release(&repo);
		error_next(err, "name the run: agent show lists them");
		return NULL;
	}
	ids = rundir_list(state);
	while (ids[count])
		count++;
	while (!found && count-- > 0)
		if (is_ours(state, ids[count], repo.work_dir ? repo.work_dir : repo.git_dir))
			found = mem_strdup(ids[count]);
	text_free_words(ids);
	repository_release(&repo);
	if (!found) {
		error_set(err, ERROR_USAGE, "this repository has no run yet");
		error_next(err, "agent run 42.md begins one; agent show lists those of others");
	}
	return found;
}

/* A dry run is one until agent publish has pushed it. */
static bool is_dry(const struct run *run)
{
	return js_bool(run->request, "dry_run", false) &&
	       !rundir_has(&run->dir, "publish/receipt.json");
}

/* The ref is made when the run begins: a key that would do nothing is told. */
static int refuse_ref(const struct options *options, struct error *err)
{
	for (size_t i = 0; i < js_len(options->pairs); i++) {
		if (strncasecmp(js_text(js_at(options->pairs, i)), "publish.ref=", 12) != 0)
			continue;
		error_set(err, ERROR_USAGE,
			  "-c publish.ref: a run keeps the ref it began with");
		return error_next(err,
				  "agent publish --branch NAME pushes it to another branch");
	}
	return 0;
}

/* A branch that was refused is not what a later agent publish without one shall mean. What failed otherwise goes on there. */
static void forget_branch(struct run *run, const char *before, int result)
{
	struct error ignored = {0};

	if ((result != ERROR_NO && result != ERROR_USAGE) ||
	    strcmp(run_ref(run), before) == 0 || rundir_has(&run->dir, "publish/receipt.json"))
		return;
	js_set_str(run->request, "ref", before);
	rundir_write(&run->dir, "request.json", run->request, &ignored);
}

static int go_on(struct options *options, bool publish, struct error *err)
{
	int lock AUTO_FD = -1;
	struct run run = {.key_fd = -1,
			  .deps_lock = -1,
			  .dir = {.fd = -1, .lock_fd = -1},
			  .sup = {.signal_fd = -1},
			  .journal = {.events_fd = -1}};
	char *state AUTO_FREE = rundir_state_dir(err), *id AUTO_FREE = NULL,
		    *before AUTO_FREE = NULL;
	int result;

	if (options->word_count > 1)
		return error_set(err, ERROR_USAGE, "agent %s takes one run",
				 options->command->name);
	if (!state)
		return err->kind;
	id = options->word_count ? mem_strdup(options->words[0]) : newest_here(state, err);
	if (!id)
		return err->kind;
	result = rundir_open(state, id, true, &run.dir, err);
	if (result == 0)
		result = run_open(&run, options, err);
	if (result == 0 && publish && !find_green(&run)) {
		result = error_set(err, ERROR_NO,
				   "run %s has no green verdict: nothing may be published",
				   run.dir.id);
		error_next(err, "agent resume %s goes on with it", run.dir.id);
	}
	if (result == 0)
		result = refuse_ref(options, err);
	if (result == 0 && options->branch) {
		before = mem_strdup(run_ref(&run));
		result = run_rename(&run, options->branch, err);
	}
	if (result == 0)
		result = run_lock_issue(&run, !publish && is_dry(&run), &lock, err);
	if (result == 0)
		result = run_go(&run, !publish && is_dry(&run), err);
	if (result && before)
		forget_branch(&run, before, result);
	run_release(&run);
	return result;
}

int cmd_resume(struct options *options, struct error *err)
{
	return go_on(options, false, err);
}

int cmd_publish(struct options *options, struct error *err)
{
	return go_on(options, true, err);
}
