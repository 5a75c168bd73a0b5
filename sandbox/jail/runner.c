#include "runner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "sandbox/jail/calls.h"
#include "sandbox/jail/applied.h"
#include "sandbox/jail/backend.h"
#include "sandbox/jail/command.h"
#include "sandbox/jail/confine.h"
#include "sandbox/jail/parts.h"

#define READ_ALL 3  /* SYSLOG_ACTION_READ_ALL of syslog(2) */
#define RUNNER_ID 1 /* uid and gid of PID 1, once the payload is born: nobody's else */
#define MEMORY_LOOK_MS 50
#define CPU_LOOK_MS 200
#define CLOCK_TICKS 100		/* a second, of its proc's times */
#define CPU_GRACE_S 5		/* as of confine_rlimits */
#define PRIVATE "/dev/.runner"	/* a directory that the payload cannot pass */
#define COUNTER PRIVATE "/pids" /* the sandbox's own control group */

struct runner {
	struct jail_run run;
	struct runner_job job;
	int stdio[3]; /* owned: what the payload gets, -1: /dev/null */
	int group;    /* owned: cgroup.procs of the payload's group */
};

static void __attribute__((noreturn)) give_up(struct jail_run *run)
{
	struct jail_packet packet = {
	    .message = MSG_FAILED, .failure = run->failure, .done = run->done};

	packet_send(run->payload_sock, &packet, -1);
	_exit(1);
}

/* ---- the job ---- */

static int take_spec(struct jail_run *run, int fd)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	struct error err = {0};

	strbuf_init(&text, JAIL_SPEC_MAX);
	if (fd_pread_all(fd, &text) < 0)
		return step_fail(run, "the spec cannot be read");
	errno = 0;
	if (jail_spec_parse(text.data, text.len, &run->spec, &err) < 0)
		return step_fail(run, "%s", err.message);
	return 0;
}

static int take_job(struct runner *runner)
{
	struct jail_run *run = &runner->run;
	int fds[PARTS_MAX], spec AUTO_FD = -1;
	size_t count = 0, used = 0;
	long len = parts_receive_raw(RUNNER_JOB, (char *)&runner->job, sizeof(runner->job), fds,
				     &count);

	run->step = STEP_gvisor;
	if (len != sizeof(runner->job) || !count)
		return step_fail(run, "the job of the runner cannot be received");
	spec = fds[used++];
	for (int i = 0; i < 3; i++) {
		runner->stdio[i] = -1;
		if (runner->job.stdio[i] == 'f' && used < count)
			runner->stdio[i] = fds[used++];
	}
	if (runner->job.audit && used < count) {
		run->applied_file = fds[used];
		if (applied_open_inside(run) < 0)
			return -1;
	}
	run->fault = runner->job.fault;
	run->done = runner->job.ready.done;
	run->separate = true; /* nobody else is on this kernel */
	run->cgroup.kind = runner->job.cgroup;
	return take_spec(run, spec);
}

/* ---- what only root can do in here ---- */

/* That this kernel is gVisor's is not taken on trust: its log says so. */
static int know_kernel(struct jail_run *run)
{
	char *log AUTO_FREE = mem_calloc(8193, 1);

	if (step_enter(run, STEP_gvisor) < 0 || klogctl(READ_ALL, log, 8192) < 0)
		return step_fail(run, "the sandbox's kernel does not tell its name");
	errno = 0;
	if (!strstr(log, "gVisor"))
		return step_fail(run, "this is not gVisor's kernel");
	step_done(run);
	return 0;
}

static int write_text(const char *path, const char *text)
{
	int fd AUTO_FD = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
}

/* Devices that runsc puts there unasked; no native jail has them. */
static int remove_devices(struct jail_run *run)
{
	if ((unlink("/dev/fuse") < 0 && errno != ENOENT) ||
	    (unlink("/dev/net/tun") < 0 && errno != ENOENT) ||
	    (rmdir("/dev/net") < 0 && errno != ENOENT))
		return step_fail(run, "devices of the sandbox cannot be taken away");
	return 0;
}

/*
 * The sandbox's own pids controller: what the payload may have of processes and threads, refused as
 * natively with EAGAIN. It belongs to the sandbox's root, which is the payload, so it lies where that
 * cannot go.
 */
static int count_processes(struct runner *runner)
{
	struct jail_run *run = &runner->run;
	char number[24];

	if (step_enter(run, STEP_rlimits) < 0 || remove_devices(run) < 0 ||
	    mkdir(PRIVATE, 0700) < 0 || mkdir(COUNTER, 0700) < 0 ||
	    mount("none", COUNTER, "cgroup", MS_NOSUID | MS_NODEV | MS_NOEXEC, "pids") < 0 ||
	    mkdir(COUNTER "/payload", 0700) < 0)
		return step_fail(run, "the sandbox's control group for processes");
	snprintf(number, sizeof(number), "%llu",
		 (unsigned long long)run->spec.limits.processes);
	if (write_text(COUNTER "/payload/pids.max", number) < 0)
		return step_fail(run, "pids.max of the sandbox");
	runner->group = open(COUNTER "/payload/cgroup.procs", O_WRONLY | O_CLOEXEC);
	/* nor are the sandbox's devices its own to change */
	if (chown("/dev", RUNNER_ID, RUNNER_ID) < 0 || chown(PRIVATE, RUNNER_ID, RUNNER_ID) < 0)
		return step_fail(run, "/dev of the sandbox");
	if (runner->group < 0)
		return step_fail(run, "cgroup.procs of the sandbox");
	return 0;
}

