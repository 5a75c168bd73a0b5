#include "gvisor.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/jsonw.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/fds.h"
#include "sandbox/jail/calls.h"
#include "sandbox/jail/applied.h"
#include "sandbox/jail/command.h"
#include "sandbox/jail/parts.h"
#include "sandbox/jail/payload.h"
#include "sandbox/jail/rootfs.h"
#include "sandbox/jail/run.h"
#include "sandbox/jail/runner.h"
#include "sandbox/jail/stdio_kind.h"
#include "sandbox/jail/tree.h"

#define CONFIG_MAX (1 << 20)
#define GVISOR_HEAP (128ULL << 20) /* of its own, with few processes */
#define GVISOR_THREADS 4096 /* of the host, for few processes of the payload that come and go */

/* ---- outer ---- */

static const char *const places[] = {"/usr/bin/runsc", "/usr/local/bin/runsc",
				     "/usr/sbin/runsc", "/usr/local/sbin/runsc"};

static int open_runtime(struct jail_run *run, const char **path)
{
	int fd = -1;

	*path = run->spec.runtime;
	if (*path)
		return open(*path, O_PATH | O_CLOEXEC);
	for (size_t i = 0; fd < 0 && i < ARRAY_LEN(places); i++) {
		*path = places[i];
		fd = open(*path, O_PATH | O_CLOEXEC);
	}
	return fd;
}

/* It is run with the payload in its hands: only root, or who started us, may have put it there. */
static bool is_trusted(const struct stat *st)
{
	return S_ISREG(st->st_mode) && (st->st_uid == 0 || st->st_uid == geteuid()) &&
	       !(st->st_mode & 0022) && (st->st_mode & 0111);
}

int gvisor_find(struct jail_run *run)
{
	const char *path;
	struct stat st;

	if (step_enter(run, STEP_runtime) < 0)
		return step_fail(run, "runsc");
	run->runtime = open_runtime(run, &path);
	if (run->runtime < 0)
		return step_fail(run, "%s",
				 run->spec.runtime ? path : "runsc is not installed");
	if (fstat(run->runtime, &st) < 0)
		return step_fail(run, "%s", path);
	errno = 0;
	if (!is_trusted(&st))
		return step_fail(
		    run, "%s is not a program that only root and its owner can change", path);
	run->self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	run->said = memfd_create("runsc-messages", MFD_CLOEXEC);
	if (run->self < 0 || run->said < 0)
		return step_fail(run, "/proc/self/exe");
	step_done(run);
	return 0;
}

/*
 * A process of the payload is a process of the host, a thread one there and one of runsc that waits for
 * it; runsc itself has some dozens. Processes that come and go cost more, up to 16 were seen, and runsc dies
 * where it gets none: granted to few, since the host has not that many for a thousand. What the payload
 * may have is counted inside, by the runner.
 */
uint64_t gvisor_processes(uint64_t wanted)
{
	uint64_t least = 3 * wanted + 256, most = 16 * wanted + 512;

	if (wanted > UINT32_MAX)
		return wanted;
	return most < GVISOR_THREADS || least > most ? most
	       : least > GVISOR_THREADS		     ? least
						     : GVISOR_THREADS;
}

/* ---- config.json (OCI runtime specification 1.0, config.md and config-linux.md) ---- */

static void put_strings(struct jsonw *json, const char *key, const char *const *list,
			size_t count)
{
	jsonw_array(json, key);
	for (size_t i = 0; i < count; i++)
		jsonw_string(json, NULL, list[i]);
	jsonw_end(json);
}

/*
 * The runner's user and rights, inside: root of a kernel that has no one else on it, and what it takes
 * to count processes and to become the payload. All of it is gone before the payload is.
 */
