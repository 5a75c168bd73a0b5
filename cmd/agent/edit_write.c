/* What `agent edit --write` writes: files of a directory, or the index. Nothing is followed and
 * nothing is half there: every new file is complete, without a name yet, before the first gets its
 * place. */
#include "agent.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/sha256.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

#define INDEX_MAX ((size_t)256 << 20)

/* ---- a directory ---- */

struct placed {
	const char *path;
	int fd; /* owned: the new file, which has no name (O_TMPFILE); -1: to be removed */
	bool replaces; /* a file is there */
};

static bool has_dotgit(const char *path)
{
	for (const char *part = path; *part;) {
		size_t len = strcspn(part, "/");

		if (len == 4 && strncasecmp(part, ".git", 4) == 0)
			return true;
		part += len + (part[len] == '/');
	}
	return false;
}

/* The file is still what the edits were tried on. */
static int check_same(int dir, const char *path, const char *old, struct stat *st,
		      struct error *err)
{
	AUTO_STRBUF struct strbuf bytes = STRBUF_NONE;
	int fd AUTO_FD = fd_open_beneath(dir, path, O_RDONLY | O_NONBLOCK, 0);
	char digest[65] = "";

	*st = (struct stat){.st_mode = 0};
	if (fd < 0 && errno == ENOENT && !old)
		return 0;
	strbuf_init(&bytes, STRBUF_MAX);
	if (fd < 0 || fstat(fd, st) < 0 ||
	    (S_ISREG(st->st_mode) && fd_read_all(fd, &bytes) < 0))
		return error_errno(err, ERROR_FAILED, errno, "%s", path);
	if (S_ISREG(st->st_mode))
		sha256_hex(bytes.data, bytes.len, digest);
	if (old && strcmp(digest, old) == 0)
		return 0;
	error_set(err, ERROR_FAILED, "%s has changed while the edits were tried", path);
	return error_next(err, "try again");
}

static int make_parents(int dir, const char *path, struct error *err)
{
	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		char *part AUTO_FREE = mem_strndup(path, (size_t)(slash - path));
		char *last = strrchr(part, '/'), *name = last ? last + 1 : part;
		int parent AUTO_FD = -1;

		if (last)
			*last = '\0';
		parent = fd_open_beneath(dir, last ? part : ".", O_RDONLY | O_DIRECTORY, 0);
		if (parent < 0 || (mkdirat(parent, name, 0777) < 0 && errno != EEXIST))
			return error_errno(err, ERROR_FAILED, errno, "%s", path);
	}
	return 0;
}

/* The directory of a path and the name in it. */
static int open_parent(int dir, const char *path, const char **name)
{
	const char *slash = strrchr(path, '/');
	char *parent AUTO_FREE = mem_strndup(path, slash ? (size_t)(slash - path) : 0);

	*name = slash ? slash + 1 : path;
	return fd_open_beneath(dir, slash ? parent : ".", O_RDONLY | O_DIRECTORY, 0);
}

