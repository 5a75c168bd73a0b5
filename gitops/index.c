#include "index.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <git2.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

#define INDEX_BYTES_MAX ((size_t)256 << 20)

static git_filemode_t mode_of(enum view_kind kind)
{
	return kind == VIEW_EXEC ? GIT_FILEMODE_BLOB_EXECUTABLE : GIT_FILEMODE_BLOB;
}

/* The index file itself, copied: the library writes an index where it read it. */
static int copy_index(const char *gitdir, const char *copy, struct error *err)
{
	AUTO_FREE char *path = mem_printf("%s/index", gitdir);
	AUTO_STRBUF struct strbuf bytes = STRBUF_NONE;
	int from AUTO_FD = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), to AUTO_FD = -1;

	if (from < 0 && errno == ENOENT)
		return 0;
	strbuf_init(&bytes, INDEX_BYTES_MAX);
	if (from < 0 || fd_read_all(from, &bytes) < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", path);
	to = open(copy, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (to < 0 || fd_write_all(to, bytes.data, bytes.len) < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", copy);
	return 0;
}

static int check_entry(git_index *index, const struct view_change *change, struct error *err)
{
	const git_index_entry *entry = git_index_get_bypath(index, change->path, 0);
	char oid[GITOPS_OID_SIZE] = "";

	for (int stage = 1; stage <= 3; stage++)
		if (git_index_get_bypath(index, change->path, stage))
			return error_set(err, ERROR_NO, "'%s' has a conflict in the index",
					 change->path);
	if (entry)
		git_oid_tostr(oid, sizeof(oid), &entry->id);
	if (strcmp(oid, change->old_oid) == 0 &&
	    (!entry || entry->mode == (uint32_t)mode_of(change->old_kind)))
		return 0;
	error_set(err, ERROR_NO, "'%s' is in the index with other content than in the tree",
		  change->path);
	return error_next(err, "commit or unstage that first");
}

static int change_entry(git_index *index, const struct view_change *change, struct error *err)
{
	git_index_entry entry = {.path = change->path,
				 .mode = (uint32_t)mode_of(change->new_kind)};
	int rc;

	if (change->new_kind == VIEW_NONE) {
		rc = git_index_remove(index, change->path, 0);
	} else {
		git_oid_fromstr(&entry.id, change->new_oid);
		rc = git_index_add(index, &entry);
	}
	return rc < 0 ? gitops_error(err, ERROR_FAILED, "index: '%s'", change->path) : 0;
}

int index_update(const char *gitdir, const struct view_change *changes, size_t count,
		 const char *copy, struct error *err)
{
	git_index *index = NULL;
	int rc = copy_index(gitdir, copy, err);

	if (rc < 0)
		return rc;
	if (git_index_open(&index, copy) < 0)
		return gitops_error(err, ERROR_USAGE, "the index cannot be read");
	for (size_t i = 0; i < count && rc == 0; i++)
		rc = check_entry(index, &changes[i], err);
	for (int adds = 0; adds < 2; adds++) /* a file may become a directory */
		for (size_t i = 0; i < count && rc == 0; i++)
			if ((changes[i].new_kind != VIEW_NONE) == adds)
				rc = change_entry(index, &changes[i], err);
	if (rc == 0 && git_index_write(index) < 0)
		rc = gitops_error(err, ERROR_FAILED, "the index cannot be written");
	git_index_free(index);
	return rc;
}
