#include "fdio.h"

#include <stdbool.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1 /* renameat2(2): not every C library has its name */
#endif

void fd_close_ptr(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = saved;
}

int fd_steal(int *fd)
{
	int stolen = *fd;

	*fd = -1;
	return stolen;
}

int fd_write_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -1;
		}
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

static int read_from(int fd, struct strbuf *buf, bool positioned)
{
	off_t at = 0;

	for (;;) {
		char chunk[16384];
		ssize_t n = positioned ? pread(fd, chunk, sizeof(chunk), at)
				       : read(fd, chunk, sizeof(chunk));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -1 : 0;
		at += n;
		if (strbuf_add(buf, chunk, (size_t)n) < 0) {
			errno = EFBIG;
			return -1;
		}
	}
}

int fd_read_all(int fd, struct strbuf *buf)
{
	return read_from(fd, buf, false);
}

int fd_pread_all(int fd, struct strbuf *buf)
{
	return read_from(fd, buf, true);
}

int fd_open_beneath(int dirfd, const char *path, int flags, mode_t mode)
{
	struct open_how how = {
	    .flags = (uint64_t)(flags | O_CLOEXEC),
	    .mode = flags & (O_CREAT | O_TMPFILE) ? mode : 0,
	    .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};

	return (int)syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
}

int fd_open_unlinked(const char *path, int flags)
{
	struct open_how how = {
	    .flags = (uint64_t)(flags | O_CLOEXEC),
	    .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};

	return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
}

int fd_memfd_sealed(const char *name, const void *data, size_t len)
{
	int fd AUTO_FD = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || fd_write_all(fd, data, len) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return -1;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) <
	    0)
		return -1;
	return fd_steal(&fd);
}

int fd_replace_file(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
		    struct error *err)
{
	char part[300];
	int fd AUTO_FD = -1;

	if (snprintf(part, sizeof(part), "%s.part", name) >= (int)sizeof(part))
		return error_set(err, ERROR_FAILED, "%s: name too long", name);
	if (unlinkat(dirfd, part, 0) < 0 && errno != ENOENT)
		return error_errno(err, ERROR_FAILED, errno, "%s", part);
	fd = fd_open_beneath(dirfd, part, O_WRONLY | O_CREAT | O_EXCL, mode);
	if (fd < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", part);
	if (fd_write_all(fd, data, len) < 0 || fsync(fd) < 0 || fchmod(fd, mode) < 0 ||
	    renameat(dirfd, part, dirfd, name) < 0) {
		error_errno(err, ERROR_FAILED, errno, "%s cannot be written", name);
		unlinkat(dirfd, part, 0);
		return err ? err->kind : ERROR_FAILED;
	}
	fsync(dirfd);
	return 0;
}

int fd_read_file(int dirfd, const char *path, struct strbuf *buf, struct error *err)
{
	int fd AUTO_FD = fd_open_beneath(dirfd, path, O_RDONLY | O_NONBLOCK, 0);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0) {
		int saved = errno;

		error_errno(err, ERROR_USAGE, saved, "%s cannot be read", path);
		errno = saved;
		return ERROR_USAGE;
	}
	if (!S_ISREG(st.st_mode)) {
		error_set(err, ERROR_USAGE, "%s is not a regular file", path);
		errno = EINVAL;
		return ERROR_USAGE;
	}
	if (fd_read_all(fd, buf) < 0) {
		int saved = errno;

		if (saved == EFBIG)
			error_set(err, ERROR_USAGE, "%s is larger than %zu bytes", path,
				  buf->max);
		else
			error_errno(err, ERROR_FAILED, saved, "%s cannot be read", path);
		errno = saved;
		return saved == EFBIG ? ERROR_USAGE : ERROR_FAILED;
	}
	return 0;
}

