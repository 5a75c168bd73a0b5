/* The forge: an issue read from it before a run, a pull request made on it after one. */
#include "agent.h"

#include <stdio.h>
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
#include "pipeline/forge/forge.h"
#include "pipeline/secret.h"
#include "pipeline/url.h"

extern char **environ;

#define ISSUE_ANSWER_MAX ((size_t)4 << 20)

/* Behind a pull request and a comment of ours: by it they are found again. One an issue. */
static char *marker_of(const char *identity)
{
	char digest[65];

	sha256_hex(identity, strlen(identity), digest);
	return mem_printf("<!-- agent: issue %.32s -->", digest);
}

/* A token's source; *fd -1 when none is configured. */
static int open_token(const struct config *config, const char *key, int *fd, struct error *err)
{
	const char *source = config_get(config, key);

	*fd = -1;
	if (!source)
		return 0;
	if (strncmp(source, "env:", 4) == 0)
		secret_adopt_env(environ, source + 4);
	*fd = secret_open(source, err);
	return *fd < 0 ? error_wrap(err, "%s", key) : 0;
}

/* Runs one of agent-forge's rows beside its agent-dial, to the artefact name. */
static int run_row(struct supervisor *sup, struct rundir *dir, const struct config *config,
		   enum stage_id id, const struct forge *forge, struct json *job, int secret,
		   int text, const char *name, struct error *err)
{
	struct supervised stage = {0}, dial = {0};
	struct json *paths = js_object_new();
	const char *ca = step_ca(config);
	int net AUTO_FD = -1, out AUTO_FD = rundir_part(dir, name, err);
	struct spawn_fd fds[4];
	size_t count = 0;
	int result = out < 0 ? err->kind : 0;

	if (ca)
		js_set_str(paths, "ca", ca);
	js_set(job, "paths", paths);
	js_set(job, "forge", forge_to_json(forge));
	if (result == 0)
		result = step_dial(sup, config, &dial, forge->host, forge->port, forge->tls,
				   url_is_loopback(forge->host) ||
				       strcmp(config_get(config, "forge.private"), "yes") == 0,
				   &net, err);
	if (result == 0) {
		fds[count++] = (struct spawn_fd){FD_OUT, out};
		fds[count++] = (struct spawn_fd){FD_NET, net};
		if (secret >= 0)
			fds[count++] = (struct spawn_fd){FD_SECRET, secret};
		if (text >= 0)
			fds[count++] = (struct spawn_fd){FD_TEXT, text};
		result = supervise_start(sup, &stage, id, job, fds, count, 0, NULL, NULL, err);
	}
	if (result == 0)
		result = supervise_wait(sup, &stage, err);
	supervise_end(sup, &stage);
	supervise_end(sup, &dial);
	return result ? result : rundir_accept(dir, name, ISSUE_ANSWER_MAX, false, err);
}

/* ---- issue ---- */

/* What the command line's word means here: 1 and *forge, *number; 0 when it is no issue of a forge. */
static int understand(const struct options *options, const struct repository *repo,
		      const char *word, struct forge *forge, long long *number,
		      struct error *err)
{
	struct error ignored = {0};
	const char *named = config_get(options->config, "forge.repository");
	char *remote AUTO_FREE =
	    named ? mem_strdup(named)
		  : repository_remote_url(repo, config_get(options->config, "publish.remote"),
					  &ignored);

	return forge_issue_word(word, remote, config_get(options->config, "forge.kind"),
				config_get(options->config, "forge.api"), forge, number, err);
}

/*
 * The repository that is pushed to, where it is another than the forge's: a fork. {"owner","repo"}, new; NULL
 * else. But for GitLab a fork is one of another owner: the others name it by that alone.
 */
static struct json *find_fork(const struct config *config, const char *remote,
			      const struct forge *forge)
{
	struct error ignored = {0};
	struct json *fork;
	struct forge from;

	if (!remote || !config_get(config, "forge.repository") ||
	    forge_from_url(remote, forge_kind_text(forge->kind), NULL, &from, &ignored) ||
	    (strcmp(from.owner, forge->owner) == 0 &&
	     (forge->kind != FORGE_GITLAB || strcmp(from.repo, forge->repo) == 0)))
		return NULL;
	fork = js_object_new();
	js_set_str(fork, "owner", from.owner);
	js_set_str(fork, "repo", from.repo);
	return fork;
}

