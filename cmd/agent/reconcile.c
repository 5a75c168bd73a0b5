/*
 * agent queue reconcile: task branches that no hook told of. A hook can be lost (its pusher vanished, the queue was
 * full), so cron, the timer, or the worker itself compares now and then. agent queue take: a worker's end of the socket at which
 * hooks of other users hand over what they were pushed (hook_post.c); the worker starts one a connection, as inetd does.
 */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <glob.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hook.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/queue.h"
#include "task.h"

#define MESSAGE_MAX (64 << 20)
#define MESSAGE_MS 10000
#define WORDS_MAX 65536 /* of a push option, as git has it; of a pusher's name, a reason */

static void tell(void *arg, const char *ref, const char *text)
{
	char *line AUTO_FREE =
	    mem_printf("%s: %s", strncmp(ref, "refs/heads/", 11) == 0 ? ref + 11 : ref, text);
	char shown[4096];

	text_escape(shown, sizeof(shown), line, strlen(line));
	printf("%s%s%s\n", arg ? (const char *)arg : "", arg ? ": " : "", shown);
}

/* ---- reconcile ---- */

/* Whether the hooks of the repository use another queue than ours: then it is that one's to reconcile. */
static bool is_elsewhere(const struct task_site *site, const char *state)
{
	struct hook_rule rule = hook_rules_for(&site->rules, "");
	char *theirs AUTO_FREE =
	    rule.state_dir[0] ? realpath(rule.state_dir, NULL) : mem_strdup(state);
	char *ours AUTO_FREE = realpath(state, NULL);

	return !theirs || !ours || strcmp(theirs, ours) != 0;
}

static int reconcile_one(const char *path, bool named, const char *state, struct queue *queue,
			 struct supervisor *sup, const struct options *options,
			 struct error *err)
{
	struct task_site site;
	struct task_ask *asks AUTO_FREE = NULL;
	struct json *facts AUTO_JSON = NULL;
	size_t count = 0;
	int result = task_site_open(path, &site, err);

	if (result == 0 && is_elsewhere(&site, state)) {
		if (named)
			result =
			    error_set(err, ERROR_USAGE,
				      "its hooks use another state directory (agent.state)");
	} else if (result == 0) {
		result = task_news(&site, queue, sup, options, &asks, &count, &facts, err);
		if (result == 0)
			result = task_take(&site, queue, sup, options, asks, count, "cron",
					   true, tell, site.repo.git_dir, err);
	}
	task_site_release(&site);
	if (result && strncmp(err->message, path, strlen(path)) != 0)
		error_wrap(err, "%s", path);
	return result;
}

static void add_path(struct json *paths, const char *path)
{
	char *real AUTO_FREE = realpath(path, NULL);

	if (!real)
		real = mem_strdup(path);
	for (size_t i = 0; i < js_len(paths); i++)
		if (strcmp(js_text(js_at(paths, i)), real) == 0)
			return;
	js_push_str(paths, real);
}

/* Those that hooks were installed in or told of, and those that the operator names. New; NULL with err. */
static struct json *all_paths(struct queue *queue, const struct config *config,
			      struct error *err)
{
	struct json *watched AUTO_JSON = queue_watched(queue, err);
	struct json *paths AUTO_JSON = js_array_new();
	const char *pattern;

	if (!watched)
		return NULL;
	for (size_t i = 0; i < js_len(watched); i++)
		add_path(paths, js_text(js_at(watched, i)));
	for (size_t i = 0; (pattern = config_item(config, "queue.repository", i)); i++) {
		glob_t found = {0};

		if (glob(pattern, GLOB_NOCHECK, NULL, &found) == 0)
			for (size_t k = 0; k < found.gl_pathc; k++)
				if (!strpbrk(found.gl_pathv[k], "*?["))
					add_path(paths, found.gl_pathv[k]);
		globfree(&found);
	}
	return MEM_STEAL(paths);
}

static int reconcile_all(const char *state, struct queue *queue, struct supervisor *sup,
			 const struct options *options, struct error *err)
{
	struct json *paths AUTO_JSON = all_paths(queue, options->config, err);
	size_t failed = 0;

	if (!paths)
		return err->kind;
	for (size_t i = 0; i < js_len(paths); i++) {
		const char *path = js_text(js_at(paths, i));
		struct error one = {0};
		int result = reconcile_one(path, false, state, queue, sup, options, &one);

		if (result == ERROR_INTERRUPTED)
			return *err = one, result;
		if (result == 0)
			continue;
		print_error(&one);
		failed++;
	}
	if (!failed)
		return 0;
	error_set(err, ERROR_FAILED, "%zu of %zu repositories could not be reconciled", failed,
		  js_len(paths));
	return error_next(
	    err, "mend them, or leave them out: agent hook uninstall, queue.repository");
}

int queue_reconcile(struct options *options, const char *state, struct queue *queue,
		    struct error *err)
{
	struct journal journal = {.quiet = true, .events_fd = -1};
	struct supervisor sup;
	int result = supervise_init(&sup, &journal, err);

	if (result == 0)
		result = options->repo ? reconcile_one(options->repo, true, state, queue, &sup,
						       options, err)
				       : reconcile_all(state, queue, &sup, options, err);
	supervise_release(&sup);
	return result;
}

/* ---- take ---- */