/* Writes the new bytes into a file without a name, on the file system of its place. */
static int prepare(int dir, const struct json *file, struct placed *placed, struct error *err)
{
	const char *mode = js_str(file, "mode", NULL);
	AUTO_STRBUF struct strbuf bytes = STRBUF_NONE;
	const char *name;
	int parent AUTO_FD = -1, result;
	struct stat st;

	placed->fd = -1;
	placed->path = js_str(file, "path", "");
	if (!placed->path[0] || has_dotgit(placed->path))
		return error_set(err, ERROR_FAILED, "trial.json names the path '%s'",
				 placed->path);
	result = check_same(dir, placed->path, js_str(file, "old", NULL), &st, err);
	if (result || !mode)
		return result;
	strbuf_init(&bytes, STRBUF_MAX);
	result = js_need_bytes(file, "content", &bytes, err);
	if (result == 0)
		result = make_parents(dir, placed->path, err);
	if (result)
		return result;
	parent = open_parent(dir, placed->path, &name);
	if (parent >= 0)
		placed->fd = fd_open_beneath(parent, ".", O_WRONLY | O_TMPFILE, 0666);
	if (placed->fd < 0 || fd_write_all(placed->fd, bytes.data, bytes.len) < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", placed->path);
	/* the old file's rights, or those of a new one by the umask; executable as asked */
	mode_t rights = st.st_mode & 07777;
	placed->replaces = st.st_mode != 0;
	if (!st.st_mode && fstat(placed->fd, &st) == 0)
		rights = st.st_mode & 0777;
	if (strcmp(mode, "100755") == 0)
		rights |= (rights & 0444) >> 2;
	else
		rights &= ~(mode_t)0111;
	if (fchmod(placed->fd, rights) < 0 || fsync(placed->fd) < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", placed->path);
	return 0;
}

static int move_in(int dir, const struct placed *placed, struct error *err)
{
	const char *name;
	int parent AUTO_FD = open_parent(dir, placed->path, &name);
	char from[40], beside[40];
	int rc;

	snprintf(from, sizeof(from), "/proc/self/fd/%d", placed->fd);
	snprintf(beside, sizeof(beside), ".agent-edit-%d", (int)getpid());
	if (parent < 0)
		rc = -1;
	else if (placed->fd < 0)
		rc = unlinkat(parent, name, 0);
	else
		rc = linkat(AT_FDCWD, from, parent, placed->replaces ? beside : name,
			    AT_SYMLINK_FOLLOW);
	if (rc == 0 && placed->fd >= 0 && placed->replaces)
		rc = renameat(parent, beside, parent, name);
	return rc < 0 ? error_errno(err, ERROR_FAILED, errno, "%s", placed->path) : 0;
}

/* Directories that the removal of their last file leaves empty go too, as in git. */
static void remove_empty(int dir, const char *path)
{
	char *part AUTO_FREE = mem_strdup(path);
	const char *name;

	for (char *slash; (slash = strrchr(part, '/'));) {
		*slash = '\0';
		int parent AUTO_FD = open_parent(dir, part, &name);
		if (parent < 0 || unlinkat(parent, name, AT_REMOVEDIR) < 0)
			return;
	}
}

static void forget(struct placed *placed, size_t count)
{
	for (size_t i = 0; i < count; i++)
		fd_close_ptr(&placed[i].fd);
	free(placed);
}

int edit_write_dir(const char *path, const struct json *files, struct error *err)
{
	size_t count = js_len(files), ready = 0;
	struct placed *placed = mem_calloc(count + 1, sizeof(*placed));
	int dir AUTO_FD = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), result = 0;

	if (dir < 0)
		result = error_errno(err, ERROR_FAILED, errno, "%s", path);
	for (size_t i = 0; i < count && result == 0; i++) {
		if (js_get(js_at(files, i), "mode"))
			continue;
		result = prepare(dir, js_at(files, i), &placed[ready++], err);
	}
	size_t removed = ready;
	for (size_t i = 0; i < count && result == 0; i++)
		if (js_get(js_at(files, i), "mode"))
			result = prepare(dir, js_at(files, i), &placed[ready++], err);
	for (size_t i = removed; i < ready && result == 0; i++)
		result = move_in(dir, &placed[i], err);
	for (size_t i = 0; i < removed && result == 0; i++)
		result = move_in(dir, &placed[i], err);
	for (size_t i = 0; i < removed && result == 0; i++)
		remove_empty(dir, placed[i].path);
	forget(placed, ready);
	return result;
}

/* ---- the index ---- */

/* Brings one object of the row's own directory into the repository's. */
static int move_object(int from, int to, const char *fan, const char *name, struct error *err)
{
	char *path AUTO_FREE = mem_printf("%s/%s", fan, name);
	AUTO_STRBUF struct strbuf bytes = STRBUF_NONE;
	int dir AUTO_FD = -1;
	int result;

	if (faccessat(to, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	strbuf_init(&bytes, STRBUF_MAX);
	result = fd_read_file(from, path, &bytes, err);
	if (result)
		return result;
	if (mkdirat(to, fan, 0777) < 0 && errno != EEXIST)
		return error_errno(err, ERROR_FAILED, errno, "%s", fan);
	dir = fd_open_beneath(to, fan, O_RDONLY | O_DIRECTORY, 0);
	if (dir < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", fan);
	return fd_replace_file(dir, name, bytes.data, bytes.len, 0444, err);
}

static int move_fan(int from, int to, const char *fan, struct error *err)
{
	DIR *stream = fd_list_taking(fd_open_beneath(from, fan, O_RDONLY | O_DIRECTORY, 0));
	const struct dirent *entry;
	int result = 0;

	if (!stream)
		return error_errno(err, ERROR_FAILED, errno, "%s", fan);
	while (result == 0 && (entry = fd_next(stream)))
		if (text_is_hex(entry->d_name, 38))
			result = move_object(from, to, fan, entry->d_name, err);
	closedir(stream);
	return result;
}

int edit_write_index(const char *git_dir, const char *common_dir, const char *objects, int lock,
		     struct error *err)
{
	char *target AUTO_FREE = mem_printf("%s/objects", common_dir);
	char *locked AUTO_FREE = mem_printf("%s/index.lock", git_dir);
	char *index AUTO_FREE = mem_printf("%s/index", git_dir);
	int from AUTO_FD = open(objects, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int to AUTO_FD = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_STRBUF struct strbuf bytes = STRBUF_NONE;
	int result = 0;

	if (from < 0 || to < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", from < 0 ? objects : target);
	for (int i = 0; i < 256 && result == 0; i++) {
		char fan[3];

		snprintf(fan, sizeof(fan), "%02x", i);
		if (faccessat(from, fan, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			result = move_fan(from, to, fan, err);
	}
	strbuf_init(&bytes, INDEX_MAX);
	if (result == 0)
		result = fd_read_file(from, "index", &bytes, err);
	if (result)
		return result;
	if (fd_write_all(lock, bytes.data, bytes.len) < 0 || fsync(lock) < 0 ||
	    rename(locked, index) < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", locked);
	return 0;
}
