/* agent hook post-receive: pushed task branches become jobs, at once or not at all, and never to the push's harm: what is
 * lost here is found by agent queue reconcile. The queue is this machine's, in the state directory; or a worker's that
 * runs as somebody else, who is told through its socket (queue.socket). */
#include "hook.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/queue.h"
#include "pipeline/spawn.h"
#include "task.h"
#include "work.h"

#define ANSWER_MAX (1 << 20)
#define ANSWER_S 20
#define WORKER_LOG_MAX (1 << 20)

/* As servers name the pusher (push_agent): for people, not for rights. */
static const char *pusher(void)
{
	static const char *const names[] = {"AGENT_PUSHER",	 "GL_USER",
					    "GL_USERNAME",	 "GITEA_PUSHER_NAME",
					    "GITHUB_USER_LOGIN", "REMOTE_USER"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *name = getenv(names[i]);

		if (name && name[0])
			return name;
	}
	return NULL;
}

/* Why the push asks for nothing: agents push results. NULL: it does. Owned by the caller. */
static char *skip_reason(const struct push *push)
{
	const char *agent = push_agent(&push->rules.identity);

	if (getenv("AGENT_RUN"))
		return mem_printf("pushed by run %s", getenv("AGENT_RUN"));
	return agent ? mem_printf("pushed by %s, an agent (agent.identity)", agent) : NULL;
}

static struct task_ask *asks_of(const struct push *push, const char *skip, size_t *count)
{
	struct task_ask *asks = mem_calloc(push->count + 1, sizeof(*asks));

	*count = 0;
	for (size_t i = 0; i < push->count; i++) {
		const struct update *update = &push->updates[i];

		if (!hook_rules_for(&push->rules, update->ref).task)
			continue;
		asks[(*count)++] = (struct task_ask){.ref = update->ref,
						     .tip = update->deletes ? "" : update->new,
						     .option = push->option,
						     .skip = skip,
						     .pusher = pusher()};
	}
	return asks;
}

static void tell(void *arg, const char *ref, const char *text)
{
	(void)arg;
	hook_say("%s: %s", strncmp(ref, "refs/heads/", 11) == 0 ? ref + 11 : ref, text);
}

/* ---- our own queue ---- */

/* For a machine where no service works: it ends when nothing is left, and what it says is in worker.log. Several at once
 * share the jobs and their limits. */
static int start_worker(const char *state, struct error *err)
{
	const char *dir = spawn_program_dir(err);
	char *program AUTO_FREE = NULL, *log AUTO_FREE = NULL;
	int null AUTO_FD = open("/dev/null", O_RDWR | O_CLOEXEC), words AUTO_FD = -1, result;
	struct stat st;
	char **env;

	if (!dir)
		return err->kind;
	program = mem_printf("%s/agent", dir);
	log = mem_printf("%s/worker.log", state);
	words = open(log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (null < 0 || words < 0 || fstat(words, &st) < 0 ||
	    (st.st_size > WORKER_LOG_MAX && ftruncate(words, 0) < 0))
		return error_errno(err, ERROR_LATER, errno, "%s", log);
	env = work_env();
	result =
	    spawn_lasting((const char *const[]){program, "work", "--once", NULL},
			  (const char *const *)env, (const int[]){null, words, words}, err);
	work_env_free(env);
	return result;
}

static int enqueue(struct push *push, struct supervisor *sup, const struct options *options,
		   const struct task_ask *asks, size_t count, struct error *err)
{
	struct hook_rule rule = hook_rules_for(&push->rules, "");
	char *state AUTO_FREE = hook_state_dir(&rule, err);
	struct queue *queue AUTO_QUEUE = state ? queue_open(state, err) : NULL;
	struct task_site site = {.repo = push->repo, .rules = push->rules}; /* borrowed */
	struct error idle = {0};
	int result;

	if (!queue)
		return err->kind;
	result =
	    task_take(&site, queue, sup, options, asks, count, "hook", false, tell, NULL, err);
	if (result == 0)
		result = queue_watch(queue, push->repo.git_dir, true, err);
	if (result == 0 && rule.start_worker && start_worker(state, &idle))
		hook_say("note: no worker was started for it: %s", idle.message);
	return result;
}

/* ---- a worker's ---- */

static struct json *message_of(const struct push *push, const struct task_ask *asks,
			       size_t count)
{
	struct json *message = js_artefact_new("asked", 1), *list = js_array_new();

	js_set_str(message, "repository", push->repo.git_dir);
	js_set(message, "asks", list);
	for (size_t i = 0; i < count; i++) {
		struct json *one = js_object_new();

		js_set_str(one, "ref", asks[i].ref);
		js_set_str(one, "tip", asks[i].tip);
		js_set_str(one, "option", asks[i].option);
		js_set_str(one, "skip", asks[i].skip);
		js_set_str(one, "pusher", asks[i].pusher);
		js_push(list, one);
	}
	return message;
}

static int connect_to(const char *path, struct error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval limit = {.tv_sec = ANSWER_S};
	int fd AUTO_FD = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(address.sun_path))
		return error_set(err, ERROR_USAGE, "queue.socket = %s: longer than %zu bytes",
				 path, sizeof(address.sun_path) - 1);
	memcpy(address.sun_path, path, strlen(path));
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) < 0 ||
	    connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return error_errno(err, ERROR_LATER, errno, "the worker at %s (queue.socket)",
				   path);
	return fd_steal(&fd);
}

