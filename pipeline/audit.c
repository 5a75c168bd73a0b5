#include "audit.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "sandbox/jail_answers.h"
#include "sandbox/jail_applied.h"

/* ---- words of a record ---- */

/* The next blank-separated word of *text, which is moved behind it: a new string, NULL at the end. */
static char *word(const char **text)
{
	const char *at = *text + strspn(*text, " \t");
	size_t len = strcspn(at, " \t");

	if (!len)
		return NULL;
	*text = at[len] ? at + len + 1 : at + len;
	return mem_strndup(at, len);
}

/* The words of text with one blank between them. A new string. */
static char *words_of(const char *text)
{
	struct strbuf out;
	char *next;

	strbuf_init(&out, strlen(text) + 1);
	while ((next = word(&text))) {
		strbuf_addf(&out, "%s%s", out.len ? " " : "", next);
		free(next);
	}
	return strbuf_steal(&out);
}

/* Sets keys of a new object from the words of text, in order; the last takes all that is left. NULL:
 * there are fewer. */
static struct json *fields(const char *text, const char *const *keys)
{
	struct json *object AUTO_JSON = js_object_new();

	for (; keys[1]; keys++) {
		char *value AUTO_FREE = word(&text);

		if (!value)
			return NULL;
		js_set_str(object, keys[0], value);
	}
	if (!*text)
		return NULL;
	js_set_str(object, keys[0], text);
	return MEM_STEAL(object);
}

static int push_fields(struct json *array, const char *text, const char *const *keys)
{
	struct json *object = fields(text, keys);

	if (!object)
		return -1;
	js_push(array, object);
	return 0;
}

static int number_of(const char *text, int base, uint64_t *value)
{
	char *end;

	if (!text || text[strspn(text, "0123456789abcdef")])
		return -1;
	errno = 0;
	*value = strtoull(text, &end, base);
	return errno || *end || end == text ? -1 : 0;
}

/* ---- Landlock (Documentation/userspace-api/landlock.rst) ---- */

static const char *const fs_rights[] = {"execute",    "write_file",  "read_file", "read_dir",
					"remove_dir", "remove_file", "make_char", "make_dir",
					"make_reg",   "make_sock",   "make_fifo", "make_block",
					"make_sym",   "refer",	     "truncate",  "ioctl_dev"};
static const char *const scopes[] = {"abstract_unix_socket", "signal"};

static struct json *bits(uint64_t value, const char *const *names, size_t count)
{
	struct json *array = js_array_new();

	for (unsigned i = 0; i < 64; i++) {
		char other[16];

		if (!(value >> i & 1))
			continue;
		snprintf(other, sizeof(other), "bit_%u", i);
		js_push_str(array, i < count ? names[i] : other);
	}
	return array;
}

static int take_landlock(struct json *audit, const char *text)
{
	struct json *landlock = js_get(audit, "landlock");
	char *what AUTO_FREE = word(&text), *value AUTO_FREE = word(&text);
	uint64_t number;

	if (!what || number_of(value, strcmp(what, "abi") == 0 ? 10 : 16, &number) < 0)
		return -1;
	if (strcmp(what, "abi") == 0) {
		js_set_int(landlock, "abi", (long long)number);
	} else if (strcmp(what, "fs") == 0) {
		js_set(landlock, "handled", bits(number, fs_rights, ARRAY_LEN(fs_rights)));
	} else if (strcmp(what, "net") == 0) {
		js_set(landlock, "handled_net", bits(number, NULL, 0));
	} else if (strcmp(what, "scoped") == 0) {
		js_set(landlock, "scoped", bits(number, scopes, ARRAY_LEN(scopes)));
	} else if (strcmp(what, "rule") == 0) {
		struct json *rule = js_object_new();

		js_set_str(rule, "path", text);
		js_set(rule, "rights", bits(number, fs_rights, ARRAY_LEN(fs_rights)));
		js_push(js_get(landlock, "rules"), rule);
	} else {
		return -1;
	}
	return 0;
}

/* ---- system calls ---- */

