#include "cgroup.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "sandbox/jail/applied.h"
#include "sandbox/jail/backend.h"
#include "sandbox/jail/run.h"

#define PREFIX "agent-"
#define CGROUP2_MAGIC 0x63677270
#define FILE_MAX_BYTES (1 << 20)

/* ---- small files ---- */

static int read_small(int dir, const char *name, struct strbuf *out)
{
	int fd AUTO_FD = openat(dir, name, O_RDONLY | O_CLOEXEC);

	strbuf_init(out, FILE_MAX_BYTES);
	return fd < 0 ? -1 : fd_read_all(fd, out);
}

static int write_small(int dir, const char *name, const char *text)
{
	int fd AUTO_FD = openat(dir, name, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	return write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
}

static int write_number(int dir, const char *name, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	return write_small(dir, name, text);
}

/* The number behind "key " at the start of a line; 0 when it is not there. */
static uint64_t keyed_number(int dir, const char *name, const char *key)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	size_t len = strlen(key);

	if (read_small(dir, name, &text) < 0)
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

static bool has_word(const char *text, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = text; (at = strstr(at, word)); at += len)
		if ((at == text || isspace((unsigned char)at[-1])) &&
		    (!at[len] || isspace((unsigned char)at[len])))
			return true;
	return false;
}

