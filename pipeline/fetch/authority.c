#include "authority.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/base/mem.h"

#define HOST_MAX 253
#define LABEL_MAX 63

static int refuse(const char **why, const char *text)
{
	*why = text;
	return -1;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_name_char(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || c == '-' || c == '_';
}

/* A last label that looks like a number makes resolvers read the whole as an IPv4 address. */
static bool ends_in_number(const char *host)
{
	const char *last = strrchr(host, '.');

	last = last ? last + 1 : host;
	if (last[0] == '0' && last[1] == 'x')
		return true;
	return strspn(last, "0123456789") == strlen(last);
}

static int check_labels(const char *host, const char **why)
{
	size_t label = 0;

	for (const char *p = host;; p++) {
		if (*p && *p != '.') {
			if (!is_name_char(*p))
				return refuse(why, "a character that no host name has");
			label++;
			continue;
		}
		if (label == 0)
			return refuse(why, "an empty label in the host name");
		if (label > LABEL_MAX)
			return refuse(why, "a label of more than 63 bytes");
		if (p[-1] == '-' || *(p - label) == '-')
			return refuse(why, "a label that begins or ends with a hyphen");
		if (!*p)
			return 0;
		label = 0;
	}
}

static int parse_v6(const char *text, size_t len, struct authority *out, const char **why)
{
	char copy[INET6_ADDRSTRLEN];
	struct in6_addr address;

	if (len >= sizeof(copy) || memchr(text, 0, len))
		return refuse(why, "a malformed IPv6 address");
	memcpy(copy, text, len);
	copy[len] = 0;
	if (inet_pton(AF_INET6, copy, &address) != 1)
		return refuse(why, "a malformed IPv6 address");
	if (!inet_ntop(AF_INET6, &address, out->host, sizeof(out->host)))
		return refuse(why, "a malformed IPv6 address");
	out->literal = out->v6 = true;
	return 0;
}

int authority_parse_host(const char *text, size_t len, struct authority *out, const char **why)
{
	struct authority parsed = {.port = 0};
	struct in_addr address;

	if (len > 0 && text[len - 1] == '.')
		len--;
	if (len == 0)
		return refuse(why, "an empty host name");
	if (len > HOST_MAX)
		return refuse(why, "a host name of more than 253 bytes");
	for (size_t i = 0; i < len; i++) {
		char c = text[i];

		if (c >= 'A' && c <= 'Z')
			c = (char)(c - 'A' + 'a');
		if (c != '.' && !is_name_char(c))
			return refuse(why, "a character that no host name has");
		parsed.host[i] = c;
	}
	if (check_labels(parsed.host, why) < 0)
		return -1;
	if (ends_in_number(parsed.host)) {
		if (inet_pton(AF_INET, parsed.host, &address) != 1)
			return refuse(why, "an IPv4 address that is not a.b.c.d");
		parsed.literal = true;
	}
	*out = parsed;
	return 0;
}

static int parse_port(const char *text, size_t len, unsigned *port, const char **why)
{
	unsigned value = 0;

	if (len == 0 || len > 5 || text[0] == '0')
		return refuse(why, "a malformed port");
	for (size_t i = 0; i < len; i++) {
		if (!is_digit(text[i]))
			return refuse(why, "a malformed port");
		value = value * 10 + (unsigned)(text[i] - '0');
	}
	if (value > 65535)
		return refuse(why, "a port above 65535");
	*port = value;
	return 0;
}

int authority_parse(const char *text, size_t len, struct authority *out, const char **why)
{
	struct authority parsed = {.port = 0};
	const char *colon, *bracket;

	if (len > 0 && text[0] == '[') {
		bracket = memchr(text, ']', len);
		if (!bracket || bracket + 1 == text + len || bracket[1] != ':')
			return refuse(why, "a malformed IPv6 address");
		if (parse_v6(text + 1, (size_t)(bracket - text - 1), &parsed, why) < 0)
			return -1;
		colon = bracket + 1;
	} else {
		colon = memchr(text, ':', len);
		if (!colon)
			return refuse(why, "no port");
		if (authority_parse_host(text, (size_t)(colon - text), &parsed, why) < 0)
			return -1;
	}
	if (parse_port(colon + 1, len - (size_t)(colon + 1 - text), &parsed.port, why) < 0)
		return -1;
	*out = parsed;
	return 0;
}

int authority_of_url(const char *url, struct authority *out, bool *tls, const char **why)
{
	char text[300];
	const char *rest, *port;
	size_t len;

	if (strncmp(url, "https://", 8) == 0) {
		*tls = true;
		rest = url + 8;
	} else if (strncmp(url, "http://", 7) == 0) {
		*tls = false;
		rest = url + 7;
	} else {
		return refuse(why, "neither https:// nor http://");
	}
	len = strcspn(rest, "/?#");
	if (len > 262)
		return refuse(why, "a host name of more than 253 bytes");
	if (memchr(rest, '@', len))
		return refuse(why, "a user name or password in the address");
	port = len && rest[0] == '[' ? memchr(rest, ']', len) : rest;
	if (port && !memchr(port, ':', len - (size_t)(port - rest)))
		snprintf(text, sizeof(text), "%.*s:%d", (int)len, rest, *tls ? 443 : 80);
	else
		snprintf(text, sizeof(text), "%.*s", (int)len, rest);
	return authority_parse(text, strlen(text), out, why);
}

void authority_format(const struct authority *authority, char *dst, size_t size)
{
	snprintf(dst, size, authority->v6 ? "[%s]:%u" : "%s:%u", authority->host,
		 authority->port);
}

bool authority_equal(const struct authority *a, const struct authority *b)
{
	return a->port == b->port && a->v6 == b->v6 && strcmp(a->host, b->host) == 0;
}
