/*
 * A stage that tries what a stage must not be able to do. tests/wall/stages.py installs it
 * under each program's name; its job names one attempt:
 * {"paths":{…},"try":NAME,"arg":TEXT,"port":N}. It says what came of it in a result event
 * {"try","value","errno"}: a value of 0 or more means that it worked.
 *
 * "poke free NAME ARG PORT" makes the same attempt without any restriction and prints the same
 * object: the test's proof that the attempt itself is sound.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/vm_sockets.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/events.h"
#include "pipeline/fds.h"
#include "pipeline/stage.h"

struct attempt {
	const char *arg; /* a path, or a number as text */
	int port;
	pid_t victim; /* whom to attack: the parent */
};

typedef long attempt_fn(const struct attempt *a);

/* ---- files ---- */

static long try_read(const struct attempt *a)
{
	int fd AUTO_FD = open(a->arg, O_RDONLY | O_CLOEXEC);
	char byte;

	return fd < 0 ? -1 : read(fd, &byte, 1);
}

static long try_list(const struct attempt *a)
{
	int fd AUTO_FD = open(a->arg, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -1 : 0;
}

static long try_write(const struct attempt *a)
{
	int fd AUTO_FD = open(a->arg, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -1 : 0;
}

static long try_create(const struct attempt *a)
{
	char *path AUTO_FREE = mem_printf("%s.new", a->arg);
	int fd AUTO_FD = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	return fd < 0 ? -1 : unlink(path);
}

static long try_unlink(const struct attempt *a)
{
	return unlink(a->arg);
}

static long try_rename(const struct attempt *a)
{
	char *path AUTO_FREE = mem_printf("%s.moved", a->arg);

	return rename(a->arg, path);
}

static long try_link(const struct attempt *a)
{
	char *path AUTO_FREE = mem_printf("%s.link", a->arg);

	return link(a->arg, path);
}

static long try_mkdir(const struct attempt *a)
{
	char *path AUTO_FREE = mem_printf("%s.dir", a->arg);

	return mkdir(path, 0700);
}

static long try_symlink(const struct attempt *a)
{
	char *path AUTO_FREE = mem_printf("%s.sym", a->arg);

	return symlink("x", path);
}

static long try_chmod(const struct attempt *a)
{
	return chmod(a->arg, 0644);
}

static long try_chown(const struct attempt *a)
{
	return chown(a->arg, (uid_t)-1, getegid());
}

static long try_truncate(const struct attempt *a)
{
	return truncate(a->arg, 0);
}

static long try_utimes(const struct attempt *a)
{
	return utimensat(AT_FDCWD, a->arg, NULL, 0);
}

static long try_setxattr(const struct attempt *a)
{
	return setxattr(a->arg, "user.poke", "x", 1, 0);
}

static long try_device(const struct attempt *a)
{
	char *path AUTO_FREE = mem_printf("%s.dev", a->arg);

	return mknod(path, S_IFCHR | 0600, (dev_t)(1 << 8 | 3));
}

static long try_fifo(const struct attempt *a)
{
	char *path AUTO_FREE = mem_printf("%s.fifo", a->arg);

	return mkfifo(path, 0600);
}

static long try_chroot(const struct attempt *a)
{
	(void)a;
	return chroot("/");
}

static long try_whiteout(const struct attempt *a)
{
	char *path AUTO_FREE = mem_printf("%s.wh", a->arg);

	return mknod(path, S_IFCHR, 0) < 0 ? -1 : unlink(path);
}

static long try_fd_metadata(const struct attempt *a)
{
	int fd AUTO_FD = open(a->arg, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fchmod(fd, 0755) < 0)
		return -1;
	return futimens(fd, NULL);
}

static long try_by_handle(const struct attempt *a)
{
	union {
		struct file_handle handle;
		char space[256];
	} place = {.handle = {.handle_bytes = 128}};
	int mount_id, fd AUTO_FD = -1;

	if (name_to_handle_at(AT_FDCWD, a->arg, &place.handle, &mount_id, 0) < 0)
		return -1;
	fd = open_by_handle_at(AT_FDCWD, &place.handle, O_RDONLY);
	return fd < 0 && errno == EPERM ? -1 : 0;
}

/* ---- processes ---- */

static long reap(pid_t pid, int wanted)
{
	int status;

	if (pid < 0)
		return -1;
	if (waitpid(pid, &status, 0) != pid)
		return -1;
	if (WIFEXITED(status) && WEXITSTATUS(status) == wanted)
		return 0;
	errno = WIFEXITED(status) ? WEXITSTATUS(status) : EPROTO;
	return -1;
}

static long try_fork(const struct attempt *a)
{
	pid_t pid = fork();

	(void)a;
	if (pid == 0)
		_exit(7);
	return reap(pid, 7);
}

static int thread(void *arg)
{
	(void)arg;
	return 0;
}

static long try_clone(const struct attempt *a)
{
	static char stack[65536] __attribute__((aligned(16)));

	(void)a;
	return reap(clone(thread, stack + sizeof(stack), SIGCHLD, NULL), 0);
}

static long try_exec(const struct attempt *a)
{
	char *const argv[] = {mem_strdup(a->arg), NULL};
	char *const env[] = {NULL};

	/* Direct: a filter that kills for exec must be seen even where fork is refused. */
	if (a->port == 0)
		return execve(a->arg, argv, env);
	pid_t pid = fork();
	if (pid == 0) {
		execve(a->arg, argv, env);
		_exit(errno == EACCES ? EACCES : EPROTO);
	}
	return reap(pid, 0);
}

/* Whether a program that it starts has our control socket. */
static long try_leak(const struct attempt *a)
{
	char *const argv[] = {mem_strdup("sh"), mem_strdup("-c"), mem_strdup(": <&3"), NULL};
	char *const env[] = {NULL};
	pid_t pid = fork();

	(void)a;
	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

		dup2(null, STDERR_FILENO);
		execve("/bin/sh", argv, env);
		_exit(EPROTO);
	}
	return reap(pid, 0);
}

static long try_exec_memory(const struct attempt *a)
{
	int fd AUTO_FD = memfd_create("x", MFD_CLOEXEC);
	char *const none[] = {NULL};
	pid_t pid;

	(void)a;
	if (fd < 0 || fd_write_all(fd, "#!/bin/true\n", 12) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		syscall(SYS_execveat, fd, "", none, none, AT_EMPTY_PATH);
		_exit(errno == ENOENT ? 0 : errno == EACCES ? EACCES : EPROTO);
	}
	return reap(pid, 0);
}

static long try_kill(const struct attempt *a)
{
	return kill(a->victim, 0);
}

/* The kernel says 0 even where it has signalled nobody: only reaching it can be seen. */
static long try_kill_all(const struct attempt *a)
{
	(void)a;
	return kill(-1, 0);
}

static long try_tgkill(const struct attempt *a)
{
	return syscall(SYS_tgkill, a->victim, a->victim, 0);
}

static long try_sigqueue(const struct attempt *a)
{
	union sigval value = {.sival_int = 0};

	return sigqueue(a->victim, 0, value);
}

static long try_ptrace(const struct attempt *a)
{
	long result = ptrace(PTRACE_SEIZE, a->victim, NULL, NULL);

	if (result == 0)
		ptrace(PTRACE_DETACH, a->victim, NULL, NULL);
	return result;
}

static long try_read_memory(const struct attempt *a)
{
	char byte;
	struct iovec here = {&byte, 1}, there = {(void *)0x1000, 1};
	long n = process_vm_readv(a->victim, &here, 1, &there, 1, 0);

	return n < 0 && errno == EFAULT ? 0 : n;
}

static long try_steal_fd(const struct attempt *a)
{
	int pidfd AUTO_FD = (int)syscall(SYS_pidfd_open, a->victim, 0);

	return syscall(SYS_pidfd_getfd, pidfd, 2, 0);
}

static long try_proc_environ(const struct attempt *a)
{
	struct attempt file = {0};
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/environ", a->victim);
	file.arg = path;
	return try_read(&file);
}

static long try_proc_memory(const struct attempt *a)
{
	char path[64];
	int fd AUTO_FD = -1;

	snprintf(path, sizeof(path), "/proc/%d/mem", a->victim);
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? -1 : 0;
}

static long try_proc_self(const struct attempt *a)
{
	struct attempt file = {.arg = "/proc/self/status"};

	(void)a;
	return try_read(&file);
}

static long try_prlimit(const struct attempt *a)
{
	struct rlimit old;

	return prlimit(a->victim, RLIMIT_NOFILE, NULL, &old);
}

static long try_owner_signal(const struct attempt *a)
{
	return fcntl(STDIN_FILENO, F_SETOWN, a->victim);
}

static long try_abort(const struct attempt *a)
{
	(void)a;
	raise(SIGWINCH);
	return kill(getpid(), 0);
}

/* ---- power ---- */

static long try_root(const struct attempt *a)
{
	(void)a;
	return setresuid(0, 0, 0);
}

static long try_raise_capability(const struct attempt *a)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{~0u, ~0u, ~0u}, {0x1ff, 0x1ff, 0x1ff}};

	(void)a;
	return syscall(SYS_capset, &header, data);
}

