/*
 * NAME
 *	agent-verify - checks a commit's signature and attestation against the objects
 *
 * SYNOPSIS
 *	agent-verify (started by agent only)
 *
 * READS
 *	FD_JOB {"paths":{repo,common?,alternates?,scratch},"rev",
 *	"allowed_signers":TEXT|null (ssh-keygen(1), ALLOWED SIGNERS), "remotes":[NAME...]}; the repository's objects
 *	and refs.
 *
 * WRITES
 *	FD_OUT verify.json {"kind":"verify","version":1,"commit","tree","subject",
 *	"checks":[{"name","state":"holds"|"fails"|"unknown","text","next"?}...],"statement":{...}|null};
 *	files for ssh-keygen in the scratch directory.
 *
 * RUNS
 *	ssh-keygen.
 *
 * SECURITY
 *	Hostile inputs: everything but the allowed signers; the commit and the attestation come
 *	from whoever may push. Reach: the repository read-only, the scratch directory. No secret,
 *	no network. A compromise can say that a commit is good that is not; it can reach nothing.
 *	What is said is derived here: the patch from the two trees, the subject from the commit's
 *	own id. Nothing in a statement is believed because it is there.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gitops/base.h"
#include "gitops/commit.h"
#include "gitops/rederive.h"
#include "gitops/refs.h"
#include "gitops/repo.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/sha256.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/fds.h"
#include "pipeline/publish/attest.h"
#include "pipeline/publish/rules.h"
#include "pipeline/publish/sign.h"
#include "pipeline/publish/sshsig.h"
#include "pipeline/publish/sshverify.h"
#include "pipeline/stage.h"

#define PATCH_MAX ((size_t)128 << 20)

enum state { HOLDS, FAILS, UNKNOWN };

struct verify {
	struct gitops_repo *repo; /* owned */
	const struct gitops_paths *where;
	const char *allowed;	    /* borrowed from the job; NULL */
	const struct json *remotes; /* borrowed from the job: names */
	bool shallow;
	char commit[GITOPS_OID_SIZE], tree[GITOPS_OID_SIZE], parent[GITOPS_OID_SIZE];
	bool signed_by_ssh;			/* well or not: as what agent publishes */
	char commit_key[SIGN_FINGERPRINT_SIZE]; /* "" when not signed well */
	struct json *statement;			/* owned; NULL */
	struct json *checks;			/* owned by the result */
};

static void add(struct verify *verify, const char *name, enum state state, const char *format,
		...) __attribute__((format(printf, 4, 5)));
