#include "confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "sandbox/jail/calls.h"
#include "sandbox/jail/applied.h"
#include "sandbox/jail/observe.h"
#include "sandbox/jail/run.h"

#include "jail_filter.h"

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV /* Linux 5.19 */
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

/* ---- identity ---- */

static int write_at(int dir, const char *path, const char *text)
{
	int fd AUTO_FD = openat(dir, path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
}

int confine_namespace(struct jail_run *run, int sys)
{
	/* of the network namespace, while we have rights over it */
	if (write_at(sys, "net/ipv4/ip_unprivileged_port_start", "0") < 0 && errno != ENOENT)
		return step_fail(run, "ip_unprivileged_port_start");
	if (step_enter(run, STEP_ids) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0 ||
	    unshare(CLONE_NEWUSER) < 0)
		return step_fail(run, "unshare(CLONE_NEWUSER) for the payload");
	return 0;
}

int confine_ids(struct jail_run *run, int proc, int sys)
{
	int self AUTO_FD = -1;
	char map[48];

	run->step = STEP_ids;
	self = openat(proc, "self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	snprintf(map, sizeof(map), "%d 0 1\n", JAIL_ID);
	if (self < 0 || write_at(self, "setgroups", "deny") < 0 ||
	    write_at(self, "uid_map", map) < 0 || write_at(self, "gid_map", map) < 0)
		return step_fail(run, "ids of the payload cannot be mapped");
	/* Should the machine run out of memory, the payload goes first (EACCES: it would anyhow). */
	if (write_at(self, "oom_score_adj", "500") < 0 && errno != EACCES)
		return step_fail(run, "oom_score_adj");
	if (prctl(PR_SET_DUMPABLE, 0) < 0)
		return step_fail(run, "PR_SET_DUMPABLE");
	step_done(run);
	if (step_enter(run, STEP_nesting) < 0 ||
	    write_at(sys, "user/max_user_namespaces", "0") < 0)
		return step_fail(run, "nested user namespaces cannot be forbidden");
	/* What counts by user counts for the host's user too: the payload may not take it all. */
	if (write_at(sys, "user/max_inotify_instances", "64") < 0 && errno != ENOENT)
		return step_fail(run, "inotify instances cannot be limited");
	step_done(run);
	return 0;
}

/* ---- limits ---- */

#define DESCRIPTORS_MOST 65536
#define DESCRIPTORS_LEAST 4096
#define DESCRIPTORS_LEFT 512 /* to the user's other programs */

static int set_limit(int what, rlim_t soft, rlim_t hard)
{
	struct rlimit limit;

	if (getrlimit((__rlimit_resource_t)what, &limit) < 0)
		return -1;
	limit.rlim_max = hard < limit.rlim_max ? hard : limit.rlim_max;
	limit.rlim_cur = soft < limit.rlim_max ? soft : limit.rlim_max;
	return setrlimit((__rlimit_resource_t)what, &limit);
}

/*
 * Descriptors on their way through sockets are counted for the user, and whoever sends more is refused once
 * that count is above the own limit (unix(7), ETOOMANYREFS). A payload that shares its user's id gets so
 * much less that the user's other programs can still send: a message has up to 253. But not less than real programs
 * need (a JVM, servers under test), also where the user's own limit is the customary 1024: then they share that, as
 * they share the id.
 */
static rlim_t descriptors(const struct jail_run *run)
{
	struct rlimit limit = {1024, 1024};

	if (run->separate || run->ranged)
		return DESCRIPTORS_MOST;
	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < DESCRIPTORS_LEAST + DESCRIPTORS_LEFT)
		return DESCRIPTORS_LEAST;
	return limit.rlim_cur - DESCRIPTORS_LEFT < DESCRIPTORS_MOST
		   ? limit.rlim_cur - DESCRIPTORS_LEFT
		   : DESCRIPTORS_MOST;
}

int confine_rlimits(struct jail_run *run)
{
	const struct jail_limits *limits = &run->spec.limits;
	const bool gvisor = run->spec.backend == JAIL_GVISOR;
	const rlim_t cpu = limits->cpu_s ? limits->cpu_s : RLIM_INFINITY;
	const struct {
		int what;
		rlim_t soft, hard;
	} table[] = {
	    /* 1, not 0: with 0 a crash still starts a core_pattern pipe (core(5)), as host root; with
	     * 1 the kernel refuses the pipe, and no file is that small */
	    {RLIMIT_CORE, 1, 1},
	    {RLIMIT_NOFILE, 1024, descriptors(run)},
	    {RLIMIT_FSIZE, limits->file_bytes, limits->file_bytes},
	    {RLIMIT_STACK, 8 << 20, RLIM_INFINITY},
	    {RLIMIT_CPU, cpu, limits->cpu_s ? cpu + 5 : RLIM_INFINITY},
	    {RLIMIT_MEMLOCK, 8 << 20, 8 << 20},
	    /* gVisor has none of these, and nothing that they would limit */
	    {RLIMIT_RTPRIO, 0, 0},
	    {RLIMIT_NICE, 0, 0},
	    {RLIMIT_MSGQUEUE, 409600, 409600},
	    {RLIMIT_SIGPENDING, 16384, 16384},
	};

	if (step_enter(run, STEP_rlimits) < 0)
		return step_fail(run, "rlimits");
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (!(gvisor && table[i].what >= (int)RLIMIT_SIGPENDING) &&
		    set_limit(table[i].what, table[i].soft, table[i].hard) < 0)
			return step_fail(run, "rlimit %d", table[i].what);
	/* Without a control group these are the next best: memory a process at a time,
	 * processes of this namespace. */
	if (run->cgroup.kind == CGROUP_NONE &&
	    (set_limit(RLIMIT_DATA, limits->memory_bytes, limits->memory_bytes) < 0 ||
	     (!gvisor && set_limit(RLIMIT_NPROC, limits->processes, limits->processes) < 0)))
		return step_fail(run, "rlimits");
	step_done(run);
	return 0;
}

/* ---- capabilities ---- */

static int clear_capabilities(void)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};

	if (syscall(SYS_capset, &head, none) < 0)
		return -1;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* Those that exec could give back, too. gVisor has neither ambient ones nor securebits. */
