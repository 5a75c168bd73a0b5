/*
 * Build-time generator: compiles the seccomp profiles of our own stages with libseccomp and
 * prints them as constant arrays of BPF instructions ($(B)/gen/filters.h), so that no program
 * links libseccomp. The one owner of seccomp.h. sandbox/restrict.c installs the arrays.
 *
 * The profiles are allow-lists. What becomes of a call that is not on the list:
 *
 *   - A call that this list does not name at all (rare, or newer than it) fails with ENOSYS, so
 * that a newer libc takes its older way instead of dying.
 *   - A call that is named as dangerous (tracing, namespaces, mounts, keys, BPF, io_uring, exec
 * …) has no honest caller in a stage. In FILTER_QUIET and FILTER_PUMP it kills the process: the
 *     supervisor sees SIGSYS, which is an alarm that an errno would hide. In FILTER_LAUNCHER it
 * fails with EPERM, because programs that are not ours run below that filter and probe for
 * features.
 *   - Calls that change what Landlock does not guard (mode, owner, times, extended attributes
 * and length by path) fail with EPERM: with them a stage that runs as the user could harm any
 * file of the user's without opening it. Their forms on a descriptor are allowed where a row
 * writes files: the descriptor came through Landlock.
 *
 * Arguments are 32-bit values in the kernel where they are compared here, so every comparison
 * masks them: garbage in the upper half can neither pass nor break a rule. Calls from another
 * ABI (i386, x32) kill the process.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/filter_self.h"

#define LOW32 0xffffffffu
#define IS(arg, value) SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, LOW32, (scmp_datum_t)(value)&LOW32)
#define BITS(arg, mask, value) SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, mask, value)
#define NULL_POINTER(arg) SCMP_CMP(arg, SCMP_CMP_EQ, 0)

#define CLONE_NAMESPACES                                                                       \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |         \
	 CLONE_NEWPID | CLONE_NEWNET)

/* linux/fs.h clashes with sys/mount.h in some versions; these are ABI. */
#define IOCTL_FICLONE 0x40049409u
#define IOCTL_FICLONERANGE 0x4020940du
#define OPTION_SET_VMA 0x53564d41 /* PR_SET_VMA: libc names its mappings */

enum profile { QUIET, PUMP, LAUNCHER };

/* ---- lists ---- */

/* What every process of ours does: files already allowed by Landlock, memory, time, waiting. */
static const char *const calls_common[] = {
    /* files */
    "read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "preadv2",
    "pwritev2", "open", "openat", "openat2", "creat", "close", "close_range", "lseek", "stat",
    "fstat", "lstat", "newfstatat", "statx", "statfs", "fstatfs", "access", "faccessat",
    "faccessat2", "getdents", "getdents64", "readlink", "readlinkat", "rename", "renameat",
    "renameat2", "link", "linkat", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "symlink",
    "symlinkat", "ftruncate", "fallocate", "fsync", "fdatasync", "sync_file_range", "umask",
    "getcwd", "chdir", "fchdir", "flock", "dup", "dup2", "dup3", "pipe", "pipe2", "sendfile",
    "copy_file_range", "splice", "fadvise64", "readahead", "getxattr", "lgetxattr", "fgetxattr",
    "listxattr", "llistxattr", "flistxattr",
    /* memory (mmap and mprotect: see add_memory) */
    "munmap", "mremap", "madvise", "brk", "msync", "mincore", "mlock", "mlock2", "munlock",
    "membarrier",
    /* waiting and time */
    "poll", "ppoll", "select", "pselect6", "epoll_create", "epoll_create1", "epoll_ctl",
    "epoll_wait", "epoll_pwait", "epoll_pwait2", "eventfd", "eventfd2", "timerfd_create",
    "timerfd_settime", "timerfd_gettime", "signalfd", "signalfd4", "clock_gettime",
    "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time", "times", "alarm",
    "setitimer", "getitimer", "futex", "restart_syscall", "pause", "sched_yield",
    /* signals to itself, children that were started before */
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigtimedwait",
    "rt_sigsuspend", "sigaltstack", "wait4", "waitid", "pidfd_send_signal",
    /* who and what am I */
    "getpid", "getppid", "gettid", "getuid", "geteuid", "getgid", "getegid", "getgroups",
    "getresuid", "getresgid", "getpgrp", "getpgid", "getsid", "getrlimit", "getrusage",
    "sysinfo", "uname", "getrandom", "sched_getaffinity", "getcpu", "capget",
    /* sockets that it was given or got from socketpair */
    "recvfrom", "sendmsg", "recvmsg", "recvmmsg", "shutdown", "getsockname", "getpeername",
    "getsockopt", "setsockopt",
    /* the C library's own */
    "exit", "exit_group", "set_robust_list", "set_tid_address", "rseq", "arch_prctl"};

