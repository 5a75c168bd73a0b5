/* Looks from inside whether the walls hold, as the payload would find them. See confine.h. */
#include "confine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "sandbox/jail/run.h"

/* What a call that must fail did. */
static bool failed_with(long result, int expected)
{
	if (result >= 0)
		return false;
	return errno == expected;
}

/* By the calls, which tell the same as /proc/self/status in a quarter of its time. */
static bool holds_nothing(void)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct have[2];

	if (syscall(SYS_capget, &head, have) < 0 ||
	    prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1 ||
	    prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 2)
		return false;
	/* nothing ambient without something permitted */
	return !have[0].effective && !have[0].permitted && !have[0].inheritable &&
	       !have[1].effective && !have[1].permitted && !have[1].inheritable;
}

/* Up to the first number that the kernel has no capability for, which may be beyond those that we know. */
static bool bounds_are_empty(void)
{
	int cap = 0, has;

	while ((has = prctl(PR_CAPBSET_READ, cap, 0, 0, 0)) == 0)
		cap++;
	return has < 0 && errno == EINVAL &&
	       cap > CAP_SETFCAP; /* the last one of Linux 2.6.24 */
}

static bool ids_are_ours(void)
{
	return getuid() == JAIL_ID && geteuid() == JAIL_ID && getgid() == JAIL_ID;
}

/* Only 0, 1, 2, our sockets up to last, other (or -1), and the directory that is being read. */
static bool descriptors_are_listed(int last, int other)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	bool fine = dir;

	while (dir && (entry = readdir(dir))) {
		long fd = strtol(entry->d_name, NULL, 10);

		if (entry->d_name[0] != '.' && fd > last && fd != other && fd != dirfd(dir))
			fine = false;
	}
	if (dir)
		closedir(dir);
	return fine;
}

/* gVisor says that there is no route to the host where Linux says that there is none to its network. */
static bool no_way_out(bool own_network)
{
	struct sockaddr_in outside = {
	    .sin_family = AF_INET,
	    .sin_port = htons(443),
	    .sin_addr = {htonl(0xc0000201)}}; /* 192.0.2.1, RFC 5737 */
	int sock AUTO_FD = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return sock >= 0 &&
	       failed_with(connect(sock, (struct sockaddr *)&outside, sizeof(outside)),
			   own_network ? EHOSTUNREACH : ENETUNREACH);
}

/* The address is there only while the loopback is up. */
static bool loopback_works(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int listener AUTO_FD = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return listener >= 0 &&
	       bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0;
}

static bool init_is_out_of_reach(void)
{
	int fd AUTO_FD = open("/proc/1/environ", O_RDONLY | O_CLOEXEC);
	int root AUTO_FD = open("/proc/1/root", O_RDONLY | O_CLOEXEC);

	return fd < 0 && root < 0;
}

/* In a sandbox PID 1 is the runner, which tells the payload's end. */
static bool runner_is_out_of_reach(void)
{
	int memory AUTO_FD = open("/proc/1/mem", O_RDWR | O_CLOEXEC);

	return memory < 0 && failed_with(kill(1, 0), EPERM) &&
	       failed_with(ptrace(PTRACE_ATTACH, 1, NULL, NULL), EPERM);
}

static bool root_is_read_only(void)
{
	return mkdir("/etc/self-test", 0700) < 0 && mkdir("/self-test", 0700) < 0 &&
	       open("/etc/passwd", O_WRONLY | O_CLOEXEC) < 0;
}

/* Not there, or a directory that we made on the way to an admitted toolchain (/root/.rustup/…).
 */
static bool absent_or_built(const char *path, dev_t root)
{
	struct stat at;

	return stat(path, &at) < 0 ? errno == ENOENT : at.st_dev == root;
}

/* The old root would show through as more than one kind of thing that we did not put there. */
static bool root_is_ours(void)
{
	struct stat at_root, at_etc;

	return stat("/", &at_root) == 0 && stat("/etc/passwd", &at_etc) == 0 &&
	       at_root.st_dev == at_etc.st_dev && absent_or_built("/root", at_root.st_dev) &&
	       absent_or_built("/boot", at_root.st_dev) &&
	       absent_or_built("/run/systemd", at_root.st_dev);
}

