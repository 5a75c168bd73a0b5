#include "proxy.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "pipeline/addr.h"
#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

/* ---- addresses ---- */

/* "host", "host:port", "[v6]", "[v6]:port"; port 0 when there is none. False when it is no such thing. */
static bool split_authority(const char *text, size_t len, char host[256], int *port)
{
	const char *end = text + len, *name = text, *stop, *digits = NULL;

	if (len && *text == '[') {
		name++;
		stop = memchr(name, ']', (size_t)(end - name));
		if (!stop || (stop + 1 < end && stop[1] != ':'))
			return false;
		digits = stop + 1 < end ? stop + 2 : NULL;
	} else {
		const char *colon = memchr(text, ':', len);
		bool more = colon && memchr(colon + 1, ':', (size_t)(end - colon - 1));

		stop = colon && !more ? colon : end; /* several: an address of IPv6 */
		digits = colon && !more ? colon + 1 : NULL;
	}
	*port = 0;
	for (const char *at = digits; at && at < end; at++) {
		if (*at < '0' || *at > '9' || *port > 65535)
			return false;
		*port = *port * 10 + (*at - '0');
	}
	if (digits && (digits == end || *port < 1 || *port > 65535))
		return false;
	if (stop == name || stop - name >= 254)
		return false;
	memcpy(host, name, (size_t)(stop - name));
	host[stop - name] = '\0';
	return addr_host_is_sane(host);
}

int proxy_parse(const char *text, struct proxy *proxy, struct error *err)
{
	const char *scheme = strstr(text, "://"), *rest = scheme ? scheme + 3 : text;
	size_t len = strcspn(rest, "/");
	struct proxy parsed;

	if (memchr(rest, '@', len)) {
		error_set(err, ERROR_USAGE, "a proxy with a user or password in its address");
		return error_next(err, "name their source: http.proxyCredential = file:PATH");
	}
	if (scheme && ((size_t)(scheme - text) != 4 || strncasecmp(text, "http", 4) != 0)) {
		error_set(err, ERROR_USAGE, "the proxy %s is not one of http://", text);
		return error_next(err,
				  "give one that takes CONNECT, http://HOST:PORT; or none: "
				  "http.proxy = none");
	}
	if (!split_authority(rest, len, parsed.host, &parsed.port) ||
	    (rest[len] && rest[len + 1])) {
		error_set(err, ERROR_USAGE, "%s is no address of a proxy", text);
		return error_next(err, "http://HOST:PORT");
	}
	if (!parsed.port)
		parsed.port = PROXY_PORT_DEFAULT;
	*proxy = parsed;
	return 0;
}

/* ---- exemptions ---- */

static bool in_network(const char *item, const char *host)
{
	const char *slash = strchr(item, '/');
	char *network AUTO_FREE = slash ? mem_strndup(item, (size_t)(slash - item)) : NULL;
	unsigned char a[16], b[16];
	char *end = NULL;
	long bits = slash ? strtol(slash + 1, &end, 10) : 0;

	if (!slash || end == slash + 1 || *end || bits < 0)
		return false;
	for (int i = 0; i < 2; i++) {
		int family = i ? AF_INET6 : AF_INET, most = i ? 128 : 32;

		if (bits > most || inet_pton(family, network, a) != 1 ||
		    inet_pton(family, host, b) != 1)
			continue;
		for (long bit = 0; bit < bits; bit++)
			if ((a[bit / 8] ^ b[bit / 8]) & (0x80 >> (bit % 8)))
				return false;
		return true;
	}
	return false;
}

static bool item_names(const char *item, const char *host, int port)
{
	char name[256];
	int only = 0;
	size_t len, host_len = strlen(host);

	if (strcmp(item, "*") == 0 || in_network(item, host))
		return true;
	while (*item == '.')
		item++;
	if (!split_authority(item, strlen(item), name, &only) || (only && only != port))
		return false;
	len = strlen(name);
	if (len > host_len || strcasecmp(host + host_len - len, name) != 0)
		return false;
	return len == host_len || host[host_len - len - 1] == '.';
}

bool proxy_exempts(const char *list, const char *host, int port)
{
	while (*list) {
		size_t len = strcspn(list, ", \t\r\n");
		char *item AUTO_FREE = mem_strndup(list, len);

		if (len && item_names(item, host, port))
			return true;
		list += len + (list[len] ? 1 : 0);
	}
	return false;
}

/* ---- CONNECT ---- */

static int check_credential(const char *credential, size_t len, struct error *err)
{
	bool good = len && len <= PROXY_CREDENTIAL_MAX && memchr(credential, ':', len);

	for (size_t i = 0; good && i < len; i++)
		good = (unsigned char)credential[i] >= ' ' && credential[i] != 0x7f;
	if (good)
		return 0;
	error_set(err, ERROR_USAGE,
		  "the proxy's credential is not one line of the form USER:PASSWORD");
	return error_next(err, "check the source that http.proxyCredential names");
}

int proxy_format_request(const char *host, int port, const char *credential, size_t len,
			 struct strbuf *out, struct error *err)
{
	bool six = strchr(host, ':') != NULL;
	char *name AUTO_FREE =
	    mem_printf("%s%s%s:%d", six ? "[" : "", host, six ? "]" : "", port);

	if (credential && check_credential(credential, len, err))
		return err->kind;
	strbuf_addf(out, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", name, name);
	if (credential) {
		strbuf_adds(out, "Proxy-Authorization: Basic ");
		text_base64(out, credential, len);
		strbuf_adds(out, "\r\n");
	}
	strbuf_adds(out, "\r\n");
	return 0;
}

int proxy_parse_answer(const char *data, size_t len, bool named, size_t *used, char why[256])
{
	static const char version[] = "HTTP/1.";
	size_t known = sizeof(version) - 1;
	const char *end = memmem(data, len, "\r\n\r\n", 4);
	char words[128];
	int status = 0;

	if (memcmp(data, version, len < known ? len : known) != 0) {
		snprintf(why, 256, "does not speak as an HTTP proxy does");
		return -1;
	}
	if (!end) {
		if (len < PROXY_ANSWER_MAX)
			return 0;
		snprintf(why, 256, "its answer has no end");
		return -1;
	}
	/* "HTTP/1.1 200 …" */
	if ((size_t)(end - data) >= known + 5 && data[known + 1] == ' ')
		for (size_t i = known + 2; i < known + 5; i++)
			status = data[i] >= '0' && data[i] <= '9' && status >= 0
				     ? status * 10 + (data[i] - '0')
				     : -1;
	if (status >= 200 && status < 300) {
		*used = (size_t)(end + 4 - data);
		return 1;
	}
	text_escape(words, sizeof(words), data,
		    (size_t)((const char *)memmem(data, len, "\r\n", 2) - data));
	if (status == 407)
		snprintf(why, 256,
			 named ? "does not take the credential that http.proxyCredential names "
				 "(%s)"
			       : "wants a credential: name its source, http.proxyCredential = "
				 "file:PATH (%s)",
			 words);
	else
		snprintf(why, 256, "refuses the connection (%s)", words);
	return -1;
}
