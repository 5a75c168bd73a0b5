#include "copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"

#define MAX_DEPTH 512

static int copy_file(int from_dir, int to_dir, const char *name, const struct stat *st)
{
	int from AUTO_FD =
	    openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	int to AUTO_FD =
	    from < 0 ? -1
		     : openat(to_dir, name,
			      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	const struct timespec times[2] = {st->st_atim, st->st_mtim};
	ssize_t n;

	if (to < 0)
		return -1;
	while ((n = sendfile(to, from, NULL, 1 << 30)) > 0)
		continue;
	if (n < 0 || fchmod(to, st->st_mode & 0777) < 0)
		return -1;
	return futimens(to, times);
}

static int copy_link(int from_dir, int to_dir, const char *name)
{
	char text[PATH_MAX];
	ssize_t len = readlinkat(from_dir, name, text, sizeof(text) - 1);

	if (len < 0)
		return -1;
	text[len] = '\0';
	return symlinkat(text, to_dir, name);
}

/* An opaque directory hides what lower layers have at its place. */
static int is_opaque(int dir)
{
	char value = 0;

	return (fgetxattr(dir, "user.overlay.opaque", &value, 1) == 1 && value == 'y') ||
	       (fgetxattr(dir, "trusted.overlay.opaque", &value, 1) == 1 && value == 'y');
}

static int copy_dir(int from, int to, int depth, char *where, size_t size);

static int copy_subdir(int from_dir, int to_dir, const char *name, const struct stat *st,
		       int depth, char *where, size_t size)
{
	int from AUTO_FD =
	    openat(from_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int to AUTO_FD = -1;
	const struct timespec times[2] = {st->st_atim, st->st_mtim};
	struct stat old;

	if (from < 0)
		return -1;
	if (fstatat(to_dir, name, &old, AT_SYMLINK_NOFOLLOW) == 0 &&
	    (!S_ISDIR(old.st_mode) || is_opaque(from)) && fd_remove_tree(to_dir, name) < 0)
		return -1;
	if (mkdirat(to_dir, name, 0700) < 0 && errno != EEXIST)
		return -1;
	to = openat(to_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (to < 0 || fchmod(to, 0700) < 0)
		return -1;
	if (copy_dir(from, to, depth + 1, where, size) < 0)
		return -1;
	if (fchmod(to, st->st_mode & 0777) < 0)
		return -1;
	return futimens(to, times);
}

static int copy_entry(int from, int to, const char *name, int depth, char *where, size_t size)
{
	struct stat st;

	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if (S_ISDIR(st.st_mode))
		return copy_subdir(from, to, name, &st, depth, where, size);
	if (fd_remove_tree(to, name) < 0)
		return -1;
	if (S_ISCHR(st.st_mode) && st.st_rdev == 0)
		return 0; /* whiteout */
	if (S_ISREG(st.st_mode))
		return copy_file(from, to, name, &st);
	if (S_ISLNK(st.st_mode))
		return copy_link(from, to, name);
	errno = EINVAL; /* no other kind belongs into a layer */
	return -1;
}

/* On failure where gets the path of the entry, built from its end to its start on the way up.
 */
static void prepend(char *where, size_t size, const char *name)
{
	char old[512];

	snprintf(old, sizeof(old), "%s", where);
	snprintf(where, size, "%s%s%s", name, old[0] ? "/" : "", old);
}

static int copy_dir(int from, int to, int depth, char *where, size_t size)
{
	int copy = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *entry;
	int result = 0, saved;

	if (!dir || depth > MAX_DEPTH) {
		saved = dir ? ELOOP : errno;
		if (dir)
			closedir(dir);
		else if (copy >= 0)
			close(copy);
		errno = saved;
		return -1;
	}
	while (result == 0 && (entry = readdir(dir))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		result = copy_entry(from, to, entry->d_name, depth, where, size);
		if (result < 0) {
			saved = errno;
			prepend(where, size, entry->d_name);
			errno = saved;
		}
	}
	saved = errno;
	closedir(dir);
	errno = saved;
	return result;
}

int copy_layer(int layer, int target, char *where, size_t size)
{
	where[0] = '\0';
	return copy_dir(layer, target, 0, where, size);
}
