/*
 * NAME
 *	agent-publish - commits the tested tree and pushes it to one ref of one remote; or asks what that ref has
 *
 * SYNOPSIS
 *	agent-publish (started by agent only; git starts it again as its GIT_ASKPASS and
 * GIT_SSH)
 *
 * READS
 *	FD_JOB, FD_TREE (tree.json), FD_VERDICT (verdict.json), FD_SECRET (token, user:token or
 * SSH key), FD_SIGN (SSH key), the repository's and the quarantine's objects, what git and the server say.
 *
 * WRITES
 *	the commit and its attestation into the quarantine; a git directory of its own in the scratch directory;
 * FD_OUT (receipt.json, or tip.json); FD_LOG (what git and the server said, raw and capped); the event
 * {"event":"commit","oid"} before anything is sent.
 *
 * RUNS
 *	git push, git ls-remote, git fetch (of one commit, where no receipt has the branch) and their helpers; ssh-agent, ssh-add, ssh-keygen, ssh.
 *
 * SECURITY
 *	Hostile inputs: the server's answers and its hooks' messages, tree.json and the message
 * in it (a model's words). Reach: the one host:port that agent-dial has from the supervisor, or
 * the one socket to git receive-pack; the repository read-only; the scratch directory. Holds the
 * push credential and the signing key; git's helper for https gets the first by GIT_ASKPASS,
 * ssh-agent either by a pipe, one after the other; no other process has them. A compromise can
 * push anything that the credential may push to that remote, sign anything, and read the
 * repository. It cannot write the repository, reach another host, see the model's
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
#include "pipeline/publish/attest.h"
#include "pipeline/publish/gitdir.h"
#include "pipeline/publish/helper.h"
#include "pipeline/publish/job.h"
#include "pipeline/publish/push.h"
#include "pipeline/publish/rules.h"
#include "pipeline/publish/sign.h"
#include "pipeline/publish/sshsig.h"
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
			 const struct json *verdict, struct error *err)
{
	if (js_check_kind(tree, "tree", 1, err) ||
	    need_same(tree, "base_commit", job->base_commit, err) ||
	    need_same(tree, "base_tree", job->base_tree, err) ||
	    need_same(tree, "tree", job->tree, err))
		return err->kind;
	return rules_check_verdict(verdict, job->tree, err);
}

/* ---- what is made: the commit and, where there is a signing key, its attestation ---- */

struct made {
	char commit[GITOPS_OID_SIZE], attestation[GITOPS_OID_SIZE]; /* "": none */
	char fingerprint[SIGN_FINGERPRINT_SIZE];		    /* "": not signed */
	struct json *envelope;					    /* owned; NULL: none */
};

static void tell_made(const struct made *made)
{
	struct json *event = js_object_new();

	js_set_str(event, "oid", made->commit);
	event_send("commit", event);
}

static struct commit_spec spec_of(const struct publish_job *job)
{
	return (struct commit_spec){.name = job->name, .email = job->email, .time = job->time};
}

/* Law L7, then the commit. The same inputs give the same id (a signature by RSA or Ed25519 is the same again too),
 * so a retry knows its own branch again. */
static int make_commit(struct gitops_repo *repo, const struct publish_job *job,
		       const struct json *tree, struct signer *signer, struct made *made,
		       struct error *err)
{
	struct commit_spec spec = spec_of(job);
	struct strbuf plain AUTO_STRBUF = STRBUF_NONE, whole AUTO_STRBUF = STRBUF_NONE;
	struct strbuf signature AUTO_STRBUF = STRBUF_NONE;

	spec.tree = job->tree;
	spec.parent = job->base_commit;
	strbuf_init(&plain, COMMIT_BYTES_MAX);
	strbuf_init(&whole, COMMIT_BYTES_MAX);
	strbuf_init(&signature, SSHSIG_ARMOUR_MAX);
	if (js_need_str(tree, "message", &spec.message, err))
		return error_wrap(err, "tree.json");
	if (commit_check_tree(repo, job->base_commit, job->base_tree, js_get(tree, "changes"),
			      job->tree, err) ||
	    commit_prepare(repo, &spec, &plain, err))
		return err->kind;
	if (signer &&
	    (signer_sign(signer, SIGN_NAMESPACE_GIT, plain.data, plain.len, &signature, err) ||
	     commit_add_signature(&plain, signature.data, &whole, err)))
		return err->kind;
	if (commit_write(repo, signer ? &whole : &plain, made->commit, err))
		return err->kind;
	return commit_check(repo, made->commit, job->tree, job->base_commit, err);
}

static int make_attestation(struct gitops_repo *repo, const struct publish_job *job,
			    const struct json *tree, const struct json *verdict,
			    struct signer *signer, struct made *made, struct error *err)
{
	struct strbuf payload AUTO_STRBUF = STRBUF_NONE, pae AUTO_STRBUF = STRBUF_NONE;
	struct strbuf armour AUTO_STRBUF = STRBUF_NONE, blob AUTO_STRBUF = STRBUF_NONE;
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	struct commit_spec spec = spec_of(job);
	char *message AUTO_FREE = mem_printf("Attestation of %s\n", made->commit);
	char file_tree[GITOPS_OID_SIZE];

