/*
 * Descriptors from outer to the payload, many in one message: first the "parts" (v1 control
 * group to join, detached mounts of the spec), which outer makes while the namespaces come to
 * be, then the go with its layers.
 */
#ifndef JAIL_PARTS_H
#define JAIL_PARTS_H

#include <stdbool.h>
#include <stddef.h>

struct jail_run;

#define PARTS_MAX 253 /* descriptors a message: SCM_MAX_FD of the kernel */

/* One message. Descriptors stay the caller's. 0, or -1 with errno. */
int parts_send_raw(int sock, const char *text, size_t len, const int *fds, size_t count);
/* Whether errno of a failed send means that the payload has ended. Then that is no failure of
 * its own: why it ended comes in a message of the payload or the helper. */
bool parts_peer_gone(void);

/* The next message, at most size bytes; fds (PARTS_MAX) become the caller's. Length; 0 when the
 * peer is gone; -1 with errno. */
long parts_receive_raw(int sock, char *text, size_t size, int *fds, size_t *count);

/* Outer: what run holds of cgroup.attach, work_tree and sources; closes the mounts. 0 or -1
 * (step_fail). */
int parts_send(struct jail_run *run);

/* Payload: puts them into run. Waits; exits quietly when outer is gone. 0 or -1 (step_fail). */
int parts_receive(struct jail_run *run);

#endif
