/*
 * What a warm may reach: the rules of agent-egress, decided by pure functions. An empty list
 * denies everything; the policy does not change while a job lives; nothing is matched but a
 * whole host name and port.
 */
#ifndef FETCH_POLICY_H
#define FETCH_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pipeline/fetch/authority.h"

struct error;
struct json;

#define POLICY_RULES_MAX 256
#define REQUEST_MAX 8192 /* bytes of a request head */

struct policy_rule {
	struct authority at;
	bool site_ok; /* its addresses may be private ones: a registry that the operator's own
			 tools are configured for, often inside of a company's network */
	bool private_ok; /* and loopback or link-local ones too: the operator said so for this
			    very host */
	bool direct;	 /* not through the upstream proxy */
};

struct policy {
	struct policy_rule *rules; /* owned */
	size_t count;
	bool upstream;		/* go out through another proxy */
	struct authority proxy; /* that one */
	long long head_ms, connect_ms, idle_ms,
	    wall_ms;		       /* deadlines; wall_ms: of the whole job */
	uint64_t up_bytes, down_bytes; /* of the whole job */
	unsigned requests;	       /* of the whole job */
};

/*
 * Reads the job of agent-egress:
 *	{"allow":[{"host":"…","port":N,"site_ok":bool,"private_ok":bool,"direct":bool}…],
 *	 "proxy":{"host":"…","port":N} or absent,
 *	 "limits":{"wall_ms":N,"head_ms":N,"connect_ms":N,"idle_ms":N,"up_bytes":N,"down_bytes":N,
 *	           "requests":N} or absent, each with a default}
 * Unknown keys are errors. 0 or ERROR_USAGE.
 */
int policy_parse(const struct json *job, struct policy *policy, struct error *err);
void policy_release(struct policy *policy);

/* The rule that allows it (borrowed), or NULL with *why, a constant text. */
const struct policy_rule *policy_find(const struct policy *policy, const struct authority *at,
				      const char **why);

enum request_result {
	REQUEST_MORE,	 /* no whole head yet */
	REQUEST_CONNECT, /* at is what is asked for; *used bytes were the head */
	REQUEST_REFUSED, /* *why says it; at.host is "" or, for the log, what was asked for */
};

/*
 * Parses the head of a proxy request (RFC 9110 section 9.3.6, RFC 9112): CONNECT in HTTP/1.0
 * or 1.1 and nothing else; lines end in CRLF; no NUL, bare CR or bare LF; no body.
 */
enum request_result request_parse(const char *data, size_t len, struct authority *at,
				  size_t *used, const char **why);

/*
 * Parses the head of an upstream proxy's answer to CONNECT: 1 when it is a whole 2xx head of
 * *used bytes, 0 when more is needed, -1 with the status (0: malformed) in *status.
 */
int response_parse(const char *data, size_t len, size_t *used, int *status);

#endif
