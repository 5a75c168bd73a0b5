/* Attacks of our own, beyond the list: system calls and other processes. See probe.h. */
#include "sandbox/probe/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/quota.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define HIGH (1L << 32)

/* ---- the filter ---- */

#ifdef __x86_64__
static int calls32(void *data)
{
	static const struct {
		long number;
		unsigned first;
	} table[] = {{310 /* unshare */, 0x10000000},
		     {288 /* keyctl */, 0},
		     {425 /* io_uring_setup */, 8},
		     {20 /* getpid */, 0}};

	(void)data;
	for (size_t i = 0; i < LEN(table); i++) {
		long result;

		__asm__ volatile("int $0x80"
				 : "=a"(result)
				 : "a"(table[i].number), "b"(table[i].first), "c"(0), "d"(0)
				 : "memory", "r8", "r9", "r10", "r11");
		if (result >= 0)
			return WORKED;
	}
	return BLOCKED;
}

ATTACK(gate32)
{
	int status;

	if (!has_gate32()) {
		blocked("there is no 32-bit gate");
		return;
	}
	status = in_child(calls32, NULL);

	if (WIFSIGNALED(status))
		blocked("killed by signal %d", WTERMSIG(status));
	else if (WIFEXITED(status) && WEXITSTATUS(status) == WORKED)
		worked("the 32-bit gate passes calls");
	else
		blocked("every call is refused");
}

ATTACK(segments)
{
	char space[64];

	REFUSED("modify_ldt, read", syscall(SYS_modify_ldt, 0, space, sizeof(space)), ENOSYS,
		EPERM);
}
#else
ATTACK(gate32)
{
	absent("this architecture has no 32-bit gate");
}

ATTACK(segments)
{
	absent("this architecture has no segments");
}
#endif

ATTACK(clone3_more)
{
	struct {
		uint64_t words[16];
	} args;
	static const uint64_t flags[] = {0x200000000ULL /* INTO_CGROUP */,
					 0x100000000ULL /* CLEAR_SIGHAND */, CLONE_NEWNET,
					 CLONE_NEWUSER | CLONE_NEWNS, 0x80 /* NEWTIME */};

	for (size_t i = 0; i < LEN(flags); i++)
		for (size_t size = 64; size <= sizeof(args); size += 24) {
			long pid;

			memset(&args, 0, sizeof(args));
			args.words[0] = flags[i];
			args.words[4] = SIGCHLD;
			pid = syscall(SYS_clone3, &args, size);
			if (pid == 0)
				_exit(0);
			if (pid > 0)
				waitpid((pid_t)pid, NULL, 0);
			REFUSED(text("clone3 of %zu bytes", size), pid, ENOSYS, EPERM, EBADF,
				EINVAL, E2BIG);
		}
}

ATTACK(own_terminal)
{
	int master, slave, status;
	pid_t pid = openpty(&master, &slave, NULL, NULL, NULL) < 0 ? -1 : fork();
	char byte = '#';

	if (pid < 0) {
		absent("no terminal can be made");
		return;
	}
	if (pid == 0) {
		setsid();
		ioctl(slave, TIOCSCTTY, 0);
		_exit(ioctl(slave, TIOCSTI, &byte) == 0 ||
			      syscall(SYS_ioctl, (long)slave, HIGH | TIOCSTI, &byte) == 0 ||
			      syscall(SYS_ioctl, (long)slave, (HIGH << 20) | TIOCSTI, &byte) ==
				  0
			  ? WORKED
			  : BLOCKED);
	}
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == WORKED)
		worked("TIOCSTI passes the filter");
	else
		blocked("TIOCSTI is refused on the own terminal, too");
}

ATTACK(high_halves)
{
	static const long families[] = {AF_VSOCK, AF_ALG, AF_PACKET, AF_KEY, AF_XDP, AF_TIPC};
	int pair[2];

	for (size_t i = 0; i < LEN(families); i++)
		for (long type = 1; type < 6; type++) {
			REFUSED("a family with a high half",
				syscall(SYS_socket, families[i] | HIGH, type, 0), EAFNOSUPPORT,
				EPERM, EACCES);
			REFUSED("a type with a high half",
				syscall(SYS_socket, families[i], type | HIGH, 0), EAFNOSUPPORT,
				EPERM, EACCES);
		}
	for (long protocol = 1; protocol < 23; protocol++)
		REFUSED("a netlink protocol with a high half",
			syscall(SYS_socket, AF_NETLINK | HIGH, SOCK_RAW, protocol | HIGH),
			EAFNOSUPPORT, EPERM, EACCES, EPROTONOSUPPORT);
	REFUSED("unshare with a high half", syscall(SYS_unshare, HIGH | CLONE_NEWUSER), EPERM,
		EINVAL, ENOSYS);
	REFUSED("a pair of another family",
		syscall(SYS_socketpair, AF_TIPC | HIGH, SOCK_STREAM, 0, pair), EAFNOSUPPORT,
		EPERM, EOPNOTSUPP);
}