static void add(struct verify *verify, const char *name, enum state state, const char *format,
		...)
{
	static const char *const states[] = {"holds", "fails", "unknown"};
	struct json *check = js_object_new();
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	char line[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	strbuf_init(&text, sizeof(line) * 2);
	text_to_utf8(&text, line, strlen(line));
	js_set_str(check, "name", name);
	js_set_str(check, "state", states[state]);
	js_set_str(check, "text", text.data);
	js_push(verify->checks, check);
}

/* What to do about the check that was added last. */
static void add_next(struct verify *verify, char *next)
{
	char *words AUTO_FREE = next;

	if (words)
		js_set_str(js_at(verify->checks, js_len(verify->checks) - 1), "next", words);
}

/* ---- what is not here ---- */

static bool has_remote(const struct verify *verify, const char *name, size_t len)
{
	for (size_t i = 0; i < js_len(verify->remotes); i++) {
		const char *remote = js_text(js_at(verify->remotes, i));

		if (strlen(remote) == len && strncmp(remote, name, len) == 0)
			return rules_name_is_plain(remote);
	}
	return false;
}

/* Where it is fetched from: the one remote, or origin; NULL: nobody knows. Its name needs no quotes. */
static const char *remote_of(const struct verify *verify)
{
	const char *only = js_text(js_at(verify->remotes, 0));

	if (js_len(verify->remotes) == 1 && has_remote(verify, only, strlen(only)))
		return only;
	return has_remote(verify, "origin", 6) ? "origin" : NULL;
}

/* How to get a ref that is not here, by the name that it was asked for; NULL where that is not known. */
static char *how_to_fetch(const struct verify *verify, const char *rev)
{
	static const char tracked[] = "refs/remotes/";
	bool there = strncmp(rev, tracked, strlen(tracked)) == 0;
	const char *name = there ? rev + strlen(tracked) : rev, *remote = remote_of(verify);
	size_t len = strcspn(name, "/");

	/* what has the digits of an abbreviated id is hardly a branch */
	if (!rules_name_is_plain(rev) || text_is_hex(rev, strlen(rev)))
		return NULL;
	if (name[len] && has_remote(verify, name, len))
		return mem_printf("git fetch %.*s %s:refs/remotes/%s", (int)len, name,
				  name + len + 1, name);
	if (!remote || there)
		return NULL;
	if (strncmp(rev, "refs/", 5) == 0)
		return mem_printf("git fetch %s %s:%s", remote, rev, rev);
	return mem_printf("git fetch %s %s:refs/remotes/%s/%s, then agent verify %s/%s", remote,
			  rev, remote, rev, remote, rev);
}

/* ---- signatures ---- */

/* Says what became of one signature; its key when it is good. */
static int tell_signature(struct verify *verify, const char *name, const char *name_space,
			  const struct strbuf *data, const struct strbuf *armour,
			  long long when, char key[SIGN_FINGERPRINT_SIZE], struct error *err)
{
	struct sshverify found;

	if (sshverify_run(STAGE_VERIFY, name_space, data->data, data->len, armour->data,
			  armour->len, verify->allowed, when, &found, err))
		return err->kind;
	memcpy(key, found.fingerprint, SIGN_FINGERPRINT_SIZE);
	switch (found.result) {
	case SSHVERIFY_BAD:
		key[0] = '\0';
		add(verify, name, FAILS, "the signature is not one of these bytes: %s",
		    found.words);
		break;
	case SSHVERIFY_GOOD:
		if (verify->allowed)
			add(verify, name, FAILS,
			    "signed by %s, which no line of the allowed signers has for %s",
			    found.fingerprint, name_space);
		else
			add(verify, name, UNKNOWN,
			    "signed by %s; whose that is, no allowed signers say",
			    found.fingerprint);
		break;
	case SSHVERIFY_TRUSTED:
		add(verify, name, HOLDS, "signed by %s, %s", found.principal,
		    found.fingerprint);
		break;
	}
	return 0;
}

static int check_commit(struct verify *verify, long long *when, struct error *err)
{
	struct strbuf bytes AUTO_STRBUF = STRBUF_NONE, plain AUTO_STRBUF = STRBUF_NONE;
	struct strbuf signature AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&bytes, COMMIT_BYTES_MAX);
	strbuf_init(&plain, COMMIT_BYTES_MAX);
	strbuf_init(&signature, SSHSIG_ARMOUR_MAX);
	if (commit_read(verify->repo, verify->commit, &bytes, err))
		return err->kind;
	*when = commit_time(bytes.data, bytes.len);
	if (commit_one_parent(bytes.data, bytes.len, verify->parent) < 0)
		verify->parent[0] = '\0';
	if (commit_split_signature(bytes.data, bytes.len, &plain, &signature, err)) {
		add(verify, "commit signature", FAILS, "%s", err->message);
		*err = (struct error){.kind = ERROR_NONE};
		return 0;
	}
	if (!signature.len) {
		add(verify, "commit signature", FAILS, "the commit is not signed");
		add_next(verify,
			 mem_strdup("verify a commit that agent has published with "
				    "publish.signingKey set: it is signed and attested"));
		return 0;
	}
	if (strncmp(signature.data, "-----BEGIN SSH SIGNATURE-----", 29) != 0) {
		add(verify, "commit signature", UNKNOWN,
		    "the signature is none of SSH (gpg.format=ssh); git verify-commit may know "
		    "it");
		return 0;
	}
	verify->signed_by_ssh = true;
	return tell_signature(verify, "commit signature", SIGN_NAMESPACE_GIT, &plain,
			      &signature, *when, verify->commit_key, err);
}

/* ---- the attestation ---- */

/* The envelope from its ref; NULL without err when there is none. */
static struct json *read_envelope(struct verify *verify, struct error *err)
{
	static const char *const places[] = {ATTEST_REF, "refs/remotes/origin/agent/attest/"};
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	struct error ignored = {0};
	struct ref_value value = {.oid = ""};
	bool there = false;

	for (size_t i = 0; !there && i < ARRAY_LEN(places); i++) {
		char *ref AUTO_FREE = mem_printf("%s%s", places[i], verify->commit);

		there = refs_resolve(verify->where, ref, &value, &ignored) == 0;
	}
	if (!there)
		return NULL;
	strbuf_init(&text, ATTEST_MAX);
	if (commit_read_file(verify->repo, value.oid, ATTEST_FILE, &text, err))
		return NULL;
	return js_parse(text.data, text.len, ATTEST_MAX, "the attestation", err);
}

