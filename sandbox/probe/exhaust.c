/*
 * Attacks that take more than is given: section 2.5. See probe.h.
 *
 * Each is bounded by an argument, so that it does no harm where nothing stops it; it worked when the bound was reached. The host
 * gives the sandbox limits well below these bounds.
 */
#include "sandbox/probe/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1L << 20)

/* ---- processes ---- */

ATTACK(fork_bomb)
{
	long wanted = arg_number("processes", 150), made = 0;
	int ends[2], error = 0;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return;
	for (; made < wanted; made++) {
		char byte;
		pid_t pid = fork();

		if (pid == 0) {
			close(ends[1]);
			if (read(ends[0], &byte, 1) < 0) /* until the parent has ended */
				_exit(1);
			_exit(0);
		}
		if (pid < 0) {
			error = errno;
			break;
		}
	}
	close(ends[1]);
	while (wait(NULL) > 0)
		continue;
	errno = error;
	if (made == wanted)
		worked("%ld processes at once", made);
	else
		REFUSED(text("process %ld", made + 1), -1, EAGAIN, ENOMEM, EPERM);
}

static int wait_for_end(void *data)
{
	int fd = *(int *)data;
	char byte;

	/* a thread: only calls of the kernel */
	syscall(SYS_read, fd, &byte, 1);
	syscall(SYS_exit, 0);
	return 0;
}

ATTACK(thread_bomb)
{
	long wanted = arg_number("processes", 150), made = 0;
	static int ends[2];
	char *stacks = mmap(NULL, (size_t)wanted * 16384, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int error = 0;

	if (stacks == MAP_FAILED || pipe2(ends, O_CLOEXEC) < 0)
		return;
	for (; made < wanted; made++)
		if (clone(wait_for_end, stacks + (made + 1) * 16384,
			  CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
			      CLONE_SYSVSEM,
			  &ends[0]) < 0) {
			error = errno;
			break;
		}
	errno = error;
	if (made == wanted)
		worked("%ld threads at once", made);
	else
		REFUSED(text("thread %ld", made + 1), -1, EAGAIN, ENOMEM, EPERM);
}

/* ---- memory ---- */

static int touch_memory(void *data)
{
	long mib = *(long *)data;

	for (long i = 0; i < mib; i++) {
		char *block =
		    mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (block == MAP_FAILED)
			return BLOCKED;
		memset(block, 1, MIB);
	}
	return WORKED;
}

static void judge_hog(const char *what, int status)
{
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		blocked("%s: killed", what);
	else if (WIFEXITED(status) && WEXITSTATUS(status) == BLOCKED)
		blocked("%s: an error", what);
	else if (WIFEXITED(status) && WEXITSTATUS(status) == WORKED)
		worked("%s", what);
	else
		surprise("%s: status %x", what, status);
}

ATTACK(memory)
{
	long mib = arg_number("memory", 192);

	judge_hog(text("%ld MiB touched", mib), in_child(touch_memory, &mib));
}

ATTACK(swap)
{
	long mib = 2 * arg_number("memory", 192);

	judge_hog(text("%ld MiB touched, into swap", mib), in_child(touch_memory, &mib));
}

/* ---- disk ---- */

/* Writes up to fill= MiB into dir; noted. */
static void fill(const char *dir)
{
	static char block[MIB];
	long wanted = arg_number("fill", 64), written = 0;
	const char *path = text("%s/%s-fill", dir, mark());
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ssize_t n = 0;

	if (fd < 0) {
		REFUSED(path, -1, EROFS, EACCES, EPERM, ENOENT);
		return;
	}
	memset(block, 'x', sizeof(block));
	while (written < wanted &&
	       (n = write(fd, block, sizeof(block))) == (ssize_t)sizeof(block))
		written++;
	if (written == wanted)
		worked("%ld MiB in %s", written, dir);
	else
		REFUSED(text("MiB %ld in %s", written + 1, dir),
			n < 0 ? -1 : (errno = ENOSPC, -1), ENOSPC, EFBIG, EDQUOT, ENOMEM);
	unlink(path);
	close(fd);
}

ATTACK(fill_memory_files)
{
	const char *dirs[] = {"/tmp", "/dev/shm", "/run", getenv("HOME"), "/var/tmp", "/dev"};

	for (size_t i = 0; i < LEN(dirs); i++)
		if (dirs[i])
			fill(dirs[i]);
}

ATTACK(fill_tree)
{
	fill(".");
}

/* Makes names by make() in a new folder until one fails. */
static void many_names(const char *what, int (*make)(const char *path))
{
	long wanted = arg_number("names", 3000), made = 0;
	char dir[200];
	int error = 0;

	snprintf(dir, sizeof(dir), "%s-names", mark());
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		snprintf(dir, sizeof(dir), "/tmp/%s-names", mark());
	if (mkdir(dir, 0700) < 0 && errno != EEXIST) {
		REFUSED(dir, -1, EROFS, EACCES, EPERM);
		return;
	}
	for (; made < wanted; made++)
		if (make(text("%s/%ld", dir, made)) < 0) {
			error = errno;
			break;
		}
	errno = error;
	if (made == wanted)
		worked("%ld %s", made, what);
	else
		REFUSED(text("%s number %ld", what, made + 1), -1, ENOSPC, EDQUOT, ENOMEM,
			EMLINK);
	for (long i = 0; i < made; i++)
		if (unlink(text("%s/%ld", dir, i)) < 0)
			rmdir(text("%s/%ld", dir, i));
	rmdir(dir);
}

static int make_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	return fd < 0 ? -1 : close(fd);
}