int fd_mkdir_all(const char *path)
{
	char *copy AUTO_FREE = mem_strdup(path);
	struct stat st;
	int refused = 0; /* why a directory on the way could not be made: it may be there */

	for (char *p = copy + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		if (mkdir(copy, 0700) < 0 && errno != EEXIST) {
			if (errno != EROFS && errno != EACCES)
				break; /* the last one fails in the same way */
			refused = errno;
		}
		*p = '/';
	}
	if (mkdir(copy, 0700) < 0 && errno != EEXIST) {
		if (errno == ENOENT && refused)
			errno = refused;
		return -1;
	}
	if (stat(copy, &st) < 0)
		return -1;
	if (!S_ISDIR(st.st_mode)) {
		errno = ENOTDIR;
		return -1;
	}
	return 0;
}

/* Each level of the walk holds two descriptors: what lies deeper is moved up and walked from
 * there. */
#define REMOVE_DEPTH 32

struct removal {
	int top;	 /* the tree's own directory */
	unsigned moved;	 /* directories moved up into it so far */
	int errno_value; /* of the first failure; 0: none */
};

static void removal_failed(struct removal *removal)
{
	if (!removal->errno_value)
		removal->errno_value = errno;
}

/* A directory that can be listed and changed, however it was left. -1 with errno. */
static int open_to_remove(int dirfd, const char *name)
{
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno == EACCES && fchmodat(dirfd, name, 0700, 0) == 0)
		fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		fchmod(fd, 0700);
	return fd;
}

static void remove_content(struct removal *removal, int dirfd, unsigned depth);

static void remove_entry(struct removal *removal, int dirfd, const char *name, unsigned depth)
{
	int child AUTO_FD = -1;
	char aside[32];
	int moved;

	if (unlinkat(dirfd, name, 0) == 0)
		return;
	if (errno == EISDIR || errno == EPERM) {
		if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0)
			return;
		child = open_to_remove(dirfd, name);
	}
	if (child < 0) {
		removal_failed(removal);
		return;
	}
	if (depth < REMOVE_DEPTH) {
		remove_content(removal, child, depth + 1);
		if (unlinkat(dirfd, name, AT_REMOVEDIR) < 0)
			removal_failed(removal);
		return;
	}
	do {
		snprintf(aside, sizeof(aside), ".deep-%u", ++removal->moved);
		moved = (int)syscall(SYS_renameat2, dirfd, name, removal->top, aside,
				     RENAME_NOREPLACE);
	} while (moved < 0 && errno == EEXIST);
	if (moved < 0)
		removal_failed(removal);
}

static void remove_content(struct removal *removal, int dirfd, unsigned depth)
{
	DIR *dir = fd_list_taking(fcntl(dirfd, F_DUPFD_CLOEXEC, 3));
	const struct dirent *entry;

	if (!dir) {
		removal_failed(removal);
		return;
	}
	while ((entry = fd_next(dir)))
		remove_entry(removal, dirfd, entry->d_name, depth);
	closedir(dir);
}

int fd_remove_tree(int dirfd, const char *name)
{
	struct removal removal = {.top = -1};
	int top AUTO_FD = -1;
	unsigned before;

	if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0)
		return 0;
	top = removal.top = open_to_remove(dirfd, name);
	if (top < 0)
		return -1;
	do {
		before = removal.moved;
		remove_content(&removal, top, 0);
		if (lseek(top, 0, SEEK_SET) < 0)
			removal_failed(&removal);
	} while (removal.moved != before && !removal.errno_value);
	if (removal.errno_value) {
		errno = removal.errno_value;
		return -1;
	}
	return unlinkat(dirfd, name, AT_REMOVEDIR);
}

long long fd_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

size_t fd_columns(int fd)
{
	struct winsize size = {0};

	if (isatty(fd) != 1)
		return 0;
	return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40 ? size.ws_col : 80;
}

/* ---- directories ---- */

DIR *fd_list_taking(int fd)
{
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	int cause = errno;

	if (!dir && fd >= 0) {
		close(fd);
		errno = cause;
	}
	return dir;
}

DIR *fd_list(int dirfd, const char *name)
{
	return fd_list_taking(
	    openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

const struct dirent *fd_next(DIR *dir)
{
	const struct dirent *entry;

	do
		entry = dir ? readdir(dir) : NULL;
	while (entry && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
	return entry;
}

bool fd_is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}