static int drop_capabilities(bool gvisor)
{
	if (!gvisor && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return -1;
	for (int cap = 0; prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++)
		continue;
	if (errno != EINVAL) /* the first number that is no capability */
		return -1;
	if (gvisor)
		return 0;
	return prctl(PR_SET_SECUREBITS,
		     SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
			 SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
			 SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED,
		     0, 0, 0);
}

int confine_capabilities(struct jail_run *run)
{
	if (step_enter(run, STEP_caps) < 0 ||
	    drop_capabilities(run->spec.backend == JAIL_GVISOR) < 0)
		return step_fail(run, "capabilities cannot be dropped");
	step_done(run);
	if (step_enter(run, STEP_nnp) < 0 || clear_capabilities() < 0)
		return step_fail(run, "PR_SET_NO_NEW_PRIVS");
	step_done(run);
	return 0;
}

/* ---- Landlock: Documentation/userspace-api/landlock.rst; own constants, the headers may be
 * older ---- */

enum {
	FS_EXECUTE = 1 << 0,
	FS_WRITE_FILE = 1 << 1,
	FS_READ_FILE = 1 << 2,
	FS_READ_DIR = 1 << 3,
	FS_MAKE_CHAR = 1 << 6,
	FS_MAKE_BLOCK = 1 << 11,
	FS_TRUNCATE = 1 << 14,
	FS_IOCTL_DEV = 1 << 15,
	FS_ABI1 = (1 << 13) - 1,
	FS_ABI2 = (1 << 14) - 1, /* + refer */
	FS_ABI3 = (1 << 15) - 1, /* + truncate */
	FS_ABI5 = (1 << 16) - 1, /* + ioctl on devices */
	SCOPE_ABI6 = 3,		 /* abstract unix sockets, signals */
};

struct ruleset_attr {
	uint64_t handled_fs, handled_net, scoped;
};

struct __attribute__((packed)) path_beneath_attr {
	uint64_t allowed;
	int32_t parent;
};

#define RULE_PATH_BENEATH 1

static int allow_path(struct jail_run *run, int ruleset, const char *path, uint64_t rights)
{
	int fd AUTO_FD = open(path, O_PATH | O_CLOEXEC);
	struct path_beneath_attr attr = {rights, fd};

	if (fd < 0 || syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &attr, 0) < 0)
		return -1;
	applied_add(run, "landlock rule %llx %s", (unsigned long long)rights, path);
	return 0;
}

/*
 * What an open(2) costs here: whatever it is for, the kernel also asks whether it might truncate later, and goes from
 * the file upwards until the rules on its way have granted it all. All rights on the work tree let it stop there; with
 * reading alone it would go on to the root, in each open. The rest is the kernel's: on Linux 6.18 with the mitigations
 * for an AMD EPYC 0.25 us an open and 0.1 us a directory on its way, with one rule as with ten. A domain of two rules
 * costs a command as much as this one, and a filter of one instruction (0.04 us a call) as much as ours:
 * tests/bench/jail syscalls. No right of writing is granted on read-only mounts to shorten the way to the root:
 * it would be a quarter of a microsecond for each header that a compiler opens.
 */