/* Changes of what Landlock does not guard, on a descriptor: rows that write files. */
static const char *const calls_metadata[] = {"fchmod", "fsetxattr", "fremovexattr", "syncfs"};

/* The same by path, and its relatives: EPERM in QUIET and PUMP. */
static const char *const calls_by_path[] = {
    "chmod",  "fchmodat",  "chown",    "lchown",    "fchown",	   "fchownat",	   "utime",
    "utimes", "futimesat", "setxattr", "lsetxattr", "removexattr", "lremovexattr", "truncate"};

/* Outgoing connections by IP, and connections accepted on a listener that was handed in. */
static const char *const calls_pump[] = {"connect", "accept", "accept4", "sendto", "sendmmsg"};

/* git, its helpers, ssh and its tools: fork, exec, sockets of their own, sessions. */
static const char *const calls_launcher[] = {"connect",
					     "accept",
					     "accept4",
					     "bind",
					     "listen",
					     "sendto",
					     "sendmmsg",
					     "fork",
					     "vfork",
					     "execve",
					     "execveat",
					     "kill",
					     "tkill",
					     "tgkill",
					     "rt_sigqueueinfo",
					     "rt_tgsigqueueinfo",
					     "setpgid",
					     "setsid",
					     "setrlimit",
					     "setuid",
					     "setgid",
					     "setreuid",
					     "setregid",
					     "setresuid",
					     "setresgid",
					     "setfsuid",
					     "setfsgid",
					     "capset",
					     "getpriority",
					     "sched_getparam",
					     "sched_getscheduler",
					     "sched_get_priority_max",
					     "sched_get_priority_min",
					     "timer_create",
					     "timer_settime",
					     "timer_gettime",
					     "timer_getoverrun",
					     "timer_delete",
					     "mlockall",
					     "munlockall",
					     "tee",
					     "vmsplice",
					     "pidfd_open"};

/* No honest caller in a stage: see the top. */
static const char *const calls_dangerous[] = {"ptrace",
					      "process_vm_readv",
					      "process_vm_writev",
					      "process_madvise",
					      "process_mrelease",
					      "kcmp",
					      "pidfd_getfd",
					      "bpf",
					      "perf_event_open",
					      "userfaultfd",
					      "io_uring_setup",
					      "io_uring_enter",
					      "io_uring_register",
					      "mount",
					      "umount2",
					      "umount",
					      "pivot_root",
					      "chroot",
					      "fsopen",
					      "fsmount",
					      "fsconfig",
					      "fspick",
					      "open_tree",
					      "move_mount",
					      "mount_setattr",
					      "unshare",
					      "setns",
					      "keyctl",
					      "add_key",
					      "request_key",
					      "open_by_handle_at",
					      "name_to_handle_at",
					      "fanotify_init",
					      "fanotify_mark",
					      "init_module",
					      "finit_module",
					      "delete_module",
					      "create_module",
					      "kexec_load",
					      "kexec_file_load",
					      "reboot",
					      "swapon",
					      "swapoff",
					      "acct",
					      "quotactl",
					      "quotactl_fd",
					      "syslog",
					      "settimeofday",
					      "clock_settime",
					      "clock_adjtime",
					      "adjtimex",
					      "iopl",
					      "ioperm",
					      "modify_ldt",
					      "lookup_dcookie",
					      "sethostname",
					      "setdomainname",
					      "vhangup",
					      "nfsservctl",
					      "uselib",
					      "ustat",
					      "sysfs",
					      "_sysctl",
					      "vm86",
					      "vm86old",
					      "move_pages",
					      "migrate_pages",
					      "mbind",
					      "set_mempolicy"};

