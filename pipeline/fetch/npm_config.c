#include "npm_config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/sha256.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/spawn.h"

#define ANSWER_MAX (1u << 20)
#define ANSWER_MS 60000
#define CACHE_NAME "npm.json"
#define CACHE_VERSION 1

/* ---- finding programs ---- */

static bool is_below(const char *path, const char *directory)
{
	size_t len = directory ? strlen(directory) : 0;

	return len > 1 && strncmp(path, directory, len) == 0 &&
	       (path[len] == '/' || !path[len]);
}

char *npm_find_program(const char *path, const char *name, const char *avoid)
{
	for (const char *part = path; part && *part;) {
		size_t len = strcspn(part, ":");
		AUTO_FREE char *file = mem_printf("%.*s/%s", (int)len, part, name);
		char resolved[PATH_MAX];
		struct stat st;

		part += len + (part[len] == ':');
		if (file[0] != '/' || !realpath(file, resolved) || is_below(file, avoid) ||
		    is_below(resolved, avoid))
			continue;
		if (stat(resolved, &st) == 0 && S_ISREG(st.st_mode) &&
		    access(resolved, X_OK) == 0)
			return MEM_STEAL(file);
	}
	return NULL;
}

/* ---- what an answer depends on ---- */

static const char *env_value(char *const *env, const char *name)
{
	size_t len = strlen(name);

	for (; env && *env; env++)
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
			return *env + len + 1;
	return NULL;
}

