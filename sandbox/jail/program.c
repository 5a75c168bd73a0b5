#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "sandbox/jail/confine.h"
#include "sandbox/jail/run.h"

#define PROGRAM_MS 20000

static int place(int give)
{
	return give == PROGRAM_GIVEN ? fcntl(give, F_SETFD, 0) : dup2(give, PROGRAM_GIVEN);
}

static void __attribute__((noreturn))
become(const char *path, const char *const *argv, const char *const *env, int give, int said)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (give >= 0 &&
	    (place(give) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || confine_helper() < 0))
		_exit(127);
	if (dup2(said, STDERR_FILENO) >= 0)
		syscall(SYS_execve, path, argv, env);
	_exit(127);
}

/* What it says until its end, cut; false at the deadline. */
static bool listen_to(int fd, char *said, size_t size)
{
	const long long until = fd_now_ms() + PROGRAM_MS;
	size_t len = 0;

	for (;;) {
		struct pollfd polled = {fd, POLLIN, 0};
		long long left = until - fd_now_ms();
		char more[256];
		ssize_t n;

		if (left <= 0 || poll(&polled, 1, (int)left) == 0)
			return false;
		n = read(fd, more, sizeof(more));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		for (ssize_t i = 0; i < n && len + 1 < size; i++)
			said[len++] = more[i];
	}
	while (len && said[len - 1] == '\n')
		len--;
	said[len] = '\0';
	return true;
}

int program_run(struct jail_run *run, const char *path, const char *const *argv,
		const char *const *env, int give)
{
	char said[256] = "";
	int ends[2], status = 0;
	bool in_time;
	pid_t child;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return step_fail(run, "%s: pipe", path);
	child = fork();
	if (child == 0)
		become(path, argv, env, give, ends[1]);
	close(ends[1]);
	in_time = child > 0 && listen_to(ends[0], said, sizeof(said));
	close(ends[0]);
	if (child < 0)
		return step_fail(run, "%s: fork", path);
	if (!in_time)
		kill(child, SIGKILL); /* of no effect while it is root: then it is left */
	while (waitpid(child, &status, in_time ? 0 : WNOHANG) < 0 && errno == EINTR)
		continue;
	errno = 0;
	if (!in_time)
		return step_fail(run, "%s did not end within %d s", path, PROGRAM_MS / 1000);
	return status
		   ? step_fail(run, "%s failed: %s", path, said[0] ? said : "it says nothing")
		   : 0;
}
