/*
 * The work tree and HOME from their layers: an overlay where the kernel has one for us, else a
 * copy made by outer. See rootfs.h.
 */
#include "rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "sandbox/jail/calls.h"
#include "sandbox/jail/layers.h"
#include "sandbox/jail/run.h"
#include "sandbox/jail/tree.h"

/* One of the two trees that layers make. */
struct stack {
	const char *path;   /* in the new root */
	char which;	    /* for MSG_COPY */
	const char *mode;   /* of an empty one */
	char *const *names; /* layers of the go, the topmost first */
	int *trees;	    /* their detached mounts, or NULL: opened here */
	size_t count;
	int bottom; /* one more, lowest layer: a detached mount, or -1 */
};

/* Mounts one layer at staging/<which><index>. */
static int place_layer(struct rootfs *fs, const struct stack *stack, size_t index, int tree_fd)
{
	int tree AUTO_FD = tree_fd;
	char name[16];

	snprintf(name, sizeof(name), "%c%zu", stack->which, index);
	if (tree < 0 || mkdirat(fs->staging, name, 0700) < 0)
		return -1;
	return move_mount(tree, "", fs->staging, name, MOVE_MOUNT_F_EMPTY_PATH);
}

static int open_layer(struct rootfs *fs, const char *name)
{
	int fd AUTO_FD = tree_open_layer(fs->store, fs->scratch, name);

	return fd < 0 ? -1 : tree_clone(fd, false);
}

static int place_layers(struct jail_run *run, struct rootfs *fs, struct stack *stack)
{
	if (step_enter(run, STEP_layers) < 0)
		return step_fail(run, "layers");
	for (size_t i = 0; i < stack->count; i++) {
		int tree =
		    stack->trees ? fd_steal(&stack->trees[i]) : open_layer(fs, stack->names[i]);

		if (place_layer(fs, stack, i, tree) < 0)
			return step_fail(run, "layer %s", stack->names[i]);
	}
	if (stack->bottom >= 0 &&
	    place_layer(fs, stack, stack->count, fd_steal(&stack->bottom)) < 0)
		return step_fail(run, "layer %s", run->spec.work_dir);
	step_done(run);
	return 0;
}

/*
 * Whether an overlay can keep its marks on our tmpfs: a user namespace's overlay needs user.*
 * attributes, which tmpfs has since Linux 6.6. Without them a directory cannot be made where a
 * lower one was removed.
 */
static bool can_mark(int dir)
{
	return fsetxattr(dir, "user.overlay.probe", "y", 1, 0) == 0 &&
	       fremovexattr(dir, "user.overlay.probe") == 0;
}

