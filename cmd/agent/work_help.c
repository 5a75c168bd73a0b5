#include "work_help.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "work.h"

#define TAKE_MS 60000
#define RECONCILE_MS (30 * 60000LL)
#define BACKLOG 64
#define WORDS_MAX 64

int help_init(struct help *help, const char *program, const char *state,
	      const char *const *pairs, const struct config *config, struct error *err)
{
	*help = (struct help){.program = program,
			      .pairs = pairs,
			      .path = config_get(config, "queue.socket"),
			      .lock_fd = -1,
			      .listen_fd = -1,
			      .every_ms = 1000 * config_number(config, "queue.reconcile")};
	for (size_t i = 0; i < HELPERS; i++)
		help->helpers[i].child = (struct child){0, -1, -1, -1};
	callers_init(&help->callers);
	if (!help->path)
		return 0;
	if (help->path[0] != '/' ||
	    strlen(help->path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
		error_set(err, ERROR_USAGE, "queue.socket = %s: not a short absolute path",
			  help->path);
		return error_next(err, "as in /run/agent/socket");
	}
	help->lock_path = mem_printf("%s/socket.lock", state);
	help->lock_fd = open(help->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	return help->lock_fd < 0 ? error_errno(err, ERROR_FAILED, errno, "%s", help->lock_path)
				 : 0;
}

/* Whoever calls from now on calls another worker. */
static void stop_listening(struct help *help)
{
	callers_release(&help->callers);
	if (help->listen_fd >= 0)
		unlink(help->path);
	fd_close_ptr(&help->listen_fd);
	fd_close_ptr(&help->lock_fd);
	help->listen_fd = help->lock_fd = -1;
}

void help_release(struct help *help)
{
	for (size_t i = 0; i < HELPERS; i++)
		if (help->helpers[i].child.pid > 0)
			spawn_release(&help->helpers[i].child);
	stop_listening(help);
	free(help->lock_path);
}

/* ---- processes ---- */

static int start(struct help *help, struct helper *helper, const char *verb, int in, int out,
		 long long limit_ms, struct error *err)
{
	const char *argv[WORDS_MAX] = {help->program, "queue", verb};
	size_t count = 3;
	char **env;
	int result;

	for (size_t i = 0; help->pairs[i] && count + 3 < WORDS_MAX; i++) {
		argv[count++] = "-c";
		argv[count++] = help->pairs[i];
	}
	env = work_env();
	result = spawn_outside(argv, (const char *const *)env, in, out, STDERR_FILENO,
			       (uid_t)-1, &helper->child, err);
	work_env_free(env);
	helper->kill_at = fd_now_ms() + limit_ms;
	return result;
}

static void reap(struct helper *helper)
{
	siginfo_t info = {0};

	if (waitid(P_PIDFD, (id_t)helper->child.pidfd, &info, WEXITED | WNOWAIT | WNOHANG) ==
		0 &&
	    info.si_pid == 0 && fd_now_ms() < helper->kill_at)
		return;
	spawn_release(&helper->child);
	helper->child = (struct child){0, -1, -1, -1};
}

static bool is_own(const struct help *help, const pid_t *jobs, size_t count, pid_t pid)
{
	for (size_t i = 0; i < HELPERS; i++)
		if (help->helpers[i].child.pid == pid)
			return true;
	for (size_t i = 0; i < count; i++)
		if (jobs[i] == pid)
			return true;
	return false;
}

void help_reap_left(const struct help *help, const pid_t *jobs, size_t count)
{
	siginfo_t info = {0};

	while (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT | WNOHANG) == 0 && info.si_pid &&
	       !is_own(help, jobs, count, info.si_pid))
		waitpid(info.si_pid, NULL, WNOHANG);
}

/* ---- the socket ---- */

/* The lock is gone with its worker, so another one takes over, and a socket without a listener is taken away. */
static int listen_at(struct help *help, struct error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd AUTO_FD = -1;

	if (flock(help->lock_fd, LOCK_EX | LOCK_NB) < 0)
		return 0;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	memcpy(address.sun_path, help->path, strlen(help->path));
	unlink(help->path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    chmod(help->path, 0666) < 0 || listen(fd, BACKLOG) < 0) {
		error_errno(err, ERROR_USAGE, errno, "queue.socket = %s", help->path);
		return error_next(err, "name a path in a directory of the worker's, as "
				       "RuntimeDirectory= of its unit makes one");
	}
	help->listen_fd = fd_steal(&fd);
	return 0;
}

static struct helper *free_taker(struct help *help)
{
	for (size_t i = 1; i < HELPERS; i++)
		if (!help->helpers[i].child.pid)
			return &help->helpers[i];
	return NULL;
}

static bool may_have_one_more(const void *arg, uid_t uid)
{
	const struct help *help = arg;
	size_t count = 0;

	for (size_t i = 1; i < HELPERS; i++)
		count += help->helpers[i].child.pid && help->helpers[i].uid == uid;
	return count < TAKERS_EACH;
}

static void serve_callers(struct help *help)
{
	struct helper *helper;

	while ((helper = free_taker(help))) {
		int fd AUTO_FD =
		    callers_next(&help->callers, may_have_one_more, help, &helper->uid);
		struct error err = {0};

		if (fd < 0)
			return;
		if (start(help, helper, "take", fd, fd, TAKE_MS, &err)) {
			print_error(&err);
			helper->child = (struct child){0, -1, -1, -1};
		}
	}
}

/* ---- in turn ---- */

void help_poll(const struct help *help, struct pollfd *fds)
{
	for (size_t i = 0; i < HELPERS; i++) {
		bool used = help->helpers[i].child.pid > 0;

		fds[i] = (struct pollfd){.fd = used ? help->helpers[i].child.pidfd : -1,
					 .events = POLLIN};
	}
	fds[HELPERS] = (struct pollfd){.fd = help->listen_fd, .events = POLLIN};
	callers_poll(&help->callers, &fds[HELPERS + 1]);
}

static int reconcile(struct help *help, struct error *err)
{
	int null AUTO_FD = open("/dev/null", O_RDONLY | O_CLOEXEC);

	help->reconciled = true;
	help->reconcile_at = fd_now_ms() + help->every_ms;
	if (null < 0)
		return error_errno(err, ERROR_FAILED, errno, "/dev/null");
	/* What it finds is the worker's to tell, as its jobs' words are. */
	return start(help, &help->helpers[0], "reconcile", null, STDERR_FILENO, RECONCILE_MS,
		     err);
}

int help_serve(struct help *help, const struct pollfd *fds, bool stopping, struct error *err)
{
	for (size_t i = 0; i < HELPERS; i++)
		if (help->helpers[i].child.pid > 0)
			reap(&help->helpers[i]);
	if (stopping) {
		stop_listening(help);
		return 0;
	}
	if (help->path && help->listen_fd < 0 && listen_at(help, err))
		return err->kind;
	/* first what was polled, by its place */
	callers_look(&help->callers, fds ? &fds[HELPERS + 1] : NULL, fd_now_ms());
	if (help->listen_fd >= 0 && (!fds || fds[HELPERS].revents))
		callers_accept(&help->callers, help->listen_fd, fd_now_ms());
	serve_callers(help);
	if (!help->helpers[0].child.pid && fd_now_ms() >= help->reconcile_at)
		return reconcile(help, err);
	return 0;
}

bool help_is_idle(const struct help *help)
{
	for (size_t i = 0; i < HELPERS; i++)
		if (help->helpers[i].child.pid > 0)
			return false;
	return help->reconciled;
}
