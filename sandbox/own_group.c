#include "own_group.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

#define CGROUP1_MAGIC 0x27e0eb
#define CGROUP2_MAGIC 0x63677270
#define FILE_MAX_BYTES (1 << 20)
#define FOREIGN_OLD_S 86400

/* ---- small files ---- */

int own_group_read(int dir, const char *name, struct strbuf *out)
{
	int fd AUTO_FD = openat(dir, name, O_RDONLY | O_CLOEXEC);

	strbuf_init(out, FILE_MAX_BYTES);
	return fd < 0 ? -1 : fd_read_all(fd, out);
}

int own_group_write(int dir, const char *name, const char *text)
{
	int fd AUTO_FD = openat(dir, name, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	return write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
}

bool own_group_has_word(const char *text, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = text; (at = strstr(at, word)); at += len)
		if ((at == text || isspace((unsigned char)at[-1])) &&
		    (!at[len] || isspace((unsigned char)at[len])))
			return true;
	return false;
}

/* ---- where we are ---- */

/*
 * Our group in the hierarchy of a controller (NULL: v2) as a path below its mount, from
 * /proc/self/cgroup: "N:controllers:/path" lines (cgroups(7)). A new string, NULL when there is
 * no such hierarchy.
 */
static char *own_path(const char *table, const char *controller)
{
	for (const char *line = table; *line;) {
		const char *end = strchrnul(line, '\n');
		const char *list = memchr(line, ':', (size_t)(end - line));
		const char *path =
		    list ? memchr(list + 1, ':', (size_t)(end - list - 1)) : NULL;

		if (path) {
			char *names AUTO_FREE =
			    mem_strndup(list + 1, (size_t)(path - list - 1));

			for (char *p = names; *p; p++)
				*p = *p == ',' ? ' ' : *p;
			if (controller ? own_group_has_word(names, controller) : !names[0])
				return mem_strndup(path + 1, (size_t)(end - path - 1));
		}
		line = *end ? end + 1 : end;
	}
	return NULL;
}

/* The blank-separated field of a line, counted from 0; a new string, NULL when there are fewer.
 */
static char *field_of(const char *line, unsigned index)
{
	for (;; index--) {
		size_t len = strcspn(line, " \n");

		if (!len)
			return NULL;
		if (!index)
			return mem_strndup(line, len);
		line += len;
		line += *line == ' ';
	}
}

/*
 * The mount of a hierarchy in /proc/self/mountinfo (proc(5)): file system type "cgroup" with
 * the controller in its options, or "cgroup2". Gives the mount point and the root of the mount
 * inside the hierarchy.
 */
static char *find_mount(const char *table, const char *controller, char **root)
{
	for (const char *line = table; *line;) {
		const char *end = strchrnul(line, '\n');
		char *copy AUTO_FREE = mem_strndup(line, (size_t)(end - line));
		char *dash = strstr(copy, " - ");

		line = *end ? end + 1 : end;
		if (!dash)
			continue;
		*dash = '\0';
		dash += 3;
		for (char *p = dash; controller && *p; p++)
			*p = *p == ',' ? ' ' : *p;
		if (strncmp(dash, controller ? "cgroup " : "cgroup2 ", controller ? 7 : 8) !=
			0 ||
		    (controller && !own_group_has_word(dash + 7, controller)))
			continue;
		*root = field_of(copy, 3);
		return *root ? field_of(copy, 4) : NULL;
	}
	return NULL;
}