static void put_process(struct jsonw *json, const struct jail_spec *spec)
{
	static const char *const args[] = {GVISOR_RUNNER, RUNNER_WORD};
	static const char *const rights[] = {
	    "CAP_SETUID",	"CAP_SETGID",	    "CAP_SETPCAP", "CAP_SYS_ADMIN",
	    "CAP_DAC_OVERRIDE", "CAP_SYS_RESOURCE", "CAP_CHOWN",   "CAP_KILL"};
	const size_t count =
	    ARRAY_LEN(rights) - !spec->limits.cpu_s; /* the last one: for that */
	static const char *const sets[] = {"bounding", "effective", "permitted"};

	jsonw_object(json, "process");
	jsonw_bool(json, "terminal", false);
	jsonw_object(json, "user");
	jsonw_number(json, "uid", 0);
	jsonw_number(json, "gid", 0);
	jsonw_end(json);
	put_strings(json, "args", args, ARRAY_LEN(args));
	put_strings(json, "env", NULL, 0);
	jsonw_string(json, "cwd", "/");
	jsonw_object(json, "capabilities");
	for (size_t i = 0; i < ARRAY_LEN(sets); i++)
		put_strings(json, sets[i], rights, count);
	jsonw_end(json);
	jsonw_bool(json, "noNewPrivileges", true);
	jsonw_end(json);
}

static void put_mount(struct jsonw *json, const char *path)
{
	static const char *const options[] = {"rbind", "rw", "nosuid", "nodev"};
	char *source AUTO_FREE = mem_printf(GVISOR_ROOT "%s", path);

	jsonw_object(json, NULL);
	jsonw_string(json, "destination", path);
	jsonw_string(json, "type", "bind");
	jsonw_string(json, "source", source);
	put_strings(json, "options", options, ARRAY_LEN(options));
	jsonw_end(json);
}

/* The root is read-only, so what can be written is named: views of the one sized scratch, the overlay
 * on it, and what the spec says. proc, sys and dev are the sandbox kernel's own. */
static void put_mounts(struct jsonw *json, const struct jail_spec *spec)
{
	static const char *const writable[] = {"/tmp", "/dev/shm", JAIL_WORK, JAIL_HOME};

	jsonw_array(json, "mounts");
	for (size_t i = 0; i < ARRAY_LEN(writable); i++)
		put_mount(json, writable[i]);
	for (size_t i = 0; i < spec->mount_count; i++)
		if (spec->mounts[i].how == JAIL_BIND_RW &&
		    strcmp(spec->mounts[i].target, JAIL_HOME) != 0)
			put_mount(json, spec->mounts[i].target);
	jsonw_end(json);
}

static void put_map(struct jsonw *json, const char *key)
{
	jsonw_array(json, key);
	jsonw_object(json, NULL);
	jsonw_number(json, "containerID", 0);
	jsonw_number(json, "hostID", 0);
	jsonw_number(json, "size", 1);
	jsonw_end(json);
	jsonw_end(json);
}

/*
 * A warm's packages come over a listener of the jail's loopback, outside of the sandbox: its sandbox uses
 * the jail's network, a loopback and nothing else, by the host's kernel. Any other has a network of its
 * own, in the sandbox's kernel.
 */
static void put_linux(struct jsonw *json, const struct jail_spec *spec)
{
	static const char *const namespaces[] = {"pid",	  "ipc",  "uts",
						 "mount", "user", "network"};

	jsonw_object(json, "linux");
	jsonw_array(json, "namespaces");
	for (size_t i = 0; i < ARRAY_LEN(namespaces) - spec->egress; i++) {
		jsonw_object(json, NULL);
		jsonw_string(json, "type", namespaces[i]);
		jsonw_end(json);
	}
	jsonw_end(json);
	put_map(json, "uidMappings");
	put_map(json, "gidMappings");
	jsonw_end(json);
}

int gvisor_config(const struct jail_spec *spec, struct strbuf *out)
{
	struct jsonw json;

	jsonw_init(&json, out);
	jsonw_object(&json, NULL);
	jsonw_string(&json, "ociVersion", "1.0.0");
	put_process(&json, spec);
	jsonw_object(&json, "root");
	jsonw_string(&json, "path", GVISOR_ROOT);
	jsonw_bool(&json, "readonly", true);
	jsonw_end(&json);
	jsonw_string(&json, "hostname", "jail");
	put_mounts(&json, spec);
	put_linux(&json, spec);
	jsonw_end(&json);
	return jsonw_finish(&json);
}

/* ---- the root that runsc is started in ---- */

