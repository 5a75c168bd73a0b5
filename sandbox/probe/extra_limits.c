/* Attacks of our own, beyond the list: taking more than is given. See probe.h. */
#include "sandbox/probe/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define HIGH (1L << 32)

/* ---- limits ---- */

ATTACK(better_share)
{
	struct sched_param fifo = {1};
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = {48, 6 /* SCHED_DEADLINE */, 0, 0, 0, 1000000, 10000000, 10000000};

	REFUSED("SCHED_FIFO", sched_setscheduler(0, SCHED_FIFO, &fifo), EPERM, ENOSYS);
	REFUSED("SCHED_DEADLINE", syscall(SYS_sched_setattr, 0, &attr, 0), EPERM, ENOSYS,
		EBUSY);
	REFUSED("nice -20", setpriority(PRIO_PROCESS, 0, -20), EACCES, EPERM);
	REFUSED("real-time input and output", syscall(SYS_ioprio_set, 1, 0, 1 << 13), EPERM,
		ENOSYS);
}

static int hold_memfd(void *data)
{
	static char block[1 << 20];
	int fd = memfd_create("x", MFD_CLOEXEC);

	memset(block, 1, sizeof(block));
	for (long i = 0; i < *(long *)data; i++)
		if (fd < 0 || write(fd, block, sizeof(block)) != (ssize_t)sizeof(block))
			return BLOCKED;
	return WORKED;
}

static int hold_shared(void *data)
{
	size_t size = (size_t) * (long *)data << 20;
	int id = shmget(IPC_PRIVATE, size, IPC_CREAT | 0600);
	char *memory = id < 0 ? NULL : shmat(id, NULL, 0);

	shmctl(id, IPC_RMID, NULL);
	if (!memory || memory == (char *)-1)
		return BLOCKED;
	memset(memory, 1, size);
	return WORKED;
}

static int hold_pipes(void *data)
{
	static char block[1 << 20];
	long wanted = *(long *)data;

	for (long i = 0; i < wanted; i++) {
		int ends[2];

		if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) < 0 ||
		    fcntl(ends[1], F_SETPIPE_SZ, 1 << 20) < 0 ||
		    write(ends[1], block, sizeof(block)) < (ssize_t)sizeof(block))
			return BLOCKED;
	}
	return WORKED;
}

static int hold_sockets(void *data)
{
	static char block[1 << 16];
	long wanted = *(long *)data, held = 0;

	while (held < wanted << 20) {
		int pair[2], size = 1 << 20;
		ssize_t n;
		long before = held;

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) <
		    0)
			return BLOCKED;
		setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
		while ((n = send(pair[1], block, sizeof(block), MSG_NOSIGNAL)) > 0)
			held += n;
		if (held == before)
			return BLOCKED;
	}
	return WORKED;
}

