#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "sandbox/own_group.h"

#define STEP_TEXT(name) #name,
static const char *const names[STEP_COUNT] = {JAIL_STEPS(STEP_TEXT, STEP_TEXT)};
#undef STEP_TEXT

#define NOT_A_LAYER(name) false,
#define A_LAYER(name) true,
static const bool is_layer[STEP_COUNT] = {JAIL_STEPS(NOT_A_LAYER, A_LAYER)};
#undef NOT_A_LAYER
#undef A_LAYER

_Static_assert(STEP_COUNT <= 64, "jail_run.done has a bit a step");

void run_init(struct jail_run *run)
{
	memset(run, 0, sizeof(*run));
	for (size_t i = 0; i < ARRAY_LEN(run->cgroup.dirs); i++)
		run->cgroup.dirs[i] = run->cgroup.parents[i] = run->cgroup.attach[i] = -1;
	for (size_t i = 0; i < IDS_PLACES; i++)
		run->ids[i] = -1;
	run->cgroup.ctl = -1;
	run->applied_file = run->runtime = run->self = run->said = -1;
	run->work_give = -1;
	run->disk = run->disk_root = -1;
	run->work_tree = run->payload_sock = run->helper_sock = run->net_sock = run->map_ns =
	    run->root_sock = run->listener = -1;
}

const char *step_name(enum jail_step step)
{
	return (unsigned)step < STEP_COUNT ? names[step] : "?";
}

int step_enter(struct jail_run *run, enum jail_step step)
{
	run->step = step;
#ifdef AGENT_FAULTS
	if (run->fault && strcmp(run->fault, names[step]) == 0) {
		errno = EIO;
		return -1;
	}
#endif
	return 0;
}

int step_fail(struct jail_run *run, const char *format, ...)
{
	int saved = errno;
	va_list args;

	if (run->failure.what[0])
		return -1;
	run->failure.step = run->step;
	run->failure.err = saved;
	va_start(args, format);
	vsnprintf(run->failure.what, sizeof(run->failure.what), format, args);
	va_end(args);
	return -1;
}

void step_done(struct jail_run *run)
{
	run->done |= 1ULL << run->step;
}

void step_layers(const struct jail_run *run, char *out, size_t size)
{
	size_t used = 0;

	out[0] = '\0';
	for (unsigned i = 0; i < STEP_COUNT; i++) {
		if (!is_layer[i] || !(run->done & 1ULL << i))
			continue;
		used += (size_t)snprintf(out + used, size - used, "%s%s", used ? " " : "",
					 names[i]);
		if (used >= size)
			return;
	}
}

/* ---- remedies ---- */

/* The number in a file of /proc/sys; -1 when there is none. */
static long sysctl_number(const char *path)
{
	char text[32];
	int fd AUTO_FD = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	long value;

	if (len <= 0)
		return -1;
	text[len] = '\0';
	return sscanf(text, "%ld", &value) == 1 ? value : -1;
}

/* The setting that limits the namespaces of a step; NULL for steps that make none. */
static const char *namespace_knob(enum jail_step step)
{
	switch ((int)step) {
	case STEP_userns:
		return "max_user_namespaces";
	case STEP_mountns:
		return "max_mnt_namespaces";
	case STEP_pidns:
		return "max_pid_namespaces";
	case STEP_netns:
		return "max_net_namespaces";
	case STEP_ipcns:
		return "max_ipc_namespaces";
	case STEP_utsns:
		return "max_uts_namespaces";
	case STEP_cgroupns:
		return "max_cgroup_namespaces";
	default:
		return NULL;
	}
}

/* Root's jails are denied with everybody's: their payload is nobody's root. */
static const char *denied_to_users(void)
{
	if (sysctl_number("/proc/sys/kernel/unprivileged_userns_clone") == 0)
		return "allow user namespaces: sysctl -w kernel.unprivileged_userns_clone=1";
	if (sysctl_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1)
		return "AppArmor keeps unprivileged user namespaces from working: install an "
		       "AppArmor profile "
		       "with \"userns,\" for agent-jail (it ships with the package)";
	return NULL;
}

