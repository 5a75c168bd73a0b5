#include "range.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "sandbox/jail/program.h"
#include "sandbox/jail/run.h"
#include "sandbox/jail/tree.h"
#include "sandbox/subuid.h"

/* A line of a map: ids inside, outside, how many (user_namespaces(7)). */
struct line {
	unsigned long inside, outside, count;
};

/* ---- outer: the programs that map ---- */

static int map(struct jail_run *run, const char *program, pid_t pid, const struct line lines[2])
{
	char words[8][24];
	const char *argv[9] = {words[0]}, *no_env[] = {NULL};

	snprintf(words[0], sizeof(words[0]), "%s", strrchr(program, '/') + 1);
	snprintf(words[1], sizeof(words[1]), "%d", (int)pid);
	for (size_t i = 0; i < 2; i++) {
		const unsigned long numbers[] = {lines[i].inside, lines[i].outside,
						 lines[i].count};

		for (size_t j = 0; j < 3; j++)
			snprintf(words[2 + 3 * i + j], sizeof(words[0]), "%lu", numbers[j]);
	}
	for (size_t i = 0; i < 8; i++)
		argv[i] = words[i];
	return program_run(run, program, argv, no_env, -1);
}

static int map_both(struct jail_run *run, pid_t pid, const struct line uids[2],
		    const struct line gids[2])
{
	if (map(run, SUBUID_NEWUIDMAP, pid, uids) < 0)
		return -1;
	return map(run, SUBUID_NEWGIDMAP, pid, gids);
}

int range_serve(struct jail_run *run, int helper)
{
	const struct line uids[2] = {{0, run->uid, 1}, {1, geteuid(), 1}};
	const struct line gids[2] = {{0, run->gid, 1}, {1, getegid(), 1}};
	struct jail_packet answer = {.message = MSG_MAPPED};

	if (step_enter(run, STEP_subuid) < 0)
		return step_fail(run, "ids of the user's range");
	if (map_both(run, helper, uids, gids) < 0)
		return -1;
	return packet_send(run->helper_sock, &answer, -1) < 0
		   ? step_fail(run, "the helper cannot be answered")
		   : 0;
}

/* ---- the helper ---- */

int range_enter(struct jail_run *run)
{
	struct jail_packet packet = {.message = MSG_MAP};

	/* newuidmap looks whose the process is by its files, which are root's otherwise */
	if (prctl(PR_SET_DUMPABLE, 1) < 0 || packet_send(run->helper_sock, &packet, -1) < 0)
		return step_fail(run, "outer cannot be asked for ids");
	if (packet_receive(run->helper_sock, &packet, NULL) != 1)
		_exit(1); /* outer knows why */
	if (packet.message != MSG_MAPPED || prctl(PR_SET_DUMPABLE, 0) < 0)
		return step_fail(run, "ids of the user's range");
	return 0;
}