/* Dangerous besides in a row that runs nothing and makes no sockets. */
static const char *const calls_exec[] = {"execve", "execveat", "fork",	 "vfork",
					 "clone",  "setsid",   "setpgid"};
static const char *const calls_server[] = {"bind", "listen", "accept", "accept4"};

static const unsigned ioctls_common[] = {FIONREAD, FIONBIO, FIOCLEX, FIONCLEX, TCGETS};
/* Copies that share blocks, for rows that write files. */
static const unsigned ioctls_write[] = {IOCTL_FICLONE, IOCTL_FICLONERANGE};
/* What git and ssh ask of a terminal. Never TIOCSTI, TIOCLINUX: they type into it. */
static const unsigned ioctls_launcher[] = {TIOCGWINSZ, TCSETS,	 TCSETSW,  TCSETSF,  TIOCGPGRP,
					   TIOCNOTTY,  TIOCGSID, TIOCOUTQ, TIOCSCTTY};

static const int fcntls[] = {F_DUPFD,	   F_DUPFD_CLOEXEC, F_GETFD,	 F_SETFD,
			     F_GETFL,	   F_SETFL,	    F_GETLK,	 F_SETLK,
			     F_SETLKW,	   F_OFD_GETLK,	    F_OFD_SETLK, F_OFD_SETLKW,
			     F_GETPIPE_SZ, F_SETPIPE_SZ,    F_ADD_SEALS, F_GET_SEALS};

static const unsigned prctls_common[] = {PR_SET_NAME,	 PR_GET_NAME,	  PR_GET_DUMPABLE,
					 OPTION_SET_VMA, PR_CAPBSET_READ, PR_GET_NO_NEW_PRIVS,
					 PR_GET_SECCOMP, PR_GET_PDEATHSIG};
static const unsigned prctls_launcher[] = {PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS};

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

/* ---- rules ---- */

static void die(const char *what, int code)
{
	fprintf(stderr, "gen_filters: %s: %s\n", what, strerror(-code));
	exit(1);
}

/* Adds a rule; a call that this architecture does not have is left out. */
static void rule(scmp_filter_ctx ctx, uint32_t action, const char *name, unsigned count,
		 const struct scmp_arg_cmp *args)
{
	int number = seccomp_syscall_resolve_name(name), code;

	if (number == __NR_SCMP_ERROR) {
		fprintf(stderr, "gen_filters: libseccomp does not know %s\n", name);
		exit(1);
	}
	if (number < 0)
		return;
	code = seccomp_rule_add_array(ctx, action, number, count, args);
	if (code < 0)
		die(name, code);
}

#define ALLOW(ctx, name, ...)                                                                  \
	rule(ctx, SCMP_ACT_ALLOW, name,                                                        \
	     sizeof((struct scmp_arg_cmp[]){__VA_ARGS__}) / sizeof(struct scmp_arg_cmp),       \
	     (struct scmp_arg_cmp[]){__VA_ARGS__})

static void rules(scmp_filter_ctx ctx, uint32_t action, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		rule(ctx, action, names[i], 0, NULL);
}

static void allow_values(scmp_filter_ctx ctx, const char *name, unsigned arg,
			 const unsigned *values, size_t count)
{
	for (size_t i = 0; i < count; i++)
		ALLOW(ctx, name, IS(arg, values[i]));
}

