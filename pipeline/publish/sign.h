/*
 * SSH signatures (PROTOCOL.sshsig of OpenSSH) by ssh-keygen -Y, over bytes that we made: of a
 * commit in git's namespace "git" (gpg.format=ssh), of an attestation in ours.
 *
 * The key goes to a private ssh-agent by a pipe (sshagent.h), so it is in no file; what is
 * handed to ssh-keygen is its public half. Each signature is verified as soon as it is made.
 */
#ifndef PUBLISH_SIGN_H
#define PUBLISH_SIGN_H

#include <stddef.h>

#include "pipeline/publish/sshagent.h"

struct error;
struct strbuf;

#define SIGN_NAMESPACE_GIT "git"
#define SIGN_NAMESPACE_ATTEST "agent-attest"
#define SIGN_PUBLIC_KEY                                                                        \
	"signing.pub"		 /* file of the scratch directory, once a signer was opened */
#define SIGN_FINGERPRINT_SIZE 64 /* "SHA256:" and 43 characters of base64 */
#define SIGN_DEADLINE_MS 15000	 /* for all of it: a signing failure ends the run in seconds */

struct signer {
	struct sshagent agent;
	long long deadline_ms;
	char fingerprint[SIGN_FINGERPRINT_SIZE];
};

/*
 * The working directory is the scratch directory. Takes and closes key_fd. 0; ERROR_USAGE when
 * it is no key that can sign; ERROR_FAILED. On failure nothing is left running.
 */
int signer_open(struct signer *signer, int key_fd, struct error *err);
void signer_close(struct signer *signer); /* may be called again */

/* The armoured signature of data, appended to out. 0 or ERROR_FAILED. */
int signer_sign(struct signer *signer, const char *name_space, const void *data, size_t len,
		struct strbuf *out, struct error *err);

#endif
