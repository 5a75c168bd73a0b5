/*
 * The one way from git and ssh to the server: a listener on 127.0.0.1 of the row's own network
 * namespace. Each connection to it becomes one connection of agent-dial, which has its one
 * host:port from the supervisor; so whatever a child asks for, no other host can be reached.
 *
 *	RELAY_CONNECT	an HTTP proxy that knows one request: CONNECT host:port (RFC 9110
 * section 9.3.6) RELAY_FORWARD	every connection is passed on as it is
 */
#ifndef PUBLISH_RELAY_H
#define PUBLISH_RELAY_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#include "pipeline/base/error.h"

enum relay_kind { RELAY_CONNECT, RELAY_FORWARD };

#define RELAY_CONNECTIONS 8			  /* at once; git needs one or two */
#define RELAY_POLLFDS (1 + RELAY_CONNECTIONS * 2) /* entries of relay_fill */
#define RELAY_HEADER_MAX 8192			  /* longest CONNECT request, bytes */

struct relay;

/*
 * Listens on 127.0.0.1, a port of the kernel's choice. authority: "host:port" that CONNECT must
 * name. net_fd is borrowed (FD_NET). 0 and *relay (relay_free), or ERROR_FAILED.
 */
int relay_open(enum relay_kind kind, const char *authority, int net_fd, struct relay **relay,
	       struct error *err);
void relay_free(struct relay *relay); /* closes everything; NULL is fine */
int relay_port(const struct relay *relay);

/* The most bytes that may come from the server, over all connections; then they are ended. */
void relay_limit(struct relay *relay, unsigned long long bytes);
bool relay_is_over(const struct relay *relay);

/* For a poll loop: fills RELAY_POLLFDS entries (fd -1 where nothing is waited for), and serves
 * them after. */
void relay_fill(const struct relay *relay, struct pollfd fds[RELAY_POLLFDS]);
void relay_serve(struct relay *relay, const struct pollfd fds[RELAY_POLLFDS]);

/* Why agent-dial gave no connection the last time that it was asked; kind ERROR_NONE when it
 * did, or was not asked. Borrowed. */
const struct error *relay_error(const struct relay *relay);

/*
 * The request of a CONNECT client. Pure. 0: more bytes are needed; 1: it is CONNECT for
 * authority, *used bytes long; -1: it is anything else.
 */
int relay_parse_connect(const char *data, size_t len, const char *authority, size_t *used);

#endif
