#include "npm_lock.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/fetch/authority.h"
#include "pipeline/fetch/inside.h"

#define OTHER_WAY                                                                              \
	"warm it with a command of your own ([fetch] warm, inputs, output), or let the "       \
	"package come "                                                                        \
	"from a registry"

static bool is_installed(const char *key)
{
	return strncmp(key, "node_modules/", 13) == 0 || strstr(key, "/node_modules/");
}

/* js_next takes a non-const object but changes nothing. */
static const char *next_package(const struct json *packages, void **iter, struct json **entry)
{
	return js_next((struct json *)(uintptr_t)packages, iter, entry);
}

/* ---- lint ---- */

static bool host_listed(const struct authority *at, const struct npm_lint *lint)
{
	char text[280];

	if (lint->replaced_host && strcmp(lint->replaced_host, "*") == 0)
		return true;
	if (lint->replaced_host && strcmp(lint->replaced_host, at->host) == 0)
		return true;
	authority_format(at, text, sizeof(text));
	for (const char *const *host = lint->hosts; host && *host; host++)
		if (strcmp(*host, text) == 0)
			return true;
	return false;
}

static int check_url(const char *key, const char *url, const struct npm_lint *lint,
		     struct error *err)
{
	struct authority at;
	const char *why;
	char text[280];
	bool tls;

	if (strncmp(url, "https://", 8) != 0 && strncmp(url, "http://", 7) != 0) {
		error_set(err, ERROR_NO, "\"%s\" does not come from a registry but from %s",
			  key, url);
		return error_next(err, OTHER_WAY);
	}
	if (authority_of_url(url, &at, &tls, &why) < 0)
		return error_set(err, ERROR_NO, "\"%s\" comes from %s: %s", key, url, why);
	authority_format(&at, text, sizeof(text));
	if (!tls)
		return error_set(err, ERROR_NO, "\"%s\" comes from %s over plain http", key,
				 text);
	if (host_listed(&at, lint))
		return 0;
	error_set(err, ERROR_NO, "\"%s\" comes from %s, which is not on the list of hosts", key,
		  text);
	return error_next(
	    err, "if you trust it, add `[fetch] host = %s` to the operator configuration",
	    text);
}

static bool is_integrity(const char *text)
{
	static const char *const kinds[] = {"sha512-", "sha384-", "sha256-", "sha1-"};

	for (size_t i = 0; text && i < ARRAY_LEN(kinds); i++)
		if (strncmp(text, kinds[i], strlen(kinds[i])) == 0)
			return true;
	return false;
}

static int check_installed(const struct json *packages, const char *key,
			   const struct json *entry, const struct npm_lint *lint,
			   struct error *err)
{
	const char *resolved = js_str(entry, "resolved", NULL);

	if (js_bool(entry, "link", false)) {
		if (resolved && inside_path(resolved) &&
		    js_is_object(js_get(packages, resolved)))
			return 0;
		error_set(err, ERROR_NO,
			  "\"%s\" links to %s, which is not a package of this tree", key,
			  resolved ? resolved : "nothing");
		return error_next(err, OTHER_WAY);
	}
	if (js_bool(entry, "inBundle", false))
		return 0;
	if (resolved && check_url(key, resolved, lint, err))
		return err->kind;
	if (is_integrity(js_str(entry, "integrity", NULL)))
		return 0;
	error_set(err, ERROR_NO, "\"%s\" has no integrity: nobody could tell which bytes it is",
		  key);
	return error_next(err, "renew the lock file with `npm install --package-lock-only`");
}

int npm_lock_lint(const struct json *lock, const char *file, const struct npm_lint *lint,
		  struct error *err)
{
	const struct json *packages = js_get(lock, "packages");
	long long version = js_int(lock, "lockfileVersion", 0);
	struct json *entry;
	void *iter = NULL;
	const char *key;

