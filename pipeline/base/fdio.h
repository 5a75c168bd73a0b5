/*
 * Descriptors: whole reads and writes with caps, opening below a directory without following
 * links, sealed memory files, files that appear whole or not at all.
 */
#ifndef BASE_FDIO_H
#define BASE_FDIO_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct error;
struct strbuf;

void fd_close_ptr(int *fd); /* closes when >= 0, and leaves -1: nothing is closed twice */
#define AUTO_FD __attribute__((cleanup(fd_close_ptr)))
/* Hands over a descriptor that an AUTO_FD local owns: the local becomes -1. */
int fd_steal(int *fd);

/* Writes all bytes (retries on EINTR and short writes). 0, or -1 with errno. */
int fd_write_all(int fd, const void *data, size_t len);

/* Reads to the end of file into buf, which must be initialised; -1 with errno on a read error,
 * -1 with EFBIG when more than buf->max bytes came. */
int fd_read_all(int fd, struct strbuf *buf);

/* As fd_read_all, from offset 0 by pread: the descriptor's position is left alone. */
int fd_pread_all(int fd, struct strbuf *buf);

/*
 * openat2(2) with RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS and O_CLOEXEC.
 * path is relative to dirfd. Returns a descriptor, or -1 with errno.
 */
int fd_open_beneath(int dirfd, const char *path, int flags, mode_t mode);
/* open(2) of a path that has no symbolic link in it; with one, -1 and ELOOP. Makes no file. */
int fd_open_unlinked(const char *path, int flags);

/* A read-only, sealed memory file (memfd_create(2), F_ADD_SEALS) holding the bytes, position 0,
 * close-on-exec; the caller closes. -1 with errno. */
int fd_memfd_sealed(const char *name, const void *data, size_t len);

/* Writes name in dirfd whole or not at all: temporary name, fsync, rename; mode is final.
 * Parent directory is fsynced too. 0, or an error kind with err set. */
int fd_replace_file(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
		    struct error *err);

bool fd_is_open(int fd);

/* The entries of a directory: name below dirfd ("." for itself), no symbolic link. closedir(3) is the caller's. NULL with errno. */
DIR *fd_list(int dirfd, const char *name);
/* The same of a descriptor, which is taken (also on failure); -1 gives NULL. */
DIR *fd_list_taking(int fd);
/* The next entry but "." and ".."; NULL at the end, or where dir is. */
const struct dirent *fd_next(DIR *dir);

/* Reads a whole regular file below dirfd (as fd_open_beneath). 0 or an error kind. A missing
 * file is ERROR_USAGE with errno left at ENOENT. */
int fd_read_file(int dirfd, const char *path, struct strbuf *buf, struct error *err);

/* Makes path (absolute or relative to the working directory) and missing parents, mode 0700. 0
 * or -1 with errno. An existing directory is fine. */
int fd_mkdir_all(const char *path);

/* Removes a tree below dirfd without following links, making directories writable as needed. 0
 * or -1 with errno of the first failure (it goes on with the rest). A missing name is 0. */
int fd_remove_tree(int dirfd, const char *name);

/* Columns of the terminal that fd is; 0 where it is none: lines are kept whole for grep(1). */
size_t fd_columns(int fd);

/* Milliseconds of CLOCK_MONOTONIC. */
long long fd_now_ms(void);

#endif
