#include "ids.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "sandbox/jail/run.h"
#include "sandbox/subuid.h"

#define TRIES_MAX 65536
#define GROUPS ((off_t)1 << 32) /* gids lie behind the uids */

static const char *const places[IDS_PLACES] = {"/run/user/%u", "/tmp", "/dev/shm"};

/* Where nobody but root and us can take a file of ours away. */
static bool is_safe(int dir)
{
	struct stat st;

	return fstat(dir, &st) == 0 && (st.st_uid == 0 || st.st_uid == geteuid()) &&
	       (!(st.st_mode & 0022) || (st.st_uid == 0 && (st.st_mode & S_ISVTX)));
}

/* The file; -1: not to be had here, or another user was before us and put something at its place. */
static int open_file(const char *place)
{
	char path[64], name[32];
	int dir AUTO_FD = -1, file AUTO_FD = -1;
	struct stat st;

	snprintf(path, sizeof(path), "/run/user/%u", (unsigned)geteuid());
	snprintf(name, sizeof(name), "agent-ids-%u", (unsigned)geteuid());
	dir = open(strchr(place, '%') ? path : place, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || !is_safe(dir))
		return -1;
	file = openat(dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	if (file < 0 || fstat(file, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1 ||
	    st.st_uid != geteuid() || (st.st_mode & 077))
		return -1;
	futimens(file, NULL); /* what is old is swept from such directories */
	return fd_steal(&file);
}

static int open_files(struct jail_run *run)
{
	bool any = false;

	for (size_t i = 0; i < IDS_PLACES; i++) {
		if (run->ids[i] < 0)
			run->ids[i] = open_file(places[i]);
		any |= run->ids[i] >= 0;
	}
	errno = 0;
	return any ? 0
		   : step_fail(run,
			       "nowhere can be noted which ids jails have: none of "
			       "/run/user/%u, /tmp, /dev/shm takes a file agent-ids-%u "
			       "of this user's",
			       (unsigned)geteuid(), (unsigned)geteuid());
}

/* In every file, or in none. */
static bool lock_id(const struct jail_run *run, off_t at)
{
	for (size_t i = 0; i < IDS_PLACES; i++) {
		struct flock lock = {
		    .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};

		if (run->ids[i] < 0 || fcntl(run->ids[i], F_OFD_SETLK, &lock) == 0)
			continue;
		lock.l_type = F_UNLCK;
		while (i--)
			if (run->ids[i] >= 0)
				fcntl(run->ids[i], F_OFD_SETLK, &lock);
		return false;
	}
	return true;
}

int ids_claim(struct jail_run *run, bool group, const struct subuid_range *range,
	      unsigned long *id)
{
	const char *path = group ? "/etc/group" : "/etc/passwd";
	const unsigned long count = range->count - range->count / 2;
	struct strbuf named AUTO_STRBUF = STRBUF_NONE;
	int fd AUTO_FD = open(path, O_RDONLY | O_CLOEXEC);

	run->step = STEP_subuid; /* what helps is the same */
	strbuf_init(&named, (size_t)16 << 20);
	if (fd >= 0 && fd_read_all(fd, &named) < 0)
		return step_fail(run, "%s", path);
	if (open_files(run) < 0)
		return -1;
	for (unsigned long i = 0; i < count && i < TRIES_MAX; i++) {
		*id = subuid_choose(range, (unsigned long)getpid() + i);
		if (!subuid_is_named(named.data, *id) &&
		    lock_id(run, (off_t)*id + (group ? GROUPS : 0))) {
			run->step = STEP_identity;
			return 0;
		}
	}
	errno = 0;
	return step_fail(
	    run, "all of the %lu %cids from %lu on are other jails' or have a name in %s",
	    count, group ? 'g' : 'u', range->first + range->count / 2, path);
}
