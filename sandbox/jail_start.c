#include "jail_start.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/exitcode.h"
#include "pipeline/fds.h"
#include "sandbox/jail_spec.h"

/* After agent-jail has ended nothing of it can write any more; what its pipe still holds is
 * read at once. This is only a bound for the case that somebody else got hold of the write end.
 */
#define DRAIN_MS 2000

/* ---- start ---- */

/* The file agent-jail beside our own executable, or in ../libexec/agent. A new string, NULL
 * with err. */
static char *jail_program(struct error *err)
{
	static const char *const beside[] = {"agent-jail", "../libexec/agent/agent-jail"};
	char self[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (len <= 0) {
		error_errno(err, ERROR_ISOLATION, errno, "jail: /proc/self/exe cannot be read");
		return NULL;
	}
	self[len] = '\0';
	slash = strrchr(self, '/');
	if (!slash) {
		error_set(err, ERROR_ISOLATION, "jail: our executable has no directory: %s",
			  self);
		return NULL;
	}
	*slash = '\0';
	for (size_t i = 0; i < ARRAY_LEN(beside); i++) {
		char *path AUTO_FREE = mem_printf("%s/%s", self, beside[i]);

		if (access(path, X_OK) == 0)
			return MEM_STEAL(path);
	}
	error_set(err, ERROR_ISOLATION, "jail: agent-jail is not beside our executable in %s",
		  self);
	error_next(err, "install all programs of this project into one directory");
	return NULL;
}

struct placed {
	int number, fd;
};

struct start {
	const char *path;
	struct placed *fds;
	size_t count;
	pid_t parent;
};

/*
 * The child, in our memory and with our thread waiting until it has become agent-jail: only system calls, and
 * it changes nothing but what start points to. (No program of ours has a signal handler that could run in it.)
 * Descriptors are first moved above all targets, then down to their numbers, so that no move can overwrite one
 * that is still to come. It runs in its starter's memory and never returns: guards that a sanitizer put around
 * its variables would stay there.
 */
__attribute__((no_sanitize("address"))) static int exec_jail(void *argument)
{
	struct start *start = argument;
	struct placed *fds = start->fds;
	char name[] = "agent-jail";
	char *const argv[] = {name, NULL};
	char *const envp[] = {NULL};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != start->parent)
		_exit(EXIT_ISOLATION);
	for (size_t i = 0; i < start->count; i++) {
		fds[i].fd = fcntl(fds[i].fd, F_DUPFD_CLOEXEC, FD_LAST + 1);
		if (fds[i].fd < 0)
			_exit(EXIT_ISOLATION);
	}
	close_range(3, FD_LAST, 0);
	for (size_t i = 0; i < start->count; i++)
		if (dup2(fds[i].fd, fds[i].number) < 0)
			_exit(EXIT_ISOLATION);
	close_range(FD_LAST + 1, ~0U, 0);
	execve(start->path, argv, envp);
	_exit(EXIT_ISOLATION);
}

/* fork(2) and execve(2) at once, without a copy of our memory that nobody would use. */
static pid_t spawn_jail(struct start *start)
{
	char stack[16384] __attribute__((aligned(16)));

	return clone(exec_jail, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, start);
}