static void namespace_remedy(const struct jail_failure *failure, char *out, size_t size)
{
	const char *knob = namespace_knob(failure->step), *text = "";
	char path[96];

	snprintf(path, sizeof(path), "/proc/sys/user/%s", knob ? knob : "");
	if (knob && sysctl_number(path) == 0) {
		snprintf(out, size, "allow these namespaces: sysctl -w user.%s=15000", knob);
		return;
	}
	if (strcmp(failure->what, "host name") == 0 && failure->err == EPERM)
		text = "a systemd unit with ProtectHostname= forbids it, in a namespace of its "
		       "own, too: take that out of the unit; inside a container: run it with a "
		       "seccomp profile that allows sethostname";
	else if (denied_to_users())
		text = denied_to_users();
	else if (failure->err == ENOSPC || failure->err == EUSERS)
		text = "a limit on namespaces is reached: see sysctl user.max_*_namespaces, "
		       "and the nesting "
		       "of namespaces that this was started in";
	else if (failure->err == EPERM || failure->err == EACCES)
		text = "inside a container: its seccomp or AppArmor profile denies namespaces "
		       "and mounts; run "
		       "it with a profile that allows them, or outside of a container; in a "
		       "systemd unit: without RestrictNamespaces=";
	else if (failure->err == EINVAL || failure->err == ENOSYS)
		text = "this kernel lacks that kind of namespace (CONFIG_USER_NS, "
		       "CONFIG_PID_NS, CONFIG_NET_NS …)";
	snprintf(out, size, "%s", text);
}

static const char *runtime_remedy(const struct jail_failure *failure)
{
	if (failure->step == STEP_gvisor)
		return "see what runsc says when it is run by hand (Debian 12's release is "
		       "known "
		       "to work), or choose jail.backend = native";
	if (failure->err == ENOENT)
		return "install runsc (Debian, Ubuntu: apt-get install runsc), name it with "
		       "jail.runsc = PATH, or choose jail.backend = native";
	return "mend it, or name another with jail.runsc = PATH";
}

static const char *mount_remedy(int err)
{
	switch (err) {
	case ENOENT:
		return "make it, or take it out of the list of mounts ([jail] path)";
	case ELOOP:
		return "name it by its real path: no symbolic link is followed there";
	case EINVAL:
		return "its file system cannot be shown under other ids (a tmpfs before "
		       "Linux 6.3, a network file system): use one on ext4, xfs or btrfs";
	default:
		return "";
	}
}

static const char *proc_remedy(int err)
{
	return err == EPERM
		   ? "parts of /proc are masked here (a container does that): run with "
		     "an unmasked /proc (podman: --security-opt unmask=ALL), or outside "
		     "of a container"
		   : "";
}

static const char *disk_remedy(const struct jail_failure *failure)
{
	if (failure->err == ENOSPC)
		return "make room there, or lower jail.disk: all of it is reserved before the "
		       "command starts";
	if (failure->err == EOPNOTSUPP)
		return "have the state directory on ext4, xfs or btrfs, or say jail.scratch = "
		       "memory";
	if (geteuid() == 0 && strstr(failure->what, "mke2fs is not"))
		return "install it (Debian, Ubuntu: apt-get install e2fsprogs), or say "
		       "jail.scratch = memory";
	if (geteuid() == 0 && strstr(failure->what, "in memory"))
		return "have the state directory on a disk, or say jail.scratch = memory";
	if (geteuid() != 0)
		return "start it as root (agent-worker.service), or say jail.scratch = memory";
	return "it needs a kernel with loop devices and ext4 (modprobe loop ext4), and outside "
	       "of a container or "
	       "one that may use them; or say jail.scratch = memory";
}

static const char *observe_remedy(int err)
{
	if (err == EBUSY)
		return "what started this watches system calls itself, as some container "
		       "managers do: "
		       "say observe = off in the operator's configuration";
	return "the kernel must be 5.5 or newer to observe: or say observe = off in the "
	       "operator's "
	       "configuration";
}

static const char *uid_remedy(enum jail_step step)
{
	if (step == STEP_identity)
		return "start it as root, or as a user with a range of subordinate ids "
		       "(/etc/subuid, /etc/subgid) and the package uidmap, and without "
		       "jail.uid = shared: then the command gets one that nothing else has";
	return "see that /etc/subuid and /etc/subgid give the user ranges that nobody else "
	       "has, "
	       "and that newuidmap and newgidmap are set-uid root; or go on without: "
	       "jail.uid = shared";
}

