/* The audit of a jail as text for people. See audit.h. */
#include "audit.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

#define WIDTH 92

/* One line, whatever is in its values: escaped as a whole. */
static void __attribute__((format(printf, 2, 3)))
line(struct strbuf *out, const char *format, ...)
{
	char *raw AUTO_FREE = NULL, *shown AUTO_FREE = NULL;
	va_list args;
	size_t size;

	va_start(args, format);
	raw = mem_vprintf(format, args);
	va_end(args);
	size = 8 * strlen(raw) + 8;
	shown = mem_calloc(size, 1);
	text_escape(shown, size, raw, strlen(raw));
	strbuf_adds(out, shown);
	strbuf_addc(out, '\n');
}

static const char *text_of(const struct json *node)
{
	return js_text(node) ? js_text(node) : "?";
}

static const char *str(const struct json *object, const char *key)
{
	return js_str(object, key, "?");
}

static void head(struct strbuf *out, const char *title, size_t count)
{
	strbuf_addc(out, '\n');
	line(out, "%s (%zu)", title, count);
}

/* Texts of an array or of a key of its objects, wrapped. */
static void wrapped(struct strbuf *out, const struct json *array, const char *key)
{
	struct strbuf row AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&row, STRBUF_MAX);
	for (size_t i = 0; i < js_len(array); i++) {
		const char *text = key ? str(js_at(array, i), key) : text_of(js_at(array, i));

		if (row.len && row.len + 1 + strlen(text) > WIDTH) {
			line(out, "    %s", row.data);
			strbuf_reset(&row);
		}
		strbuf_addf(&row, "%s%s", row.len ? " " : "", text);
	}
	if (row.len)
		line(out, "    %s", row.data);
}

/* An object's members, one a line. */
static void pairs(struct strbuf *out, struct json *object)
{
	struct json *value;
	void *iter = NULL;
	const char *key;

	while ((key = js_next(object, &iter, &value))) {
		if (js_is_object(value))
			line(out, "  %-12s %s, at most %s", key, str(value, "soft"),
			     str(value, "hard"));
		else
			line(out, "  %-12s %s", key, text_of(value));
	}
}

static void print_command(const struct json *audit, struct strbuf *out)
{
	const struct json *env = js_get(audit, "environment");

	strbuf_adds(out, "command\n");
	wrapped(out, js_get(audit, "command"), NULL);
	line(out, "    in %s", str(audit, "cwd"));
	head(out, "environment", js_len(env));
	for (size_t i = 0; i < js_len(env); i++)
		line(out, "  %s", text_of(js_at(env, i)));
}

static void print_mounts(const struct json *audit, struct strbuf *out)
{
	const struct json *mounts = js_get(audit, "mounts");

	head(out, "mounts", js_len(mounts));
	for (size_t i = 0; i < js_len(mounts); i++) {
		const struct json *mount = js_at(mounts, i);
		bool overlay = strcmp(str(mount, "type"), "overlay") == 0;

		line(out, "  %s  %s %s  %s%s%s", str(mount, "target"), str(mount, "type"),
		     str(mount, "root"), str(mount, "flags"), overlay ? "  " : "",
		     overlay ? str(mount, "options") : "");
	}
}

static void print_files(const struct json *audit, struct strbuf *out)
{
	const struct json *fds = js_get(audit, "descriptors"),
			  *devices = js_get(audit, "devices");
	const struct json *links = js_get(audit, "links");

	head(out, "descriptors", js_len(fds));
	for (size_t i = 0; i < js_len(fds); i++)
		line(out, "  %s %-3s %s", str(js_at(fds, i), "number"),
		     str(js_at(fds, i), "access"), str(js_at(fds, i), "target"));
	head(out, "devices", js_len(devices));
	for (size_t i = 0; i < js_len(devices); i++)
		line(out, "  %-16s %s %-6s mode %s", str(js_at(devices, i), "path"),
		     str(js_at(devices, i), "kind"), str(js_at(devices, i), "number"),
		     str(js_at(devices, i), "mode"));
	for (size_t i = 0; i < js_len(links); i++)
		line(out, "  %-16s -> %s", str(js_at(links, i), "path"),
		     str(js_at(links, i), "target"));
}

static void print_ids(const struct json *audit, struct strbuf *out)
{
	static const char *const sets[] = {"effective", "permitted", "inheritable",
					   "bounding",	"ambient",   "securebits"};
	const struct json *ids = js_get(audit, "ids"), *inside = js_get(ids, "inside"),
			  *outside = js_get(ids, "outside");
	const char *groups = js_str(inside, "groups", "");

	strbuf_adds(out, "\nids\n");
	line(out, "  inside       uid %s, gid %s, groups %s", str(inside, "uid"),
	     str(inside, "gid"), groups[0] ? groups : "none");
	if (outside)
		line(out, "  outside      uid %s, gid %s", str(outside, "uid"),
		     str(outside, "gid"));
	line(out, "  umask        %s", str(audit, "umask"));
	strbuf_adds(out, "\ncapabilities\n");
	for (size_t i = 0; i < ARRAY_LEN(sets); i++)
		line(out, "  %-12s %s", sets[i], str(js_get(audit, "capabilities"), sets[i]));
	line(out, "  no new privileges: %s",
	     js_bool(audit, "no_new_privs", false) ? "yes" : "NO");
	strbuf_adds(out, "\nnamespaces\n");
	pairs(out, js_get(audit, "namespaces"));
}