/* "path size mtime" or "path -" of what a path leads to. */
static void add_file_state(struct strbuf *out, const char *path)
{
	char resolved[PATH_MAX];
	struct stat st;

	if (!path || !realpath(path, resolved) || stat(resolved, &st) < 0)
		strbuf_addf(out, "%s -\n", path ? path : "?");
	else
		strbuf_addf(out, "%s %lld %lld.%09ld\n", resolved, (long long)st.st_size,
			    (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

static bool is_npm_setting(const char *entry)
{
	return strncasecmp(entry, "npm_config_", 11) == 0;
}

/* Names of settings that may hold a credential stay out of what we hash, keep or pass on. */
static bool is_credential(const char *entry)
{
	size_t len = strcspn(entry, "=");
	AUTO_FREE char *name = mem_strndup(entry, len);

	return strcasestr(name, "auth") || strcasestr(name, "password") ||
	       strcasestr(name, "token");
}

static char *clean_path(const char *path, const char *avoid)
{
	struct strbuf out;

	strbuf_init(&out, STRBUF_MAX);
	for (const char *part = path; part && *part;) {
		size_t len = strcspn(part, ":");
		AUTO_FREE char *directory = mem_strndup(part, len);

		part += len + (part[len] == ':');
		if (directory[0] == '/' && !is_below(directory, avoid))
			strbuf_addf(&out, "%s%s", out.len ? ":" : "", directory);
	}
	return strbuf_steal(&out);
}

static void describe(const struct npm_source *source, const char *npm, const char *node,
		     struct strbuf *out)
{
	const char *home = env_value(source->env, "HOME");

	add_file_state(out, npm);
	add_file_state(out, node);
	strbuf_addf(out, "HOME=%s\n", home ? home : "");
	for (char *const *entry = source->env; entry && *entry; entry++)
		if (is_npm_setting(*entry) && !is_credential(*entry))
			strbuf_addf(out, "%s\n", *entry);
}

/* ---- asking npm ---- */

static char **listed_environment(const struct npm_source *source, bool bare, const char *path)
{
	size_t count = 0, total = 0;
	const char *home = env_value(source->env, "HOME");
	char **env;

	for (char *const *entry = source->env; entry && *entry; entry++)
		total++;
	env = mem_calloc(total + 6, sizeof(*env));
	env[count++] = mem_printf("PATH=%s", path);
	env[count++] = mem_printf("HOME=%s", home ? home : "/");
	env[count++] = mem_strdup("LANG=C.UTF-8");
	if (bare) {
		env[count++] = mem_strdup("npm_config_userconfig=/dev/null");
		env[count++] = mem_strdup("npm_config_globalconfig=/nonexistent/npmrc");
		return env;
	}
	for (char *const *entry = source->env; entry && *entry; entry++)
		if (is_npm_setting(*entry) && !is_credential(*entry))
			env[count++] = mem_strdup(*entry);
	return env;
}

/* Waits for the end of a child. 0 when it exited with 0; else words, what it wrote on 2, are
 * quoted. */
static int wait_child(const struct child *child, int words, struct error *err)
{
	AUTO_STRBUF struct strbuf said = STRBUF_NONE;
	struct pollfd polled = {child->pidfd, POLLIN, 0};
	siginfo_t info = {0};
	long long end_ms = fd_now_ms() + ANSWER_MS;

	for (;;) {
		long long left = end_ms - fd_now_ms();
		int ready = left > 0 ? poll(&polled, 1, (int)left) : 0;

		if (ready > 0)
			break;
		if (ready < 0 && errno == EINTR)
			continue;
		return error_set(err, ERROR_FAILED, "npm did not answer within %d s",
				 ANSWER_MS / 1000);
	}
	if (waitid(P_PIDFD, (id_t)child->pidfd, &info, WEXITED | WNOWAIT) < 0)
		return error_errno(err, ERROR_FAILED, errno, "npm config");
	if (info.si_code == CLD_EXITED && info.si_status == 0)
		return 0;
	strbuf_init(&said, 400);
	(void)fd_pread_all(words, &said); /* cut is fine */
	return error_set(err, ERROR_FAILED, "npm config ended with %s %d: %s",
			 info.si_code == CLD_EXITED ? "status" : "signal", info.si_status,
			 said.data);
}

static int ask(const char *npm, char *const *env, bool json, struct strbuf *answer,
	       struct error *err)
{
	/* env -C: the working directory must be nobody's project */
	const char *const text_argv[] = {"/usr/bin/env", "-C", "/",  npm,
					 "config",	 "ls", "-g", NULL};
	const char *const json_argv[] = {"/usr/bin/env", "-C", "/",  npm,      "config",
					 "ls",		 "-g", "-l", "--json", NULL};
	AUTO_FD int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	AUTO_FD int out = memfd_create("npm", MFD_CLOEXEC),
		    words = memfd_create("npm", MFD_CLOEXEC);
	struct child child = {.pidfd = -1, .control = -1, .stderr_fd = -1};
	int kind;

	if (null < 0 || out < 0 || words < 0)
		return error_errno(err, ERROR_FAILED, errno, "npm config");
	kind = spawn_outside(json ? json_argv : text_argv, (const char *const *)env, null, out,
			     words, (uid_t)-1, &child, err);
	if (kind)
		return error_wrap(err, "npm config");
	kind = wait_child(&child, words, err);
	spawn_release(&child);
	if (kind)
		return kind;
	if (fd_pread_all(out, answer) < 0)
		return error_errno(err, ERROR_FAILED, errno, "npm config");
	return 0;
}

/* ---- the settings that count ---- */

/* Lines "KEY = (protected)" of `npm config ls`. */
static struct json *protected_names(const char *listing)
{
	struct json *names = js_array_new();

	for (const char *line = listing; line && *line;) {
		size_t len = strcspn(line, "\n");
		static const char mark[] = " = (protected)";
		size_t tail = sizeof(mark) - 1;

		if (len > tail && line[0] != ';' && memcmp(line + len - tail, mark, tail) == 0)
			js_push(names, js_string_new(line, len - tail));
		line += len + (line[len] == '\n');
	}
	return names;
}

static char *join_list(const struct json *value)
{
	struct strbuf out;

	strbuf_init(&out, 65536);
	for (size_t i = 0; i < js_len(value); i++)
		strbuf_addf(&out, "%s%s", out.len ? "," : "",
			    js_text(js_at(value, i)) ? js_text(js_at(value, i)) : "");
	return strbuf_steal(&out);
}

/* A URL without the password that may stand in it: "https://@host/" is what authority_of_url
 * refuses. */
static void keep_url(struct json *kept, const char *key, const char *url)
{
	const char *host = strstr(url, "//");
	const char *at =
	    host ? memchr(host, '@', strcspn(host + 2, "/?#") + 2) : strrchr(url, '@');
	AUTO_FREE char *clean = NULL;

	if (at) {
		clean = mem_printf("%.*s%s", host ? (int)(host + 2 - url) : 0, url, at);
		url = clean;
	}
	js_set_str(kept, key, url);
}

struct json *npm_config_select(const struct json *answer, const char *listing,
			       const struct json *bare, struct error *err)
{
	static const char *const urls[] = {"registry", "https-proxy", "proxy"};
	static const char *const names[] = {"cafile", "replace-registry-host", "npm-version",
					    "userconfig", "globalconfig"};
	AUTO_JSON struct json *kept = js_object_new();
	struct json *scopes = js_object_new(), *value;
	void *iter = NULL;
	const char *key;

	js_set(kept, "scopes", scopes);
	if (!*js_str(answer, "registry", "")) {
		error_set(err, ERROR_USAGE, "npm config does not say which registry it uses");
		return NULL;
	}
	for (size_t i = 0; i < ARRAY_LEN(urls); i++)
		if (js_str(answer, urls[i], NULL))
			keep_url(kept, urls[i], js_str(answer, urls[i], NULL));
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (js_str(answer, names[i], NULL))
			js_set_str(kept, names[i], js_str(answer, names[i], NULL));
	if (js_str(bare, "registry", NULL))
		keep_url(kept, "builtin", js_str(bare, "registry", NULL));
	value = js_get(answer, "noproxy");
	if (js_is_array(value)) {
		AUTO_FREE char *joined = join_list(value);

		js_set_str(kept, "noproxy", joined);
	} else if (js_is_string(value)) {
		js_set_str(kept, "noproxy", js_text(value));
	}
	/* js_next takes a non-const object but changes nothing */
	while ((key = js_next((struct json *)(uintptr_t)answer, &iter, &value))) {
		size_t len = strlen(key);

		if (key[0] == '@' && len > 9 && strcmp(key + len - 9, ":registry") == 0 &&
		    js_is_string(value)) {
			AUTO_FREE char *name = mem_strndup(key, len - 9);

			keep_url(scopes, name, js_text(value));
		}
	}
	js_set(kept, "protected", protected_names(listing));
	return MEM_STEAL(kept);
}

static char *steal_str(const struct json *object, const char *key)
{
	const char *text = js_str(object, key, NULL);

	return text && *text ? mem_strdup(text) : NULL;
}

static void fill(struct npm_config *config, struct json *kept)
{
	struct json *scopes = js_get(kept, "scopes"), *value;
	const struct json *names = js_get(kept, "protected");
	void *iter = NULL;
	const char *key;

	config->registry = steal_str(kept, "registry");
	config->builtin = steal_str(kept, "builtin");
	config->cafile = steal_str(kept, "cafile");
	config->proxy = steal_str(kept, "https-proxy");
	if (!config->proxy)
		config->proxy = steal_str(kept, "proxy");
	config->noproxy = steal_str(kept, "noproxy");
	config->replace_host = steal_str(kept, "replace-registry-host");
	config->scopes = mem_calloc(js_len(scopes) + 1, sizeof(*config->scopes));
	while ((key = js_next(scopes, &iter, &value))) {
		struct npm_scope *scope = &config->scopes[config->scope_count];

		if (!js_text(value))
			continue;
		scope->name = mem_strdup(key);
		scope->url = mem_strdup(js_text(value));
		config->scope_count++;
	}
	config->protected_keys = mem_calloc(js_len(names) + 1, sizeof(char *));
	for (size_t i = 0; i < js_len(names); i++)
		config->protected_keys[i] = mem_strdup(js_text(js_at(names, i)));
}

void npm_config_release(struct npm_config *config)
{
	free(config->npm);
	free(config->identity);
	free(config->registry);
	free(config->builtin);
	free(config->cafile);
	free(config->proxy);
	free(config->noproxy);
	free(config->replace_host);
	for (size_t i = 0; i < config->scope_count; i++) {
		free(config->scopes[i].name);
		free(config->scopes[i].url);
	}
	free(config->scopes);
	text_free_words(config->protected_keys);
	memset(config, 0, sizeof(*config));
}

/* "//host/path/:_authToken" belongs to a URL that begins with "https://host/path/". */
const char *npm_config_token_key(const struct npm_config *config, const char *url)
{
	const char *rest = strstr(url, "//");

	for (char **key = config->protected_keys; rest && key && *key; key++) {
		const char *end = strstr(*key, "/:");
		size_t len = end ? (size_t)(end - *key) : 0;

		if (len > 2 && strncmp(*key, rest, len) == 0 &&
		    (rest[len] == '/' || !rest[len]))
			return *key;
	}
	return NULL;
}

/* ---- keeping the answer ---- */

/* What the kept answer must have been made of to count: npm, node, environment, the files it
 * named. */
static void fingerprint(const struct npm_source *source, const char *npm, const char *node,
			const struct json *kept, char hex[65])
{
	struct strbuf text;
	char resolved[PATH_MAX];

	strbuf_init(&text, STRBUF_MAX);
	describe(source, npm, node, &text);
	add_file_state(&text, js_str(kept, "userconfig", NULL));
	add_file_state(&text, js_str(kept, "globalconfig", NULL));
	/* npm's own npmrc: in the package's root, above bin/npm-cli.js */
	if (realpath(npm, resolved)) {
		for (int up = 0; up < 2; up++) {
			char *slash = strrchr(resolved, '/');

			if (slash && slash != resolved)
				*slash = 0;
		}
		AUTO_FREE char *builtin = mem_printf("%s/npmrc", resolved);

		add_file_state(&text, builtin);
	}
	sha256_hex(text.data, text.len, hex);
	strbuf_release(&text);
}

static struct json *read_kept(const struct npm_source *source, const char *npm,
			      const char *node)
{
	AUTO_FD int dir = open(source->cache_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO_STRBUF struct strbuf data = STRBUF_NONE;
	AUTO_JSON struct json *whole = NULL;
	struct json *kept;
	struct error ignored = {0};
	char hex[65];

	strbuf_init(&data, ANSWER_MAX);
	if (dir < 0 || fd_read_file(dir, CACHE_NAME, &data, &ignored))
		return NULL;
	whole = js_parse(data.data, data.len, ANSWER_MAX, CACHE_NAME, &ignored);
	kept = js_get(whole, "answer");
	if (!whole || js_check_kind(whole, "npm-config", CACHE_VERSION, &ignored) ||
	    !js_is_object(kept))
		return NULL;
	fingerprint(source, npm, node, kept, hex);
	return strcmp(hex, js_str(whole, "fingerprint", "")) == 0 ? js_copy(kept) : NULL;
}

static int write_kept(const struct npm_source *source, const char *npm, const char *node,
		      const struct json *kept, struct error *err)
{
	AUTO_FD int dir = open(source->cache_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_JSON struct json *whole = js_artefact_new("npm-config", CACHE_VERSION);
	AUTO_STRBUF struct strbuf text = STRBUF_NONE;
	/* a name of our own first: another run may be writing the same answer now */
	AUTO_FREE char *name = mem_printf(CACHE_NAME "-%d", (int)getpid());
	char hex[65];

	if (dir < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", source->cache_dir);
	fingerprint(source, npm, node, kept, hex);
	js_set_str(whole, "fingerprint", hex);
	js_set(whole, "answer", js_copy(kept));
	strbuf_init(&text, ANSWER_MAX);
	js_format_pretty(whole, &text);
	if (fd_replace_file(dir, name, text.data, text.len, 0600, err))
		return err->kind;
	if (renameat(dir, name, dir, CACHE_NAME) < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s/" CACHE_NAME,
				   source->cache_dir);
	return 0;
}

/* One question; json: the whole configuration, else the listing that names protected keys. */
static int ask_once(const struct npm_source *source, const char *npm, bool bare, bool json,
		    struct strbuf *answer, struct error *err)
{
	AUTO_FREE char *path = clean_path(env_value(source->env, "PATH"), source->work_tree);
	char **env = listed_environment(source, bare, path);
	int kind;

	strbuf_init(answer, ANSWER_MAX);
	kind = ask(npm, env, json, answer, err);
	text_free_words(env);
	return kind;
}

static struct json *ask_npm(const struct npm_source *source, const char *npm, struct error *err)
{
	AUTO_STRBUF struct strbuf whole = STRBUF_NONE, bare = STRBUF_NONE,
				  listing = STRBUF_NONE;
	AUTO_JSON struct json *answer = NULL, *bare_answer = NULL;

	if (ask_once(source, npm, false, true, &whole, err) ||
	    ask_once(source, npm, true, true, &bare, err) ||
	    ask_once(source, npm, false, false, &listing, err))
		return NULL;
	answer = js_parse(whole.data, whole.len, ANSWER_MAX, "npm config", err);
	mem_wipe(whole.data, whole.len); /* a proxy's password may stand in it */
	bare_answer =
	    answer ? js_parse(bare.data, bare.len, ANSWER_MAX, "npm config", err) : NULL;
	return bare_answer ? npm_config_select(answer, listing.data, bare_answer, err) : NULL;
}

int npm_config_load(const struct npm_source *source, struct npm_config *config,
		    struct error *err)
{
	const char *path = env_value(source->env, "PATH");
	AUTO_FREE char *npm = npm_find_program(path, "npm", source->work_tree);
	AUTO_FREE char *node = npm_find_program(path, "node", source->work_tree);
	AUTO_JSON struct json *kept = NULL;
	AUTO_STRBUF struct strbuf identity = STRBUF_NONE;
	int kind;

	memset(config, 0, sizeof(*config));
	if (!npm || !node) {
		error_set(err, ERROR_USAGE,
			  "the repository has an npm lock file, but there is no %s in PATH",
			  npm ? "node" : "npm");
		return error_next(err,
				  "install it, or set `[fetch] recipe = none` in the operator "
				  "configuration to go on without dependencies");
	}
	kept = read_kept(source, npm, node);
	if (!kept) {
		kept = ask_npm(source, npm, err);
		if (!kept)
			return err->kind;
		kind = write_kept(source, npm, node, kept, err);
		if (kind)
			return kind;
	}
	strbuf_init(&identity, STRBUF_MAX);
	add_file_state(&identity, npm);
	add_file_state(&identity, node);
	strbuf_addf(&identity, "npm %s\n", js_str(kept, "npm-version", "?"));
	fill(config, kept);
	config->npm = MEM_STEAL(npm);
	config->identity = strbuf_steal(&identity);
	return 0;
}