static int open_attestation(struct verify *verify, long long when, struct error *err)
{
	struct json *envelope AUTO_JSON = read_envelope(verify, err);
	struct strbuf payload AUTO_STRBUF = STRBUF_NONE, blob AUTO_STRBUF = STRBUF_NONE;
	struct strbuf pae AUTO_STRBUF = STRBUF_NONE, armour AUTO_STRBUF = STRBUF_NONE;
	char key[SIGN_FINGERPRINT_SIZE] = "";

	if (!envelope && !err->kind) {
		char *ref AUTO_FREE = mem_printf(ATTEST_REF "%s", verify->commit);

		add(verify, "attestation", FAILS, "there is none in this clone: no %s", ref);
		/* what is not signed so has none anywhere */
		if (verify->signed_by_ssh)
			add_next(verify, how_to_fetch(verify, ref));
		return 0;
	}
	strbuf_init(&payload, ATTEST_MAX);
	strbuf_init(&blob, SSHSIG_ARMOUR_MAX);
	strbuf_init(&pae, ATTEST_MAX);
	strbuf_init(&armour, SSHSIG_ARMOUR_MAX * 2);
	if (!envelope || attest_open(envelope, &payload, &blob, err)) {
		add(verify, "attestation", FAILS, "%s", err->message);
		*err = (struct error){.kind = ERROR_NONE};
		return 0;
	}
	attest_pae(payload.data, payload.len, &pae);
	sshsig_armour(blob.data, blob.len, &armour);
	if (tell_signature(verify, "attestation signature", SIGN_NAMESPACE_ATTEST, &pae,
			   &armour, when, key, err))
		return err->kind;
	if (verify->commit_key[0] && key[0])
		add(verify, "one key", strcmp(key, verify->commit_key) == 0 ? HOLDS : FAILS,
		    strcmp(key, verify->commit_key) == 0
			? "commit and attestation are signed by the same key"
			: "commit and attestation are signed by different keys");
	verify->statement =
	    js_parse(payload.data, payload.len, ATTEST_MAX, "the statement", err);
	if (!verify->statement) {
		add(verify, "statement", FAILS, "%s", err->message);
		*err = (struct error){.kind = ERROR_NONE};
	}
	return 0;
}

static bool names(const struct json *statement, const char *algorithm, const char *oid)
{
	const struct json *subjects = js_get(statement, "subject");

	for (size_t i = 0; i < js_len(subjects); i++)
		if (strcmp(js_str(js_get(js_at(subjects, i), "digest"), algorithm, ""), oid) ==
		    0)
			return true;
	return false;
}

static void check_subject(struct verify *verify)
{
	bool ours = strcmp(js_str(verify->statement, "_type", ""),
			   "https://in-toto.io/Statement/v1") == 0 &&
		    strcmp(js_str(verify->statement, "predicateType", ""),
			   "https://in-toto.io/attestation/test-result/v0.1") == 0;

	if (!ours)
		add(verify, "subject", FAILS, "this is no statement about a test result");
	else if (!names(verify->statement, "gitCommit", verify->commit) ||
		 !names(verify->statement, "gitTree", verify->tree))
		add(verify, "subject", FAILS, "the statement is about another commit or tree");
	else
		add(verify, "subject", HOLDS,
		    "the statement is about this commit and its tree");
}

/* Tree = base + patch, from the objects. */
static int check_patch(struct verify *verify, const struct json *facts, struct error *err)
{
	struct strbuf patch AUTO_STRBUF = STRBUF_NONE;
	const char *claimed = js_str(js_get(facts, "patch"), "sha256", "");
	char base_tree[GITOPS_OID_SIZE], digest[65];

	if (!verify->parent[0] ||
	    strcmp(js_str(facts, "base_commit", ""), verify->parent) != 0) {
		add(verify, "base", FAILS,
		    "the statement's base is not the commit's one parent");
		return 0;
	}
	if (repo_commit_tree(verify->repo, verify->parent, base_tree, err)) {
		add(verify, "base", UNKNOWN, "%s%s", err->message,
		    verify->shallow ? " (this clone is shallow)" : "");
		if (remote_of(verify))
			add_next(verify,
				 verify->shallow
				     ? mem_printf("git fetch --unshallow %s", remote_of(verify))
				     : mem_printf("git fetch %s %s", remote_of(verify),
						  verify->parent));
		*err = (struct error){.kind = ERROR_NONE};
		return 0;
	}
	if (strcmp(js_str(facts, "base_tree", ""), base_tree) != 0) {
		add(verify, "base", FAILS, "the base has another tree than the statement says");
		return 0;
	}
	add(verify, "base", HOLDS,
	    "the base is the commit's one parent, with the tree it says");
	strbuf_init(&patch, PATCH_MAX);
	if (rederive_patch(verify->repo, base_tree, verify->tree, &patch, err)) {
		add(verify, "patch", err->kind == ERROR_NO ? FAILS : UNKNOWN, "%s",
		    err->message);
		*err = (struct error){.kind = ERROR_NONE};
		return 0;
	}
	sha256_hex(patch.data, patch.len, digest);
	if (strcmp(digest, claimed) == 0)
		add(verify, "patch", HOLDS, "base and the patch %.16s... make this tree",
		    digest);
	else
		add(verify, "patch", FAILS,
		    "the tree is not the base and the patch of the statement");
	return 0;
}

