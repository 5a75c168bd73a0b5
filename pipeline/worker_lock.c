#include "worker_lock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/text.h"

#define UNNAMED_S 60

/* Locked before it has its name: whoever sees the name without a lock sees a dead worker. */
int worker_lock_make(int dirfd, char name[WORKER_LOCK_MAX], struct error *err)
{
	unsigned char salt[6];
	char hex[2 * sizeof(salt) + 1], hidden[WORKER_LOCK_MAX + 1];
	int fd AUTO_FD = -1;

	if (getrandom(salt, sizeof(salt), 0) != (ssize_t)sizeof(salt)) {
		error_errno(err, ERROR_FAILED, errno, "getrandom");
		return -1;
	}
	text_hex(hex, salt, sizeof(salt));
	snprintf(name, WORKER_LOCK_MAX, "%d-%s", (int)getpid(), hex);
	snprintf(hidden, sizeof(hidden), ".%s", name);
	fd = fd_open_beneath(dirfd, hidden, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 ||
	    renameat(dirfd, hidden, dirfd, name) < 0) {
		error_errno(err, ERROR_FAILED, errno, "workers/%s", name);
		return -1;
	}
	return fd_steal(&fd);
}

bool worker_lock_is_free(int dirfd, const char *name)
{
	int fd AUTO_FD = fd_open_beneath(dirfd, name, O_RDWR | O_NONBLOCK, 0);

	if (fd < 0)
		return errno == ENOENT;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return false;
	unlinkat(dirfd, name, 0);
	return true;
}

/* One that has no name yet may belong to a worker that just begins: it is left for a while. */
static bool may_begin(int dirfd, const char *name)
{
	struct stat st;

	return name[0] == '.' && (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
				  !S_ISREG(st.st_mode) || st.st_mtime > time(NULL) - UNNAMED_S);
}

void worker_lock_sweep(int dirfd)
{
	DIR *dir = fd_list(dirfd, ".");
	const struct dirent *entry;

	while ((entry = fd_next(dir)))
		if (!may_begin(dirfd, entry->d_name))
			worker_lock_is_free(dirfd, entry->d_name);
	if (dir)
		closedir(dir);
}
