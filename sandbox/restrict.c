/*
 * See restrict.h. Everything here narrows; nothing can be undone by the process after.
 *
 * Two ways to the same place: as root (really root: the row's uid is mapped) the process takes
 * an empty network namespace and a uid of its own; as a user it makes a user namespace with an
 * identity map, because only that gives a user an empty network namespace. Root of a small map
 * without the wanted uid, as inside a user namespace, goes the user's way.
 *
 * Must not: look at input, print, keep a right for later.
 */
#include "restrict.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "sandbox/filter_self.h"
#include "sandbox/own_root.h"
#include "sandbox/user_entry.h"

#include "filters.h" /* made by gen_filters.c */

/* ---- Landlock: linux/landlock.h up to ABI 7 (the floor's header is older) ---- */

#define LANDLOCK_ABI_NEWEST 7
#define LANDLOCK_CREATE_RULESET_VERSION_FLAG 1u
#define LANDLOCK_RULE_PATH_BENEATH_TYPE 1

#define FS_EXECUTE (1ull << 0)
#define FS_WRITE_FILE (1ull << 1)
#define FS_READ_FILE (1ull << 2)
#define FS_READ_DIR (1ull << 3)
#define FS_REMOVE_DIR (1ull << 4)
#define FS_REMOVE_FILE (1ull << 5)
#define FS_MAKE_CHAR (1ull << 6)
#define FS_MAKE_DIR (1ull << 7)
#define FS_MAKE_REG (1ull << 8)
#define FS_MAKE_SOCK (1ull << 9)
#define FS_MAKE_SYM (1ull << 12)
#define FS_REFER (1ull << 13)	  /* ABI 2 */
#define FS_TRUNCATE (1ull << 14)  /* ABI 3 */
#define FS_IOCTL_DEV (1ull << 15) /* ABI 5 */
#define FS_ABI1_ALL ((1ull << 13) - 1)

#define NET_BIND_TCP (1ull << 0)	/* ABI 4 */
#define NET_CONNECT_TCP (1ull << 1)	/* ABI 4 */
#define SCOPE_ABSTRACT_UNIX (1ull << 0) /* ABI 6 */
#define SCOPE_SIGNAL (1ull << 1)	/* ABI 6 */

#define FS_OF_FILES (FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV)

struct ruleset_attr {
	uint64_t handled_access_fs;
	uint64_t handled_access_net;
	uint64_t scoped;
};

struct path_beneath_attr {
	uint64_t allowed_access;
	int32_t parent_fd;
} __attribute__((packed));

/* MAKE_CHAR: an overlay whiteout (the filter admits no other node). MAKE_SOCK: ssh-agent's
 * socket. */
static const uint64_t access_bits[] = {
    [RESTRICT_READ] = FS_READ_FILE | FS_READ_DIR,
    [RESTRICT_WRITE] = FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE | FS_REMOVE_DIR |
		       FS_REMOVE_FILE | FS_MAKE_CHAR | FS_MAKE_DIR | FS_MAKE_REG |
		       FS_MAKE_SOCK | FS_MAKE_SYM | FS_REFER | FS_TRUNCATE,
    [RESTRICT_EXECUTE] = FS_READ_FILE | FS_READ_DIR | FS_EXECUTE,
};

static int landlock_abi(struct error *err)
{
	long abi =
	    syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION_FLAG);

	if (abi >= 1)
		return (int)abi;
	if (abi == 0)
		errno = EOPNOTSUPP;
	error_errno(err, ERROR_ISOLATION, errno, "Landlock is not available");
	error_next(err, errno == ENOSYS
			    ? "use a kernel of version 5.13 or later that is built with "
			      "CONFIG_SECURITY_LANDLOCK=y"
			    : "boot with landlock in the kernel's lsm= list, for example "
			      "lsm=landlock,lockdown,yama,integrity,apparmor,bpf");
	return ERROR_ISOLATION;
}

static void landlock_handled(const struct restrict_policy *policy, int abi,
			     struct ruleset_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->handled_access_fs = FS_ABI1_ALL | (abi >= 2 ? FS_REFER : 0) |
				  (abi >= 3 ? FS_TRUNCATE : 0) | (abi >= 5 ? FS_IOCTL_DEV : 0);
	if (abi >= 4 && policy->filter == RESTRICT_QUIET)
		attr->handled_access_net = NET_BIND_TCP | NET_CONNECT_TCP;
	if (abi >= 6)
		attr->scoped = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL;
}

static int landlock_add(int ruleset, const struct restrict_path *path, uint64_t handled,
			struct error *err)
{
	int fd AUTO_FD = path->unlinked ? fd_open_unlinked(path->path, O_PATH)
					: open(path->path, O_PATH | O_CLOEXEC);
	struct path_beneath_attr rule;
	struct stat st;

