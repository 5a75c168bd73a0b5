#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"

int scratch_write(const char *name, const void *data, size_t len, struct error *err)
{
	int fd AUTO_FD = -1;

	if (unlink(name) < 0 && errno != ENOENT)
		return error_errno(err, ERROR_FAILED, errno, "scratch directory: %s", name);
	fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || fd_write_all(fd, data, len) < 0)
		return error_errno(err, ERROR_FAILED, errno, "scratch directory: %s", name);
	return 0;
}
