/*
 * gen_jail_filter - writes the payload's and the idle process's seccomp filters as constant BPF
 *
 * Runs at build time; agent-jail links no libseccomp. The argument checks are assembled here,
 * because the kernel looks at the lower 32 bits of these arguments only and so must the
 * compare; libseccomp resolves the names and builds the search tree behind them. What is not
 * named here does not exist for the payload (ENOSYS), so that a C library falls back as on an
 * older kernel. tests/unit/sandbox/test_jail_filter.c runs the result for every call.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "pipeline/base/sha256.h"

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "the jail's filter has not been checked on this architecture"
#endif

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS /* Linux 6.6 */
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif

/* Numbers from here on are the x32 ABI on x86-64, and no call anywhere else. */
#define FOREIGN_ABI 0x40000000U

static const char *const allowed[] = {
    /* files */
    "read", "write", "open", "close", "stat", "fstat", "lstat", "lseek", "pread64", "pwrite64",
    "readv", "writev", "preadv", "pwritev", "preadv2", "pwritev2", "access", "faccessat",
    "faccessat2", "openat", "openat2", "creat", "close_range", "dup", "dup2", "dup3", "fcntl",
    "flock", "fsync", "fdatasync", "sync", "syncfs", "sync_file_range", "truncate", "ftruncate",
    "fallocate", "fadvise64", "readahead", "getdents", "getdents64", "getcwd", "chdir",
    "fchdir", "rename", "renameat", "renameat2", "mkdir", "mkdirat", "rmdir", "link", "linkat",
    "unlink", "unlinkat", "symlink", "symlinkat", "readlink", "readlinkat", "mknod", "mknodat",
    "chmod", "fchmod", "fchmodat", "chown", "fchown", "lchown", "fchownat", "umask",
    "newfstatat", "statx", "statfs", "fstatfs", "ustat", "utime", "utimes", "utimensat",
    "futimesat", "setxattr", "lsetxattr", "fsetxattr", "getxattr", "lgetxattr", "fgetxattr",
    "listxattr", "llistxattr", "flistxattr", "removexattr", "lremovexattr", "fremovexattr",
    "sendfile", "copy_file_range", "splice", "tee", "vmsplice", "name_to_handle_at", "ioctl",
    /* waiting */
    "poll", "ppoll", "select", "pselect6", "epoll_create", "epoll_create1", "epoll_ctl",
    "epoll_wait", "epoll_pwait", "epoll_pwait2", "eventfd", "eventfd2", "signalfd", "signalfd4",
    "timerfd_create", "timerfd_settime", "timerfd_gettime", "inotify_init", "inotify_init1",
    "inotify_add_watch", "inotify_rm_watch",
    /* memory */
    "mmap", "munmap", "mprotect", "mremap", "madvise", "brk", "msync", "mincore", "mlock",
    "mlock2", "munlock", "mlockall", "munlockall", "memfd_create", "remap_file_pages",
    "pkey_mprotect", "pkey_alloc", "pkey_free", "membarrier", "mbind", "set_mempolicy",
    "get_mempolicy", "move_pages", "migrate_pages", "process_madvise", "process_mrelease",
    /* processes */
    "clone", "fork", "vfork", "execve", "execveat", "exit", "exit_group", "wait4", "waitid",
    "getpid", "getppid", "gettid", "getpgid", "setpgid", "getpgrp", "setsid", "getsid", "kill",
    "tkill", "tgkill", "pidfd_open", "pidfd_send_signal", "ptrace", "process_vm_readv",
    "process_vm_writev", "prctl", "arch_prctl", "set_tid_address", "set_robust_list",
    "get_robust_list", "rseq", "unshare", "personality", "prlimit64", "getrlimit", "setrlimit",
    "getrusage", "times", "getpriority", "setpriority", "ioprio_get", "ioprio_set",
    "sched_yield", "sched_getaffinity", "sched_setaffinity", "sched_getparam", "sched_setparam",
    "sched_getscheduler", "sched_setscheduler", "sched_get_priority_max",
    "sched_get_priority_min", "sched_rr_get_interval", "sched_getattr", "sched_setattr",
    "getcpu", "capget", "capset", "seccomp", "landlock_create_ruleset", "landlock_add_rule",
    "landlock_restrict_self",
    /* signals, locks, time */
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigtimedwait",
    "rt_sigqueueinfo", "rt_tgsigqueueinfo", "rt_sigsuspend", "sigaltstack", "pause", "alarm",
    "restart_syscall", "futex", "futex_waitv", "getitimer", "setitimer", "timer_create",
    "timer_settime", "timer_gettime", "timer_getoverrun", "timer_delete", "nanosleep",
    "clock_nanosleep", "clock_gettime", "clock_getres", "gettimeofday", "time", "adjtimex",
    "clock_adjtime",
    /* ids: they fail by themselves, without capabilities */
    "getuid", "geteuid", "getgid", "getegid", "getresuid", "getresgid", "getgroups", "setuid",
    "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setfsuid", "setfsgid",
    "setgroups",
    /* sockets: the families are checked above */
    "socket", "socketpair", "bind", "listen", "accept", "accept4", "connect", "getsockname",
    "getpeername", "sendto", "recvfrom", "sendmsg", "recvmsg", "sendmmsg", "recvmmsg",
    "shutdown", "setsockopt", "getsockopt", "pipe", "pipe2",
    /* System V and POSIX queues of the jail's own IPC namespace */
    "shmget", "shmat", "shmdt", "shmctl", "semget", "semop", "semtimedop", "semctl", "msgget",
    "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive",
    "mq_notify", "mq_getsetattr",
    /* about the system */
    "uname", "sysinfo", "getrandom"};

