/*
 * NAME
 *	agent-apply - what is done to and with a repository's objects
 *
 * SYNOPSIS
 *	agent-apply base | status | edit | try | words | pushed | tasks, started by agent(1) alone
 *
 *	base	FD_JOB {"paths":{"repo","common"?,"alternates"?},"rev","config_rev"?}
 *		-> FD_OUT base.json (gitops/base.h)
 *	status	FD_JOB {"paths":{"repo","workdir"}}
 *		-> event {"event":"result","dirty","changed","untracked"}
 *	edit	FD_JOB {"paths":{"repo","common"?,"alternates"?,"objects"},"base_commit",
 *		"base_tree","limits":{"files","bytes"},"policy":{...} (gitops/policy.h),
 *		"trailers":[...],"title","by":"model"|"command"},
 *		FD_CHANGES changes.json: edits of a model, or files of a command
 *		-> new objects in "objects", FD_PATCH patch.diff, FD_OUT tree.json:
 *		{"kind":"tree","version":1,"base_commit","base_tree","tree","changes":[{"path",
 *		"old_oid","new_oid","old_mode","new_mode"}...],"patch_sha256","patch_bytes",
 *		"message","stat":{"files","added","removed"},"policy":{"review","stripped",
 *		"tests"}}
 *		A refused edit or path, and a change of nothing, end with 1 and the reason.
 *	words	FD_JOB as pipeline/forge/words.h has it -> FD_OUT pull.json
 *	pushed	FD_JOB and FD_OUT as gitops/pushed.h has them
 *	tasks	FD_JOB and FD_OUT as gitops/tasks.h has them
 *
 * SECURITY
 *	Hostile inputs: the repository's objects, refs and index; pushed objects, still in
 *	git's quarantine; changes.json, which a model wrote, or agent-change. Reach: reads the repository, writes the run's own object directory and the
 *	artefacts. No network, no secret, runs nothing. A compromise yields a tree of the
 *	attacker's choice for one run, which the jail then tests and agent-publish derives again
 *	from tree.json, and what the repository holds.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gitops/base.h"
#include "gitops/diff.h"
#include "gitops/edit.h"
#include "gitops/edit_json.h"
#include "gitops/edit_text.h"
#include "gitops/leak.h"
#include "gitops/message.h"
#include "gitops/policy.h"
#include "gitops/pushed.h"
#include "gitops/repo.h"
#include "gitops/status.h"
#include "gitops/taken.h"
#include "gitops/tasks.h"
#include "gitops/tree.h"
#include "gitops/trial.h"
#include "gitops/view.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/sha256.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/events.h"
#include "pipeline/fds.h"
#include "pipeline/forge/words.h"
#include "pipeline/stage.h"

#define PATCH_BYTES_MAX ((size_t)128 << 20)
#define TRAILERS_MAX 32
#define REVIEWS_NAMED 10 /* paths to be reviewed that the message names */

static int write_out(int fd, const void *data, size_t len, const char *what, struct error *err)
{
	if (fd_write_all(fd, data, len) == 0)
		return 0;
	int saved = errno;
	error_errno(err, ERROR_FAILED, saved, "%s cannot be written", what);
	return error_next(err, "make room on the disk of the state directory");
}

static int write_json(int fd, const struct json *object, const char *what, struct error *err)
{
	AUTO_STRBUF struct strbuf text = STRBUF_NONE;

	strbuf_init(&text, STRBUF_MAX);
	js_format(object, &text);
	strbuf_addc(&text, '\n');
	return write_out(fd, text.data, text.len, what, err);
}

/* ---- base, status ---- */

static int run_base(struct stage *stage, struct error *err)
{
	const struct json *paths = js_get(stage->job, "paths");
	struct gitops_paths where = {.gitdir = js_str(paths, "repo", NULL),
				     .common = js_str(paths, "common", NULL)};
	AUTO_JSON struct json *base = NULL;

	if (!where.gitdir)
		return error_set(err, ERROR_USAGE, "job: no repository among its paths");
	base = base_read(&where, js_str(stage->job, "rev", "HEAD"),
			 js_str(stage->job, "config_rev", NULL), err);
	return base ? write_json(FD_OUT, base, "base.json", err) : err->kind;
}

