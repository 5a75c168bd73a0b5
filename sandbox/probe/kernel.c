/* Attacks by system calls, signals and tracing: the second half of section 2.3. See probe.h. */
#include "sandbox/probe/probe.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- capabilities ---- */

ATTACK(regain_capabilities)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct all[2] = {{~0U, ~0U, ~0U}, {0x1ff, 0x1ff, 0x1ff}};
	static char status[8192];
	int sets = 0;

	REFUSED("all capabilities", syscall(SYS_capset, &head, all), EPERM);
	all[0].effective = all[0].permitted = 0;
	all[1].effective = all[1].permitted = 0;
	REFUSED("inheritable capabilities", syscall(SYS_capset, &head, all), EPERM);
	for (int cap = 0; cap < 41; cap++)
		REFUSED("an ambient capability",
			prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0), EPERM, EINVAL);
	if (geteuid() != 0) {
		REFUSED("setuid(0)", setuid(0), EPERM, EINVAL);
		REFUSED("setresuid(0)", setresuid(0, 0, 0), EPERM, EINVAL);
		REFUSED("setgid(0)", setgid(0), EPERM, EINVAL);
	}
	if (read_path("/proc/self/status", status, sizeof(status)) <= 0) {
		surprise("/proc/self/status cannot be read");
		return;
	}
	for (char *at = status; (at = strstr(at, "\nCap")); at += 4) {
		unsigned long long set = strtoull(at + 8, NULL, 16);

		/* a bounding set alone gives nothing, but a uid 0 would take from it */
		if (set && strncmp(at + 1, "CapBnd", 6) != 0)
			worked("%.7s is %llx", at + 1, set);
		sets++;
	}
	if (sets != 5)
		surprise("%d sets of capabilities", sets);
}

/* ---- tracing ---- */

#ifdef __x86_64__
static int traced(void *data)
{
	(void)data;
	ptrace(PTRACE_TRACEME, 0, 0, 0);
	raise(SIGSTOP);
	return syscall(SYS_getpid, CLONE_NEWUSER) == 0 ? WORKED : BLOCKED;
}

/* getpid(CLONE_NEWUSER), made unshare(CLONE_NEWUSER) behind the filter's back. */
ATTACK(trace_past_filter)
{
	struct user_regs_struct regs;
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(traced(NULL));
	if (waitpid(pid, &status, 0) < 0 || !WIFSTOPPED(status)) {
		absent("a child cannot be traced");
		return;
	}
	while (ptrace(PTRACE_SYSCALL, pid, 0, 0) == 0 && waitpid(pid, &status, 0) == pid &&
	       WIFSTOPPED(status)) {
		if (ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0 && regs.orig_rax == SYS_getpid &&
		    regs.rdi == CLONE_NEWUSER && regs.rax == (unsigned long long)-ENOSYS) {
			regs.orig_rax = SYS_unshare;
			ptrace(PTRACE_SETREGS, pid, 0, &regs);
		}
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == WORKED)
		worked("a call that the filter refuses, put in place of another by a tracer");
	else if (WIFEXITED(status) && WEXITSTATUS(status) == BLOCKED)
		blocked("the filter sees the changed call");
	else
		surprise("status %x", status);
}
#else
ATTACK(trace_past_filter)
{
	absent("written for x86-64 only");
}
#endif

/* ---- system calls ---- */

ATTACK(bpf)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_type = BPF_MAP_TYPE_ARRAY;
	attr.key_size = attr.value_size = 4;
	attr.max_entries = 1;
	REFUSED("a BPF map", syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr)), EPERM,
		ENOSYS);
	memset(&attr, 0, sizeof(attr));
	REFUSED("a BPF program", syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr)), EPERM,
		ENOSYS);
}

ATTACK(perf)
{
	struct perf_event_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.size = sizeof(attr);
	attr.type = PERF_TYPE_SOFTWARE;
	attr.config = PERF_COUNT_SW_CONTEXT_SWITCHES;
	attr.exclude_kernel = 1;
	REFUSED("a counter of our own", syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0),
		EACCES, EPERM, ENOSYS);
	attr.exclude_kernel = 0;
	REFUSED("a counter of a processor", syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0),
		EACCES, EPERM, ENOSYS);
}

ATTACK(user_faults)
{
	REFUSED("userfaultfd", syscall(SYS_userfaultfd, O_CLOEXEC), EPERM, ENOSYS);
	REFUSED("userfaultfd for user mode", syscall(SYS_userfaultfd, O_CLOEXEC | 1), EPERM,
		ENOSYS);
	try_open("/dev/userfaultfd", O_RDWR);
}