ATTACK(inodes)
{
	many_names("files", make_file);
}

static int make_dir(const char *path)
{
	return mkdir(path, 0700);
}

static int make_link(const char *path)
{
	return symlink("x", path);
}

ATTACK(wide_directory)
{
	many_names("folders", make_dir);
	many_names("links", make_link);
}

ATTACK(open_files)
{
	struct rlimit limit;
	long wanted = arg_number("files", 70000), opened = 0;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max = (rlim_t)wanted + 100;
	setrlimit(RLIMIT_NOFILE, &limit); /* raising it must fail */
	while (opened < wanted && fcntl(1, F_DUPFD_CLOEXEC, 3) >= 0)
		opened++;
	if (opened == wanted)
		worked("%ld descriptors", opened);
	else
		REFUSED(text("descriptor %ld", opened + 4), -1, EMFILE, ENFILE, ENOMEM);
}

ATTACK(kernel_objects)
{
	long wanted = arg_number("files", 70000), made = 0;
	struct rlimit limit;
	int error = EMFILE;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	for (; made < wanted; made++) {
		int fd = made % 4 == 0	 ? epoll_create1(EPOLL_CLOEXEC)
			 : made % 4 == 1 ? eventfd(0, EFD_CLOEXEC)
			 : made % 4 == 2 ? timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)
					 : memfd_create("x", MFD_CLOEXEC);

		if (fd < 0) {
			error = errno;
			break;
		}
	}
	errno = error;
	if (made == wanted)
		worked("%ld objects of the kernel", made);
	else
		REFUSED(text("object %ld", made + 1), -1, EMFILE, ENFILE, ENOMEM);
}

/* ---- output ---- */

ATTACK(flood)
{
	static char block[65536];
	long wanted = arg_number("flood", 32) * 16;

	memset(block, 'y', sizeof(block));
	for (size_t i = 63; i < sizeof(block); i += 64)
		block[i] = '\n';
	for (long i = 0; i < wanted; i++)
		if (write(1, block, sizeof(block)) < 0 && errno != EINTR && errno != EAGAIN)
			break;
	done("%ld MiB were written to the output", wanted / 16);
}

/* The following go on for ever: the host sets a deadline, and looks what is left behind it. */
static void __attribute__((noreturn)) sleep_for_ever(void)
{
	/* but for a minute, should nothing stop it */
	for (int second = 0; second < 60; second++)
		sleep(1);
	_exit(WORKED);
}

ATTACK(sleep)
{
	sleep_for_ever();
}

ATTACK(slow_output)
{
	for (int i = 0; i < 600; i++) {
		if (write(1, ".", 1) < 0)
			break;
		usleep(100000);
	}
	_exit(WORKED);
}

ATTACK(dead_reader)
{
	long written = 0;

	signal(SIGPIPE, SIG_IGN);
	while (written < 4096 && write(1, text("%04000d", 0), 4000) > 0)
		written++;
	done("wrote to an output that nobody reads");
}

