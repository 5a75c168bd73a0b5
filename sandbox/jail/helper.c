#include "helper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/keyctl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/fds.h"
#include "sandbox/jail/calls.h"
#include "sandbox/jail/backend.h"
#include "sandbox/jail/build.h"
#include "sandbox/jail/confine.h"
#include "sandbox/jail/net.h"
#include "sandbox/jail/observe.h"
#include "sandbox/jail/payload.h"
#include "sandbox/jail/range.h"
#include "sandbox/jail/resolver.h"
#include "sandbox/jail/rootfs.h"
#include "sandbox/jail/run.h"
#include "sandbox/jail/sweep.h"
#include "sandbox/jail/take.h"

#define PROC_MAGIC 0x9fa0

/* ---- identity and namespaces ---- */

static int take_identity(struct jail_run *run)
{
	if (step_enter(run, STEP_uid) < 0)
		return step_fail(run, "payload's user");
	if (run->separate) {
		if (setgroups(0, NULL) < 0 || setresgid(run->gid, run->gid, run->gid) < 0 ||
		    setresuid(run->uid, run->uid, run->uid) < 0)
			return step_fail(run, "cannot become uid %u", run->uid);
		step_done(run); /* a layer only when it separates */
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* the kernel forgets it when ids change */
	return 0;
}

static int new_keyring(struct jail_run *run)
{
	if (step_enter(run, STEP_keyring) < 0)
		return step_fail(run, "session keyring");
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0) {
		if (errno == ENOSYS)
			return 0; /* a kernel without keyrings: nothing to keep apart */
		return step_fail(run, "a new session keyring cannot be joined");
	}
	step_done(run);
	return 0;
}

static int write_map(const char *path, const char *text)
{
	int fd AUTO_FD = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
}

/* Root inside for the time of the set-up: devpts and a second user namespace need it mapped. */
static int new_userns(struct jail_run *run)
{
	char map[48];
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (step_enter(run, STEP_userns) < 0 || unshare(CLONE_NEWUSER) < 0)
		return step_fail(run, "unshare(CLONE_NEWUSER)");
	if (run->ranged) {
		step_done(run);
		return range_enter(run);
	}
	/* Changing ids made us non-dumpable, and then these files are root's. */
	if (prctl(PR_SET_DUMPABLE, 1) < 0 || write_map("/proc/self/setgroups", "deny") < 0)
		return step_fail(run, "/proc/self/setgroups");
	snprintf(map, sizeof(map), "0 %u 1\n", uid);
	if (write_map("/proc/self/uid_map", map) < 0)
		return step_fail(run, "/proc/self/uid_map");
	snprintf(map, sizeof(map), "0 %u 1\n", gid);
	if (write_map("/proc/self/gid_map", map) < 0)
		return step_fail(run, "/proc/self/gid_map");
	if (prctl(PR_SET_DUMPABLE, 0) < 0)
		return step_fail(run, "PR_SET_DUMPABLE");
	step_done(run);
	return 0;
}

static int new_namespaces(struct jail_run *run)
{
	static const struct {
		enum jail_step step;
		int flag;
		const char *name;
	} kinds[] = {{STEP_mountns, CLONE_NEWNS, "CLONE_NEWNS"},
		     {STEP_pidns, CLONE_NEWPID, "CLONE_NEWPID"},
		     {STEP_ipcns, CLONE_NEWIPC, "CLONE_NEWIPC"},
		     {STEP_utsns, CLONE_NEWUTS, "CLONE_NEWUTS"}};

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (step_enter(run, kinds[i].step) < 0 || unshare(kinds[i].flag) < 0)
			return step_fail(run, "unshare(%s)", kinds[i].name);
		if (kinds[i].step == STEP_utsns &&
		    (sethostname("jail", 4) < 0 || setdomainname("(none)", 6) < 0))
			return step_fail(run, "host name");
		step_done(run);
	}
	return 0;
}

/* ---- children ---- */

/* PID 1. Makes what only it can, and the network, then observes what is tried in it until its pipe ends. */
static void __attribute__((noreturn)) idle_main(struct jail_run *run, int life)
{
	struct jail_packet failed = {.message = MSG_FAILED};
	struct resolver resolver;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "init");
	signal(SIGCHLD, SIG_IGN); /* what is left behind is reaped by the kernel */
	if (rootfs_make_proc(run) < 0 || net_make(run, &resolver) < 0) {
		failed.failure = run->failure;
		failed.done = run->done;
		packet_send(run->helper_sock, &failed, -1);
		_exit(1);
	}
	observe_serve(run, life, &resolver);
}

/* PID 1. Its pipe ends with us, and it then, and with it every process of the namespace.
 * Returns our end. */
