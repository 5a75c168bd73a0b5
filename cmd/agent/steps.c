/* Steps before and between the model: the base, the state of the work tree, the jail's
 * preflight, the edits. */
#include "agent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/sha256.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/fds.h"
#include "pipeline/publish/ours.h"
#include "sandbox/jail_spec.h"

/* ---- base ---- */

static int load_base(struct run *run, struct error *err)
{
	const char *config;
	char *file AUTO_FREE = NULL;

	run->base = rundir_read(&run->dir, "base.json", "base", BASE_MAX, err);
	if (!run->base)
		return err->kind;
	config = js_str(run->base, "config", NULL);
	file = mem_printf("%.12s:.agent/config",
			  js_str(run->base, "config_commit", run_base(run, "commit")));
	if (config &&
	    config_add_text(run->config, CONFIG_REPOSITORY, file, config, strlen(config), err))
		return err->kind;
	return 0;
}

static int make_base(struct run *run, struct error *err)
{
	struct supervised stage = {0};
	struct json *job AUTO_JSON = js_object_new();
	int out AUTO_FD = rundir_part(&run->dir, "base.json", err), result;

	if (out < 0)
		return err->kind;
	js_set(job, "paths", repository_paths(&run->repo));
	js_set_str(job, "rev", js_str(run->request, "rev", "HEAD"));
	js_set_str(job, "config_rev", js_str(run->request, "config_rev", NULL));
	result = supervise_start(&run->sup, &stage, STAGE_BASE, job,
				 (struct spawn_fd[]){{FD_OUT, out}}, 1, 0, NULL, NULL, err);
	if (result == 0)
		result = supervise_wait(&run->sup, &stage, err);
	supervise_end(&run->sup, &stage);
	return result ? result : rundir_accept(&run->dir, "base.json", BASE_MAX, false, err);
}

void step_base_anew(struct run *run)
{
	struct error ignored = {0};
	struct json *report AUTO_JSON =
	    rundir_read(&run->dir, "report.json", "report", BASE_MAX, &ignored);

	if (strcmp(js_str(report, "outcome", ""), "bad-input") == 0 &&
	    !rundir_has(&run->dir, "round-1"))
		unlinkat(run->dir.fd, "base.json", 0);
}

int step_base(struct run *run, struct error *err)
{
	int result = 0;

	if (!rundir_has(&run->dir, "base.json")) {
		journal_stage(&run->journal, "base", "opening the repository");
		result = make_base(run, err);
		if (result)
			return result;
	}
	result = load_base(run, err);
	if (result)
		return result;
	if (!run->journal.stage[0])
		return 0;
	journal_done(&run->journal, "%s %.12s", request_base_name(run->request, run->base),
		     run_base(run, "commit"));
	if (js_str(run->request, "config_rev", NULL))
		journal_note(&run->journal, "           configured by %s at %.12s",
			     js_str(run->base, "config_ref", "the commit"),
			     run_base(run, "config_commit"));
	return 0;
}

/* ---- uncommitted changes: told when known ---- */

void step_status_begin(struct run *run)
{
	struct json *job AUTO_JSON = js_object_new();
	struct error ignored = {0};

	if (!run->repo.work_dir)
		return;
	js_set(job, "paths", repository_paths(&run->repo));
	if (supervise_start(&run->sup, &run->status, STAGE_STATUS, job, NULL, 0, 0, NULL, NULL,
			    &ignored) == 0)
		run->status.shown = false;
}

void step_status_end(struct run *run)
{
	struct error err = {0};

	if (!run->status.row)
		return;
	if (supervise_wait(&run->sup, &run->status, &err) == 0) {
		long long changed = js_int(run->status.result, "changed", 0);

		if (js_bool(run->status.result, "dirty", false))
			journal_note(&run->journal,
				     "note: the work tree has uncommitted changes (%lld "
				     "file%s): they are "
				     "neither used nor touched",
				     changed, changed == 1 ? "" : "s");
	} else if (err.kind != ERROR_INTERRUPTED) {
		journal_note(&run->journal,
			     "note: whether the work tree has uncommitted changes is not "
			     "known: %s",
			     err.message);
	}
	supervise_end(&run->sup, &run->status);
}

