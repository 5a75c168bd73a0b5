/* The provider's base URL, taken apart. Pure. (RFC 3986, the part that is needed: scheme, host,
 * port, path) */
#ifndef PIPELINE_URL_H
#define PIPELINE_URL_H

#include <stdbool.h>

struct error;

struct url {
	bool tls;
	char host[256]; /* lower case; IPv6 without brackets */
	int port;
	char path[512]; /* begins with '/' or is empty; no trailing '/' */
};

/* https://…, or http://… for a loopback host. No user info, query or fragment. 0 or
 * ERROR_USAGE. */
int url_parse(const char *text, struct url *url, struct error *err);

/* Whether a host name or literal means this machine: localhost, *.localhost, 127.0.0.0/8, ::1.
 */
bool url_is_loopback(const char *host);

#endif