static long try_dumpable(const struct attempt *a)
{
	(void)a;
	return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static long try_core_limit(const struct attempt *a)
{
	struct rlimit limit = {4096, 4096};

	(void)a;
	return setrlimit(RLIMIT_CORE, &limit);
}

static long try_many_files(const struct attempt *a)
{
	struct rlimit limit = {1 << 20, 1 << 20};

	(void)a;
	return setrlimit(RLIMIT_NOFILE, &limit);
}

static long try_map_executable(const struct attempt *a)
{
	void *page =
	    mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)a;
	return page == MAP_FAILED ? -1 : mprotect(page, 4096, PROT_READ | PROT_EXEC);
}

static long try_type_terminal(const struct attempt *a)
{
	(void)a;
	return ioctl(STDIN_FILENO, TIOCSTI, "x") < 0 && errno == ENOTTY ? 0 : -1;
}

/* A rule that compares 64 bits lets this pass, one that compares nothing but 32 does not. */
static long try_type_terminal_high(const struct attempt *a)
{
	(void)a;
	return syscall(SYS_ioctl, STDIN_FILENO, 0x100000000ul | TIOCSTI, "x") < 0 &&
		       errno == ENOTTY
		   ? 0
		   : -1;
}

static long try_unshare_user(const struct attempt *a)
{
	(void)a;
	return unshare(CLONE_NEWUSER);
}