/* ---- the payload ---- */

/* The file system's one owner, who is root here, becomes the payload's user: by a user namespace, as
 * natively. */
static int become_payload(struct jail_run *run)
{
	char map[32];

	snprintf(map, sizeof(map), "%d 0 1\n", JAIL_ID);
	if (step_enter(run, STEP_ids) < 0 || unshare(CLONE_NEWUSER) < 0 ||
	    write_text("/proc/self/uid_map", map) < 0 ||
	    write_text("/proc/self/gid_map", map) < 0)
		return step_fail(run, "ids of the payload cannot be mapped in the sandbox");
	step_done(run);
	return 0;
}

static int place_stdio(struct runner *runner)
{
	struct jail_run *run = &runner->run;

	if (step_enter(run, STEP_stdio) < 0)
		return step_fail(run, "standard descriptors");
	run->payload_sock = fcntl(RUNNER_REPORT, F_DUPFD_CLOEXEC, 3);
	for (int i = 0; i < 3; i++) {
		int fd = runner->stdio[i];

		if (fd < 0)
			fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (fd < 0 || dup2(fd, i) < 0)
			return step_fail(run, "standard descriptors");
	}
	if (run->payload_sock != 3 && dup3(run->payload_sock, 3, O_CLOEXEC) < 0)
		return step_fail(run, "descriptors");
	run->payload_sock = 3;
	for (int fd = 4; fd < 64; fd++)
		if (fd != run->applied_file)
			close(fd); /* close_range(2) is newer than runsc may be */
	return 0;
}

static void __attribute__((noreturn)) payload(struct runner *runner, int go)
{
	struct jail_run *run = &runner->run;
	struct jail_packet packet = runner->job.ready;
	char byte;

	if (read(go, &byte, 1) != 1)
		_exit(1); /* PID 1 has said why */
	if (setsid() < 0)
		step_fail(run, "setsid");
	if (run->failure.what[0] || place_stdio(runner) < 0 || become_payload(run) < 0 ||
	    confine_rlimits(run) < 0 || confine_capabilities(run) < 0 ||
	    confine_seccomp(run) < 0 || confine_self_test(run, run->payload_sock) < 0 ||
	    backend_check_layers(run) < 0)
		give_up(run);
	command_reset();
	if (applied_collect(run) < 0)
		give_up(run);
	for (int fd = 4; fd < 64; fd++)
		close(fd); /* close_range(2) is newer than runsc may be */
	packet.done |= run->done;
	command_become(run, &packet);
}

/* ---- PID 1 ---- */

/* Another user than the payload's, without any right but to end who used up their time: it can neither be
 * signalled nor looked into. */
static int give_up_power(struct jail_run *run)
{
	const uint32_t kept = run->spec.limits.cpu_s ? 1U << CAP_KILL : 0;
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct caps[2] = {{kept, kept, 0}, {0, 0, 0}};

	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 ||
	    setresgid(RUNNER_ID, RUNNER_ID, RUNNER_ID) < 0 ||
	    setresuid(RUNNER_ID, RUNNER_ID, RUNNER_ID) < 0 ||
	    syscall(SYS_capset, &head, caps) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)
		return step_fail(run, "the runner cannot give up its rights");
	return 0;
}

/* Each process but PID 1: stat is what its file says behind the name (proc_pid_stat(5)). */
typedef void visit_fn(pid_t pid, const char *stat, void *arg);

static void each_process(visit_fn *visit, void *arg)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		char path[300], text[512], *stat;
		int fd AUTO_FD = -1;
		ssize_t len;

		if (strspn(entry->d_name, "0123456789") != strlen(entry->d_name) ||
		    strcmp(entry->d_name, "1") == 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%s/stat", entry->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
		if (len <= 0)
			continue;
		text[len] = '\0';
		stat = strrchr(text, ')');
		if (stat && stat[1])
			visit((pid_t)strtol(entry->d_name, NULL, 10), stat + 2, arg);
	}
	if (dir)
		closedir(dir);
}

static void count_one(pid_t pid, const char *stat, void *arg)
{
	uint64_t *count = arg;

	(void)pid;
	*count += *stat != 'Z' && *stat != 'X';
}

static uint64_t count_leftover(void)
{
	uint64_t count = 0;

	each_process(count_one, &count);
	return count;
}