static const char *error_text(uint32_t action)
{
	const char *name = NULL;

	if ((action & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO)
		name = strerrorname_np((int)(action & SECCOMP_RET_DATA));
	return name ? name
	       : (action & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_USER_NOTIF
		   ? "asks an observer"
		   : "ends the process";
}

static void add_calls(struct json *seccomp, const char *digest)
{
	struct json *allow = js_array_new(), *depends = js_array_new(),
		    *refused = js_array_new();
	const struct jail_answer *answer;

	for (size_t i = 0; (answer = jail_answer_at(digest, i)); i++) {
		struct json *call;

		if (!answer->condition && answer->action == SECCOMP_RET_ALLOW) {
			js_push_str(allow, answer->name);
			continue;
		}
		if (!answer->condition && answer->action == (SECCOMP_RET_ERRNO | ENOSYS))
			continue;
		call = js_object_new();
		js_set_str(call, "call", answer->name);
		js_set_str(call, answer->condition ? "on" : "error",
			   answer->condition ? answer->condition : error_text(answer->action));
		js_push(answer->condition ? depends : refused, call);
	}
	js_set(seccomp, "allow", allow);
	js_set(seccomp, "depends", depends);
	js_set(seccomp, "refused", refused);
	js_set_str(seccomp, "others", "ENOSYS");
	js_set_str(seccomp, "foreign", "kill");
}

/* What sockets can be had is what the filter says of socket(2). */
static void add_sockets(struct json *audit, const char *digest)
{
	const struct jail_answer *answer;

	for (size_t i = 0; (answer = jail_answer_at(digest, i)); i++)
		if (strcmp(answer->name, "socket") == 0)
			js_set_str(audit, "sockets", answer->condition);
}

static int take_seccomp(struct json *audit, const char *text)
{
	struct json *seccomp = js_get(audit, "seccomp");
	bool known = jail_answer_at(text, 0) != NULL;

	if (strlen(text) != 64)
		return -1;
	js_set_str(seccomp, "digest", text);
	js_set_bool(seccomp, "known", known);
	if (known) {
		add_calls(seccomp, text);
		add_sockets(audit, text);
	}
	return 0;
}

/* ---- the rest ---- */

static int take_status(struct json *audit, const char *text)
{
	static const struct {
		const char *line, *object, *key;
	} caps[] = {{"CapInh", "capabilities", "inheritable"},
		    {"CapPrm", "capabilities", "permitted"},
		    {"CapEff", "capabilities", "effective"},
		    {"CapBnd", "capabilities", "bounding"},
		    {"CapAmb", "capabilities", "ambient"}};
	const char *colon = strchr(text, ':');
	char *name AUTO_FREE = colon ? mem_strndup(text, (size_t)(colon - text)) : NULL;
	struct json *inside = js_get(js_get(audit, "ids"), "inside");
	const char *rest = colon ? colon + 1 : NULL;
	uint64_t number;
	char *first AUTO_FREE = rest ? word(&rest) : NULL;

	if (!name || (!first && strcmp(name, "Groups") != 0))
		return -1;
	if (!first)
		first = mem_strdup("");
	for (size_t i = 0; i < ARRAY_LEN(caps); i++)
		if (strcmp(caps[i].line, name) == 0)
			js_set_str(js_get(audit, caps[i].object), caps[i].key, first);
	if (strcmp(name, "Uid") == 0 || strcmp(name, "Gid") == 0) {
		char *all AUTO_FREE =
		    words_of(colon + 1); /* real, effective, saved, file system */

		js_set_str(inside, name[0] == 'U' ? "uid" : "gid", all);
	} else if (strcmp(name, "Groups") == 0) {
		char *all AUTO_FREE = words_of(colon + 1);

		js_set_str(inside, "groups", all);
	} else if (strcmp(name, "NoNewPrivs") == 0) {
		js_set_bool(audit, "no_new_privs", strcmp(first, "1") == 0);
	} else if (strcmp(name, "Umask") == 0) {
		js_set_str(audit, "umask", first);
	} else if (strcmp(name, "Seccomp") == 0 || strcmp(name, "Seccomp_filters") == 0) {
		if (number_of(first, 10, &number) < 0)
			return -1;
		js_set_int(js_get(audit, "seccomp"), name[7] ? "filters" : "mode",
			   (long long)number);
	}
	return 0;
}

/* proc_pid_mountinfo(5): id parent device root target flags [propagation…] - type source options. */
static int take_mount(struct json *audit, const char *text)
{
	struct json *mount AUTO_JSON = js_object_new();
	const char *dash = strstr(text, " - "), *rest = dash ? dash + 3 : NULL;
	static const char *const before[] = {NULL, NULL, NULL, "root", "target", "flags"};
	static const char *const behind[] = {"type", "source", "options"};

	for (size_t i = 0; rest && i < ARRAY_LEN(before); i++) {
		char *value AUTO_FREE = word(&text);

		if (!value || text > dash + 1)
			return -1;
		if (before[i])
			js_set_str(mount, before[i], value);
	}
	for (size_t i = 0; rest && i < ARRAY_LEN(behind); i++) {
		char *value AUTO_FREE = word(&rest);

		if (!value)
			return -1;
		js_set_str(mount, behind[i], value);
	}
	if (!rest)
		return -1;
	js_push(js_get(audit, "mounts"), MEM_STEAL(mount));
	return 0;
}

/* NAME VALUE, or NAME SOFT HARD, into an object. */
static int take_named(struct json *object, const char *text)
{
	char *name AUTO_FREE = word(&text);

	if (!name || !*text)
		return -1;
	js_set_str(object, name, text);
	return 0;
}

static int take_limit(struct json *audit, const char *text)
{
	static const char *const keys[] = {"soft", "hard", NULL};
	char *name AUTO_FREE = word(&text);
	struct json *limit = name ? fields(text, keys) : NULL;

	if (!limit)
		return -1;
	js_set(js_get(audit, "rlimits"), name, limit);
	return 0;
}

static int take_ids(struct json *audit, const char *kind, const char *text)
{
	static const char *const keys[] = {"uid", "gid", NULL};
	struct json *ids = js_get(audit, "ids");
	char *which AUTO_FREE = NULL, *map AUTO_FREE = NULL;

	if (strcmp(kind, "outside") == 0) {
		struct json *outside = fields(text, keys);

		js_set(ids, "outside", outside ? outside : js_object_new());
		return outside ? 0 : -1;
	}
	which = word(&text);
	if (!which || (strcmp(which, "uid") != 0 && strcmp(which, "gid") != 0))
		return -1;
	map = words_of(text);
	js_push_str(js_get(ids, which[0] == 'u' ? "uid_map" : "gid_map"), map);
	return 0;
}

/* Kinds that are a list of texts, or of objects with these keys. */
static const struct {
	const char *kind, *list;
	const char *keys[5];
} lists[] = {{"arg", "command", {NULL}},
	     {"env", "environment", {NULL}},
	     {"interface", "interfaces", {NULL}},
	     {"listen", "listening", {NULL}},
	     {"fd", "descriptors", {"number", "access", "target", NULL}},
	     {"device", "devices", {"path", "kind", "number", "mode", NULL}},
	     {"link", "links", {"path", "target", NULL}}};

static int take(struct json *audit, const char *kind, const char *text);
static struct json *empty(void);

/* What a sandbox is to the host: an audit in the audit. */
static int take_host(struct json *audit, const char *text)
{
	char *kind AUTO_FREE = word(&text);

	if (!js_get(audit, "host"))
		js_set(audit, "host", empty());
	return kind && strcmp(kind, JAIL_APPLIED_HOST) != 0
		   ? take(js_get(audit, "host"), kind, text)
		   : -1;
}

static int take(struct json *audit, const char *kind, const char *text)
{
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		if (strcmp(lists[i].kind, kind) != 0)
			continue;
		if (lists[i].keys[0])
			return push_fields(js_get(audit, lists[i].list), text, lists[i].keys);
		js_push_str(js_get(audit, lists[i].list), text);
		return 0;
	}
	if (strcmp(kind, JAIL_APPLIED_HOST) == 0)
		return take_host(audit, text);
	if (strcmp(kind, "mount") == 0)
		return take_mount(audit, text);
	if (strcmp(kind, "status") == 0)
		return take_status(audit, text);
	if (strcmp(kind, "landlock") == 0)
		return take_landlock(audit, text);
	if (strcmp(kind, "seccomp") == 0)
		return take_seccomp(audit, text);
	if (strcmp(kind, "limit") == 0)
		return take_limit(audit, text);
	if (strcmp(kind, "cgroup") == 0)
		return take_named(js_get(audit, "cgroup"), text);
	if (strcmp(kind, "ns") == 0)
		return take_named(js_get(audit, "namespaces"), text);
	if (strcmp(kind, "map") == 0 || strcmp(kind, "outside") == 0)
		return take_ids(audit, kind, text);
	if (strcmp(kind, "cwd") == 0)
		js_set_str(audit, "cwd", text);
	else if (strcmp(kind, "backend") == 0 || strcmp(kind, "scratch") == 0)
		js_set_str(audit, kind, text);
	else if (strcmp(kind, "securebits") == 0)
		js_set_str(js_get(audit, "capabilities"), "securebits", text);
	else if (strcmp(kind, "cut") == 0)
		js_set_bool(audit, "whole", false);
	else
		return -1;
	return 0;
}

static struct json *empty(void)
{
	static const char *const objects[] = {"capabilities", "namespaces", "rlimits", "cgroup",
					      "landlock",     "seccomp",    "ids"};
	struct json *audit = js_artefact_new("audit", 1);

	js_set_bool(audit, "whole", true);
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		js_set(audit, lists[i].list, js_array_new());
	js_set(audit, "mounts", js_array_new());
	js_set(audit, "rest", js_array_new());
	for (size_t i = 0; i < ARRAY_LEN(objects); i++)
		js_set(audit, objects[i], js_object_new());
	js_set(js_get(audit, "landlock"), "rules", js_array_new());
	js_set(js_get(audit, "ids"), "inside", js_object_new());
	js_set(js_get(audit, "ids"), "uid_map", js_array_new());
	js_set(js_get(audit, "ids"), "gid_map", js_array_new());
	return audit;
}

struct json *audit_parse(const char *data, size_t len, struct error *err)
{
	struct json *audit AUTO_JSON = empty();
	const char *record;

	while ((record = jail_applied_next(&data, &len))) {
		const char *text = record;
		char *kind AUTO_FREE = word(&text);

		if (!kind || take(audit, kind, text) < 0) {
			error_set(err, ERROR_FAILED, "audit: malformed record: %.200s", record);
			return NULL;
		}
	}
	if (len) {
		error_set(err, ERROR_FAILED, "audit: more behind the records");
		return NULL;
	}
	if (strcmp(js_str(audit, "backend", "native"), "gvisor") == 0) {
		js_push_str(js_get(audit, "rest"),
			    "which calls of the host's kernel runsc makes: its own filter says "
			    "so, that of its release");
		if (!js_get(audit, "host"))
			js_set_bool(audit, "whole", false);
	}
	return MEM_STEAL(audit);
}