static long try_unshare_mount(const struct attempt *a)
{
	(void)a;
	return unshare(CLONE_NEWNS);
}

static long try_setns(const struct attempt *a)
{
	(void)a;
	return setns(0, CLONE_NEWNET) < 0 && errno != EPERM && errno != ENOSYS ? 0 : -1;
}

static long try_mount(const struct attempt *a)
{
	(void)a;
	return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

/* Calls with bad arguments: any errno but EPERM and ENOSYS says that they were reached. */
static long reached(long result)
{
	return result < 0 && (errno == EPERM || errno == ENOSYS) ? -1 : 0;
}

static long try_bpf(const struct attempt *a)
{
	(void)a;
	return reached(syscall(SYS_bpf, 0, NULL, 0));
}

static long try_io_uring(const struct attempt *a)
{
	(void)a;
	return reached(syscall(SYS_io_uring_setup, 1, NULL));
}

static long try_userfaultfd(const struct attempt *a)
{
	(void)a;
	return reached(syscall(SYS_userfaultfd, 1 /* UFFD_USER_MODE_ONLY */));
}

static long try_perf(const struct attempt *a)
{
	(void)a;
	return reached(syscall(SYS_perf_event_open, NULL, 0, 0, -1, 0));
}

static long try_keyctl(const struct attempt *a)
{
	(void)a;
	return syscall(SYS_keyctl, 0 /* KEYCTL_GET_KEYRING_ID */, -3, 0);
}

static long try_add_key(const struct attempt *a)
{
	(void)a;
	return syscall(SYS_add_key, "user", "poke", "x", 1, -2);
}

static long try_seccomp(const struct attempt *a)
{
	(void)a;
	return reached(syscall(SYS_seccomp, 2 /* GET_ACTION_AVAIL */, 0, NULL));
}

static long try_fanotify(const struct attempt *a)
{
	(void)a;
	return syscall(SYS_fanotify_init, 0x200 /* FAN_REPORT_FID */, 0);
}

#ifdef __x86_64__
static long try_x32(const struct attempt *a)
{
	(void)a;
	return syscall(0x40000000 | SYS_getpid) < 0 ? -1 : 0;
}

static long try_i386(const struct attempt *a)
{
	long result;

	(void)a;
	/* getpid of the 32-bit table */
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory");
	return result;
}
#endif

/* ---- network ---- */

static long try_socket(int family, int type)
{
	int fd AUTO_FD = socket(family, type | SOCK_CLOEXEC, 0);

	return fd < 0 ? -1 : 0;
}

static long try_inet(const struct attempt *a)
{
	(void)a;
	return try_socket(AF_INET, SOCK_STREAM);
}

static long try_inet6(const struct attempt *a)
{
	(void)a;
	return try_socket(AF_INET6, SOCK_DGRAM);
}

static long try_unix(const struct attempt *a)
{
	(void)a;
	return try_socket(AF_UNIX, SOCK_STREAM);
}

static long try_netlink(const struct attempt *a)
{
	(void)a;
	return try_socket(AF_NETLINK, SOCK_RAW);
}

static long try_packet(const struct attempt *a)
{
	(void)a;
	return try_socket(AF_PACKET, SOCK_RAW);
}

static long try_raw(const struct attempt *a)
{
	int fd AUTO_FD = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);

	(void)a;
	return fd < 0 ? -1 : 0;
}