static void print_network(const struct json *audit, struct strbuf *out)
{
	const struct json *listening = js_get(audit, "listening");

	strbuf_adds(out, "\nnetwork\n  interfaces:\n");
	wrapped(out, js_get(audit, "interfaces"), NULL);
	strbuf_adds(out, js_len(listening) ? "  listening:\n" : "  listening: nothing\n");
	wrapped(out, listening, NULL);
	line(out, "  sockets: %s", str(audit, "sockets"));
}

static void print_limits(const struct json *audit, struct strbuf *out)
{
	strbuf_adds(out, "\nlimits of the whole jail, by its control group\n");
	if (js_len(js_get(audit, "cgroup")))
		pairs(out, js_get(audit, "cgroup"));
	else
		strbuf_adds(out, "  none: degraded\n");
	if (js_str(audit, "scratch", NULL))
		line(out, "\nwhat it writes is kept %s",
		     strcmp(str(audit, "scratch"), "disk") == 0
			 ? "on disk, in a file system of its own"
			 : "in memory, which counts as the jail's");
	strbuf_adds(out, "\nlimits of each process\n");
	pairs(out, js_get(audit, "rlimits"));
}

static void print_landlock(const struct json *audit, struct strbuf *out)
{
	const struct json *landlock = js_get(audit, "landlock"),
			  *rules = js_get(landlock, "rules");

	strbuf_addc(out, '\n');
	if (!js_get(landlock, "abi")) {
		strbuf_adds(out, "landlock: none, that kernel has none\n");
		return;
	}
	line(out, "landlock (ABI %lld)", js_int(landlock, "abi", 0));
	strbuf_adds(out, "  denied but where a rule allows it:\n");
	wrapped(out, js_get(landlock, "handled"), NULL);
	strbuf_adds(out, js_len(js_get(landlock, "scoped")) ? "  to outside denied:\n" : "");
	wrapped(out, js_get(landlock, "scoped"), NULL);
	for (size_t i = 0; i < js_len(rules); i++) {
		line(out, "  below %s:", str(js_at(rules, i), "path"));
		wrapped(out, js_get(js_at(rules, i), "rights"), NULL);
	}
}

static void print_seccomp(const struct json *audit, struct strbuf *out)
{
	const struct json *seccomp = js_get(audit, "seccomp"),
			  *allow = js_get(seccomp, "allow");
	const struct json *depends = js_get(seccomp, "depends"),
			  *refused = js_get(seccomp, "refused");

	strbuf_addc(out, '\n');
	line(out, "system calls (seccomp mode %lld, filters: %lld)", js_int(seccomp, "mode", 0),
	     js_int(seccomp, "filters", 0));
	line(out, "  program %s", str(seccomp, "digest"));
	if (!js_bool(seccomp, "known", false)) {
		strbuf_adds(out, "  that is not the filter of this build: what it does is not "
				 "known here\n");
		return;
	}
	line(out, "  allowed (%zu):", js_len(allow));
	wrapped(out, allow, NULL);
	strbuf_adds(out, "  allowed by their arguments:\n");
	for (size_t i = 0; i < js_len(depends); i++)
		line(out, "    %s: %s", str(js_at(depends, i), "call"),
		     str(js_at(depends, i), "on"));
	line(out, "  refused with EPERM or EACCES (%zu):", js_len(refused));
	wrapped(out, refused, "call");
	line(out, "  all others: %s; of another architecture: %s", str(seccomp, "others"),
	     str(seccomp, "foreign"));
}

/* The sandbox around the payload: what crosses from the host into that. */
static void print_host(const struct json *audit, struct strbuf *out)
{
	const struct json *host = js_get(audit, "host"), *rest = js_get(audit, "rest");

	strbuf_adds(out, js_len(rest) ? "\n" : "");
	for (size_t i = 0; i < js_len(rest); i++)
		line(out, "not read back: %s", text_of(js_at(rest, i)));
	if (!host)
		return;
	strbuf_addc(out, '\n');
	line(out, "---- the sandbox, to the host: %s ----", str(audit, "backend"));
	strbuf_adds(out, "command\n");
	wrapped(out, js_get(host, "command"), NULL);
	print_mounts(host, out);
	print_files(host, out);
	print_ids(host, out);
	strbuf_adds(out, "\nlimits of each process\n");
	pairs(out, js_get(host, "rlimits"));
}

void audit_print(const struct json *audit, struct strbuf *out)
{
	if (!js_bool(audit, "whole", false))
		line(out, "NOT WHOLE: %s",
		     js_get(audit, "host") ||
			     strcmp(js_str(audit, "backend", "native"), "native") == 0
			 ? "there was no room for all that was applied"
			 : "what the sandbox is to the host was not recorded");
	print_command(audit, out);
	print_mounts(audit, out);
	print_files(audit, out);
	print_ids(audit, out);
	print_network(audit, out);
	print_limits(audit, out);
	print_landlock(audit, out);
	print_seccomp(audit, out);
	print_host(audit, out);
}
