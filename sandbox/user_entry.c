#include "user_entry.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"

#define PASSWD "/etc/passwd"

/* Whether a line of /etc/passwd has the uid in its third field (passwd(5)). */
static bool passwd_has(uid_t uid)
{
	char line[1024];
	FILE *file = fopen(PASSWD, "re");
	bool found = false;

	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file)) {
		char *field = strchr(line, ':'), *end;
		unsigned long value;

		field = field ? strchr(field + 1, ':') : NULL;
		value = field ? strtoul(field + 1, &end, 10) : 0;
		found = field && end > field + 1 && *end == ':' && value == uid;
	}
	fclose(file);
	return found;
}

static int write_passwd(const char *path, uid_t uid, gid_t gid, struct error *err)
{
	int fd AUTO_FD = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	char text[128];
	int len = snprintf(text, sizeof(text),
			   "agent:x:%u:%u:agent:/nonexistent:/usr/sbin/nologin\n", uid, gid);

	if (fd < 0 || fchmod(fd, 0444) < 0 || write(fd, text, (size_t)len) != len)
		return error_errno(err, ERROR_ISOLATION, errno, "user entry");
	return 0;
}

/* A file system of our own lies over /tmp just as long as it takes to bind its one file over
 * /etc/passwd. */
int user_entry_make(uid_t uid, gid_t gid, struct error *err)
{
	static const char *const shelf = "/tmp";

	if (passwd_has(uid))
		return 0;
	if (unshare(CLONE_NEWNS) < 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		error_errno(err, ERROR_ISOLATION, errno,
			    "mount namespace for an entry of uid %u in " PASSWD, uid);
		return error_next(err, "start as root or as a user with an entry in " PASSWD);
	}
	if (mount("agent", shelf, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
		  "size=64k,mode=755") < 0)
		return error_errno(err, ERROR_ISOLATION, errno,
				   "user entry: file system over %s", shelf);
	if (write_passwd("/tmp/passwd", uid, gid, err) < 0)
		return ERROR_ISOLATION;
	if (mount("/tmp/passwd", PASSWD, NULL, MS_BIND, NULL) < 0 ||
	    mount(NULL, PASSWD, NULL,
		  MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
		  NULL) < 0 ||
	    umount2(shelf, MNT_DETACH) < 0)
		return error_errno(err, ERROR_ISOLATION, errno, "user entry: " PASSWD);
	return 0;
}
