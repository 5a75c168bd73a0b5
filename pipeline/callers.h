/*
 * Connections at a socket that any local user may call, until they have said all that they want to say. Nobody is read
 * from here, so nobody is waited for: who has sent a whole message (and shut down their side), or more of it than a socket
 * holds, is ready; who has not after CALLERS_PATIENCE_MS is hung up on. When all places are taken, the user with most of
 * them loses their oldest, so that a user who calls without end takes places from nobody else.
 */
#ifndef PIPELINE_CALLERS_H
#define PIPELINE_CALLERS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct pollfd;

#define CALLERS_MAX 128
#define CALLERS_PATIENCE_MS 5000
#define CALLERS_READY_MS                                                                       \
	20000 /* one that is ready: then its other end has given up (cmd/agent/hook_post.c) */

struct caller {
	int fd;	   /* owned; -1: free */
	uid_t uid; /* the kernel's word (SO_PEERCRED) */
	long long since_ms;
	bool ready;
};

struct callers {
	struct caller list[CALLERS_MAX];
};

void callers_init(struct callers *callers);
void callers_release(struct callers *callers);

/* Takes over who waits at a listening socket that does not block; some of them, when they are many. now_ms: fd_now_ms(). */
void callers_accept(struct callers *callers, int listen_fd, long long now_ms);

/* Fills CALLERS_MAX of them, for those that are not ready. */
void callers_poll(const struct callers *callers, struct pollfd *fds);

/* What poll(2) said of these (NULL: nothing was asked), and who has become ready without it; hangs up on whose time is over. */
void callers_look(struct callers *callers, const struct pollfd *fds, long long now_ms);

/* The connection that has been ready for longest, of a user for whom may (NULL: for all) holds; its descriptor is the
 * caller's. -1: there is none. */
int callers_next(struct callers *callers, bool (*may)(const void *arg, uid_t uid),
		 const void *arg, uid_t *uid);

#endif
