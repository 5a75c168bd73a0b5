#include "machine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "sandbox/jail/cgroup.h"
#include "sandbox/jail/disk.h"
#include "sandbox/jail/run.h"
#include "sandbox/subuid.h"

#define TRY_S 2 /* seconds that one try may take */

/* One try: 0 and what was found, or -1 with errno and what was tried. */
struct found {
	char text[400];
	char next[512];
	const char *dir; /* borrowed: on the file system that layers lie on */
	bool part;	 /* there, but not in full */
	bool not_tried;
};

static int found(struct found *f, const char *text)
{
	snprintf(f->text, sizeof(f->text), "%s", text);
	return 0;
}

static int failed(struct found *f, const char *what)
{
	snprintf(f->text, sizeof(f->text), "%s", what);
	return -1;
}

/* ---- namespaces ---- */

static int write_text(const char *path, const char *text)
{
	int fd AUTO_FD = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
}

/* As agent-jail's helper: root of a user namespace of our own. */
static int enter_userns(struct found *f)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	char map[48];

	if (unshare(CLONE_NEWUSER) < 0)
		return failed(f, "unshare(CLONE_NEWUSER)");
	if (write_text("/proc/self/setgroups", "deny") < 0)
		return failed(f, "/proc/self/setgroups");
	snprintf(map, sizeof(map), "0 %u 1\n", uid);
	if (write_text("/proc/self/uid_map", map) < 0)
		return failed(f, "/proc/self/uid_map");
	snprintf(map, sizeof(map), "0 %u 1\n", gid);
	if (write_text("/proc/self/gid_map", map) < 0)
		return failed(f, "/proc/self/gid_map");
	return 0;
}

/* And with mounts of our own, a tmpfs on /tmp to begin with. */
static int enter_mounts(struct found *f)
{
	if (enter_userns(f) < 0)
		return -1;
	if (unshare(CLONE_NEWNS) < 0)
		return failed(f, "unshare(CLONE_NEWNS)");
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return failed(f, "making mounts private");
	if (mount("none", "/tmp", "tmpfs", 0, "size=1m,nr_inodes=100") < 0)
		return failed(f, "mounting a tmpfs");
	return 0;
}

static int try_userns(struct found *f)
{
	/* Some systems let everybody make one and give no capability in it: so use one. */
	if (enter_mounts(f) < 0)
		return -1;
	return found(f, "can be made, and mounts can be made in them");
}

