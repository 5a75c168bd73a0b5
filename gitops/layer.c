#include "layer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/text.h"

#define LAYER_CHANGED_FEW 64 /* names: no reason to write a whole tree */

/* 2001-09-09: after the first date that ZIP files can tell, before anything real. */
const struct timespec layer_base_time = {1000000000, 0};

int layer_choose(struct checkout *checkout, const char *tree, const char *const *trees,
		 size_t count, size_t *best, size_t *changed, struct error *err)
{
	size_t least = LAYER_CHANGED_MAX, found = count, whole = 0;
	int rc = 0;

	for (size_t i = 0; i < count && least > 0; i++) {
		struct error ignored = {0};
		size_t n;

		if (!repo_has(checkout->repo, trees[i]))
			continue;
		/* an old tree that cannot be read is none to build on */
		if (checkout_measure(checkout, trees[i], tree, least - 1, &n, &ignored) == 0 &&
		    n < least) {
			least = n;
			found = i;
		}
	}
	/* Whether few are few depends on all, which are counted no further than it takes. */
	if (found < count) {
		size_t few = least > LAYER_CHANGED_FEW ? least * 4 : least;

		rc = checkout_measure(checkout, NULL, tree, few, &whole, err);
		if (rc == 0 && whole <= few)
			found = count;
	}
	if (rc == 0 && found == count)
		rc = checkout_measure(checkout, NULL, tree, CHECKOUT_ENTRIES_MAX, &whole, err);
	*best = found;
	*changed = found < count ? least : whole;
	return rc;
}

int layer_apply(struct checkout *checkout, const char *base, const char *tree,
		const char *scratch, const char *name, struct error *err)
{
	int parent AUTO_FD = open(scratch, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int dir AUTO_FD = -1;

	if (parent < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", scratch);
	if (fd_remove_tree(parent, name) < 0 || mkdirat(parent, name, 0755) < 0 ||
	    (dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
		return error_errno(err, ERROR_FAILED, errno, "making %s/%s", scratch, name);
	checkout->mtime = (struct timespec){0, UTIME_OMIT};
	int rc = checkout_write(checkout, base, tree, dir, err);
	if (rc < 0)
		(void)fd_remove_tree(parent, name);
	return rc;
}

/* ---- looking whether it is still so ---- */

static int damaged(struct error *err, const char *path, const char *why)
{
	return error_set(err, ERROR_NO, "'%s' %s", path, why);
}

static int verify_link(int dir, const char *path, const char *oid, struct error *err)
{
	char target[PATH_MAX], found[GITOPS_OID_SIZE];
	ssize_t len = readlinkat(dir, path, target, sizeof(target));

	if (len < 0)
		return damaged(err, path, "is no symbolic link any more");
	repo_hash_blob(target, (size_t)len, found);
	return strcmp(found, oid) == 0 ? 0 : damaged(err, path, "points elsewhere");
}

static int verify_file(int fd, const struct stat *st, const char *path, const char *oid,
		       struct error *err)
{
	char found[GITOPS_OID_SIZE];
	void *data = NULL;

	if (st->st_size > 0) {
		data = mmap(NULL, (size_t)st->st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE,
			    fd, 0);
		if (data == MAP_FAILED)
			return error_errno(err, ERROR_FAILED, errno, "reading '%s'", path);
	}
	repo_hash_blob(data ? data : "", (size_t)st->st_size, found);
	if (data)
		munmap(data, (size_t)st->st_size);
	return strcmp(found, oid) == 0 ? 0 : damaged(err, path, "has other bytes");
}

static int verify_record(int dir, const char *record, struct error *err)
{
	char *end, oid[GITOPS_OID_SIZE];
	unsigned long mode = strtoul(record, &end, 8);
	const char *space = *end == ' ' ? strchr(end + 1, ' ') : NULL;
	struct stat st;

	if (end == record || !space || space - end - 1 > GITOPS_OID_SIZE - 1)
		return error_set(err, ERROR_NO, "the manifest is malformed");
	snprintf(oid, sizeof(oid), "%.*s", (int)(space - end - 1), end + 1);
	const char *path = space + 1;
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	AUTO_FREE char *above = slash ? mem_strndup(path, (size_t)(slash - path)) : NULL;
	int parent AUTO_FD = fd_open_beneath(dir, above ? above : ".", O_PATH | O_DIRECTORY, 0);
	if (parent < 0 || fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return damaged(err, path, "is gone");
	if (mode == 0)
		return S_ISCHR(st.st_mode) && st.st_rdev == 0
			   ? 0
			   : damaged(err, path, "is no whiteout any more");
	if (mode == 0120000)
		return verify_link(parent, name, oid, err);
	int fd AUTO_FD = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return damaged(err, path, "is no readable file any more");
	if ((st.st_mode & 07777) != mode)
		return damaged(err, path, "has another mode");
	if (st.st_mtim.tv_sec != layer_base_time.tv_sec)
		return damaged(err, path, "was written to");
	return verify_file(fd, &st, path, oid, err);
}

int layer_verify(int dir, int manifest_fd, size_t *records, struct error *err)
{
	struct stat st;
	const char *data, *at, *end;
	int rc = gitops_init(err);

	if (rc < 0)
		return rc;
	*records = 0;
	if (fstat(manifest_fd, &st) < 0 || !S_ISREG(st.st_mode))
		return error_set(err, ERROR_NO, "the manifest is no file");
	if (st.st_size == 0)
		return 0;
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, manifest_fd, 0);
	if (data == MAP_FAILED)
		return error_errno(err, ERROR_FAILED, errno, "the manifest");
	end = data + st.st_size;
	for (at = data; at < end && rc == 0; at += strlen(at) + 1, ++*records) {
		if (!memchr(at, '\0', (size_t)(end - at)))
			rc = error_set(err, ERROR_NO, "the manifest is cut off");
		else
			rc = verify_record(dir, at, err);
		if (rc < 0)
			break;
	}
	munmap((void *)(uintptr_t)data, (size_t)st.st_size);
	return rc;
}