static int write_config(struct jail_run *run, int root)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	int fd AUTO_FD = -1;

	strbuf_init(&text, CONFIG_MAX);
	errno = EILSEQ;
	if (gvisor_config(&run->spec, &text) < 0)
		return step_fail(run, "a mount of the spec has a name that is not UTF-8");
	fd = openat(root, "bundle/config.json", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
	if (fd < 0 || fd_write_all(fd, text.data, text.len) < 0)
		return step_fail(run, "config.json of the bundle");
	return 0;
}

/* This program, where the sandbox finds it: by copy, since the payload's user need not reach the
 * directory that it is installed in. */
static int put_runner(struct jail_run *run, int root)
{
	int to AUTO_FD =
	    openat(root, &GVISOR_RUNNER[1], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0500);
	off_t offset = 0;
	ssize_t n = -1;

	while (to >= 0 && (n = sendfile(to, run->self, &offset, 1 << 30)) > 0)
		continue;
	if (to < 0 || n < 0 || fchmod(to, 0555) < 0)
		return step_fail(run, "%s", GVISOR_RUNNER);
	return 0;
}

/*
 * A root of a proc, the payload's root, and two small directories. The old root goes, with all of the
 * host. Mounts stay changeable here, since runsc makes its own.
 */
int gvisor_root(struct jail_run *run, struct rootfs *fs)
{
	static const char *const dirs[] = {"bundle", "state", "proc", "jail", "tmp"};
	/* without the two flags that runsc would have to repeat, and does not, when it makes its own
	 * read-only view: nothing there is set-id or a device but what is mounted on it */
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY,
				  .attr_clr = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
	int dir AUTO_FD = -1, host AUTO_FD = -1, proc AUTO_FD = -1;

	if (step_enter(run, STEP_pivot) < 0 || mkdirat(fs->staging, "host", 0755) < 0)
		return step_fail(run, "root of runsc");
	dir = openat(fs->staging, "host", O_PATH | O_DIRECTORY | O_CLOEXEC);
	host = dir < 0 ? -1 : tree_clone(dir, true);
	if (host < 0 || move_mount(host, "", fs->staging, "host", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return step_fail(run, "root of runsc");
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdirat(host, dirs[i], 0700) < 0)
			return step_fail(run, "root of runsc: %s", dirs[i]);
	if (symlinkat("jail/dev", host, "dev") < 0 || write_config(run, host) < 0 ||
	    put_runner(run, fs->root) < 0)
		return step_fail(run, "root of runsc");
	/* the proc alone, without what masks it: the kernel lets runsc make one of its own only where
	 * one can be seen in full */
	proc = open_tree(fs->proc, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (proc < 0 || mount_setattr(fs->root, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0 ||
	    move_mount(fs->root, "", host, "jail", MOVE_MOUNT_F_EMPTY_PATH) < 0 ||
	    move_mount(proc, "", host, "proc", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return step_fail(run, "root of runsc: mounts");
	if (fchdir(host) < 0 || syscall(SYS_pivot_root, ".", ".") < 0)
		return step_fail(run, "pivot_root");
	return 0;
}

/* ---- descriptors ---- */

/* What the runner has to know of the spec: nothing of the host. */
static int spec_file(const struct jail_run *run)
{
	struct jail_spec inside = run->spec; /* shallow */
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	inside.mounts = NULL;
	inside.mount_count = 0;
	inside.store = inside.scratch = inside.work_dir = inside.runtime = NULL;
	inside.work_rw = false;
	strbuf_init(&text, JAIL_SPEC_MAX);
	jail_spec_format(&inside, &text);
	return fd_memfd_sealed("jail-spec", text.data, text.len);
}

/* The end for the runner, with its job waiting in it. -1 with errno. */
static int make_job(struct jail_run *run, const char *work)
{
	struct runner_job job = {.ready = {.message = MSG_READY}, .cgroup = run->cgroup.kind};
	int pair[2], fds[5], ours AUTO_FD = -1, theirs AUTO_FD = -1,
				  spec AUTO_FD = spec_file(run);
	size_t count = 0;

	if (spec < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	ours = pair[0];
	theirs = pair[1];
	fds[count++] = spec;
	for (int i = 0; i < 3; i++) {
		if (stdio_kind(FD_STDIN + i, &job.stdio[i]) < 0)
			return -1;
		if (job.stdio[i] == 'f')
			fds[count++] = FD_STDIN + i;
	}
	job.audit = run->applied_file >= 0;
	if (job.audit)
		fds[count++] = run->applied_file;
	if (run->fault)
		snprintf(job.fault, sizeof(job.fault), "%s", run->fault);
	job.ready.done = run->done;
	memcpy(job.ready.note, run->note, sizeof(job.ready.note));
	snprintf(job.ready.work, sizeof(job.ready.work), "%s", work);
	if (parts_send_raw(ours, (const char *)&job, sizeof(job), fds, count) < 0)
		return -1;
	return fd_steal(&theirs);
}

static int place_descriptors(struct jail_run *run, const struct rootfs *fs)
{
	int job AUTO_FD = -1, report AUTO_FD = -1, said AUTO_FD = -1, runtime AUTO_FD = -1;

	if (step_enter(run, STEP_stdio) < 0)
		return step_fail(run, "standard descriptors");
	/* above all of their places first */
	job = make_job(run, fs->work);
	if (job < 0)
		return step_fail(
		    run, "standard descriptors (a pipe, /dev/null, or a terminal of its own)");
	report = fcntl(run->payload_sock, F_DUPFD_CLOEXEC, FD_LAST + 1);
	said = fcntl(run->said, F_DUPFD_CLOEXEC, FD_LAST + 1);
	runtime = fcntl(run->runtime, F_DUPFD_CLOEXEC, FD_LAST + 1);
	if (job < 0 || report < 0 || said < 0 || runtime < 0 || dup2(job, 0) < 0 ||
	    dup2(report, 1) < 0 || dup2(said, 2) < 0 || dup3(runtime, 3, O_CLOEXEC) < 0)
		return step_fail(run, "standard descriptors");
	run->payload_sock = 1;
	run->runtime = 3;
	job = report = said = runtime = -1; /* closed here, with all the rest */
	if (close_range(4, ~0U, 0) < 0)
		return step_fail(run, "descriptors");
	step_done(run);
	return 0;
}

/*
 * Where no control group caps it: what runsc takes for itself, for buffers of sockets and pipes and the like, which
 * the runner cannot count. The payload's own memory is a shared file, and counted by the runner.
 */
static int limit_heap(struct jail_run *run)
{
	const uint64_t heap = run->spec.limits.memory_bytes + GVISOR_HEAP;
	const struct rlimit limit = {heap, heap};

	if (run->cgroup.kind != CGROUP_NONE)
		return 0;
	return setrlimit(RLIMIT_DATA, &limit) < 0 ? step_fail(run, "RLIMIT_DATA of runsc") : 0;
}

void gvisor_enter(struct jail_run *run, struct rootfs *fs)
{
	/* clang-format off */
	const char *const command[] = {
	    "runsc", "--root=/state", "--rootless", "--log=/dev/null", "--debug=false",
	    run->spec.egress ? "--network=host" : "--network=none",
	    "--ignore-cgroups",		/* of its own: it is in ours, with its limits */
	    "--host-uds=none", "--host-fifo=none", "--net-raw=false", "--overlay2=none",
	    "--file-access=exclusive", "--file-access-mounts=exclusive",	/* nobody else changes them */
	    "run", "--bundle=/bundle", "jail", NULL};
	/* clang-format on */
	const char *const no_env[] = {NULL};

	if (payload_let_root_change(run) < 0 || payload_await_root(run, fs) < 0 ||
	    payload_await_end_of_old(run) < 0)
		return;
	if (step_enter(run, STEP_cgroupns) < 0 || unshare(CLONE_NEWCGROUP) < 0) {
		step_fail(run, "unshare(CLONE_NEWCGROUP)");
		return;
	}
	step_done(run);
	if (place_descriptors(run, fs) < 0 || limit_heap(run) < 0)
		return;
	command_reset();
	if (applied_collect_host(run, command) < 0)
		return;
	if (step_enter(run, STEP_gvisor) == 0)
		syscall(SYS_execveat, run->runtime, "", command, no_env, AT_EMPTY_PATH);
	step_fail(run, "runsc cannot be executed");
}
