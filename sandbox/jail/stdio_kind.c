#include "stdio_kind.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* A pseudo-terminal that somebody made for us is our terminal, or becomes it, so that a shell can control
 * its jobs; one that is another session's stays that (ioctl_tty(2)). */
static bool is_own_terminal(int fd)
{
	pid_t session;

	if (!isatty(fd))
		return false;
	ioctl(fd, TIOCSCTTY, 0);
	return ioctl(fd, TIOCGSID, &session) == 0 && session == getsid(0);
}

int stdio_kind(int fd, char *kind)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -1;
	*kind = S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3) ? 'n' : 'f';
	if (*kind == 'n' || S_ISFIFO(st.st_mode) || is_own_terminal(fd))
		return 0;
	errno = EINVAL;
	return -1;
}