ATTACK(key_upcall)
{
	long key = syscall(SYS_request_key, "user", mark(), "attack", -2);

	/* ENOKEY: the kernel has asked /sbin/request-key, as root; ENOENT: it wanted to, and there is none */
	if (key >= 0 || errno == ENOKEY || errno == ENOENT || errno == EDQUOT)
		worked("request_key reaches the kernel's helper");
	else
		REFUSED("request_key", key, ENOSYS, EPERM, EACCES);
}

ATTACK(type_into_terminal)
{
	char byte = '#';
	int terminals[] = {0, 1, 2, open("/dev/tty", O_RDWR | O_CLOEXEC)};

	for (size_t i = 0; i < LEN(terminals); i++) {
		if (terminals[i] < 0)
			continue;
		REFUSED("TIOCSTI", ioctl(terminals[i], TIOCSTI, &byte), EPERM, ENOTTY, EIO,
			EACCES);
		REFUSED("TIOCSTI with a high half",
			syscall(SYS_ioctl, (long)terminals[i], 0x100000000L | TIOCSTI, &byte),
			EPERM, ENOTTY, EIO, EACCES);
	}
	if (isatty(0))
		REFUSED("TIOCLINUX", ioctl(0, TIOCLINUX, &byte), EPERM, ENOTTY, EINVAL);
}

/* ---- races, signals ---- */

ATTACK(flip_address)
{
	struct sockaddr_in *shared =
	    mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct in_addr inside, outside;
	pid_t pid;

	if (shared == MAP_FAILED)
		return;
	inet_pton(AF_INET, "127.0.0.1", &inside);
	inet_pton(AF_INET, arg_or("host4", "1.1.1.1"), &outside);
	if (arg("host4") && strncmp(arg("host4"), "127.", 4) == 0)
		inet_pton(AF_INET, "127.9.9.9", &inside);
	shared->sin_family = AF_INET;
	shared->sin_port = htons((uint16_t)arg_number("port", 443));
	pid = fork();
	if (pid == 0)
		for (;;) {
			shared->sin_addr = inside;
			__sync_synchronize();
			shared->sin_addr = outside;
			__sync_synchronize();
		}
	for (int i = 0; i < 5000; i++) {
		int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		struct sockaddr_in peer;
		socklen_t len = sizeof(peer);

		if (connect(sock, (struct sockaddr *)shared, sizeof(*shared)) == 0 &&
		    getpeername(sock, (struct sockaddr *)&peer, &len) == 0 &&
		    peer.sin_addr.s_addr == outside.s_addr)
			worked("an address that changes while it is judged: connected to the "
			       "outside");
		close(sock);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	blocked("an address that changes while it is judged: never the outside");
}

/* The host compares what it was told with 42. */
ATTACK(sibling)
{
	long pid = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);

	if (pid == 0)
		_exit(0);
	usleep(50000);
	done("a sibling that ends with 0%s; we end with 42", pid < 0 ? " was refused" : "");
	notes_print("E50");
	_exit(42);
}

ATTACK(ignored_child)
{
	done("the caller ignores SIGCHLD; we end with 42");
	notes_print("E51");
	_exit(42);
}

ATTACK(kill_everybody)
{
	int sig = arg("safe") ? 0 : SIGKILL;

	if (arg("group"))
		REFUSED("SIGKILL to a group outside", kill(-(pid_t)arg_number("group", 0), sig),
			ESRCH, EPERM);
	if (arg("pid"))
		REFUSED("SIGKILL to a process outside", kill((pid_t)arg_number("pid", 0), sig),
			ESRCH, EPERM);
	if (kill(-1, sig) < 0 && errno != ESRCH && errno != EPERM)
		surprise("kill(-1): %s", strerrorname_np(errno));
	if (!notes_worked())
		done("SIGKILL to all and to the own group");
	notes_print("E52");
	if (!notes_worked() || !sig)
		kill(0, sig);
	_exit(notes_verdict());
}

/* ---- clock, code, what holds ---- */

ATTACK(clocks)
{
	struct timex state;
	struct timespec now;
	struct timeval day;

	memset(&state, 0, sizeof(state));
	if (adjtimex(&state) < 0) {
		surprise("adjtimex cannot even ask");
		return;
	}
	state.modes = ADJ_STATUS; /* to what it is */
	REFUSED("adjtimex", adjtimex(&state), EPERM);
	if (notes_worked())
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	REFUSED("clock_settime", clock_settime(CLOCK_REALTIME, &now), EPERM);
	day.tv_sec = now.tv_sec;
	day.tv_usec = now.tv_nsec / 1000;
	REFUSED("settimeofday", settimeofday(&day, NULL), EPERM);
}

