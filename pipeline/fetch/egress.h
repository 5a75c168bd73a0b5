/*
 * The proxy itself: accepts on one listening socket that agent-jail made inside the warm's
 * network namespace, decides by pipeline/fetch/policy.h, looks the name up itself, dials an
 * address that it has checked, and lets bytes through once the first of them are a TLS hello
 * for that very name.
 *
 * One thread, poll(2); only a look-up blocks, once a host of the list. It sees no plain text of
 * what it carries and holds no secret.
 */
#ifndef FETCH_EGRESS_H
#define FETCH_EGRESS_H

#include "pipeline/fetch/policy.h"

struct error;

struct egress_totals {
	unsigned long long up_bytes, down_bytes;
	unsigned long long allowed, denied, failed; /* requests */
};

/*
 * Serves until stop_fd is readable or at its end of file (the supervisor's side of FD_CONTROL),
 * or the policy's wall_ms are over. Sends an "egress" event for each decision. listener is
 * borrowed. 0, or an error kind when the listener itself fails.
 */
int egress_serve(const struct policy *policy, int listener, int stop_fd,
		 struct egress_totals *totals, struct error *err);

/*
 * Receives the listening socket: waits on fd (a unix stream socket, borrowed) for one message
 * with one descriptor, at most wait_ms and not past stop_fd's end. Checks that it is a
 * listening TCP socket on a loopback address. Returns it (the caller closes), or -1 with err:
 * ERROR_SKIPPED when the other side closed without sending one (the jail was not needed),
 * ERROR_ISOLATION when it is something else.
 */
int egress_take_listener(int fd, int stop_fd, long long wait_ms, struct error *err);

#endif