	if (fd < 0) {
		/* What cannot be reached now cannot be reached later: leaving it out grants
		 * nothing. */
		if (errno == ENOENT || errno == ENOTDIR || errno == EACCES)
			return 0;
		return error_errno(err, ERROR_ISOLATION, errno, "Landlock: %s", path->path);
	}
	if (fstat(fd, &st) < 0)
		return error_errno(err, ERROR_ISOLATION, errno, "Landlock: %s", path->path);
	rule.allowed_access = access_bits[path->access] & handled;
	if (!S_ISDIR(st.st_mode))
		rule.allowed_access &= FS_OF_FILES;
	rule.parent_fd = fd;
	if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH_TYPE, &rule, 0) <
	    0)
		return error_errno(err, ERROR_ISOLATION, errno, "Landlock: rule for %s",
				   path->path);
	return 0;
}

/*
 * Makes the ruleset while the process can still open the paths. *ruleset is closed by the
 * caller.
 */
static int landlock_prepare(const struct restrict_policy *policy, int *ruleset,
			    struct error *err)
{
	int fd AUTO_FD = -1, abi = landlock_abi(err), result;
	struct ruleset_attr attr;
	size_t size;

	if (abi < 0)
		return abi;
	if (abi > LANDLOCK_ABI_NEWEST)
		abi = LANDLOCK_ABI_NEWEST;
	landlock_handled(policy, abi, &attr);
	/* An older kernel refuses a longer struct only when its tail is not zero. */
	size = sizeof(attr);
	fd = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
	if (fd < 0)
		return error_errno(err, ERROR_ISOLATION, errno, "Landlock: ruleset of ABI %d",
				   abi);
	for (size_t i = 0; i < policy->path_count; i++) {
		result = landlock_add(fd, &policy->paths[i], attr.handled_access_fs, err);
		if (result < 0)
			return result;
	}
	*ruleset = fd_steal(&fd);
	return 0;
}

/* ---- rlimits ---- */

static int lower_limit(int resource, rlim_t wanted, const char *name, struct error *err)
{
	struct rlimit limit;

	if (getrlimit((__rlimit_resource_t)resource, &limit) < 0)
		return error_errno(err, ERROR_ISOLATION, errno, "getrlimit %s", name);
	if (limit.rlim_max == RLIM_INFINITY || limit.rlim_max > wanted)
		limit.rlim_max = wanted;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit((__rlimit_resource_t)resource, &limit) < 0)
		return error_errno(err, ERROR_ISOLATION, errno, "setrlimit %s", name);
	return 0;
}

static int set_limits(const struct restrict_policy *policy, struct error *err)
{
	int result = lower_limit(RLIMIT_CORE, 0, "CORE", err);

	if (result == 0 && policy->nofile)
		result = lower_limit(RLIMIT_NOFILE, policy->nofile, "NOFILE", err);
	if (result == 0 && policy->file_mib)
		result =
		    lower_limit(RLIMIT_FSIZE, (rlim_t)policy->file_mib << 20, "FSIZE", err);
#ifndef AGENT_SANITIZED /* the sanitizers' shadow memory is terabytes of private mappings */
	if (result == 0 && policy->data_mib)
		result = lower_limit(RLIMIT_DATA, (rlim_t)policy->data_mib << 20, "DATA", err);
#endif
	return result;
}

/* ---- identity and network ---- */

/* Whether uid_map or gid_map of our user namespace covers id. */
static bool id_is_mapped(const char *map, unsigned long id)
{
	char text[4096], *line = text, *end;
	int fd AUTO_FD = open(map, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (len <= 0)
		return false;
	text[len] = '\0';
	for (; (end = strchr(line, '\n')); line = end + 1) {
		unsigned long inside, outside, count;

		*end = '\0';
		if (sscanf(line, "%lu %lu %lu", &inside, &outside, &count) == 3 &&
		    id >= inside && id - inside < count)
			return true;
	}
	return false;
}

static int write_proc(const char *path, const char *text, struct error *err)
{
	int fd AUTO_FD = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text)) {
		error_errno(err, ERROR_ISOLATION, errno, "user namespace: %s", path);
		return error_next(
		    err, "allow user namespaces: sysctl "
			 "kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), or an "
			 "AppArmor profile with \"userns,\" for these programs");
	}
	return 0;
}

/* As a user: a user namespace that maps us to ourselves, and in it an empty network namespace.
 */