static int run_status(struct stage *stage, struct error *err)
{
	const struct json *paths = js_get(stage->job, "paths");
	const char *gitdir = js_str(paths, "repo", NULL),
		   *workdir = js_str(paths, "workdir", NULL);
	struct status_facts facts = {0, 0};
	int rc;

	if (!gitdir || !workdir)
		return error_set(err, ERROR_USAGE, "job: no work tree among its paths");
	if ((rc = status_read(gitdir, workdir, &facts, err)) < 0)
		return rc;
	struct json *result = js_object_new();
	js_set_bool(result, "dirty", facts.changed > 0);
	js_set_int(result, "changed", (long long)facts.changed);
	js_set_int(result, "untracked", (long long)facts.untracked);
	event_send("result", result);
	return 0;
}

/* ---- edit ---- */

struct edit_job {
	const char *base_commit, *base_tree, *title;
	const char *trailers[TRAILERS_MAX]; /* borrowed from the job */
	size_t trailer_count;
	struct view_limits limits;
	bool by_command; /* changes.json has files, not edits */
};

static int read_job(const struct json *json, struct edit_job *job, struct error *err)
{
	const struct json *limits = js_get(json, "limits"),
			  *trailers = js_get(json, "trailers");
	long long files = 0, bytes = 0;
	int rc;

	*job = (struct edit_job){.limits = view_limits_default};
	if ((rc = js_need_str(json, "base_commit", &job->base_commit, err)) < 0 ||
	    (rc = js_need_str(json, "base_tree", &job->base_tree, err)) < 0 ||
	    (rc = js_need_int(limits, "files", 0, 1000000, &files, err)) < 0 ||
	    (rc = js_need_int(limits, "bytes", 0, (long long)STRBUF_MAX, &bytes, err)) < 0)
		return rc;
	job->limits.files = (size_t)files;
	job->limits.bytes = (uint64_t)bytes;
	if (job->limits.file_bytes > job->limits.bytes)
		job->limits.file_bytes = job->limits.bytes;
	job->title = js_str(json, "title", "");
	job->by_command = strcmp(js_str(json, "by", "model"), "command") == 0;
	if (js_len(trailers) > TRAILERS_MAX)
		return error_set(err, ERROR_USAGE, "job: more than %d trailers", TRAILERS_MAX);
	for (size_t i = 0; i < js_len(trailers); i++) {
		const char *text = js_text(js_at(trailers, i));
		if (!text)
			return error_set(err, ERROR_USAGE, "job: a trailer is no text");
		job->trailers[job->trailer_count++] = text;
	}
	return 0;
}

/* changes.json: what the model stage accepted, to be decided again here. */
static int read_changes(const struct edit_job *job, struct json **changes,
			struct edit_list *list, struct error *err)
{
	AUTO_JSON struct json *json =
	    js_read_fd(FD_CHANGES, CHANGES_BYTES_MAX, "changes.json", err);
	int rc;

	if (!json)
		return err->kind;
	if ((rc = js_check_kind(json, "changes", 1, err)) < 0)
		return rc;
	if (strcmp(js_str(json, "base_tree", ""), job->base_tree) != 0)
		return error_set(err, ERROR_USAGE, "changes.json is for another base tree");
	if (job->by_command != (js_get(json, "files") != NULL))
		return error_set(err, ERROR_USAGE, "changes.json is not by a %s",
				 job->by_command ? "command" : "model");
	if (!job->by_command && edit_list_from_json(js_get(json, "edits"), list, err) < 0)
		return error_wrap(err, "changes.json");
	*changes = MEM_STEAL(json);
	return 0;
}

static int check_base(struct gitops_repo *repo, const struct edit_job *job, struct error *err)
{
	char tree[GITOPS_OID_SIZE];
	int rc = repo_commit_tree(repo, job->base_commit, tree, err);

	if (rc < 0)
		return rc;
	return strcmp(tree, job->base_tree) == 0
		   ? 0
		   : error_set(err, ERROR_FAILED,
			       "the base commit %s does not have the tree %s", job->base_commit,
			       job->base_tree);
}

static int write_patch(struct view *view, const struct view_change *changes, size_t count,
		       struct json *out, struct error *err)
{
	AUTO_STRBUF struct strbuf patch = STRBUF_NONE;
	struct diff_stat stat;
	char digest[65];