/* ---- preflight: is there a jail, and the command in it, before the model is paid for ---- */

/* Whether PATH leads into the work tree or HOME: the command may come with the tree or its
 * dependencies. */
static bool command_in_tree(const struct config *config)
{
	const char *pair;

	for (size_t i = 0; (pair = config_item(config, "test.env", i)); i++)
		if (strncmp(pair, "PATH=", 5) == 0)
			return true;
	return false;
}

int step_preflight(struct run *run, struct error *err)
{
	/* Exit status 2 when the command is no shell syntax, 1 when its first word is nowhere.
	 */
	const char *command = config_get(run->config, "test.command");
	size_t len = strcspn(command, " \t\n;|&<>()");
	char *word AUTO_FREE = mem_strndup(command, len);
	char sh[] = "/bin/sh", flag[] = "-c", check[] = "/bin/sh -n -c \"$2\" || exit 2";
	char look_up[] = "/bin/sh -n -c \"$2\" || exit 2; command -v -- \"$1\" >/dev/null";
	char *whole AUTO_FREE = mem_strdup(command);
	char *argv[] = {sh, flag, look_up, sh, word, whole, NULL};
	struct jail_facts facts = {0};
	int result;

	if (rundir_has(&run->dir, "publish/receipt.json"))
		return 0;
	if (!word[0] || command[len] == '(' || strpbrk(word, "/=$'\"\\"))
		argv[2] = check;
	if (command_in_tree(run->config))
		argv[2] = check;
	result = jailplan_try(&run->sup, run->config, run->dir.state, run->recipe, argv, &facts,
			      NULL, err);
	if (result == 0)
		result = jailplan_judge(&facts, "/bin/sh", err);
	if (result == 0 && facts.outcome == JAIL_EXITED && facts.value == 2) {
		result = error_set(err, ERROR_USAGE,
				   "test command %s: a shell cannot make sense of it", command);
		error_next(err, "look for a quote or bracket that is not closed");
	} else if (result == 0 && facts.outcome == JAIL_EXITED && facts.value != 0) {
		facts.outcome = JAIL_NOT_RUN;
		facts.value = ENOENT;
		facts.detail[0] = '\0';
		result = jailplan_judge(&facts, word, err);
	}
	if (result == 0 && strcmp(facts.limits, "degraded") == 0)
		journal_note(
		    &run->journal,
		    "note: no cgroup here: caps hold for each process, not for the whole jail "
		    "(jail.limits = degraded-ok)");
	return result;
}

/* ---- edit: the model's changes become a tree ---- */

static int run_edit(struct run *run, const char *changes_name, const char *tree_name,
		    const char *patch_name, const struct json *job, struct error *err)
{
	struct supervised stage = {0};
	int changes AUTO_FD = rundir_file(&run->dir, changes_name, err);
	int tree AUTO_FD = changes < 0 ? -1 : rundir_part(&run->dir, tree_name, err);
	int patch AUTO_FD = tree < 0 ? -1 : rundir_part(&run->dir, patch_name, err);
	struct spawn_fd fds[] = {{FD_CHANGES, changes}, {FD_OUT, tree}, {FD_PATCH, patch}};
	int result;

	if (patch < 0)
		return err->kind;
	result = supervise_start(&run->sup, &stage, STAGE_EDIT, job, fds, ARRAY_LEN(fds), 0,
				 NULL, NULL, err);
	if (result == 0)
		result = supervise_wait(&run->sup, &stage, err);
	supervise_end(&run->sup, &stage);
	if (result == 0)
		result = rundir_accept(&run->dir, patch_name, PATCH_MAX, false, err);
	return result ? result : rundir_accept(&run->dir, tree_name, TREE_MAX, false, err);
}

struct json *edit_policy(const struct config *config)
{
	struct json *policy = js_object_new(), *operators = js_array_new();
	struct json *repository = js_array_new(), *not_secret = js_array_new();
	const char *item;

