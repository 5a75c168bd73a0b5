/*
 * jail_probe - tries one attack from inside of a jail (tests/wall/jail*.py)
 *
 * jail_probe NAME [ARGUMENT…]: exits with 0 when the attack is blocked, 10 when it worked, 11
 * when it could not be tried. The same program run outside is the control: most of these work
 * there.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netdb.h>
#include <netinet/in.h>
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
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { BLOCKED = 0, WORKED = 10, UNTRIED = 11 };

static char **args; /* behind the name */

static int say(int verdict, const char *what)
{
	fprintf(stderr, "%s: %s (%s)\n", what,
		verdict == BLOCKED  ? "blocked"
		: verdict == WORKED ? "WORKED"
				    : "could not be tried",
		strerror(errno));
	return verdict;
}

/* A call that must fail, with one of the two errors. */
static int must_fail(long result, int first, int second, const char *what)
{
	if (result >= 0)
		return say(WORKED, what);
	if (errno != first && errno != second) {
		fprintf(stderr, "%s: failed, but with %s\n", what, strerror(errno));
		return UNTRIED;
	}
	return say(BLOCKED, what);
}

/* ---- network ---- */

static struct sockaddr_in address(const char *host, const char *port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};

	inet_pton(AF_INET, host, &a.sin_addr);
	return a;
}

static int tcp(void)
{
	struct sockaddr_in a = address(args[0], args[1]);
	int s = socket(AF_INET, SOCK_STREAM, 0);

	return must_fail(connect(s, (struct sockaddr *)&a, sizeof(a)), ECONNREFUSED,
			 ENETUNREACH, "tcp");
}

static int udp(void)
{
	struct sockaddr_in a = address(args[0], args[1]);
	int s = socket(AF_INET, SOCK_DGRAM, 0);

	return must_fail(sendto(s, "x", 1, 0, (struct sockaddr *)&a, sizeof(a)), ENETUNREACH,
			 ENETUNREACH, "udp");
}

static int tcp6(void)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(443)};
	int s = socket(AF_INET6, SOCK_STREAM, 0);

	inet_pton(AF_INET6, "2001:db8::1", &a.sin6_addr);
	return must_fail(connect(s, (struct sockaddr *)&a, sizeof(a)), ENETUNREACH,
			 EAFNOSUPPORT, "tcp6");
}

static int dns(void)
{
	struct addrinfo *found = NULL;
	int result = getaddrinfo("example.com", "443", NULL, &found);

	errno = 0;
	return say(result == 0 ? WORKED : BLOCKED, gai_strerror(result));
}

static int unix_path(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int s = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", args[0]);
	return must_fail(connect(s, (struct sockaddr *)&a, sizeof(a)), ENOENT, ENOENT, args[0]);
}

static int unix_abstract(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	size_t len = strlen(args[0]);

	memcpy(a.sun_path + 1, args[0], len);
	return must_fail(connect(s, (struct sockaddr *)&a,
				 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)),
			 ECONNREFUSED, EPERM, "abstract");
}

/* Every family but the four that are let in, also with the upper half of the argument set. */
static int families(void)
{
	for (long family = 0; family < 64; family++) {
		const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET};

		if (family == AF_UNIX || family == AF_INET || family == AF_INET6 ||
		    family == AF_NETLINK)
			continue;
		for (int i = 0; i < 4; i++) {
			if (syscall(SYS_socket, family, types[i], 0) >= 0 ||
			    syscall(SYS_socket, family | 1L << 40, types[i], 0) >= 0) {
				fprintf(stderr, "family %ld\n", family);
				return WORKED;
			}
			if (errno != EAFNOSUPPORT)
				return say(UNTRIED, "family");
		}
	}
	return BLOCKED;
}

static int raw(void)
{
	if (socket(AF_INET, SOCK_RAW, IPPROTO_TCP) >= 0 || errno != EPERM)
		return say(WORKED, "raw");
	return must_fail(socket(AF_INET6, SOCK_RAW, IPPROTO_TCP), EPERM, EPERM, "raw6");
}

static int netlink(void)
{
	if (socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE) < 0)
		return say(UNTRIED, "route");
	for (int protocol = 1; protocol < 32; protocol++)
		if (socket(AF_NETLINK, SOCK_RAW, protocol) >= 0)
			return say(WORKED, "netlink");
	return BLOCKED;
}

