/*
 * Looking up a host of the list, once: all answers are checked before the first is used, and
 * the checked addresses are what is dialled for the rest of the job. A name that moves to a
 * private address later (DNS rebinding) changes nothing.
 */
#ifndef FETCH_RESOLVE_H
#define FETCH_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "pipeline/fetch/authority.h"

/* How the reason begins when an address is refused for what it is. */
#define RESOLVE_LEADS "the name leads to "
#define RESOLVE_MAX 16 /* addresses kept of one host */

struct resolved {
	struct sockaddr_storage addresses[RESOLVE_MAX]; /* with the port set */
	socklen_t lengths[RESOLVE_MAX];
	size_t count;
	char why[256]; /* when count is 0: the reason, escaped */
	bool
	    denied; /* count is 0 because of what the addresses are, not for a failed look-up */
};

enum resolve_reach {
	RESOLVE_PUBLIC, /* public addresses only */
	RESOLVE_SITE, /* private, shared and reserved ones too; never loopback or link-local */
	RESOLVE_ANY,  /* whatever addr_permitted takes with private_ok */
};

/* Fills out. Blocks as long as the system's resolver does. */
void resolve_host(const struct authority *at, enum resolve_reach reach, struct resolved *out);

#endif
