/*
 * "host:port", parsed once and strictly: the one parser behind CONNECT requests, the operator's
 * configuration, registry URLs and lock files, so that the name that was checked is the name
 * that is looked up. Pure.
 *
 * Refused: user information, blanks, control bytes, NUL, percent-encoding, backslash, bytes
 * above ASCII, empty labels, labels over 63 and names over 253 bytes, IPv6 zones, and every
 * spelling of an IPv4 address but a.b.c.d (resolvers take "127.1", "0x7f000001" and
 * "017700000001" too).
 */
#ifndef FETCH_AUTHORITY_H
#define FETCH_AUTHORITY_H

#include <stdbool.h>
#include <stddef.h>

struct authority {
	char host[256]; /* lower case, without a trailing dot; of IPv6 the canonical text, no
			   brackets */
	unsigned port;	/* 1 to 65535 */
	bool literal;	/* host is an IP address */
	bool v6;	/* host is an IPv6 address */
};

/* Parses len bytes of "host:port" (the port is required). 0, or -1 with *why, a constant text.
 */
int authority_parse(const char *text, size_t len, struct authority *out, const char **why);

/* Parses a host alone, as in a server name indication (no brackets, no port). As above. */
int authority_parse_host(const char *text, size_t len, struct authority *out, const char **why);

/*
 * Takes the authority out of "https://host[:port]/…" or "http://…"; the port defaults to the
 * scheme's. *tls says which. User information is refused. 0, or -1 with *why.
 */
int authority_of_url(const char *url, struct authority *out, bool *tls, const char **why);

/* "host:port", "[v6]:port" into dst (at least 272 bytes). */
void authority_format(const struct authority *authority, char *dst, size_t size);

bool authority_equal(const struct authority *a, const struct authority *b);

#endif