static int io_uring(void)
{
	char params[256] = {0};

	if (syscall(SYS_io_uring_setup, 8, params) >= 0)
		return say(WORKED, "io_uring_setup");
	return must_fail(-1, ENOSYS, ENOSYS, "io_uring_setup");
}

static int interfaces(void)
{
	DIR *dir = opendir("/proc/self/net/dev_snmp6");
	struct dirent *entry;
	FILE *file = fopen("/proc/net/route", "r");
	char line[512];

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.' && strcmp(entry->d_name, "lo") != 0)
			return say(WORKED, entry->d_name);
	for (int lines = 0; file && fgets(line, sizeof(line), file); lines++)
		if (lines)
			return say(WORKED, line);
	return BLOCKED;
}

#ifdef __x86_64__
/* socketcall by the i386 gate: the filter must kill for the foreign architecture. */
static int i386(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		long result;

		__asm__ volatile("int $0x80" : "=a"(result) : "a"(20 /* getpid */) : "memory");
		_exit(result > 0 ? WORKED : 1);
	}
	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGSYS || WTERMSIG(status) == SIGSEGV))
		return BLOCKED; /* SIGSEGV: a kernel without the gate */
	return WORKED;
}

static int x32(void)
{
	return must_fail(syscall(0x40000000 | 39 /* getpid */), ENOSYS, ENOSYS, "x32");
}
#else
static int i386(void)
{
	return UNTRIED;
}

static int x32(void)
{
	return UNTRIED;
}
#endif

/* ---- credentials ---- */

static int descriptors(void)
{
	for (int fd = 3; fd < 70000; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			return say(WORKED, "descriptor");
	return BLOCKED;
}

static int init_files(void)
{
	static const char *const names[] = {"environ", "mem",  "maps",	   "fd",    "root",
					    "cwd",     "exe",  "ns/net",   "stack", "syscall",
					    "io",      "auxv", "map_files"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char path[64], buf[256];
		int fd;

		snprintf(path, sizeof(path), "/proc/1/%s", names[i]);
		fd = open(path, O_RDONLY);
		if (fd >= 0 && (strcmp(names[i], "fd") == 0 ||
				read(fd, buf, sizeof(buf)) >= 0 || errno == EISDIR))
			return say(WORKED, path);
		if (readlink(path, buf, sizeof(buf)) >= 0)
			return say(WORKED, path);
	}
	return BLOCKED;
}

static int init_attack(void)
{
	char byte;
	struct iovec local = {&byte, 1}, remote = {(void *)0x400000, 1};
	struct rlimit limit = {1, 1};
	int pidfd = (int)syscall(SYS_pidfd_open, 1, 0);

	if (ptrace(PTRACE_ATTACH, 1, 0, 0) == 0 || ptrace(PTRACE_SEIZE, 1, 0, 0) == 0)
		return say(WORKED, "ptrace");
	if (process_vm_readv(1, &local, 1, &remote, 1, 0) >= 0)
		return say(WORKED, "process_vm_readv");
	for (int fd = 0; pidfd >= 0 && fd < 64; fd++)
		if (syscall(SYS_pidfd_getfd, pidfd, fd, 0) >= 0)
			return say(WORKED, "pidfd_getfd");
	if (prlimit(1, RLIMIT_CPU, &limit, NULL) == 0)
		return say(WORKED, "prlimit");
	if (pidfd >= 0 && setns(pidfd, CLONE_NEWNS) == 0)
		return say(WORKED, "setns");
	return say(BLOCKED, "attacks on PID 1");
}

static int keyring(void)
{
	int fd;

	if (syscall(SYS_keyctl, 10 /* KEYCTL_SEARCH */, -3, "user", args[0], 0) >= 0 ||
	    syscall(SYS_keyctl, 11 /* KEYCTL_READ */, -3, NULL, 0) >= 0 ||
	    syscall(SYS_add_key, "user", "x", "y", 1, -4) >= 0 ||
	    syscall(SYS_request_key, "user", args[0], NULL, 0) >= 0)
		return say(WORKED, "keyring");
	if (errno != ENOSYS)
		return say(UNTRIED, "keyring");
	fd = open("/proc/keys", O_RDONLY);
	return fd >= 0 ? say(WORKED, "/proc/keys") : BLOCKED;
}

/* ---- escape ---- */

static int namespaces(void)
{
	const int flags[] = {CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWNET,	   CLONE_NEWPID,
			     CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP, 0x80};
	uint64_t clone_args[11] = {CLONE_NEWUSER};

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		if (unshare(flags[i]) == 0 || unshare(CLONE_NEWUSER | flags[i]) == 0)
			return say(WORKED, "unshare");
		if (flags[i] == 0x80)
			continue;
		long pid = syscall(SYS_clone, (unsigned long)flags[i] | SIGCHLD, 0, 0, 0, 0);

		if (pid == 0)
			_exit(0);
		if (pid > 0 || errno != EPERM)
			return say(WORKED, "clone");
	}
	if (syscall(SYS_clone3, clone_args, sizeof(clone_args)) >= 0 || errno != ENOSYS)
		return say(WORKED, "clone3");
	return BLOCKED;
}

