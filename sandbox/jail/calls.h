/*
 * System calls that glibc has functions for (since 2.36) and other C libraries may not: agent-jail is linked
 * with musl where there is one (Makefile, JAIL_CC). The functions are those of fsopen(2), open_tree(2), … and
 * pidfd_open(2), close_range(2).
 */
#ifndef SANDBOX_JAIL_CALLS_H
#define SANDBOX_JAIL_CALLS_H

#include <sys/mount.h>

#ifdef __GLIBC__
#include <sys/pidfd.h>
#include <unistd.h>
typedef unsigned long ioctl_request_t;
#else
#include <linux/close_range.h>
#include <linux/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef int __rlimit_resource_t;
typedef int ioctl_request_t;

static inline int open_tree(int dir, const char *path, unsigned flags)
{
	return (int)syscall(SYS_open_tree, dir, path, flags);
}

static inline int move_mount(int from, const char *from_path, int to, const char *to_path,
			     unsigned flags)
{
	return (int)syscall(SYS_move_mount, from, from_path, to, to_path, flags);
}

static inline int mount_setattr(int dir, const char *path, unsigned flags,
				struct mount_attr *attr, size_t size)
{
	return (int)syscall(SYS_mount_setattr, dir, path, flags, attr, size);
}

static inline int fsopen(const char *name, unsigned flags)
{
	return (int)syscall(SYS_fsopen, name, flags);
}

static inline int fsconfig(int fd, unsigned command, const char *key, const void *value,
			   int number)
{
	return (int)syscall(SYS_fsconfig, fd, command, key, value, number);
}

static inline int fsmount(int fd, unsigned flags, unsigned attributes)
{
	return (int)syscall(SYS_fsmount, fd, flags, attributes);
}

static inline int close_range(unsigned first, unsigned last, int flags)
{
	return (int)syscall(SYS_close_range, first, last, flags);
}

static inline int pidfd_open(pid_t pid, unsigned flags)
{
	return (int)syscall(SYS_pidfd_open, pid, flags);
}
#endif

#endif
