#include "remote.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

#define HOST_MAX 253 /* RFC 1035 section 2.3.4, in text form */
#define USER_MAX 128

static const char *const next_forms =
    "use a path, https://HOST/PATH, ssh://USER@HOST/PATH or USER@HOST:PATH";

void remote_release(struct remote *remote)
{
	free(remote->url);
	free(remote->host);
	free(remote->user);
	free(remote->path);
	*remote = (struct remote){0};
}

const char *remote_kind_text(enum remote_kind kind)
{
	switch (kind) {
	case REMOTE_LOCAL:
		return "local";
	case REMOTE_HTTPS:
		return "https";
	case REMOTE_SSH:
		return "ssh";
	}
	return "?";
}

static int refuse(struct error *err, const char *what, const char *why, const char *next)
{
	error_set(err, ERROR_USAGE, "remote %s: %s", what, why);
	return error_next(err, "%s", next);
}

/* The text without what stands before an '@': a refused URL must not carry a password into a
 * log. */
static char *without_userinfo(const char *text)
{
	const char *start = strstr(text, "://");
	const char *at;

	start = start ? start + 3 : text;
	at = strrchr(start, '@');
	if (!at)
		return mem_strdup(text);
	return mem_printf("%.*s…%s", (int)(start - text), text, at);
}

static int check_bytes(const char *text, struct error *err)
{
	size_t len = strlen(text);

	if (!len)
		return refuse(err, "URL", "is empty", next_forms);
	if (len > REMOTE_URL_MAX)
		return refuse(err, "URL", "is longer than 4096 bytes", next_forms);
	for (size_t at = 0; at < len;) {
		unsigned code;
		size_t width = text_utf8_next(text + at, len - at, &code);

		if (!width)
			return refuse(err, "URL", "is not valid UTF-8", next_forms);
		if (code == '\t' || code == '\n' || text_is_unsafe(code))
			return refuse(err, "URL", "holds a control or invisible character",
				      next_forms);
		at += width;
	}
	return 0;
}

/* Percent-decoding (RFC 3986 section 2.1). NULL when malformed or when a control byte comes
 * out. */
static char *decode(const char *text, size_t len)
{
	char *out = mem_calloc(len + 1, 1);
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		int c = (unsigned char)text[i];

		if (c == '%') {
			int high = i + 2 < len ? text_hex_digit(text[i + 1]) : -1;
			int low = i + 2 < len ? text_hex_digit(text[i + 2]) : -1;

			if (high < 0 || low < 0)
				goto malformed;
			c = high * 16 + low;
			i += 2;
		}
		if (c < ' ' || c == 0x7f)
			goto malformed;
		out[n++] = (char)c;
	}
	if (text_is_utf8(out, n))
		return out;
malformed:
	free(out);
	return NULL;
}

/* Takes host and port from the len bytes at text: name, name:port, [v6], [v6]:port. */
static const char *parse_authority(const char *text, size_t len, int default_port,
				   struct remote *remote)
{
	const char *end = text + len, *host = text, *rest;
	struct in6_addr v6;