	for (size_t i = 0; (item = config_item(config, "apply.protect", i)); i++)
		js_push_str(config_item_scope(config, "apply.protect", i) == CONFIG_REPOSITORY
				? repository
				: operators,
			    item);
	for (size_t i = 0; (item = config_item(config, "apply.notSecret", i)); i++)
		js_push_str(not_secret, item);
	js_set(policy, "protect", operators);
	js_set(policy, "also", repository);
	js_set(policy, "not_secret", not_secret);
	js_set_str(policy, "tests", config_get(config, "apply.tests"));
	js_set_str(policy, "test_command", config_get(config, "test.command"));
	return policy;
}

char *issue_digest(const struct run *run)
{
	const char *identity = js_str(js_get(run->request, "issue"), "identity", "");
	char digest[65];

	sha256_hex(identity, strlen(identity), digest);
	return mem_printf("%.*s", OURS_ISSUE_DIGITS, digest);
}

/* Who made the change, as trailers of its commit. */
static void push_makers(struct json *trailers, const struct run *run,
			const struct json *changes)
{
	const char *command = run_change_command(run);
	char *model AUTO_FREE = NULL, *words AUTO_FREE = NULL, *digest AUTO_FREE = NULL;

	if (!command) {
		model = mem_printf("Agent-Model: %s", js_str(changes, "model", "unknown"));
		js_push_str(trailers, model);
		return;
	}
	words = mem_printf("Agent-Command: %s", command);
	digest = mem_printf("Agent-Command-Digest: sha256:%s",
			    js_str(changes, "command_sha256", ""));
	js_push_str(trailers, words);
	js_push_str(trailers, digest);
	if (strcmp(js_str(changes, "network", "none"), "none") != 0)
		js_push_str(trailers, "Agent-Command-Network: registries");
}

static struct json *edit_job(struct run *run, int round, const char *objects,
			     const struct json *changes)
{
	struct json *job = js_object_new(), *paths = repository_paths(&run->repo);
	struct json *limits = js_object_new(), *trailers = js_array_new();
	const struct json *issue = js_get(run->request, "issue");
	const struct json *only = js_get(js_get(run->request, "maintenance"), "paths");
	char *id AUTO_FREE = mem_printf("Agent-Run: %s", run->dir.id);
	char *test AUTO_FREE =
	    mem_printf("Agent-Test: %s", config_get(run->config, "test.command"));
	char *digest AUTO_FREE = issue_digest(run);
	char *marker AUTO_FREE = mem_printf(OURS_TRAILER "%s", digest);
	const char *source = js_str(issue, "source", ""), *slash = strrchr(source, '/');
	bool is_ref = js_get(run->request, "task") || js_get(run->request, "maintenance");
	bool is_text = strcmp(source, "-m") == 0 || strcmp(source, "standard input") == 0;
	/* Of a path only its last part: what this machine's directories are called is nobody's business. */
	char *about AUTO_FREE =
	    is_text ? mem_printf("Issue: text, sha256 %.16s", js_str(issue, "sha256", ""))
		    : mem_printf("Issue: %s", slash && !is_ref ? slash + 1 : source);

	js_set_str(paths, "objects", objects);
	js_set(job, "paths", paths);
	js_set_str(job, "base_commit", run_base(run, "commit"));
	js_set_str(job, "base_tree", run_base(run, "tree"));
	js_set_int(limits, "files", config_number(run->config, "apply.maxFiles"));
	js_set_int(limits, "bytes", config_number(run->config, "apply.maxBytes"));
	js_set(job, "limits", limits);
	js_set(job, "policy", edit_policy(run->config));
	if (only)
		js_set(js_get(job, "policy"), "only", js_copy(only));
	js_set_str(job, "run", run->dir.id);
	js_set_int(job, "round", round);
	js_set_str(job, "title", js_str(issue, "title", ""));
	js_set_str(job, "by", run_change_command(run) ? "command" : "model");
	js_push_str(trailers, id);
	push_makers(trailers, run, changes);
	js_push_str(trailers, test);
	js_push_str(trailers, about);
	js_push_str(trailers, marker);
	js_set(job, "trailers", trailers);
	return job;
}

