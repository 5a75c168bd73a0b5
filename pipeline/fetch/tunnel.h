/*
 * One connection of agent-egress, from the request to the last byte: a small state machine over
 * two non-blocking sockets. It knows nothing of the loop around it but which events it waits
 * for.
 */
#ifndef FETCH_TUNNEL_H
#define FETCH_TUNNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pipeline/fetch/hello.h"
#include "pipeline/fetch/policy.h"
#include "pipeline/fetch/resolve.h"

enum tunnel_state {
	TUNNEL_HEAD,	/* reading the request */
	TUNNEL_CONNECT, /* connecting to an address */
	TUNNEL_PROXY,	/* waiting for the upstream proxy's answer */
	TUNNEL_HELLO,	/* said yes; nothing goes out before the first bytes are a fitting TLS
			   hello */
	TUNNEL_PIPE,	/* bytes both ways */
	TUNNEL_DENY,	/* writing the refusal, then closing */
	TUNNEL_DONE,	/* to be released */
};

#define TUNNEL_BUFFER (HELLO_MAX + REQUEST_MAX)

/* What tunnels share: the policy, what was looked up, what was carried. */
struct tunnel_shared {
	const struct policy *policy;
	struct resolved
	    *resolved; /* one for each rule, in their order; the last is the upstream proxy's */
	bool *looked_up;	       /* likewise */
	uint64_t up_bytes, down_bytes; /* of all tunnels */
	unsigned requests;
};

struct tunnel {
	struct tunnel_shared *shared; /* borrowed */
	enum tunnel_state state;
	int client, server; /* owned; server -1 until there is one */
	struct authority at;
	const struct policy_rule *rule; /* borrowed from the policy; NULL until decided */
	const struct resolved *target;	/* borrowed: the addresses to try */
	size_t next_address;
	long long started_ms, deadline_ms;
	char up[TUNNEL_BUFFER],
	    down[TUNNEL_BUFFER]; /* waiting to be written: to the server, to the client */
	size_t up_len, down_len;
	char ask[640]; /* the request to the upstream proxy, as far as it is not written yet */
	size_t ask_len;
	bool client_eof, server_eof; /* no more from there */
	bool up_shut, down_shut;     /* and passed on */
	uint64_t up_total, down_total;
	bool allowed;  /* for the event */
	char why[256]; /* for the event: "" while all is well */
	bool failed;   /* allowed, but the other side could not be reached */
};

/* A new tunnel for an accepted, non-blocking socket, which it owns. */
struct tunnel *tunnel_new(struct tunnel_shared *shared, int client);
void tunnel_free(struct tunnel *tunnel);

/* poll(2) events that it waits for on its two sockets now; 0: none. */
short tunnel_client_events(const struct tunnel *tunnel);
short tunnel_server_events(const struct tunnel *tunnel);

/* Goes on after poll returned these. Afterwards state may be TUNNEL_DONE. */
void tunnel_step(struct tunnel *tunnel, short client_revents, short server_revents);

/* Its deadline has passed. */
void tunnel_expire(struct tunnel *tunnel);

/* The "egress" event of a tunnel that is over (pipeline/events.h). */
void tunnel_report(const struct tunnel *tunnel);

#endif