/* Only the launcher, and what loads name service modules, may map memory to execute. */
static void add_memory(scmp_filter_ctx ctx, enum profile profile)
{
	static const char *const names[] = {"mmap", "mprotect"};

	for (size_t i = 0; i < LEN(names); i++) {
		if (profile != QUIET) {
			rule(ctx, SCMP_ACT_ALLOW, names[i], 0, NULL);
			continue;
		}
		ALLOW(ctx, names[i], BITS(2, PROT_EXEC, 0));
		rule(ctx, SCMP_ACT_ERRNO(EACCES), names[i], 1,
		     (struct scmp_arg_cmp[]){BITS(2, PROT_EXEC, PROT_EXEC)});
	}
}

static void add_sockets(scmp_filter_ctx ctx, enum profile profile)
{
	/* Connected pairs only: a datagram socket can be sent to any path (sendmsg names it in
	 * memory, where a filter cannot look). */
	ALLOW(ctx, "socketpair", IS(0, AF_UNIX), BITS(1, 0xf, SOCK_STREAM));
	ALLOW(ctx, "socketpair", IS(0, AF_UNIX), BITS(1, 0xf, SOCK_SEQPACKET));
	switch (profile) {
	case QUIET:
		/* libcurl asks for sockets to see what the machine can do, and connects the
		 * socketpair that we gave it: EINPROGRESS sends it on to poll, where it is
		 * writable. */
		rule(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), "socket", 0, NULL);
		rule(ctx, SCMP_ACT_ERRNO(EINPROGRESS), "connect", 0, NULL);
		rules(ctx, SCMP_ACT_KILL_PROCESS, calls_server, LEN(calls_server));
		ALLOW(ctx, "sendto", NULL_POINTER(4));
		break;
	case PUMP:
		/* No AF_UNIX (daemons of the machine listen there) and no AF_NETLINK: name
		 * resolution by files and DNS needs neither. */
		ALLOW(ctx, "socket", IS(0, AF_INET));
		ALLOW(ctx, "socket", IS(0, AF_INET6));
		rule(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), "socket", 1,
		     (struct scmp_arg_cmp[]){IS(0, AF_UNIX)});
		rule(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), "socket", 1,
		     (struct scmp_arg_cmp[]){IS(0, AF_NETLINK)});
		rule(ctx, SCMP_ACT_ERRNO(EACCES), "bind", 0, NULL);
		rule(ctx, SCMP_ACT_ERRNO(EACCES), "listen", 0, NULL);
		rules(ctx, SCMP_ACT_ALLOW, calls_pump, LEN(calls_pump));
		break;
	case LAUNCHER:
		ALLOW(ctx, "socket", IS(0, AF_UNIX));
		ALLOW(ctx, "socket", IS(0, AF_INET));
		ALLOW(ctx, "socket", IS(0, AF_INET6));
		rule(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), "socket", 1,
		     (struct scmp_arg_cmp[]){IS(0, AF_NETLINK)});
		break;
	}
}

static void add_processes(scmp_filter_ctx ctx, enum profile profile)
{
	rules(ctx, profile == LAUNCHER ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_KILL_PROCESS,
	      calls_dangerous, LEN(calls_dangerous));
	if (profile == LAUNCHER) {
		rules(ctx, SCMP_ACT_ALLOW, calls_launcher, LEN(calls_launcher));
		ALLOW(ctx, "clone", BITS(0, CLONE_NAMESPACES, 0));
		allow_values(ctx, "prctl", 0, prctls_launcher, LEN(prctls_launcher));
		ALLOW(ctx, "prctl", IS(0, PR_SET_DUMPABLE), IS(1, 0));
		ALLOW(ctx, "prlimit64",
		      IS(0, 0)); /* its own limits, not those of the user's other processes */
		/* A memory file can be executed, whatever Landlock lists. */
		rule(ctx, SCMP_ACT_ERRNO(EPERM), "memfd_create", 0, NULL);
		return;
	}
	rules(ctx, SCMP_ACT_KILL_PROCESS, calls_exec, LEN(calls_exec));
	/* abort and raise: signals to itself. restrict.c puts its process id in the place of
	 * the mark. */
	ALLOW(ctx, "tgkill", IS(0, FILTER_SELF_MARK));
	ALLOW(ctx, "kill", IS(0, FILTER_SELF_MARK));
	ALLOW(ctx, "prlimit64", IS(0, 0), NULL_POINTER(2));
	rule(ctx, SCMP_ACT_ALLOW, "memfd_create", 0, NULL);
}