static int try_namespaces(struct found *f)
{
	static const struct {
		int flag;
		const char *name;
	} kinds[] = {{CLONE_NEWPID, "unshare(CLONE_NEWPID)"},
		     {CLONE_NEWNET, "unshare(CLONE_NEWNET)"},
		     {CLONE_NEWIPC, "unshare(CLONE_NEWIPC)"},
		     {CLONE_NEWUTS, "unshare(CLONE_NEWUTS)"},
		     {CLONE_NEWCGROUP, "unshare(CLONE_NEWCGROUP)"}};
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int sock;

	if (enter_userns(f) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (unshare(kinds[i].flag) < 0)
			return failed(f, kinds[i].name);
	sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (sock < 0 || ioctl(sock, SIOCSIFFLAGS, &lo) < 0)
		return failed(f, "bringing a loopback up");
	return found(f, "pid, net (with its loopback), ipc, uts, cgroup");
}

/* A new proc can be had only where nothing hides parts of the one that is there. */
static int try_proc(struct found *f)
{
	pid_t pid;
	int status;

	if (enter_mounts(f) < 0 || unshare(CLONE_NEWPID) < 0)
		return failed(f, f->text[0] ? f->text : "unshare(CLONE_NEWPID)");
	pid = fork();
	if (pid == 0)
		_exit(mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0
			  ? errno
			  : 0);
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return failed(f, "fork");
	errno = WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
	return errno ? failed(f, "mounting a new proc") : found(f, "a new one can be mounted");
}

static int try_overlay(struct found *f)
{
	static const char *const dirs[] = {"/tmp/lower", "/tmp/upper", "/tmp/work", "/tmp/on"};

	if (enter_mounts(f) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdir(dirs[i], 0700) < 0)
			return failed(f, dirs[i]);
	f->part = true;
	snprintf(f->next, sizeof(f->next),
		 "nothing must be done: layers are copied instead, which takes longer (overlay "
		 "in user namespaces: Linux 5.11, on tmpfs: 6.6)");
	if (setxattr("/tmp/upper", "user.overlay.probe", "y", 1, 0) < 0)
		return found(f, "not on a tmpfs: it has no user attributes here");
	if (mount("overlay", "/tmp/on", "overlay", MS_NOSUID | MS_NODEV,
		  "userxattr,lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work") < 0)
		return found(f, "cannot be mounted in a user namespace");
	f->part = false;
	f->next[0] = '\0';
	return found(f, "in a user namespace, its upper layer on a tmpfs");
}

/* A user namespace whose map has one id, as a descriptor. */
static int mapped_namespace(struct found *f)
{
	int ready[2], ns = -1;
	char path[48], byte;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC) < 0)
		return failed(f, "pipe");
	pid = fork();
	if (pid == 0) {
		if (unshare(CLONE_NEWUSER) == 0 && write(ready[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	close(ready[1]);
	if (pid > 0 && read(ready[0], &byte, 1) == 1) {
		snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
		write_text(path, "1000 2000 1\n");
		snprintf(path, sizeof(path), "/proc/%d/gid_map", (int)pid);
		write_text(path, "1000 2000 1\n");
		snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
		ns = open(path, O_RDONLY | O_CLOEXEC);
	}
	close(ready[0]);
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return ns < 0 ? failed(f, "a user namespace with a map") : ns;
}

static int try_idmapped(struct found *f)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP};
	int tree AUTO_FD = -1, ns AUTO_FD = -1;

	if (geteuid() != 0) {
		f->not_tried = true;
		return found(f, "only a start by root uses them");
	}
	tree = open_tree(AT_FDCWD, f->dir, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0)
		return failed(f, "open_tree");
	ns = mapped_namespace(f);
	if (ns < 0)
		return -1;
	attr.userns_fd = (uint64_t)ns;
	if (mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0) {
		f->part = true;
		snprintf(f->next, sizeof(f->next),
			 "nothing must be done: layers are copied instead, which takes longer");
		return found(f, "not on the file system of the state directory");
	}
	return found(f, "layers are shown as the payload's own");
}

/* ---- what a process does to itself ---- */

struct ruleset_attr {
	uint64_t fs, net, scoped;
};

static unsigned rights(size_t field, unsigned bits)
{
	unsigned count = 0;

	for (unsigned i = 0; i < bits; i++) {
		struct ruleset_attr attr = {0, 0, 0};
		int fd;

		((uint64_t *)&attr)[field] = 1ULL << i;
		fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
		if (fd >= 0) {
			close(fd);
			count++;
		}
	}
	return count;
}

static int try_landlock(struct found *f)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1);
	unsigned fs = 0;

	if (abi < 1)
		return failed(f, "landlock_create_ruleset");
	if (abi < 4) { /* smaller attributes: each right by itself */
		for (unsigned i = 0; i < 16; i++) {
			uint64_t right = 1ULL << i;
			int fd =
			    (int)syscall(SYS_landlock_create_ruleset, &right, sizeof(right), 0);

			fs += fd >= 0;
			if (fd >= 0)
				close(fd);
		}
	} else {
		fs = rights(0, 16);
	}
	f->part = abi < 6;
	if (f->part)
		snprintf(f->next, sizeof(f->next),
			 "nothing must be done: namespaces and seccomp hold what the missing "
			 "rights would (ABI 6: Linux 6.12)");
	snprintf(f->text, sizeof(f->text),
		 "ABI %ld: %u of 16 rights on files, %u of 2 on TCP, %u of 2 scopes", abi, fs,
		 abi >= 4 ? rights(1, 2) : 0, abi >= 6 ? rights(2, 2) : 0);
	return 0;
}

static int try_seccomp(struct found *f)
{
	struct sock_filter code[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
	struct sock_fprog program = {1, code};
	static const struct {
		uint32_t action;
		const char *name;
	} actions[] = {{SECCOMP_RET_KILL_PROCESS, "kill"},
		       {SECCOMP_RET_ERRNO, "errno"},
		       {SECCOMP_RET_USER_NOTIF, "observe"}};
	size_t used = 0;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return failed(f, "PR_SET_NO_NEW_PRIVS");
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
		return failed(f, "a filter cannot be installed");
	used = (size_t)snprintf(f->text, sizeof(f->text), "filters, with");
	for (size_t i = 0; i < ARRAY_LEN(actions); i++)
		if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &actions[i].action) == 0)
			used += (size_t)snprintf(f->text + used, sizeof(f->text) - used, " %s",
						 actions[i].name);
	return 0;
}

static int try_keyring(struct found *f)
{
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) >= 0)
		return found(f, "a new session keyring can be joined");
	if (errno != ENOSYS)
		return failed(f, "joining a new session keyring");
	return found(f,
		     "this kernel has no keyrings, or they are hidden: nothing to keep apart");
}

static int try_pidfd(struct found *f)
{
	int fd = pidfd_open(getpid(), 0);

	if (fd < 0 || pidfd_send_signal(fd, 0, NULL, 0) < 0)
		return failed(f, "pidfd_open");
	return found(f, "processes are waited for and signalled by descriptor");
}

/* ---- the rest ---- */

static int try_kernel(struct found *f)
{
	struct utsname name;

	if (uname(&name) < 0)
		return failed(f, "uname");
	snprintf(f->text, sizeof(f->text), "%s %s on %s", name.sysname, name.release,
		 name.machine);
	return 0;
}