ATTACK(anonymous_code)
{
	int memory = memfd_create("attack", MFD_CLOEXEC),
	    self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	char id[] = "E59", name[] = "attack-probe";
	char *argv[] = {name, id, NULL}, *env[] = {NULL};
	char buf[65536];
	ssize_t n;
	int status;
	pid_t pid;

	if (memory < 0) {
		REFUSED("memfd_create", -1, EPERM, ENOSYS, EACCES);
		return;
	}
	while ((n = read(self, buf, sizeof(buf))) > 0)
		if (write(memory, buf, (size_t)n) != n)
			break;
	pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

		dup2(null, 1);
		fexecve(memory, argv, env);
		_exit(BLOCKED);
	}
	waitpid(pid, &status, 0);
	close(self);
	close(memory);
	if (WIFEXITED(status) && WEXITSTATUS(status) == WORKED)
		worked("code from memory runs, and without the walls");
	else if (WIFEXITED(status) && WEXITSTATUS(status) == BLOCKED)
		blocked("code from memory runs, behind the same walls");
	else
		surprise("status %x", status);
}

ATTACK(bare_status)
{
	static char status[8192];
	static const char *const lines[] = {
	    "\nNoNewPrivs:\t1\n", "\nSeccomp:\t2\n", "\nCapEff:\t0000000000000000\n",
	    "\nCapPrm:\t0000000000000000\n", "\nCapBnd:\t0000000000000000\n"};
	size_t first = 0;

	if (read_path("/proc/self/status", status, sizeof(status)) <= 0) {
		surprise("/proc/self/status cannot be read");
		return;
	}
	/* gVisor has no line for the first, and answers the call */
	if (!strstr(status, "\nNoNewPrivs:") && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		first = 1;
	for (size_t i = first; i < LEN(lines); i++)
		if (!strstr(status, lines[i]))
			worked("not so:%.*s", (int)strcspn(lines[i] + 1, "\n"), lines[i] + 1);
	blocked("no new privileges, a filter, no capabilities");
}

ATTACK(kernel_bugs)
{
	absent("a bug of the kernel in a call that is allowed: what answers is a stronger "
	       "backend and a short list of calls");
}

ATTACK(machine_devices)
{
	static const char *const files[] = {"/dev/vport0p1",
					    "/dev/hvc0",
					    "/dev/vhost-vsock",
					    "/dev/vhost-net",
					    "/dev/mem",
					    "/dev/cpu/0/msr",
					    "/dev/virtio-ports/org.qemu.guest_agent.0",
					    "/sys/bus/pci/devices/0000:00:00.0/config",
					    "/sys/firmware/dmi/tables/DMI"};

	for (size_t i = 0; i < LEN(files); i++)
		try_open(files[i], O_RDONLY);
#ifdef __x86_64__
	REFUSED("ports of the machine: iopl", iopl(3), EPERM, ENOSYS);
	REFUSED("ports of the machine: ioperm", ioperm(0x70, 2, 1), EPERM, ENOSYS);
#endif
}

static bool write_block_device(const char *path, unsigned char type)
{
	if (type == DT_BLK)
		try_open(path, O_WRONLY);
	return true;
}

ATTACK(disk_images)
{
	static const char *const names[] = {"/dev/vda", "/dev/vdb", "/dev/sda", "/dev/sdb",
					    "/dev/nvme0n1"};

	for (size_t i = 0; i < LEN(names); i++)
		try_open(names[i], O_WRONLY);
	walk("/dev", 2, write_block_device);
}

ATTACK(shares)
{
	FILE *table = fopen("/proc/self/mounts", "re");
	char line[8192], point[4096], type[64];

	while (table && fgets(line, sizeof(line), table)) {
		if (sscanf(line, "%*s %4095s %63s", point, type) != 2 ||
		    (strcmp(type, "virtiofs") != 0 && strcmp(type, "9p") != 0 &&
		     strncmp(type, "nfs", 3) != 0 && strncmp(type, "fuse", 4) != 0))
			continue;
		REFUSED(text("the share %s made writable", point),
			mount(NULL, point, NULL, MS_REMOUNT, NULL), EPERM, ENOSYS);
	}
	if (table)
		fclose(table);
	blocked("no share of another machine's is mounted");
}

ATTACK(root_inside)
{
	if (getuid() == 0 || geteuid() == 0 || getgid() == 0 || getegid() == 0)
		worked("uid %u, gid %u", geteuid(), getegid());
	blocked("uid %u, gid %u", geteuid(), getegid());
}