static int enter_user_net(struct error *err)
{
	char map[64];
	uid_t uid = geteuid();
	gid_t gid = getegid();
	int result;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0) {
		error_errno(err, ERROR_ISOLATION, errno, "user and network namespace");
		return error_next(
		    err, "allow user namespaces: sysctl user.max_user_namespaces, "
			 "kernel.unprivileged_userns_clone=1 (Debian), "
			 "kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu); in a "
			 "container, allow unshare in its seccomp profile");
	}
	snprintf(map, sizeof(map), "%u %u 1\n", uid, uid);
	result = write_proc("/proc/self/uid_map", map, err);
	if (result == 0)
		result = write_proc("/proc/self/setgroups", "deny", err);
	snprintf(map, sizeof(map), "%u %u 1\n", gid, gid);
	if (result == 0)
		result = write_proc("/proc/self/gid_map", map, err);
	return result;
}

static int loopback_up(struct error *err)
{
	int fd AUTO_FD = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request;

	memset(&request, 0, sizeof(request));
	memcpy(request.ifr_name, "lo", sizeof("lo"));
	if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request) < 0)
		return error_errno(err, ERROR_ISOLATION, errno,
				   "loopback of the network namespace");
	request.ifr_flags = (short)(request.ifr_flags | IFF_UP);
	if (ioctl(fd, SIOCSIFFLAGS, &request) < 0)
		return error_errno(err, ERROR_ISOLATION, errno,
				   "loopback of the network namespace");
	return 0;
}

static int enter_net(const struct restrict_policy *policy, bool as_root, struct error *err)
{
	int result = 0;

	if (!policy->new_net)
		return 0;
	if (!as_root)
		result = enter_user_net(err);
	else if (unshare(CLONE_NEWNET) < 0)
		result = error_errno(err, ERROR_ISOLATION, errno, "network namespace");
	if (result == 0 && policy->loopback_up)
		result = loopback_up(err);
	return result;
}

static int user_entry(const struct restrict_policy *policy, bool as_root, struct error *err)
{
	if (!policy->user_entry)
		return 0;
	if (as_root)
		return user_entry_make(policy->uid, (gid_t)policy->uid, err);
	return user_entry_make(geteuid(), getegid(), err);
}

/* ---- capabilities ---- */

static int set_capabilities(uint64_t permitted, uint64_t inheritable, struct error *err)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	for (size_t i = 0; i < 2; i++) {
		data[i].effective = data[i].permitted = (uint32_t)(permitted >> (32 * i));
		data[i].inheritable = (uint32_t)(inheritable >> (32 * i));
	}
	if (syscall(SYS_capset, &header, data) < 0)
		return error_errno(err, ERROR_ISOLATION, errno, "capset");
	return 0;
}

static uint64_t permitted_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data) < 0)
		return 0;
	return data[0].permitted | (uint64_t)data[1].permitted << 32;
}

/* Where CAP_SETPCAP is held: no exec, no uid change gives a capability back. Else there is none
 * to drop. */
static int close_capability_ways(uint64_t kept, struct error *err)
{
	unsigned bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
			SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
			SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;

	if (!(permitted_capabilities() & 1ull << CAP_SETPCAP))
		return 0;
	for (unsigned cap = 0; cap < 64; cap++) {
		if (kept & 1ull << cap)
			continue;
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
			if (errno == EINVAL)
				break; /* past the last capability of this kernel */
			return error_errno(err, ERROR_ISOLATION, errno,
					   "capability bounding set");
		}
	}
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return error_errno(err, ERROR_ISOLATION, errno, "ambient capabilities");
	if (kept) {
		if (set_capabilities(permitted_capabilities(), kept, err) < 0)
			return ERROR_ISOLATION;
		if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_READ_SEARCH, 0, 0) < 0)
			return error_errno(err, ERROR_ISOLATION, errno, "ambient capability");
	}
	if (prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0)
		return error_errno(err, ERROR_ISOLATION, errno, "securebits");
	return 0;
}

static int switch_uid(uid_t uid, struct error *err)
{
	gid_t gid = (gid_t)uid;

	if (setgroups(0, NULL) < 0)
		return error_errno(err, ERROR_ISOLATION, errno, "setgroups");
	if (setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
		return error_errno(err, ERROR_ISOLATION, errno, "change to uid %u", uid);
	return 0;
}

static int drop_power(const struct restrict_policy *policy, bool as_root, struct error *err)
{
	uint64_t kept = 0;
	int result;

	if (as_root && policy->keep_read)
		kept = permitted_capabilities() & 1ull << CAP_DAC_READ_SEARCH;
	result = close_capability_ways(kept, err);
	if (result == 0 && as_root)
		result = switch_uid(policy->uid, err);
	if (result == 0)
		result = set_capabilities(kept, kept, err);
	return result;
}

/* ---- seccomp ---- */

#define FILTER_LONGEST 2048

static int install_filter(const struct sock_filter *filter, size_t len, bool has_self,
			  struct error *err)
{
	struct sock_filter code[FILTER_LONGEST];
	struct sock_fprog program = {.len = (unsigned short)len, .filter = code};
	size_t marks = 0;

	if (len > FILTER_LONGEST)
		return error_set(err, ERROR_ISOLATION, "seccomp: filter too long");
	memcpy(code, filter, len * sizeof(code[0]));
	for (size_t i = 0; i < len; i++) {
		if (code[i].k != FILTER_SELF_MARK)
			continue;
		code[i].k = (uint32_t)getpid();
		marks++;
	}
	if (has_self != (marks > 0))
		return error_set(err, ERROR_ISOLATION,
				 "seccomp: filter without its own process id");
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0) {
		error_errno(err, ERROR_ISOLATION, errno, "seccomp filter");
		return error_next(err,
				  "use a kernel that is built with CONFIG_SECCOMP_FILTER=y");
	}
	return 0;
}

