#include "rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "sandbox/jail/calls.h"
#include "sandbox/jail/resolver.h"
#include "sandbox/jail/run.h"
#include "sandbox/jail/tree.h"

/* Where staging is mounted in the old root: a directory that every system has, and that nothing
 * below is needed of. */
#define STAGING "/proc"

/* ---- helpers: everything relative to the new root, no link followed ---- */

/* Whether a directory is of our own tmpfs, and not the operator's folder that is mounted in it: there nothing is made. */
static bool is_ours(int root, int dir)
{
	struct stat a, b;

	return fstat(root, &a) == 0 && fstat(dir, &b) == 0 && a.st_dev == b.st_dev;
}

/* The directory of a path, made if it is missing and would be ours. A descriptor, -1 with errno. */
static int open_parent(int root, const char *path)
{
	int dir AUTO_FD = fcntl(root, F_DUPFD_CLOEXEC, 3);
	const char *slash;

	for (; dir >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
		char *name AUTO_FREE = mem_strndup(path, (size_t)(slash - path));
		int next = fd_open_beneath(dir, name, O_PATH | O_DIRECTORY, 0);

		if (next < 0 && errno == ENOENT && is_ours(root, dir) &&
		    mkdirat(dir, name, 0755) == 0)
			next = fd_open_beneath(dir, name, O_PATH | O_DIRECTORY, 0);
		if (next < 0)
			return -1;
		close(dir);
		dir = next;
	}
	return fd_steal(&dir);
}

/* The directory that was asked for last: most mounts of a spec are in the same. */
struct parent {
	const char *path; /* what was in it; NULL: none yet */
	size_t len;	  /* of the directory's own path */
	int fd;		  /* owned, or -1 */
	bool ours;
};

static int find_parent(int root, const char *path, struct parent *last)
{
	const char *slash = strrchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) : 0;

	if (last->path && last->len == len && memcmp(last->path, path, len) == 0)
		return last->fd;
	fd_close_ptr(&last->fd);
	last->fd = open_parent(root, path);
	last->path = last->fd < 0 ? NULL : path;
	last->len = len;
	last->ours = is_ours(root, last->fd);
	return last->fd;
}

/* Makes the mount point path (relative) if it is missing and would be ours, and moves the tree there; closes the
 * tree. A link at its place is not followed. */
static int place(int root, int tree_fd, const char *path, bool is_file, struct parent *last)
{
	int tree AUTO_FD = tree_fd, parent;
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	if (tree < 0)
		return -1;
	parent = find_parent(root, path, last);
	if (parent < 0)
		return -1;
	if (last->ours &&
	    (is_file ? mknodat(parent, name, S_IFREG | 0444, 0) : mkdirat(parent, name, 0755)) <
		0 &&
	    errno != EEXIST)
		return -1;
	return move_mount(tree, "", parent, name, MOVE_MOUNT_F_EMPTY_PATH);
}

/* The source is a link itself. A folder of the operator's has it or has it not. */
static int place_link(int root, const char *link, const char *path, struct parent *last)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	int parent = find_parent(root, path, last);

	if (parent < 0)
		return -1;
	return !last->ours || symlinkat(link, parent, name) == 0 || errno == EEXIST ? 0 : -1;
}

/* A mount at a name that is ours and new, in a directory that is ours: nothing to look out for. */
static int place_new(int root, int tree_fd, const char *path, bool is_file)
{
	int tree AUTO_FD = tree_fd;

	if (tree < 0 ||
	    (is_file ? mknodat(root, path, S_IFREG | 0444, 0) : mkdirat(root, path, 0755)) < 0)
		return -1;
	return move_mount(tree, "", root, path, MOVE_MOUNT_F_EMPTY_PATH);
}

static int put_file(int root, const char *path, const char *text)
{
	int fd AUTO_FD = openat(root, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);

	return fd < 0 ? -1 : fd_write_all(fd, text, strlen(text));
}

static int put_link(int root, const char *target, const char *path)
{
	return symlinkat(target, root, path) < 0 && errno != EEXIST ? -1 : 0;
}

/*
 * A directory of staging as a mount of its own. All that the payload can write to, and the
 * root, are such views of one tmpfs: one size for all of it, and one file system to make and to
 * take down.
 */
static int view(const struct rootfs *fs, const char *name, mode_t mode)
{
	if (mkdirat(fs->staging, name, 0700) < 0 || fchmodat(fs->staging, name, mode, 0) < 0)
		return -1;
	return tree_clone_at(fs->staging, name, true);
}

