#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/close_range.h>
#include <pwd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/signals.h"
#include "pipeline/fds.h"

#define FD_ABOVE 64 /* sources are moved here first, so that no target is one of them */
#define FDS_MOST (FD_LAST + 1)

_Static_assert(FD_LAST < FD_ABOVE, "targets and moved sources overlap");

/* All that the child needs between fork and exec, made before: there it may only make system
 * calls. */
struct plan {
	int exec_fd;	  /* O_PATH descriptor of the program; or -1, then: */
	const char *path; /* its path, so that a script's interpreter can open it too */
	const char *const *argv;
	const char *const *env;
	int source[FDS_MOST]; /* what becomes descriptor i; -1: closed */
	bool in_session_root; /* umask, chdir("/"): a stage, not a program of somebody else */
	int death; /* signal at our end: SIGKILL; SIGTERM for git receive-pack, which then removes its
		      quarantine; 0: it lives on */
	bool switch_user;
	uid_t uid;
	gid_t gid;
};

enum step { STEP_SESSION, STEP_PARENT, STEP_DESCRIPTORS, STEP_USER, STEP_EXEC };

struct failure {
	int step; /* enum step */
	int errno_value;
};

static void plan_init(struct plan *plan)
{
	memset(plan, 0, sizeof(*plan));
	plan->exec_fd = -1;
	plan->death = SIGKILL;
	for (size_t i = 0; i < FDS_MOST; i++)
		plan->source[i] = -1;
}

/* ---- in the child ---- */

static void child_fail(int status_fd, enum step step)
{
	struct failure failure = {.step = (int)step, .errno_value = errno};
	ssize_t n = write(status_fd, &failure, sizeof(failure));

	_exit(n == (ssize_t)sizeof(failure) ? 125 : 124);
}

static int child_descriptors(struct plan *plan, int *status_fd)
{
	*status_fd = fcntl(*status_fd, F_DUPFD_CLOEXEC, FD_ABOVE);
	if (!plan->path)
		plan->exec_fd = fcntl(plan->exec_fd, F_DUPFD_CLOEXEC, FD_ABOVE);
	if (*status_fd < 0 || (!plan->path && plan->exec_fd < 0))
		return -1;
	for (size_t i = 0; i < FDS_MOST; i++) {
		if (plan->source[i] < 0)
			continue;
		plan->source[i] = fcntl(plan->source[i], F_DUPFD_CLOEXEC, FD_ABOVE);
		if (plan->source[i] < 0)
			return -1;
	}
	for (int i = 0; i < FDS_MOST; i++) {
		if (plan->source[i] < 0)
			close(i);
		else if (dup2(plan->source[i], i) < 0)
			return -1;
	}
	return close_range(FDS_MOST, ~0u, CLOSE_RANGE_CLOEXEC);
}

static int child_user(const struct plan *plan)
{
	if (!plan->switch_user)
		return 0;
	if (setgroups(0, NULL) < 0 || setresgid(plan->gid, plan->gid, plan->gid) < 0)
		return -1;
	return setresuid(plan->uid, plan->uid, plan->uid);
}

/* A change of user clears the signal that ends the child with us: so it comes after. */
static int child_dies_with(pid_t parent, int sig)
{
	if (prctl(PR_SET_PDEATHSIG, sig, 0, 0, 0) < 0)
		return -1;
	if (getppid() != parent) {
		errno = ESRCH;
		return -1;
	}
	return 0;
}

static void run_child(struct plan *plan, int status_fd, pid_t parent)
{
	union {
		const char *const *in;
		char *const *out;
	} argv = {.in = plan->argv}, env = {.in = plan->env};

	if (setsid() < 0)
		child_fail(status_fd, STEP_SESSION);
	signals_reset();
	if (child_descriptors(plan, &status_fd) < 0)
		child_fail(status_fd, STEP_DESCRIPTORS);
	if (plan->in_session_root) {
		umask(022);
		if (chdir("/") < 0)
			child_fail(status_fd, STEP_SESSION);
	}
	if (child_user(plan) < 0)
		child_fail(status_fd, STEP_USER);
	if (child_dies_with(parent, plan->death) < 0)
		child_fail(status_fd, STEP_PARENT);
	if (plan->path)
		execve(plan->path, argv.out, env.out);
	else
		execveat(plan->exec_fd, "", argv.out, env.out, AT_EMPTY_PATH);
	child_fail(status_fd, STEP_EXEC);
}

/* ---- in the parent ---- */