/* Opens staging/name, made with this mode. */
static int make_dir(int staging, const char *name, mode_t mode)
{
	if (mkdirat(staging, name, 0700) < 0 || fchmodat(staging, name, mode, 0) < 0)
		return -1;
	return openat(staging, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/*
 * 1 mounted, 0 this kernel has no overlay for us.
 *
 * Every file that is opened through an overlay is two to the kernel. None of its options makes reading cheaper
 * (tried on Linux 6.18: with and without userxattr, volatile, xino, index, redirect_dir, metacopy, uuid, noatime;
 * the upper directory on tmpfs, on disk, none; the layers with and without an idmapped mount): tests/bench/jail
 * syscalls prints what an overlay alone takes.
 */
static int try_overlay(const struct jail_run *run, struct rootfs *fs, const struct stack *stack,
		       size_t lower_count, int upper)
{
	struct strbuf options AUTO_STRBUF = STRBUF_NONE;
	char *target AUTO_FREE = mem_printf("root/%s", stack->path);
	char work[] = {stack->which, 'w', '\0'};

	if (!can_mark(upper) || mkdirat(fs->staging, work, 0700) < 0 || fchdir(fs->staging) < 0)
		return 0;
	strbuf_init(&options, 4000);
	/* volatile: nothing need be safe on a disk, not even when the command asks for it */
	strbuf_addf(&options, "userxattr,%slowerdir=", run->spec.on_disk ? "volatile," : "");
	for (size_t i = 0; i < lower_count; i++)
		strbuf_addf(&options, "%s%c%zu", i ? ":" : "", stack->which, i);
	strbuf_addf(&options, ",upperdir=%cu,workdir=%cw", stack->which, stack->which);
	if (options.full)
		return 0;
	return mount("overlay", target, "overlay", MS_NOSUID | MS_NODEV, options.data) == 0;
}

/* Asks outer to copy the layers into the directory and waits. */
static int ask_for_copy(struct jail_run *run, const struct stack *stack,
			const struct jail_go *go, int upper)
{
	struct jail_packet packet = {.message = MSG_COPY, .which = stack->which};

	if (run->ranged) /* outer, who is the user, may not write there: we may read what is theirs */
		return layers_copy(run, go, stack->which, upper);
	if (packet_send(run->payload_sock, &packet, upper) < 0)
		return step_fail(run, "%s: copy", stack->path);
	if (packet_receive(run->payload_sock, &packet, NULL) != 1 ||
	    packet.message != MSG_COPIED)
		return step_fail(run, "%s: copy", stack->path);
	if (packet.failure.what[0]) {
		errno = packet.failure.err;
		return step_fail(run, "%s", packet.failure.what);
	}
	return 0;
}

/* Puts a directory of staging, or a mount, at the stack's path. */
static int put_at(struct rootfs *fs, const struct stack *stack, int tree_fd)
{
	int tree AUTO_FD = tree_fd;

	return tree < 0 ? -1
			: move_mount(tree, "", fs->root, stack->path, MOVE_MOUNT_F_EMPTY_PATH);
}

static int lay_out(struct jail_run *run, struct rootfs *fs, const struct jail_go *go,
		   struct stack *stack, const char **how)
{
	size_t lower_count = stack->count + (stack->bottom >= 0);
	char name[] = {stack->which, 'u', '\0'};
	int upper AUTO_FD = -1;

	upper = make_dir(fs->staging, name, stack->which == 'h' ? 0700 : 0755);
	if (upper < 0)
		return step_fail(run, "/%s", stack->path);
	if (run->spec.take && stack->which == 'w' &&
	    (fs->upper = fcntl(upper, F_DUPFD_CLOEXEC, 3)) < 0)
		return step_fail(run, "/%s", stack->path);
	*how = "empty";
	if (lower_count && !run->spec.copy_layers) {
		if (place_layers(run, fs, stack) < 0)
			return -1;
		if (try_overlay(run, fs, stack, lower_count, upper)) {
			*how = "overlay";
			return 0;
		}
	}
	if (lower_count) {
		*how = "copy";
		if (ask_for_copy(run, stack, go, upper) < 0)
			return -1;
	}
	return put_at(fs, stack, tree_clone(upper, true)) < 0
		   ? step_fail(run, "/%s", stack->path)
		   : 0;
}

/* A warm keeps what it writes to HOME: the spec then mounts a directory of its own there. */
static bool home_is_mounted(const struct jail_spec *spec)
{
	for (size_t i = 0; i < spec->mount_count; i++)
		if (spec->mounts[i].how == JAIL_BIND_RW &&
		    strcmp(spec->mounts[i].target, JAIL_HOME) == 0)
			return true;
	return false;
}

int rootfs_lay_out(struct jail_run *run, struct rootfs *fs, const struct jail_go *go,
		   int *layers)
{
	struct stack tree = {"work", 'w', "0755", go->layers, layers, go->layer_count, -1};
	struct stack home = {"home/agent",
			     'h',
			     "0700",
			     go->home_layers,
			     layers ? layers + go->layer_count : NULL,
			     go->home_count,
			     -1};
	const char *how = "bind";

	if (step_enter(run, STEP_work) < 0)
		return step_fail(run, "work tree");
	if (run->spec.work_rw) {
		if (put_at(fs, &tree, fd_steal(&run->work_tree)) < 0)
			return step_fail(run, "%s", run->spec.work_dir);
	} else {
		tree.bottom = fd_steal(&run->work_tree);
		if (lay_out(run, fs, go, &tree, &how) < 0)
			return -1;
	}
	snprintf(fs->work, sizeof(fs->work), "%s", how);
	run->step = STEP_work;
	step_done(run);
	if (step_enter(run, STEP_home) < 0 ||
	    (!home_is_mounted(&run->spec) && lay_out(run, fs, go, &home, &how) < 0))
		return step_fail(run, "home");
	run->step = STEP_home;
	step_done(run);
	return 0;
}