static int bear_idle(struct jail_run *run, pid_t *pid)
{
	int ends[2], net[2];

	if (step_enter(run, STEP_init) < 0 || pipe2(ends, O_CLOEXEC) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, net) < 0)
		return step_fail(run, "pipe");
	*pid = fork();
	if (*pid == 0) {
		run->net_sock = net[0];
		close(net[1]);
		close(ends[1]);
		fd_close_ptr(&run->disk);
		if (run->spec.take)
			close(FD_TAKE);
		idle_main(run, ends[0]);
	}
	run->net_sock = net[1];
	close(net[0]);
	close(ends[0]);
	if (*pid < 0) {
		close(ends[1]);
		return step_fail(run, "fork of PID 1");
	}
	step_done(run);
	return ends[1];
}

/* fork(2), under cgroup v2 straight into the jail's group (clone3(2), CLONE_INTO_CGROUP). */
static pid_t fork_payload(const struct jail_run *run)
{
	struct clone_args args = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD};

	if (run->cgroup.kind != CGROUP_V2)
		return fork();
	args.cgroup = (uint64_t)run->cgroup.dirs[1];
	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* Whether a process still runs: one that has ended and is not reaped, as the payload by then, does not. */
static bool is_alive(int proc, const char *pid)
{
	char path[300], text[512];
	int fd AUTO_FD = -1;
	ssize_t len;
	const char *state;

	snprintf(path, sizeof(path), "%s/stat", pid);
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (len <= 0)
		return false;
	text[len] = '\0';
	state = strrchr(text, ')'); /* behind the name (proc_pid_stat(5)) */
	return !state || !state[1] || (state[2] != 'Z' && state[2] != 'X');
}

/* The payload is the second process that there was in its namespace. */
#define PAYLOAD_PID "2"

/* Our root is the jail's by now; its proc is checked to be one. NULL: it is none. */
static DIR *open_processes(void)
{
	DIR *dir = opendir("/proc");
	struct statfs fs;

	if (dir && (fstatfs(dirfd(dir), &fs) < 0 || fs.f_type != PROC_MAGIC)) {
		closedir(dir);
		dir = NULL;
	}
	return dir;
}

/* Processes of the jail other than PID 1 and the payload, which has ended. */
static uint64_t count_leftover(DIR *dir)
{
	struct dirent *entry;
	uint64_t count = 0;

	while (dir && (entry = readdir(dir)))
		if (strspn(entry->d_name, "0123456789") == strlen(entry->d_name) &&
		    strcmp(entry->d_name, "1") != 0 &&
		    strcmp(entry->d_name, PAYLOAD_PID) != 0 &&
		    is_alive(dirfd(dir), entry->d_name))
			count++;
	return count;
}