static int add_rules(struct jail_run *run, int ruleset, uint64_t handled)
{
	const uint64_t full =
	    handled & ~(uint64_t)(FS_MAKE_CHAR | FS_MAKE_BLOCK | FS_IOCTL_DEV);
	const uint64_t device =
	    handled & (FS_READ_FILE | FS_WRITE_FILE | FS_READ_DIR | FS_TRUNCATE | FS_IOCTL_DEV);
	const struct {
		const char *path;
		uint64_t rights;
	} rules[] = {
	    {"/", FS_EXECUTE | FS_READ_FILE | FS_READ_DIR},
	    {JAIL_WORK, full},
	    {JAIL_HOME, full},
	    {"/tmp", full},
	    {"/dev", device},
	    {"/dev/shm", full},
	    {"/proc",
	     handled & (FS_WRITE_FILE | FS_TRUNCATE)}, /* one's own comm, oom_score_adj … */
	};

	for (size_t i = 0; i < ARRAY_LEN(rules); i++)
		if (allow_path(run, ruleset, rules[i].path, rules[i].rights) < 0)
			return step_fail(run, "Landlock: %s", rules[i].path);
	for (size_t i = 0; i < run->spec.mount_count; i++)
		if (run->spec.mounts[i].how == JAIL_BIND_RW && !run->sources[i].is_file &&
		    allow_path(run, ruleset, run->spec.mounts[i].target, full) < 0)
			return step_fail(run, "Landlock: %s", run->spec.mounts[i].target);
	return 0;
}

int confine_landlock(struct jail_run *run)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1);
	struct ruleset_attr attr = {0, 0, 0};
	size_t size = sizeof(attr.handled_fs);
	int ruleset AUTO_FD = -1;

	if (step_enter(run, STEP_landlock) < 0 || abi < 1)
		return step_fail(run, "Landlock is not available");
	attr.handled_fs = abi >= 5   ? FS_ABI5
			  : abi >= 3 ? FS_ABI3
			  : abi == 2 ? FS_ABI2
				     : FS_ABI1;
	if (abi >= 6) {
		attr.scoped = SCOPE_ABI6;
		size = sizeof(attr);
	}
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
	if (ruleset < 0)
		return step_fail(run, "Landlock ruleset");
	if (add_rules(run, ruleset, attr.handled_fs) < 0)
		return -1;
	if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		return step_fail(run, "Landlock");
	applied_add(run, "landlock abi %ld", abi);
	applied_add(run, "landlock fs %llx", (unsigned long long)attr.handled_fs);
	applied_add(run, "landlock net %llx", (unsigned long long)attr.handled_net);
	applied_add(run, "landlock scoped %llx", (unsigned long long)attr.scoped);
	step_done(run);
	return 0;
}

/* ---- seccomp ---- */

static int load_filter(const struct sock_filter *filter, size_t len, unsigned flags)
{
	/* the kernel only reads it */
	union {
		const struct sock_filter *given;
		struct sock_filter *wanted;
	} code = {.given = filter};
	struct sock_fprog program = {(unsigned short)len, code.wanted};

	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

/* The same filter, but for the calls that the observer is told of. Returns the listener. */
static int load_observed_filter(void)
{
	const unsigned listen = SECCOMP_FILTER_FLAG_NEW_LISTENER;
	int fd = load_filter(jail_observed_filter, ARRAY_LEN(jail_observed_filter),
			     listen | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);

	if (fd < 0 && errno == EINVAL) /* before Linux 5.19 */
		fd = load_filter(jail_observed_filter, ARRAY_LEN(jail_observed_filter), listen);
	return fd;
}

int confine_seccomp(struct jail_run *run)
{
	int listener = -1;

	if (step_enter(run, STEP_seccomp) < 0)
		return step_fail(run, "the seccomp filter cannot be installed");
	if (run->spec.observe) {
		run->step = STEP_observe;
		listener = load_observed_filter();
		if (listener < 0)
			return step_fail(
			    run, "a seccomp filter with a listener cannot be installed");
		run->step = STEP_seccomp;
	} else if (load_filter(jail_payload_filter, ARRAY_LEN(jail_payload_filter), 0) < 0) {
		return step_fail(run, "the seccomp filter cannot be installed");
	}
	applied_add(run, "seccomp %s",
		    run->spec.observe ? jail_observed_filter_digest
				      : jail_payload_filter_digest);
	step_done(run);
	return observe_hand_over(run, listener);
}

int confine_helper(void)
{
	return clear_capabilities();
}

int confine_idle(void)
{
	if (clear_capabilities() < 0)
		return -1;
	return load_filter(jail_idle_filter, ARRAY_LEN(jail_idle_filter), 0);
}

int confine_sweeper(void)
{
	if (clear_capabilities() < 0)
		return -1;
	return load_filter(jail_sweeper_filter, ARRAY_LEN(jail_sweeper_filter), 0);
}

int confine_observer(void)
{
	if (clear_capabilities() < 0)
		return -1;
	return load_filter(jail_observer_filter, ARRAY_LEN(jail_observer_filter), 0);
}
