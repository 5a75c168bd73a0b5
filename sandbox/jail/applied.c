#include "applied.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "sandbox/jail/calls.h"
#include "sandbox/jail/cgroup.h"
#include "sandbox/jail/resolver.h"
#include "sandbox/jail/run.h"
#include "sandbox/jail_applied.h"

struct jail_applied {
	uint32_t len;
	bool cut;
	char records[JAIL_APPLIED_MAX];
};

int applied_open(struct jail_run *run)
{
	void *memory;

	if (!run->spec.audit)
		return 0;
	run->applied_file = memfd_create("applied", MFD_CLOEXEC);
	if (run->applied_file < 0 || ftruncate(run->applied_file, sizeof(*run->applied)) < 0)
		return step_fail(run, "memory for the audit");
	memory = mmap(NULL, sizeof(*run->applied), PROT_READ | PROT_WRITE, MAP_SHARED,
		      run->applied_file, 0);
	if (memory == MAP_FAILED)
		return step_fail(run, "memory for the audit");
	run->applied = memory;
	return 0;
}

int applied_open_inside(struct jail_run *run)
{
	ssize_t n;

	run->applied = mem_calloc(1, sizeof(*run->applied));
	n = pread(run->applied_file, run->applied, sizeof(*run->applied), 0);
	return n == (ssize_t)sizeof(*run->applied) &&
		       run->applied->len <= sizeof(run->applied->records)
		   ? 0
		   : step_fail(run, "the records so far cannot be read");
}

/* Only where the memory is not shared already does this change it. */
static int put_into_file(struct jail_run *run)
{
	ssize_t n = pwrite(run->applied_file, run->applied, sizeof(*run->applied), 0);

	return n == (ssize_t)sizeof(*run->applied) ? 0 : -1;
}

void applied_add(struct jail_run *run, const char *format, ...)
{
	static const char key[] = "applied=";
	struct jail_applied *applied = run->applied;
	size_t room;
	uint32_t len;
	va_list args;
	char *at;
	int n;

	if (!applied)
		return;
	/* once: in outer, a sandbox that was broken out of could write it */
	len = __atomic_load_n(&applied->len, __ATOMIC_RELAXED);
	at = applied->records + len;
	room = len < sizeof(applied->records) ? sizeof(applied->records) - len : 0;
	if (room < sizeof(key)) {
		applied->cut = true;
		return;
	}
	memcpy(at, key, sizeof(key) - 1);
	va_start(args, format);
	n = vsnprintf(at + sizeof(key) - 1, room - (sizeof(key) - 1), format, args);
	va_end(args);
	if (n < 0 || (size_t)n + sizeof(key) > room)
		applied->cut = true;
	else
		applied->len = len + (uint32_t)(sizeof(key) + (size_t)n); /* with its NUL */
}

/* ---- what the kernel says of this process ---- */

/* Each line of a file of /proc, with the kind in front. filter: only what begins so; NULL: all. */
static int add_lines(struct jail_run *run, const char *path, const char *kind,
		     const char *const *filter)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	int fd AUTO_FD = open(path, O_RDONLY | O_CLOEXEC);

	strbuf_init(&text, (size_t)1 << 20);
	if (fd < 0 || fd_read_all(fd, &text) < 0)
		return -1;
	for (const char *line = text.data; *line;) {
		size_t len = strcspn(line, "\n");
		bool wanted = !filter;

		for (size_t i = 0; filter && filter[i]; i++)
			wanted |= strncmp(line, filter[i], strlen(filter[i])) == 0;
		if (wanted)
			applied_add(run, "%s %.*s", kind, (int)len, line);
		line += len + (line[len] == '\n');
	}
	return 0;
}

static int add_ids(struct jail_run *run, const char *where)
{
	static const char *const lines[] = {
	    "Umask:",  "Uid:",	  "Gid:",    "Groups:",	    "CapInh:",	"CapPrm:",
	    "CapEff:", "CapBnd:", "CapAmb:", "NoNewPrivs:", "Seccomp:", "Seccomp_filters:",
	    NULL};
	const char *const files[][2] = {{"uid_map", "map uid"}, {"gid_map", "map gid"}};
	int bits = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);
	char kind[32], path[32];

	if (bits >= 0) /* gVisor has none */
		applied_add(run, "%ssecurebits %x", where, (unsigned)bits);
	snprintf(kind, sizeof(kind), "%sstatus", where);
	if (add_lines(run, "/proc/self/status", kind, lines) < 0)
		return -1;
	if (run->spec.backend == JAIL_GVISOR && !*where) { /* whose status lacks these */
		mode_t mask = umask(0);

		umask(mask);
		applied_add(run, "status Umask:\t%04o", (unsigned)mask);
		applied_add(run, "status NoNewPrivs:\t%d",
			    prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	}
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		snprintf(path, sizeof(path), "/proc/self/%s", files[i][0]);
		snprintf(kind, sizeof(kind), "%s%s", where, files[i][1]);
		if (add_lines(run, path, kind, NULL) < 0)
			return -1;
	}
	return 0;
}

