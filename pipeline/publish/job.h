/*
 * agent-publish's job as the supervisor writes it, checked and taken apart:
 *
 *	{"paths":{repo,common,alternates,objects,scratch,libexec,ca?,remote?:[object directories of a local
 *	 remote]},
 *	 "remote":{"kind","url","host","port","user","path","known_hosts":text},
 *	 "ref","expect":oid|null,"base_commit","base_tree","tree","author":{"name","email"},"time":epoch,
 *	 "receipts":[oid…],"issue":HEX|null,"deadline_s":N,"sign":bool,
 *	 "attest":{what attest.h makes of it}|null}
 *
 * or, to learn what the remote's ref has: {"ask":true,"paths","remote","ref","deadline_s"}.
 */
#ifndef PUBLISH_JOB_H
#define PUBLISH_JOB_H

#include <stdbool.h>

#include "pipeline/publish/remote.h"

struct error;
struct json;

struct publish_job {
	const struct json *paths; /* borrowed from the job, as all that is not owned */
	struct remote remote;	  /* owned */
	const char *known_hosts;  /* ssh: text of the operator's known_hosts; may be NULL */
	const char *scratch, *libexec; /* directories: ours to write; of the programs */
	const char *ca;		       /* https: file of certificate authorities, or NULL */
	const char *ref;
	const char
	    *expect; /* oid that the remote's ref must have; NULL: it must not be there */
	const char *base_commit, *base_tree, *tree;
	const char *name, *email;
	long long time;		     /* seconds since 1970: author and committer */
	const struct json *receipts; /* array of oids; may be NULL */
	const char
	    *issue; /* what OURS_TRAILER says of the issue; NULL: no commit is known by it */
	long long deadline_s;
	bool ask;  /* push nothing, ask: only remote, ref and deadline are set */
	bool sign; /* the signing key is on FD_SIGN */
	const struct json *attest; /* what an attestation says of the run; NULL: none is made */
};

/* 0, or ERROR_USAGE with the key. publish_job_release frees. */
int publish_job_parse(const struct json *job, struct publish_job *parsed, struct error *err);
void publish_job_release(struct publish_job *job);

#endif