static const char *step_text(int step)
{
	switch (step) {
	case STEP_SESSION:
		return "new session";
	case STEP_PARENT:
		return "its parent";
	case STEP_DESCRIPTORS:
		return "descriptors";
	case STEP_USER:
		return "change of user";
	case STEP_EXEC:
		return "exec";
	default:
		return "?";
	}
}

/* Forks and execs by the plan; waits until the exec has happened or failed. */
static int start(struct plan *plan, struct child *child, const char *name, struct error *err)
{
	int status[2], pidfd AUTO_FD = -1, read_end AUTO_FD = -1, write_end AUTO_FD = -1;
	struct failure failure;
	pid_t parent = getpid(), pid;
	ssize_t n;

	if (pipe2(status, O_CLOEXEC) < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s cannot be started", name);
	read_end = status[0];
	write_end = status[1];
	pid = fork();
	if (pid < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s cannot be started", name);
	if (pid == 0)
		run_child(plan, write_end, parent);
	close(fd_steal(&write_end));
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0)
		error_errno(err, ERROR_FAILED, errno, "%s: pidfd_open", name);
	do
		n = read(read_end, &failure, sizeof(failure));
	while (n < 0 && errno == EINTR);
	if (n == 0 && pidfd >= 0) {
		child->pid = pid;
		child->pidfd = fd_steal(&pidfd);
		return 0;
	}
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (n == (ssize_t)sizeof(failure))
		return error_errno(err, ERROR_FAILED, failure.errno_value,
				   "%s cannot be started: %s", name, step_text(failure.step));
	if (n != 0)
		return error_set(err, ERROR_FAILED, "%s cannot be started: no word from it",
				 name);
	return ERROR_FAILED;
}

const char *spawn_program_dir(struct error *err)
{
	static char dir[PATH_MAX];
	char probe[PATH_MAX];
	ssize_t len;
	char *slash;

	if (dir[0])
		return dir;
	len = readlink("/proc/self/exe", probe, sizeof(probe) - 1);
	if (len <= 0) {
		error_errno(err, ERROR_FAILED, errno, "/proc/self/exe");
		return NULL;
	}
	probe[len] = '\0';
	slash = strrchr(probe, '/');
	if (slash)
		*slash = '\0';
	for (int i = 0; i < 2; i++) {
		char *file AUTO_FREE =
		    mem_printf("%s%s/agent-jail", probe, i ? "/../libexec/agent" : "");

		if (access(file, X_OK) != 0)
			continue;
		*strrchr(file, '/') = '\0';
		if (!realpath(file, dir))
			break;
		return dir;
	}
	dir[0] = '\0';
	error_set(err, ERROR_FAILED,
		  "the programs of the pipeline are neither in %s nor in its ../libexec/agent",
		  probe);
	error_next(err, "install the whole package, or build all with make");
	return NULL;
}

static int open_program(const char *path, struct error *err)
{
	int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd < 0) {
		error_errno(err, ERROR_FAILED, errno, "%s cannot be started", path);
		error_next(err, "install the whole package, or build all with make");
	}
	return fd;
}

static int add_fds(struct plan *plan, const struct stage_row *row, const struct spawn_fd *fds,
		   size_t count, struct error *err)
{
	for (size_t i = 0; i < count; i++) {
		const int *listed = row->fds;

		while (*listed >= 0 && *listed != fds[i].number)
			listed++;
		if (*listed < 0)
			return error_set(err, ERROR_FAILED,
					 "descriptor %d is not in the row %s", fds[i].number,
					 row->name);
		if (plan->source[fds[i].number] >= 0)
			return error_set(err, ERROR_FAILED,
					 "descriptor %d is given twice to the row %s",
					 fds[i].number, row->name);
		if (fds[i].fd < 0)
			return error_set(err, ERROR_FAILED,
					 "descriptor %d for the row %s is not open",
					 fds[i].number, row->name);
		plan->source[fds[i].number] = fds[i].fd;
	}
	return 0;
}

static bool row_lists(const struct stage_row *row, int number)
{
	for (const int *p = row->fds; *p >= 0; p++)
		if (*p == number)
			return true;
	return false;
}

/* The descriptors that spawn itself makes for a stage. */
struct ends {
	int null, job, control[2], stderr_pipe[2];
};

static void ends_close(struct ends *ends)
{
	int *all[] = {&ends->null,	     &ends->job,
		      &ends->control[0],     &ends->control[1],
		      &ends->stderr_pipe[0], &ends->stderr_pipe[1]};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		fd_close_ptr(all[i]);
}
#define ENDS_NONE                                                                              \
	{                                                                                      \
		-1, -1, {-1, -1},                                                              \
		{                                                                              \
			-1, -1                                                                 \
		}                                                                              \
	}