/* What a person should look at, or will miss. */
static void tell_policy(struct run *run, const struct json *policy)
{
	const struct json *review = js_get(policy, "review"), *tests = js_get(policy, "tests");
	const struct json *stripped = js_get(policy, "stripped");

	for (size_t i = 0; i < js_len(stripped); i++)
		journal_note(&run->journal, "           left out: %s (%s)",
			     js_str(js_at(stripped, i), "path", ""),
			     js_str(js_at(stripped, i), "rule", ""));
	for (size_t i = 0; i < js_len(review); i++)
		journal_note(&run->journal, "           needs review: %s (%s)",
			     js_str(js_at(review, i), "path", ""),
			     js_str(js_at(review, i), "why", ""));
	for (size_t i = 0; i < js_len(tests); i++) {
		const struct json *found = js_at(tests, i);
		long long line = js_int(found, "line", 0);
		char *where AUTO_FREE =
		    line ? mem_printf("%s:%lld", js_str(found, "path", ""), line)
			 : mem_strdup(js_str(found, "path", ""));
		const char *text = js_str(found, "text", "");

		journal_note(&run->journal, "           tests say less: %s: %s%s%s", where,
			     js_str(found, "kind", ""), text[0] ? "  " : "", text);
	}
	if (js_len(review) || js_len(stripped) || js_len(tests))
		journal_event(&run->journal, "policy", js_copy(policy));
}

static void tell_edit(struct run *run, const char *tree_name)
{
	struct error ignored = {0};
	struct json *tree AUTO_JSON =
	    rundir_read(&run->dir, tree_name, "tree", TREE_MAX, &ignored);
	const struct json *stat = js_get(tree, "stat");
	long long files = js_int(stat, "files", 0);

	journal_done(&run->journal, "%lld file%s, +%lld -%lld, tree %.12s", files,
		     files == 1 ? "" : "s", js_int(stat, "added", 0),
		     js_int(stat, "removed", 0), js_str(tree, "tree", ""));
	tell_policy(run, js_get(tree, "policy"));
}

/* Whether the commit message in tree.json names the test command that will be run: it may have changed
 * before a resume. */
static bool says_test(const struct run *run, const char *tree_name)
{
	struct error ignored = {0};
	struct json *tree AUTO_JSON =
	    rundir_read(&run->dir, tree_name, "tree", TREE_MAX, &ignored);
	char *line AUTO_FREE =
	    mem_printf("\nAgent-Test: %s\n", config_get(run->config, "test.command"));

	return strstr(js_str(tree, "message", ""), line) != NULL;
}

int step_edit(struct run *run, int round, struct error *err)
{
	char *changes AUTO_FREE = round_file(round, "changes.json");
	char *tree AUTO_FREE = round_file(round, "tree.json");
	char *verdict AUTO_FREE = round_file(round, "verdict.json");
	char *patch AUTO_FREE = round_file(round, "patch.diff"), *objects AUTO_FREE = NULL;
	struct json *job AUTO_JSON = NULL, *made AUTO_JSON = NULL;
	int result;

	if (rundir_has(&run->dir, tree) &&
	    (rundir_has(&run->dir, verdict) || says_test(run, tree)))
		return 0;
	journal_stage(&run->journal, "apply", "making the tree");
	made = rundir_read(&run->dir, changes, "changes", CHANGES_MAX, err);
	objects = made ? rundir_subdir(&run->dir, "objects", err) : NULL;
	if (!objects || rundir_give(objects, STAGE_UID_BASE + STAGE_EDIT, err))
		return err->kind;
	job = edit_job(run, round, objects, made);
	result = run_edit(run, changes, tree, patch, job, err);
	if (result == ERROR_NO)
		journal_done(&run->journal, "refused: %s", err->message);
	else if (result == 0)
		tell_edit(run, tree);
	return result;
}