static long try_vsock(const struct attempt *a)
{
	int fd AUTO_FD = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)a;
	return fd < 0 ? -1 : 0;
}

static long try_alg(const struct attempt *a)
{
	(void)a;
	return try_socket(AF_ALG, SOCK_SEQPACKET);
}

static long connect_to(int port)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd AUTO_FD = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&in, sizeof(in));
}

/* A listener of the host on 127.0.0.1. */
static long try_connect(const struct attempt *a)
{
	return connect_to(a->port);
}

static long try_listen(const struct attempt *a)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	int fd AUTO_FD = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)a;
	if (fd < 0 || bind(fd, (struct sockaddr *)&in, sizeof(in)) < 0)
		return -1;
	return listen(fd, 1);
}

static socklen_t unix_name(struct sockaddr_un *un, const char *path, bool abstract)
{
	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	snprintf(un->sun_path + abstract, sizeof(un->sun_path) - abstract, "%s", path);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + abstract + strlen(path) +
			   !abstract);
}

/* A listener of the host with an abstract name, and one with a path. */
static long try_connect_abstract(const struct attempt *a)
{
	struct sockaddr_un un;
	socklen_t len = unix_name(&un, a->arg, true);
	int fd AUTO_FD = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&un, len);
}

static long try_connect_path(const struct attempt *a)
{
	struct sockaddr_un un;
	socklen_t len = unix_name(&un, a->arg, false);
	int fd AUTO_FD = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&un, len);
}

/* socketpair gives a socket without socket(2); a datagram one can be sent to any path. */
static long try_pair_datagram(const struct attempt *a)
{
	struct sockaddr_un un;
	socklen_t len = unix_name(&un, a->arg, false);
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	return sendto(pair[0], "x", 1, 0, (struct sockaddr *)&un, len);
}

/* A connected pair must not become a connection elsewhere: QUIET says EINPROGRESS and does
 * nothing. */
static long try_pair_connect(const struct attempt *a)
{
	struct sockaddr_un un;
	socklen_t len = unix_name(&un, a->arg, false);
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	return connect(pair[0], (struct sockaddr *)&un, len);
}

static long try_pair(const struct attempt *a)
{
	int pair[2];
	char byte;

	(void)a;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 ||
	    send(pair[0], "x", 1, 0) != 1)
		return -1;
	return recv(pair[1], &byte, 1, 0);
}

/* Its own loopback, where the row has one. */
static long try_own_loopback(const struct attempt *a)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	socklen_t len = sizeof(in);
	int fd AUTO_FD = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)a;
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&in, sizeof(in)) < 0 || listen(fd, 1) < 0 ||
	    getsockname(fd, (struct sockaddr *)&in, &len) < 0)
		return -1;
	return connect_to(ntohs(in.sin_port));
}

/* ---- main ---- */

static long try_nothing(const struct attempt *a)
{
	(void)a;
	return 0;
}

/* Stays until the driver closes the control socket: for a look from outside. */
static long try_hold(const struct attempt *a)
{
	struct json *facts = js_object_new();
	struct json *answer;
	struct error err;

	(void)a;
	js_set_int(facts, "pid", getpid());
	event_send("held", facts);
	answer = event_answer(&err);
	js_free(answer);
	return 0;
}

