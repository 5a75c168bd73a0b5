/* The resolver on the jail's loopback: answers every query at once that the name does not exist. See observe.h. */
#ifndef JAIL_RESOLVER_H
#define JAIL_RESOLVER_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox/jail/dns.h"

struct jail_run;

#define RESOLVER_ADDRESS "127.0.0.53"
#define RESOLVER_CONNECTIONS 8
#define RESOLVER_FDS (2 + RESOLVER_CONNECTIONS)

struct resolver_connection {
	int fd; /* owned, -1: free */
	size_t have;
	uint8_t
	    data[2 + DNS_QUERY_MAX]; /* a query behind its length (RFC 1035 section 4.2.2) */
};

struct resolver {
	int udp, tcp; /* owned */
	struct resolver_connection connections[RESOLVER_CONNECTIONS];
	unsigned next; /* connection that goes first when a further one comes */
	void (*asked)(void *arg, const struct dns_question *question);
	void *arg;
};

/* In the jail's network namespace: the two sockets. 0 or -1 (step_fail). */
int resolver_open(struct jail_run *run, struct resolver *resolver);

/* What to poll for; fds holds RESOLVER_FDS. */
void resolver_poll(const struct resolver *resolver, struct pollfd *fds);

/* Serves what poll found, without waiting. */
void resolver_serve(struct resolver *resolver, const struct pollfd *fds);

#endif