static void add_files(scmp_filter_ctx ctx, enum profile profile, bool writes)
{
	allow_values(ctx, "ioctl", 1, ioctls_common, LEN(ioctls_common));
	if (profile == LAUNCHER)
		allow_values(ctx, "ioctl", 1, ioctls_launcher, LEN(ioctls_launcher));
	for (size_t i = 0; i < LEN(fcntls); i++)
		ALLOW(ctx, "fcntl", IS(1, fcntls[i]));
	rules(ctx, SCMP_ACT_ERRNO(EPERM), calls_by_path, LEN(calls_by_path));
	if (!writes) {
		rules(ctx, SCMP_ACT_ERRNO(EPERM), calls_metadata, LEN(calls_metadata));
		return;
	}
	rules(ctx, SCMP_ACT_ALLOW, calls_metadata, LEN(calls_metadata));
	allow_values(ctx, "ioctl", 1, ioctls_write, LEN(ioctls_write));
	ALLOW(ctx, "utimensat", NULL_POINTER(1));
	/* An overlay whiteout, the character device 0/0, needs no privilege; no other node. */
	ALLOW(ctx, "mknod", BITS(1, S_IFMT, S_IFCHR), IS(2, 0));
	ALLOW(ctx, "mknodat", BITS(2, S_IFMT, S_IFCHR), IS(3, 0));
}

/* ---- output ---- */

static void print_filter(scmp_filter_ctx ctx, const char *name)
{
	struct sock_filter code[4096];
	int fd = memfd_create("bpf", MFD_CLOEXEC), result;
	ssize_t len;

	if (fd < 0)
		die("memfd_create", -errno);
	result = seccomp_export_bpf(ctx, fd);
	if (result < 0)
		die("seccomp_export_bpf", result);
	len = pread(fd, code, sizeof(code), 0);
	if (len <= 0 || len == (ssize_t)sizeof(code) || (size_t)len % sizeof(code[0]))
		die(name, -EFBIG);
	printf("static const struct sock_filter %s[] = {\n", name);
	for (size_t i = 0; i < (size_t)len / sizeof(code[0]); i++)
		printf("\t{0x%02x, %u, %u, 0x%08x},\n", code[i].code, code[i].jt, code[i].jf,
		       code[i].k);
	printf("};\n\n");
	close(fd);
}

static void make_filter(const char *name, enum profile profile, bool writes)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
	int code;

	if (!ctx)
		die("seccomp_init", -ENOMEM);
	code = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (code == 0)
		code = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (code < 0)
		die("seccomp_attr_set", code);
	rules(ctx, SCMP_ACT_ALLOW, calls_common, LEN(calls_common));
	allow_values(ctx, "prctl", 0, prctls_common, LEN(prctls_common));
	add_memory(ctx, profile);
	add_sockets(ctx, profile);
	add_processes(ctx, profile);
	add_files(ctx, profile, writes);
	print_filter(ctx, name);
	seccomp_release(ctx);
}

int main(void)
{
	printf(
	    "/* Made by sandbox/gen_filters.c; do not edit. */\n#include <linux/filter.h>\n\n");
	make_filter("filter_quiet", QUIET, false);
	make_filter("filter_quiet_writes", QUIET, true);
	make_filter("filter_pump", PUMP, false);
	make_filter("filter_launcher", LAUNCHER, true);
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
