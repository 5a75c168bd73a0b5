#include "dirtree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <git2.h>

#include "gitops/pathfold.h"
#include "gitops/pathpolicy.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

#define SIBLINGS_MAX 1000 /* names beside a new one that are noted */

struct making {
	struct gitops_repo *repo;
	int dirfd;
	uint64_t file_bytes;
	git_tree_update *updates; /* owned, with their paths */
	size_t len, cap;
	struct error *err;
};

static void making_release(struct making *making)
{
	for (size_t i = 0; i < making->len; i++)
		free((char *)(uintptr_t)making->updates[i].path);
	free(making->updates);
}

static bool is_noted(const struct making *making, const char *path)
{
	for (size_t i = 0; i < making->len; i++)
		if (strcmp(making->updates[i].path, path) == 0)
			return true;
	return false;
}

static int note(struct making *making, const char *path, git_filemode_t mode, const void *data,
		size_t len)
{
	char oid[GITOPS_OID_SIZE];

	if (is_noted(making, path))
		return 0;
	int rc = repo_write_blob(making->repo, data, len, oid, making->err);
	if (rc < 0)
		return rc;
	if (making->len == making->cap) {
		making->cap = making->cap ? making->cap * 2 : 16;
		making->updates =
		    mem_realloc(making->updates, making->cap, sizeof(*making->updates));
	}
	git_tree_update *update = &making->updates[making->len++];
	*update = (git_tree_update){
	    .action = GIT_TREE_UPDATE_UPSERT, .filemode = mode, .path = mem_strdup(path)};
	git_oid_fromstr(&update->id, oid);
	return 0;
}

static int note_file(struct making *making, const char *path, const struct stat *st)
{
	AUTO_STRBUF struct strbuf bytes = STRBUF_NONE;

	if ((uint64_t)st->st_size > making->file_bytes)
		return error_set(
		    making->err, ERROR_NO, "'%s' is too big: %lld bytes, the limit is %llu",
		    path, (long long)st->st_size, (unsigned long long)making->file_bytes);
	strbuf_init(&bytes, making->file_bytes);
	int rc = fd_read_file(making->dirfd, path, &bytes, making->err);
	if (rc < 0)
		return error_wrap(making->err, "'%s'", path);
	return note(making, path,
		    st->st_mode & S_IXUSR ? GIT_FILEMODE_BLOB_EXECUTABLE : GIT_FILEMODE_BLOB,
		    bytes.data, bytes.len);
}

/* What is at path; st->st_mode 0: nothing. Nothing on the way is followed. */
static int look(struct making *making, const char *path, struct stat *st)
{
	int fd AUTO_FD = fd_open_beneath(making->dirfd, path, O_PATH | O_NOFOLLOW, 0);

	*st = (struct stat){0};
	if (fd >= 0 && fstat(fd, st) == 0)
		return 0;
	if (fd < 0 && errno == ELOOP) { /* the last component is a link */
		st->st_mode = S_IFLNK;
		return 0;
	}
	if (errno == ENOENT || errno == ENOTDIR)
		return 0;
	return error_errno(making->err, ERROR_FAILED, errno, "'%s'", path);
}

/* Names in a directory that are the same as name but for case. */
static int note_siblings(struct making *making, const char *dir, const char *name, size_t len)
{
	DIR *stream = fd_list_taking(
	    fd_open_beneath(making->dirfd, *dir ? dir : ".", O_RDONLY | O_DIRECTORY, 0));
	const struct dirent *entry;
	size_t count = 0;
	int rc = 0;

	if (!stream)
		return 0;
	while (rc == 0 && count < SIBLINGS_MAX && (entry = readdir(stream))) {
		size_t other = strlen(entry->d_name);
		if (!path_same_fold(name, len, entry->d_name, other) ||
		    (len == other && memcmp(name, entry->d_name, len) == 0))
			continue;
		AUTO_FREE char *path =
		    *dir ? mem_printf("%s/%s", dir, entry->d_name) : mem_strdup(entry->d_name);
		struct stat st;
		rc = look(making, path, &st);
		AUTO_FREE char *below = mem_printf("%s/-", path);
		if (rc == 0)
			rc = note(making, S_ISDIR(st.st_mode) ? below : path, GIT_FILEMODE_BLOB,
				  "", 0);
		count++;
	}
	closedir(stream);
	return rc;
}