	strbuf_init(&patch, PATCH_BYTES_MAX);
	int rc = diff_format(view, changes, count, &patch, &stat, err);
	if (rc == 0)
		rc = write_out(FD_PATCH, patch.data, patch.len, "patch.diff", err);
	if (rc < 0)
		return rc;
	sha256_hex(patch.data, patch.len, digest);
	js_set_str(out, "patch_sha256", digest);
	js_set_int(out, "patch_bytes", (long long)patch.len);
	struct json *numbers = js_object_new();
	js_set_int(numbers, "files", (long long)stat.files);
	js_set_int(numbers, "added", (long long)stat.added);
	js_set_int(numbers, "removed", (long long)stat.removed);
	js_set(out, "stat", numbers);
	return 0;
}

/* What a person should look at is said in the commit itself. The strings are the caller's. */
static size_t review_trailers(const struct json *policy, char *lines[REVIEWS_NAMED + 1])
{
	const struct json *review = js_get(policy, "review");
	size_t count = js_len(review), used = 0;

	for (; used < count && used < REVIEWS_NAMED; used++) {
		const struct json *entry = js_at(review, used);

		lines[used] = mem_printf("Agent-Needs-Review: %s (%s)",
					 js_str(entry, "path", ""), js_str(entry, "why", ""));
	}
	if (count > used) {
		lines[used] = mem_printf("Agent-Needs-Review: %zu more", count - used);
		used++;
	}
	return used;
}

/* A command is published with its change: in the commit, the attestation, the pull request. */
static int check_command(const struct edit_job *job, struct error *err)
{
	static const char key[] = "Agent-Command:";
	struct leak leak;

	for (size_t i = 0; i < job->trailer_count; i++) {
		const char *text = job->trailers[i];

		if (strncmp(text, key, strlen(key)) != 0 ||
		    !leak_find("", 0, text, strlen(text), &leak, 1))
			continue;
		error_set(
		    err, ERROR_NO,
		    "the command holds what looks like %s (%s), and is published with its "
		    "change",
		    leak.what, leak.shown);
		return error_next(err,
				  "write the command without it: the jail is no place for a "
				  "secret");
	}
	return 0;
}

static int set_message(const struct edit_job *job, const struct json *changes, struct json *out,
		       struct error *err)
{
	AUTO_STRBUF struct strbuf message = STRBUF_NONE;
	const char *trailers[TRAILERS_MAX + REVIEWS_NAMED + 1];
	char *reviews[REVIEWS_NAMED + 1];
	size_t count = job->trailer_count;
	size_t more = review_trailers(js_get(out, "policy"), reviews);

	memcpy(trailers, job->trailers, count * sizeof(*trailers));
	for (size_t i = 0; i < more; i++)
		trailers[count++] = reviews[i];
	strbuf_init(&message, 65536);
	int rc = message_format(js_str(changes, "title", ""), job->title,
				js_str(changes, "body", ""), trailers, count, &message, err);
	for (size_t i = 0; i < more; i++)
		free(reviews[i]);
	if (rc == 0)
		js_set_strn(out, "message", message.data, message.len);
	return rc;
}

/* The accepted view becomes objects and artefacts. */
static int finish(struct view *view, const struct edit_job *job,
		  const struct json *changes_json, struct json *policy, struct error *err)
{
	AUTO_FREE struct view_change *changes = NULL;
	AUTO_JSON struct json *out = js_artefact_new("tree", 1);
	char tree[GITOPS_OID_SIZE];
	size_t count = 0;
	int rc = view_changes(view, &changes, &count, err);

	js_set(out, "policy", js_copy(policy));
	if (rc < 0)
		return rc;
	if (count == 0 && js_len(js_get(policy, "stripped")))
		return error_set(err, ERROR_NO,
				 "no change is left: every path of it is one to be stripped");
	if (count == 0)
		return error_set(err, ERROR_NO,
				 "no change: the edits leave every file as it is in the base");
	if ((rc = tree_write(view, tree, err)) < 0)
		return rc;
	js_set_str(out, "base_commit", job->base_commit);
	js_set_str(out, "base_tree", job->base_tree);
	js_set_str(out, "tree", tree);
	js_set(out, "changes", tree_changes_to_json(changes, count));
	rc = write_patch(view, changes, count, out, err);
	if (rc == 0)
		rc = check_command(job, err);
	if (rc == 0)
		rc = set_message(job, changes_json, out, err);
	return rc < 0 ? rc : write_json(FD_OUT, out, "tree.json", err);
}