static int mounts(void)
{
	struct stat st;

	if (mount("none", "/tmp", "tmpfs", 0, NULL) == 0 ||
	    mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL) == 0 ||
	    umount2("/proc/sys", MNT_DETACH) == 0 || umount2("/work", MNT_DETACH) == 0 ||
	    syscall(SYS_pivot_root, "/tmp", "/tmp") == 0 ||
	    syscall(SYS_open_tree, -100, "/", 1) >= 0 || syscall(SYS_fsopen, "tmpfs", 0) >= 0)
		return say(WORKED, "mount");
	if (mkdir("/tmp/c", 0700) < 0 && errno != EEXIST)
		return UNTRIED;
	if (chroot("/tmp/c") == 0)
		return say(WORKED, "chroot");
	for (int i = 0; i < 64; i++)
		if (chdir("..") < 0)
			return UNTRIED;
	if (stat("root", &st) == 0 || stat("boot", &st) == 0 || stat("work", &st) < 0)
		return say(WORKED, "..");
	return BLOCKED;
}

static int devices(void)
{
	if (mknod("/tmp/sda", S_IFBLK | 0600, makedev(8, 0)) == 0 ||
	    mknod("/tmp/mem", S_IFCHR | 0600, makedev(1, 1)) == 0)
		return say(WORKED, "mknod");
	return must_fail(-1, EPERM, EACCES, "mknod");
}

static int calls(void)
{
	const struct {
		long number;
		const char *name;
		int error;
	} table[] = {
	    {SYS_bpf, "bpf", EPERM},
	    {SYS_userfaultfd, "userfaultfd", EPERM},
	    {SYS_perf_event_open, "perf_event_open", EACCES},
	    {SYS_kcmp, "kcmp", EPERM},
	    {SYS_open_by_handle_at, "open_by_handle_at", EPERM},
	    {SYS_syslog, "syslog", EPERM},
	    {SYS_init_module, "init_module", EPERM},
	    {SYS_kexec_load, "kexec_load", EPERM},
	    {SYS_reboot, "reboot", EPERM},
	    {SYS_sethostname, "sethostname", EPERM},
	    {SYS_fanotify_init, "fanotify_init", EPERM},
	    {SYS_quotactl, "quotactl", EPERM},
	    {447, "memfd_secret", EPERM},
	    {SYS_settimeofday, "settimeofday", EPERM},
	    {SYS_swapon, "swapon", EPERM},
	    {SYS_acct, "acct", EPERM},
	    {999, "a call that does not exist", ENOSYS},
	    {SYS_keyctl, "keyctl", ENOSYS},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (syscall(table[i].number, 0, 0, 0, 0, 0, 0) >= 0 || errno != table[i].error)
			return say(WORKED, table[i].name);
	if (personality(READ_IMPLIES_EXEC) >= 0)
		return say(WORKED, "personality");
	return BLOCKED;
}

static int tiocsti(void)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY), slave;
	char byte = 'x';

	if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
		return say(UNTRIED, "pty");
	slave = open(ptsname(master), O_RDWR); /* becomes our terminal */
	if (slave < 0 || tcgetsid(slave) != getsid(0))
		fprintf(stderr, "no controlling terminal\n");
	if (ioctl(slave, TIOCSTI, &byte) == 0 ||
	    syscall(SYS_ioctl, (long)slave, 0x100000000L | TIOCSTI, &byte) == 0)
		return say(WORKED, "TIOCSTI");
	return must_fail(-1, EPERM, EPERM, "TIOCSTI");
}