/* Why nothing is to be done about it; 0 when there is. */
static int check_state(const struct options *options, const struct json *issue,
		       const char *name, struct error *err)
{
	const char *linked = js_str(issue, "linked", NULL);

	if (js_bool(issue, "pull", false))
		return error_set(err, ERROR_USAGE, "%s is a pull request, not an issue", name);
	if (options->again)
		return 0;
	if (strcmp(js_str(issue, "state", ""), "open") != 0)
		error_set(err, ERROR_SKIPPED, "%s is closed", name);
	else if (js_bool(issue, "locked", false))
		error_set(err, ERROR_SKIPPED, "%s is locked", name);
	else if (linked)
		error_set(err, ERROR_SKIPPED, "%s has an open pull request already: %s", name,
			  linked);
	else
		return 0;
	return error_next(err, "--again does it nevertheless");
}

static void keep_about(const struct json *issue, struct json *about)
{
	static const char *const keys[] = {"url", "revision", "author", "removed"};

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		js_set_str(about, keys[i], js_str(issue, keys[i], ""));
	js_set_int(about, "left_out", js_int(issue, "left_out", 0));
	js_set_bool(about, "cut", js_bool(issue, "cut", false));
}

static int fetch(const struct options *options, struct supervisor *sup, struct rundir *dir,
		 const struct forge *forge, const struct json *fork, long long number,
		 struct strbuf *text, struct json *about, struct error *err)
{
	struct json *job AUTO_JSON = js_object_new(), *issue AUTO_JSON = NULL;
	char *name AUTO_FREE = mem_printf("%s/%s#%lld", forge->owner, forge->repo, number);
	char *identity AUTO_FREE = mem_printf("forge:%s/%s", forge->host, name);
	char *marker AUTO_FREE = marker_of(identity);
	int token AUTO_FD = -1;

	js_set_int(job, "number", number);
	js_set_bool(job, "strangers",
		    strcmp(config_get(options->config, "forge.strangers"), "yes") == 0);
	js_set_str(job, "marker", marker);
	if (fork)
		js_set(job, "fork", js_copy(fork));
	if (open_token(options->config, "forge.readToken", &token, err) ||
	    run_row(sup, dir, options->config, STAGE_FORGE_ISSUE, forge, job, token, -1,
		    "forge-issue.json", err))
		return err->kind;
	issue = rundir_read(dir, "forge-issue.json", "forge-issue", ISSUE_ANSWER_MAX, err);
	if (!issue || check_state(options, issue, name, err))
		return err->kind;
	js_set_str(about, "source", name);
	js_set_str(about, "identity", identity);
	js_set(about, "forge", forge_to_json(forge));
	js_set_int(about, "number", number);
	keep_about(issue, about);
	if (strbuf_adds(text, js_str(issue, "text", "")) < 0)
		return error_set(err, ERROR_USAGE, "issue %s is larger than 1 MiB", name);
	return 0;
}

int forge_issue(const struct options *options, const struct repository *repo, const char *word,
		struct strbuf *text, struct json *about, struct error *err)
{
	struct rundir dir = {.fd = -1, .lock_fd = -1};
	struct supervisor sup = {.signal_fd = -1};
	struct journal journal;
	struct forge forge;
	struct error ignored = {0};
	long long number = 0;
	char *state AUTO_FREE = NULL, *remote AUTO_FREE = NULL;
	struct json *fork AUTO_JSON = NULL;
	int result = understand(options, repo, word, &forge, &number, err);

	if (result <= 0)
		return result;
	remote = repository_remote_url(repo, config_get(options->config, "publish.remote"),
				       &ignored);
	fork = find_fork(options->config, remote, &forge);
	state = rundir_state_dir(err);
	if (!state || rundir_create_temporary(state, &dir, err))
		return err->kind;
	journal_init(&journal, false);
	result = supervise_init(&sup, &journal, err);
	if (result == 0)
		result = fetch(options, &sup, &dir, &forge, fork, number, text, about, err);
	supervise_release(&sup);
	journal_release(&journal);
	rundir_remove(&dir, &ignored);
	rundir_release(&dir);
	return result ? result : 1;
}

void forge_tell_issue(struct run *run)
{
	const struct json *issue = js_get(run->request, "issue");
	const char *removed = js_str(issue, "removed", "");
	long long left_out = js_int(issue, "left_out", 0);

	if (removed[0])
		journal_note(&run->journal,
			     "note: not shown on the issue's page and taken out: %s", removed);
	if (left_out)
		journal_note(
		    &run->journal,
		    "note: %lld comment%s by people who may not write to the repository "
		    "left out (forge.strangers = yes includes them)",
		    left_out, left_out == 1 ? "" : "s");
	if (js_bool(issue, "cut", false))
		journal_note(&run->journal,
			     "note: the issue is very long: its end is left out");
}