	if (version < 2 || version > 3 || !js_is_object(packages)) {
		error_set(err, ERROR_USAGE,
			  "%s: lockfileVersion %lld cannot be used, 2 and 3 can", file,
			  version);
		return error_next(
		    err, "renew it with npm 7 or newer: `npm install --package-lock-only`");
	}
	while ((key = next_package(packages, &iter, &entry))) {
		if (!*key)
			continue;
		if (!js_is_object(entry) || !inside_path(key))
			return error_set(err, ERROR_USAGE,
					 "%s: \"%s\" is no package inside this tree", file,
					 key);
		if (is_installed(key) && check_installed(packages, key, entry, lint, err))
			return error_wrap(err, "%s", file);
	}
	return 0;
}

/* ---- lists ---- */

static char **collect(const struct json *lock,
		      bool (*wanted)(const char *, const struct json *))
{
	const struct json *packages = js_get(lock, "packages");
	char **list = mem_calloc(js_len(packages) + 1, sizeof(*list));
	struct json *entry;
	size_t count = 0;
	void *iter = NULL;
	const char *key;

	while (packages && (key = next_package(packages, &iter, &entry)))
		if (*key && wanted(key, entry))
			list[count++] = mem_strdup(key);
	return list;
}

static bool is_member(const char *key, const struct json *entry)
{
	(void)entry;
	return !is_installed(key);
}

static bool is_required(const char *key, const struct json *entry)
{
	return is_installed(key) && !js_bool(entry, "link", false) &&
	       !js_bool(entry, "optional", false) && !js_bool(entry, "inBundle", false) &&
	       !js_bool(entry, "extraneous", false);
}

char **npm_lock_members(const struct json *lock)
{
	return collect(lock, is_member);
}

char **npm_lock_required(const struct json *lock)
{
	return collect(lock, is_required);
}

/* "./cli.js" and "cli.js" are the same file. */
static void add_bin(char **list, size_t *count, const struct json *value)
{
	const char *path = js_text(value);

	while (path && strncmp(path, "./", 2) == 0)
		path += 2;
	if (path && inside_path(path))
		list[(*count)++] = mem_strdup(path);
}

char **npm_lock_bins(const struct json *manifest)
{
	const struct json *bin = js_get(manifest, "bin");
	char **list = mem_calloc(js_len(bin) + 2, sizeof(*list));
	struct json *value;
	size_t count = 0;
	void *iter = NULL;

	if (js_is_string(bin))
		add_bin(list, &count, bin);
	while (js_is_object(bin) && next_package(bin, &iter, &value))
		add_bin(list, &count, value);
	return list;
}

/* ---- .npmrc ---- */

static bool is_plain_setting(const char *line, size_t len)
{
	static const char *const lines[] = {
	    "legacy-peer-deps=true",   "legacy-peer-deps=false",   "strict-peer-deps=true",
	    "strict-peer-deps=false",  "install-links=true",	   "install-links=false",
	    "engine-strict=true",      "engine-strict=false",	   "install-strategy=hoisted",
	    "install-strategy=nested", "install-strategy=shallow", "install-strategy=linked"};

	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		if (strlen(lines[i]) == len && memcmp(lines[i], line, len) == 0)
			return true;
	return false;
}

char *npm_lock_settings(const char *npmrc, size_t len)
{
	struct strbuf out;
	size_t at = 0;

	strbuf_init(&out, STRBUF_MAX);
	while (at < len) {
		const char *end = memchr(npmrc + at, '\n', len - at);
		size_t line_len = end ? (size_t)(end - npmrc) - at : len - at;
		char plain[64];
		size_t kept = 0;

		/* "key = value" without its blanks; longer lines are none of ours */
		for (size_t i = 0; i < line_len && kept < sizeof(plain); i++)
			if (!strchr(" \t\r", npmrc[at + i]) || !npmrc[at + i])
				plain[kept++] = npmrc[at + i];
		if (kept < sizeof(plain) && is_plain_setting(plain, kept))
			strbuf_addf(&out, "%.*s\n", (int)kept, plain);
		at += line_len + 1;
	}
	return strbuf_steal(&out);
}