/* Its answer is lines for the pusher; the last says whether it took all. */
static int hand_over(const struct push *push, const char *path, const struct task_ask *asks,
		     size_t count, struct error *err)
{
	struct json *message AUTO_JSON = message_of(push, asks, count);
	struct strbuf text AUTO_STRBUF = STRBUF_NONE, answer AUTO_STRBUF = STRBUF_NONE;
	int fd AUTO_FD = connect_to(path, err);
	char *rest, *line;
	bool whole = false;

	if (fd < 0)
		return err->kind;
	strbuf_init(&text, STRBUF_MAX);
	strbuf_init(&answer, ANSWER_MAX);
	js_format(message, &text);
	if (fd_write_all(fd, text.data, text.len) < 0 || shutdown(fd, SHUT_WR) < 0 ||
	    fd_read_all(fd, &answer) < 0)
		return error_errno(err, ERROR_LATER, errno, "the worker at %s", path);
	rest = answer.data;
	while ((line = strsep(&rest, "\n")) && rest) {
		whole = strcmp(line, HOOK_TAKEN) == 0;
		if (!whole)
			hook_say("%s", line);
	}
	return whole ? 0 : error_set(err, ERROR_LATER, "the worker at %s took no job", path);
}

/* ---- in order ---- */

static int post_receive(struct push *push, struct supervisor *sup, struct options *options,
			struct error *err)
{
	const char *path = config_get(options->config, "queue.socket");
	char *skip AUTO_FREE = skip_reason(push);
	size_t count = 0;
	struct task_ask *asks AUTO_FREE = asks_of(push, skip, &count);

	if (!count)
		return 0;
	if (count > TASK_ASKS_MAX)
		return error_set(err, ERROR_LATER,
				 "%zu task branches in one push, at most %d are taken at once",
				 count, TASK_ASKS_MAX);
	return path ? hand_over(push, path, asks, count, err)
		    : enqueue(push, sup, options, asks, count, err);
}

int hook_post_receive(struct options *options, struct error *err)
{
	struct journal journal = {.quiet = true, .events_fd = -1};
	struct push push = {.count = 0};
	struct supervisor sup = {.signal_fd = -1};
	struct error chained = {0};
	int result;

	/* The pusher may be gone: git does not wait for them, and neither do we. */
	signal(SIGPIPE, SIG_IGN);
	result = push_read(&push, err);
	if (result == 0)
		result = supervise_init(&sup, &journal, err);
	if (result == 0)
		result = post_receive(&push, &sup, options, err);
	if (result) {
		hook_say("no job was queued: %s", err->message);
		hook_say("nothing is lost: the next agent queue reconcile on the server finds "
			 "the branch");
	}
	/* Behind ours: it may take its time. */
	if (push.repo.common_dir && sup.signal_fd >= 0 &&
	    push_run_chained(&push, &sup, "post-receive", &chained))
		hook_say("note: %s", chained.message);
	supervise_release(&sup);
	push_release(&push);
	if (result && err->next[0])
		hook_say("next: %s", err->next);
	memset(err, 0, sizeof(*err));
	return result ? error_set(err, result, "%s", "") : 0;
}