/*
 * RLIMIT_CPU holds the payload alone: the kernel of runsc's release forgets it for what comes of that. As
 * natively: SIGXCPU at the limit, the end five seconds behind it.
 */
static void end_if_over(pid_t pid, const char *stat, void *arg)
{
	const uint64_t *limit_s = arg;
	unsigned long long user, system;

	if (sscanf(stat, "%*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu", &user,
		   &system) != 2)
		return;
	if ((user + system) / CLOCK_TICKS >= *limit_s + CPU_GRACE_S)
		kill(pid, SIGKILL);
	else if ((user + system) / CLOCK_TICKS >= *limit_s)
		kill(pid, SIGXCPU);
}

/*
 * Bytes that the sandbox holds, all together (its proc_meminfo(5)). Where no control group of the host's
 * caps them, PID 1 does: the kernel of runsc's release has no limit of its own that would.
 */
static uint64_t memory_used(void)
{
	char text[512];
	unsigned long long total = 0, left = 0;
	int fd AUTO_FD = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (len <= 0)
		return 0;
	text[len] = '\0';
	return sscanf(text, "MemTotal: %llu kB MemFree: %llu", &total, &left) == 2 &&
		       total > left
		   ? (total - left) * 1024
		   : 0;
}

/* Reaps until the payload has ended: any child, since orphans come to PID 1. In *too_much: the sandbox
 * has taken more than it may before that, and ends with us. */
static void reap(const struct jail_run *run, pid_t child, siginfo_t *info, struct rusage *usage,
		 bool *too_much)
{
	const bool memory = run->cgroup.kind == CGROUP_NONE;
	const bool watch = memory || run->spec.limits.cpu_s;
	const struct timespec a_while = {0, (memory ? MEMORY_LOOK_MS : CPU_LOOK_MS) * 1000000L};
	uint64_t cpu_s = run->spec.limits.cpu_s;
	sigset_t ends;

	sigemptyset(&ends);
	sigaddset(&ends, SIGCHLD);
	while (!*too_much) {
		memset(info, 0, sizeof(*info));
		memset(usage, 0, sizeof(*usage));
		if (syscall(SYS_waitid, P_ALL, 0, info, WEXITED | (watch ? WNOHANG : 0),
			    usage) < 0 &&
		    errno != EINTR)
			_exit(1);
		if (info->si_pid == child)
			return;
		if (watch && !info->si_pid) {
			sigtimedwait(&ends, NULL, &a_while);
			*too_much = memory && memory_used() > run->spec.limits.memory_bytes;
			if (cpu_s)
				each_process(end_if_over, &cpu_s);
		}
	}
	info->si_code = CLD_KILLED;
	info->si_status = SIGKILL;
}

static void see_it_end(struct jail_run *run, pid_t child)
{
	struct jail_packet packet = {.message = MSG_ENDED};
	struct rusage usage;
	siginfo_t info;

	reap(run, child, &info, &usage, &packet.too_much);
	packet.leftover = count_leftover();
	packet.code = info.si_code;
	packet.status = info.si_status;
	packet.cpu_ms = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
			(uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
	packet_send(run->payload_sock, &packet, -1);
}

/*
 * All of them: the sandbox's kernel lets the payload send some to us (F_SETOWN of fcntl(2)). What cannot be blocked
 * the payload's filter refuses to send; command_reset undoes it for the payload. By the kernel's call: the C
 * library's leaves out two that it has a use of its own for (32 and 33, nptl(7)), and each would be our end.
 */
static int block_signals(struct jail_run *run)
{
	const uint64_t all = ~0ULL;

	return syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, sizeof(all)) < 0
		   ? step_fail(run, "the runner cannot block signals")
		   : 0;
}

void runner_main(void)
{
	struct runner runner;
	struct jail_run *run = &runner.run;
	char number[24];
	int go[2];
	pid_t child;

	memset(&runner, 0, sizeof(runner));
	run_init(run);
	run->payload_sock = RUNNER_REPORT;
	if (prctl(PR_SET_DUMPABLE, 0) < 0 || take_job(&runner) < 0 || know_kernel(run) < 0 ||
	    count_processes(&runner) < 0 || pipe2(go, O_CLOEXEC) < 0 ||
	    block_signals(run) < 0) {
		step_fail(run, "runner");
		give_up(run);
	}
	child = fork();
	if (child == 0) {
		close(go[1]);
		payload(&runner, go[0]);
	}
	snprintf(number, sizeof(number), "%d", (int)child);
	if (child < 0 || write(runner.group, number, strlen(number)) < 0) {
		step_fail(run, "fork of the payload in the sandbox");
		give_up(run);
	}
	if (give_up_power(run) < 0 || write(go[1], "g", 1) != 1) {
		step_fail(run, "the payload cannot be started");
		give_up(run);
	}
	for (int fd = 2; fd < 64; fd++)
		close(fd); /* what the payload has must not be held open here as well */
	close(RUNNER_JOB);
	see_it_end(run, child);
	_exit(0);
}