static const char *access_text(int flags)
{
	return (flags & O_PATH)			 ? "path"
	       : (flags & O_ACCMODE) == O_RDONLY ? "r"
	       : (flags & O_ACCMODE) == O_WRONLY ? "w"
						 : "rw";
}

/* Those that the command will have: not what closes at exec. */
static int add_descriptors(struct jail_run *run, const char *where)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;

	if (!dir)
		return -1;
	while ((entry = readdir(dir))) {
		char target[PATH_MAX];
		int fd = (int)strtol(entry->d_name, NULL, 10);
		ssize_t len;

		if (entry->d_name[0] == '.' || fcntl(fd, F_GETFD) & FD_CLOEXEC)
			continue;
		len = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
		if (len < 0)
			break;
		applied_add(run, "%sfd %d %s %.*s", where, fd, access_text(fcntl(fd, F_GETFL)),
			    (int)len, target);
	}
	closedir(dir);
	return entry ? -1 : 0;
}

/* What of a directory of /dev is a device, or a link. */
static int add_devices(struct jail_run *run, const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	char target[PATH_MAX];
	struct stat st;
	int result = 0;

	if (!dir)
		return -1;
	while (result == 0 && (entry = readdir(dir))) {
		ssize_t len;

		if (entry->d_name[0] == '.' || entry->d_type == DT_DIR)
			continue;
		result = fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW);
		if (result == 0 && S_ISLNK(st.st_mode)) {
			len = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target));
			applied_add(run, "link %s/%s %.*s", path, entry->d_name,
				    len < 0 ? 0 : (int)len, target);
		} else if (result == 0 && (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode))) {
			applied_add(run, "device %s/%s %c %u:%u %o", path, entry->d_name,
				    S_ISCHR(st.st_mode) ? 'c' : 'b', major(st.st_rdev),
				    minor(st.st_rdev), (unsigned)st.st_mode & 07777);
		}
	}
	closedir(dir);
	return result;
}

static int add_namespaces(struct jail_run *run, const char *where)
{
	static const char *const names[] = {"cgroup", "ipc",  "mnt",  "net",
					    "pid",    "time", "user", "uts"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char path[40], id[64];
		ssize_t len;

		snprintf(path, sizeof(path), "/proc/self/ns/%s", names[i]);
		len = readlink(path, id, sizeof(id));
		if (len < 0 && errno != ENOENT) /* a kernel without that kind */
			return -1;
		if (len > 0)
			applied_add(run, "%sns %s %.*s", where, names[i], (int)len, id);
	}
	return 0;
}

/* Whether somebody listens there: then we cannot. */
static int add_listener(struct jail_run *run, const char *text, uint16_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	int sock AUTO_FD = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (sock < 0 || inet_pton(AF_INET, text, &address.sin_addr) != 1)
		return -1;
	if (bind(sock, (struct sockaddr *)&address, sizeof(address)) < 0 && errno == EADDRINUSE)
		applied_add(run, "listen %s:%d", text, port);
	return 0;
}

/* The interfaces, and whether the warm's proxy and the resolver listen: nobody else has been here to listen. */
static int add_network(struct jail_run *run)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	int fd AUTO_FD = open("/proc/self/net/dev", O_RDONLY | O_CLOEXEC);
	const char *line;

	strbuf_init(&text, (size_t)1 << 16);
	if (fd < 0 || fd_read_all(fd, &text) < 0)
		return -1;
	for (line = text.data; (line = strchr(line, '\n'));) {
		size_t len;

		line += 1 + strspn(line + 1, " ");
		len = strcspn(line, ":\n|");
		if (line[len] == ':')
			applied_add(run, "interface %.*s", (int)len, line);
	}
	if (run->spec.egress && add_listener(run, "127.0.0.1", JAIL_PROXY_PORT) < 0)
		return -1;
	return run->spec.observe ? add_listener(run, RESOLVER_ADDRESS, 53) : 0;
}

