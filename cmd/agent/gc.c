/* agent gc: what killed runs left, runs and layers that nobody used for a while. Never what a
 * live run holds. */
#include "agent.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/text.h"
#include "pipeline/fetch/store.h"
#include "sandbox/jail_spec.h"

#define DAY 86400

struct sweep {
	const char *state;
	bool dry;
	long long days;
	unsigned runs, layers, leftovers; /* removed */
	bool busy;			  /* a run is under way */
};

static bool older(int dirfd, const char *name, long long seconds)
{
	struct stat st;

	return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       time(NULL) - st.st_mtime >= seconds;
}

/* Whether another process holds the run's lock. */
static bool is_locked(int dirfd, const char *name)
{
	char *path AUTO_FREE = mem_printf("%s/lock", name);
	int fd AUTO_FD = fd_open_beneath(dirfd, path, O_RDWR, 0);

	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0;
}

/* Renamed into tmp first, so that nobody meets half of it. */
static bool sweep_away(struct sweep *sweep, int dirfd, const char *name, const char *what)
{
	char *tmp_path AUTO_FREE = mem_printf("%s/tmp", sweep->state);
	char *trash AUTO_FREE = mem_printf(".gc-%s-%d", name, (int)getpid());
	int tmp AUTO_FD = open(tmp_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	printf("%s %s %s\n", sweep->dry ? "would remove" : "removed", what, name);
	if (sweep->dry)
		return true;
	if (tmp < 0 || renameat(dirfd, name, tmp, trash) < 0)
		return fd_remove_tree(dirfd, name) == 0;
	return fd_remove_tree(tmp, trash) == 0;
}

typedef void visit_fn(struct sweep *sweep, int dirfd, const char *name);

static void each(struct sweep *sweep, const char *below, visit_fn *visit)
{
	char *path AUTO_FREE = mem_printf("%s/%s", sweep->state, below);
	DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			visit(sweep, dirfd(dir), entry->d_name);
	if (dir)
		closedir(dir);
}

static void visit_run(struct sweep *sweep, int dirfd, const char *name)
{
	if (is_locked(dirfd, name)) {
		sweep->busy = true;
		return;
	}
	if (older(dirfd, name, sweep->days * DAY) && sweep_away(sweep, dirfd, name, "run"))
		sweep->runs++;
}

static void visit_temporary(struct sweep *sweep, int dirfd, const char *name)
{
	if (!is_locked(dirfd, name) && sweep_away(sweep, dirfd, name, "leftover"))
		sweep->leftovers++;
}

/* Locks out whoever makes this base layer (gitops/layer.h). -1: somebody does. */
static int lock_base(int dirfd, const char *tree)
{
	char *name AUTO_FREE = mem_printf(".lock-%.40s", tree);
	int fd AUTO_FD = fd_open_beneath(dirfd, name, O_RDWR | O_CREAT, 0600);

	return fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 ? -1 : fd_steal(&fd);
}

/* A layer in use was touched when its test began: a day covers the longest one. */
static void visit_base(struct sweep *sweep, int dirfd, const char *name)
{
	long long least = sweep->busy ? DAY : 0, age = sweep->days * DAY;
	bool leftover = strncmp(name, ".tmp-", 5) == 0;
	int lock AUTO_FD = -1;

	if (!leftover &&
	    (!text_is_hex(name, 40) || !older(dirfd, name, age > least ? age : least)))
		return;
	if (leftover && strlen(name) < 45)
		return;
	lock = lock_base(dirfd, leftover ? name + 5 : name);
	if (lock < 0)
		return;
	if (sweep_away(sweep, dirfd, name, leftover ? "leftover" : "layer"))
		leftover ? sweep->leftovers++ : sweep->layers++;
}

/* Lock files of layers that are no more, when nobody is at work. */
static void visit_lock(struct sweep *sweep, int dirfd, const char *name)
{
	int lock AUTO_FD = -1;

	if (sweep->busy || sweep->dry || strncmp(name, ".lock-", 6) != 0 ||
	    strlen(name) != 46 || faccessat(dirfd, name + 6, F_OK, 0) == 0)
		return;
	lock = lock_base(dirfd, name + 6);
	if (lock >= 0)
		unlinkat(dirfd, name, 0);
}

static void visit_deps(struct sweep *sweep, int dirfd, const char *name)
{
	struct error ignored = {0};
	long long least = sweep->busy ? DAY : 0, age = sweep->days * DAY;

	if (!text_is_hex(name, 64) || !older(dirfd, name, age > least ? age : least))
		return;
	printf("%s layer %s\n", sweep->dry ? "would remove" : "removed", name);
	if (sweep->dry || store_remove(sweep->state, name, &ignored) == 0)
		sweep->layers++;
}

/* Control groups of jails that were killed: every agent-jail sweeps them when it begins, so one
 * is begun. */
static void sweep_groups(const struct options *options, const char *state)
{
	struct journal journal;
	struct supervisor sup = {.signal_fd = -1};
	struct jail_facts facts;
	struct error ignored = {0};

	journal_init(&journal, false);
	journal.quiet = true;
	if (supervise_init(&sup, &journal, &ignored) == 0)
		jailplan_try(&sup, options->config, state, FETCH_NONE, NULL, &facts, NULL,
			     &ignored);
	supervise_release(&sup);
	journal_release(&journal);
}

int cmd_gc(struct options *options, struct error *err)
{
	char *state AUTO_FREE = rundir_state_dir(err);
	struct sweep sweep = {.state = state, .dry = options->dry_run, .days = 30};

	if (!state)
		return err->kind;
	if (options->days && text_parse_size(options->days, 36500, &sweep.days) < 0)
		return error_set(err, ERROR_USAGE, "--days %s is not a number of days",
				 options->days);
	each(&sweep, "runs", visit_run);
	each(&sweep, "tmp", visit_temporary);
	each(&sweep, "store/base", visit_base);
	each(&sweep, "store/base", visit_lock);
	each(&sweep, "store/deps", visit_deps);
	if (!sweep.dry) {
		sweep.leftovers += store_sweep(state);
		sweep_groups(options, state);
	}
	printf("%u run%s, %u layer%s, %u leftover%s %s\n", sweep.runs,
	       sweep.runs == 1 ? "" : "s", sweep.layers, sweep.layers == 1 ? "" : "s",
	       sweep.leftovers, sweep.leftovers == 1 ? "" : "s",
	       sweep.dry ? "to remove" : "removed");
	return 0;
}