/* ---- pull request ---- */

/* Which forge, and whether a pull request is wanted: 1, 0, or an error kind. */
static int wanted(const struct run *run, struct forge *forge, struct error *err)
{
	const struct config *config = run->config;
	const char *named = config_get(config, "forge.repository");

	if (strcmp(config_get(config, "forge.pull"), "no") == 0 ||
	    !config_get(config, "forge.writeToken") ||
	    strncmp(run_ref(run), "refs/heads/", 11) != 0)
		return 0;
	if (forge_from_url(named ? named : run->remote_url, config_get(config, "forge.kind"),
			   config_get(config, "forge.api"), forge, err))
		return error_next(err, "name it with forge.repository = URL, or make no pull "
				       "request: forge.pull = no");
	return 1;
}

/* The issue's number when it lives in that very repository. */
static long long issue_there(const struct run *run, const struct forge *forge)
{
	const struct json *issue = js_get(run->request, "issue"),
			  *where = js_get(issue, "forge");

	if (!where || strcmp(js_str(where, "host", ""), forge->host) != 0 ||
	    strcmp(js_str(where, "owner", ""), forge->owner) != 0 ||
	    strcmp(js_str(where, "repo", ""), forge->repo) != 0)
		return 0;
	return js_int(issue, "number", 0);
}

static struct json *words_job(const struct run *run, int round, const char *marker,
			      long long issue, struct error *err)
{
	char *tree_name AUTO_FREE = round_file(round, "tree.json");
	char *verdict_name AUTO_FREE = round_file(round, "verdict.json");
	char *changes_name AUTO_FREE = round_file(round, "changes.json");
	struct json *tree AUTO_JSON = rundir_read(&run->dir, tree_name, "tree", TREE_MAX, err);
	struct json *verdict AUTO_JSON =
	    tree ? rundir_read(&run->dir, verdict_name, "verdict", VERDICT_MAX, err) : NULL;
	struct json *receipt AUTO_JSON =
	    verdict
		? rundir_read(&run->dir, "publish/receipt.json", "receipt", VERDICT_MAX, err)
		: NULL;
	struct json *changes AUTO_JSON =
	    receipt ? rundir_read(&run->dir, changes_name, "changes", CHANGES_MAX, err) : NULL;
	struct json *job, *tokens = NULL;
	long long input = 0, output = 0, reserved = 0;

	if (!changes) {
		if (!err->kind)
			error_set(err, ERROR_FAILED, "an artefact of the run is missing");
		return NULL;
	}
	ledger_usage(run->ledger, run->dir.id, &input, &output, &reserved, err);
	job = js_object_new();
	tokens = js_object_new();
	js_set_str(job, "message", js_str(tree, "message", ""));
	js_set_str(job, "marker", marker);
	js_set_int(job, "issue", issue);
	js_set_str(job, "run", run->dir.id);
	js_set_str(job, "commit", js_str(receipt, "commit", ""));
	js_set_str(job, "branch", run_branch(run));
	js_set_str(job, "model", js_str(changes, "model", ""));
	js_set_str(job, "command", run_change_command(run));
	js_set_str(job, "network", js_str(changes, "network", "none"));
	js_set_str(job, "test_command", config_get(run->config, "test.command"));
	js_set(job, "verdict", js_copy(verdict));
	if (js_get(tree, "policy"))
		js_set(job, "policy", js_copy(js_get(tree, "policy")));
	js_set_int(tokens, "input", input);
	js_set_int(tokens, "output", output);
	js_set(job, "tokens", tokens);
	return job;
}

static int make_words(struct run *run, const struct json *job, struct error *err)
{
	struct supervised stage = {0};
	int out AUTO_FD = rundir_part(&run->dir, "publish/pull.json", err), result;

	if (out < 0)
		return err->kind;
	result = supervise_start(&run->sup, &stage, STAGE_WORDS, job,
				 (struct spawn_fd[]){{FD_OUT, out}}, 1, 0, NULL, NULL, err);
	if (result == 0)
		result = supervise_wait(&run->sup, &stage, err);
	supervise_end(&run->sup, &stage);
	return result ? result
		      : rundir_accept(&run->dir, "publish/pull.json", VERDICT_MAX, false, err);
}

/* The fork that the branch was pushed to; NULL when it is the repository itself. New. */
static struct json *pushed_fork(const struct run *run, const struct forge *forge)
{
	return strcmp(js_str(run->remote, "kind", ""), "local") == 0
		   ? NULL
		   : find_fork(run->config, run->remote_url, forge);
}

