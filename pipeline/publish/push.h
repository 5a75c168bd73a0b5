/*
 * Brings one commit to one ref of the remote, by git push from our own git directory; decides
 * by rules.h what may be done there; reads git's answer strictly.
 *
 * That the ref was moved is taken from git's porcelain status line, which is the server's
 * report-status (gitprotocol-pack(5)); it is not asked again with ls-remote, whose answer would
 * be the same server's word.
 */
#ifndef PUBLISH_PUSH_H
#define PUBLISH_PUSH_H

#include <stdbool.h>

#include "pipeline/base/strbuf.h"
#include "pipeline/publish/job.h"

struct error;

#define PUSH_SERVER_MAX ((size_t)64 << 10) /* bytes of the server's messages that are kept */
#define PUSH_LOG_MAX ((size_t)1 << 20)	   /* bytes of raw output that go to FD_LOG */

struct push_result {
	bool already;	      /* the ref had the commit before */
	char tip[65];	      /* of push_ask alone: what the ref has, "" */
	struct strbuf server; /* the server's own messages, raw; filled on failure too */
};

/* Which of the row's descriptors came with this start. A number that did not is soon somebody
 * else's: so it is looked at once, before anything is opened. */
struct push_fds {
	bool secret, log, net, remote, sign;
};

struct push_fds push_fds_look(void);

void push_result_init(struct push_result *result);
void push_result_release(struct push_result *result);

/*
 * attestation: commit that goes to ATTEST_REF oid in the same push, both or none (NULL: none).
 * The working directory is the scratch directory; its git directory is made (gitdir.h). Uses
 * FD_SECRET, FD_NET, FD_REMOTE and FD_LOG, and closes the first and third. 0; ERROR_NO when the
 * server or the rules say no (a resumed run tries again); else another kind.
 */
int push_commit(const struct publish_job *job, const struct push_fds *fds, const char *oid,
		const char *attestation, struct push_result *result, struct error *err);

/*
 * What the remote's ref has now, by the same way; nothing is sent. 1 and tip; 0 when it is not there; or an error kind.
 */
int push_ask(const struct publish_job *job, const struct push_fds *fds, char tip[65],
	     struct error *err);

#endif