/* ---- before the go ---- */

int rootfs_make_proc(struct jail_run *run)
{
	struct jail_packet packet = {.message = MSG_PREPARED};
	int proc AUTO_FD = -1;

	if (step_enter(run, STEP_proc) < 0)
		return step_fail(run, "proc");
	proc = tree_new("proc", NULL, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	if (proc < 0)
		return step_fail(run, "a new proc cannot be mounted");
	return packet_send(run->net_sock, &packet, proc) < 0
		   ? step_fail(run, "proc cannot be handed to the helper")
		   : 0;
}

static int receive_proc(struct jail_run *run, struct rootfs *fs)
{
	struct jail_packet packet;
	int got = packet_receive(run->net_sock, &packet, &fs->proc);

	if (got == 0)
		_exit(1); /* PID 1 failed and has told outer why */
	return got < 0 || fs->proc < 0 ? step_fail(run, "PID 1 cannot be heard") : 0;
}

/* Started by a user: the layers are opened here after the go, so their directories must stay
 * within reach. */
int rootfs_open_stores(struct jail_run *run, struct rootfs *fs)
{
	if (tree_open_sources(run) < 0)
		return -1;
	if (run->spec.store && (fs->store = tree_open_path(AT_FDCWD, run->spec.store)) < 0)
		return step_fail(run, "%s", run->spec.store);
	if (run->spec.scratch &&
	    (fs->scratch = tree_open_path(AT_FDCWD, run->spec.scratch)) < 0)
		return step_fail(run, "%s", run->spec.scratch);
	return 0;
}

static int new_tmpfs(const struct jail_limits *limits)
{
	char size[32], inodes[32];
	const char *options[] = {"mode", "0700", "size", size, "nr_inodes", inodes, NULL};

	snprintf(size, sizeof(size), "%llu", (unsigned long long)limits->disk_bytes);
	snprintf(inodes, sizeof(inodes), "%llu", (unsigned long long)limits->inodes);
	return tree_new("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

static int prepare_staging(struct jail_run *run, struct rootfs *fs)
{
	if (step_enter(run, STEP_staging) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return step_fail(run, "mounts cannot be made private");
	fs->staging = run->disk >= 0 ? fd_steal(&run->disk) : new_tmpfs(&run->spec.limits);
	if (fs->staging < 0 ||
	    move_mount(fs->staging, "", AT_FDCWD, STAGING, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return step_fail(run, "the scratch cannot be mounted");
	step_done(run);
	return 0;
}

static int prepare_root(struct jail_run *run, struct rootfs *fs)
{
	/* clang-format off */
	static const char *const dirs[] = {
	    "etc", "etc/ssl", "dev", "proc", "sys", "sys/devices", "sys/devices/system", "run", "var",
	    "var/cache", "var/lib", "var/log", "home", "home/agent", "work", "opt", "mnt"};
	/* clang-format on */
	int cpu AUTO_FD = -1;

	if (step_enter(run, STEP_root) < 0)
		return step_fail(run, "new root");
	fs->root = view(fs, "root", 0755);
	if (fs->root < 0 ||
	    move_mount(fs->root, "", fs->staging, "root", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return step_fail(run, "the new root cannot be mounted");
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdirat(fs->root, dirs[i], 0755) < 0)
			return step_fail(run, "/%s", dirs[i]);
	if (put_link(fs->root, "/tmp", "var/tmp") < 0 ||
	    put_link(fs->root, "/run", "var/run") < 0)
		return step_fail(run, "/var");
	/* hwloc, JVM, sysconf(3) count processors there */
	cpu = tree_open_path(AT_FDCWD, "/sys/devices/system/cpu");
	if (cpu >= 0 &&
	    place_new(fs->root, tree_clone(cpu, false), "sys/devices/system/cpu", false) < 0)
		return step_fail(run, "/sys/devices/system/cpu");
	return 0;
}

#define NSSWITCH                                                                               \
	"passwd: files\ngroup: files\nshadow: files\nnetworks: files\nprotocols: files\n"      \
	"services: files\nethers: files\nrpc: files\n"
/* Should the resolver be busy, a look-up gives up soon. */
#define RESOLV_CONF "nameserver " RESOLVER_ADDRESS "\noptions timeout:1 attempts:2\n"

static int prepare_etc(struct jail_run *run, struct rootfs *fs)
{
	const struct {
		const char *path, *text;
	} files[] = {
	    {"etc/passwd", "agent:x:1000:1000:agent:/home/agent:/bin/sh\n"
			   "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
	    {"etc/group", "agent:x:1000:\nnogroup:x:65534:\n"},
	    {"etc/hosts",
	     "127.0.0.1 localhost jail\n::1 localhost ip6-localhost ip6-loopback jail\n"},
	    {"etc/hostname", "jail\n"},
	    {"etc/host.conf", "multi on\n"},
	    {"etc/nsswitch.conf",
	     run->spec.observe ? "hosts: files dns\n" NSSWITCH : "hosts: files\n" NSSWITCH},
	    {"etc/resolv.conf", run->spec.observe ? RESOLV_CONF : ""},
	    {"etc/machine-id", "61676e742d6a61696c2d6d616368696e\n"},
	    {"etc/shells", "/bin/sh\n"},
	};

	if (step_enter(run, STEP_etc) < 0)
		return step_fail(run, "/etc");
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		if (put_file(fs->root, files[i].path, files[i].text) < 0)
			return step_fail(run, "/%s", files[i].path);
	step_done(run);
	return 0;
}

/* A device of the host, checked to be that device; it must stay a device, so no nodev. */
static int place_device(int root, const char *name, unsigned major_number,
			unsigned minor_number)
{
	char source[32];
	int tree AUTO_FD = -1;
	struct stat st;

	snprintf(source, sizeof(source), "/%s", name);
	tree = open_tree(AT_FDCWD, source,
			 AT_SYMLINK_NOFOLLOW | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0 || fstat(tree, &st) < 0)
		return -1;
	if (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(major_number, minor_number)) {
		errno = ENODEV;
		return -1;
	}
	return place_new(root, fd_steal(&tree), name, true);
}

static int prepare_dev(struct jail_run *run, struct rootfs *fs)
{
	static const struct {
		const char *name;
		unsigned major_number, minor_number;
	} devices[] = {{"dev/null", 1, 3},   {"dev/zero", 1, 5},    {"dev/full", 1, 7},
		       {"dev/random", 1, 8}, {"dev/urandom", 1, 9}, {"dev/tty", 5, 0}};
	static const struct {
		const char *target, *path;
	} links[] = {{"/proc/self/fd", "dev/fd"},
		     {"/proc/self/fd/0", "dev/stdin"},
		     {"/proc/self/fd/1", "dev/stdout"},
		     {"/proc/self/fd/2", "dev/stderr"},
		     {"pts/ptmx", "dev/ptmx"}};
	static const char *const pts[] = {"newinstance", NULL,	"ptmxmode", "0666", "mode",
					  "0620",	 "max", "256",	    NULL};

	if (step_enter(run, STEP_dev) < 0)
		return step_fail(run, "/dev");
	for (size_t i = 0; i < ARRAY_LEN(devices); i++)
		if (place_device(fs->root, devices[i].name, devices[i].major_number,
				 devices[i].minor_number) < 0)
			return step_fail(run, "/%s", devices[i].name);
	for (size_t i = 0; i < ARRAY_LEN(links); i++)
		if (put_link(fs->root, links[i].target, links[i].path) < 0)
			return step_fail(run, "/%s", links[i].path);
	if (place_new(fs->root, tree_new("devpts", pts, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC),
		      "dev/pts", false) < 0)
		return step_fail(run, "/dev/pts");
	if (place_new(fs->root, view(fs, "shm", 01777), "dev/shm", false) < 0)
		return step_fail(run, "/dev/shm");
	step_done(run);
	return 0;
}

/* Below it nothing else is mounted; nor, since no mount's target is the root, is anything in which it lies. */
#define OLD_ROOT ".old"

/*
 * Puts an unreadable empty file over what any user could read or what must not be there at all,
 * a read-only view of itself over what is set there. The rest of /proc outside of one's own
 * processes is root's alone, which nobody here is, outside or inside.
 */
static int mask_proc(int root, int staging)
{
	static const char *const masked[] = {
	    "proc/sys", /* this one read-only */
	    "proc/kcore",	  "proc/keys",	     "proc/key-users",	"proc/kmsg",
	    "proc/sysrq-trigger", "proc/timer_list", "proc/sched_debug"};
	int empty AUTO_FD = -1;

	/* not in the root, where something of the operator's may be mounted by now */
	if (mknodat(staging, "hidden", S_IFREG, 0) < 0)
		return -1;
	empty = openat(staging, "hidden", O_PATH | O_CLOEXEC);
	if (empty < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(masked); i++) {
		int at AUTO_FD = openat(root, masked[i], O_PATH | O_NOFOLLOW | O_CLOEXEC);
		int tree AUTO_FD = -1;

		if (at < 0 && errno == ENOENT)
			continue;
		tree = at < 0 ? -1 : tree_clone(i ? empty : at, false);
		if (tree < 0 ||
		    move_mount(tree, "", at, "",
			       MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
			return -1;
	}
	return unlinkat(staging, "hidden", 0);
}

int rootfs_take_proc(struct jail_run *run, struct rootfs *fs)
{
	if (step_enter(run, STEP_proc) < 0 || receive_proc(run, fs) < 0)
		return step_fail(run, "proc");
	/* a path that starts here does not meet the mask that will be above it */
	fs->sys = openat(fs->proc, "sys", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fs->sys < 0 ? step_fail(run, "/proc") : 0;
}

int rootfs_place_proc(struct jail_run *run, struct rootfs *fs)
{
	run->step = STEP_proc;
	if (move_mount(fs->proc, "", fs->root, "proc", MOVE_MOUNT_F_EMPTY_PATH) < 0 ||
	    mask_proc(fs->root, fs->staging) < 0)
		return step_fail(run, "/proc");
	step_done(run);
	return 0;
}

static int fill(struct jail_run *run, struct rootfs *fs, struct parent *last)
{
	if (step_enter(run, STEP_mounts) < 0)
		return step_fail(run, "mounts of the spec");
	for (size_t i = 0; i < run->spec.mount_count; i++) {
		const char *target = run->spec.mounts[i].target + 1;
		struct jail_source *source = &run->sources[i];

		if (source->link) {
			if (place_link(fs->root, source->link, target, last) < 0)
				return step_fail(run, "/%s", target);
			continue;
		}
		if (source->tree < 0)
			continue;
		if (place(fs->root, fd_steal(&source->tree), target, source->is_file, last) < 0)
			return step_fail(run, "%s cannot be mounted on /%s",
					 run->spec.mounts[i].source, target);
	}
	step_done(run);
	return 0;
}

int rootfs_fill(struct jail_run *run, struct rootfs *fs)
{
	struct parent last = {.fd = -1};
	int result = fill(run, fs, &last);

	fd_close_ptr(&last.fd);
	return result;
}

static int place_scratch(struct jail_run *run, struct rootfs *fs)
{
	if (step_enter(run, STEP_scratch) < 0)
		return step_fail(run, "/tmp");
	if (place_new(fs->root, view(fs, "tmp", 01777), "tmp", false) < 0 ||
	    mkdirat(fs->root, &JAIL_RUNTIME[1], 0700) < 0)
		return step_fail(run, "/tmp");
	step_done(run);
	return 0;
}

void rootfs_init(struct rootfs *fs)
{
	fs->proc = fs->sys = fs->staging = fs->root = fs->store = fs->scratch = fs->upper = -1;
	fs->old = ".";
}

int rootfs_prepare(struct jail_run *run, struct rootfs *fs)
{
	if ((!run->separate && !run->ranged && rootfs_open_stores(run, fs) < 0) ||
	    prepare_staging(run, fs) < 0 || prepare_root(run, fs) < 0 ||
	    prepare_etc(run, fs) < 0 || prepare_dev(run, fs) < 0)
		return -1;
	return place_scratch(run, fs);
}

/* ---- the last step ---- */

int rootfs_pivot(struct jail_run *run, struct rootfs *fs)
{
	/* Not on top, where the payload could make no user namespace before it is gone: to the kernel that
	 * is a changed root. */
	if (step_enter(run, STEP_pivot) < 0 || mkdirat(fs->root, OLD_ROOT, 0700) < 0 ||
	    fchdir(fs->root) < 0 || syscall(SYS_pivot_root, ".", OLD_ROOT) < 0)
		return step_fail(run, "pivot_root");
	fs->old = OLD_ROOT;
	return 0;
}

int rootfs_let_go(struct jail_run *run, struct rootfs *fs)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};

	run->step = STEP_pivot;
	if (umount2(fs->old, MNT_DETACH) < 0 || chdir("/") < 0)
		return step_fail(run, "the old root cannot be unmounted");
	if (strcmp(fs->old, ".") == 0)
		return 0; /* what is below it was made so already */
	if (unlinkat(fs->root, fs->old, AT_REMOVEDIR) < 0 ||
	    mount_setattr(fs->root, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return step_fail(run, "the root cannot be made read-only");
	return 0;
}