int run_check_forge(const struct run *run, struct error *err)
{
	struct forge forge;
	int token AUTO_FD = -1, result = wanted(run, &forge, err);

	if (result == 1)
		result = open_token(run->config, "forge.writeToken", &token, err);
	return result < 0 ? result : 0;
}

static struct json *pull_job(const struct run *run, const struct json *fork, const char *marker,
			     long long issue)
{
	struct json *job = js_object_new();
	const char *base = config_get(run->config, "forge.base"), *ref = run_base(run, "ref");

	if (!base && strncmp(ref, "refs/heads/", 11) == 0)
		base = ref + 11;
	js_set_str(job, "head", run_branch(run));
	if (fork)
		js_set(job, "fork", js_copy(fork));
	js_set_str(job, "base", base);
	js_set_int(job, "issue", issue);
	js_set_str(job, "marker", marker);
	if (js_len(js_get(js_get(run->request, "maintenance"), "labels")))
		js_set(job, "labels",
		       js_copy(js_get(js_get(run->request, "maintenance"), "labels")));
	js_set_bool(job, "draft", strcmp(config_get(run->config, "forge.pull"), "ready") != 0);
	return job;
}

static int tell_pull(struct run *run, struct error *err)
{
	struct json *pull AUTO_JSON =
	    rundir_read(&run->dir, "publish/forge-pull.json", "forge-pull", VERDICT_MAX, err);

	if (!pull)
		return err->kind ? err->kind : ERROR_FAILED;
	journal_done(&run->journal, "%s %s%s", js_str(pull, "url", ""),
		     js_bool(pull, "created", false) ? "made" : "brought up to date",
		     js_bool(pull, "commented", false) ? ", the issue says so" : "");
	if (js_str(pull, "label_error", NULL))
		journal_note(&run->journal, "note: not all labels: %s",
			     js_str(pull, "label_error", ""));
	if (js_str(pull, "comment_error", NULL))
		journal_note(&run->journal, "note: no comment on the issue: %s",
			     js_str(pull, "comment_error", ""));
	return 0;
}

int step_look(struct run *run, long long number, char state[16], struct error *err)
{
	struct json *job AUTO_JSON = js_object_new(), *answer AUTO_JSON = NULL;
	int token AUTO_FD = -1, result;
	struct forge forge;

	state[0] = '\0';
	result = wanted(run, &forge, err);
	if (result <= 0)
		return result;
	js_set_int(job, "look", number);
	if (open_token(run->config, "forge.writeToken", &token, err) ||
	    run_row(&run->sup, &run->dir, run->config, STAGE_FORGE_PULL, &forge, job, token, -1,
		    "forge-look.json", err))
		return err->kind;
	answer = rundir_read(&run->dir, "forge-look.json", "forge-look", ISSUE_ANSWER_MAX, err);
	if (!answer)
		return err->kind ? err->kind : ERROR_FAILED;
	snprintf(state, 16, "%s", js_str(answer, "state", ""));
	return 0;
}

int step_pull(struct run *run, int round, struct error *err)
{
	struct forge forge;
	struct json *job AUTO_JSON = NULL, *words AUTO_JSON = NULL, *fork AUTO_JSON = NULL;
	char *marker AUTO_FREE =
	    marker_of(js_str(js_get(run->request, "issue"), "identity", ""));
	int token AUTO_FD = -1, text AUTO_FD = -1, result = wanted(run, &forge, err);
	long long issue;

	if (result <= 0)
		return result;
	journal_stage(&run->journal, "pull", forge.host);
	if (rundir_has(&run->dir, "publish/forge-pull.json"))
		return tell_pull(run, err);
	issue = issue_there(run, &forge);
	words = words_job(run, round, marker, issue, err);
	if (!words || make_words(run, words, err) ||
	    open_token(run->config, "forge.writeToken", &token, err) ||
	    (text = rundir_file(&run->dir, "publish/pull.json", err)) < 0)
		return err->kind;
	fork = pushed_fork(run, &forge);
	job = pull_job(run, fork, marker, issue);
	result = run_row(&run->sup, &run->dir, run->config, STAGE_FORGE_PULL, &forge, job,
			 token, text, "publish/forge-pull.json", err);
	if (result && !err->next[0])
		error_next(err, "the branch is pushed; agent resume %s makes the pull request",
			   run->dir.id);
	return result ? result : tell_pull(run, err);
}