int jail_start(struct jail_handle *jail, int facts_fd, int spec_fd, int egress_fd, int stdin_fd,
	       int stdout_fd, int stderr_fd, struct error *err)
{
	int facts AUTO_FD = facts_fd, spec AUTO_FD = spec_fd, egress AUTO_FD = egress_fd;
	int in AUTO_FD = stdin_fd, out AUTO_FD = stdout_fd, errors AUTO_FD = stderr_fd;
	int go AUTO_FD = -1, go_theirs AUTO_FD = -1, read_end AUTO_FD = -1,
	       write_end AUTO_FD = -1;
	int null AUTO_FD = -1, take AUTO_FD = -1, take_theirs AUTO_FD = -1;
	char *path AUTO_FREE = jail_program(err);
	int pair[2];

	jail->pid = -1;
	jail->go_fd = jail->output_fd = jail->take_fd = -1;
	jail->idle_ms = 0;
	if (!path)
		return ERROR_ISOLATION;
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0)
		return error_errno(err, ERROR_ISOLATION, errno, "jail: /dev/null");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return error_errno(err, ERROR_ISOLATION, errno, "jail: socketpair");
	go = pair[0];
	go_theirs = pair[1];
	if (jail->takes) {
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
			return error_errno(err, ERROR_ISOLATION, errno, "jail: socketpair");
		take = pair[0];
		take_theirs = pair[1];
	}
	if (out < 0 || errors < 0) {
		if (pipe2(pair, O_CLOEXEC) < 0)
			return error_errno(err, ERROR_ISOLATION, errno, "jail: pipe");
		read_end = pair[0];
		write_end = pair[1];
	}
	struct placed fds[10] = {{STDIN_FILENO, null},
				 {STDOUT_FILENO, null},
				 {FD_FACTS, facts},
				 {FD_SPEC, spec},
				 {FD_GO, go_theirs},
				 {FD_STDIN, in < 0 ? null : in},
				 {FD_STDOUT, out < 0 ? write_end : out},
				 {FD_STDERR, errors < 0 ? write_end : errors}};
	struct start start = {path, fds, 8, getpid()};

	if (egress >= 0)
		fds[start.count++] = (struct placed){FD_EGRESS, egress};
	if (jail->takes)
		fds[start.count++] = (struct placed){FD_TAKE, take_theirs};
	jail->pid = spawn_jail(&start);
	if (jail->pid < 0)
		return error_errno(err, ERROR_ISOLATION, errno, "jail: clone");
	jail->go_fd = fd_steal(&go);
	jail->output_fd = fd_steal(&read_end);
	jail->take_fd = fd_steal(&take);
	return 0;
}

int jail_send_go(struct jail_handle *jail, const struct jail_go *go, struct error *err)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	size_t sent = 0;

	strbuf_init(&text, JAIL_SPEC_MAX);
	jail_go_format(go, &text);
	if (text.full)
		return error_set(err, ERROR_ISOLATION, "jail: too many layers");
	while (sent < text.len) {
		ssize_t n = send(jail->go_fd, text.data + sent, text.len - sent, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_errno(
			    err, ERROR_ISOLATION, errno,
			    "jail: it ended before it was told to go (its exit facts say why)");
		sent += (size_t)n;
	}
	return 0;
}

/* ---- output ---- */

/* The first and the last half of what came; between them what is written at the end. */
struct capture {
	int log_fd;
	size_t half;		  /* bytes that head and tail may have each */
	size_t head;		  /* bytes already in the log */
	char *tail;		  /* ring of half bytes */
	size_t tail_len, tail_at; /* bytes in the ring; where the next one goes */
	unsigned long long total; /* bytes that came */
};

static int capture_add(struct capture *cap, const char *data, size_t len)
{
	cap->total += len;
	if (cap->head < cap->half) {
		size_t n = len < cap->half - cap->head ? len : cap->half - cap->head;

		if (fd_write_all(cap->log_fd, data, n) < 0)
			return -1;
		cap->head += n;
		data += n;
		len -= n;
	}
	while (len && cap->half) {
		size_t n = cap->half - cap->tail_at;

		if (n > len)
			n = len;
		memcpy(cap->tail + cap->tail_at, data, n);
		cap->tail_at = (cap->tail_at + n) % cap->half;
		cap->tail_len = cap->tail_len + n < cap->half ? cap->tail_len + n : cap->half;
		data += n;
		len -= n;
	}
	return 0;
}

static int capture_end(struct capture *cap)
{
	unsigned long long left = cap->total - cap->head - cap->tail_len;
	size_t start = cap->half ? (cap->tail_at + cap->half - cap->tail_len) % cap->half : 0;
	size_t first = cap->half - start < cap->tail_len ? cap->half - start : cap->tail_len;

	if (left) {
		char line[80];
		int n = snprintf(line, sizeof(line), "\n[... %llu bytes left out ...]\n", left);

		if (fd_write_all(cap->log_fd, line, (size_t)n) < 0)
			return -1;
	}
	if (fd_write_all(cap->log_fd, cap->tail + start, first) < 0)
		return -1;
	return fd_write_all(cap->log_fd, cap->tail, cap->tail_len - first);
}

