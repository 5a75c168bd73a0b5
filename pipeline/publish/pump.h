/*
 * Bytes between two sockets, both ways, with half-close, for a poll(2) loop. It looks at no
 * byte that passes. Used by the relay and for the connection to a local receive-pack.
 */
#ifndef PUBLISH_PUMP_H
#define PUBLISH_PUMP_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#define PUMP_BYTES 65536 /* buffer of each direction */
#define PUMP_POLLFDS 2	 /* entries of pump_fill */

struct pump_way {
	char *data;	/* owned: bytes read and not yet written */
	size_t at, len; /* what of them is left */
	bool ended;	/* nothing more comes from the source */
	bool shut;	/* and the target has been told */
	size_t from;	/* index of the source in fd */
};

struct pump {
	int fd[2];		 /* owned; -1: the pump is free */
	unsigned long long came; /* bytes that were read from fd[1] */
	struct pump_way way[2];	 /* way[i] reads from fd[i] and writes to fd[1 - i] */
};

/* Takes both descriptors (made non-blocking; closed at the end). first (may be empty) goes to b
 * before anything that is read from a. */
void pump_init(struct pump *pump, int a, int b, const void *first, size_t first_len);
void pump_release(
    struct pump *pump); /* closes; a released or zeroed-with--1 pump may be released again */

/* Fills two entries; an entry with fd -1 waits for nothing. */
void pump_fill(const struct pump *pump, struct pollfd fds[PUMP_POLLFDS]);
/* Moves what can be moved. Returns false when both ways have ended: release it then. */
bool pump_move(struct pump *pump, const struct pollfd fds[PUMP_POLLFDS]);

#endif
