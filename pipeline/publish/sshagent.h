/*
 * A private ssh-agent for one push: it holds the key in its memory, its socket lies in the
 * scratch directory (the working directory), and it ends with this process. The key goes to it
 * through a pipe; it is never in a file of ours (ssh-agent(1), ssh-add(1)).
 */
#ifndef PUBLISH_SSHAGENT_H
#define PUBLISH_SSHAGENT_H

#include "pipeline/spawn.h"

struct error;
struct secret;
struct sshkey_use;

struct sshagent {
	struct child child;
	int out; /* owned: its standard output; -1 */
};

#define SSHAGENT_NONE                                                                          \
	{                                                                                      \
		.child = {.pidfd = -1, .control = -1, .stderr_fd = -1}, .out = -1              \
	}

/* Starts it and gives it the key. 0; ERROR_USAGE when the secret is no key that can be used;
 * ERROR_FAILED. On failure nothing is left running. */
int sshagent_start(struct sshagent *agent, const struct secret *key,
		   const struct sshkey_use *use, long long deadline_ms, struct error *err);
void sshagent_stop(struct sshagent *agent); /* may be called again */

#endif