/* With the very code of agent-jail. */
static int try_cgroup(struct found *f)
{
	struct jail_run run;
	int result;

	run_init(&run);
	jail_spec_init(&run.spec);
	run.spec.limits.degraded_ok = false;
	result = cgroup_find(&run);
	if (result == 0)
		result = cgroup_make(&run);
	if (result == 0)
		snprintf(f->text, sizeof(f->text),
			 "%s: memory and processes of a jail can be limited",
			 cgroup_text(&run));
	else
		failed(f, run.failure.what);
	if (result < 0)
		step_remedy(&run.failure, f->next, sizeof(f->next));
	cgroup_close(&run);
	errno = run.failure.err;
	return result;
}

static int try_ids(struct found *f)
{
	const char *why, *next;
	struct subuid ids;

	if (geteuid() == 0)
		return found(f,
			     "started by root: each payload has a uid that nothing else uses");
	if (subuid_find(&ids, &why, &next)) {
		snprintf(f->text, sizeof(f->text),
			 "started by a user with a range: each payload has one of the uids %lu "
			 "to %lu (uid=subuid)",
			 ids.uids.first + ids.uids.count / 2,
			 ids.uids.first + ids.uids.count - 1);
		return 0;
	}
	f->part = true;
	snprintf(
	    f->next, sizeof(f->next),
	    "nothing must be done when you start it by hand; for a service or a hook start it "
	    "as root, or %s",
	    next);
	snprintf(f->text, sizeof(f->text),
		 "started by a user: the payload has that user's uid (uid=shared): %s", why);
	return 0;
}

/* For those who say jail.scratch = disk: its absence is no defect. It goes with us. */
static int try_disk(struct found *f)
{
	struct jail_run run;

	if (geteuid() != 0) {
		f->not_tried = true;
		return found(f, "only a start by root has it (jail.scratch = disk)");
	}
	run_init(&run);
	jail_spec_init(&run.spec);
	run.spec.on_disk = true;
	run.spec.store = mem_strdup(f->dir);
	run.spec.limits.disk_bytes = 16 << 20;
	run.spec.limits.inodes = 1000;
	if (disk_open(&run) == 0) {
		jail_spec_release(&run.spec);
		return found(f,
			     "an ext4 in a file there, by a loop device (jail.scratch = disk)");
	}
	f->part = true;
	snprintf(f->text, sizeof(f->text), "jail.scratch = disk cannot be had: %.300s%s%s",
		 run.failure.what, run.failure.err ? ": " : "",
		 run.failure.err ? strerror(run.failure.err) : "");
	step_remedy(&run.failure, f->next, sizeof(f->next));
	jail_spec_release(&run.spec);
	return 0;
}

/* ---- all ---- */

#define TRIES(TRY)                                                                             \
	TRY("kernel", kernel, start)                                                           \
	TRY("user namespaces", userns, userns)                                                 \
	TRY("other namespaces", namespaces, netns)                                             \
	TRY("proc", proc, proc)                                                                \
	TRY("overlay", overlay, userns)                                                        \
	TRY("landlock", landlock, landlock)                                                    \
	TRY("seccomp", seccomp, seccomp)                                                       \
	TRY("keyring", keyring, keyring)                                                       \
	TRY("pidfd", pidfd, start)                                                             \
	TRY("control group", cgroup, cgroup)                                                   \
	TRY("uids", ids, uid)                                                                  \
	TRY("idmapped mounts", idmapped, userns)                                               \
	TRY("scratch on disk", disk, disk)

static void tell(const char *name, int result, struct found *f, enum jail_step step, int err)
{
	struct jail_failure failure = {.step = step, .err = err};

	if (result < 0 && !f->next[0])
		step_remedy(&failure, f->next, sizeof(f->next));
	printf("%s\t%s\t%s%s%s\t%s\n", name,
	       result < 0     ? "no"
	       : f->not_tried ? "not tried"
	       : f->part      ? "part"
			      : "yes",
	       f->text, result < 0 && err ? ": " : "", result < 0 && err ? strerror(err) : "",
	       f->next);
	fflush(stdout);
}

/* In a child, which the try may change as it likes. */
static int try_one(const char *name, int (*go)(struct found *), const char *dir,
		   enum jail_step step)
{
	struct found f = {.dir = dir};
	int status, result;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(TRY_S);
		errno = 0;
		result = go(&f);
		tell(name, result, &f, step, errno);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return 1;
	if (!WIFEXITED(status)) {
		snprintf(f.text, sizeof(f.text), "the try was ended by signal %d%s",
			 WTERMSIG(status),
			 WTERMSIG(status) == SIGSYS ? ": a seccomp filter kills it" : "");
		tell(name, -1, &f, step, EPERM);
	}
	return 0;
}

int machine_try(const char *dir)
{
	int result = 0;

#define ONE(name, function, step) result |= try_one(name, try_##function, dir, STEP_##step);
	TRIES(ONE)
#undef ONE
	return result;
}