static int run_edit(struct stage *stage, struct error *err)
{
	AUTO_REPO struct gitops_repo *repo = NULL;
	AUTO_VIEW struct view *view = NULL;
	AUTO_JSON struct json *changes = NULL, *report = NULL;
	AUTO_POLICY struct policy *policy = policy_new(js_get(stage->job, "policy"), err);
	struct edit_list list = {NULL, 0, 0};
	struct edit_job job;
	int rc = policy ? read_job(stage->job, &job, err) : err->kind;

	if (rc == 0)
		rc = repo_open_job(js_get(stage->job, "paths"), true, &repo, err);
	if (rc == 0)
		rc = check_base(repo, &job, err);
	if (rc == 0)
		rc = read_changes(&job, &changes, &list, err);
	if (rc == 0 && !(view = view_new(repo, job.base_tree, &job.limits, err)))
		rc = err->kind;
	if (rc == 0)
		rc = job.by_command ? taken_apply(view, js_get(changes, "files"), err)
				    : edit_apply_all(view, &list, err);
	if (rc == 0)
		rc = policy_apply(policy, view, &report, err);
	if (rc == 0)
		rc = finish(view, &job, changes, report, err);
	edit_list_release(&list);
	return rc;
}

/* ---- try ---- */

static int run_try(struct stage *stage, struct error *err)
{
	AUTO_STRBUF struct strbuf text = STRBUF_NONE, patch = STRBUF_NONE;
	AUTO_JSON struct json *out = NULL;
	int rc;

	strbuf_init(&text, EDIT_TEXT_MAX);
	strbuf_init(&patch, PATCH_BYTES_MAX);
	if (fd_pread_all(FD_CHANGES, &text) < 0) {
		if (errno == EFBIG)
			return error_set(err, ERROR_USAGE, "the text has more than %u bytes",
					 EDIT_TEXT_MAX);
		return error_errno(err, ERROR_FAILED, errno, "the text cannot be read");
	}
	rc = trial_run(stage->job, text.data, text.len, &patch, &out, err);
	if (rc == 0)
		rc = write_out(FD_PATCH, patch.data, patch.len, "patch.diff", err);
	return rc < 0 ? rc : write_json(FD_OUT, out, "trial.json", err);
}

/* ---- words ---- */

static int run_words(struct stage *stage, struct error *err)
{
	AUTO_JSON struct json *pull = words_pull(stage->job, err);

	return pull ? write_json(FD_OUT, pull, "pull.json", err) : err->kind;
}

/* ---- pushed ---- */

static int run_pushed(struct stage *stage, struct error *err)
{
	AUTO_JSON struct json *facts = pushed_read(stage->job, err);

	return facts ? write_json(FD_OUT, facts, "what was pushed", err) : err->kind;
}

/* ---- tasks ---- */

static int run_tasks(struct stage *stage, struct error *err)
{
	AUTO_JSON struct json *tasks = tasks_read(stage->job, err);

	return tasks ? write_json(FD_OUT, tasks, "the tasks", err) : err->kind;
}

/* ---- main ---- */

static int run(struct stage *stage, struct error *err)
{
	switch (stage_id_of(stage->row)) {
	case STAGE_BASE:
		return run_base(stage, err);
	case STAGE_STATUS:
		return run_status(stage, err);
	case STAGE_EDIT:
		return run_edit(stage, err);
	case STAGE_WORDS:
		return run_words(stage, err);
	case STAGE_TRY:
		return run_try(stage, err);
	case STAGE_PUSHED:
		return run_pushed(stage, err);
	case STAGE_TASKS:
		return run_tasks(stage, err);
	case STAGE_DIAL:
	case STAGE_FETCH:
	case STAGE_LAYER:
	case STAGE_EGRESS:
	case STAGE_MODEL:
	case STAGE_TEST:
	case STAGE_JAIL:
	case STAGE_PUBLISH:
	case STAGE_VERIFY:
	case STAGE_FORGE_ISSUE:
	case STAGE_FORGE_PULL:
	case STAGE_CHANGE:
	case STAGE_MIRROR:
	case STAGE_COUNT:
		break;
	}
	return error_set(err, ERROR_FAILED, "this row is not agent-apply's");
}

int main(int argc, char **argv)
{
	return stage_main(argc, argv, NULL, run);
}