static int hold_by_many(void *data)
{
	long each = *(long *)data / 6;
	int status, failed = 0, ends[2];
	char byte = 'x';

	if (pipe2(ends, O_CLOEXEC) < 0)
		return BLOCKED;
	for (int i = 0; i < 6; i++)
		if (fork() == 0) {
			size_t size = (size_t)each << 20;
			char *block = mmap(NULL, size, PROT_READ | PROT_WRITE,
					   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

			close(ends[1]);
			if (block == MAP_FAILED)
				_exit(BLOCKED);
			memset(block, 1, size);
			/* until all have theirs */
			_exit(read(ends[0], &byte, 1) < 0 ? BLOCKED : WORKED);
		}
	usleep(300000);
	close(ends[1]);
	while (wait(&status) > 0)
		failed += !WIFEXITED(status) || WEXITSTATUS(status) != WORKED;
	return failed ? BLOCKED : WORKED;
}

ATTACK(memory_by_other_names)
{
	static const struct {
		const char *name;
		int (*hold)(void *);
	} ways[] = {{"a memory file", hold_memfd},
		    {"a System V segment", hold_shared},
		    {"pipes", hold_pipes},
		    {"buffers of sockets", hold_sockets},
		    {"six processes", hold_by_many}};
	long mib = arg_number("memory", 192);

	for (size_t i = 0; i < LEN(ways); i++) {
		int status = in_child(ways[i].hold, &mib);

		if (WIFSIGNALED(status))
			blocked("%s: killed", ways[i].name);
		else if (WIFEXITED(status) && WEXITSTATUS(status) == WORKED)
			worked("%ld MiB in %s", mib, ways[i].name);
		else
			blocked("%s: an error", ways[i].name);
	}
}

ATTACK(raise_limits)
{
	static const int kinds[] = {RLIMIT_CORE,   RLIMIT_FSIZE, RLIMIT_NOFILE,	 RLIMIT_MEMLOCK,
				    RLIMIT_RTPRIO, RLIMIT_NICE,	 RLIMIT_MSGQUEUE};

	for (size_t i = 0; i < LEN(kinds); i++) {
		struct rlimit limit;

		getrlimit((__rlimit_resource_t)kinds[i], &limit);
		if (limit.rlim_max == RLIM_INFINITY) {
			if (kinds[i] != RLIMIT_FSIZE)
				worked("limit %d is not set", kinds[i]);
			continue;
		}
		limit.rlim_max++;
		REFUSED(text("raising limit %d", kinds[i]),
			setrlimit((__rlimit_resource_t)kinds[i], &limit), EPERM);
	}
}

/* The user's own memory locks, timers and queued signals are counted for the user everywhere. */
ATTACK(pipe_buffers)
{
	int size = fcntl(1, F_GETPIPE_SZ);

	if (size < 0) {
		blocked("the output is no pipe whose size we could change");
		return;
	}
	fcntl(1, F_SETPIPE_SZ, 1 << 20);
	/* what comes back from it would be another's output */
	if (fcntl(1, F_GETPIPE_SZ) >= 1 << 20)
		done("the output's pipe has 1 MiB now");
	else
		blocked("the pipe's size cannot be changed");
}

/* core(5): a limit of 0 does not keep cores from a handler that core_pattern names by a pipe; 1 does. */
ATTACK(core_limit)
{
	struct rlimit limit;

	getrlimit(RLIMIT_CORE, &limit);
	if (limit.rlim_max == 1)
		blocked("the limit is 1");
	else
		worked("the limit is %ld: where core_pattern is a pipe, the host's handler "
		       "gets our cores",
		       (long)limit.rlim_max);
}

/* The caller's own files, given as standard input and output: the host looks at their modes and contents. */
ATTACK(standard_files)
{
	int changed = 0, flags = 0x20 /* FS_APPEND_FL */;

	for (int fd = 0; fd < 3; fd++) {
		struct stat st;

		if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
			continue;
		changed += fchmod(fd, 04777) == 0;
		changed += fsetxattr(fd, "user.attack", "x", 1, 0) == 0;
		changed += ioctl(fd, FS_IOC_SETFLAGS, &flags) == 0;
		changed += fd > 0 && ftruncate(fd, 0) == 0;
	}
	done("%d changes of the files given as input and output", changed);
}

/* Contexts for asynchronous input and output are counted for the whole machine. */
ATTACK(async_contexts)
{
	static const unsigned sizes[] = {1000, 100, 10, 1};
	long made = 0;

	for (size_t i = 0; i < LEN(sizes); i++)
		for (int tries = 0; tries < 200; tries++) {
			unsigned long context = 0;

			if (syscall(SYS_io_setup, sizes[i], &context) < 0)
				break;
			made++;
		}
	if (!made) {
		REFUSED("io_setup", -1, ENOSYS, EPERM);
		return;
	}
	printf("X34: holding %ld contexts\n", made);
	fflush(stdout);
	usleep((useconds_t)arg_number("hold", 300) * 1000);
	done("held %ld contexts", made);
}

/* Where there are none to take, whether a file of them can be made tells as much. */
ATTACK(huge_pages)
{
	char *memory = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

	if (memory != MAP_FAILED) {
		memory[0] = 1;
		worked("one of the machine's huge pages, which no group counts");
	} else
		REFUSED("a huge page", -1, ENOMEM, EPERM, EINVAL);
	REFUSED("a memory file of huge pages",
		memfd_create("attack", MFD_CLOEXEC | MFD_HUGETLB), EPERM, EINVAL, ENOSYS,
		ENOMEM);
	REFUSED("a segment of huge pages",
		shmget(IPC_PRIVATE, 2 << 20, IPC_CREAT | SHM_HUGETLB | 0600), EPERM, EINVAL,
		ENOSYS, ENOMEM);
}

ATTACK(protocols)
{
	static const int families[] = {AF_INET, AF_INET6};

	for (size_t i = 0; i < LEN(families); i++)
		for (int protocol = 2; protocol < 263; protocol++)
			for (int type = SOCK_STREAM; type <= SOCK_SEQPACKET; type++) {
				int sock;

				if (protocol == 6 || protocol == 17 || protocol == 58 ||
				    type == SOCK_RAW)
					continue;
				sock = socket(families[i], type | SOCK_CLOEXEC, protocol);
				if (sock >= 0)
					worked("a socket of protocol %d, whose module would be "
					       "loaded",
					       protocol);
				else if (errno == EPROTONOSUPPORT || errno == ESOCKTNOSUPPORT ||
					 errno == EPERM || errno == EINVAL || errno == EACCES)
					blocked("protocols beyond TCP, UDP, ICMP: %s",
						strerrorname_np(errno));
				else
					surprise("protocol %d: %s", protocol,
						 strerrorname_np(errno));
				close(sock);
			}
}

/* Descriptors on their way through sockets are counted for the user. */
ATTACK(descriptors_in_flight)
{
	struct rlimit limit;
	long sent = 0;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	for (int pairs = 0; pairs < 40; pairs++) {
		int pair[2];
		union {
			struct cmsghdr head;
			char space[CMSG_SPACE(250 * sizeof(int))];
		} control;
		char byte = 'x';
		struct iovec part = {&byte, 1};
		struct msghdr msg = {.msg_iov = &part,
				     .msg_iovlen = 1,
				     .msg_control = &control,
				     .msg_controllen = sizeof(control)};

		if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
			break;
		memset(&control, 0, sizeof(control));
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(250 * sizeof(int));
		while (sendmsg(pair[0], &msg, 0) > 0)
			sent += 250;
	}
	printf("X37: holding %ld descriptors\n", sent);
	fflush(stdout);
	usleep((useconds_t)arg_number("hold", 300) * 1000);
	done("held %ld descriptors", sent);
}