/* Opens the group of this path: in a container the mount may show a part of the hierarchy only. */
static int open_path(const char *point, const char *root, const char *path)
{
	char *full AUTO_FREE = NULL;
	size_t len = strlen(root);

	if (strcmp(root, "/") != 0 && strncmp(path, root, len) == 0 &&
	    (!path[len] || path[len] == '/'))
		path += len;
	full = mem_printf("%s/%s", point, path);
	return open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/*
 * The same where the hierarchies are mounted as nearly everywhere: without a look at the table of mounts, which is
 * long. In a container, whose mount shows a part only, our path is not below it.
 */
static int open_usual(const char *controller, const char *path)
{
	char *full AUTO_FREE = mem_printf("/sys/fs/cgroup/%s%s", controller, path);
	int fd AUTO_FD = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct statfs fs;

	return fd >= 0 && fstatfs(fd, &fs) == 0 && fs.f_type == CGROUP1_MAGIC ? fd_steal(&fd)
									      : -1;
}

void own_group_tables_release(struct own_group_tables *tables)
{
	strbuf_release(&tables->groups);
	strbuf_release(&tables->mounts);
}

static int need(struct strbuf *table, const char *path)
{
	return table->data ? 0 : own_group_read(AT_FDCWD, path, table);
}

int own_group_is_in(struct own_group_tables *tables, const char *controller)
{
	char *path AUTO_FREE = NULL;

	if (need(&tables->groups, "/proc/self/cgroup") < 0)
		return -1;
	path = own_path(tables->groups.data, controller);
	return path != NULL;
}

int own_group_is_v1(struct own_group_tables *tables)
{
	int memory = own_group_is_in(tables, "memory");

	return memory > 0 ? own_group_is_in(tables, "pids") : memory;
}

int own_group_open(struct own_group_tables *tables, const char *controller, char **path)
{
	char *root AUTO_FREE = NULL, *point AUTO_FREE = NULL, *own AUTO_FREE = NULL;
	int fd;

	if (need(&tables->groups, "/proc/self/cgroup") < 0)
		return -1;
	own = own_path(tables->groups.data, controller);
	if (own && controller && (fd = open_usual(controller, own)) >= 0) {
		if (path)
			*path = MEM_STEAL(own);
		return fd;
	}
	if (own && need(&tables->mounts, "/proc/self/mountinfo") < 0)
		return -1;
	point = own ? find_mount(tables->mounts.data, controller, &root) : NULL;
	if (!point) {
		errno = ENOENT;
		return -1;
	}
	fd = open_path(point, root, own);
	if (fd >= 0 && path)
		*path = MEM_STEAL(own);
	return fd;
}

/* ---- names ---- */

unsigned long long own_group_start_time(pid_t pid)
{
	char path[64], text[1024];
	int fd AUTO_FD = -1;
	char *field AUTO_FREE = NULL;
	ssize_t len;
	const char *at;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (len <= 0)
		return 0;
	text[len] = '\0';
	at = strrchr(text, ')');			   /* the name may hold anything */
	if (!at || !at[1] || at[2] == 'Z' || at[2] == 'X') /* it has ended */
		return 0;
	field = field_of(at + 2, 22 - 3);
	return field ? strtoull(field, NULL, 10) : 0;
}

/* The number of our pid namespace (namespaces(7)); 0 where it is not told. */
static unsigned long own_pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? (unsigned long)st.st_ino : 0;
}

void own_group_name(char name[OWN_GROUP_NAME_MAX])
{
	snprintf(name, OWN_GROUP_NAME_MAX, OWN_GROUP_PREFIX "%d-%llu-%lu", (int)getpid(),
		 own_group_start_time(getpid()), own_pid_namespace());
}

/* ---- a place for groups ---- */

/* Whether children of this group have the memory and the pids controller, or can be given them. */
static bool can_hold(int dir)
{
	struct strbuf on AUTO_STRBUF = STRBUF_NONE;

	if (faccessat(dir, ".", W_OK, AT_EACCESS) < 0 ||
	    faccessat(dir, "cgroup.procs", W_OK, AT_EACCESS) < 0 ||
	    own_group_read(dir, "cgroup.subtree_control", &on) < 0)
		return false;
	if (own_group_has_word(on.data, "memory") && own_group_has_word(on.data, "pids"))
		return true;
	return own_group_write(dir, "cgroup.subtree_control", "+memory +pids") == 0;
}