/* Whoever owns the repository speaks for it, where the operator lets it in; root and ourselves do anyhow. */
static int check_peer(const struct options *options, const char *repository, struct error *err)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	const char *pattern;
	bool listed = false;
	struct stat st;

	if (getsockopt(STDIN_FILENO, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return error_errno(err, ERROR_USAGE, errno, "who asks");
	for (size_t i = 0; (pattern = config_item(options->config, "queue.repository", i)); i++)
		listed |= fnmatch(pattern, repository, FNM_PATHNAME) == 0;
	if (!listed) {
		error_set(err, ERROR_NO, "%s is not among the worker's queue.repository",
			  repository);
		return error_next(err, "add it to the operator's configuration");
	}
	if (stat(repository, &st) < 0)
		return error_errno(err, ERROR_USAGE, errno, "%s", repository);
	if (peer.uid != 0 && peer.uid != geteuid() && peer.uid != st.st_uid)
		return error_set(err, ERROR_NO, "%s belongs to uid %u, not to uid %u",
				 repository, (unsigned)st.st_uid, (unsigned)peer.uid);
	return 0;
}

/* Text of another user: each field is checked before it is used. */
static int read_asks(const struct json *message, struct task_ask **asks, size_t *count,
		     struct error *err)
{
	const struct json *list = js_get(message, "asks");

	if (js_len(list) > TASK_ASKS_MAX)
		return error_set(err, ERROR_USAGE, "more than %d branches", TASK_ASKS_MAX);
	*asks = mem_calloc(js_len(list) + 1, sizeof(**asks));
	for (size_t i = 0; i < js_len(list); i++) {
		const struct json *one = js_at(list, i);
		struct task_ask *ask = &(*asks)[i];

		*ask = (struct task_ask){.ref = js_str(one, "ref", ""),
					 .tip = js_str(one, "tip", "?"),
					 .option = js_str(one, "option", NULL),
					 .skip = js_str(one, "skip", NULL),
					 .pusher = js_str(one, "pusher", NULL)};
		if (strncmp(ask->ref, "refs/", 5) != 0 ||
		    (ask->tip[0] && !text_is_hex(ask->tip, 40)) ||
		    js_text_len(js_get(one, "option")) > WORDS_MAX ||
		    js_text_len(js_get(one, "skip")) > WORDS_MAX ||
		    js_text_len(js_get(one, "pusher")) > WORDS_MAX)
			return error_set(err, ERROR_USAGE, "branch %zu is malformed", i + 1);
	}
	*count = js_len(list);
	return 0;
}

/* Only those that the repository's own rules make task branches. */
static void keep_tasks(const struct task_site *site, struct task_ask *asks, size_t *count)
{
	size_t kept = 0;

	for (size_t i = 0; i < *count; i++)
		if (hook_rules_for(&site->rules, asks[i].ref).task)
			asks[kept++] = asks[i];
	*count = kept;
}

/* Its end has come, or is on its way (pipeline/callers.h). */
static int read_to_end(struct strbuf *text, struct error *err)
{
	const long long until = fd_now_ms() + MESSAGE_MS;
	struct pollfd polled = {STDIN_FILENO, POLLIN, 0};
	char chunk[65536];

	for (;;) {
		long long left = until - fd_now_ms();
		ssize_t n;

		if (left <= 0 || poll(&polled, 1, (int)left) == 0)
			return error_set(err, ERROR_USAGE,
					 "the message did not end within %d s",
					 MESSAGE_MS / 1000);
		n = recv(STDIN_FILENO, chunk, sizeof(chunk), MSG_DONTWAIT);
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return error_errno(err, ERROR_USAGE, errno, "the message");
		if (n == 0)
			return 0;
		if (n > 0 && strbuf_add(text, chunk, (size_t)n) < 0)
			return error_set(err, ERROR_USAGE, "the message is longer than %d MiB",
					 MESSAGE_MAX >> 20);
	}
}

static struct json *read_message(struct error *err)
{
	struct timeval limit = {.tv_sec = MESSAGE_MS / 1000};
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&text, MESSAGE_MAX);
	/* for our answer */
	if (setsockopt(STDIN_FILENO, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) < 0) {
		error_errno(err, ERROR_USAGE, errno, "standard input is no socket");
		error_next(err, "agent work starts this; agent queue add adds a job");
		return NULL;
	}
	return read_to_end(&text, err)
		   ? NULL
		   : js_parse(text.data, text.len, MESSAGE_MAX, "the message", err);
}

static int take(struct options *options, struct queue *queue, struct supervisor *sup,
		struct error *err)
{
	struct json *message AUTO_JSON = read_message(err);
	struct task_ask *asks AUTO_FREE = NULL;
	struct task_site site;
	const char *path;
	size_t count = 0;
	int result;

	if (!message || js_check_kind(message, "asked", 1, err) ||
	    js_need_str(message, "repository", &path, err) || check_peer(options, path, err) ||
	    read_asks(message, &asks, &count, err))
		return err->kind;
	result = task_site_open(path, &site, err);
	if (result == 0 && strcmp(path, site.repo.git_dir) != 0)
		result = error_set(err, ERROR_USAGE, "%s is not a bare repository", path);
	if (result == 0) {
		keep_tasks(&site, asks, &count);
		result = task_take(&site, queue, sup, options, asks, count, "hook", false, tell,
				   NULL, err);
	}
	if (result == 0)
		result = queue_watch(queue, path, true, err);
	task_site_release(&site);
	return result;
}

int queue_take(struct options *options, struct queue *queue, struct error *err)
{
	struct journal journal = {.quiet = true, .events_fd = -1};
	struct supervisor sup;
	int result = supervise_init(&sup, &journal, err);

	if (result == 0)
		result = take(options, queue, &sup, err);
	supervise_release(&sup);
	if (result) {
		char shown[1200];

		text_escape(shown, sizeof(shown), err->message, strlen(err->message));
		printf("%s\n", shown);
	} else {
		printf(HOOK_TAKEN "\n");
	}
	return result;
}