/* Newer than the oldest libseccomp that we build with: name and number (the same on all
 * architectures). */
static const struct {
	const char *name;
	uint32_t number;
} newer[] = {{"cachestat", 451},  {"fchmodat2", 452},  {"map_shadow_stack", 453},
	     {"futex_wake", 454}, {"futex_wait", 455}, {"futex_requeue", 456},
	     {"mseal", 462}};

/* Known calls that programs probe for: they get the answer that they know how to take. */
static const char *const no_permission[] = {"mount",
					    "umount2",
					    "pivot_root",
					    "chroot",
					    "open_tree",
					    "move_mount",
					    "fsopen",
					    "fsconfig",
					    "fsmount",
					    "fspick",
					    "mount_setattr",
					    "setns",
					    "bpf",
					    "userfaultfd",
					    "kcmp",
					    "pidfd_getfd",
					    "open_by_handle_at",
					    "fanotify_init",
					    "fanotify_mark",
					    "quotactl",
					    "quotactl_fd",
					    "memfd_secret",
					    "syslog",
					    "sethostname",
					    "setdomainname",
					    "settimeofday",
					    "clock_settime",
					    "swapon",
					    "swapoff",
					    "reboot",
					    "kexec_load",
					    "kexec_file_load",
					    "init_module",
					    "finit_module",
					    "delete_module",
					    "acct",
					    "iopl",
					    "ioperm",
					    "vhangup",
					    "lookup_dcookie"};

/* Left out on purpose, and so ENOSYS: io_setup and its kin (fs.aio-max-nr counts for the whole machine:
 * one jail could take all of it); clone3 (its flags lie in memory; libc falls back to
 * clone), io_uring_* (makes sockets behind the filter's back), add_key, request_key, keyctl
 * (keyrings are not namespaced), modify_ldt, uselib, _sysctl, sysfs, nfsservctl,
 * set_mempolicy_home_node, and everything newer. */

/*
 * A program is a search over the call numbers, and behind it, for a call whose answer depends on its
 * arguments, the block that looks at them. Searched first, so that the kernel, which runs the search once
 * for every number to know those that it need not ask about any more, has few steps to go.
 */
static struct sock_filter code[1024];
static unsigned code_len;

#define TABLE_SIZE 1024
/* For `agent audit`: on what the answer to a call depends, NULL: on its number alone. */
static const char *conditions[TABLE_SIZE];
/* Where a call's block begins among the blocks, plus one; 0: it has none. */
static unsigned blocks[TABLE_SIZE];

static void emit(uint16_t op, uint32_t k, uint8_t yes, uint8_t no)
{
	if (code_len == sizeof(code) / sizeof(code[0]))
		abort();
	code[code_len++] = (struct sock_filter){op, yes, no, k};
}