/* Whether the group that is the parent (or not) of the one with this path is a scope of ours. */
static bool is_scope(const char *path, bool parent)
{
	char *copy AUTO_FREE = mem_strdup(path);
	char *slash = strrchr(copy, '/');
	size_t len;

	if (parent && slash) {
		*slash = '\0';
		slash = strrchr(copy, '/');
	}
	len = slash ? strlen(slash) : 0;
	return len > strlen("/" OWN_GROUP_PREFIX OWN_GROUP_SCOPE) &&
	       strncmp(slash, "/" OWN_GROUP_PREFIX, strlen("/" OWN_GROUP_PREFIX)) == 0 &&
	       strcmp(slash + len - strlen(OWN_GROUP_SCOPE), OWN_GROUP_SCOPE) == 0;
}

int own_group_find_place(struct own_group_tables *tables, bool *scope)
{
	char *path AUTO_FREE = NULL;
	int own AUTO_FD = own_group_open(tables, NULL, &path);
	int above AUTO_FD = -1;
	struct statfs fs;
	bool parent;

	if (own < 0)
		return -1;
	above = openat(own, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* The parent first: a group that has processes cannot give controllers to children. */
	parent = above >= 0 && fstatfs(above, &fs) == 0 && fs.f_type == CGROUP2_MAGIC &&
		 can_hold(above);
	if (!parent && !can_hold(own))
		return -1;
	if (scope)
		*scope = is_scope(path, parent);
	return parent ? fd_steal(&above) : fd_steal(&own);
}

/* Moves this process into the group that dir is. */
static int move_to(int dir)
{
	return own_group_write(dir, "cgroup.procs", "0");
}

/* In another pid namespace a process may be alive that we do not see, and its group about to be filled. */
static bool is_left(int parent, const char *name)
{
	unsigned long long start;
	unsigned long space;
	int pid, used = 0;
	struct stat st;

	if (sscanf(name, OWN_GROUP_PREFIX "%d-%llu-%lu%n", &pid, &start, &space, &used) != 3 ||
	    name[used])
		return false;
	if (space == own_pid_namespace())
		return own_group_start_time(pid) != start;
	return fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       time(NULL) - st.st_mtime > FOREIGN_OLD_S;
}

void own_group_sweep(int parent)
{
	int copy = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *entry;

	if (!dir) {
		if (copy >= 0)
			close(copy);
		return;
	}
	while ((entry = readdir(dir))) {
		char sub[300];

		if (!is_left(parent, entry->d_name))
			continue;
		snprintf(sub, sizeof(sub), "%s/job", entry->d_name);
		unlinkat(parent, sub, AT_REMOVEDIR);
		snprintf(sub, sizeof(sub), "%s/ctl", entry->d_name);
		unlinkat(parent, sub, AT_REMOVEDIR);
		unlinkat(parent, entry->d_name, AT_REMOVEDIR);
	}
	closedir(dir);
}

bool own_group_is_delegated(void)
{
	static const char *const marks[] = {"user.delegate", "trusted.delegate"};
	struct own_group_tables tables AUTO_TABLES = OWN_GROUP_TABLES_NONE;
	int own AUTO_FD = own_group_open(&tables, NULL, NULL);
	char value;

	for (size_t i = 0; own >= 0 && i < ARRAY_LEN(marks); i++)
		if (fgetxattr(own, marks[i], &value, 1) == 1 && value == '1')
			return true;
	return false;
}

int own_group_step_aside(void)
{
	struct own_group_tables tables AUTO_TABLES = OWN_GROUP_TABLES_NONE;
	int own AUTO_FD = own_group_open(&tables, NULL, NULL);
	int below AUTO_FD = -1;
	char name[OWN_GROUP_NAME_MAX];
	int reason;

	if (own < 0 || faccessat(own, "cgroup.procs", W_OK, AT_EACCESS) < 0)
		return -1;
	own_group_sweep(own);
	own_group_name(name);
	if (mkdirat(own, name, 0755) < 0)
		return -1;
	below = openat(own, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (below >= 0 && move_to(below) == 0) {
		if (can_hold(own))
			return 0;
		reason = errno;
		move_to(own);
	} else {
		reason = errno;
	}
	unlinkat(own, name, AT_REMOVEDIR);
	errno = reason;
	return -1;
}
