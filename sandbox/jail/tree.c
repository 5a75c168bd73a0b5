#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "sandbox/jail/calls.h"
#include "sandbox/jail/range.h"
#include "sandbox/jail/run.h"

#define OPEN_TREE_ATTR                                                                         \
	467 /* open_tree_attr(2), Linux 6.15: open_tree and mount_setattr in one */

int tree_clone(int fd, bool writable)
{
	return tree_clone_at(fd, "", writable);
}

int tree_clone_at(int fd, const char *name, bool writable)
{
	struct mount_attr attr = {
	    .attr_set =
		MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (writable ? 0 : MOUNT_ATTR_RDONLY),
	    .propagation = MS_PRIVATE,
	};
	const unsigned how = AT_EMPTY_PATH | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW |
			     OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC;
	int tree AUTO_FD = (int)syscall(OPEN_TREE_ATTR, fd, name, how, &attr, sizeof(attr));

	if (tree >= 0)
		return fd_steal(&tree);
	tree = open_tree(fd, name, how); /* ENOSYS, and in a container anything */
	if (tree < 0 ||
	    mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0)
		return -1;
	return fd_steal(&tree);
}

int tree_new(const char *type, const char *const *options, unsigned attributes)
{
	int fs AUTO_FD = fsopen(type, FSOPEN_CLOEXEC);

	if (fs < 0)
		return -1;
	for (; options && options[0]; options += 2)
		if (fsconfig(fs, options[1] ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG,
			     options[0], options[1], 0) < 0)
			return -1;
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	return fsmount(fs, FSMOUNT_CLOEXEC, attributes);
}

/* ---- idmapped mounts ---- */

static int write_proc(pid_t pid, const char *name, const char *text)
{
	char path[64];
	int fd AUTO_FD = -1;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
}

/* With our memory, and a stack of its own in it: nothing is copied for it. */
static int wait_to_be_killed(void *unused)
{
	(void)unused;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (pause() < 0)
		continue;
	return 0;
}

/*
 * A user namespace that only carries a map: id on disk -> payload's id (mount_setattr(2),
 * MOUNT_ATTR_IDMAP). Its one process waits to be killed. Descriptor, -1 with errno.
 */
static int map_namespace(const struct jail_run *run, uid_t uid, gid_t gid)
{
	char text[64];
	char stack[8192] __attribute__((aligned(16)));
	pid_t pid = clone(wait_to_be_killed, stack + sizeof(stack),
			  CLONE_VM | CLONE_NEWUSER | SIGCHLD, NULL);
	int fd = -1, saved;

	if (pid < 0)
		return -1;
	snprintf(text, sizeof(text), "%u %u 1\n", uid, run->uid);
	if (write_proc(pid, "uid_map", text) == 0) {
		snprintf(text, sizeof(text), "%u %u 1\n", gid, run->gid);
		if (write_proc(pid, "gid_map", text) == 0) {
			snprintf(text, sizeof(text), "/proc/%d/ns/user", (int)pid);
			fd = open(text, O_RDONLY | O_CLOEXEC);
		}
	}
	saved = errno;
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		continue;
	errno = saved;
	return fd;
}

int tree_give_to_payload(struct jail_run *run, int tree)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP};
	struct stat st;

	if (fstat(tree, &st) < 0)
		return -1;
	if (st.st_uid == run->uid && st.st_gid == run->gid)
		return 0;
	if (run->map_ns < 0 || run->map_uid != st.st_uid || run->map_gid != st.st_gid) {
		if (run->map_ns >= 0)
			close(run->map_ns);
		run->map_ns = map_namespace(run, st.st_uid, st.st_gid);
		run->map_uid = st.st_uid;
		run->map_gid = st.st_gid;
	}
	if (run->map_ns < 0)
		return -1;
	attr.userns_fd = (uint64_t)run->map_ns;
	return mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr));
}

/* ---- sources ---- */