/* Notes what is at path[0..len). *go: a directory, so that what is below counts. */
static int note_part(struct making *making, const char *path, size_t len, bool last, bool *go)
{
	AUTO_FREE char *part = mem_strndup(path, len);
	const char *slash = strrchr(part, '/');
	AUTO_FREE char *dir = mem_strndup(part, slash ? (size_t)(slash - part) : 0);
	const char *name = slash ? slash + 1 : part;
	struct stat st;
	int rc = look(making, part, &st);

	*go = false;
	if (rc < 0)
		return rc;
	if (!st.st_mode)
		return note_siblings(making, dir, name, strlen(name));
	if (S_ISDIR(st.st_mode)) {
		*go = true;
		if (!last)
			return 0;
		/* a directory where a file is meant: it holds something, whatever it is */
		AUTO_FREE char *below = mem_printf("%s/-", part);
		return note(making, below, GIT_FILEMODE_BLOB, "", 0);
	}
	if (S_ISREG(st.st_mode))
		return note_file(making, part, &st);
	/* links, and what is no file at all: neither read nor replaced */
	return note(making, part, GIT_FILEMODE_LINK, "", 0);
}

static int note_attributes(struct making *making, const char *path, size_t dir_len)
{
	AUTO_FREE char *file = dir_len ? mem_printf("%.*s/.gitattributes", (int)dir_len, path)
				       : mem_strdup(".gitattributes");
	struct stat st;
	int rc = look(making, file, &st);

	return rc == 0 && S_ISREG(st.st_mode) ? note_file(making, file, &st) : rc;
}

static int note_path(struct making *making, const char *path)
{
	struct error ignored = {0};
	bool go = true;
	int rc = 0;

	if (!path || path_check(path, strlen(path), &ignored) < 0)
		return 0;
	rc = note_attributes(making, path, 0);
	for (size_t len = 0; rc == 0 && go && path[len];) {
		len += strcspn(path + len + 1, "/") + 1;
		rc = note_part(making, path, len, !path[len], &go);
		if (rc == 0 && go && path[len])
			rc = note_attributes(making, path, len);
	}
	return rc;
}

int dirtree_make(struct gitops_repo *repo, int dirfd, const struct edit_list *list,
		 uint64_t file_bytes, char tree[GITOPS_OID_SIZE], struct error *err)
{
	struct making making = {
	    .repo = repo, .dirfd = dirfd, .file_bytes = file_bytes, .err = err};
	git_treebuilder *builder = NULL;
	git_tree *empty = NULL;
	git_oid id;
	int rc = 0;

	for (size_t i = 0; i < list->len && rc == 0; i++) {
		rc = note_path(&making, list->items[i].path);
		if (rc == 0)
			rc = note_path(&making, list->items[i].to);
	}
	if (rc == 0 &&
	    (git_treebuilder_new(&builder, repo_git(repo), NULL) < 0 ||
	     git_treebuilder_write(&id, builder) < 0 ||
	     git_tree_lookup(&empty, repo_git(repo), &id) < 0 ||
	     (making.len && git_tree_create_updated(&id, repo_git(repo), empty, making.len,
						    making.updates) < 0)))
		rc = gitops_error(err, ERROR_FAILED, "tree of the directory");
	if (rc == 0)
		git_oid_tostr(tree, GITOPS_OID_SIZE, &id);
	git_tree_free(empty);
	git_treebuilder_free(builder);
	making_release(&making);
	return rc;
}