static bool can_work(bool gvisor)
{
	/* gVisor has no O_TMPFILE */
	int fd AUTO_FD =
	    gvisor ? open("/tmp/self-test", O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600)
		   : open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (gvisor && unlink("/tmp/self-test") < 0)
		return false;

	return fd >= 0 && access(JAIL_WORK, R_OK | W_OK | X_OK) == 0 &&
	       access(JAIL_HOME, R_OK | W_OK | X_OK) == 0;
}

/* An address of IPv4 that is not the loopback's would be of another network. */
static bool only_loopback_is_there(void)
{
	struct ifreq found[4];
	struct ifconf list = {.ifc_len = sizeof(found), .ifc_req = found};
	int sock AUTO_FD = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memset(found, 0, sizeof(found));
	return sock >= 0 && ioctl(sock, SIOCGIFCONF, &list) == 0 &&
	       list.ifc_len == sizeof(found[0]) && strcmp(found[0].ifr_name, "lo") == 0;
}

/*
 * What is looked at in every start, also where the whole test held before: some ten microseconds. One probe a wall:
 * capabilities, ids, filter, network, namespaces and mounts, root.
 */
static const char *first_vital_surprise(void)
{
	if (!holds_nothing() || !failed_with(syscall(SYS_io_uring_setup, 1, NULL), ENOSYS))
		return "capabilities, no_new_privs or the filter are not as set";
	if (!ids_are_ours())
		return "the ids are not those of the payload";
	if (!only_loopback_is_there())
		return "the network is not empty";
	if (!failed_with(unshare(CLONE_NEWUSER), EPERM))
		return "a nested user namespace can be made";
	if (!failed_with(mount("none", "/tmp", "tmpfs", 0, NULL), EPERM))
		return "mounts can be changed";
	if (mkdir("/self-test", 0700) == 0)
		return "the root can be written";
	return NULL;
}

static const char *first_surprise(const struct jail_run *run, int last)
{
	const bool gvisor = run->spec.backend == JAIL_GVISOR;

	if (!holds_nothing() || !bounds_are_empty())
		return "capabilities, no_new_privs or the filter are not as set";
	if (!ids_are_ours())
		return "the ids are not those of the payload";
	if (!descriptors_are_listed(last, gvisor ? run->applied_file : -1))
		return "a descriptor is open that is not listed";
	if (!failed_with(socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0), EAFNOSUPPORT) ||
	    !failed_with(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), EAFNOSUPPORT))
		return "a socket family is open that must be closed";
	if (!no_way_out(gvisor && !run->spec.egress))
		return "the network is not empty";
	if (!loopback_works())
		return "the loopback does not work";
	if (!failed_with(unshare(CLONE_NEWUSER), EPERM))
		return "a nested user namespace can be made";
	if (!failed_with(syscall(SYS_io_uring_setup, 1, NULL), ENOSYS) ||
	    !failed_with(syscall(SYS_keyctl, 0, 0, 0, 0, 0), ENOSYS) ||
	    !failed_with(syscall(SYS_bpf, 0, NULL, 0), EPERM))
		return "a system call is open that must be closed";
	if (!failed_with(mount("none", "/tmp", "tmpfs", 0, NULL), EPERM) ||
	    !failed_with(chroot("/tmp"), EPERM))
		return "mounts can be changed";
	if (!(gvisor ? runner_is_out_of_reach() : init_is_out_of_reach()))
		return "PID 1 can be looked into";
	if (!root_is_read_only())
		return "the root can be written";
	if (!root_is_ours())
		return "the root is not the one that was built";
	if (!can_work(gvisor))
		return "the work tree, HOME or /tmp cannot be written";
	return NULL;
}

bool confine_is_brief(const struct jail_run *run)
{
	return run->spec.tested && run->spec.backend == JAIL_NATIVE;
}

int confine_self_test(struct jail_run *run, int last)
{
	const char *surprise;

	if (step_enter(run, STEP_selftest) < 0)
		return step_fail(run, "self-test");
	surprise = confine_is_brief(run) ? first_vital_surprise() : first_surprise(run, last);
	if (surprise) {
		errno = 0;
		return step_fail(run, "self-test: %s", surprise);
	}
	step_done(run);
	return 0;
}