static void ret(uint32_t action)
{
	emit(BPF_RET | BPF_K, action, 0, 0);
}

static void load(size_t offset)
{
	emit(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

/* Lower half of an argument; both architectures are little endian. */
static void load_arg(unsigned index)
{
	load(offsetof(struct seccomp_data, args) + 8 * index);
}

static uint32_t error_of(int number)
{
	return SECCOMP_RET_ERRNO | (uint32_t)number;
}

/* What follows, which must end in a return, is for this call. */
static void begin_block(uint32_t number)
{
	blocks[number] = code_len + 1;
}

/* One of the values: allowed. */
static void allow_equal(uint32_t value)
{
	emit(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
	ret(SECCOMP_RET_ALLOW);
}

static void refuse_equal(uint32_t value, int error)
{
	emit(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
	ret(error_of(error));
}

static void refuse_flags(uint32_t number, unsigned arg, uint32_t flags, int error)
{
	begin_block(number);
	load_arg(arg);
	emit(BPF_JMP | BPF_JSET | BPF_K, flags, 0, 1);
	ret(error_of(error));
	ret(SECCOMP_RET_ALLOW);
}

/*
 * Families, and of the internet's the protocols that every kernel has built in: asking for another makes
 * the host load a module for it (sctp, dccp, l2tp …), without any capability. MPTCP callers fall back.
 */
static void check_families(uint32_t number)
{
	begin_block(number);
	load_arg(0);
	allow_equal(AF_UNIX);
	emit(BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 7, 0); /* to the protocols below */
	emit(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 6, 0);
	emit(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 1, 0);
	ret(error_of(EAFNOSUPPORT));
	load_arg(2);
	allow_equal(0); /* NETLINK_ROUTE: getifaddrs(3) */
	ret(error_of(EPROTONOSUPPORT));
	load_arg(2);
	allow_equal(0);
	allow_equal(IPPROTO_ICMP);
	allow_equal(IPPROTO_TCP);
	allow_equal(IPPROTO_UDP);
	allow_equal(IPPROTO_ICMPV6);
	ret(error_of(EPROTONOSUPPORT));
}

/*
 * Told to the observer (jail/observe.h) and then carried out as if nothing were: calls that name an address
 * of the internet, known by its length alone, for a filter cannot look at what an argument points to. The
 * lengths are those of sockaddr_in and sockaddr_in6, and whatever is longer than a unix socket's can be.
 */
static void tell_addresses(uint32_t number, unsigned len_arg)
{
	begin_block(number);
	load_arg(len_arg);
	emit(BPF_JMP | BPF_JEQ | BPF_K, sizeof(struct sockaddr_in), 2, 0);
	emit(BPF_JMP | BPF_JEQ | BPF_K, sizeof(struct sockaddr_in6), 1, 0);
	emit(BPF_JMP | BPF_JGE | BPF_K, sizeof(struct sockaddr_un) + 1, 0, 1);
	ret(SECCOMP_RET_USER_NOTIF);
	ret(SECCOMP_RET_ALLOW);
}

/* A second listener is what the kernel refuses (EBUSY) below the observer's: told, so that people hear why. */
static void tell_listeners(void)
{
	begin_block(SYS_seccomp);
	load_arg(0);
	emit(BPF_JMP | BPF_JEQ | BPF_K, SECCOMP_SET_MODE_FILTER, 0, 3);
	load_arg(1);
	emit(BPF_JMP | BPF_JSET | BPF_K, SECCOMP_FILTER_FLAG_NEW_LISTENER, 0, 1);
	ret(SECCOMP_RET_USER_NOTIF);
	ret(SECCOMP_RET_ALLOW);
}

static void check_observed(bool observed)
{
	conditions[SYS_connect] = conditions[SYS_sendto] = conditions[SYS_seccomp] = NULL;
	if (observed) {
		conditions[SYS_connect] = conditions[SYS_sendto] =
		    "told to the observer, and allowed, with an address of 16, 28 or more than "
		    "110 "
		    "bytes";
		tell_addresses(SYS_connect, 2);
		tell_addresses(SYS_sendto, 5);
		conditions[SYS_seccomp] =
		    "told to the observer, and allowed (to fail by EBUSY), with "
		    "SECCOMP_FILTER_FLAG_NEW_LISTENER";
		tell_listeners();
	}
}

/* gVisor's kernel asks nobody whether the owner of a descriptor may be sent its signal: with these two, PID 1
 * would be dead or stopped. */
static void check_owners_signal(void)
{
	begin_block(SYS_fcntl);
	conditions[SYS_fcntl] = "not F_SETSIG with SIGKILL or SIGSTOP (else EPERM)";
	load_arg(1);
	emit(BPF_JMP | BPF_JEQ | BPF_K, F_SETSIG, 1, 0);
	ret(SECCOMP_RET_ALLOW);
	load_arg(2);
	refuse_equal(SIGKILL, EPERM);
	refuse_equal(SIGSTOP, EPERM);
	ret(SECCOMP_RET_ALLOW);
}

static void check_arguments(bool observed)
{
	const uint32_t namespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
				    CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;

	check_observed(observed);
	check_owners_signal();
	conditions[SYS_clone] = "no new namespace (else EPERM)";
	refuse_flags(SYS_clone, 0, namespaces, EPERM);
	conditions[SYS_unshare] = "no new namespace (else EPERM)";
	refuse_flags(SYS_unshare, 0,
		     namespaces | 0x80 /* CLONE_NEWTIME; of clone(2) that is the signal */,
		     EPERM);
	/* The machine's pool of huge pages is counted by no group that we have: as where there is none. */
	conditions[SYS_mmap] = "not MAP_HUGETLB (else ENOMEM)";
	refuse_flags(SYS_mmap, 3, MAP_HUGETLB, ENOMEM);
	conditions[SYS_memfd_create] = "not MFD_HUGETLB (else ENOSYS)";
	refuse_flags(SYS_memfd_create, 1, MFD_HUGETLB, ENOSYS);
	conditions[SYS_shmget] = "not SHM_HUGETLB (else EPERM)";
	refuse_flags(SYS_shmget, 2, SHM_HUGETLB, EPERM);
	conditions[SYS_socket] = conditions[SYS_socketpair] =
	    "AF_UNIX; AF_INET and AF_INET6 with TCP, UDP, ICMP; AF_NETLINK with NETLINK_ROUTE "
	    "(else EAFNOSUPPORT, EPROTONOSUPPORT)";
	check_families(SYS_socket);
	blocks[SYS_socketpair] = blocks[SYS_socket];

	conditions[SYS_ioctl] = "not TIOCSTI, TIOCLINUX, TIOCCONS (else EPERM)";
	begin_block(SYS_ioctl);
	load_arg(1);
	refuse_equal(TIOCSTI, EPERM);
	refuse_equal(TIOCLINUX, EPERM);
	refuse_equal(TIOCCONS, EPERM);
	ret(SECCOMP_RET_ALLOW);

	conditions[SYS_personality] =
	    "PER_LINUX, PER_LINUX32, UNAME26, ADDR_NO_RANDOMIZE, or to ask (else EPERM)";
	begin_block(SYS_personality);
	load_arg(0);
	allow_equal(0xffffffff); /* asks only */
	allow_equal(PER_LINUX);
	allow_equal(PER_LINUX32);
	allow_equal(UNAME26);
	allow_equal(ADDR_NO_RANDOMIZE); /* gdb, ThreadSanitizer */
	allow_equal(PER_LINUX32 | ADDR_NO_RANDOMIZE);
	ret(error_of(EPERM));

	conditions[SYS_prlimit64] = "one's own limits (else EPERM)";
	begin_block(SYS_prlimit64);
	load_arg(0);
	allow_equal(0);
	ret(error_of(EPERM));
}

static void check_architecture(void)
{
	load(offsetof(struct seccomp_data, arch));
	emit(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0);
	ret(SECCOMP_RET_KILL_PROCESS);
	load(offsetof(struct seccomp_data, nr));
	emit(BPF_JMP | BPF_JGE | BPF_K, FOREIGN_ABI, 0, 1);
	ret(error_of(ENOSYS));
}

/* ---- the table: an answer a number ---- */

static uint32_t answers[TABLE_SIZE];

static void fill(uint32_t otherwise)
{
	for (unsigned i = 0; i < TABLE_SIZE; i++)
		answers[i] = otherwise;
}

static void answer(uint32_t action, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int number = seccomp_syscall_resolve_name(names[i]);

		if (number == __NR_SCMP_ERROR || number >= TABLE_SIZE) {
			fprintf(stderr, "gen_jail_filter: unknown call %s\n", names[i]);
			exit(1);
		}
		if (number >= 0) /* negative: a call that this architecture does not have */
			answers[number] = action;
	}
}

/* Whether a number is answered as the one before it. */
static bool same_as_before(unsigned number)
{
	return !blocks[number] && !blocks[number - 1] && answers[number] == answers[number - 1];
}

/* Jumps of the search that lead out of it: to the answer of a number. */
static struct exit_jump {
	unsigned at; /* the instruction */
	bool yes;    /* which of its two ways */
	unsigned number;
} exits[2 * TABLE_SIZE];
static unsigned exit_count;

static void set_jump(unsigned at, bool yes, unsigned to)
{
	unsigned offset = to - at - 1;

	if (offset > 255)
		abort();
	*(yes ? &code[at].jt : &code[at].jf) = (uint8_t)offset;
}

/* Finds the numbers from..to-1 by halving; those at the ends stand for all beyond. */
static void search(unsigned from, unsigned to)
{
	unsigned starts[TABLE_SIZE], runs = 0, ends[3], at = code_len;

	for (unsigned i = from; i < to; i++)
		if (i == from || !same_as_before(i))
			starts[runs++] = i;
	if (runs < 2)
		abort();
	ends[0] = from;
	ends[1] = starts[runs / 2];
	ends[2] = to;
	emit(BPF_JMP | BPF_JGE | BPF_K, ends[1], 0, 0);
	for (unsigned half = 0; half < 2; half++) {
		unsigned halves_runs = half ? runs - runs / 2 : runs / 2;

		if (halves_runs == 1) {
			exits[exit_count++] = (struct exit_jump){at, half, ends[half]};
			continue;
		}
		set_jump(at, half, code_len);
		search(ends[half], ends[half + 1]);
	}
}

/* Behind the search, once each: its answers, and the ways to the blocks, which lie too far off for a jump. */
static void answer_exits(void)
{
	for (unsigned i = 0; i < exit_count; i++) {
		unsigned number = exits[i].number, to = code_len;

		for (unsigned k = 0; k < i && to == code_len && !blocks[number]; k++) {
			unsigned other = exits[k].number;
			const struct sock_filter *jump = &code[exits[k].at];

			if (!blocks[other] && answers[other] == answers[number])
				to = exits[k].at + 1 + (exits[k].yes ? jump->jt : jump->jf);
		}
		set_jump(exits[i].at, exits[i].yes, to);
		if (to != code_len)
			continue;
		if (blocks[number])
			emit(BPF_JMP | BPF_JA, blocks[number] - 1, 0, 0);
		else
			ret(answers[number]);
	}
	for (unsigned i = 0; i < code_len; i++)
		if (code[i].code == (BPF_JMP | BPF_JA))
			code[i].k += code_len - 1 - i;
}

/* The blocks are in code: puts what leads to them in front. */
static void assemble(void)
{
	static struct sock_filter bodies[sizeof(code) / sizeof(code[0])];
	unsigned bodies_len = code_len;

	memcpy(bodies, code, code_len * sizeof(code[0]));
	code_len = exit_count = 0;
	check_architecture();
	search(0, TABLE_SIZE);
	answer_exits();
	if (code_len + bodies_len > sizeof(code) / sizeof(code[0]))
		abort();
	memcpy(code + code_len, bodies, bodies_len * sizeof(code[0]));
	code_len += bodies_len;
	memset(blocks, 0, sizeof(blocks));
}

/* SHA-256 of the program's bytes as the kernel takes them. */
static void print_digest(const char *name)
{
	char hex[65];

	sha256_hex(code, code_len * sizeof(code[0]), hex);
	printf("#define %s_digest \"%s\"\n", name, hex);
}

static void print(const char *name)
{
	printf("static const struct sock_filter %s[] = {\n", name);
	for (unsigned i = 0; i < code_len; i++)
		printf("    {0x%02x, %u, %u, 0x%08x},\n", code[i].code, code[i].jt, code[i].jf,
		       code[i].k);
	printf("};\n");
	print_digest(name);
	code_len = 0;
}

/* A call's name; NULL for a number that is none. The caller frees. */
static char *name_of(int number)
{
	for (size_t i = 0; i < sizeof(newer) / sizeof(newer[0]); i++)
		if ((int)newer[i].number == number)
			return strdup(newer[i].name);
	return seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, number);
}

/* The same answers as a table, for those who tell what the filter does. */
static void print_answers(const char *filter)
{
	printf("#ifdef JAIL_FILTER_TABLE\n"
	       "static const struct jail_answer %s_answers[] = {\n",
	       filter);
	for (int i = 0; i < TABLE_SIZE; i++) {
		char *name = name_of(i);

		if (name && conditions[i])
			printf("    {\"%s\", %d, 0x%08x, \"%s\"},\n", name, i, answers[i],
			       conditions[i]);
		else if (name)
			printf("    {\"%s\", %d, 0x%08x, NULL},\n", name, i, answers[i]);
		free(name);
	}
	printf("};\n#endif\n");
}

static void make_payload_filter(bool observed, const char *name)
{
	static const char *const no_access[] = {"perf_event_open"};

	fill(error_of(ENOSYS));
	answer(SECCOMP_RET_ALLOW, allowed, sizeof(allowed) / sizeof(allowed[0]));
	answer(error_of(EPERM), no_permission,
	       sizeof(no_permission) / sizeof(no_permission[0]));
	answer(error_of(EACCES), no_access, 1);
	for (size_t i = 0; i < sizeof(newer) / sizeof(newer[0]); i++)
		answers[newer[i].number] = SECCOMP_RET_ALLOW;
	check_arguments(observed);
	assemble();
	print(name);
	print_answers(name);
}

/* For processes of our own that do one thing only: PID 1 reads its pipe to the end and exits, a sweeper closes. */
static void make_small_filter(const char *only, const char *name)
{
	const char *const calls[] = {only, "exit_group", "rt_sigreturn", "restart_syscall"};

	fill(SECCOMP_RET_KILL_PROCESS);
	answer(SECCOMP_RET_ALLOW, calls, sizeof(calls) / sizeof(calls[0]));
	assemble();
	print(name);
}

/*
 * PID 1 as observer: it reads what others do (jail/observe.c), answers on sockets that it has, and opens
 * files of /proc for reading. Of the listener it may not use what puts descriptors into others.
 */
static void make_observer_filter(void)
{
	static const char *const calls[] = {
	    "read",	"recvfrom",	   "recvmsg",  "sendto",     "sendmsg",
	    "accept4",	"close",	   "poll",     "ppoll",	     "process_vm_readv",
	    "readlink", "readlinkat",	   "getxattr", "exit_group", "rt_sigreturn",
	    "openat",	"restart_syscall", "ioctl"};

	fill(SECCOMP_RET_KILL_PROCESS);
	answer(SECCOMP_RET_ALLOW, calls, sizeof(calls) / sizeof(calls[0]));
	begin_block(SYS_ioctl);
	load_arg(1);
	allow_equal(SECCOMP_IOCTL_NOTIF_RECV);
	allow_equal(SECCOMP_IOCTL_NOTIF_SEND);
	allow_equal(SECCOMP_IOCTL_NOTIF_ID_VALID);
	allow_equal(SECCOMP_IOCTL_NOTIF_SET_FLAGS);
	ret(SECCOMP_RET_KILL_PROCESS);
	begin_block(SYS_openat);
	load_arg(2);
	allow_equal(O_RDONLY | O_CLOEXEC);
	ret(SECCOMP_RET_KILL_PROCESS);
	assemble();
	print("jail_observer_filter");
}

int main(void)
{
	printf("/* made by sandbox/gen_jail_filter.c */\n");
	make_payload_filter(false, "jail_payload_filter");
	make_payload_filter(true, "jail_observed_filter");
	make_small_filter("read", "jail_idle_filter");
	make_small_filter("close_range", "jail_sweeper_filter");
	make_observer_filter();
	return 0;
}