static const struct {
	const char *name;
	attempt_fn *run;
} attempts[] = {
    {"nothing", try_nothing},
    {"hold", try_hold},
    {"read", try_read},
    {"list", try_list},
    {"write", try_write},
    {"create", try_create},
    {"unlink", try_unlink},
    {"rename", try_rename},
    {"link", try_link},
    {"mkdir", try_mkdir},
    {"symlink", try_symlink},
    {"chmod", try_chmod},
    {"chown", try_chown},
    {"truncate", try_truncate},
    {"utimes", try_utimes},
    {"setxattr", try_setxattr},
    {"device", try_device},
    {"fifo", try_fifo},
    {"chroot", try_chroot},
    {"whiteout", try_whiteout},
    {"fd-metadata", try_fd_metadata},
    {"by-handle", try_by_handle},
    {"fork", try_fork},
    {"clone", try_clone},
    {"exec", try_exec},
    {"exec-memory", try_exec_memory},
    {"leak", try_leak},
    {"kill", try_kill},
    {"kill-all", try_kill_all},
    {"tgkill", try_tgkill},
    {"sigqueue", try_sigqueue},
    {"ptrace", try_ptrace},
    {"read-memory", try_read_memory},
    {"steal-fd", try_steal_fd},
    {"proc-environ", try_proc_environ},
    {"proc-memory", try_proc_memory},
    {"proc-self", try_proc_self},
    {"prlimit", try_prlimit},
    {"owner-signal", try_owner_signal},
    {"raise", try_abort},
    {"root", try_root},
    {"capability", try_raise_capability},
    {"dumpable", try_dumpable},
    {"core-limit", try_core_limit},
    {"many-files", try_many_files},
    {"map-executable", try_map_executable},
    {"type-terminal", try_type_terminal},
    {"type-terminal-high", try_type_terminal_high},
    {"unshare-user", try_unshare_user},
    {"unshare-mount", try_unshare_mount},
    {"setns", try_setns},
    {"mount", try_mount},
    {"bpf", try_bpf},
    {"io-uring", try_io_uring},
    {"userfaultfd", try_userfaultfd},
    {"perf", try_perf},
    {"keyctl", try_keyctl},
    {"add-key", try_add_key},
    {"seccomp", try_seccomp},
    {"fanotify", try_fanotify},
#ifdef __x86_64__
    {"x32", try_x32},
    {"i386", try_i386},
#endif
    {"inet", try_inet},
    {"inet6", try_inet6},
    {"unix", try_unix},
    {"netlink", try_netlink},
    {"packet", try_packet},
    {"raw", try_raw},
    {"vsock", try_vsock},
    {"alg", try_alg},
    {"connect", try_connect},
    {"listen", try_listen},
    {"connect-abstract", try_connect_abstract},
    {"connect-path", try_connect_path},
    {"pair-datagram", try_pair_datagram},
    {"pair-connect", try_pair_connect},
    {"pair", try_pair},
    {"own-loopback", try_own_loopback},
};

static struct json *make_attempt(const char *name, const struct attempt *attempt)
{
	struct json *facts = js_object_new();
	long value = -1;
	int code = ENOENT;

	for (size_t i = 0; i < ARRAY_LEN(attempts); i++) {
		if (strcmp(attempts[i].name, name) != 0)
			continue;
		errno = 0;
		value = attempts[i].run(attempt);
		code = errno;
	}
	js_set_str(facts, "try", name);
	js_set_int(facts, "value", value < 0 ? -1 : value);
	js_set_int(facts, "errno", value < 0 ? code : 0);
	return facts;
}

static int run(struct stage *stage, struct error *err)
{
	struct attempt attempt = {.arg = js_str(stage->job, "arg", "/"),
				  .port = (int)js_int(stage->job, "port", 0),
				  .victim = getppid()};
	const char *name;
	int result = js_need_str(stage->job, "try", &name, err);

	if (result == 0)
		event_send("result", make_attempt(name, &attempt));
	return result;
}

static int run_without(unsigned number, unsigned code, char **argv)
{
	struct sock_filter filter[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (code & SECCOMP_RET_DATA)),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = ARRAY_LEN(filter), .filter = filter};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
		return 125;
	execv(argv[0], argv);
	return 127;
}

int main(int argc, char **argv)
{
	if (argc > 4 && strcmp(argv[1], "without") == 0)
		return run_without((unsigned)strtoul(argv[2], NULL, 10),
				   (unsigned)strtoul(argv[3], NULL, 10), argv + 4);
	if (argc == 5 && strcmp(argv[1], "free") == 0) {
		struct attempt attempt = {.arg = argv[3],
					  .port = (int)strtol(argv[4], NULL, 10),
					  .victim = getppid()};
		struct json *facts AUTO_JSON = make_attempt(argv[2], &attempt);
		struct strbuf text AUTO_STRBUF = STRBUF_NONE;

		strbuf_init(&text, STRBUF_MAX);
		js_format(facts, &text);
		puts(text.data);
		return 0;
	}
	return stage_main(argc, argv, NULL, run);
}
