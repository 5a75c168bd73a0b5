/* Attacks of our own, beyond the list: files and what the host is called. See probe.h. */
#include "sandbox/probe/probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/xattr.h>
#include <unistd.h>

#define HIGH (1L << 32)

/* ---- files ---- */

static bool writable_folder(const char *path, unsigned char type)
{
	static const char *const ours[] = {"/work", "/tmp", "/home/agent", "/dev/shm", "/proc"};

	if (type != DT_DIR)
		return true;
	for (size_t i = 0; i < LEN(ours); i++)
		if (strncmp(path, ours[i], strlen(ours[i])) == 0)
			return true;
	if (faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0) {
		const char *name = text("%s/%s-x", path, mark());
		int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

		if (fd >= 0 || mkdir(name, 0700) == 0)
			worked("%s is writable", path);
		close(fd);
		unlink(name);
		rmdir(name);
	}
	return true;
}

ATTACK(writable_places)
{
	walk(arg_or("walk", "/"), 30, writable_folder);
	blocked("only the tree, HOME, /tmp and /dev/shm are writable");
}

static bool writable_knob(const char *path, unsigned char type)
{
	if (type == DT_REG && open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK) >= 0)
		worked("%s is writable", path);
	return true;
}

ATTACK(writable_knobs)
{
	walk("/proc/sys", 10, writable_knob);
	walk("/proc/irq", 3, writable_knob);
	walk("/sys/devices/system", 8, writable_knob);
	blocked("nothing below /proc/sys or /sys is writable");
}

ATTACK(reopen_read_only)
{
	const char *path = arg_or("rofile", "/etc/passwd");
	int fd = open(path, O_RDONLY | O_CLOEXEC), handle = open(path, O_PATH | O_CLOEXEC);

	if (fd < 0) {
		absent("there is no read-only file to try");
		return;
	}
	try_open(path, O_WRONLY);
	try_open(text("/proc/self/fd/%d", fd), O_RDWR);
	try_open(text("/proc/self/fd/%d", handle), O_WRONLY);
	try_open(text("/proc/self/root%s", path), O_RDWR | O_APPEND);
	REFUSED("a writable shared mapping",
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED ? -1
											  : 0,
		EACCES, EPERM);
	REFUSED("truncate", truncate(path, 0), EROFS, EACCES, EPERM);
	REFUSED("chmod", chmod(path, 0777), EROFS, EACCES, EPERM);
	REFUSED("fchmod", fchmod(fd, 0777), EROFS, EACCES, EPERM);
	REFUSED("fchmodat2", syscall(452, fd, "", 0777, AT_EMPTY_PATH), EROFS, EACCES, EPERM,
		ENOSYS);
	REFUSED("utimensat", futimens(fd, NULL), EROFS, EACCES, EPERM);
	REFUSED("setxattr", fsetxattr(fd, "user.attack", "x", 1, 0), EROFS, EACCES, EPERM,
		EOPNOTSUPP);
	REFUSED("unlink", unlink(path), EROFS, EACCES, EPERM);
	close(fd);
	close(handle);
}

/* CVE-2022-0847: a pipe whose buffers keep the flag that lets them be written into the page cache. */
ATTACK(dirty_pipe)
{
	const char *path = arg_or("rofile", "/etc/passwd");
	int ends[2], fd = open(path, O_RDONLY | O_CLOEXEC);
	static char block[65536], before[16], after[16];
	loff_t offset = 1;
	ssize_t n;

	if (fd < 0 || pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) {
		absent("there is no read-only file to try");
		return;
	}
	while (write(ends[1], block, sizeof(block)) > 0)
		continue;
	while (read(ends[0], block, sizeof(block)) > 0)
		continue;
	if (pread(fd, before, sizeof(before), 0) < 0)
		return;
	n = splice(fd, &offset, ends[1], NULL, 1, 0);
	if (n == 1 && write(ends[1], "#", 1) == 1 && pread(fd, after, sizeof(after), 0) > 0 &&
	    memcmp(before, after, sizeof(before)) != 0)
		worked("%s was changed through a pipe", path);
	else
		blocked("%s cannot be changed through a pipe", path);
	close(fd);
}

/* Harmless where they are let through: thawing what is not frozen, trimming nothing, flags as they are. */
ATTACK(file_system_ioctls)
{
	const char *paths[] = {"/usr", arg_or("rofile", "/etc/passwd"), "/opt", "."};

	for (size_t i = 0; i < LEN(paths); i++) {
		int fd = open(paths[i], O_RDONLY | O_CLOEXEC);
		struct fstrim_range nothing = {0, 0, UINT64_MAX};
		char key[80] = {0};
		int flags = 0;

		if (fd < 0)
			continue;
		if (ioctl(fd, FITHAW, 0) < 0 && errno == EINVAL)
			worked("the file system of %s can be frozen", paths[i]);
		else
			REFUSED("FITHAW", -1, EPERM, EACCES, ENOTTY, EOPNOTSUPP, EISDIR);
		REFUSED("FITRIM", ioctl(fd, FITRIM, &nothing), EPERM, EACCES, ENOTTY, EROFS,
			EOPNOTSUPP);
		REFUSED("FS_IOC_ADD_ENCRYPTION_KEY", ioctl(fd, _IOWR('f', 23, char[80]), key),
			EPERM, EACCES, ENOTTY, EROFS, EOPNOTSUPP, EINVAL);
		if (ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0 && strcmp(paths[i], ".") != 0)
			REFUSED("FS_IOC_SETFLAGS", ioctl(fd, FS_IOC_SETFLAGS, &flags), EPERM,
				EACCES, ENOTTY, EROFS, EOPNOTSUPP);
		close(fd);
	}
}

ATTACK(cached_pages)
{
	struct {
		uint64_t from, len;
	} range = {0, 4096};
	uint64_t result[5];
	int fd = open("/usr/bin/env", O_RDONLY | O_CLOEXEC);

	REFUSED("cachestat of a shared file", syscall(451, fd, &range, result, 0), EPERM,
		EACCES, ENOSYS, EBADF);
	close(fd);
}

ATTACK(admitted_socket)
{
	if (arg("rosock"))
		try_connect(arg("rosock"));
	else
		absent("no folder with a socket is admitted");
}

ATTACK(foreign_terminals)
{
	if (arg("pts"))
		try_open(arg("pts"), O_RDWR);
	for (int i = 0; i < 16; i++)
		try_open(text("/dev/pts/%d", i), O_RDWR);
	try_open("/dev/tty", O_RDWR);
	try_open("/dev/console", O_RDWR);
}

ATTACK(host_names)
{
	struct utsname names;
	const char *host = arg_or("hostname", "");

	uname(&names);
	if (host[0] && strcmp(names.nodename, host) == 0)
		worked("the host's name is %s", names.nodename);
	else
		blocked("the name is %s", names.nodename);
	REFUSED("sethostname", sethostname(names.nodename, strlen(names.nodename)), EPERM,
		ENOSYS);
}

ATTACK(host_sockets)
{
	static char table[1 << 18];
	const char *files[] = {"/proc/net/tcp", "/proc/self/net/tcp", "/proc/1/net/tcp",
			       "/proc/net/unix"};
	const char *port = text(":%04lX ", arg_number("lo", 8080));

	for (size_t i = 0; i < LEN(files); i++) {
		ssize_t len = read_path(files[i], table, sizeof(table));

		if (len > 0 &&
		    (strstr(table, port) || strstr(table, arg_or("abstract", "attack-canary"))))
			worked("%s lists the host's sockets", files[i]);
		else
			blocked("%s lists none of the host's", files[i]);
	}
}