/* Files that are there for root's sake, and that nobody here may change or see. */
static int host_files(void)
{
	static const char *const unreadable[] = {"/etc/shadow",
						 "/etc/ssh",
						 "/etc/sudoers",
						 "/root",
						 "/boot",
						 "/var/lib/dpkg",
						 "/run/dbus",
						 "/run/systemd",
						 "/sys/kernel",
						 "/sys/class",
						 "/sys/fs",
						 "/dev/sda",
						 "/dev/vda",
						 "/dev/mem",
						 "/dev/kvm",
						 "/dev/vsock",
						 "/dev/fuse",
						 "/dev/net",
						 "/dev/kmsg",
						 "/proc/kcore",
						 "/proc/kmsg",
						 "/proc/keys",
						 "/var/run/docker.sock",
						 "/home/user"};
	static const char *const unwritable[] = {"/proc/sys/kernel/core_pattern",
						 "/proc/sys/kernel/modprobe",
						 "/proc/sysrq-trigger",
						 "/proc/sys/net/ipv4/ip_forward",
						 "/proc/sys/user/max_user_namespaces",
						 "/etc/passwd",
						 "/etc/hosts",
						 "/usr/bin/env",
						 "/sys/devices/system/cpu/cpu0/online"};

	for (size_t i = 0; i < sizeof(unreadable) / sizeof(unreadable[0]); i++)
		if (open(unreadable[i], O_RDONLY) >= 0)
			return say(WORKED, unreadable[i]);
	for (size_t i = 0; i < sizeof(unwritable) / sizeof(unwritable[0]); i++)
		if (open(unwritable[i], O_WRONLY) >= 0)
			return say(WORKED, unwritable[i]);
	if (mkdir("/usr/x", 0700) == 0 || mkdir("/x", 0700) == 0 ||
	    mkdir("/etc/x", 0700) == 0 || chmod("/etc/passwd", 0666) == 0 ||
	    unlink("/etc/hosts") == 0 || rename("/work", "/w") == 0)
		return say(WORKED, "a change of the root");
	return BLOCKED;
}

/* No socket, no device beside /dev, no set-id bit that counts, anywhere. */
static int walk(const char *path, int depth)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int result = BLOCKED;

	while (dir && result == BLOCKED && (entry = readdir(dir))) {
		char next[4096];
		struct stat st;

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		snprintf(next, sizeof(next), "%s/%s", path, entry->d_name);
		if (!strcmp(next, "/proc") || lstat(next, &st) < 0)
			continue;
		if (S_ISSOCK(st.st_mode) || S_ISFIFO(st.st_mode) ||
		    ((S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)) &&
		     strncmp(next, "/dev/", 5) != 0))
			result = say(WORKED, next);
		else if (S_ISDIR(st.st_mode) && depth < 40)
			result = walk(next, depth + 1);
	}
	if (dir)
		closedir(dir);
	return result;
}

static int sockets_in_tree(void)
{
	return walk("", 0);
}

static int capabilities(void)
{
	char line[256];
	FILE *file = fopen("/proc/self/status", "r");
	int sets = 0;

	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, "Cap", 3) == 0) {
			sets++;
			if (strtoull(line + 7, NULL, 16))
				return say(WORKED, line);
		}
		if ((strncmp(line, "NoNewPrivs:", 11) == 0 && atoi(line + 11) != 1) ||
		    (strncmp(line, "Seccomp:", 8) == 0 && atoi(line + 8) != 2))
			return say(WORKED, line);
	}
	if (sets != 5)
		return UNTRIED;
	if (setuid(0) == 0 || setresuid(0, 0, 0) == 0 || setgid(0) == 0)
		return say(WORKED, "setuid");
	return getuid() == 0 || geteuid() == 0 ? WORKED : BLOCKED;
}

/* Signals at everything that a jail could reach. The payload must survive only what it sends
 * itself. */
static int kill_all(void)
{
	signal(SIGTERM, SIG_IGN);
	kill(1, SIGKILL);
	kill(1, SIGTERM);
	kill(1, SIGCHLD);
	kill(0, SIGTERM);
	kill(-1, SIGTERM);
	for (int pid = 2; pid < 100000; pid++)
		if (pid != getpid() && kill(pid, SIGKILL) == 0)
			return say(WORKED, "kill");
	return BLOCKED;
}

/* ---- status ---- */

/* A sibling of ours, which the helper could take for us. */
static int clone_parent(void)
{
	long pid = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);

	if (pid == 0)
		_exit(0);
	usleep(100000);
	return 42;
}

