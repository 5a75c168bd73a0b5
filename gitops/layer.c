#include "layer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

#define WAIT_MS 1800000LL
#define POLL_NS 20000000L
#define SEAL_MAX 1024

/* 2001-09-09: after the first date that ZIP files can tell, before anything real. */
const struct timespec layer_base_time = {1000000000, 0};

int layer_boot_id(char boot[LAYER_BOOT_SIZE], struct error *err)
{
	static const char path[] = "/proc/sys/kernel/random/boot_id";
	int fd AUTO_FD = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, boot, LAYER_BOOT_SIZE - 1);

	if (len <= 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", path);
	boot[len] = '\0';
	boot[strcspn(boot, "\n")] = '\0';
	return 0;
}

/* ---- the seal ---- */

/* Whether the layer at base/<tree> is whole: sealed in this boot. *there: something is at
 * its place. */
static bool is_sealed(int base, const char *tree, const char *boot, bool *there)
{
	AUTO_FREE char *path = mem_printf("%s/sealed", tree);
	AUTO_FREE char *wanted = mem_printf("tree %s\nboot %s\n", tree, boot);
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	int fd AUTO_FD = fd_open_beneath(base, path, O_RDONLY, 0);

	*there = fd >= 0 || faccessat(base, tree, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	strbuf_init(&text, SEAL_MAX);
	if (fd < 0 || fd_read_all(fd, &text) < 0)
		return false;
	return strncmp(text.data, wanted, strlen(wanted)) == 0;
}

static int seal(int dir, const struct checkout *checkout, const char *tree, const char *boot,
		struct error *err)
{
	AUTO_FREE char *text =
	    mem_printf("tree %s\nboot %s\nfiles %zu\nbytes %llu\n", tree, boot,
		       checkout->stats.files, (unsigned long long)checkout->stats.bytes);
	int fd AUTO_FD = openat(dir, "sealed", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);

	if (fd < 0 || fd_write_all(fd, text, strlen(text)) < 0)
		return error_errno(err, ERROR_FAILED, errno, "sealing the base layer %s", tree);
	return 0;
}

/* "In use": what agent gc looks at. It may belong to somebody else; then its own user
 * touches it. */
static void touch(int base, const char *tree)
{
	int dir AUTO_FD = fd_open_beneath(base, tree, O_RDONLY | O_DIRECTORY, 0);

	if (dir >= 0)
		(void)futimens(dir, NULL);
}

/* ---- making one ---- */

/* Whether the locked file is still the one that others find: its last holder removes it. */
static bool is_current(int base, const char *name, int fd)
{
	struct stat own, found;

	return fstat(fd, &own) == 0 && fstatat(base, name, &found, AT_SYMLINK_NOFOLLOW) == 0 &&
	       own.st_ino == found.st_ino && own.st_dev == found.st_dev;
}

/* 0 when the lock was had, 1 when it is somebody else's now, or ERROR_FAILED. */
static int try_lock(int base, const char *name, int *lock, struct error *err)
{
	int fd AUTO_FD = fd_open_beneath(base, name, O_RDWR | O_CREAT, 0600);

	if (fd < 0)
		return error_errno(err, ERROR_FAILED, errno, "lock %s in the store", name);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK || errno == EINTR
			   ? 1
			   : error_errno(err, ERROR_FAILED, errno, "lock %s in the store",
					 name);
	if (!is_current(base, name, fd))
		return 1;
	*lock = fd_steal(&fd);
	return 0;
}

/* Waits for the maker's lock. A lock dies with its process, so a wait ends. */
static int lock_maker(int base, const char *tree, int *lock, struct error *err)
{
	AUTO_FREE char *name = mem_printf(".lock-%s", tree);
	long long deadline = fd_now_ms() + WAIT_MS;
	const struct timespec pause = {0, POLL_NS};
	int rc;

	while ((rc = try_lock(base, name, lock, err)) == 1) {
		if (fd_now_ms() > deadline) {
			error_set(
			    err, ERROR_LATER,
			    "another run has been making the base layer %s for 30 minutes",
			    tree);
			return error_next(
			    err, "look at the processes named agent-test, then try again");
		}
		nanosleep(&pause, NULL);
	}
	return rc;
}

/* Held until the very end, so that nobody works under the name of a file that is gone. */
static void unlock_maker(int base, const char *tree, int *lock)
{
	AUTO_FREE char *name = mem_printf(".lock-%s", tree);

	if (*lock >= 0)
		(void)unlinkat(base, name, 0);
	fd_close_ptr(lock);
	*lock = -1;
}

/* Removes what makers of this tree left that are no more: we hold the lock. */
static void remove_leftovers(int base, const char *tree)
{
	AUTO_FREE char *prefix = mem_printf(".tmp-%s-", tree);
	int copy = openat(base, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *entry;

	if (!dir) {
		if (copy >= 0)
			close(copy);
		return;
	}
	while ((entry = readdir(dir)))
		if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
			(void)fd_remove_tree(base, entry->d_name);
	closedir(dir);
}

/* A directory of our own beside the layers. */
static int make_temporary(int base, const char *tree, char name[96], struct error *err)
{
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(name, 96, ".tmp-%s-%ld-%u", tree, (long)getpid(), i);
		if (mkdirat(base, name, 0755) == 0)
			return 0;
		if (errno != EEXIST)
			break;
	}
	error_errno(err, ERROR_FAILED, errno, "making a base layer in the store");
	return error_next(err, "check owner and free space of the state directory");
}

static int fill(struct checkout *checkout, int base, const char *name, const char *tree,
		const char *boot, struct error *err)
{
	int dir AUTO_FD = fd_open_beneath(base, name, O_RDONLY | O_DIRECTORY, 0),
		files AUTO_FD = -1;

	if (dir < 0 || mkdirat(dir, "tree", 0755) < 0 ||
	    (files = openat(dir, "tree", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
		return error_errno(err, ERROR_FAILED, errno,
				   "making a base layer in the store");
	int rc = checkout_tree(checkout, tree, files, err);
	return rc < 0 ? rc : seal(dir, checkout, tree, boot, err);
}

/* Puts the finished layer in its place; an unbelieved one that is there goes first. */
static int install(int base, const char *name, const char *tree, bool there, struct error *err)
{
	AUTO_FREE char *old = mem_printf(".tmp-%s-old-%ld", tree, (long)getpid());

	if (there && renameat(base, tree, base, old) < 0 && errno != ENOENT)
		return error_errno(err, ERROR_FAILED, errno, "replacing the base layer %s",
				   tree);
	if (renameat(base, name, base, tree) < 0)
		return error_errno(err, ERROR_FAILED, errno, "keeping the base layer %s", tree);
	if (there)
		(void)fd_remove_tree(base, old);
	return 0;
}

static int make_layer(struct checkout *checkout, int base, const char *tree, const char *boot,
		      bool there, struct error *err)
{
	char name[96];

	remove_leftovers(base, tree);
	int rc = make_temporary(base, tree, name, err);
	if (rc < 0)
		return rc;
	checkout->mtime = layer_base_time;
	rc = fill(checkout, base, name, tree, boot, err);
	if (rc == 0)
		rc = install(base, name, tree, there, err);
	if (rc < 0)
		(void)fd_remove_tree(base, name);
	return rc;
}

int layer_base(struct checkout *checkout, const char *store, const char *tree, const char *boot,
	       bool *made, struct error *err)
{
	AUTO_FREE char *path = mem_printf("%s/base", store);
	int base AUTO_FD = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
		 lock AUTO_FD = -1;
	bool there, fresh = false;
	int rc = 0;

	if (!text_is_hex(tree, GITOPS_OID_SIZE - 1))
		return error_set(err, ERROR_USAGE, "malformed tree id '%.64s'", tree);
	if (base < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", path);
	if (!is_sealed(base, tree, boot, &there)) {
		if ((rc = lock_maker(base, tree, &lock, err)) < 0)
			return rc;
		if (!is_sealed(base, tree, boot, &there)) {
			rc = make_layer(checkout, base, tree, boot, there, err);
			fresh = true;
		}
		unlock_maker(base, tree, &lock);
	}
	if (rc < 0)
		return rc;
	touch(base, tree);
	if (made)
		*made = fresh;
	return 0;
}

/* ---- the apply layer ---- */

int layer_apply(struct checkout *checkout, const char *base, const char *tree,
		const char *scratch, const char *name, bool *whole, struct error *err)
{
	int parent AUTO_FD = open(scratch, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int dir AUTO_FD = -1;

	if (parent < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", scratch);
	if (fd_remove_tree(parent, name) < 0 || mkdirat(parent, name, 0755) < 0 ||
	    (dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
		return error_errno(err, ERROR_FAILED, errno, "making %s/%s", scratch, name);
	checkout->mtime = (struct timespec){0, UTIME_OMIT};
	int rc = checkout_difference(checkout, base, tree, dir, whole, err);
	if (rc < 0 || *whole)
		(void)fd_remove_tree(parent, name);
	return rc;
}
