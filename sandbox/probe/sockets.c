/* Attacks by sockets, descriptors and channels that are there: section 2.1. See probe.h. */
#include "sandbox/probe/probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- sockets of the host's ---- */

static unsigned long walked;

static bool connect_to_socket(const char *path, unsigned char type)
{
	if (type == DT_SOCK)
		try_connect(path);
	return ++walked < 2000000;
}

ATTACK(unix_path)
{
	const char *given = arg("unix");

	if (given)
		try_connect(given);
	walk(arg_or("walk", "/"), 30, connect_to_socket);
	blocked("of %lu names none is a socket", walked);
}

ATTACK(unix_abstract)
{
	static const char *const names[] = {"/tmp/.X11-unix/X0", "/tmp/.ICE-unix/1",
					    "/tmp/dbus-0", "/containerd-shim/moby/x/shim.sock"};
	static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};

	for (size_t t = 0; t < LEN(types); t++) {
		try_connect_abstract(arg_or("abstract", "attack"), types[t]);
		for (size_t i = 0; i < LEN(names); i++)
			try_connect_abstract(names[i], types[t]);
	}
}

ATTACK(take_rights)
{
	char byte[64];
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(16 * sizeof(int))];
	} control;

	for (int fd = 0; fd < 1024; fd++) {
		struct iovec part = {byte, sizeof(byte)};
		struct msghdr msg = {.msg_iov = &part,
				     .msg_iovlen = 1,
				     .msg_control = &control,
				     .msg_controllen = sizeof(control)};
		struct stat st;

		if (fstat(fd, &st) < 0 || !S_ISSOCK(st.st_mode))
			continue;
		if (recvmsg(fd, &msg, MSG_DONTWAIT) >= 0 && CMSG_FIRSTHDR(&msg) &&
		    CMSG_FIRSTHDR(&msg)->cmsg_type == SCM_RIGHTS)
			worked("descriptor %d brings another from outside", fd);
		else
			worked("descriptor %d is a socket of the host's", fd);
	}
	blocked("no descriptor is a socket");
}

ATTACK(special_files)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), made = 0;

	snprintf(address.sun_path, sizeof(address.sun_path), "%.60s-sock", mark());
	made += mkfifo(text("%s-config.h", mark()), 0666) == 0;
	made += bind(sock, (struct sockaddr *)&address, sizeof(address)) == 0 &&
		listen(sock, 1) == 0;
	made += mkfifo(".git", 0666) == 0 || mkfifo(text(".git/%s", mark()), 0666) == 0;
	if (made)
		done("%d special files are in the tree", made);
	else
		REFUSED("special files in the tree", -1, EROFS, EACCES, EPERM);
	close(sock);
}

/* ---- other ways to a socket ---- */

ATTACK(io_uring)
{
	char params[256] = {0};

	REFUSED("io_uring_setup", syscall(SYS_io_uring_setup, 8, params), ENOSYS, EPERM,
		EACCES);
	REFUSED("io_uring_register", syscall(SYS_io_uring_register, -1, 4, NULL, 0), ENOSYS,
		EPERM, EACCES);
	REFUSED("io_uring_enter", syscall(SYS_io_uring_enter, -1, 1, 0, 0, NULL, 0), ENOSYS,
		EPERM, EACCES);
}

#ifdef __x86_64__
static long call32(long number, unsigned a, unsigned b, unsigned c)
{
	long result;

	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "a"(number), "b"(a), "c"(b), "d"(c)
			 : "memory", "r8", "r9", "r10", "r11");
	return result;
}

static int socketcall32(void *data)
{
	unsigned *words = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

	(void)data;
	if (words == MAP_FAILED)
		return UNTRIED;
	words[0] = AF_VSOCK;
	words[1] = SOCK_STREAM;
	words[2] = 0;
	if (call32(359 /* socket */, AF_VSOCK, SOCK_STREAM, 0) >= 0)
		return WORKED;
	words[0] = AF_INET;
	return call32(102 /* socketcall */, 1, (unsigned)(uintptr_t)words, 0) >= 0 ? WORKED
										   : BLOCKED;
}

ATTACK(i386)
{
	int status;

	if (!has_gate32()) {
		blocked("there is no 32-bit gate");
		return;
	}
	status = in_child(socketcall32, NULL);

	if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGSYS || WTERMSIG(status) == SIGSEGV))
		blocked("the 32-bit gate: killed");
	else if (WIFEXITED(status) && WEXITSTATUS(status) == WORKED)
		worked("a socket by the 32-bit gate");
	else if (WIFEXITED(status) && WEXITSTATUS(status) == BLOCKED)
		blocked("the 32-bit gate refuses sockets");
	else
		surprise("the 32-bit gate: status %x", status);
}