static int check_statement(struct verify *verify, struct error *err)
{
	const struct json *predicate = js_get(verify->statement, "predicate");
	const char *result = js_str(predicate, "result", "");

	check_subject(verify);
	if (check_patch(verify, js_get(predicate, "agent"), err))
		return err->kind;
	if (strcmp(result, "PASSED") == 0)
		add(verify, "result", HOLDS, "the tests passed, it says");
	else
		add(verify, "result", FAILS, "the tests did not pass");
	return 0;
}

/* ---- all of it ---- */

static int find_commit(struct verify *verify, const char *rev, struct json *out,
		       struct error *err)
{
	struct ref_value value;
	char *next AUTO_FREE = NULL;

	if (base_find(verify->repo, verify->where, rev, &value, err)) {
		if (value.missing && (next = how_to_fetch(verify, rev)))
			error_next(err, "%s", next);
		return err->kind;
	}
	if (base_peel(verify->repo, value.oid, err)) {
		if (strcmp(rev, value.oid) == 0 && !err->next[0] && remote_of(verify))
			error_next(err, "git fetch %s %s", remote_of(verify), rev);
		return err->kind;
	}
	if (repo_commit_tree(verify->repo, value.oid, verify->tree, err))
		return err->kind;
	memcpy(verify->commit, value.oid, sizeof(verify->commit));
	js_set_str(out, "commit", verify->commit);
	js_set_str(out, "tree", verify->tree);
	return 0;
}

static int verify_all(struct verify *verify, const char *rev, struct json *out,
		      struct error *err)
{
	long long when = 0;

	if (find_commit(verify, rev, out, err) || check_commit(verify, &when, err) ||
	    open_attestation(verify, when, err))
		return err->kind;
	if (verify->statement) {
		if (check_statement(verify, err))
			return err->kind;
		js_set(out, "statement", js_copy(verify->statement));
	}
	return 0;
}

static int write_result(const struct json *out, struct error *err)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&text, STRBUF_MAX);
	js_format(out, &text);
	strbuf_addc(&text, '\n');
	if (fd_write_all(FD_OUT, text.data, text.len) < 0)
		return error_errno(err, ERROR_FAILED, errno, "verify.json");
	return 0;
}

static void release(struct verify *verify)
{
	repo_close(verify->repo);
	js_free(verify->statement);
}

static int run(struct stage *stage, struct error *err)
{
	const struct json *paths = js_get(stage->job, "paths");
	struct gitops_paths where = {.gitdir = js_str(paths, "repo", NULL),
				     .common = js_str(paths, "common", NULL)};
	struct verify verify __attribute__((cleanup(release))) = {
	    .where = &where,
	    .allowed = js_str(stage->job, "allowed_signers", NULL),
	    .remotes = js_get(stage->job, "remotes"),
	    .checks = js_array_new()};
	struct json *out AUTO_JSON = js_artefact_new("verify", 1);
	const char *scratch = js_str(paths, "scratch", NULL);
	struct repo_format format = {.shallow = false};

	js_set(out, "checks", verify.checks);
	if (!where.gitdir || !scratch)
		return error_set(err, ERROR_USAGE, "job: no repository or scratch directory");
	if (chdir(scratch) < 0)
		return error_errno(err, ERROR_FAILED, errno, "scratch directory %s", scratch);
	if (refs_check_format(&where, &format, err)) {
		return err->kind;
	}
	verify.shallow = format.shallow;
	if (repo_open_job(paths, false, &verify.repo, err) ||
	    verify_all(&verify, js_str(stage->job, "rev", "HEAD"), out, err))
		return err->kind;
	return write_result(out, err);
}

int main(int argc, char **argv)
{
	return stage_main(argc, argv, NULL, run);
}