ATTACK(huge_sparse_file)
{
	int fd = open(text("%s-sparse", mark()), O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	signal(SIGXFSZ, SIG_IGN);
	if (fd >= 0 && ftruncate(fd, 1L << 40) == 0)
		done("a file of 1 TiB is in the tree");
	else
		REFUSED("a file of 1 TiB", -1, EFBIG, ENOSPC, EROFS, EACCES, EPERM, EINVAL);
	close(fd);
}

ATTACK(allocate)
{
	long wanted = arg_number("fill", 64);
	const char *path = text("%s-allocated", mark());
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	signal(SIGXFSZ, SIG_IGN);
	if (fd < 0) {
		REFUSED(path, -1, EROFS, EACCES, EPERM);
		return;
	}
	REFUSED(text("%ld MiB at once", wanted), fallocate(fd, 0, 0, wanted * MIB), ENOSPC,
		EFBIG, EDQUOT, ENOMEM, EOPNOTSUPP);
	REFUSED("1 TiB at once", fallocate(fd, 0, 0, 1L << 40), ENOSPC, EFBIG, EDQUOT, ENOMEM,
		EOPNOTSUPP);
	unlink(path);
	close(fd);
}

ATTACK(unremovable)
{
	char path[4096];
	size_t len;
	int made = 0, flags = 0x10 /* FS_IMMUTABLE_FL */, fd;

	if (mkdir("locked", 0700) == 0 && write_path("locked/x", "x\n") &&
	    chmod("locked", 0) == 0)
		made++;
	len = (size_t)snprintf(path, sizeof(path), "deep");
	for (int i = 0; i < 300 && len + 3 < sizeof(path); i++) {
		if (mkdir(path, 0700) < 0)
			break;
		len += (size_t)snprintf(path + len, sizeof(path) - len, "/d");
		made++;
	}
	made += write_path("-rf", "x\n") && write_path("a\nb", "x\n") &&
		write_path("\xff\xfe", "x\n");
	fd = open("immutable", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0 && syscall(SYS_ioctl, fd, 0x40086602 /* FS_IOC_SETFLAGS */, &flags) == 0)
		worked("a file was made immutable");
	close(fd);
	if (made)
		done("%d entries that are hard to remove", made);
	else
		REFUSED("such entries", -1, EROFS, EACCES, EPERM);
}

ATTACK(link_farm)
{
	int made = 0;

	made += symlink(".", "loop") == 0;
	made += symlink("/", "root") == 0;
	made += write_path("one", "x\n");
	for (int i = 0; i < 200; i++)
		made += link("one", text("hard%d", i)) == 0;
	if (made)
		done("%d links", made);
	else
		REFUSED("links", -1, EROFS, EACCES, EPERM);
}

ATTACK(archive)
{
	/* a gzip stream of zeros, cut: whoever unpacks it gets more than it took */
	static const char bomb[] =
	    "\x1f\x8b\x08\0\0\0\0\0\x02\x03\xed\xc1\x01\x0d\0\0\0\xc2\xa0\xf7Om\x0e7\xa0";
	int fd = open("report.tar.gz", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd >= 0 && write(fd, bomb, sizeof(bomb)) > 0)
		done("an archive is in the tree");
	else
		REFUSED("an archive", -1, EROFS, EACCES, EPERM);
	close(fd);
}

ATTACK(deaf)
{
	for (int sig = 1; sig < 32; sig++)
		signal(sig, SIG_IGN);
	sleep_for_ever();
}

ATTACK(vfork_wait)
{
	long pid = syscall(SYS_clone, CLONE_VFORK | SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid == 0) { /* the parent cannot go on */
		syscall(SYS_pause);
		_exit(0);
	}
	sleep_for_ever();
}

/* A child traces us, and does not take note of our end. */
ATTACK(traced_end)
{
	pid_t self = getpid(), pid;
	int ready[2];
	char byte;

	if (pipe2(ready, O_CLOEXEC) < 0)
		return;
	pid = fork();
	if (pid == 0) {
		setsid();
		if (ptrace(PTRACE_SEIZE, self, 0, 0) < 0 || write(ready[1], "x", 1) < 0)
			_exit(1);
		sleep_for_ever();
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1) {
		absent("a child cannot trace its parent");
		return;
	}
	done("our end is held back by a tracer");
	notes_print("R26");
	_exit(42);
}

ATTACK(burn)
{
	for (int i = 0; i < 4; i++)
		if (fork() == 0) {
			alarm(20);
			for (;;)
				continue;
		}
	sleep_for_ever();
}

ATTACK(sync_loop)
{
	const char *path = access(".", W_OK) == 0 ? "sync" : "/tmp/sync";
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	time_t end = time(NULL) + 20;

	while (time(NULL) < end && fd >= 0) {
		if (pwrite(fd, "x", 1, 0) < 0 || fsync(fd) < 0)
			break;
	}
	sleep_for_ever();
}

ATTACK(clock_jump)
{
	absent(
	    "moving the host's clock would harm the host; the deadline is CLOCK_MONOTONIC's");
}

ATTACK(read_input)
{
	struct pollfd polled = {0, POLLIN, 0};
	char byte;

	if (poll(&polled, 1, 500) == 0)
		worked("the standard input lets us wait");
	else if (read(0, &byte, 1) == 0)
		blocked("end of file at once");
	else if (isatty(0))
		worked("the standard input is a terminal");
	else
		worked("the standard input says something");
}

ATTACK(pid_reuse)
{
	absent("to wrap the process numbers takes millions of forks; the helper holds a pidfd");
}

ATTACK(oom_score)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		REFUSED("oom_score_adj", -1, EACCES, EROFS);
	else
		REFUSED("oom_score_adj of -1000", write(fd, "-1000", 5), EACCES, EPERM, EROFS);
	close(fd);
}

