/* Attacks on namespaces, mounts, files and set-up: the first half of section 2.3. See probe.h. */
#include "sandbox/probe/probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define NEW_TIME 0x80 /* CLONE_NEWTIME */

/* ---- namespaces ---- */

static int unshare_flags(void *data)
{
	if (unshare(*(int *)data) == 0)
		return WORKED;
	return errno == EPERM || errno == ENOSPC || errno == ENOSYS ? BLOCKED : UNTRIED;
}

static void judge_child(const char *what, int status)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == WORKED)
		worked("%s", what);
	else if (WIFEXITED(status) && WEXITSTATUS(status) == BLOCKED)
		blocked("%s: refused", what);
	else
		surprise("%s: status %x", what, status);
}

ATTACK(nested_userns)
{
	static const int flags[] = {CLONE_NEWUSER, CLONE_NEWNS,	 CLONE_NEWNET,	  CLONE_NEWPID,
				    CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP, NEW_TIME};

	for (size_t i = 0; i < LEN(flags); i++) {
		int both = CLONE_NEWUSER | flags[i];
		long pid;

		judge_child(text("unshare(%x)", both), in_child(unshare_flags, &both));
		both = flags[i];
		judge_child(text("unshare(%x)", both), in_child(unshare_flags, &both));
		if (flags[i] == NEW_TIME)
			continue;
		pid = syscall(SYS_clone, (unsigned long)both | CLONE_NEWUSER | SIGCHLD, 0, 0, 0,
			      0);
		if (pid == 0)
			_exit(0);
		if (pid > 0)
			waitpid((pid_t)pid, NULL, 0);
		REFUSED("clone with a new user namespace", pid, EPERM, ENOSPC, ENOSYS);
	}
}

ATTACK(clone3_flags)
{
	uint64_t args[11] = {CLONE_NEWUSER};
	long pid;

	args[4] = SIGCHLD;
	pid = syscall(SYS_clone3, args, sizeof(args));
	if (pid == 0)
		_exit(0);
	if (pid > 0)
		waitpid((pid_t)pid, NULL, 0);
	REFUSED("clone3 with a new user namespace", pid, ENOSYS, EPERM);
}

ATTACK(join_namespaces)
{
	static const char *const kinds[] = {"user", "mnt", "net",    "pid",
					    "ipc",  "uts", "cgroup", "time"};
	static const int flags[] = {CLONE_NEWNS,  CLONE_NEWNET,	   CLONE_NEWPID, CLONE_NEWIPC,
				    CLONE_NEWUTS, CLONE_NEWCGROUP, CLONE_NEWUSER};
	pid_t pids[70];
	size_t count = other_pids(pids, LEN(pids) - 1);

	pids[count++] = getpid();
	for (size_t i = 0; i < count; i++) {
		int pidfd = (int)syscall(SYS_pidfd_open, pids[i], 0);

		for (size_t k = 0; pidfd >= 0 && k < LEN(flags); k++)
			if (flags[k] != CLONE_NEWUSER || pids[i] != getpid())
				REFUSED(text("setns(pidfd of %d, %x)", pids[i], flags[k]),
					setns(pidfd, flags[k]), EPERM, ENOSYS, ESRCH);
		for (size_t k = 0; k < LEN(kinds); k++) {
			int fd = open(text("/proc/%d/ns/%s", pids[i], kinds[k]),
				      O_RDONLY | O_CLOEXEC);

			if (fd < 0)
				blocked("/proc/%d/ns/%s: %s", pids[i], kinds[k],
					strerrorname_np(errno));
			else if (strcmp(kinds[k], "user") != 0 || pids[i] != getpid())
				REFUSED(text("setns(%s of %d)", kinds[k], pids[i]),
					setns(fd, 0), EPERM, ENOSYS);
			close(fd);
		}
		close(pidfd);
	}
}

/* ---- mounts ---- */

