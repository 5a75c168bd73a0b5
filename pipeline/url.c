#include "url.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "pipeline/base/error.h"

bool url_is_loopback(const char *host)
{
	struct in_addr v4;
	struct in6_addr v6;
	size_t len = strlen(host);

	if (strcasecmp(host, "localhost") == 0)
		return true;
	if (len > 10 && strcasecmp(host + len - 10, ".localhost") == 0)
		return true;
	if (inet_pton(AF_INET, host, &v4) == 1)
		return ntohl(v4.s_addr) >> 24 == 127;
	return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

static int bad(struct error *err, const char *text, const char *why)
{
	error_set(err, ERROR_USAGE, "%s is not a usable URL: %s", text, why);
	return error_next(
	    err, "write https://HOST[:PORT][/PATH], or http:// for a host on loopback");
}

static int parse_host(const char *text, const char **rest, struct url *url, struct error *err)
{
	const char *p = *rest, *end;
	size_t len;

	if (*p == '[') {
		struct in6_addr v6;

		end = strchr(++p, ']');
		if (!end || (len = (size_t)(end - p)) >= sizeof(url->host))
			return bad(err, text, "the ] is missing");
		memcpy(url->host, p, len);
		url->host[len] = '\0';
		if (inet_pton(AF_INET6, url->host, &v6) != 1)
			return bad(err, text, "malformed IPv6 address");
		*rest = end + 1;
		return 0;
	}
	len = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_");
	if (!len || len >= sizeof(url->host) || *p == '-')
		return bad(err, text, "malformed host name");
	for (size_t i = 0; i < len; i++)
		url->host[i] = (char)tolower((unsigned char)p[i]);
	url->host[len] = '\0';
	*rest = p + len;
	return 0;
}

int url_parse(const char *text, struct url *url, struct error *err)
{
	struct url found = {0};
	const char *p = text;
	size_t len;

	if (strncasecmp(p, "https://", 8) == 0) {
		found.tls = true;
		p += 8;
	} else if (strncasecmp(p, "http://", 7) == 0) {
		p += 7;
	} else {
		return bad(err, text, "neither https:// nor http://");
	}
	if (parse_host(text, &p, &found, err))
		return err->kind;
	found.port = found.tls ? 443 : 80;
	if (*p == ':') {
		char *end;
		long port = strtol(p + 1, &end, 10);

		if (!isdigit((unsigned char)p[1]) || port < 1 || port > 65535)
			return bad(err, text, "malformed port");
		found.port = (int)port;
		p = end;
	}
	if (*p == '@' || strpbrk(p, "?#@"))
		return bad(err, text, "user, query and fragment are not allowed in it");
	if (*p && *p != '/')
		return bad(err, text,
			   "something behind the host that is neither port nor path");
	len = strlen(p);
	while (len && p[len - 1] == '/')
		len--;
	if (len >= sizeof(found.path))
		return bad(err, text, "the path is too long");
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)p[i] <= ' ' || (unsigned char)p[i] >= 0x7f)
			return bad(err, text, "blank or non-ASCII character in the path");
	memcpy(found.path, p, len);
	if (!found.tls && !url_is_loopback(found.host))
		return bad(err, text,
			   "plain http is for loopback only: the key would travel unencrypted");
	*url = found;
	return 0;
}
