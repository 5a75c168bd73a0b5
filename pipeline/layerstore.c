#include "layerstore.h"

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

#define BOOT_SIZE 64
#define SEAL_MAX 2048
#define CANDIDATES_SEEN 256

static int open_base(const char *state)
{
	AUTO_FREE char *path = mem_printf("%s/store/base", state);

	return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int read_boot(char boot[BOOT_SIZE])
{
	int fd AUTO_FD = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, boot, BOOT_SIZE - 1);

	if (len <= 0)
		return -1;
	boot[len] = '\0';
	boot[strcspn(boot, "\n")] = '\0';
	return 0;
}

/* ---- locks on directories ---- */

/* A name is taken away from its directory only under the exclusive lock: one that still names
 * what we locked will until we let go. */
static int lock_dir(int dir_fd, const char *name, int how)
{
	int fd AUTO_FD = fd_open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
	struct stat own, found;

	if (fd < 0 || flock(fd, how | LOCK_NB) < 0 || fstat(fd, &own) < 0 ||
	    fstatat(dir_fd, name, &found, AT_SYMLINK_NOFOLLOW) < 0 ||
	    own.st_ino != found.st_ino || own.st_dev != found.st_dev)
		return -1;
	return fd_steal(&fd);
}

int layerstore_lock_to_use(int dir_fd, const char *name)
{
	return lock_dir(dir_fd, name, LOCK_SH);
}

int layerstore_lock_to_remove(int dir_fd, const char *name)
{
	return lock_dir(dir_fd, name, LOCK_EX);
}

/* ---- the seal ---- */

static bool take_number(const char *line, const char *key, long long *value)
{
	size_t len = strlen(key);

	return strncmp(line, key, len) == 0 && line[len] == ' ' &&
	       text_parse_size(line + len + 1, 1LL << 60, value) == 0;
}

/* One line of the seal. boot is compared. */
static void take_line(const char *line, const char *boot, struct layer_sealed *sealed,
		      bool *this_boot)
{
	if (strncmp(line, "tree ", 5) == 0 && text_is_hex(line + 5, 40))
		memcpy(sealed->tree, line + 5, LAYERSTORE_ID_SIZE);
	else if (strncmp(line, "parent ", 7) == 0 && text_is_hex(line + 7, 40))
		memcpy(sealed->parent, line + 7, LAYERSTORE_ID_SIZE);
	else if (strncmp(line, "boot ", 5) == 0)
		*this_boot = boot[0] && strcmp(line + 5, boot) == 0;
	else
		(void)!(take_number(line, "depth", &sealed->depth) ||
			take_number(line, "files", &sealed->files) ||
			take_number(line, "bytes", &sealed->bytes) ||
			take_number(line, "manifests", &sealed->manifests) ||
			take_number(line, "records", &sealed->records) ||
			take_number(line, "lfs-pointers", &sealed->lfs_pointers) ||
			take_number(line, "submodules", &sealed->submodules) ||
			take_number(line, "encodings-kept", &sealed->encodings_kept));
}

/* The seal in a layer's directory. */
static bool read_seal(int layer, const char *tree, const char *boot,
		      struct layer_sealed *sealed, bool *usable)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	int fd AUTO_FD = fd_open_beneath(layer, "sealed", O_RDONLY | O_NONBLOCK, 0);
	bool this_boot = false;

	memset(sealed, 0, sizeof(*sealed));
	strbuf_init(&text, SEAL_MAX);
	if (fd < 0 || fd_read_all(fd, &text) < 0 || !text.len)
		return false;
	for (char *line = text.data, *end; (end = strchr(line, '\n')); line = end + 1) {
		*end = '\0';
		take_line(line, boot, sealed, &this_boot);
	}
	*usable = this_boot || faccessat(layer, "durable", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	return strcmp(sealed->tree, tree) == 0 && sealed->depth < LAYERSTORE_DEPTH;
}

bool layerstore_sealed(int base_fd, const char *tree, struct layer_sealed *sealed, bool *usable)
{
	char boot[BOOT_SIZE] = "";
	int layer AUTO_FD = fd_open_beneath(base_fd, tree, O_RDONLY | O_DIRECTORY, 0);

	return layer >= 0 && read_boot(boot) == 0 &&
	       read_seal(layer, tree, boot, sealed, usable);
}

/* ---- using ---- */

void layer_stack_release(struct layer_stack *stack)
{
	for (size_t i = 0; i < stack->count; i++)
		close(stack->locks[i]);
	stack->count = 0;
}

/* Whether the whole stack below a tree may be used; then it is leased. */
static bool lease(int base, const char *tree, const char *boot, struct layer_stack *stack)
{
	char next[LAYERSTORE_ID_SIZE];

	stack->count = 0;
	memcpy(next, tree, sizeof(next));
	while (next[0]) {
		struct layer_sealed *sealed = &stack->layers[stack->count];
		bool usable = false;

		if (stack->count == LAYERSTORE_DEPTH ||
		    (stack->locks[stack->count] = layerstore_lock_to_use(base, next)) < 0)
			break;
		stack->count++;
		if (!read_seal(stack->locks[stack->count - 1], next, boot, sealed, &usable) ||
		    !usable)
			break;
		memcpy(next, sealed->parent, sizeof(next));
	}
	if (!next[0])
		return true;
	layer_stack_release(stack);
	return false;
}

