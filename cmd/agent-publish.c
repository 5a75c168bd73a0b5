/*
 * NAME
 *	agent-publish - commits the tested tree and pushes it to one ref of one remote
 *
 * SYNOPSIS
 *	agent-publish (started by agent only; git starts it again as its GIT_ASKPASS and
 * GIT_SSH)
 *
 * READS
 *	FD_JOB, FD_TREE (tree.json), FD_VERDICT (verdict.json), FD_SECRET (token, user:token or
 * SSH key), the repository's and the quarantine's objects, what git and the server say.
 *
 * WRITES
 *	the commit into the quarantine; a git directory of its own in the scratch directory;
 * FD_OUT (receipt.json); FD_LOG (what git and the server said, raw and capped); the event
 * {"event":"commit","oid"} before anything is sent.
 *
 * RUNS
 *	git push, git ls-remote and their helpers; ssh-agent, ssh-add, ssh.
 *
 * SECURITY
 *	Hostile inputs: the server's answers and its hooks' messages, tree.json and the message
 * in it (a model's words). Reach: the one host:port that agent-dial has from the supervisor, or
 * the one socket to git receive-pack; the repository read-only; the scratch directory. Holds the
 * push credential; git's helper for https gets it by GIT_ASKPASS, ssh-agent by a pipe; no other
 * process has it. A compromise can push anything that the credential may push to that remote,
 * and read the repository. It cannot write the repository, reach another host, see the model's
 * key, or run the project's code. Law L7 is kept here: the tree is built again from the base and
 * the recorded changes, and the verdict must name it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "gitops/commit.h"
#include "gitops/repo.h"
#include "pipeline/events.h"
#include "pipeline/fds.h"
#include "pipeline/publish/gitdir.h"
#include "pipeline/publish/helper.h"
#include "pipeline/publish/job.h"
#include "pipeline/publish/push.h"
#include "pipeline/publish/rules.h"
#include "pipeline/stage.h"

#define VERDICT_MAX ((size_t)1 << 20)
#define TREE_MAX ((size_t)64 << 20)

static int need_same(const struct json *tree, const char *key, const char *wanted,
		     struct error *err)
{
	const char *found;

	if (js_need_str(tree, key, &found, err))
		return error_wrap(err, "tree.json");
	if (strcmp(found, wanted) != 0)
		return error_set(err, ERROR_FAILED, "tree.json: %s is %s, the job says %s", key,
				 found, wanted);
	return 0;
}

/* What is to be published, as the stages before recorded it: it must agree with the job and the
 * verdict. */
static int check_records(const struct publish_job *job, const struct json *tree,
			 struct error *err)
{
	struct json *verdict AUTO_JSON =
	    js_read_fd(FD_VERDICT, VERDICT_MAX, "verdict.json", err);

	if (!verdict || js_check_kind(tree, "tree", 1, err) ||
	    need_same(tree, "base_commit", job->base_commit, err) ||
	    need_same(tree, "base_tree", job->base_tree, err) ||
	    need_same(tree, "tree", job->tree, err))
		return err->kind;
	return rules_check_verdict(verdict, job->tree, err);
}

static void tell_commit(const char *oid)
{
	struct json *event = js_object_new();

	js_set_str(event, "oid", oid);
	event_send("commit", event);
}

/* Law L7, then the commit. The same inputs give the same id, so a retry knows its own branch
 * again. */
static int make_commit(const struct publish_job *job, const struct json *tree,
		       char oid[GITOPS_OID_SIZE], struct error *err)
{
	struct gitops_repo *repo AUTO_REPO = NULL;
	struct commit_spec spec = {
	    .tree = job->tree,
	    .parent = job->base_commit,
	    .name = job->name,
	    .email = job->email,
	    .time = job->time,
	};

	if (js_need_str(tree, "message", &spec.message, err))
		return error_wrap(err, "tree.json");
	if (repo_open_job(job->paths, true, &repo, err) ||
	    commit_check_tree(repo, job->base_commit, job->base_tree, js_get(tree, "changes"),
			      job->tree, err) ||
	    commit_make(repo, &spec, oid, err) ||
	    commit_check(repo, oid, job->tree, job->base_commit, err))
		return err->kind;
	tell_commit(oid);
	return 0;
}

static int enter_scratch(const struct publish_job *job, struct error *err)
{
	int fd AUTO_FD = open(job->scratch, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || fchdir(fd) < 0)
		return error_errno(err, ERROR_FAILED, errno, "scratch directory %s",
				   job->scratch);
	return gitdir_make(fd, job->paths, err);
}

static int write_receipt(const struct publish_job *job, const char *oid,
			 const struct push_result *result, struct error *err)
{
	struct json *receipt AUTO_JSON = js_artefact_new("receipt", 1);
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	js_set_str(receipt, "commit", oid);
	js_set_str(receipt, "tree", job->tree);
	js_set_str(receipt, "ref", job->ref);
	js_set_str(receipt, "url", job->remote.url);
	js_set_bool(receipt, "pushed", !result->already);
	js_set_bool(receipt, "already", result->already);
	js_set_strn(receipt, "server", result->server.data, result->server.len);
	strbuf_init(&text, STRBUF_MAX);
	js_format(receipt, &text);
	strbuf_addc(&text, '\n');
	if (fd_write_all(FD_OUT, text.data, text.len) < 0)
		return error_errno(err, ERROR_FAILED, errno, "receipt.json");
	return 0;
}

#define SERVER_EVENT_MAX                                                                       \
	((size_t)8                                                                             \
	 << 10) /* an event is a line of 64 KiB at most, and a byte may take six there */

/* A refusal leaves no receipt: what the server's hooks said goes to the user as an event. */
static void tell_server(const struct push_result *result)
{
	struct json *event = js_object_new();
	size_t len =
	    result->server.len < SERVER_EVENT_MAX ? result->server.len : SERVER_EVENT_MAX;

	js_set_strn(event, "text", result->server.data, len);
	event_send("server", event);
}

static void release_push_result(struct push_result *result)
{
	push_result_release(result);
}

static int publish(const struct publish_job *job, const struct push_fds *fds, struct error *err)
{
	struct json *tree AUTO_JSON = js_read_fd(FD_TREE, TREE_MAX, "tree.json", err);
	struct push_result result __attribute__((cleanup(release_push_result)));
	char oid[GITOPS_OID_SIZE];

	push_result_init(&result);
	if (!tree || check_records(job, tree, err) || make_commit(job, tree, oid, err) ||
	    enter_scratch(job, err))
		return err->kind;
	if (push_commit(job, fds, oid, &result, err)) {
		if (result.server.len)
			tell_server(&result);
		return err->kind;
	}
	return write_receipt(job, oid, &result, err);
}

static int run(struct stage *stage, struct error *err)
{
	struct push_fds fds = push_fds_look();
	struct publish_job job __attribute__((cleanup(publish_job_release)));

	if (publish_job_parse(stage->job, &job, err))
		return err->kind;
	return publish(&job, &fds, err);
}

int main(int argc, char **argv)
{
	int status;

	if (helper_main(argc, argv, &status))
		return status;
	return stage_main(argc, argv, NULL, run);
}
