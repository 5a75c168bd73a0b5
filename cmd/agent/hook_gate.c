/* The gate: a pushed tree is tested before it is let in. Test command, limits and layers come
 * from the trusted ref; of the push there is only the tree, read out of git's quarantine. */
#include "hook.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/scope.h"

#define STATE_DIR                                                                              \
	"/var/lib/agent" /* of a service that has neither HOME nor a word from its operator */

char *hook_state_dir(const struct hook_rule *rule, struct error *err)
{
	if (rule->state_dir[0])
		setenv("AGENT_STATE_DIR", rule->state_dir, 1);
	else if (!getenv("HOME") && !getenv("XDG_STATE_HOME"))
		setenv("AGENT_STATE_DIR", STATE_DIR, 0);
	return rundir_state_dir(err);
}

static int begin(struct run *run, struct options *options, const struct hook_rule *rule,
		 const struct repository *repo, struct error *err)
{
	struct json *request AUTO_JSON = js_artefact_new("request", 1);
	char *state AUTO_FREE = NULL, *objects AUTO_FREE = NULL;

	state = hook_state_dir(rule, err);
	if (!state || rundir_create_temporary(state, &run->dir, err))
		return err->kind;
	js_set_str(request, "rev", rule->config_ref);
	if (rule->gate_test[0]) {
		char *pair AUTO_FREE = mem_printf("test.command=%s", rule->gate_test);
		struct json *pairs = js_array_new();

		js_push_str(pairs, pair);
		js_set(request, "pairs", pairs);
	}
	js_set_str(request, "repository", repo->git_dir);
	if (rundir_write(&run->dir, "request.json", request, err) ||
	    run_open(run, options, err))
		return err->kind;
	objects = rundir_subdir(&run->dir, "objects", err);
	if (!objects || rundir_give(objects, STAGE_UID_BASE + STAGE_TEST, err))
		return err->kind;
	/* The quarantine is one of the pushed repository's alternates, not of the one on disk. */
	for (size_t i = 0; i < repo->alternate_count; i++) {
		run->repo.alternates =
		    mem_realloc(run->repo.alternates, run->repo.alternate_count + 1,
				sizeof(*run->repo.alternates));
		run->repo.alternates[run->repo.alternate_count++] =
		    mem_strdup(repo->alternates[i]);
	}
	return 0;
}

/* SIGTERM at the end of the time, which the supervisor takes as any other. */
static int set_clock(long long seconds, timer_t *timer, struct error *err)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGTERM};
	struct itimerspec when = {.it_value = {.tv_sec = (time_t)seconds}};

	if (timer_create(CLOCK_MONOTONIC, &event, timer) < 0)
		return error_errno(err, ERROR_FAILED, errno, "timer_create");
	if (timer_settime(*timer, 0, &when, NULL) < 0) {
		error_errno(err, ERROR_FAILED, errno, "timer_settime");
		timer_delete(*timer);
		return err->kind;
	}
	return 0;
}

static int test_tree(struct run *run, int round, const struct gate_tree *tree,
		     struct error *err)
{
	char *dir_name AUTO_FREE = mem_printf("round-%d", round), *dir AUTO_FREE = NULL;
	char *name AUTO_FREE = round_file(round, "tree.json");
	struct json *json AUTO_JSON = js_artefact_new("tree", 1);
	bool green = false;
	int result;

	js_set_str(json, "tree", tree->tree);
	js_set_str(json, "base_tree", run_base(run, "tree"));
	dir = rundir_subdir(&run->dir, dir_name, err);
	if (!dir || rundir_write(&run->dir, name, json, err))
		return err->kind;
	result = step_test(run, round, &green, err);
	if (result || green)
		return result;
	error_set(err, ERROR_NO, "%s: its tests are red", tree->ref);
	return error_next(err, "mend it and push again; the tests of %s decide: %s",
			  js_str(run->base, "ref", "the trusted ref"),
			  config_get(run->config, "test.command"));
}

static int test_all(struct run *run, const struct gate_tree *trees, size_t count,
		    struct error *err)
{
	int result = step_base(run, err);

	if (result == ERROR_USAGE && strstr(err->message, "has no commit yet"))
		error_next(err, "what is there already says how a gate tests: let the first "
				"push in, with git config agent.gateFail open on the server");
	if (result == 0 && run_check_command(run, err))
		result =
		    error_next(err,
			       "commit .agent/config with command = make check under "
			       "[test] to %s, or say git config agent.gateTest on the server",
			       js_str(run->base, "ref", "the trusted ref"));
	if (result == 0)
		result = step_fetch(run, true, err);
	if (result == 0)
		result = step_layer(run, err);
	for (size_t i = 0; i < count && result == 0; i++) {
		size_t same = 0;

		while (strcmp(trees[same].tree, trees[i].tree) != 0)
			same++;
		if (same == i)
			result = test_tree(run, (int)i + 1, &trees[i], err);
	}
	return result;
}

int hook_gate(struct options *options, const struct hook_rule *rule,
	      const struct repository *repo, const struct gate_tree *trees, size_t count,
	      struct error *err)
{
	struct run run = {.key_fd = -1,
			  .deps_lock = -1,
			  .separate_uid = true,
			  .dir = {.fd = -1, .lock_fd = -1},
			  .sup = {.signal_fd = -1},
			  .journal = {.events_fd = -1}};
	long long until = fd_now_ms() + rule->gate_s * 1000;
	struct error ignored = {0};
	timer_t timer;
	int result = run_check_uid(&run, err);

	if (result)
		return error_next(err,
				  "let the hook start as root, or as a user with "
				  "subordinate ids: agent(1), HOOKS; or take the gate out: "
				  "git config --unset-all agent.gate");
	scope_enter(&ignored); /* what it lacks is agent-jail's to say */
	result = begin(&run, options, rule, repo, err);
	if (result == 0)
		result = set_clock(rule->gate_s, &timer, err);
	if (result == 0) {
		result = test_all(&run, trees, count, err);
		timer_delete(timer);
	}
	if (result == ERROR_INTERRUPTED && fd_now_ms() >= until) {
		memset(err, 0, sizeof(*err));
		result = error_set(err, ERROR_LATER,
				   "the tests were not done within %lld s (agent.gateTime)",
				   rule->gate_s);
	}
	supervise_release(&run.sup);
	if (run.dir.path)
		rundir_remove(&run.dir, &ignored);
	run_release(&run);
	return result;
}
