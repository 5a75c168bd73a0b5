/*
 * An HTTP proxy on the way to a server: its address, which servers are reached without it, and the
 * CONNECT conversation with it (RFC 9110 section 9.3.6, RFC 7617), which agent-dial has. Pure; what a
 * proxy answers is hostile.
 */
#ifndef PIPELINE_PROXY_H
#define PIPELINE_PROXY_H

#include <stdbool.h>
#include <stddef.h>

struct error;
struct strbuf;

#define PROXY_PORT_DEFAULT 1080	   /* as git and curl have it */
#define PROXY_ANSWER_MAX 16384u	   /* bytes of an answer's header */
#define PROXY_CREDENTIAL_MAX 2048u /* bytes of user:password */

struct proxy {
	char host[256];
	int port;
};

/* "[http://]host[:port][/]". 0; ERROR_USAGE for another kind of proxy, a user or password in it, or no
 * address. */
int proxy_parse(const char *text, struct proxy *proxy, struct error *err);

/*
 * Whether a list as in no_proxy (items between commas or blanks) names this server: "*", a host or a domain
 * above it (a dot in front changes nothing), an address or a network of them in CIDR form (RFC 4632), each
 * with a port or none.
 */
bool proxy_exempts(const char *list, const char *host, int port);

/* The request, appended; credential may be NULL. 0, or ERROR_USAGE when the credential is not one line of
 * user:password. */
int proxy_format_request(const char *host, int port, const char *credential, size_t len,
			 struct strbuf *out, struct error *err);

/*
 * 1: the tunnel stands, and *used bytes were the proxy's; 0: more bytes are needed; -1 with why, escaped.
 * named: whether a credential was sent.
 */
int proxy_parse_answer(const char *data, size_t len, bool named, size_t *used, char why[256]);

#endif