static int seccomp_self(const struct restrict_policy *policy, struct error *err)
{
	bool writes = false;

	for (size_t i = 0; i < policy->path_count; i++)
		writes = writes || policy->paths[i].access == RESTRICT_WRITE;
	switch (policy->filter) {
	case RESTRICT_QUIET:
		if (writes)
			return install_filter(filter_quiet_writes,
					      ARRAY_LEN(filter_quiet_writes), true, err);
		return install_filter(filter_quiet, ARRAY_LEN(filter_quiet), true, err);
	case RESTRICT_PUMP:
		return install_filter(filter_pump, ARRAY_LEN(filter_pump), true, err);
	case RESTRICT_LAUNCHER:
		return install_filter(filter_launcher, ARRAY_LEN(filter_launcher), false, err);
	}
	return error_set(err, ERROR_ISOLATION, "seccomp: no such filter");
}

/* ---- the call ---- */

/* A change of uid clears the signal that ends us with our parent: set it again. */
static int keep_parent(int death_signal, pid_t parent, struct error *err)
{
	if (!death_signal)
		return 0;
	if (prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0) < 0)
		return error_errno(err, ERROR_ISOLATION, errno, "PR_SET_PDEATHSIG");
	if (getppid() != parent)
		return error_set(err, ERROR_ISOLATION, "the supervisor has ended");
	return 0;
}

/* Root of a map that has the row's uid must be able to become it: root without that power would
 * run every row as root, which is not the user's way either. */
static int find_way(const struct restrict_policy *policy, bool *as_root, struct error *err)
{
	uint64_t needed = 1ull << CAP_SETUID | 1ull << CAP_SETGID | 1ull << CAP_SETPCAP |
			  (policy->new_net ? 1ull << CAP_SYS_ADMIN : 0);

	*as_root = geteuid() == 0 && id_is_mapped("/proc/self/uid_map", policy->uid) &&
		   id_is_mapped("/proc/self/gid_map", policy->uid);
	if (!*as_root || (permitted_capabilities() & needed) == needed)
		return 0;
	error_set(err, ERROR_ISOLATION, "uid %u: root without the capabilities to become it",
		  policy->uid);
	return error_next(
	    err,
	    "start as an ordinary user, or give root CAP_SETUID, CAP_SETGID, CAP_SETPCAP and "
	    "CAP_SYS_ADMIN");
}

/* What needs power, or the paths as they were. */
static int move_in(const struct restrict_policy *policy, bool as_root, int *ruleset,
		   struct error *err)
{
	int result = set_limits(policy, err);

	/* Before non-dumpable: the kernel takes no id maps from a process that is not. */
	if (result == 0)
		result = enter_net(policy, as_root, err);
	if (result == 0)
		result = user_entry(policy, as_root, err);
	if (result == 0 && policy->own_root)
		result = own_root_enter(policy->paths, policy->path_count, err);
	/* After what the entry lies over, before the uid that may not open all paths. */
	if (result == 0)
		result = landlock_prepare(policy, ruleset, err);
	if (result == 0)
		result = drop_power(policy, as_root, err);
	return result;
}

int restrict_self(const struct restrict_policy *policy, struct error *err)
{
	int ruleset AUTO_FD = -1, death_signal = 0, result;
	pid_t parent = getppid();
	bool as_root;

	if (prctl(PR_GET_PDEATHSIG, &death_signal, 0, 0, 0) < 0)
		return error_errno(err, ERROR_ISOLATION, errno, "PR_GET_PDEATHSIG");
	result = find_way(policy, &as_root, err);
	if (result == 0)
		result = move_in(policy, as_root, &ruleset, err);
	if (result == 0)
		result = keep_parent(death_signal, parent, err);
	if (result < 0)
		return result;
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return error_errno(err, ERROR_ISOLATION, errno, "PR_SET_DUMPABLE");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return error_errno(err, ERROR_ISOLATION, errno, "no_new_privs");
	if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		return error_errno(err, ERROR_ISOLATION, errno, "Landlock");
	close(fd_steal(&ruleset));
	return seccomp_self(policy, err);
}