ATTACK(x32)
{
	REFUSED("an x32 socket", syscall(0x40000000 | SYS_socket, AF_INET, SOCK_STREAM, 0),
		ENOSYS, EPERM);
	REFUSED("x32 getpid", syscall(0x40000000 | SYS_getpid), ENOSYS, EPERM);
}
#else
ATTACK(i386)
{
	absent("this architecture has no 32-bit gate");
}

ATTACK(x32)
{
	absent("this architecture has no x32");
}
#endif

/* ---- descriptors ---- */

ATTACK(descriptors)
{
	for (int fd = 3; fd < 70000; fd++)
		if (fcntl(fd, F_GETFD) >= 0) {
			char target[256];
			ssize_t len =
			    readlink(text("/proc/self/fd/%d", fd), target, sizeof(target) - 1);

			worked("descriptor %d: %.*s", fd, (int)(len > 0 ? len : 1),
			       len > 0 ? target : "?");
		}
	blocked("only 0, 1 and 2 are open");
}

ATTACK(stdio)
{
	struct stat st, null;
	char byte[256];
	ssize_t n;

	for (int fd = 0; fd < 3; fd++) {
		if (fstat(fd, &st) < 0)
			continue;
		if (isatty(fd))
			worked("descriptor %d is a terminal", fd);
		if (S_ISSOCK(st.st_mode)) {
			n = recv(fd, byte, sizeof(byte), MSG_DONTWAIT);
			if (n <= 0 || !leaks("the standard output, read,", byte, (size_t)n))
				worked("descriptor %d is a socket", fd);
		} else if (fd > 0 && !S_ISCHR(st.st_mode)) {
			fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
			n = pread(fd, byte, sizeof(byte), 0);
			if (n >= 0 || (n = read(fd, byte, sizeof(byte))) >= 0)
				worked("descriptor %d can be read from", fd);
			fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
		}
	}
	if (fstat(0, &st) == 0 && S_ISCHR(st.st_mode) &&
	    (stat("/dev/null", &null) < 0 || st.st_rdev != null.st_rdev))
		worked("descriptor 0 is a device of the host's");
	blocked("0 cannot answer, 1 and 2 take only");
}

/* ---- covert channels ---- */

ATTACK(lock_channel)
{
	const char *path = arg("lock");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (fd < 0) {
		absent("no file is shared with a holder of a lock");
		return;
	}
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		blocked("another's lock on %s is not seen", path);
	else
		worked("another's lock on %s is seen", path);
	close(fd);
}

ATTACK(inotify_channel)
{
	const char *path = arg("watch");
	int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	struct pollfd polled = {fd, POLLIN, 0};

	if (!path || fd < 0 || inotify_add_watch(fd, path, IN_OPEN | IN_ACCESS) < 0) {
		absent("no shared file can be watched");
		return;
	}
	/* the host opens it every few milliseconds */
	if (poll(&polled, 1, (int)arg_number("wait", 500)) > 0)
		worked("openings of %s by others are seen", path);
	else
		blocked("openings of %s by others are not seen", path);
	close(fd);
}

ATTACK(ipc)
{
	key_t key = (key_t)arg_number("shmkey", 0x61676e74);
	static char listed[1 << 16];
	int fd;

	REFUSED("a System V segment of the host's", shmget(key, 0, 0), ENOENT, EACCES, ENOSYS,
		EINVAL);
	if (read_path("/proc/sysvipc/shm", listed, sizeof(listed)) > 0 &&
	    strchr(listed, '\n') && strchr(listed, '\n')[1])
		worked("/proc/sysvipc/shm lists segments");
	try_read(text("/dev/shm/%s", arg_or("shm", "attack")), true);
	fd = (int)syscall(SYS_mq_open, arg_or("mq", "attack"), O_RDONLY, 0, NULL);
	REFUSED("a message queue of the host's", fd, ENOENT, EACCES, ENOSYS);
}

ATTACK(autoload)
{
	for (int family = 3; family < 46; family++) {
		if (family == AF_INET6 || family == AF_NETLINK)
			continue;
		for (int type = 1; type < 6; type++) {
			int sock = socket(family, type | SOCK_CLOEXEC, 0);

			if (sock >= 0)
				worked("a socket of family %d", family);
			else if (errno == EAFNOSUPPORT || errno == EPERM || errno == EACCES)
				blocked("socket families: %s", strerrorname_np(errno));
			close(sock);
		}
	}
	REFUSED("mount -t jffs2", mount("none", "/tmp", "jffs2", 0, NULL), EPERM, EACCES);
}

ATTACK(automount)
{
	static const char *const paths[] = {"/net/attack.example", "/afs/attack.example",
					    "/misc/attack", "/smb/x", "/cvmfs/attack.example"};

	for (size_t i = 0; i < LEN(paths); i++)
		try_open(paths[i], O_RDONLY);
}