ATTACK(mounts)
{
	static const char *const types[] = {"tmpfs",   "proc",	 "sysfs", "overlay",
					    "cgroup2", "devpts", "ramfs", "mqueue"};
	char dir[200];

	snprintf(dir, sizeof(dir), "%s", own_folder());
	for (size_t i = 0; i < LEN(types); i++)
		REFUSED(text("mount -t %s", types[i]), mount(mark(), dir, types[i], 0, NULL),
			EPERM, ENOSYS);
	REFUSED("a bind mount", mount("/usr", dir, NULL, MS_BIND | MS_REC, NULL), EPERM,
		ENOSYS);
	REFUSED("a moved mount", mount("/tmp", dir, NULL, MS_MOVE, NULL), EPERM, ENOSYS);
	REFUSED("propagation", mount(NULL, "/", NULL, MS_SHARED | MS_REC, NULL), EPERM, ENOSYS);
}

ATTACK(change_mounts)
{
	FILE *table = fopen("/proc/self/mountinfo", "re");
	char line[8192], point[4096];

	REFUSED("/ made writable", mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL), EPERM,
		ENOSYS);
	REFUSED("/proc/sys unmounted", umount2("/proc/sys", MNT_DETACH), EPERM, ENOSYS);
	while (table && fgets(line, sizeof(line), table)) {
		if (sscanf(line, "%*s %*s %*s %*s %4095s", point) != 1)
			continue;
		REFUSED(text("%s remounted", point),
			mount(NULL, point, NULL, MS_REMOUNT | MS_BIND, NULL), EPERM, ENOSYS);
		if (strcmp(point, "/") != 0)
			REFUSED(text("%s unmounted", point), umount2(point, MNT_DETACH), EPERM,
				ENOSYS);
	}
	if (table)
		fclose(table);
}

ATTACK(change_root)
{
	const char *dir = own_folder();
	struct stat st;

	REFUSED("pivot_root", syscall(SYS_pivot_root, "/tmp", "/tmp"), EPERM, ENOSYS);
	if (chroot(dir) == 0) {
		for (int i = 0; i < 64; i++)
			if (chdir("..") < 0)
				break;
		worked("chroot%s", stat("usr", &st) == 0 ? ", and out of it by .." : "");
	} else
		REFUSED("chroot", -1, EPERM, ENOSYS);
}