int layerstore_open(const char *state, const char *tree, struct layer_stack *stack,
		    struct error *err)
{
	char boot[BOOT_SIZE] = "";
	int base AUTO_FD = open_base(state);

	stack->count = 0;
	if (!text_is_hex(tree, LAYERSTORE_ID_SIZE - 1))
		return error_set(err, ERROR_USAGE, "malformed tree id '%.64s'", tree);
	if (base < 0 || read_boot(boot) < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s/store/base", state);
	if (!lease(base, tree, boot, stack))
		return ERROR_SKIPPED;
	for (size_t i = 0; i < stack->count; i++)
		(void)futimens(stack->locks[i],
			       NULL); /* another user's: its owner touches it */
	return 0;
}

struct seen {
	char tree[LAYERSTORE_ID_SIZE];
	struct timespec used;
};

static int latest_first(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	if (x->used.tv_sec != y->used.tv_sec)
		return x->used.tv_sec < y->used.tv_sec ? 1 : -1;
	return (x->used.tv_nsec < y->used.tv_nsec) - (x->used.tv_nsec > y->used.tv_nsec);
}

size_t layerstore_candidates(const char *state, struct layer_stack *stacks, size_t most)
{
	AUTO_FREE char *path = mem_printf("%s/store/base", state);
	AUTO_FREE struct seen *seen = mem_calloc(CANDIDATES_SEEN, sizeof(*seen));
	DIR *dir = opendir(path);
	char boot[BOOT_SIZE] = "";
	size_t count = 0, found = 0;
	struct dirent *entry;

	while (dir && count < CANDIDATES_SEEN && (entry = readdir(dir))) {
		struct stat st;

		if (!text_is_hex(entry->d_name, LAYERSTORE_ID_SIZE - 1) ||
		    fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		memcpy(seen[count].tree, entry->d_name, LAYERSTORE_ID_SIZE);
		seen[count++].used = st.st_mtim;
	}
	mem_sort(seen, count, sizeof(*seen), latest_first);
	for (size_t i = 0; i < count && found < most && read_boot(boot) == 0; i++) {
		if (!lease(dirfd(dir), seen[i].tree, boot, &stacks[found]))
			continue;
		if (stacks[found].count < LAYERSTORE_DEPTH)
			found++;
		else
			layer_stack_release(&stacks[found]);
	}
	if (dir)
		closedir(dir);
	return found;
}

/* ---- making ---- */

/* Whether the locked file is still the one that others find: its last holder removes it. */
static bool is_current(int base, const char *name, int fd)
{
	struct stat own, found;

	return fstat(fd, &own) == 0 && fstatat(base, name, &found, AT_SYMLINK_NOFOLLOW) == 0 &&
	       own.st_ino == found.st_ino && own.st_dev == found.st_dev;
}

int layerstore_lock(const char *state, const char *tree, int *lock, struct error *err)
{
	AUTO_FREE char *name = mem_printf(".lock-%s", tree);
	int base AUTO_FD = open_base(state);
	int fd AUTO_FD = base < 0 ? -1 : fd_open_beneath(base, name, O_RDWR | O_CREAT, 0600);

	if (fd < 0) {
		error_errno(err, ERROR_FAILED, errno, "lock %s in %s/store/base", name, state);
		return error_next(err, "check owner and free space of the state directory");
	}
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 || !is_current(base, name, fd))
		return error_set(err, ERROR_LATER, "another run makes the base layer %s", tree);
	*lock = fd_steal(&fd);
	return 0;
}

/* Held until the very end, so that nobody works under the name of a file that is gone. */
void layerstore_unlock(const char *state, const char *tree, int *lock)
{
	AUTO_FREE char *name = mem_printf(".lock-%s", tree);
	int base AUTO_FD = open_base(state);

	if (*lock >= 0 && base >= 0)
		(void)unlinkat(base, name, 0);
	fd_close_ptr(lock);
	*lock = -1;
}

/* Out of the way at once; agent gc sweeps tmp. */
static int move_away(const char *state, int base, const char *name)
{
	AUTO_FREE char *path = mem_printf("%s/tmp", state);
	AUTO_FREE char *trash = mem_printf(".gone-%s-%d", name, (int)getpid());
	int tmp AUTO_FD = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return tmp >= 0 && renameat(base, name, tmp, trash) == 0 ? 0 : -1;
}

static void remove_leftovers(const char *state, int base, const char *tree)
{
	AUTO_FREE char *prefix = mem_printf(".tmp-%s-", tree);
	DIR *dir = fd_list(base, ".");
	const struct dirent *entry;

	while ((entry = fd_next(dir)))
		if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
			(void)move_away(state, base, entry->d_name);
	if (dir)
		closedir(dir);
}

char *layerstore_begin(const char *state, const char *tree, uid_t uid, struct error *err)
{
	AUTO_FREE char *name = mem_printf(".tmp-%s-%ld", tree, (long)getpid());
	int base AUTO_FD = open_base(state);
	int dir AUTO_FD = -1;
	bool root = geteuid() == 0;

	if (base >= 0)
		remove_leftovers(state, base, tree);
	if (base < 0 || mkdirat(base, name, 0700) < 0 ||
	    (dir = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0 ||
	    mkdirat(dir, "tree", 0700) < 0 || fchmodat(dir, "tree", 0755, 0) < 0 ||
	    fchmod(dir, 0755) < 0 ||
	    (root && (fchownat(dir, "tree", uid, uid, AT_SYMLINK_NOFOLLOW) < 0 ||
		      fchown(dir, uid, uid) < 0))) {
		error_errno(err, ERROR_FAILED, errno, "a base layer in %s/store", state);
		error_next(err, "check owner and free space of the state directory");
		return NULL;
	}
	return mem_printf("%s/store/base/%s", state, name);
}

static int write_seal(int dir, const struct layer_sealed *sealed, struct error *err)
{
	char boot[BOOT_SIZE] = "";
	AUTO_FREE char *text = NULL;

	if (read_boot(boot) < 0)
		return error_errno(err, ERROR_FAILED, errno, "the id of this boot");
	text =
	    mem_printf("tree %s\nparent %s\ndepth %lld\nboot %s\nfiles %lld\nbytes %lld\n"
		       "manifests %lld\nrecords %lld\nlfs-pointers %lld\nsubmodules %lld\n"
		       "encodings-kept %lld\n",
		       sealed->tree, sealed->parent[0] ? sealed->parent : "-", sealed->depth,
		       boot, sealed->files, sealed->bytes, sealed->manifests, sealed->records,
		       sealed->lfs_pointers, sealed->submodules, sealed->encodings_kept);
	int fd AUTO_FD =
	    openat(dir, "sealed", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);

	if (fd < 0 || fd_write_all(fd, text, strlen(text)) < 0)
		return error_errno(err, ERROR_FAILED, errno, "sealing the base layer %s",
				   sealed->tree);
	return 0;
}

int layerstore_seal(const char *state, const char *path, const struct layer_sealed *sealed,
		    struct error *err)
{
	int base AUTO_FD = open_base(state);
	const char *name = strrchr(path, '/') + 1;
	int dir AUTO_FD =
	    base < 0 ? -1 : fd_open_beneath(base, name, O_RDONLY | O_DIRECTORY, 0);

	/* from now on it is the supervisor's: whoever wrote it may not change it any more */
	if (dir < 0 || (geteuid() == 0 && fchown(dir, 0, 0) < 0))
		return error_errno(err, ERROR_FAILED, errno, "%s", path);
	if (write_seal(dir, sealed, err))
		return err->kind;
	/* one that is there may not be used: see layerstore_open, which looked under the lock
	 */
	if (renameat(base, name, base, sealed->tree) == 0)
		return 0;
	if ((errno != ENOTEMPTY && errno != EEXIST) ||
	    move_away(state, base, sealed->tree) < 0 ||
	    renameat(base, name, base, sealed->tree) < 0)
		return error_errno(err, ERROR_FAILED, errno, "keeping the base layer %s",
				   sealed->tree);
	return 0;
}

void layerstore_abandon(const char *state, const char *path)
{
	int base AUTO_FD = open_base(state);

	if (base >= 0)
		(void)move_away(state, base, strrchr(path, '/') + 1);
}

/* ---- flushing ---- */

int layerstore_flush(const char *state, struct error *err)
{
	int base AUTO_FD = open_base(state);
	DIR *dir = base < 0 ? NULL : fd_list(base, ".");
	const struct dirent *entry;
	bool flushed = false;
	int result = 0;

	if (!dir)
		return error_errno(err, ERROR_FAILED, errno, "%s/store/base", state);
	while (result == 0 && (entry = fd_next(dir))) {
		struct layer_sealed sealed;
		bool usable = false;
		int layer AUTO_FD = -1, mark AUTO_FD = -1;

		if (!text_is_hex(entry->d_name, LAYERSTORE_ID_SIZE - 1) ||
		    (layer = layerstore_lock_to_use(base, entry->d_name)) < 0 ||
		    faccessat(layer, "durable", F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
		    !layerstore_sealed(base, entry->d_name, &sealed, &usable) || !usable)
			continue;
		if (!flushed && syncfs(base) < 0)
			result =
			    error_errno(err, ERROR_FAILED, errno, "flushing %s/store", state);
		flushed = true;
		if (result == 0)
			mark = openat(layer, "durable", O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
	}
	closedir(dir);
	return result;
}
