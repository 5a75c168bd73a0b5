/*
 * The first bytes of a TLS client (RFC 8446 section 4.1.2, RFC 6066 section 3): finds the one
 * server name in a ClientHello, without decrypting anything. Pure; fed with hostile bytes.
 */
#ifndef FETCH_HELLO_H
#define FETCH_HELLO_H

#include <stddef.h>

/* Longest ClientHello taken, with its record headers. Post-quantum key shares need about 2 KiB.
 */
#define HELLO_MAX 18000

enum hello_result {
	HELLO_MORE,    /* so far well formed, not all there */
	HELLO_NAMED,   /* name is the server name, as sent (checked for length and NUL only) */
	HELLO_UNNAMED, /* a whole ClientHello without a server name */
	HELLO_REFUSED, /* not TLS, malformed, too long, or with an encrypted inner name; *why
			  says it */
};

/* name holds at least 256 bytes and is NUL-terminated on HELLO_NAMED. why: a constant text. */
enum hello_result hello_parse(const unsigned char *data, size_t len, char name[256],
			      const char **why);

#endif
