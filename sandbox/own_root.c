#include "own_root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "sandbox/restrict.h"

#define LINKS_MOST 40 /* on the way to one path, as in the kernel */
#define SHELF "/tmp"  /* where the new root is put together; the process alone sees it there */

/* One thing that the new root shows. */
struct part {
	char *path;   /* owned: absolute, without symbolic links or dots */
	char *target; /* owned: a symbolic link to make there; NULL: a mount */
	int tree;     /* owned: a detached copy of the mount, -1 for a link */
	struct stat st;
	bool write;
};

struct parts {
	struct part *items; /* owned */
	size_t count;
};

static void parts_release(struct parts *parts)
{
	for (size_t i = 0; i < parts->count; i++) {
		free(parts->items[i].path);
		free(parts->items[i].target);
		if (parts->items[i].tree >= 0)
			close(parts->items[i].tree);
	}
	free(parts->items);
}

static struct part *parts_add(struct parts *parts, const char *path)
{
	struct part *part;

	parts->items = mem_realloc(parts->items, parts->count + 1, sizeof(parts->items[0]));
	part = &parts->items[parts->count++];
	memset(part, 0, sizeof(*part));
	part->path = mem_strdup(path);
	part->tree = -1;
	return part;
}

/* ---- what there is ---- */

/* Goes one name further. *rest is what remains to walk; a link's target comes in front of it.
 */
static int walk_name(struct parts *parts, char **real, const char *name, char **rest)
{
	char *next AUTO_FREE = NULL, *after AUTO_FREE = NULL;
	char target[PATH_MAX];
	ssize_t len;

	if (strcmp(name, ".") == 0 || !*name)
		return 0;
	if (strcmp(name, "..") == 0) {
		char *slash = strrchr(*real, '/');

		if (slash)
			*slash = '\0';
		return 0;
	}
	next = mem_printf("%s/%s", *real, name);
	len = readlink(next, target, sizeof(target) - 1);
	if (len < 0 && errno != EINVAL)
		return -1;
	if (len < 0) {
		free(*real);
		*real = MEM_STEAL(next);
		return 0;
	}
	target[len] = '\0';
	parts_add(parts, next)->target = mem_strdup(target);
	if (target[0] == '/')
		(*real)[0] = '\0';
	after = mem_printf("%s/%s", target, *rest);
	free(*rest);
	*rest = MEM_STEAL(after);
	return 1;
}

/* The path without links; the links on the way are noted. NULL with errno. */
static char *walk(struct parts *parts, const char *path)
{
	char *real AUTO_FREE = mem_strdup(""), *rest AUTO_FREE = mem_strdup(path);
	int links = 0;

	while (*rest) {
		size_t len = strcspn(rest, "/");
		char *name AUTO_FREE = mem_strndup(rest, len);
		char *left = mem_strdup(rest + len + (rest[len] == '/'));
		int step;

		free(rest);
		rest = left;
		step = walk_name(parts, &real, name, &rest);
		if (step < 0)
			return NULL;
		links += step;
		if (links > LINKS_MOST) {
			errno = ELOOP;
			return NULL;
		}
	}
	return MEM_STEAL(real);
}

/* Whether a mount that is already there shows path with the same right. */
static bool is_covered(const struct parts *parts, const char *path, bool write)
{
	for (size_t i = 0; i < parts->count; i++) {
		const struct part *part = &parts->items[i];
		size_t len = strlen(part->path);

		if (part->target || part->write != write || strncmp(path, part->path, len) != 0)
			continue;
		if (path[len] == '\0' || path[len] == '/')
			return true;
	}
	return false;
}