/* Has agent-jail end it. Again after the same time: while the jail is being set up it does not count. */
static void say_idle(const struct jail_handle *jail)
{
	const char word = JAIL_GO_IDLE;

	send(jail->go_fd, &word, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static int wait_ms(const struct jail_handle *jail, bool gone)
{
	if (gone)
		return DRAIN_MS;
	if (!jail->idle_ms)
		return -1;
	return jail->idle_ms < INT_MAX ? (int)jail->idle_ms : INT_MAX;
}

/*
 * One wait for output. *gone is set once agent-jail has ended (its end of go_fd is closed: no
 * process of the jail has it). 1 when something can be read or the pipe is at its end, 0 when
 * nothing will come any more, -1 with errno.
 */
static int wait_output(struct jail_handle *jail, bool *gone)
{
	for (;;) {
		struct pollfd polled[2] = {{jail->output_fd, POLLIN, 0},
					   {*gone ? -1 : jail->go_fd, 0, 0}};
		int n = poll(polled, 2, wait_ms(jail, *gone));

		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0 && !*gone) {
			say_idle(jail);
			continue;
		}
		if (n <= 0)
			return n;
		if (polled[1].revents)
			*gone = true;
		if (polled[0].revents)
			return 1;
	}
}

static int collect(struct jail_handle *jail, struct capture *cap, struct error *err)
{
	char chunk[65536];
	bool gone = false;

	while (jail->output_fd >= 0) {
		int ready = wait_output(jail, &gone);
		ssize_t n;

		if (ready < 0)
			return error_errno(err, ERROR_FAILED, errno, "jail: poll");
		if (!ready)
			return 0;
		n = read(jail->output_fd, chunk, sizeof(chunk));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_errno(err, ERROR_FAILED, errno,
					   "jail: its output cannot be read");
		if (n == 0)
			return 0;
		if (capture_add(cap, chunk, (size_t)n) < 0)
			return error_errno(err, ERROR_FAILED, errno,
					   "jail: the log cannot be written");
	}
	return 0;
}

static void wait_jail(struct jail_handle *jail)
{
	while (jail->pid > 0 && waitpid(jail->pid, NULL, 0) < 0 && errno == EINTR)
		continue;
	jail->pid = -1;
}

int jail_capture(struct jail_handle *jail, int log_fd, size_t max_bytes,
		 unsigned long long *total, int *truncated, struct error *err)
{
	char *tail AUTO_FREE = mem_calloc(max_bytes / 2, 1);
	struct capture cap = {.log_fd = log_fd, .half = max_bytes / 2, .tail = tail};
	int result = collect(jail, &cap, err);

	if (result == 0 && capture_end(&cap) < 0)
		result =
		    error_errno(err, ERROR_FAILED, errno, "jail: the log cannot be written");
	if (result < 0) {
		jail_close(jail);
		return result;
	}
	*total = cap.total;
	*truncated = cap.total > cap.head + cap.tail_len;
	return 0;
}

int jail_collect(struct jail_handle *jail, int log_fd, size_t max_bytes,
		 unsigned long long *total, int *truncated, struct error *err)
{
	int result = jail_capture(jail, log_fd, max_bytes, total, truncated, err);

	if (result == 0)
		wait_jail(jail);
	return result;
}

void jail_close(struct jail_handle *jail)
{
	/* Closing the go ends the jail: agent-jail takes it for our death. A signal would not
	 * do: started by root, it runs as another user than we do by now. */
	if (jail->go_fd >= 0)
		close(jail->go_fd);
	if (jail->output_fd >= 0)
		close(jail->output_fd);
	if (jail->take_fd >= 0)
		close(jail->take_fd);
	jail->go_fd = jail->output_fd = jail->take_fd = -1;
	wait_jail(jail);
}
