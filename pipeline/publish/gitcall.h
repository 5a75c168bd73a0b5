/*
 * The command line and the environment of git as agent-publish runs it: everything is listed
 * here and nothing is inherited (reference: git(1), git-config(1), git-push(1)). Pure, so that
 * a test can read the list.
 */
#ifndef PUBLISH_GITCALL_H
#define PUBLISH_GITCALL_H

#include <stdbool.h>
#include <stddef.h>

#include "pipeline/publish/remote.h"

#define GITCALL_WORDS 128

struct gitcall_target {
	const struct remote *remote; /* where to */
	const char *git_dir;	     /* absolute: of ours (gitdir.h) */
	const char *program; /* absolute: agent-publish itself, for GIT_ASKPASS and GIT_SSH */
	const char *ca;	     /* https: file of certificate authorities, or NULL */
	int relay_port;	     /* https, ssh: listener on 127.0.0.1 */
	int remote_fd;	     /* local: descriptor that leads to git receive-pack */
};

struct gitcall {
	const char *argv[GITCALL_WORDS]; /* NULL-terminated */
	const char *env[GITCALL_WORDS];	 /* NULL-terminated */
	char *owned[GITCALL_WORDS];	 /* strings that release frees */
	size_t argc, envc, owned_count;
};

/* `git push` of oid to ref, with a lease: lease is the oid that the ref must have there, NULL:
 * it must not be there. attestation: a commit that goes to ATTEST_REF oid, which must not be
 * there, atomically with it; or NULL. */
void gitcall_push(struct gitcall *call, const struct gitcall_target *target, const char *oid,
		  const char *ref, const char *lease, const char *attestation);
/* `git ls-remote` of exactly that ref. */
void gitcall_ls_remote(struct gitcall *call, const struct gitcall_target *target,
		       const char *ref);
/* `git fetch` of what that ref points at, without its history and, where the server can do that, without its
 * files; no ref is written. target.git_dir is one without alternates. */
void gitcall_fetch_tip(struct gitcall *call, const struct gitcall_target *target,
		       const char *ref);
/* `git ls-remote` of HEAD, with the branch that it stands for. */
void gitcall_ls_head(struct gitcall *call, const struct gitcall_target *target);
/* `git fetch` of all refs but replacements, into target.git_dir; what the remote has no more goes. Every object is
 * checked. */
void gitcall_fetch_all(struct gitcall *call, const struct gitcall_target *target);
/* `git gc --auto` in git_dir, where it is due by git's own measure. keep_all: also what no ref leads to, however old. */
void gitcall_gc(struct gitcall *call, const char *git_dir, bool keep_all);
void gitcall_release(struct gitcall *call);

#endif