static int take_tree(struct parts *parts, const char *path, bool write, struct error *err)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID};
	char *real AUTO_FREE = walk(parts, path);
	struct part *part;

	if (!real && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
		return 0;
	if (!real)
		return error_errno(err, ERROR_ISOLATION, errno, "own root: %s", path);
	if (!*real || is_covered(parts, real, write))
		return 0;
	part = parts_add(parts, real);
	part->write = write;
	part->tree =
	    open_tree(AT_FDCWD, real, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	if (part->tree < 0 || fstat(part->tree, &part->st) < 0)
		return error_errno(err, ERROR_ISOLATION, errno, "own root: %s", path);
	if (!write)
		attr.attr_set |= MOUNT_ATTR_RDONLY;
	if (S_ISDIR(part->st.st_mode) || S_ISREG(part->st.st_mode))
		attr.attr_set |= MOUNT_ATTR_NODEV;
	if (mount_setattr(part->tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) <
	    0)
		return error_errno(err, ERROR_ISOLATION, errno, "own root: %s: mount_setattr",
				   path);
	return 0;
}

/* ---- the new root ---- */

/* Mounts that lie below others come after them; links come last. */
static int compare_parts(const void *a, const void *b)
{
	const struct part *x = a, *y = b;
	size_t x_len = strlen(x->path), y_len = strlen(y->path);

	if (!x->target != !y->target)
		return x->target ? 1 : -1;
	return (x_len > y_len) - (x_len < y_len);
}

/* Below the new root, the directories in front of the last name. */
static int make_parents(char *path)
{
	for (char *p = path + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		if (mkdir(path, 0755) < 0 && errno != EEXIST && errno != EROFS)
			return -1;
		*p = '/';
	}
	return 0;
}

static int make_target(const char *path, mode_t mode)
{
	int fd AUTO_FD = -1;

	if (access(path, F_OK) == 0)
		return 0;
	if (S_ISDIR(mode))
		return mkdir(path, 0755);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	return fd < 0 ? -1 : 0;
}

static int put_part(const struct part *part, struct error *err)
{
	char *path AUTO_FREE = mem_printf(SHELF "%s", part->path);
	struct stat st;

	if (make_parents(path) < 0)
		return error_errno(err, ERROR_ISOLATION, errno, "own root: %s", part->path);
	if (part->target) {
		/* Inside a mount it is there already. */
		if (lstat(path, &st) < 0 && symlink(part->target, path) < 0)
			return error_errno(err, ERROR_ISOLATION, errno, "own root: link %s",
					   part->path);
		return 0;
	}
	if (make_target(path, part->st.st_mode) < 0 ||
	    move_mount(part->tree, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return error_errno(err, ERROR_ISOLATION, errno, "own root: mount of %s",
				   part->path);
	return 0;
}

static int make_root(struct parts *parts, struct error *err)
{
	if (mount("agent", SHELF, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
		  "size=1m,mode=755") < 0)
		return error_errno(err, ERROR_ISOLATION, errno,
				   "own root: file system over " SHELF);
	if (parts->count)
		mem_sort(parts->items, parts->count, sizeof(parts->items[0]), compare_parts);
	for (size_t i = 0; i < parts->count; i++)
		if (put_part(&parts->items[i], err) < 0)
			return ERROR_ISOLATION;
	if (mount(NULL, SHELF, NULL,
		  MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
		  NULL) < 0)
		return error_errno(err, ERROR_ISOLATION, errno, "own root: read-only");
	/* pivot_root(2), "pivot_root(".", ".")": the old root lies under the new one until it
	 * is let go. */
	if (chdir(SHELF) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
	    umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return error_errno(err, ERROR_ISOLATION, errno, "own root: pivot_root");
	return 0;
}

int own_root_enter(const struct restrict_path *paths, size_t count, struct error *err)
{
	struct parts parts __attribute__((cleanup(parts_release))) = {NULL, 0};
	int result = 0;

	if (unshare(CLONE_NEWNS) < 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		error_errno(err, ERROR_ISOLATION, errno, "own root: mount namespace");
		return error_next(
		    err, "allow mount namespaces (a container needs CAP_SYS_ADMIN for them)");
	}
	for (size_t i = 0; result == 0 && i < count; i++)
		result =
		    take_tree(&parts, paths[i].path, paths[i].access == RESTRICT_WRITE, err);
	if (result == 0)
		result = take_tree(&parts, "/proc", true, err);
	if (result == 0)
		result = make_root(&parts, err);
	return result;
}