	strbuf_init(&payload, ATTEST_MAX / 2);
	strbuf_init(&pae, ATTEST_MAX);
	strbuf_init(&armour, SSHSIG_ARMOUR_MAX);
	strbuf_init(&blob, SSHSIG_ARMOUR_MAX);
	strbuf_init(&text, ATTEST_MAX);
	attest_statement(made->commit, tree, verdict, job->attest, &payload);
	attest_pae(payload.data, payload.len, &pae);
	if (signer_sign(signer, SIGN_NAMESPACE_ATTEST, pae.data, pae.len, &armour, err))
		return err->kind;
	if (payload.full || sshsig_unarmour(armour.data, armour.len, &blob) < 0)
		return error_set(err, ERROR_FAILED, "the attestation cannot be put together");
	made->envelope = attest_envelope(payload.data, payload.len, signer->fingerprint,
					 blob.data, blob.len);
	js_format(made->envelope, &text);
	strbuf_addc(&text, '\n');
	spec.tree = file_tree;
	spec.message = message;
	if (commit_file_tree(repo, ATTEST_FILE, text.data, text.len, file_tree, err) ||
	    commit_make(repo, &spec, made->attestation, err))
		return err->kind;
	return 0;
}

static int make_all(const struct publish_job *job, const struct json *tree,
		    const struct json *verdict, struct signer *signer, struct made *made,
		    struct error *err)
{
	struct gitops_repo *repo AUTO_REPO = NULL;

	if (repo_open_job(job->paths, true, &repo, err) ||
	    make_commit(repo, job, tree, signer, made, err))
		return err->kind;
	if (job->attest && make_attestation(repo, job, tree, verdict, signer, made, err))
		return err->kind;
	tell_made(made);
	return 0;
}

/* The signing key's agent lives only while there is something to sign. */
static int make_signed(const struct publish_job *job, const struct push_fds *fds,
		       const struct json *tree, const struct json *verdict, struct made *made,
		       struct error *err)
{
	struct signer signer;
	int kind;

	if (!job->sign)
		return make_all(job, tree, verdict, NULL, made, err);
	if (!fds->sign)
		return error_set(err, ERROR_FAILED,
				 "descriptor %d with the signing key is missing", FD_SIGN);
	if (signer_open(&signer, FD_SIGN, err))
		return err->kind;
	memcpy(made->fingerprint, signer.fingerprint, sizeof(made->fingerprint));
	kind = make_all(job, tree, verdict, &signer, made, err);
	signer_close(&signer);
	return kind;
}

/* ---- publishing ---- */

static int enter_scratch(const struct publish_job *job, struct error *err)
{
	int fd AUTO_FD = open(job->scratch, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || fchdir(fd) < 0)
		return error_errno(err, ERROR_FAILED, errno, "scratch directory %s",
				   job->scratch);
	return gitdir_make(fd, job->paths, err);
}

static int write_receipt(const struct publish_job *job, const struct made *made,
			 const struct push_result *result, struct error *err)
{
	struct json *receipt AUTO_JSON = js_artefact_new("receipt", 1);
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	js_set_str(receipt, "commit", made->commit);
	js_set_str(receipt, "tree", job->tree);
	js_set_str(receipt, "ref", job->ref);
	js_set_str(receipt, "url", job->remote.url);
	if (made->fingerprint[0])
		js_set_str(receipt, "signed_by", made->fingerprint);
	if (made->envelope) {
		char *ref AUTO_FREE = mem_printf(ATTEST_REF "%s", made->commit);

		js_set_str(receipt, "attestation_ref", ref);
		js_set(receipt, "attestation", js_copy(made->envelope));
	}
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

static void release_made(struct made *made)
{
	js_free(made->envelope);
}

static int publish(const struct publish_job *job, const struct push_fds *fds, struct error *err)
{
	struct json *tree AUTO_JSON = js_read_fd(FD_TREE, TREE_MAX, "tree.json", err);
	struct json *verdict AUTO_JSON =
	    tree ? js_read_fd(FD_VERDICT, VERDICT_MAX, "verdict.json", err) : NULL;
	struct push_result result __attribute__((cleanup(release_push_result)));
	struct made made __attribute__((cleanup(release_made))) = {.envelope = NULL};

	push_result_init(&result);
	if (!verdict || check_records(job, tree, verdict, err) || enter_scratch(job, err) ||
	    make_signed(job, fds, tree, verdict, &made, err))
		return err->kind;
	if (push_commit(job, fds, made.commit, made.attestation[0] ? made.attestation : NULL,
			&result, err)) {
		if (result.server.len)
			tell_server(&result);
		return err->kind;
	}
	return write_receipt(job, &made, &result, err);
}

/* {"kind":"tip","version":1,"tip":OID|null} */
static int ask(const struct publish_job *job, const struct push_fds *fds, struct error *err)
{
	struct json *answer AUTO_JSON = js_artefact_new("tip", 1);
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	char tip[65] = "";
	int found = enter_scratch(job, err);

	if (found == 0)
		found = push_ask(job, fds, tip, err);
	if (found < 0)
		return found;
	js_set_str(answer, "tip", found ? tip : NULL);
	strbuf_init(&text, STRBUF_MAX);
	js_format(answer, &text);
	if (fd_write_all(FD_OUT, text.data, text.len) < 0)
		return error_errno(err, ERROR_FAILED, errno, "tip.json");
	return 0;
}

static int run(struct stage *stage, struct error *err)
{
	struct push_fds fds = push_fds_look();
	struct publish_job job __attribute__((cleanup(publish_job_release)));

	if (publish_job_parse(stage->job, &job, err))
		return err->kind;
	return job.ask ? ask(&job, &fds, err) : publish(&job, &fds, err);
}

int main(int argc, char **argv)
{
	int status;

	if (helper_main(argc, argv, &status))
		return status;
	return stage_main(argc, argv, NULL, run);
}
