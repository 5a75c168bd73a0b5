#include "payload.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/fds.h"
#include "sandbox/jail/cgroup.h"
#include "sandbox/jail/confine.h"
#include "sandbox/jail/net.h"
#include "sandbox/jail/parts.h"
#include "sandbox/jail/rootfs.h"
#include "sandbox/jail/run.h"

static void __attribute__((noreturn)) give_up(struct jail_run *run)
{
	struct jail_packet packet = {
	    .message = MSG_FAILED, .failure = run->failure, .done = run->done};

	packet_send(run->payload_sock, &packet, -1);
	_exit(1);
}

/*
 * The go from outer: the bytes that the starter sent, checked already, and with a uid of our
 * own the layers' mounts. *fds is an array of *count owned descriptors. 0 or -1.
 */
static int receive_go(struct jail_run *run, struct jail_go *go, int fds[PARTS_MAX],
		      size_t *count)
{
	char *text AUTO_FREE = mem_calloc(JAIL_SPEC_MAX, 1);
	struct error err = {0};
	long len = parts_receive_raw(run->payload_sock, text, JAIL_SPEC_MAX, fds, count);

	if (len == 0)
		_exit(0); /* outer is gone, or there will be no go */
	if (len < 0 || jail_go_parse(text, (size_t)len, go, &err) < 0)
		return step_fail(run, "the go cannot be read %s", err.message);
	return 0;
}

/* What outer made meanwhile; and into the control group, before anything of the payload's own
 * runs. */
static int receive_parts(struct jail_run *run)
{
	if (step_enter(run, STEP_attach) < 0 || parts_receive(run) < 0)
		return step_fail(run, "parts");
	if (cgroup_attach_self(run) < 0)
		return step_fail(run, "the payload cannot be put into its control group");
	step_done(run);
	return 0;
}

static int build(struct jail_run *run, struct rootfs *fs, char work[16])
{
	struct jail_packet prepared = {.message = MSG_PREPARED};
	struct jail_go go;
	int layers[PARTS_MAX];
	size_t count;

	if (rootfs_prepare(run, fs) < 0 || receive_parts(run) < 0 || rootfs_fill(run, fs) < 0 ||
	    net_join(run) < 0)
		return -1;
	if (step_enter(run, STEP_go) < 0 || packet_send(run->payload_sock, &prepared, -1) < 0 ||
	    receive_go(run, &go, layers, &count) < 0)
		return step_fail(run, "go");
	if (run->separate && !count)
		run->spec.copy_layers = true; /* outer could not map their owners */
	else if (run->separate && count != go.layer_count + go.home_count)
		return step_fail(run, "the go lacks layers");
	step_done(run);
	if (rootfs_lay_out(run, fs, &go, run->separate ? layers : NULL, work) < 0)
		return -1;
	return rootfs_pivot(run, fs);
}

/*
 * A descriptor of the host's /dev/null becomes the jail's, and a file of the host's is refused: with
 * uid=shared the payload could truncate it or make it set-user-id. Whoever has a file carries it through
 * a pipe. So no inode of the host's file systems stays behind.
 */
static int place_stdio(int from, int to)
{
	int null AUTO_FD = -1;
	struct stat st;

	if (fstat(from, &st) < 0)
		return -1;
	if (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3)) {
		null = open("/dev/null", O_RDWR | O_CLOEXEC);
		from = null;
	}
	if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISBLK(st.st_mode)) {
		errno = EINVAL;
		return -1;
	}
	return dup2(from, to);
}

static int close_all_but_sock(struct jail_run *run)
{
	if (step_enter(run, STEP_stdio) < 0 || place_stdio(FD_STDIN, 0) < 0 ||
	    place_stdio(FD_STDOUT, 1) < 0 || place_stdio(FD_STDERR, 2) < 0)
		return step_fail(run, "standard descriptors");
	/* A pseudo-terminal that somebody made for us becomes our terminal, so that a shell can control its jobs; one
	 * that is another session's stays that (ioctl_tty(2)). */
	ioctl(0, TIOCSCTTY, 0);
	if (run->payload_sock != 3) {
		if (dup3(run->payload_sock, 3, O_CLOEXEC) < 0)
			return step_fail(run, "descriptors");
		run->payload_sock = 3;
	}
	if (close_range(4, ~0U, 0) < 0)
		return step_fail(run, "descriptors");
	step_done(run);
	return 0;
}

