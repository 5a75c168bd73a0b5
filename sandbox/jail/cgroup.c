#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "sandbox/jail/applied.h"
#include "sandbox/jail/backend.h"
#include "sandbox/jail/run.h"
#include "sandbox/own_group.h"

#define CPU_PERIOD_US 100000
#define GROUPS_DEEPEST 32 /* far above what any machine nests */
#define CPUS_MOST 65536	  /* more than any machine has: its microseconds fit everywhere */

/* ---- small files ---- */

static int write_number(int dir, const char *name, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	return own_group_write(dir, name, text);
}

/* The number behind "key " at the start of a line; 0 when it is not there. */
static uint64_t keyed_number(int dir, const char *name, const char *key)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	size_t len = strlen(key);

	if (own_group_read(dir, name, &text) < 0)
		return 0;
	for (const char *line = text.data; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!len)
			return strtoull(line, NULL, 10);
		if (strncmp(line, key, len) == 0 && line[len] == ' ')
			return strtoull(line + len + 1, NULL, 10);
	}
	return 0;
}

static void close_fds(int *fds, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

static uint64_t most_processes(const struct jail_run *run)
{
	const struct backend *backend = backend_of(&run->spec);
	uint64_t wanted = run->spec.limits.processes;

	return backend->processes ? backend->processes(wanted) : wanted;
}

static uint64_t cpu_quota_us(const struct jail_run *run)
{
	uint64_t cpus = run->spec.limits.cpus;

	return (cpus < CPUS_MOST ? cpus : CPUS_MOST) * CPU_PERIOD_US;
}

static int make_dir(int parent, const char *name)
{
	if (mkdirat(parent, name, 0755) < 0)
		return -1;
	return openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* The processors are a limit that was asked for by name: without the controller it is not let go in silence. */
static int check_cpu(struct jail_run *run)
{
	const struct jail_cgroup *group = &run->cgroup;

	if (!run->spec.limits.cpus || group->has_cpu || group->parents[2] >= 0)
		return 0;
	if (run->spec.limits.degraded_ok) {
		snprintf(run->note, sizeof(run->note),
			 "the number of processors is not limited: no cpu controller");
		return 0;
	}
	errno = 0;
	return step_fail(
	    run, "the number of processors cannot be limited: no control group with the cpu "
		 "controller is delegated to us");
}

/* ---- version 1 ---- */

static const char *const controllers[CGROUP_DIRS] = {"memory", "pids", "cpu"};

static int set_limits_v1(struct jail_run *run)
{
	const struct jail_limits *limits = &run->spec.limits;
	struct jail_cgroup *group = &run->cgroup;

	if (write_number(group->dirs[0], "memory.limit_in_bytes", limits->memory_bytes) < 0)
		return step_fail(run, "memory.limit_in_bytes");
	/* Only where swap is accounted: the memory and swap together. */
	if (write_number(group->dirs[0], "memory.memsw.limit_in_bytes", limits->memory_bytes) <
		0 &&
	    errno != ENOENT)
		return step_fail(run, "memory.memsw.limit_in_bytes");
	if (write_number(group->dirs[1], "pids.max", most_processes(run)) < 0)
		return step_fail(run, "pids.max");
	if (group->dirs[2] >= 0 &&
	    (write_number(group->dirs[2], "cpu.cfs_period_us", CPU_PERIOD_US) < 0 ||
	     write_number(group->dirs[2], "cpu.cfs_quota_us", cpu_quota_us(run)) < 0))
		return step_fail(run, "cpu.cfs_quota_us = %llu",
				 (unsigned long long)cpu_quota_us(run));
	for (int i = 0; i < CGROUP_DIRS && group->dirs[i] >= 0; i++) {
		/* "tasks", not "cgroup.procs": a thread that moves itself need not stop the
		 * others of the system, which costs 10 ms */
		group->attach[i] = openat(group->dirs[i], "tasks", O_WRONLY | O_CLOEXEC);
		if (group->attach[i] < 0)
			return step_fail(run, "tasks");
	}
	return 0;
}

/* The group that ours goes below. -1: no such hierarchy, or not ours to write. */
static int open_parent_v1(struct own_group_tables *tables, const char *controller)
{
	int fd AUTO_FD = own_group_open(tables, controller, NULL);

	return fd >= 0 && faccessat(fd, ".", W_OK, AT_EACCESS) == 0 ? fd_steal(&fd) : -1;
}

static bool find_v1(struct jail_run *run, struct own_group_tables *tables)
{
	int *parents = run->cgroup.parents;

	for (int i = 0; i < 2; i++) {
		parents[i] = open_parent_v1(tables, controllers[i]);
		if (parents[i] < 0)
			return false;
	}
	if (run->spec.limits.cpus)
		parents[2] = open_parent_v1(tables, controllers[2]); /* judged by check_cpu */
	run->cgroup.kind = CGROUP_V1;
	return true;
}

static int make_v1(struct jail_run *run)
{
	struct jail_cgroup *group = &run->cgroup;

	own_group_name(group->name);
	for (int i = 0; i < CGROUP_DIRS && group->parents[i] >= 0; i++) {
		group->dirs[i] = make_dir(group->parents[i], group->name);
		if (group->dirs[i] < 0)
			return step_fail(run, "%s controller, v1: %s", controllers[i],
					 group->name);
	}
	if (set_limits_v1(run) < 0)
		return -1;
	step_done(run);
	return 0;
}

int cgroup_make(struct jail_run *run)
{
	run->step = STEP_cgroup;
	if (run->cgroup.kind == CGROUP_V2)
		return 0;
	if (find_v1(run, &run->cgroup.tables))
		return check_cpu(run) < 0 ? -1 : make_v1(run);
	close_fds(run->cgroup.parents, CGROUP_DIRS);
	if (run->spec.limits.degraded_ok)
		return check_cpu(run);
	errno = 0;
	if (own_group_is_v1(&run->cgroup.tables) > 0)
		return step_fail(run, "no control group for memory and processes can be made: "
				      "these controllers are cgroup v1's here, and our groups "
				      "of theirs are not ours to write");
	return step_fail(run, "no control group for memory and processes can be made: neither "
			      "cgroup v2 is delegated to us, nor are the v1 memory and pids "
			      "controllers writable");
}

/* ---- version 2 ---- */

static int set_limits_v2(struct jail_run *run)
{
	const struct jail_limits *limits = &run->spec.limits;
	struct jail_cgroup *group = &run->cgroup;
	int job = group->dirs[1];

	/* memory.oom.group stays 0: a child's end for memory is the payload's to judge */
	if (write_number(job, "memory.max", limits->memory_bytes) < 0)
		return step_fail(run, "memory.max");
	if (write_number(job, "memory.swap.max", 0) < 0 && errno != ENOENT)
		return step_fail(run, "memory.swap.max");
	if (write_number(job, "pids.max", most_processes(run)) < 0)
		return step_fail(run, "pids.max");
	if (write_number(job, "cgroup.max.descendants", 0) < 0)
		return step_fail(run, "cgroup.max.descendants");
	if (group->has_cpu) {
		char quota[48];

		snprintf(quota, sizeof(quota), "%llu %d", (unsigned long long)cpu_quota_us(run),
			 CPU_PERIOD_US);
		if (own_group_write(job, "cpu.max", quota) < 0)
			return step_fail(run, "cpu.max = %s", quota);
	}
	/* The helper, which is the payload's user by then, bears the payload inside of "job":
	 * it needs the right to move processes between the two (cgroup-v2.rst, Delegation
	 * Containment). */
	if (run->separate &&
	    (fchownat(group->dirs[0], "cgroup.procs", run->uid, run->gid, 0) < 0 ||
	     fchownat(job, "cgroup.procs", run->uid, run->gid, 0) < 0))
		return step_fail(run, "cgroup.procs");
	return 0;
}

/* 1 made, 0 not to be had, -1 failed. */
static int open_v2(struct jail_run *run, struct own_group_tables *tables)
{
	struct jail_cgroup *group = &run->cgroup;

	group->parents[0] = own_group_find_place(tables, &group->in_scope);
	if (group->parents[0] < 0)
		return 0;
	group->kind = CGROUP_V2;
	own_group_name(group->name);
	group->dirs[0] = make_dir(group->parents[0], group->name);
	if (group->dirs[0] < 0)
		return step_fail(run, "%s", group->name);
	if (own_group_write(group->dirs[0], "cgroup.subtree_control", "+memory +pids") < 0)
		return step_fail(run, "cgroup.subtree_control");
	/* Only where it is asked for: it costs every group beside ours something, too. */
	group->has_cpu =
	    run->spec.limits.cpus &&
	    own_group_write(group->parents[0], "cgroup.subtree_control", "+cpu") == 0 &&
	    own_group_write(group->dirs[0], "cgroup.subtree_control", "+cpu") == 0;
	group->ctl = make_dir(group->dirs[0], "ctl");
	group->dirs[1] = make_dir(group->dirs[0], "job");
	if (group->ctl < 0 || group->dirs[1] < 0)
		return step_fail(run, "%s/job", group->name);
	return set_limits_v2(run) < 0 ? -1 : 1;
}

/* ---- both ---- */

int cgroup_find(struct jail_run *run)
{
	struct own_group_tables *tables = &run->cgroup.tables;
	int result;

	if (step_enter(run, STEP_cgroup) < 0)
		return step_fail(run, "control group");
	result = own_group_is_v1(tables);
	if (result < 0)
		return step_fail(run, "/proc/self/cgroup");
	if (result > 0)
		return 0; /* what version 1 has taken, version 2 does not have */
	result = open_v2(run, tables);
	if (result <= 0)
		return result;
	step_done(run);
	return check_cpu(run);
}

void cgroup_sweep(const struct jail_run *run)
{
	for (int i = 0; i < CGROUP_DIRS; i++)
		if (run->cgroup.kind != CGROUP_NONE && run->cgroup.parents[i] >= 0)
			own_group_sweep(run->cgroup.parents[i]);
}

int cgroup_attach_self(const struct jail_run *run)
{
	if (run->cgroup.kind != CGROUP_V1)
		return 0;
	for (int i = 0; i < CGROUP_DIRS && run->cgroup.attach[i] >= 0; i++)
		if (write(run->cgroup.attach[i], "0", 1) != 1)
			return -1;
	return 0;
}

void cgroup_measure(const struct jail_run *run, uint64_t *oom_count, uint64_t *peak_bytes)
{
	const struct jail_cgroup *group = &run->cgroup;

	*oom_count = *peak_bytes = 0;
	if (group->kind == CGROUP_V1) {
		*oom_count = keyed_number(group->dirs[0], "memory.oom_control", "oom_kill");
		*peak_bytes = keyed_number(group->dirs[0], "memory.max_usage_in_bytes", "");
	} else if (group->kind == CGROUP_V2) {
		*oom_count = keyed_number(group->dirs[1], "memory.events", "oom_kill");
		*peak_bytes = keyed_number(group->dirs[1], "memory.peak", "");
	}
}

bool cgroup_was_full(const struct jail_run *run)
{
	return run->cgroup.kind != CGROUP_NONE &&
	       keyed_number(run->cgroup.dirs[1], "pids.events", "max") > 0;
}

bool cgroup_has_room(const struct jail_run *run, uint64_t bytes)
{
	const bool v1 = run->cgroup.kind == CGROUP_V1;
	const char *most = v1 ? "memory.limit_in_bytes" : "memory.max";
	const char *used = v1 ? "memory.usage_in_bytes" : "memory.current";
	int dir AUTO_FD = -1;

	if (run->cgroup.kind == CGROUP_NONE)
		return true;
	dir = openat(run->cgroup.parents[0], ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (unsigned depth = 0; dir >= 0 && depth < GROUPS_DEEPEST; depth++) {
		uint64_t limit = keyed_number(dir, most, ""), now = keyed_number(dir, used, "");
		int above;

		/* 0: "max", or the root, which has no such file */
		if (limit && (now > limit || limit - now < bytes))
			return false;
		above = openat(dir, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		close(dir);
		dir = above;
	}
	return true;
}

void cgroup_apply_records(struct jail_run *run)
{
	static const struct {
		enum cgroup_kind kind;
		int dir;
		const char *file;
	} files[] = {{CGROUP_V1, 0, "memory.limit_in_bytes"},
		     {CGROUP_V1, 0, "memory.memsw.limit_in_bytes"},
		     {CGROUP_V1, 1, "pids.max"},
		     {CGROUP_V1, 2, "cpu.cfs_quota_us"},
		     {CGROUP_V2, 1, "memory.max"},
		     {CGROUP_V2, 1, "memory.swap.max"},
		     {CGROUP_V2, 1, "pids.max"},
		     {CGROUP_V2, 1, "cpu.max"},
		     {CGROUP_V2, 1, "cgroup.max.descendants"}};

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		struct strbuf text AUTO_STRBUF = STRBUF_NONE;

		if (files[i].kind == run->cgroup.kind && run->cgroup.dirs[files[i].dir] >= 0 &&
		    own_group_read(run->cgroup.dirs[files[i].dir], files[i].file, &text) == 0)
			applied_add(run, "cgroup %s %.*s", files[i].file,
				    (int)strcspn(text.data, "\n"), text.data);
	}
}

static void close_all(struct jail_cgroup *group)
{
	close_fds(group->parents, CGROUP_DIRS);
	close_fds(group->dirs, CGROUP_DIRS);
	close_fds(group->attach, CGROUP_DIRS);
	close_fds(&group->ctl, 1);
	own_group_tables_release(&group->tables);
	group->kind = CGROUP_NONE;
}

/* A group may stay busy for a moment after its last process was reaped. */
static void remove_group(int parent, const char *name)
{
	for (int tries = 0; tries < 200; tries++) {
		if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno != EBUSY)
			return;
		usleep(5000);
	}
}

void cgroup_close_empty(struct jail_run *run)
{
	struct jail_cgroup *group = &run->cgroup;
	bool is_gone = group->kind == CGROUP_V1; /* v2: the helper is in it */

	for (int i = 0; i < CGROUP_DIRS && is_gone; i++)
		is_gone = group->parents[i] < 0 ||
			  (unlinkat(group->parents[i], group->name, AT_REMOVEDIR) == 0 ||
			   errno == ENOENT);
	if (is_gone)
		close_all(group);
}

void cgroup_close(struct jail_run *run)
{
	struct jail_cgroup *group = &run->cgroup;

	if (group->kind == CGROUP_V2 && group->dirs[0] >= 0) {
		/* nothing is left by now; if something is, this ends it */
		own_group_write(group->dirs[0], "cgroup.kill", "1");
		remove_group(group->dirs[0], "job");
		remove_group(group->dirs[0], "ctl");
	}
	for (int i = 0; i < CGROUP_DIRS; i++)
		if (group->kind != CGROUP_NONE && group->parents[i] >= 0)
			remove_group(group->parents[i], group->name);
	close_all(group);
}

const char *cgroup_text(const struct jail_run *run)
{
	if (run->cgroup.kind == CGROUP_NONE)
		return "degraded";
	if (run->cgroup.kind == CGROUP_V1)
		return "cgroup1";
	return run->cgroup.in_scope ? "systemd" : "cgroup2";
}