/* How the payload ended. */
static void take_end(pid_t payload, struct jail_packet *packet)
{
	struct rusage usage;
	siginfo_t info;

	memset(&info, 0, sizeof(info));
	memset(&usage, 0, sizeof(usage));
	while (syscall(SYS_waitid, P_PID, payload, &info, WEXITED, &usage) < 0 &&
	       errno == EINTR)
		continue;
	packet->now_ms = fd_now_ms();
	packet->code = info.si_code;
	packet->status = info.si_status;
	packet->cpu_ms = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
			 (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
}

/*
 * Waits until the payload has ended, or outer says (or its death says) that it must. Then counts what it
 * left, kills PID 1 and so everything, and tells outer how the payload ended. The rest is reaped by
 * outer, to whom it falls when we exit: our end takes the mounts down, and so both go on at once.
 */
static void see_it_end(struct jail_run *run, const struct rootfs *fs, pid_t idle, pid_t payload,
		       int pidfd)
{
	/*
	 * net_sock: PID 1 does not end by itself; where it has, by a defect or a hand from outside, calls of
	 * the payload failed by that, or it was killed by it. Asked last: the kernel closes what PID 1 has
	 * before it kills the rest (do_exit), so this is seen no later than the payload's end.
	 */
	struct pollfd polled[3] = {
	    {pidfd, POLLIN, 0}, {run->helper_sock, POLLIN, 0}, {run->net_sock, 0, 0}};
	struct jail_packet packet = {.message = MSG_ENDED};
	DIR *processes = open_processes(); /* now: there is time */

	while (poll(polled, 3, -1) < 0 && errno == EINTR)
		continue;
	/*
	 * Killing PID 1 ends all of the namespace. Where the payload has ended by itself its status is
	 * fixed already, and only now may it be waited for: a tracer of its own kin could hold its end
	 * back for ever. It can be waited for before PID 1 can.
	 */
	if (polled[0].revents & POLLIN)
		packet.leftover = count_leftover(processes);
	kill(idle, SIGKILL);
	take_end(payload, &packet);
	if (polled[2].revents) {
		packet.message = MSG_FAILED;
		packet.failure.step = STEP_COUNT;
		snprintf(packet.failure.what, sizeof(packet.failure.what),
			 "PID 1 of the jail, which observes, died before its time");
	}
	sweep_offer(run, fs);
	packet_send(run->helper_sock, &packet, -1);
}

/* What the payload has to know by now. */
static int tell_payload(struct jail_run *run, const struct rootfs *fs)
{
	struct jail_packet packet = {.message = MSG_PREPARED, .done = run->done};

	memcpy(packet.work, fs->work, sizeof(packet.work));
	memcpy(packet.note, run->note, sizeof(packet.note));
	return packet_send(run->root_sock, &packet, -1) < 0
		   ? step_fail(run, "the payload cannot be told to go on")
		   : 0;
}

/* Once the payload has its user namespace the root is changed. The old one goes while the payload gives up its
 * power; then so do we, and the payload may go on. */
static int change_root(struct jail_run *run, struct rootfs *fs)
{
	struct jail_packet packet;

	run->step = STEP_payload;
	errno = 0;
	if (packet_receive(run->root_sock, &packet, NULL) != 1)
		return step_fail(
		    run, "the payload ended before its time"); /* it has told outer why */
	if (backend_of(&run->spec)->root(run, fs) < 0 || tell_payload(run, fs) < 0 ||
	    rootfs_let_go(run, fs) < 0)
		return -1;
	run->done |= 1ULL << STEP_root | 1ULL << STEP_pivot;
	if (confine_helper() < 0)
		return step_fail(run, "the helper cannot give up its capabilities");
	return tell_payload(run, fs);
}

/* The payload. *pidfd is owned by the caller. Its process id, or -1 (step_fail). */
static pid_t bear_payload(struct jail_run *run, struct rootfs *fs, int life, int *pidfd)
{
	int ends[2];
	pid_t payload;

	if (step_enter(run, STEP_payload) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return step_fail(run, "fork of the payload");
	payload = fork_payload(run);
	if (payload == 0) {
		close(life); /* the helper's alone, or PID 1 would outlive it */
		if (run->spec.take)
			close(FD_TAKE);
		close(ends[1]);
		run->root_sock = ends[0];
		payload_main(run, fs);
	}
	close(ends[0]);
	run->root_sock = ends[1];
	*pidfd = payload > 0 ? pidfd_open(payload, 0) : -1;
	return *pidfd < 0 ? step_fail(run, "fork of the payload") : payload;
}

/* What the payload has, and what the file system was built of, must not be held open here as well. */
static void close_all_but(const int *kept, size_t count)
{
	for (unsigned from = 3; from != 0;) {
		unsigned next = UINT_MAX;

		for (size_t i = 0; i < count; i++)
			if ((unsigned)kept[i] >= from && (unsigned)kept[i] < next)
				next = (unsigned)kept[i];
		if (next > from)
			close_range(from, next - (next < UINT_MAX), 0);
		from = next + 1;
	}
}

static int set_up(struct jail_run *run, struct rootfs *fs)
{
	rootfs_init(fs);
	if (take_identity(run) < 0 || new_keyring(run) < 0 || new_userns(run) < 0 ||
	    new_namespaces(run) < 0)
		return -1;
	if (!run->ranged)
		return 0;
	/* what is the user's is opened while we still are, and are no other's */
	return rootfs_open_stores(run, fs) < 0 ? -1 : range_become(run);
}

void helper_main(struct jail_run *run)
{
	struct jail_packet failed = {.message = MSG_FAILED};
	int life = -1, pidfd = -1;
	pid_t idle = -1, payload = -1;
	struct rootfs fs;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGCHLD, SIG_DFL);
	if (set_up(run, &fs) == 0 && (life = bear_idle(run, &idle)) >= 0 &&
	    build_begin(run, &fs) == 0 &&
	    (payload = bear_payload(run, &fs, life, &pidfd)) > 0 && build_root(run, &fs) == 0 &&
	    change_root(run, &fs) == 0) {
		const int kept[] = {life,
				    pidfd,
				    run->helper_sock,
				    run->net_sock,
				    fs.staging,
				    fs.root,
				    fs.upper < 0 ? life : fs.upper,
				    run->spec.take ? FD_TAKE : life};

		close_all_but(kept, ARRAY_LEN(kept));
		see_it_end(run, &fs, idle, payload, pidfd);
		/* PID 1 can be waited for when nothing else of the namespace is left. */
		if (run->spec.take && waitpid(idle, NULL, 0) == idle)
			take_serve(fs.upper, strcmp(fs.work, "overlay") != 0, FD_TAKE);
		_exit(0);
	}
	failed.failure = run->failure;
	failed.done = run->done;
	packet_send(run->helper_sock, &failed, -1);
	if (idle > 0)
		kill(idle, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		continue;
	_exit(1);
}