ATTACK(file_handles)
{
	static const char *const roots[] = {"/", "/usr", ".", "/tmp", "/opt"};

	for (size_t i = 0; i < LEN(roots); i++) {
		union {
			struct file_handle head;
			char space[sizeof(struct file_handle) + 128];
		} handle;
		int mount_id, dir = open(roots[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		memset(&handle, 0, sizeof(handle));
		handle.head.handle_bytes = 128;
		if (name_to_handle_at(AT_FDCWD, roots[i], &handle.head, &mount_id, 0) == 0)
			REFUSED(text("a handle of %s", roots[i]),
				open_by_handle_at(dir, &handle.head, O_RDONLY | O_CLOEXEC),
				EPERM, ENOSYS);
		/* inode 2, the root of ext4, without having seen it: FILEID_INO32_GEN */
		handle.head.handle_bytes = 8;
		handle.head.handle_type = 1;
		memcpy(handle.head.f_handle, (const uint32_t[2]){2, 0}, 8);
		if (open_by_handle_at(dir, &handle.head, O_RDONLY | O_CLOEXEC) >= 0)
			worked("the root of the file system behind %s by its handle", roots[i]);
		else if (errno == EPERM || errno == ENOSYS)
			blocked("open_by_handle_at: %s", strerrorname_np(errno));
		close(dir);
	}
}

/* ---- /proc, /sys, control groups: opened only ---- */

ATTACK(core_pattern)
{
	try_open("/proc/sys/kernel/core_pattern", O_WRONLY);
	try_open("/proc/self/root/proc/sys/kernel/core_pattern", O_WRONLY);
	try_open("/proc/sys/kernel/core_pipe_limit", O_WRONLY);
}

ATTACK(kernel_knobs)
{
	static const char *const files[] = {"/proc/sysrq-trigger",
					    "/proc/sys/kernel/sysrq",
					    "/proc/sys/kernel/modprobe",
					    "/proc/sys/kernel/hotplug",
					    "/proc/sys/kernel/poweroff_cmd",
					    "/proc/sys/kernel/panic",
					    "/proc/sys/fs/binfmt_misc/register",
					    "/proc/sys/vm/panic_on_oom",
					    "/proc/sys/kernel/usermodehelper/bset",
					    "/sys/kernel/uevent_helper",
					    "/sys/power/state",
					    "/sys/kernel/mm/ksm/run",
					    "/sys/fs/selinux/enforce",
					    "/sys/module/printk/parameters/time",
					    "/sys/devices/system/cpu/cpu0/online",
					    "/sys/devices/system/cpu/online",
					    "/proc/irq/default_smp_affinity",
					    "/proc/mtrr",
					    "/proc/self/timens_offsets",
					    "/proc/scsi/scsi"};

	for (size_t i = 0; i < LEN(files); i++)
		if (strcmp(files[i], "/proc/self/timens_offsets") != 0)
			try_open(files[i], O_WRONLY);
}

/* Calls visit(mount point) for every mounted control group hierarchy, and the usual places. */
static void each_cgroup(void (*visit)(const char *top))
{
	FILE *table = fopen("/proc/self/mounts", "re");
	char line[8192], point[4096], type[64];

	while (table && fgets(line, sizeof(line), table))
		if (sscanf(line, "%*s %4095s %63s", point, type) == 2 &&
		    strncmp(type, "cgroup", 6) == 0)
			visit(point);
	if (table)
		fclose(table);
	visit("/sys/fs/cgroup");
	visit("/sys/fs/cgroup/memory");
	visit("/sys/fs/cgroup/unified");
}

static void release_agent_at(const char *top)
{
	try_open(text("%s/release_agent", top), O_WRONLY);
	try_open(text("%s/notify_on_release", top), O_WRONLY);
}

ATTACK(release_agent)
{
	each_cgroup(release_agent_at);
	REFUSED("mount -t cgroup", mount(mark(), own_folder(), "cgroup", 0, "rdma"), EPERM,
		ENOSYS);
}

static void cgroup_limits_at(const char *top)
{
	static const char *const files[] = {
	    "memory.max",     "memory.limit_in_bytes",	"pids.max",    "cgroup.procs",
	    "tasks",	      "cgroup.subtree_control", "cgroup.kill", "cgroup.freeze",
	    "../cgroup.procs"};
	FILE *own = fopen("/proc/self/cgroup", "re");
	char line[4096];

	for (size_t i = 0; i < LEN(files); i++)
		try_open(text("%s/%s", top, files[i]), O_WRONLY);
	while (own && fgets(line, sizeof(line), own)) {
		char *path = strrchr(line, ':');

		line[strcspn(line, "\n")] = '\0';
		for (size_t i = 0; path && i < LEN(files); i++)
			try_open(text("%s%s/%s", top, path + 1, files[i]), O_WRONLY);
	}
	if (own)
		fclose(own);
}

ATTACK(cgroup_limits)
{
	each_cgroup(cgroup_limits_at);
}

/* ---- the helper's own program ---- */

ATTACK(overwrite_helper)
{
	pid_t pids[70];
	size_t count = other_pids(pids, LEN(pids));

	for (size_t i = 0; i < count; i++) {
		const char *path = text("/proc/%d/exe", pids[i]);
		int fd = open(path, O_WRONLY | O_CLOEXEC), readable;

		/* ETXTBSY: allowed, once it has ended */
		if (fd >= 0 || errno == ETXTBSY)
			worked("%s can be overwritten", path);
		else
			blocked("%s: %s", path, strerrorname_np(errno));
		close(fd);
		readable = open(path, O_RDONLY | O_CLOEXEC);
		fd = readable < 0
			 ? -1
			 : open(text("/proc/self/fd/%d", readable), O_WRONLY | O_CLOEXEC);
		if (readable >= 0 && (fd >= 0 || errno == ETXTBSY))
			worked("%s can be overwritten by way of a descriptor", path);
		close(fd);
		close(readable);
	}
	blocked("no other program is there");
}

ATTACK(preload)
{
	/* The host looks whether anything outside took the library that the environment names. */
	done("LD_PRELOAD=%s", getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "(not set)");
}

ATTACK(set_uid_programs)
{
	int status = run_line(5000, text("%s --nothing", arg_or("suid", "-")));

	if (status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == WORKED)
		worked("a set-user-id program gets its owner's id");
	else if (status == 0)
		blocked("set-user-id has no effect");
	else
		absent("there is no set-user-id program to try");
	status = run_line(5000, text("%s --nothing", arg_or("fcap", "-")));
	if (status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == WORKED)
		worked("a program with capabilities gets them");
	else if (status == 0 ||
		 (status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == 127))
		blocked("capabilities of a file have no effect");
}

ATTACK(devices)
{
	static const struct {
		const char *name;
		mode_t mode;
		unsigned major_number, minor_number;
	} table[] = {{"n", S_IFCHR, 1, 3},
		     {"m", S_IFCHR, 1, 1},
		     {"d", S_IFBLK, 8, 0},
		     {"v", S_IFBLK, 254, 0}};

	for (size_t i = 0; i < LEN(table); i++) {
		const char *path = text("%s-%s", mark(), table[i].name);

		REFUSED("mknod",
			mknod(path, table[i].mode | 0666,
			      makedev(table[i].major_number, table[i].minor_number)),
			EPERM, EACCES, EROFS);
		unlink(path);
	}
}

static bool open_device(const char *path, unsigned char type)
{
	static const char *const harmless[] = {"/dev/null",   "/dev/zero",    "/dev/full",
					       "/dev/random", "/dev/urandom", "/dev/tty",
					       "/dev/ptmx",   "/dev/pts/ptmx"};

	for (size_t i = 0; i < LEN(harmless); i++)
		if (strcmp(path, harmless[i]) == 0)
			return true;
	if (type == DT_CHR || type == DT_BLK)
		try_open(path, O_RDWR);
	return true;
}

ATTACK(dangerous_devices)
{
	static const char *const names[] = {
	    "kvm",	   "fuse",	     "net/tun", "dri/card0",	"vhost-net",
	    "vhost-vsock", "vsock",	     "uinput",	"loop-control", "userfaultfd",
	    "snapshot",	   "mapper/control", "autofs",	"vfio/vfio",	"uhid",
	    "cuse",	   "btrfs-control",  "nvram",	"hwrng"};

	for (size_t i = 0; i < LEN(names); i++)
		try_open(text("/dev/%s", names[i]), O_RDWR);
	walk("/dev", 3, open_device);
}

ATTACK(fuse)
{
	static const char *const programs[] = {"/usr/bin/fusermount3", "/usr/bin/fusermount"};
	char dir[200];
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	snprintf(dir, sizeof(dir), "%s", own_folder());
	/* with EINVAL nothing but the device is missing */
	if (mount(mark(), dir, "fuse", 0,
		  text("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)) == 0 ||
	    errno == EINVAL)
		worked("mounts of FUSE are let through");
	else
		REFUSED("mount -t fuse", -1, EPERM, ENOSYS);
	for (size_t i = 0; i < LEN(programs); i++) {
		int status = run_line(3000, text("%s -o fsname=attack %s", programs[i], dir));

		if (status == 0)
			worked("%s mounts", programs[i]);
		else
			blocked("%s is not there or fails", programs[i]);
	}
	if (fd >= 0)
		worked("/dev/fuse can be opened");
	close(fd);
}

/* ---- links and races: the host has prepared them ---- */

static bool read_for_secrets(const char *path, unsigned char type)
{
	if (type == DT_REG || type == DT_LNK)
		try_read(path, false);
	return true;
}

ATTACK(look_for_secrets)
{
	char cwd[4096];

	if (getcwd(cwd, sizeof(cwd)))
		walk(cwd, 6, read_for_secrets);
	walk("/work", 6, read_for_secrets);
	blocked("nothing of the host's shows in the tree");
}

ATTACK(hard_links)
{
	const char *names[] = {arg_or("file", "/etc/passwd"), "/etc/passwd", "/usr/bin/env",
			       "/proc/self/exe", "/etc/hosts"};

	for (size_t i = 0; i < LEN(names); i++) {
		const char *to = text("%s-link%zu", mark(), i);

		if (linkat(AT_FDCWD, names[i], AT_FDCWD, to, 0) == 0)
			done("%s has a second name in the tree", names[i]);
		else if (errno == EXDEV || errno == EPERM || errno == EROFS ||
			 errno == ENOENT || errno == EACCES)
			blocked("link of %s: %s", names[i], strerrorname_np(errno));
		else
			surprise("link of %s: %s", names[i], strerrorname_np(errno));
	}
}

ATTACK(null_swap)
{
	struct stat st;

	if (unlink("/dev/null") == 0 || rename("/dev/null", "/dev/null2") == 0)
		done("/dev/null was taken away");
	else
		REFUSED("/dev/null taken away", -1, EACCES, EPERM, EROFS, EBUSY);
	if (symlink("/proc/sys/kernel/core_pattern", "/dev/null") == 0)
		done("/dev/null is a link");
	else
		REFUSED("a link over /dev/null", -1, EEXIST, EACCES, EPERM, EROFS);
	if (stat("/dev/null", &st) == 0 &&
	    (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(1, 3)))
		done("/dev/null is none any more");
}

ATTACK(redirect_proc)
{
	struct statfs fs;

	REFUSED("a tmpfs over /proc", mount(mark(), "/proc", "tmpfs", 0, NULL), EPERM, ENOSYS);
	REFUSED("a bind mount over /proc/self",
		mount("/tmp", "/proc/self/attr", NULL, MS_BIND, NULL), EPERM, ENOSYS);
	if (statfs("/proc", &fs) == 0 && fs.f_type != 0x9fa0)
		worked("/proc is no proc");
	REFUSED("a name in /proc", mkdir("/proc/x", 0700), ENOENT, EACCES, EPERM, EROFS);
}

ATTACK(outside_cwd)
{
	static const char *const dirs[] = {"..",   "../..", "/",    "/etc", "/usr",
					   "/opt", "/run",  "/var", "/mnt", "/home"};

	for (size_t i = 0; i < LEN(dirs); i++) {
		const char *path = text("%s/%s-out", dirs[i], mark());
		int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

		if (fd >= 0)
			done("%s was made", path);
		else
			REFUSED(text("a file in %s", dirs[i]), -1, EROFS, EACCES, EPERM,
				ENOENT);
		close(fd);
	}
}

ATTACK(shell_words)
{
	const char *words = arg("words");

	if (!words)
		absent("no hostile words were given");
	else if (strchr(words, ';') && strchr(words, '$') && strchr(words, '`'))
		done("the words arrived as they were: %s", words);
	else
		worked("the words were changed on their way: %s", words);
}

/* ---- policy, protected names ---- */

ATTACK(policy_file)
{
	mkdir(".agent", 0777);
	if (write_path(
		".agent/config",
		"[jail]\n\tpath = /root\n\tlimits = degraded-ok\n[test]\n\tcommand = true\n"))
		done("the tree's configuration says something else now");
	else
		REFUSED("the tree's configuration", -1, EROFS, EACCES, EPERM);
	try_open("/etc/agent/config", O_WRONLY | O_CREAT);
}

ATTACK(protected_names)
{
	static const char *const dirs[] = {".claude", ".vscode", ".idea", ".github",
					   ".codex",  ".cursor", ".husky"};
	int made = 0;

	for (size_t i = 0; i < LEN(dirs); i++) {
		mkdir(dirs[i], 0777);
		made +=
		    write_path(text("%s/settings.json", dirs[i]), "{\"hooks\": \"evil\"}\n");
	}
	if (made)
		done("%d files that were not there are", made);
	else
		REFUSED("files in hidden folders", -1, EROFS, EACCES, EPERM, ENOENT);
}

ATTACK(late_join)
{
	absent("nothing can be started in a running jail: there is no such command");
}

ATTACK(unfiltered_helper)
{
	pid_t pids[70];
	size_t count = other_pids(pids, LEN(pids));
	static char status[8192];

	for (size_t i = 0; i < count; i++) {
		int fd;

		if (read_path(text("/proc/%d/status", pids[i]), status, sizeof(status)) <= 0) {
			blocked("process %d is not there", pids[i]);
			continue;
		}
		fd = open(text("/proc/%d/mem", pids[i]), O_RDWR | O_CLOEXEC);
		if (fd >= 0 && !strstr(status, "Seccomp:\t2"))
			worked("process %d has no filter and can be written to", pids[i]);
		else
			blocked("process %d is filtered or out of reach", pids[i]);
		close(fd);
	}
	blocked("no other process is there");
}

ATTACK(nested_containers)
{
	static const char *const commands[] = {
	    "/usr/bin/bwrap --ro-bind / / /bin/true", "/usr/bin/unshare -Ur /bin/true",
	    "/usr/bin/podman unshare true", "/usr/bin/runsc --rootless do true",
	    "/usr/bin/nsenter -t 1 -a true"};

	for (size_t i = 0; i < LEN(commands); i++) {
		int status = run_line(5000, commands[i]);

		if (status == 0)
			worked("%s works", commands[i]);
		else if (status < 0)
			absent("%s is not there", commands[i]);
		else
			blocked("%s fails cleanly", commands[i]);
	}
}

ATTACK(rename_parents)
{
	char cwd[4096];
	int moved = 0;

	if (!getcwd(cwd, sizeof(cwd)))
		return;
	moved += rename(".git", text(".git-%s", mark())) == 0;
	moved += rename(cwd, text("%s-%s", cwd, mark())) == 0;
	moved += rename("/work", text("/work-%s", mark())) == 0;
	moved += rename("/home/agent", "/home/agent2") == 0;
	if (moved)
		done("%d were renamed", moved);
	else
		REFUSED("renaming the tree or what is around it", -1, EBUSY, EROFS, EXDEV,
			EACCES, EPERM, ENOENT);
}

ATTACK(writable_ancestors)
{
	char cwd[4096], exe[4096];
	char *paths[] = {cwd, exe};
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (!getcwd(cwd, sizeof(cwd)))
		return;
	exe[len > 0 ? len : 0] = '\0';
	for (size_t i = 0; i < LEN(paths); i++) {
		char *slash;

		while ((slash = strrchr(paths[i], '/'))) {
			*slash = '\0';
			if (faccessat(AT_FDCWD, paths[i][0] ? paths[i] : "/", W_OK,
				      AT_EACCESS) == 0)
				worked("%s, above where we run, is writable",
				       paths[i][0] ? paths[i] : "/");
		}
	}
	blocked("no folder above the tree is writable");
}

ATTACK(directory_descriptors)
{
	const char *path = arg_or("file", "/etc/shadow");
	static char buf[4096];

	for (int fd = 3; fd < 1024; fd++) {
		int file;
		ssize_t n;

		if (fcntl(fd, F_GETFD) < 0)
			continue;
		file = openat(fd, path + 1, O_RDONLY | O_CLOEXEC);
		n = file < 0 ? -1 : read(file, buf, sizeof(buf));
		if (n < 0 || !leaks("a file behind an inherited folder", buf, (size_t)n))
			worked("descriptor %d is left open", fd);
		close(file);
	}
	blocked("no folder or mount is left open");
}