static void limit_text(char text[32], rlim_t value)
{
	if (value == RLIM_INFINITY)
		snprintf(text, 32, "unlimited");
	else
		snprintf(text, 32, "%llu", (unsigned long long)value);
}

static int add_limits(struct jail_run *run, const char *where)
{
	static const char *const names[RLIM_NLIMITS] = {
	    [RLIMIT_CPU] = "cpu",	    [RLIMIT_FSIZE] = "fsize",
	    [RLIMIT_DATA] = "data",	    [RLIMIT_STACK] = "stack",
	    [RLIMIT_CORE] = "core",	    [RLIMIT_RSS] = "rss",
	    [RLIMIT_NPROC] = "nproc",	    [RLIMIT_NOFILE] = "nofile",
	    [RLIMIT_MEMLOCK] = "memlock",   [RLIMIT_AS] = "as",
	    [RLIMIT_LOCKS] = "locks",	    [RLIMIT_SIGPENDING] = "sigpending",
	    [RLIMIT_MSGQUEUE] = "msgqueue", [RLIMIT_NICE] = "nice",
	    [RLIMIT_RTPRIO] = "rtprio",	    [RLIMIT_RTTIME] = "rttime"};

	for (int i = 0; i < RLIM_NLIMITS; i++) {
		struct rlimit limit;
		char soft[32], hard[32];

		if (getrlimit((__rlimit_resource_t)i, &limit) < 0)
			return -1;
		limit_text(soft, limit.rlim_cur);
		limit_text(hard, limit.rlim_max);
		applied_add(run, "%slimit %s %s %s", where, names[i] ? names[i] : "?", soft,
			    hard);
	}
	return 0;
}

int applied_collect(struct jail_run *run)
{
	if (!run->applied)
		return 0;
	for (char *const *arg = run->spec.argv; *arg; arg++)
		applied_add(run, "arg %s", *arg);
	applied_add(run, "cwd %s", run->spec.cwd);
	for (char *const *env = run->spec.env; env && *env; env++)
		applied_add(run, "env %s", *env);
	if (add_lines(run, "/proc/self/mountinfo", "mount", NULL) < 0 ||
	    add_descriptors(run, "") < 0 || add_devices(run, "/dev") < 0 ||
	    add_devices(run, "/dev/pts") < 0 || add_ids(run, "") < 0 ||
	    add_namespaces(run, "") < 0 || add_network(run) < 0 || add_limits(run, "") < 0 ||
	    (run->spec.backend == JAIL_GVISOR && put_into_file(run) < 0))
		return step_fail(run, "what was applied cannot be read back");
	return 0;
}

int applied_collect_host(struct jail_run *run, const char *const *argv)
{
	static const char where[] = JAIL_APPLIED_HOST " ";

	if (!run->applied)
		return 0;
	for (; *argv; argv++)
		applied_add(run, "%sarg %s", where, *argv);
	if (add_lines(run, "/proc/self/mountinfo", JAIL_APPLIED_HOST " mount", NULL) < 0 ||
	    add_descriptors(run, where) < 0 || add_ids(run, where) < 0 ||
	    add_namespaces(run, where) < 0 || add_limits(run, where) < 0)
		return step_fail(run, "what was applied cannot be read back");
	return 0;
}

/* ---- outer ---- */

/* Nobody is trusted here any more who has run in between: lengths are looked at once, in a copy. */
void applied_take(struct jail_run *run, struct strbuf *out)
{
	struct jail_applied *applied = run->applied;
	uint32_t len;

	if (!applied)
		return;
	applied_add(run, "backend %s", jail_backend_text(run->spec.backend));
	applied_add(run, "scratch %s", jail_scratch_text(run->spec.on_disk));
	applied_add(run, "outside %u %u", (unsigned)run->uid, (unsigned)run->gid);
	cgroup_apply_records(run);
	if (applied->cut) {
		/* where the last whole record ended there may be no room for this one */
		static const char cut[] = "applied=cut ";

		strbuf_add(out, cut, sizeof(cut));
	}
	len = __atomic_load_n(&applied->len, __ATOMIC_RELAXED);
	strbuf_add(out, applied->records,
		   len < sizeof(applied->records) ? len : sizeof(applied->records));
	munmap(applied, sizeof(*applied));
	run->applied = NULL;
}