#define OR_WEAKER                                                                              \
	"; or go on with weaker limits: --limits degraded-ok, or [jail] limits = degraded-ok"

static const char *group_remedy(void)
{
	struct own_group_tables tables AUTO_TABLES = OWN_GROUP_TABLES_NONE;

	/* systemd delegates nothing of version 1 */
	if (own_group_is_v1(&tables) > 0)
		return "start it as root, or in groups that root gives you (cgcreate -a "
		       "USER:GROUP -t USER:GROUP -g memory,pids:NAME, then cgexec -g "
		       "memory,pids:NAME agent "
		       "…)" OR_WEAKER;
	return "start it where cgroups are delegated (systemd-run --user --scope -p "
	       "Delegate=yes agent …), or as root" OR_WEAKER;
}

/* From where the scratch is mounted to where the command's root is whole, all that is made lies in it. */
static bool is_scratch_full(const struct jail_failure *failure)
{
	return failure->err == ENOSPC && failure->step >= STEP_root &&
	       failure->step < STEP_pivot;
}

static void remedy_of_step(const struct jail_failure *failure, char *out, size_t size)
{
	const char *text = "";

	switch ((int)failure->step) {
	case STEP_userns:
	case STEP_mountns:
	case STEP_pidns:
	case STEP_netns:
	case STEP_ipcns:
	case STEP_utsns:
	case STEP_cgroupns:
	case STEP_loopback:
	case STEP_staging:
	case STEP_root:
	case STEP_dev:
	case STEP_ids:
	case STEP_pivot:
		namespace_remedy(failure, out, size);
		return;
	case STEP_cgroup:
		text = group_remedy();
		break;
	case STEP_runtime:
	case STEP_gvisor:
		text = runtime_remedy(failure);
		break;
	case STEP_proc:
		text = proc_remedy(failure->err);
		break;
	case STEP_landlock:
		text = "the kernel must be 5.13 or newer with Landlock on: boot with "
		       "lsm=landlock,… "
		       "(see /sys/kernel/security/lsm)";
		break;
	case STEP_identity:
	case STEP_subuid:
		text = uid_remedy(failure->step);
		break;
	case STEP_image:
	case STEP_disk:
		text = disk_remedy(failure);
		break;
	case STEP_observe:
		text = observe_remedy(failure->err);
		break;
	case STEP_seccomp:
		text = "the kernel needs CONFIG_SECCOMP_FILTER";
		break;
	case STEP_sources:
	case STEP_mounts:
		if (failure->err == EPERM && geteuid() == 0) {
			namespace_remedy(failure, out, size);
			return;
		}
		text = mount_remedy(failure->err);
		break;
	default:
		break;
	}
	snprintf(out, size, "%s", text);
}

void step_remedy(const struct jail_failure *failure, char *out, size_t size)
{
	if (is_scratch_full(failure))
		snprintf(
		    out, size,
		    "the jail's own files have no room in its scratch: raise jail.inodes "
		    "and jail.disk; else a limit on mounts is reached: sysctl fs.mount-max");
	else
		remedy_of_step(failure, out, size);
}

/* ---- packets ---- */

int packet_send(int sock, const struct jail_packet *packet, int fd)
{
	struct jail_packet copy = *packet;
	struct iovec part = {&copy, sizeof(copy)};
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1};
	ssize_t n;

	if (fd >= 0) {
		memset(&control, 0, sizeof(control));
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(int));
	}
	do
		n = sendmsg(sock, &msg, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -1 : 0;
}

int packet_receive(int sock, struct jail_packet *packet, int *fd)
{
	struct iovec part = {packet, sizeof(*packet)};
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1};
	struct cmsghdr *head;
	ssize_t n;

	if (fd) {
		*fd = -1;
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
	}
	/* A peer that ended without reading all is told first, once, and what it had sent comes
	 * behind. */
	do
		n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	if (n <= 0)
		return (int)n;
	head = fd ? CMSG_FIRSTHDR(&msg) : NULL;
	if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
	    head->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(fd, CMSG_DATA(head), sizeof(int));
	if ((size_t)n != sizeof(*packet)) {
		errno = EPROTO;
		return -1;
	}
	packet->failure.what[sizeof(packet->failure.what) - 1] = '\0';
	packet->work[sizeof(packet->work) - 1] = '\0';
	packet->note[sizeof(packet->note) - 1] = '\0';
	return 1;
}