static int make_ends(struct ends *ends, const struct stage_row *row, const char *job,
		     size_t job_len, struct error *err)
{
	int pair[2];

	ends->null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (ends->null < 0)
		return error_errno(err, ERROR_FAILED, errno, "/dev/null");
	if (pipe2(pair, O_CLOEXEC) < 0)
		return error_errno(err, ERROR_FAILED, errno, "pipe for %s", row->name);
	memcpy(ends->stderr_pipe, pair, sizeof(pair));
	if (row_lists(row, FD_CONTROL)) {
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
			return error_errno(err, ERROR_FAILED, errno, "control socket for %s",
					   row->name);
		memcpy(ends->control, pair, sizeof(pair));
	}
	if (job) {
		ends->job = fd_memfd_sealed("job", job, job_len);
		if (ends->job < 0)
			return error_errno(err, ERROR_FAILED, errno, "job for %s", row->name);
	}
	return 0;
}

static int plan_add_ends(struct plan *plan, const struct ends *ends,
			 const struct stage_row *row, struct error *err)
{
	struct spawn_fd own[] = {{FD_JOB, ends->job}, {FD_CONTROL, ends->control[1]}};

	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (own[i].fd >= 0 && add_fds(plan, row, &own[i], 1, err) < 0)
			return err ? err->kind : ERROR_FAILED;
	plan->source[STDIN_FILENO] = plan->source[STDOUT_FILENO] = ends->null;
	plan->source[STDERR_FILENO] = ends->stderr_pipe[1];
	return 0;
}

#define ENV_MOST 32

/* NAME=VALUE strings of the row; all owned by the list. */
struct env_list {
	char *items[ENV_MOST + 1];
};

static void env_list_release(struct env_list *list)
{
	for (size_t i = 0; list->items[i]; i++)
		free(list->items[i]);
}

static void env_list_fill(struct env_list *list, const struct stage_row *row)
{
	for (size_t i = 0; i < ENV_MOST && row->env[i].name; i++)
		list->items[i] = mem_printf("%s=%s", row->env[i].name, row->env[i].value);
}

int spawn_stage(enum stage_id id, const char *job_json, size_t job_len,
		const struct spawn_fd *fds, size_t fd_count, struct child *child,
		struct error *err)
{
	const struct stage_row *row = stage_row(id);
	struct env_list env __attribute__((cleanup(env_list_release))) = {{NULL}};
	struct ends ends __attribute__((cleanup(ends_close))) = ENDS_NONE;
	const char *const argv[] = {row->program, row->mode, NULL};
	const char *dir = spawn_program_dir(err);
	char *path AUTO_FREE = dir ? mem_printf("%s/%s", dir, row->program) : NULL;
	int exec_fd AUTO_FD = path ? open_program(path, err) : -1;
	struct plan plan;
	int result;

	if (exec_fd < 0)
		return err ? err->kind : ERROR_FAILED;
	plan_init(&plan);
	env_list_fill(&env, row);
	plan.exec_fd = exec_fd;
	plan.argv = argv;
	plan.env = (const char *const *)env.items;
	plan.in_session_root = true;
	result = make_ends(&ends, row, job_json, job_len, err);
	if (result == 0)
		result = plan_add_ends(&plan, &ends, row, err);
	if (result == 0)
		result = add_fds(&plan, row, fds, fd_count, err);
	if (result == 0)
		result = start(&plan, child, row->name, err);
	if (result < 0)
		return result;
	child->control = fd_steal(&ends.control[0]);
	child->stderr_fd = fd_steal(&ends.stderr_pipe[0]);
	return 0;
}

void spawn_release(struct child *child)
{
	int *fds[] = {&child->pidfd, &child->control, &child->stderr_fd};

	if (child->pid > 0 && child->pidfd >= 0) {
		siginfo_t info;
		int left;

		do
			left = waitid(P_PIDFD, (id_t)child->pidfd, &info,
				      WEXITED | WNOHANG | WNOWAIT);
		while (left < 0 && errno == EINTR);
		/* Not reaped yet: its process group is still its own, and may hold children of
		 * its. */
		if (left == 0) {
			kill(-child->pid, SIGKILL);
			syscall(SYS_pidfd_send_signal, child->pidfd, SIGKILL, NULL, 0);
			while (waitid(P_PIDFD, (id_t)child->pidfd, &info, WEXITED) < 0 &&
			       errno == EINTR)
				;
		}
	}
	child->pid = 0;
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fd_close_ptr(fds[i]);
		*fds[i] = -1;
	}
}