ATTACK(new_mounts)
{
	struct mount_attr attr;
	int fd;

	memset(&attr, 0, sizeof(attr));
	fd = (int)syscall(SYS_fsopen, "tmpfs", 1);
	REFUSED("fsopen", fd, EPERM, ENOSYS);
	REFUSED("fspick", syscall(SYS_fspick, AT_FDCWD, "/", 0), EPERM, ENOSYS);
	REFUSED("open_tree, cloning",
		syscall(SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE | AT_RECURSIVE), EPERM,
		ENOSYS);
	REFUSED("open_tree_attr",
		syscall(467, AT_FDCWD, "/", OPEN_TREE_CLONE, &attr, sizeof(attr)), EPERM,
		ENOSYS);
	REFUSED("move_mount", syscall(SYS_move_mount, AT_FDCWD, "/tmp", AT_FDCWD, "/work", 0),
		EPERM, ENOSYS);
	REFUSED("mount_setattr",
		syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, &attr, sizeof(attr)), EPERM,
		ENOSYS);
	REFUSED("fsmount", syscall(SYS_fsmount, fd, 0, 0), EPERM, ENOSYS, EBADF, EINVAL);
}

ATTACK(list_mounts)
{
	struct {
		uint32_t size, spare;
		uint64_t id, param, ns;
	} request = {32, 0, 0xffffffffffffffffULL /* LSMT_ROOT */, 0, 0};
	uint64_t ids[64];

	REFUSED("listmount", syscall(458, &request, ids, 64, 0), ENOSYS, EPERM);
	REFUSED("statmount", syscall(457, &request, ids, sizeof(ids), 0), ENOSYS, EPERM);
}

ATTACK(personalities)
{
	static const unsigned long values[] = {
	    READ_IMPLIES_EXEC, MMAP_PAGE_ZERO, ADDR_COMPAT_LAYOUT,
	    0x0008 /* PER_LINUX32 */ | READ_IMPLIES_EXEC, HIGH | READ_IMPLIES_EXEC};

	for (size_t i = 0; i < LEN(values); i++)
		REFUSED(text("personality %lx", values[i]), syscall(SYS_personality, values[i]),
			EPERM, EINVAL, ENOSYS);
}

/* A filter of the payload's own, with a listener that lets everything pass, must not lift the one above it. */
static int own_listener(void *data)
{
	struct sock_filter code[] = {{0x06, 0, 0, SECCOMP_RET_ALLOW}};
	struct sock_fprog program = {1, code};

	(void)data;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
		    &program) < 0)
		syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
	if (unshare(CLONE_NEWUSER) == 0 || socket(AF_VSOCK, SOCK_STREAM, 0) >= 0 ||
	    socket(AF_NETLINK, SOCK_RAW, 15) >= 0)
		return WORKED;
	return BLOCKED;
}

ATTACK(later_filter)
{
	int status = in_child(own_listener, NULL);

	if (WIFEXITED(status) && WEXITSTATUS(status) == WORKED)
		worked("behind a filter of one's own nothing is refused");
	else if (WIFEXITED(status) && WEXITSTATUS(status) == BLOCKED)
		blocked("a filter of one's own lifts nothing");
	else
		surprise("status %x", status);
}

ATTACK(rare_calls)
{
	char secret[16];

	REFUSED("memfd_secret", syscall(447, 0), EPERM, ENOSYS);
	REFUSED("fanotify_init", syscall(SYS_fanotify_init, FAN_REPORT_FID, O_RDONLY), EPERM,
		ENOSYS);
	REFUSED("lookup_dcookie", syscall(SYS_lookup_dcookie, 0L, secret, sizeof(secret)),
		EPERM, ENOSYS);
	REFUSED("lsm_list_modules", syscall(461, secret, secret, 0), ENOSYS, EPERM);
	REFUSED("a call with the number -1", syscall(-1), ENOSYS, EPERM);
	REFUSED("a call beyond all", syscall(5000), ENOSYS, EPERM);
}