ATTACK(address_space)
{
	void *space =
	    mmap(NULL, 1L << 43, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct rlimit limit;

	getrlimit(RLIMIT_AS, &limit);
	if (space == MAP_FAILED && limit.rlim_cur != RLIM_INFINITY)
		worked("sanitizers, Go and the JVM cannot reserve their address space");
	else
		blocked("8 TiB of address space can be reserved");
}

/* Takes what counts by user until none is left, and waits; the host, as the same user, then tries to get one. */
ATTACK(user_limits)
{
	long count = 0;
	struct rlimit limit;
	static sigset_t none;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	while (count < arg_number("inotify", 2000) && inotify_init1(IN_CLOEXEC) >= 0)
		count++;
	for (int i = 0; i < 200; i++) {
		char name[32];

		snprintf(name, sizeof(name), "attack%d", i);
		if (syscall(SYS_mq_open, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600, NULL) < 0)
			break;
	}
	printf("R38: holding %ld watchers\n", count);
	fflush(stdout);
	sigemptyset(&none);
	usleep((useconds_t)arg_number("hold", 300) * 1000);
	for (int i = 0; i < 200; i++)
		syscall(SYS_mq_unlink, text("attack%d", i));
	done("held %ld watchers", count);
}

static int crash_now(void *data)
{
	(void)data;
	raise(SIGSEGV);
	return 0;
}

ATTACK(core_flood)
{
	char pattern[256];
	struct rlimit limit;
	int dumped = 0;

	getrlimit(RLIMIT_CORE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_CORE, &limit);
	for (int i = 0; i < 30; i++) {
		int status = in_child(crash_now, NULL);

		dumped += WIFSIGNALED(status) && WCOREDUMP(status);
	}
	if (read_path("/proc/sys/kernel/core_pattern", pattern, sizeof(pattern)) > 0 &&
	    (pattern[0] == '|' || pattern[0] == '@') && limit.rlim_cur != 1)
		worked("30 cores reach the host's handler %.100s", pattern);
	if (dumped)
		worked("%d cores were dumped", dumped);
	else
		blocked("30 crashes, no core");
}

static int fault(void *data)
{
	(void)data;
	return *(volatile int *)mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static int forbidden(void *data)
{
	(void)data;
#ifdef __x86_64__
	long result;

	__asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory");
#endif
	for (int i = 0; i < 100; i++)
		syscall(SYS_keyctl, 0, 0, 0, 0, 0);
	return 0;
}

ATTACK(log_flood)
{
	for (int i = 0; i < 150; i++) {
		in_child(fault, NULL);
		in_child(forbidden, NULL);
	}
	done("300 crashes and 15000 refused calls");
}

ATTACK(removal_bomb)
{
	long wanted = arg_number("litter", 3000), made = 0;

	for (; made < wanted; made++) {
		if (made % 100 == 0 && mkdir(text("litter%ld", made / 100), 0700) < 0)
			break;
		if (make_file(text("litter%ld/%ld", made / 100, made)) < 0)
			break;
	}
	if (made)
		done("%ld files are left in the tree", made);
	else
		REFUSED("files in the tree", -1, EROFS, EACCES, EPERM, ENOSPC);
}