/* ---- programs that are not ours ---- */

/* By the PATH of the environment that the program gets, not by ours. */
char *spawn_find(const char *name, const char *const *env, struct error *err)
{
	const char *path = NULL;

	if (strchr(name, '/'))
		return mem_strdup(name);
	for (; *env; env++)
		if (strncmp(*env, "PATH=", 5) == 0)
			path = *env + 5;
	while (path && *path) {
		size_t len = strcspn(path, ":");
		char *file AUTO_FREE = mem_printf("%.*s/%s", (int)len, path, name);

		if (path[0] == '/' && access(file, X_OK) == 0)
			return MEM_STEAL(file);
		path += len + (path[len] == ':');
	}
	error_set(err, ERROR_FAILED, "%s is not installed", name);
	error_next(err, "install it with the system's package manager");
	return NULL;
}

static int plan_user(struct plan *plan, uid_t uid, struct error *err)
{
	struct passwd entry, *found = NULL;
	char text[4096];

	if (uid == (uid_t)-1 || geteuid() != 0 || uid == geteuid())
		return 0;
	plan->switch_user = true;
	plan->uid = uid;
	plan->gid = (gid_t)uid;
	if (getpwuid_r(uid, &entry, text, sizeof(text), &found) != 0)
		return error_set(err, ERROR_FAILED, "user %u cannot be looked up", uid);
	if (found)
		plan->gid = found->pw_gid;
	return 0;
}

static int start_outside(const char *const *argv, const char *const *env, const int stdio[3],
			 uid_t uid, int death, struct child *child, struct error *err)
{
	char *path AUTO_FREE = spawn_find(argv[0], env, err);
	struct plan plan;
	int result;

	if (!path)
		return err ? err->kind : ERROR_FAILED;
	plan_init(&plan);
	plan.path = path;
	plan.argv = argv;
	plan.env = env;
	memcpy(plan.source, stdio, 3 * sizeof(*stdio));
	plan.death = death;
	result = plan_user(&plan, uid, err);
	if (result == 0)
		result = start(&plan, child, argv[0], err);
	if (result < 0)
		return result;
	child->control = child->stderr_fd = -1;
	return 0;
}

int spawn_outside(const char *const *argv, const char *const *env, int stdin_fd, int stdout_fd,
		  int stderr_fd, uid_t uid, struct child *child, struct error *err)
{
	const int stdio[3] = {stdin_fd, stdout_fd, stderr_fd};

	return start_outside(argv, env, stdio, uid, SIGTERM, child, err);
}

int spawn_lasting(const char *const *argv, const char *const *env, const int stdio[3],
		  struct error *err)
{
	struct child child = {.pidfd = -1};
	int result = start_outside(argv, env, stdio, (uid_t)-1, 0, &child, err);

	fd_close_ptr(&child.pidfd);
	return result;
}

/* ---- programs that a row lists ---- */

static int plan_keep(struct plan *plan, const struct stage_row *row, const int *keep,
		     struct error *err)
{
	for (; keep && *keep >= 0; keep++) {
		struct spawn_fd same = {.number = *keep, .fd = *keep};
		int result = add_fds(plan, row, &same, 1, err);

		if (result < 0)
			return result;
	}
	return 0;
}

int spawn_listed(enum stage_id id, const char *const *argv, const char *const *env,
		 const int stdio[3], const int *keep, struct child *child, struct error *err)
{
	const struct stage_row *row = stage_row(id);
	const char *const *listed = row->children;
	char *path AUTO_FREE = NULL;
	struct plan plan;
	int result;

	while (*listed && strcmp(*listed, argv[0]) != 0)
		listed++;
	if (!*listed)
		return error_set(err, ERROR_FAILED,
				 "%s is not among the children of the row %s", argv[0],
				 row->name);
	path = spawn_find(argv[0], env, err);
	if (!path)
		return err ? err->kind : ERROR_FAILED;
	plan_init(&plan);
	plan.path = path;
	plan.argv = argv;
	plan.env = env;
	for (int i = 0; i < 3; i++)
		plan.source[i] = stdio[i];
	result = plan_keep(&plan, row, keep, err);
	if (result == 0)
		result = start(&plan, child, argv[0], err);
	if (result < 0)
		return result;
	child->control = child->stderr_fd = -1;
	return 0;
}