/* A daemon in a session of its own that ignores all it can and keeps our output open. */
static int daemon_left(void)
{
	for (int i = 0; i < 5; i++) {
		if (fork() == 0) {
			setsid();
			for (int sig = 1; sig < 32; sig++)
				signal(sig, SIG_IGN);
			if (fork() == 0)
				for (;;)
					pause();
			_exit(0);
		}
		wait(NULL);
	}
	return 0;
}

static int fork_bomb(void)
{
	int made = 0;

	for (;;) {
		pid_t pid = fork();

		if (pid == 0)
			for (;;)
				pause();
		if (pid < 0)
			break;
		made++;
	}
	printf("made %d\n", made);
	return made < atoi(args[0]) && errno == EAGAIN ? BLOCKED : WORKED;
}

static int memory_hog(void)
{
	for (;;) {
		char *block = mmap(NULL, 16 << 20, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (block == MAP_FAILED)
			return BLOCKED;
		memset(block, 1, 16 << 20);
	}
}

static int disk_hog(void)
{
	static char block[1 << 20];
	int fd = open(args[0], O_WRONLY | O_CREAT, 0600);

	memset(block, 1, sizeof(block));
	for (int i = 0; i < 10240; i++)
		if (write(fd, block, sizeof(block)) < 0)
			return must_fail(-1, ENOSPC, ENOSPC, "10 GB");
	return WORKED;
}

static int inode_hog(void)
{
	for (int i = 0; i < 2000000; i++) {
		char name[64];
		int fd;

		snprintf(name, sizeof(name), "/tmp/%d", i);
		fd = open(name, O_WRONLY | O_CREAT, 0600);
		if (fd < 0)
			return must_fail(-1, ENOSPC, ENOSPC, "inodes");
		close(fd);
	}
	return WORKED;
}

static int die_by(void)
{
	int sig = atoi(args[0]);
	sigset_t none;

	signal(sig, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	kill(getpid(), sig);
	usleep(200000);
	return 0;
}

/* What a fresh process must not find: ignored or blocked signals, limits that real programs
 * break on. */
static int clean_start(void)
{
	sigset_t blocked;
	struct rlimit core, files;
	mode_t mask = umask(022);

	sigprocmask(SIG_SETMASK, NULL, &blocked);
	for (int sig = 1; sig < SIGRTMAX; sig++) {
		struct sigaction action;

		if (sig == 32 || sig == 33)
			continue;
		sigaction(sig, NULL, &action);
		if (action.sa_handler != SIG_DFL || sigismember(&blocked, sig))
			return say(WORKED, "signals");
	}
	getrlimit(RLIMIT_CORE, &core);
	getrlimit(RLIMIT_NOFILE, &files);
	if (core.rlim_max != 1 || files.rlim_cur != 1024 || files.rlim_max < 4096)
		return say(WORKED, "limits");
	if (mask != 022 || getsid(0) != getpid() || getpgrp() != getpid())
		return say(WORKED, "session");
	return BLOCKED;
}

static const struct {
	const char *name;
	int (*run)(void);
} probes[] = {
    {"tcp", tcp},
    {"tcp6", tcp6},
    {"udp", udp},
    {"dns", dns},
    {"unix-path", unix_path},
    {"unix-abstract", unix_abstract},
    {"families", families},
    {"raw", raw},
    {"netlink", netlink},
    {"io-uring", io_uring},
    {"interfaces", interfaces},
    {"i386", i386},
    {"x32", x32},
    {"descriptors", descriptors},
    {"init-files", init_files},
    {"init-attack", init_attack},
    {"keyring", keyring},
    {"namespaces", namespaces},
    {"mounts", mounts},
    {"devices", devices},
    {"calls", calls},
    {"tiocsti", tiocsti},
    {"host-files", host_files},
    {"sockets-in-tree", sockets_in_tree},
    {"capabilities", capabilities},
    {"kill-all", kill_all},
    {"clone-parent", clone_parent},
    {"daemon-left", daemon_left},
    {"fork-bomb", fork_bomb},
    {"memory-hog", memory_hog},
    {"disk-hog", disk_hog},
    {"inode-hog", inode_hog},
    {"die-by", die_by},
    {"clean-start", clean_start},
};

int main(int argc, char **argv)
{
	args = argv + 2;
	for (size_t i = 0; argc > 1 && i < sizeof(probes) / sizeof(probes[0]); i++)
		if (strcmp(probes[i].name, argv[1]) == 0)
			return probes[i].run();
	fprintf(stderr, "jail_probe: unknown probe\n");
	return 99;
}
