/*
 * Checking an SSH signature by ssh-keygen -Y (ssh-keygen(1), ALLOWED SIGNERS): first whether it
 * is one of these bytes at all, then whether the allowed signers know the key for this namespace.
 * The working directory is a scratch directory.
 */
#ifndef PUBLISH_SSHVERIFY_H
#define PUBLISH_SSHVERIFY_H

#include <stddef.h>

#include "pipeline/publish/sign.h"
#include "pipeline/stages.h"

struct error;

enum sshverify_result {
	SSHVERIFY_BAD,	   /* no signature of these bytes in this namespace */
	SSHVERIFY_GOOD,	   /* by a key that nobody vouches for */
	SSHVERIFY_TRUSTED, /* by a key of the allowed signers */
};

struct sshverify {
	enum sshverify_result result;
	char fingerprint[SIGN_FINGERPRINT_SIZE]; /* "" when BAD */
	char principal[256];			 /* TRUSTED: escaped */
	char words[256];			 /* BAD: ssh-keygen's, escaped */
};

/*
 * row: whose child ssh-keygen is. allowed: text of an allowed signers file, or NULL. when: the time of the signature, seconds
 * since 1970, for keys with a validity. 0 and *found; ERROR_FAILED when ssh-keygen cannot be run.
 */
int sshverify_run(enum stage_id row, const char *name_space, const void *data, size_t len,
		  const char *armour, size_t armour_len, const char *allowed, long long when,
		  struct sshverify *found, struct error *err);

#endif