int range_become(struct jail_run *run)
{
	if (step_enter(run, STEP_subuid) < 0 || setgroups(0, NULL) < 0 ||
	    setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return step_fail(run, "cannot become uid %u of the user's range",
				 (unsigned)run->uid);
	/* both are forgotten when ids change */
	if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return step_fail(run, "PR_SET_DUMPABLE");
	step_done(run);
	run->done |= 1ULL << STEP_uid;
	return 0;
}

/* ---- owners of a tree ---- */

/* A directory on the way down: what is below it and has still to be entered. */
struct level {
	char **names; /* owned: its directories */
	size_t count, next;
	dev_t dev;
	ino_t ino;
};

/* However deep a payload has made its tree: one descriptor, and the way back by "..". */
struct walk {
	struct level *levels; /* owned */
	size_t depth, room;
	int dir; /* owned: of the last level */
	bool give_back;
	int failed; /* giving back: errno of what stays as it is, 0; the rest goes on */
};

static int drop_acl(const char *path, const char *name)
{
	return removexattr(path, name) == 0 || errno == ENODATA || errno == EOPNOTSUPP ? 0 : -1;
}

/* What is given back loses what another could use it by. By its descriptor: should a process of a killed jail not
 * have ended yet, it can put nothing else at its place. */
static int change_one(int dir, const char *name, bool give_back)
{
	int fd AUTO_FD = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	char path[40];

	if (fd < 0 || fchownat(fd, "", 0, 0, AT_EMPTY_PATH) < 0 || fstat(fd, &st) < 0)
		return -1;
	if (!give_back || S_ISLNK(st.st_mode))
		return 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (drop_acl(path, "system.posix_acl_access") < 0 ||
	    (S_ISDIR(st.st_mode) && drop_acl(path, "system.posix_acl_default") < 0))
		return -1;
	return chmod(path, (st.st_mode & 01777) | (S_ISDIR(st.st_mode) ? 0700 : 0));
}

static int change_entry(struct walk *walk, struct level *level, const char *name)
{
	struct stat st;

	if (fstatat(walk->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if ((st.st_uid != 0 || st.st_gid != 0 || (walk->give_back && (st.st_mode & 06000))) &&
	    change_one(walk->dir, name, walk->give_back) < 0)
		return -1;
	if (!S_ISDIR(st.st_mode))
		return 0;
	level->names = mem_realloc(level->names, level->count + 1, sizeof(level->names[0]));
	level->names[level->count++] = mem_strdup(name);
	return 0;
}

static void leave(struct walk *walk)
{
	struct level *level = &walk->levels[--walk->depth];

	for (size_t i = 0; i < level->count; i++)
		free(level->names[i]);
	free(level->names);
}

/* Changes what is in walk->dir, which becomes the last level. */
static int enter(struct walk *walk)
{
	int copy AUTO_FD = fcntl(walk->dir, F_DUPFD_CLOEXEC, 3);
	int result = 0, saved;
	DIR *list = NULL;
	struct dirent *entry;
	struct level *level;
	struct stat st;

	if (copy >= 0 && fstat(copy, &st) == 0)
		list = fdopendir(copy);
	if (!list)
		return -1;
	fd_steal(&copy); /* it is the list's */
	if (walk->depth == walk->room) {
		walk->room = 2 * walk->room + 16;
		walk->levels = mem_realloc(walk->levels, walk->room, sizeof(walk->levels[0]));
	}
	level = &walk->levels[walk->depth++];
	*level = (struct level){.dev = st.st_dev, .ino = st.st_ino};
	while (result == 0 && (entry = readdir(list))) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			result = change_entry(walk, level, entry->d_name);
		if (result < 0 && walk->give_back) {
			walk->failed = errno;
			result = 0;
		}
	}
	saved = errno;
	closedir(list);
	errno = saved;
	return result;
}

/* Into the next directory below, or back up. */
static int step(struct walk *walk)
{
	struct level *level = &walk->levels[walk->depth - 1];
	const bool down = level->next < level->count;
	const char *name = down ? level->names[level->next++] : "..";
	struct stat st;
	int next;

	if (!down)
		leave(walk);
	if (!walk->depth)
		return 0;
	next = openat(walk->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (next < 0)
		return -1;
	close(walk->dir);
	walk->dir = next;
	if (down)
		return enter(walk);
	level--;
	errno = ESTALE; /* somebody is at work there */
	return fstat(next, &st) == 0 && st.st_dev == level->dev && st.st_ino == level->ino ? 0
											   : -1;
}

/* To id 0, whoever that is here. */
static int change_owners(int dir, bool give_back)
{
	struct walk walk = {.dir = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
			    .give_back = give_back};
	int result = -1;
	struct stat st;

	if (walk.dir >= 0 && fstat(walk.dir, &st) == 0 &&
	    ((st.st_uid == 0 && st.st_gid == 0) || fchown(walk.dir, 0, 0) == 0))
		result = enter(&walk);
	while (result == 0 && walk.depth)
		result = step(&walk);
	if (result == 0 && walk.failed) {
		errno = walk.failed;
		result = -1;
	}
	while (walk.depth)
		leave(&walk);
	free(walk.levels);
	if (walk.dir >= 0)
		close(walk.dir);
	return result;
}

int range_give(int dir)
{
	return change_owners(dir, false);
}

/* ---- giving back ---- */

/* In a child of outer: the user, as root of a namespace that has all of their range. Its exit says no more
 * than whether. */
static void __attribute__((noreturn)) reclaim_child(int dir, int ready, int go)
{
	char byte = 0;
	int err = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (unshare(CLONE_NEWUSER) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0)
		err = errno;
	if (write(ready, &err, sizeof(err)) != sizeof(err) || err || read(go, &byte, 1) != 1)
		_exit(1);
	prctl(PR_SET_DUMPABLE, 0);
	err = change_owners(dir, true) < 0 ? errno : 0;
	_exit(write(ready, &err, sizeof(err)) == sizeof(err) ? 0 : 1);
}

static int reclaim_by(struct jail_run *run, const struct subuid *ids, const char *path,
		      pid_t child, int ready, int go)
{
	const struct line uids[2] = {{0, geteuid(), 1}, {1, ids->uids.first, ids->uids.count}};
	const struct line gids[2] = {{0, getegid(), 1}, {1, ids->gids.first, ids->gids.count}};
	int err = EIO;

	if (read(ready, &err, sizeof(err)) != sizeof(err) || err) {
		errno = err;
		return step_fail(run, "unshare(CLONE_NEWUSER) to give %s back", path);
	}
	if (map_both(run, child, uids, gids) < 0)
		return -1;
	if (write(go, "", 1) != 1 || read(ready, &err, sizeof(err)) != sizeof(err))
		err = EIO;
	errno = err;
	return err ? step_fail(run, "%s cannot be given back to its user", path) : 0;
}

int range_reclaim(struct jail_run *run, const char *path)
{
	int dir AUTO_FD = tree_open_path(AT_FDCWD, path);
	int ready[2], go[2], result;
	const char *why, *next;
	struct subuid ids;
	pid_t child;

	run->step = STEP_subuid;
	errno = 0;
	if (!subuid_find(&ids, &why, &next))
		return step_fail(run, "%s cannot be given back to its user: %s", path, why);
	if (dir < 0 || pipe2(ready, O_CLOEXEC) < 0)
		return step_fail(run, "%s", path);
	if (pipe2(go, O_CLOEXEC) < 0) {
		close(ready[0]);
		close(ready[1]);
		return step_fail(run, "pipe");
	}
	child = fork();
	if (child == 0) {
		close(ready[0]);
		close(go[1]);
		reclaim_child(dir, ready[1], go[0]);
	}
	close(ready[1]);
	close(go[0]);
	result = child < 0 ? step_fail(run, "fork")
			   : reclaim_by(run, &ids, path, child, ready[0], go[1]);
	close(go[1]); /* without a word it ends */
	close(ready[0]);
	while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
		continue;
	return result;
}

int range_take_back(struct jail_run *run)
{
	int result = 0;

	if (!run->ranged)
		return 0;
	if (run->spec.work_rw && range_reclaim(run, run->spec.work_dir) < 0)
		result = -1;
	for (size_t i = 0; i < run->spec.mount_count; i++)
		if (run->spec.mounts[i].how == JAIL_BIND_RW &&
		    range_reclaim(run, run->spec.mounts[i].source) < 0)
			result = -1;
	return result;
}