static int confine(struct jail_run *run, const struct rootfs *fs)
{
	if (step_enter(run, STEP_cgroupns) < 0 || unshare(CLONE_NEWCGROUP) < 0)
		return step_fail(run, "unshare(CLONE_NEWCGROUP)");
	step_done(run);
	if (confine_ids(run, fs->proc) < 0 || confine_rlimits(run) < 0 ||
	    close_all_but_sock(run) < 0 || confine_capabilities(run) < 0 ||
	    confine_landlock(run) < 0 || confine_seccomp(run) < 0)
		return -1;
	return confine_self_test(run, run->payload_sock);
}

/* What the command may find of its parent's habits: nothing. */
static void reset_signals(void)
{
	sigset_t none;

	for (int sig = 1; sig <= SIGRTMAX; sig++)
		signal(sig, SIG_DFL); /* fails for SIGKILL, SIGSTOP and libc's own */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	umask(022);
}

static const char *env_value(char *const *env, const char *name)
{
	size_t len = strlen(name);

	for (; env && *env; env++)
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
			return *env + len + 1;
	return NULL;
}

/* A file without a magic number is a shell script, as execvp(3) has it. */
static void execute_file(const char *path, char **argv, char **env)
{
	size_t count = 0;
	char **script;
	char shell[] = "/bin/sh";
	char *name AUTO_FREE = mem_strdup(path);

	execve(path, argv, env);
	if (errno != ENOEXEC)
		return;
	while (argv[count])
		count++;
	script = mem_calloc(count + 2, sizeof(*script));
	script[0] = shell;
	script[1] = name;
	memcpy(script + 2, argv + 1, count * sizeof(*script));
	execve(shell, script, env);
	free(script);
	errno = ENOEXEC;
}

/* As execvpe(3), with the PATH of the environment given. Returns the errno of the failure. */
static int execute(char **argv, char **env)
{
	const char *path = env_value(env, "PATH");
	int result = ENOENT;

	if (strchr(argv[0], '/')) {
		execute_file(argv[0], argv, env);
		return errno;
	}
	for (path = path ? path : "/usr/bin:/bin";; path++) {
		size_t len = strcspn(path, ":");
		char *file AUTO_FREE =
		    mem_printf("%.*s%s%s", (int)len, path, len ? "/" : "./", argv[0]);

		execute_file(file, argv, env);
		if (errno != ENOENT && errno != ENOTDIR &&
		    (errno != EACCES || result == ENOENT))
			result = errno;
		if (result != ENOENT && result != EACCES)
			return result;
		path += len;
		if (!*path)
			return result;
	}
}

void payload_main(struct jail_run *run)
{
	struct jail_packet packet = {.message = MSG_READY};
	struct rootfs fs;
	char *no_env[] = {NULL};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (step_enter(run, STEP_session) < 0 || setsid() < 0) {
		step_fail(run, "setsid");
		give_up(run);
	}
	step_done(run);
	if (build(run, &fs, packet.work) < 0 || confine(run, &fs) < 0)
		give_up(run);
	prctl(PR_SET_PDEATHSIG, 0);
	reset_signals();
	packet.done = run->done;
	memcpy(packet.note, run->note, sizeof(packet.note));
	if (chdir(run->spec.cwd) < 0) {
		packet.failure.err = errno;
		snprintf(packet.failure.what, sizeof(packet.failure.what),
			 "working directory %s", run->spec.cwd);
	}
	packet.now_ms = fd_now_ms();
	if (packet_send(run->payload_sock, &packet, -1) < 0)
		_exit(1);
	packet.message = MSG_NOT_RUN;
	if (!packet.failure.err) {
		packet.failure.err =
		    execute(run->spec.argv, run->spec.env ? run->spec.env : no_env);
		snprintf(packet.failure.what, sizeof(packet.failure.what), "%s",
			 run->spec.argv[0]);
	}
	packet_send(run->payload_sock, &packet, -1);
	_exit(127);
}