int tree_open_path(int dir, const char *path)
{
	struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
			       .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};

	return (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

int tree_open_layer(int store, int scratch, const char *name)
{
	bool in_scratch = strncmp(name, "run/", 4) == 0;
	int dir = in_scratch ? scratch : store;

	if (dir < 0) {
		errno = ENOENT;
		return -1;
	}
	return fd_open_beneath(dir, in_scratch ? name + 4 : name, O_PATH | O_DIRECTORY, 0);
}

static char *read_link(int fd)
{
	char text[PATH_MAX];
	ssize_t len = readlinkat(fd, "", text, sizeof(text));

	if (len < 0 || (size_t)len == sizeof(text))
		return NULL;
	return mem_strndup(text, (size_t)len);
}

/* What the payload writes there is its owner's on disk, set-id bits included: never root's. */
static int give_writable(struct jail_run *run, int tree, const char *path)
{
	struct stat st;

	if (fstat(tree, &st) < 0)
		return step_fail(run, "%s", path);
	if (st.st_uid == 0 || st.st_gid == 0) {
		errno = EPERM;
		return step_fail(run, "%s belongs to root and cannot be made writable", path);
	}
	if (tree_give_to_payload(run, tree) < 0)
		return step_fail(
		    run, "%s cannot be given to the payload's user (idmapped mount)", path);
	return 0;
}

/* The same for an id of the user's range: later, since the starter has not laid out what shall be in it. */
static int give_later(struct jail_run *run, int tree, int *give, const char *path)
{
	*give = openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *give < 0 ? step_fail(run, "%s", path) : 0;
}

static int give_now(struct jail_run *run, int *give, const char *path)
{
	int dir AUTO_FD = fd_steal(give);

	if (dir >= 0 && range_give(dir) < 0)
		return step_fail(run, "%s cannot be given to uid %u of the user's range", path,
				 (unsigned)run->uid);
	return 0;
}

int tree_give_writable(struct jail_run *run)
{
	if (!run->ranged)
		return 0;
	if (give_now(run, &run->work_give, run->spec.work_dir) < 0)
		return -1;
	for (size_t i = 0; i < run->spec.mount_count; i++)
		if (give_now(run, &run->sources[i].give, run->spec.mounts[i].source) < 0)
			return -1;
	return 0;
}

/* The mount of one directory or file of the spec, given to the payload where that is asked. */
static int open_source(struct jail_run *run, const struct jail_mount *mount,
		       struct jail_source *source)
{
	int fd AUTO_FD = tree_open_path(AT_FDCWD, mount->source);
	struct stat st;

	if (fd < 0)
		return mount->optional && (errno == ENOENT || errno == ENOTDIR)
			   ? 0
			   : step_fail(run, "%s", mount->source);
	if (fstat(fd, &st) < 0)
		return step_fail(run, "%s", mount->source);
	if (S_ISLNK(st.st_mode) && mount->how == JAIL_BIND_RO) {
		source->link = read_link(fd);
		return source->link ? 0 : step_fail(run, "%s", mount->source);
	}
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)) {
		errno = S_ISLNK(st.st_mode) ? ELOOP : EINVAL;
		return step_fail(run, "%s is neither a directory nor a regular file",
				 mount->source);
	}
	source->is_file = !S_ISDIR(st.st_mode);
	source->tree = tree_clone(fd, mount->how == JAIL_BIND_RW);
	if (source->tree < 0)
		return step_fail(run, "%s cannot be mounted", mount->source);
	if (mount->how == JAIL_BIND_RW && run->ranged)
		return give_later(run, source->tree, &source->give, mount->source);
	if (mount->how == JAIL_BIND_RO || !run->separate)
		return 0;
	if (mount->how == JAIL_BIND_RW)
		return give_writable(run, source->tree, mount->source);
	if (tree_give_to_payload(run, source->tree) == 0)
		return 0;
	snprintf(run->note, sizeof(run->note),
		 "%s is shown with its own owners: no idmapped mounts there", mount->source);
	return 0;
}

static int open_work_dir(struct jail_run *run)
{
	int fd AUTO_FD = tree_open_path(AT_FDCWD, run->spec.work_dir);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return step_fail(run, "%s", run->spec.work_dir);
	if (!S_ISDIR(st.st_mode)) {
		errno = ENOTDIR;
		return step_fail(run, "%s", run->spec.work_dir);
	}
	run->work_tree = tree_clone(fd, run->spec.work_rw);
	if (run->work_tree < 0)
		return step_fail(run, "%s cannot be mounted", run->spec.work_dir);
	if (run->ranged && run->spec.work_rw)
		return give_later(run, run->work_tree, &run->work_give, run->spec.work_dir);
	if (run->separate && run->spec.work_rw)
		return give_writable(run, run->work_tree, run->spec.work_dir);
	if (!run->separate || tree_give_to_payload(run, run->work_tree) == 0)
		return 0;
	snprintf(run->note, sizeof(run->note),
		 "%s is shown with its own owners: no idmapped mounts there",
		 run->spec.work_dir);
	return 0;
}

int tree_open_sources(struct jail_run *run)
{
	size_t count = run->spec.mount_count;

	if (step_enter(run, STEP_sources) < 0)
		return step_fail(run, "mounts of the spec");
	run->sources = mem_calloc(count, sizeof(*run->sources));
	for (size_t i = 0; i < count; i++)
		run->sources[i].tree = run->sources[i].give = -1;
	for (size_t i = 0; i < count; i++)
		if (open_source(run, &run->spec.mounts[i], &run->sources[i]) < 0)
			return -1;
	if (run->spec.work_dir && open_work_dir(run) < 0)
		return -1;
	step_done(run);
	return 0;
}