	if (len && *text == '[') {
		rest = memchr(text, ']', len);
		if (!rest)
			return "the ] of the address is missing";
		remote->host = mem_strndup(text + 1, (size_t)(rest - text - 1));
		if (inet_pton(AF_INET6, remote->host, &v6) != 1)
			return "malformed IPv6 address";
		rest++;
	} else {
		for (rest = text; rest < end && *rest != ':'; rest++)
			if (!isalnum((unsigned char)*rest) && !strchr(".-_", *rest))
				return "malformed host name (international names: write the "
				       "xn-- form)";
		if (rest == host)
			return "no host";
		if (*host == '-')
			return "a host may not begin with '-'";
		if (*host == '.' || rest - host > HOST_MAX)
			return "malformed host name";
		remote->host = mem_strndup(host, (size_t)(rest - host));
	}
	for (char *c = remote->host; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	remote->port = default_port;
	if (rest == end)
		return NULL;
	if (*rest++ != ':' || rest == end || end - rest > 5)
		return "malformed port";
	remote->port = 0;
	for (; rest < end; rest++) {
		if (!isdigit((unsigned char)*rest))
			return "malformed port";
		remote->port = remote->port * 10 + (*rest - '0');
	}
	return remote->port < 1 || remote->port > 65535 ? "the port is not between 1 and 65535"
							: NULL;
}

/* Prefixes by which the large forges mark their tokens: one in the user's place is a pasted
 * token. */
static bool looks_like_token(const char *user)
{
	static const char *const prefixes[] = {"ghp_",	 "gho_",	"ghu_",	  "ghs_",
					       "ghr_",	 "github_pat_", "glpat-", "gldt-",
					       "glptt-", "ATBB",	"ATCTT"};

	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
		if (strncmp(user, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	return strlen(user) > 64;
}

static const char *parse_user(const char *text, size_t len, bool encoded, struct remote *remote)
{
	char *user;

	if (!len)
		return "the user before @ is empty";
	user = encoded ? decode(text, len) : mem_strndup(text, len);
	if (!user)
		return "malformed user";
	remote->user = user;
	if (*user == '-')
		return "a user may not begin with '-'";
	if (strlen(user) > USER_MAX)
		return "the user is too long";
	for (const char *c = user; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("._-+@~", *c))
			return "the user holds a character that is not allowed";
	return NULL;
}

static const char *const why_password = "a password or token does not belong into the URL";
static const char *const next_password =
    "take it out of the URL and name its source: publish.token = env:NAME or file:PATH";

/* https:// and ssh:// */
static int parse_url(const char *text, size_t scheme_len, struct remote *remote,
		     struct error *err)
{
	const char *start = text + scheme_len, *slash = strchr(start, '/'), *at, *why = NULL;
	AUTO_FREE char *shown = without_userinfo(text);
	size_t len = slash ? (size_t)(slash - start) : strlen(start);

	at = memchr(start, '@', len);
	for (const char *more = at; more;) {
		at = more;
		more = memchr(at + 1, '@', len - (size_t)(at + 1 - start));
	}
	if (at) {
		if (memchr(start, ':', (size_t)(at - start)))
			return refuse(err, shown, why_password, next_password);
		why = parse_user(start, (size_t)(at - start), true, remote);
		if (remote->user && remote->kind == REMOTE_HTTPS &&
		    looks_like_token(remote->user))
			return refuse(err, shown, why_password, next_password);
		len -= (size_t)(at + 1 - start);
		start = at + 1;
	}
	if (!why)
		why = parse_authority(start, len, remote->kind == REMOTE_HTTPS ? 443 : 22,
				      remote);
	if (!why && (!slash || !slash[1]))
		why = "no path to a repository";
	if (why)
		return refuse(err, shown, why, next_forms);
	if (strpbrk(slash, "?#\\ "))
		return refuse(err, shown,
			      "a query, a fragment, a backslash or a blank in the path",
			      next_forms);
	for (const char *c = slash; *c; c++)
		if ((unsigned char)*c >= 0x7f)
			return refuse(err, shown,
				      "write non-ASCII characters of the path as %XX",
				      next_forms);
	AUTO_FREE char *path = decode(slash, strlen(slash));
	if (!path)
		return refuse(err, shown, "malformed %XX in the path", next_forms);
	if (remote->kind == REMOTE_HTTPS) {
		AUTO_FREE char *authority = remote_authority(remote);

		remote->path = mem_strdup(slash);
		remote->url =
		    mem_printf("https://%s%s",
			       remote->port == 443 && !strchr(remote->host, ':') ? remote->host
										 : authority,
			       slash);
		return 0;
	}
	/* git: ssh://host/~user/x is ~user/x for the server (connect.c, parse_connect_url) */
	remote->path = mem_strdup(path[1] == '~' ? path + 1 : path);
	if (remote->path[0] == '-')
		return refuse(err, shown, "a path may not begin with '-'", next_forms);
	remote->url = mem_strdup(text);
	return 0;
}

/* [user@]host:path */
static int parse_scp(const char *text, const char *colon, struct remote *remote,
		     struct error *err)
{
	const char *host = text, *at = NULL, *why = NULL;
	AUTO_FREE char *shown = without_userinfo(text);

	for (const char *c = text; c < colon; c++)
		if (*c == '@')
			at = c;
	if (at) {
		why = parse_user(text, (size_t)(at - text), false, remote);
		host = at + 1;
	}
	if (!why && *host != '[' && memchr(host, ':', (size_t)(colon - host)))
		why = "malformed host name";
	if (!why)
		why = parse_authority(host, (size_t)(colon - host), 22, remote);
	if (!why && remote->port != 22)
		why = "a port needs the form ssh://USER@HOST:PORT/PATH";
	if (!why && !colon[1])
		why = "no path to a repository";
	if (!why && colon[1] == '-')
		why = "a path may not begin with '-'";
	if (why)
		return refuse(err, shown, why, next_forms);
	remote->path = mem_strdup(colon + 1);
	remote->url = mem_strdup(text);
	return 0;
}

static int parse_local(const char *text, const char *base, struct remote *remote,
		       struct error *err)
{
	AUTO_FREE char *decoded = NULL;

	if (strncasecmp(text, "file://", 7) == 0) {
		const char *path = text + 7;

		if (strncasecmp(path, "localhost/", 10) == 0)
			path += 9;
		if (*path != '/')
			return refuse(err, text, "file:// needs an absolute path",
				      "write file:///PATH");
		text = decoded = decode(path, strlen(path));
		if (!decoded)
			return refuse(err, path, "malformed %XX in the path",
				      "write file:///PATH");
	}
	if (*text == '/')
		remote->path = mem_strdup(text);
	else if (base)
		remote->path = mem_printf("%s/%s", base, text);
	else
		return refuse(err, text, "a relative path has nothing to be relative to",
			      "write the absolute path");
	remote->url = mem_strdup(remote->path);
	return 0;
}

static int parse_scheme(const char *text, size_t scheme_len, const char *base,
			struct remote *remote, struct error *err)
{
	AUTO_FREE char *scheme = mem_strndup(text, scheme_len);
	AUTO_FREE char *shown = without_userinfo(text);

	if (strcasecmp(scheme, "file") == 0)
		return parse_local(text, base, remote, err);
	if (strcasecmp(scheme, "https") == 0) {
		remote->kind = REMOTE_HTTPS;
		return parse_url(text, scheme_len + 3, remote, err);
	}
	if (strcasecmp(scheme, "ssh") == 0) {
		remote->kind = REMOTE_SSH;
		return parse_url(text, scheme_len + 3, remote, err);
	}
	if (strcasecmp(scheme, "http") == 0)
		return refuse(err, shown, "http:// would send the credential unencrypted",
			      "use https:// or ssh://");
	if (strcasecmp(scheme, "git") == 0)
		return refuse(err, shown, "git:// neither encrypts nor authenticates",
			      "use https:// or ssh://");
	return refuse(err, shown, "unknown kind of URL", next_forms);
}

static int parse(const char *text, const char *base, struct remote *remote, struct error *err)
{
	size_t word =
	    strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-_");
	const char *colon = strchr(text, ':'), *slash = strchr(text, '/');

	if (check_bytes(text, err))
		return err->kind;
	if (strncmp(text + word, "://", 3) == 0 && word)
		return parse_scheme(text, word, base, remote, err);
	if (strncmp(text + word, "::", 2) == 0 && word) {
		AUTO_FREE char *shown = without_userinfo(text);

		return refuse(
		    err, shown,
		    "remote helpers (NAME::…) run programs of their own and are not used",
		    next_forms);
	}
	if (*text == '[' ||
	    (strchr(text, '@') && strchr(text, '[') && (!slash || strchr(text, '[') < slash))) {
		const char *bracket = strchr(text, ']');

		colon = bracket && bracket[1] == ':' ? bracket + 1 : NULL;
		if (!colon)
			return refuse(err, text, "malformed address in brackets", next_forms);
	}
	if (colon && (!slash || colon < slash)) {
		remote->kind = REMOTE_SSH;
		return parse_scp(text, colon, remote, err);
	}
	return parse_local(text, base, remote, err);
}

int remote_parse(const char *text, const char *base, struct remote *remote, struct error *err)
{
	int kind;

	*remote = (struct remote){0};
	kind = parse(text, base, remote, err);
	if (kind)
		remote_release(remote);
	return kind;
}

struct json *remote_to_json(const struct remote *remote)
{
	struct json *object = js_object_new();

	js_set_str(object, "kind", remote_kind_text(remote->kind));
	js_set_str(object, "url", remote->url);
	js_set_str(object, "host", remote->host);
	js_set_int(object, "port", remote->port);
	js_set_str(object, "user", remote->user);
	js_set_str(object, "path", remote->path);
	return object;
}

static bool same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

int remote_from_json(const struct json *object, struct remote *remote, struct error *err)
{
	const char *url, *user = js_str(object, "user", NULL);

	*remote = (struct remote){0};
	if (js_need_str(object, "url", &url, err) || remote_parse(url, NULL, remote, err))
		return error_wrap(err, "job");
	if (!same(js_str(object, "kind", NULL), remote_kind_text(remote->kind)) ||
	    !same(js_str(object, "host", NULL), remote->host) ||
	    js_int(object, "port", 0) != remote->port ||
	    !same(js_str(object, "path", NULL), remote->path)) {
		remote_release(remote);
		return error_set(err, ERROR_USAGE,
				 "job: the remote's parts do not agree with its URL");
	}
	/* the user may come from elsewhere: an https URL is kept without it, ssh takes the
	 * login name */
	if (user) {
		const char *why;

		free(remote->user);
		remote->user = NULL;
		why = parse_user(user, strlen(user), false, remote);
		if (why) {
			remote_release(remote);
			return error_set(err, ERROR_USAGE, "job: remote user: %s", why);
		}
	}
	return 0;
}

char *remote_authority(const struct remote *remote)
{
	return mem_printf(strchr(remote->host, ':') ? "[%s]:%d" : "%s:%d", remote->host,
			  remote->port);
}

const char *remote_url_path(const struct remote *remote)
{
	return remote->url + strlen(remote->url) - strlen(remote->path);
}

char *remote_host_key_name(const struct remote *remote)
{
	if (remote->port == 22)
		return mem_strdup(remote->host);
	return mem_printf("[%s]:%d", remote->host, remote->port);
}
