#include "store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/sha256.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

#define TMP_PREFIX ".tmp-"
#define DEPTH_MAX 200
#define MANIFEST_MAX ((size_t)1 << 30)

/* ---- paths ---- */

static int open_deps(const char *state)
{
	AUTO_FREE char *path = mem_printf("%s/store/deps", state);

	return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int store_prepare(const char *state, uid_t uid, struct error *err)
{
	AUTO_FREE char *probe = mem_printf("%s/store/probe", state);
	AUTO_FREE char *deps = mem_printf("%s/store/deps", state);
	AUTO_FREE char *by_tree = mem_printf("%s/by-tree", deps);
	const char *all[] = {probe, deps, by_tree};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (fd_mkdir_all(all[i]) < 0)
			return error_errno(err, ERROR_FAILED, errno, "%s", all[i]);
	if (geteuid() != 0)
		return 0;
	if (lchown(deps, uid, (gid_t)uid) < 0 || lchown(by_tree, uid, (gid_t)uid) < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", deps);
	return 0;
}

void store_tree_name(const char *base_tree, const char *plan_text, char name[STORE_KEY_SIZE])
{
	AUTO_FREE char *text = mem_printf("%s\n%s", base_tree, plan_text);

	sha256_hex(text, strlen(text), name);
}

bool store_has(int deps_fd, const char *key)
{
	AUTO_FREE char *path = mem_printf("%s/manifest", key);
	AUTO_FD int fd = fd_open_beneath(deps_fd, path, O_RDONLY, 0);

	return fd >= 0;
}

int store_lookup(const char *state, const char *base_tree, const char *plan_text,
		 char key[STORE_KEY_SIZE])
{
	AUTO_FD int deps = open_deps(state);
	char name[STORE_KEY_SIZE], path[STORE_KEY_SIZE + 16];
	struct strbuf data;
	struct error ignored = {0};
	int result = ERROR_SKIPPED;

	if (deps < 0)
		return ERROR_SKIPPED;
	store_tree_name(base_tree, plan_text, name);
	snprintf(path, sizeof(path), "by-tree/%s", name);
	strbuf_init(&data, STORE_KEY_SIZE);
	if (fd_read_file(deps, path, &data, &ignored) == 0 &&
	    text_is_hex(data.data, STORE_KEY_SIZE - 1) && store_has(deps, data.data)) {
		memcpy(key, data.data, STORE_KEY_SIZE);
		utimensat(deps, key, NULL,
			  AT_SYMLINK_NOFOLLOW); /* used now: agent gc goes by this */
		result = 0;
	}
	strbuf_release(&data);
	return result;
}

int store_remember(int deps_fd, int tmp_fd, const char *tree_name, const char *key,
		   struct error *err)
{
	AUTO_FD int dir = fd_open_beneath(deps_fd, "by-tree", O_RDONLY | O_DIRECTORY, 0);

	if (dir < 0)
		return error_errno(err, ERROR_FAILED, errno, "store: by-tree");
	/* made in our own directory: another run may be writing the same name now */
	if (fd_replace_file(tmp_fd, tree_name, key, strlen(key), 0444, err))
		return err->kind;
	if (renameat(tmp_fd, tree_name, dir, tree_name) < 0)
		return error_errno(err, ERROR_FAILED, errno, "store: by-tree");
	return 0;
}

/* ---- what is under way ---- */

static int give(int dir, const char *name, uid_t uid)
{
	return geteuid() == 0 ? fchownat(dir, name, uid, (gid_t)uid, AT_SYMLINK_NOFOLLOW) : 0;
}

/* What a killed warm of the same run left. Where that cannot be removed by us it is put out of the way, for
 * store_sweep. */
static int clear(int deps, const char *name)
{
	AUTO_FREE char *aside = mem_printf("%s.%d", name, (int)getpid());

	return fd_remove_tree(deps, name) == 0 ? 0 : renameat(deps, name, deps, aside);
}

int store_begin(const char *state, const char *run, uid_t uid, struct error *err)
{
	AUTO_FD int deps = open_deps(state);
	AUTO_FREE char *name = mem_printf(TMP_PREFIX "%s", run);
	AUTO_FD int fd = -1;

	if (deps < 0 || clear(deps, name) < 0 || mkdirat(deps, name, 0700) < 0)
		return error_errno(err, ERROR_FAILED, errno, "store: %s", name), -1;
	fd = openat(deps, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || mkdirat(fd, "work", 0755) < 0 ||
	    mkdirat(fd, "home", 0755) < 0 || give(fd, "work", uid) < 0 ||
	    give(fd, "home", uid) < 0 || give(deps, name, uid) < 0)
		return error_errno(err, ERROR_FAILED, errno, "store: %s", name), -1;
	return fd_steal(&fd);
}

static bool remove_left(const char *state, int deps, const char *name,
			store_reclaim_fn *reclaim, void *arg)
{
	AUTO_FREE char *path = mem_printf("%s/store/deps/%s", state, name);

	if (fd_remove_tree(deps, name) == 0)
		return true;
	return reclaim && (errno == EACCES || errno == EPERM) && reclaim(arg, path) == 0 &&
	       fd_remove_tree(deps, name) == 0;
}

void store_end(const char *state, const char *run, int *lock, store_reclaim_fn *reclaim,
	       void *arg)
{
	AUTO_FD int deps = open_deps(state);
	AUTO_FREE char *name = mem_printf(TMP_PREFIX "%s", run);

	if (deps >= 0)
		(void)remove_left(state, deps, name, reclaim, arg);
	fd_close_ptr(lock);
	*lock = -1;
}

unsigned store_sweep(const char *state, store_reclaim_fn *reclaim, void *arg)
{
	AUTO_FD int deps = open_deps(state);
	DIR *list = deps < 0 ? NULL : fd_list(deps, ".");
	const struct dirent *entry;
	unsigned removed = 0;

	while ((entry = fd_next(list))) {
		AUTO_FD int fd = -1;

		if (strncmp(entry->d_name, TMP_PREFIX, strlen(TMP_PREFIX)) != 0)
			continue;
		fd = openat(deps, entry->d_name,
			    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		/* locked: its supervisor lives */
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
			continue;
		if (remove_left(state, deps, entry->d_name, reclaim, arg))
			removed++;
	}
	if (list)
		closedir(list);
	return removed;
}

/* ---- taking outputs ---- */

/* Makes the parents of path below dir_fd; returns the last one's descriptor, and the name in
 * it. */
static int make_parents(int dir_fd, const char *path, const char **name)
{
	int fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 3);
	const char *slash;

	while (fd >= 0 && (slash = strchr(path, '/'))) {
		AUTO_FREE char *part = mem_strndup(path, (size_t)(slash - path));
		int next;

		if (mkdirat(fd, part, 0755) < 0 && errno != EEXIST) {
			close(fd);
			return -1;
		}
		next = openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		close(fd);
		fd = next;
		path = slash + 1;
	}
	*name = path;
	return fd;
}

int store_take(int from_fd, int to_fd, const char *path, struct error *err)
{
	const char *slash = strrchr(path, '/'), *name = NULL;
	AUTO_FREE char *parent =
	    slash ? mem_strndup(path, (size_t)(slash - path)) : mem_strdup(".");
	AUTO_FD int source = fd_open_beneath(from_fd, parent, O_RDONLY | O_DIRECTORY, 0);
	AUTO_FD int target = -1, moved = -1;
	struct stat st;

	if (source < 0 ||
	    fstatat(source, slash ? slash + 1 : path, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)
			return error_set(err, ERROR_NO, "the warm did not make %s", path);
		return error_errno(err, ERROR_FAILED, errno, "%s", path);
	}
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return error_set(err, ERROR_NO, "%s is neither a directory nor a file", path);
	moved = openat(source, slash ? slash + 1 : path,
		       O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	/* a directory that its owner may not write cannot change its parent */
	if (moved < 0 || (S_ISDIR(st.st_mode) && fchmod(moved, (st.st_mode & 0777) | 0700) < 0))
		return error_errno(err, ERROR_FAILED, errno, "%s", path);
	target = make_parents(to_fd, path, &name);
	if (target < 0 || renameat(source, slash ? slash + 1 : path, target, name) < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", path);
	return 0;
}

/* ---- the manifest ---- */

struct walk {
	struct seal *seal;
	struct strbuf lines;
	struct error *err;
};

static int walk_directory(struct walk *walk, int fd, const char *path, int depth);

static int refuse(struct walk *walk, const char *path, const char *why)
{
	return error_set(walk->err, ERROR_NO, "the warm left %s: %s", path, why);
}

static int fail(struct walk *walk, const char *path)
{
	return error_errno(walk->err, ERROR_FAILED, errno, "%s", path);
}

/* With overlay's own attributes a file could hide or redirect what lies below another layer. */
static int check_attributes(struct walk *walk, int fd, const char *path)
{
	char names[4096];
	ssize_t len = flistxattr(fd, names, sizeof(names));

	if (len < 0)
		return errno == ENOTSUP
			   ? 0
			   : refuse(walk, path, "its extended attributes cannot be read");
	for (const char *name = names; name < names + len; name += strlen(name) + 1)
		if (strncmp(name, "user.overlay.", 13) == 0 ||
		    strncmp(name, "trusted.overlay.", 16) == 0)
			return refuse(
			    walk, path,
			    "it has an attribute that only the kernel's overlay sets");
	return 0;
}

static int hash_file(struct walk *walk, int fd, const char *path, char hex[65])
{
	unsigned char block[65536], digest[32];
	struct sha256 hash;
	ssize_t n;

	sha256_init(&hash);
	while ((n = read(fd, block, sizeof(block))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail(walk, path);
		sha256_add(&hash, block, (size_t)n);
		walk->seal->bytes += (uint64_t)n;
		if (walk->seal->bytes > walk->seal->max_bytes)
			return refuse(walk, path,
				      "the layer has more bytes than fetch.disk allows");
	}
	sha256_done(&hash, digest);
	text_hex(hex, digest, sizeof(digest));
	return 0;
}

static int walk_link(struct walk *walk, int dir_fd, const char *name, const char *path)
{
	char target[4096], hex[65];
	ssize_t len = readlinkat(dir_fd, name, target, sizeof(target));

	if (len < 0)
		return fail(walk, path);
	sha256_hex(target, (size_t)len, hex);
	strbuf_addf(&walk->lines, "120000 %zd %s %s\n", len, hex, path);
	return 0;
}

static int walk_file(struct walk *walk, int fd, const struct stat *st, const char *path)
{
	mode_t mode = st->st_mode & 0755;
	char hex[65];
	int kind = check_attributes(walk, fd, path);

	if (!kind)
		kind = hash_file(walk, fd, path, hex);
	if (kind)
		return kind;
	if (mode != (st->st_mode & 07777) && fchmod(fd, mode) < 0)
		return fail(walk, path);
	strbuf_addf(&walk->lines, "%06o %lld %s %s\n", (unsigned)(S_IFREG | mode),
		    (long long)st->st_size, hex, path);
	return 0;
}

static int walk_entry(struct walk *walk, int dir_fd, const char *name, const char *path,
		      int depth)
{
	AUTO_FD int fd = -1;
	struct stat st;
	int kind;

	if (++walk->seal->files > walk->seal->max_files)
		return refuse(walk, path, "the layer has more files than may be");
	for (const char *p = name; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return refuse(walk, path, "a control byte in its name");
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return fail(walk, path);
	if (S_ISLNK(st.st_mode))
		return walk_link(walk, dir_fd, name, path);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return refuse(walk, path,
			      "it is neither a file, a directory nor a symbolic link");
	fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		return fail(walk, path);
	if (S_ISREG(st.st_mode))
		return walk_file(walk, fd, &st, path);
	kind = check_attributes(walk, fd, path);
	if (!kind && (st.st_mode & 0755) != (st.st_mode & 07777) &&
	    fchmod(fd, st.st_mode & 0755) < 0)
		kind = fail(walk, path);
	if (kind)
		return kind;
	strbuf_addf(&walk->lines, "%06o 0 - %s\n", (unsigned)(S_IFDIR | (st.st_mode & 0755)),
		    path);
	return walk_directory(walk, fd, path, depth + 1);
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names of a directory, sorted; NULL-terminated; NULL when it cannot be read. */
static char **read_names(int dir_fd)
{
	DIR *list = fd_list(dir_fd, ".");
	const struct dirent *entry;
	size_t count = 0, room = 16;
	char **names;

	if (!list)
		return NULL;
	names = mem_calloc(room + 1, sizeof(*names));
	while ((entry = fd_next(list))) {
		if (count == room) {
			room *= 2;
			names = mem_realloc(names, room + 1, sizeof(*names));
		}
		names[count++] = mem_strdup(entry->d_name);
	}
	names[count] = NULL;
	closedir(list);
	mem_sort(names, count, sizeof(*names), by_bytes);
	return names;
}

static int walk_directory(struct walk *walk, int fd, const char *path, int depth)
{
	char **names = read_names(fd);
	int kind = 0;

	if (!names)
		return fail(walk, path);
	if (depth > DEPTH_MAX)
		kind = refuse(walk, path, "it lies too deep");
	for (char **name = names; *name && !kind; name++) {
		AUTO_FREE char *below = mem_printf("%s/%s", path, *name);

		kind = walk_entry(walk, fd, *name, below, depth);
	}
	text_free_words(names);
	return kind;
}

int store_manifest(int dir_fd, struct seal *seal, struct error *err)
{
	static const char *const parts[] = {"home", "work"};
	struct walk walk = {.seal = seal, .err = err};
	int kind = 0;

	strbuf_init(&walk.lines, MANIFEST_MAX);
	seal->files = seal->bytes = 0;
	for (size_t i = 0; i < ARRAY_LEN(parts) && !kind; i++) {
		AUTO_FD int fd = fd_open_beneath(dir_fd, parts[i], O_RDONLY | O_DIRECTORY, 0);

		if (fd < 0)
			kind = error_errno(err, ERROR_FAILED, errno, "store: %s", parts[i]);
		else
			kind = walk_directory(&walk, fd, parts[i], 0);
	}
	if (!kind && walk.lines.full)
		kind = error_set(err, ERROR_NO, "the layer has more files than may be");
	if (!kind) {
		sha256_hex(walk.lines.data, walk.lines.len, seal->digest);
		kind = fd_replace_file(dir_fd, "manifest", walk.lines.data, walk.lines.len,
				       0444, err);
	}
	strbuf_release(&walk.lines);
	return kind;
}

int store_seal(int deps_fd, int tmp_fd, const char *key, bool *won, struct error *err)
{
	*won = false;
	/* one call for the whole layer: an fsync a file costs seconds for a large one */
	if (syncfs(tmp_fd) < 0)
		return error_errno(err, ERROR_FAILED, errno,
				   "store: the layer cannot be made durable");
	if (renameat(tmp_fd, "seal", deps_fd, key) == 0) {
		*won = true;
		if (fsync(deps_fd) < 0)
			return error_errno(err, ERROR_FAILED, errno, "store");
		return 0;
	}
	if (errno == ENOTEMPTY || errno == EEXIST)
		return 0;
	return error_errno(err, ERROR_FAILED, errno, "store: %s", key);
}