static void close_fds(int *fds, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

/* ---- where we are ---- */

/*
 * Our group in the hierarchy of a controller (NULL: v2) as a path below its mount, from
 * /proc/self/cgroup: "N:controllers:/path" lines (cgroups(7)). A new string, NULL when there is
 * no such hierarchy.
 */
static char *own_path(const char *table, const char *controller)
{
	for (const char *line = table; *line;) {
		const char *end = strchrnul(line, '\n');
		const char *list = memchr(line, ':', (size_t)(end - line));
		const char *path =
		    list ? memchr(list + 1, ':', (size_t)(end - list - 1)) : NULL;

		if (path) {
			char *names AUTO_FREE =
			    mem_strndup(list + 1, (size_t)(path - list - 1));

			for (char *p = names; *p; p++)
				*p = *p == ',' ? ' ' : *p;
			if (controller ? has_word(names, controller) : !names[0])
				return mem_strndup(path + 1, (size_t)(end - path - 1));
		}
		line = *end ? end + 1 : end;
	}
	return NULL;
}

/* The blank-separated field of a line, counted from 0; a new string, NULL when there are fewer.
 */
static char *field_of(const char *line, unsigned index)
{
	for (;; index--) {
		size_t len = strcspn(line, " \n");

		if (!len)
			return NULL;
		if (!index)
			return mem_strndup(line, len);
		line += len;
		line += *line == ' ';
	}
}

/*
 * The mount of a hierarchy in /proc/self/mountinfo (proc(5)): file system type "cgroup" with
 * the controller in its options, or "cgroup2". Gives the mount point and the root of the mount
 * inside the hierarchy.
 */
static char *find_mount(const char *table, const char *controller, char **root)
{
	for (const char *line = table; *line;) {
		const char *end = strchrnul(line, '\n');
		char *copy AUTO_FREE = mem_strndup(line, (size_t)(end - line));
		char *dash = strstr(copy, " - ");

		line = *end ? end + 1 : end;
		if (!dash)
			continue;
		*dash = '\0';
		dash += 3;
		for (char *p = dash; controller && *p; p++)
			*p = *p == ',' ? ' ' : *p;
		if (strncmp(dash, controller ? "cgroup " : "cgroup2 ", controller ? 7 : 8) !=
			0 ||
		    (controller && !has_word(dash + 7, controller)))
			continue;
		*root = field_of(copy, 3);
		return *root ? field_of(copy, 4) : NULL;
	}
	return NULL;
}

/* Opens our own group of a hierarchy. Descriptor, or -1 with errno. */
static int open_own(const char *groups, const char *mounts, const char *controller)
{
	char *root AUTO_FREE = NULL;
	char *point AUTO_FREE = find_mount(mounts, controller, &root);
	char *path AUTO_FREE = point ? own_path(groups, controller) : NULL;
	char *full AUTO_FREE = NULL;
	const char *below = path;

	if (!path) {
		errno = ENOENT;
		return -1;
	}
	/* In a container the mount may show a part of the hierarchy only. */
	if (strcmp(root, "/") != 0) {
		size_t len = strlen(root);

		if (strncmp(path, root, len) == 0 && (!path[len] || path[len] == '/'))
			below = path + len;
	}
	full = mem_printf("%s/%s", point, below);
	return open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* ---- leftovers ---- */

/* Start time of a process in clock ticks since boot (proc_pid_stat(5), field 22); 0 when it is
 * gone. */
static unsigned long long start_time(pid_t pid)
{
	char path[64], text[1024];
	int fd AUTO_FD = -1;
	char *field AUTO_FREE = NULL;
	ssize_t len;
	const char *at;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (len <= 0)
		return 0;
	text[len] = '\0';
	at = strrchr(text, ')');			   /* the name may hold anything */
	if (!at || !at[1] || at[2] == 'Z' || at[2] == 'X') /* it has ended */
		return 0;
	field = field_of(at + 2, 22 - 3);
	return field ? strtoull(field, NULL, 10) : 0;
}

/*
 * Removes what runs left whose outer process is gone. A group that still has processes cannot
 * be removed: nothing is killed here, since the name may come from another pid namespace.
 */
static void sweep(int parent)
{
	int copy = fcntl(parent, F_DUPFD_CLOEXEC, 3);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *entry;

	if (!dir) {
		if (copy >= 0)
			close(copy);
		return;
	}
	while ((entry = readdir(dir))) {
		int pid, used = 0;
		unsigned long long start;
		char sub[300];

		if (sscanf(entry->d_name, PREFIX "%d-%llu%n", &pid, &start, &used) != 2 ||
		    entry->d_name[used] || start_time(pid) == start)
			continue;
		snprintf(sub, sizeof(sub), "%s/job", entry->d_name);
		unlinkat(parent, sub, AT_REMOVEDIR);
		snprintf(sub, sizeof(sub), "%s/ctl", entry->d_name);
		unlinkat(parent, sub, AT_REMOVEDIR);
		unlinkat(parent, entry->d_name, AT_REMOVEDIR);
	}
	closedir(dir);
}

static uint64_t most_processes(const struct jail_run *run)
{
	const struct backend *backend = backend_of(&run->spec);
	uint64_t wanted = run->spec.limits.processes;

	return backend->processes ? backend->processes(wanted) : wanted;
}

static void make_name(struct jail_cgroup *group)
{
	snprintf(group->name, sizeof(group->name), PREFIX "%d-%llu", (int)getpid(),
		 start_time(getpid()));
}

static int make_dir(int parent, const char *name)
{
	if (mkdirat(parent, name, 0755) < 0)
		return -1;
	return openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* ---- version 1 ---- */

static int set_limits_v1(struct jail_run *run)
{
	struct jail_cgroup *group = &run->cgroup;

	if (write_number(group->dirs[0], "memory.limit_in_bytes",
			 run->spec.limits.memory_bytes) < 0)
		return step_fail(run, "memory.limit_in_bytes");
	/* Only where swap is accounted: the memory and swap together. */
	if (write_number(group->dirs[0], "memory.memsw.limit_in_bytes",
			 run->spec.limits.memory_bytes) < 0 &&
	    errno != ENOENT)
		return step_fail(run, "memory.memsw.limit_in_bytes");
	if (write_number(group->dirs[1], "pids.max", most_processes(run)) < 0)
		return step_fail(run, "pids.max");
	for (int i = 0; i < 2; i++) {
		/* "tasks", not "cgroup.procs": a thread that moves itself need not stop the
		 * others of the system, which costs 10 ms */
		group->attach[i] = openat(group->dirs[i], "tasks", O_WRONLY | O_CLOEXEC);
		if (group->attach[i] < 0)
			return step_fail(run, "tasks");
	}
	return 0;
}

static const char *const controllers[2] = {"memory", "pids"};

static bool find_v1(struct jail_run *run, const char *groups, const char *mounts)
{
	int *parents = run->cgroup.parents;

	for (int i = 0; i < 2; i++) {
		parents[i] = open_own(groups, mounts, controllers[i]);
		if (parents[i] < 0 || faccessat(parents[i], ".", W_OK, AT_EACCESS) < 0)
			return false;
	}
	run->cgroup.kind = CGROUP_V1;
	return true;
}

static bool is_v1(const char *groups)
{
	for (int i = 0; i < 2; i++) {
		char *path AUTO_FREE = own_path(groups, controllers[i]);

		if (!path)
			return false;
	}
	return true;
}

static int make_v1(struct jail_run *run)
{
	struct jail_cgroup *group = &run->cgroup;

	make_name(group);
	for (int i = 0; i < 2; i++) {
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
	struct strbuf groups AUTO_STRBUF = STRBUF_NONE, mounts AUTO_STRBUF = STRBUF_NONE;

	run->step = STEP_cgroup;
	if (run->cgroup.kind == CGROUP_V2)
		return 0;
	if (read_small(AT_FDCWD, "/proc/self/cgroup", &groups) < 0 ||
	    read_small(AT_FDCWD, "/proc/self/mountinfo", &mounts) < 0)
		return step_fail(run, "/proc/self/cgroup");
	if (find_v1(run, groups.data, mounts.data))
		return make_v1(run);
	close_fds(run->cgroup.parents, 2);
	if (run->spec.limits.degraded_ok)
		return 0;
	errno = 0;
	return step_fail(run, "no control group for memory and processes can be made: neither "
			      "cgroup v2 is delegated to us, nor are the v1 memory and pids "
			      "controllers writable");
}

/* ---- version 2 ---- */

/* Whether children of this group have the memory and the pids controller, or can be given them.
 */
static bool can_hold(int dir)
{
	struct strbuf on AUTO_STRBUF = STRBUF_NONE;

	if (faccessat(dir, ".", W_OK, AT_EACCESS) < 0 ||
	    faccessat(dir, "cgroup.procs", W_OK, AT_EACCESS) < 0 ||
	    read_small(dir, "cgroup.subtree_control", &on) < 0)
		return false;
	if (has_word(on.data, "memory") && has_word(on.data, "pids"))
		return true;
	return write_small(dir, "cgroup.subtree_control", "+memory +pids") == 0;
}

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
static int open_v2(struct jail_run *run, const char *groups, const char *mounts)
{
	struct jail_cgroup *group = &run->cgroup;
	int own AUTO_FD = open_own(groups, mounts, NULL);
	int above AUTO_FD = -1;
	struct statfs fs;

	if (own < 0)
		return 0;
	above = openat(own, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* The parent first: a group that has processes cannot give controllers to children. */
	if (above >= 0 && fstatfs(above, &fs) == 0 && fs.f_type == CGROUP2_MAGIC &&
	    can_hold(above))
		group->parents[0] = fd_steal(&above);
	else if (can_hold(own))
		group->parents[0] = fd_steal(&own);
	else
		return 0;
	group->kind = CGROUP_V2;
	make_name(group);
	group->dirs[0] = make_dir(group->parents[0], group->name);
	if (group->dirs[0] < 0)
		return step_fail(run, "%s", group->name);
	if (write_small(group->dirs[0], "cgroup.subtree_control", "+memory +pids") < 0)
		return step_fail(run, "cgroup.subtree_control");
	group->ctl = make_dir(group->dirs[0], "ctl");
	group->dirs[1] = make_dir(group->dirs[0], "job");
	if (group->ctl < 0 || group->dirs[1] < 0)
		return step_fail(run, "%s/job", group->name);
	return set_limits_v2(run) < 0 ? -1 : 1;
}

/* ---- both ---- */

int cgroup_find(struct jail_run *run)
{
	struct strbuf groups AUTO_STRBUF = STRBUF_NONE, mounts AUTO_STRBUF = STRBUF_NONE;
	int result;

	if (step_enter(run, STEP_cgroup) < 0)
		return step_fail(run, "control group");
	if (read_small(AT_FDCWD, "/proc/self/cgroup", &groups) < 0)
		return step_fail(run, "/proc/self/cgroup");
	if (is_v1(groups.data))
		return 0; /* what version 1 has taken, version 2 does not have */
	if (read_small(AT_FDCWD, "/proc/self/mountinfo", &mounts) < 0)
		return step_fail(run, "/proc/self/mountinfo");
	result = open_v2(run, groups.data, mounts.data);
	if (result > 0)
		step_done(run);
	return result < 0 ? -1 : 0;
}

void cgroup_sweep(const struct jail_run *run)
{
	for (int i = 0; i < 2; i++)
		if (run->cgroup.kind != CGROUP_NONE && run->cgroup.parents[i] >= 0)
			sweep(run->cgroup.parents[i]);
}

int cgroup_attach_self(const struct jail_run *run)
{
	if (run->cgroup.kind != CGROUP_V1)
		return 0;
	for (int i = 0; i < 2; i++)
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

void cgroup_apply_records(struct jail_run *run)
{
	static const struct {
		enum cgroup_kind kind;
		int dir;
		const char *file;
	} files[] = {{CGROUP_V1, 0, "memory.limit_in_bytes"},
		     {CGROUP_V1, 0, "memory.memsw.limit_in_bytes"},
		     {CGROUP_V1, 1, "pids.max"},
		     {CGROUP_V2, 1, "memory.max"},
		     {CGROUP_V2, 1, "memory.swap.max"},
		     {CGROUP_V2, 1, "pids.max"},
		     {CGROUP_V2, 1, "cpu.max"},
		     {CGROUP_V2, 1, "cgroup.max.descendants"}};

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		struct strbuf text AUTO_STRBUF = STRBUF_NONE;

		if (files[i].kind == run->cgroup.kind &&
		    read_small(run->cgroup.dirs[files[i].dir], files[i].file, &text) == 0)
			applied_add(run, "cgroup %s %.*s", files[i].file,
				    (int)strcspn(text.data, "\n"), text.data);
	}
}

static void close_all(struct jail_cgroup *group)
{
	close_fds(group->parents, 2);
	close_fds(group->dirs, 2);
	close_fds(group->attach, 2);
	close_fds(&group->ctl, 1);
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

	for (int i = 0; i < 2 && is_gone; i++)
		is_gone = group->parents[i] >= 0 &&
			  (unlinkat(group->parents[i], group->name, AT_REMOVEDIR) == 0 ||
			   errno == ENOENT);
	if (is_gone)
		close_all(group);
}

void cgroup_close(struct jail_run *run)
{
	struct jail_cgroup *group = &run->cgroup;

	if (group->kind == CGROUP_V2 && group->dirs[0] >= 0) {
		remove_group(group->dirs[0], "job");
		remove_group(group->dirs[0], "ctl");
	}
	for (int i = 0; i < 2; i++)
		if (group->kind != CGROUP_NONE && group->parents[i] >= 0)
			remove_group(group->parents[i], group->name);
	close_all(group);
}

const char *cgroup_text(const struct jail_run *run)
{
	if (run->cgroup.kind == CGROUP_NONE)
		return "degraded";
	return run->cgroup.kind == CGROUP_V1 ? "cgroup1" : "cgroup2";
}