ATTACK(quotas)
{
	int fd = open("/usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC), formats[4];
	long result;

	result = syscall(SYS_quotactl_fd, fd, QCMD(Q_GETFMT, USRQUOTA), 0, formats);
	if (result >= 0 || errno == ESRCH)
		worked("quotactl_fd answers");
	else
		REFUSED("quotactl_fd", result, EPERM, ENOSYS, ENOTBLK);
	REFUSED("quotactl, sync of all",
		syscall(SYS_quotactl, QCMD(Q_SYNC, USRQUOTA), NULL, 0, NULL), EPERM, ENOSYS,
		ESRCH);
	close(fd);
}

/* ---- other processes ---- */

ATTACK(look_at_others)
{
	pid_t pids[70];
	size_t count = other_pids(pids, LEN(pids));

	for (size_t i = 0; i < count; i++) {
		static char byte[4096];
		struct iovec part = {byte, sizeof(byte)};
		struct rlimit limit;
		void *head;
		size_t size;
		int pidfd = (int)syscall(SYS_pidfd_open, pids[i], 0);

		REFUSED("kcmp", syscall(SYS_kcmp, getpid(), pids[i], 2 /* KCMP_FILES */, 0, 0),
			EPERM, ESRCH, ENOSYS);
		REFUSED("get_robust_list", syscall(SYS_get_robust_list, pids[i], &head, &size),
			EPERM, ESRCH, ENOSYS);
		REFUSED("prlimit", prlimit(pids[i], RLIMIT_CPU, NULL, &limit), EPERM, ESRCH,
			ENOSYS);
		REFUSED("migrate_pages", syscall(SYS_migrate_pages, pids[i], 0, NULL, NULL),
			EPERM, ESRCH, ENOSYS);
		REFUSED("process_madvise",
			syscall(SYS_process_madvise, pidfd, &part, 1, 21 /* PAGEOUT */, 0),
			EPERM, ESRCH, ENOSYS, EBADF, EINVAL, EACCES);
		close(pidfd);
	}
	blocked("no other process is there");
}

ATTACK(namespace_ioctls)
{
	pid_t pids[70];
	size_t count = other_pids(pids, LEN(pids));
	int self = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), up;

	for (size_t i = 0; i < count; i++) {
		int pidfd = (int)syscall(SYS_pidfd_open, pids[i], 0);

		if (pidfd < 0)
			blocked("pidfd_open of %d: %s", pids[i], strerrorname_np(errno));
		for (unsigned number = 1; pidfd >= 0 && number <= 10; number++)
			REFUSED(text("namespace %u of process %d", number, pids[i]),
				ioctl(pidfd, 0xff00 | number, 0), EPERM, EACCES, ENOTTY, EINVAL,
				EOPNOTSUPP, ESRCH);
		close(pidfd);
	}
	/* one's own network's owner is a user namespace further out */
	up = self < 0 ? -1 : ioctl(self, 0xb701 /* NS_GET_USERNS */);
	if (up >= 0 && setns(up, CLONE_NEWUSER) == 0)
		worked("the user namespace outside can be joined");
	else
		blocked("no namespace further out");
	close(up);
	close(self);
}

ATTACK(process_handles)
{
	union {
		struct file_handle head;
		char space[sizeof(struct file_handle) + 128];
	} handle;
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0), mount_id;

	memset(&handle, 0, sizeof(handle));
	handle.head.handle_bytes = 128;
	if (pidfd < 0 ||
	    name_to_handle_at(pidfd, "", &handle.head, &mount_id, AT_EMPTY_PATH) < 0) {
		blocked("processes have no handles here");
		return;
	}
	REFUSED("a process by its handle",
		open_by_handle_at(-10002 /* FD_PIDFS_ROOT */, &handle.head, 0), EPERM, ENOSYS);
	close(pidfd);
}

ATTACK(renice_others)
{
	setpriority(PRIO_USER, 0, 15);
	setpriority(PRIO_USER, (id_t)arg_number("uid", getuid()), 15);
	if (arg("pid"))
		setpriority(PRIO_PROCESS, (id_t)arg_number("pid", 0), 15);
	if (arg("group"))
		setpriority(PRIO_PGRP, (id_t)arg_number("group", 0), 15);
	syscall(SYS_ioprio_set, 3 /* IOPRIO_WHO_USER */, arg_number("uid", getuid()), 3 << 13);
	done("all of the same user were to be slowed down");
}

/* A signal of the kernel's own, on input or output, sent to whom we name. */
ATTACK(signal_by_io)
{
	const pid_t targets[] = {(pid_t)arg_number("pid", 1), -(pid_t)arg_number("group", 1),
				 1};
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return;
	for (size_t i = 0; i < LEN(targets); i++) {
		if (targets[i] == -1 || targets[i] == getpid() ||
		    (targets[i] == 1 && getpid() == 1))
			continue;
		fcntl(pair[0], F_SETSIG, SIGKILL);
		fcntl(pair[0], F_SETOWN, targets[i]);
		fcntl(pair[0], F_SETFL, O_ASYNC | O_NONBLOCK);
		if (write(pair[1], "x", 1) < 0)
			break;
	}
	usleep(20000);
	done("SIGKILL by F_SETSIG; we end with 42");
	notes_print("X15");
	_exit(42);
}

ATTACK(signal_by_number)
{
	pid_t pid = (pid_t)arg_number("pid", 0);
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	siginfo_t info;

	if (!pid) {
		absent("no process was named");
		return;
	}
	memset(&info, 0, sizeof(info));
	info.si_code = SI_QUEUE;
	REFUSED("tgkill", syscall(SYS_tgkill, pid, pid, 0), ESRCH, EPERM);
	REFUSED("tkill", syscall(SYS_tkill, pid, 0), ESRCH, EPERM);
	REFUSED("rt_sigqueueinfo", syscall(SYS_rt_sigqueueinfo, pid, 0, &info), ESRCH, EPERM);
	REFUSED("pidfd_send_signal", syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0), ESRCH,
		EPERM, EBADF);
	close(pidfd);
}
