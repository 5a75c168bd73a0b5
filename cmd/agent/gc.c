/* agent gc: what killed runs left, runs and layers that nobody used for a while, never what a live run holds; and the
 * packing of mirrors. */
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
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/fetch/store.h"
#include "sandbox/jail_spec.h"
#include "sandbox/own_group.h"

#define DAY 86400
#define LAYER_JSON_MAX ((size_t)1 << 24)
#define BLOCK 4096 /* what the smallest file takes on the disk */

/* A layer of the store. */
struct layer {
	bool deps;			 /* else a base layer */
	char name[STORE_KEY_SIZE];	 /* key or tree id */
	char parent[LAYERSTORE_ID_SIZE]; /* of a base layer: what it is laid upon, or "" */
	struct timespec used;
	unsigned long long bytes;
	long long manifests, records; /* of a base layer */
	bool usable;		      /* else from before a reboot, or without a seal */
	bool gone, kept;
};

struct sweep {
	const struct options *options;
	const char *state;
	struct supervisor *sup;
	bool dry;
	long long days;
	unsigned runs, layers, leftovers; /* removed */
	struct layer *found;		  /* owned */
	size_t count;
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

/* Out of everybody's way at once: renamed into tmp, whose content goes at the end. */
static bool sweep_away(struct sweep *sweep, int dirfd, const char *name, const char *what)
{
	char *tmp_path AUTO_FREE = mem_printf("%s/tmp", sweep->state);
	char *trash AUTO_FREE = mem_printf(".gone-%s-%d", name, (int)getpid());
	int tmp AUTO_FD = open(tmp_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	printf("%s %s %s\n", sweep->dry ? "would remove" : "removed", what, name);
	if (sweep->dry)
		return true;
	return tmp >= 0 && renameat(dirfd, name, tmp, trash) == 0;
}

typedef void visit_fn(struct sweep *sweep, int dirfd, const char *name);

static void each(struct sweep *sweep, const char *below, visit_fn *visit)
{
	char *path AUTO_FREE = mem_printf("%s/%s", sweep->state, below);
	DIR *dir = opendir(path);
	const struct dirent *entry;

	while ((entry = fd_next(dir)))
		visit(sweep, dirfd(dir), entry->d_name);
	if (dir)
		closedir(dir);
}

static void visit_run(struct sweep *sweep, int dirfd, const char *name)
{
	if (is_locked(dirfd, name))
		return;
	if (older(dirfd, name, sweep->days * DAY) && sweep_away(sweep, dirfd, name, "run"))
		sweep->runs++;
}

static bool is_gone(const char *name)
{
	return strncmp(name, ".gone-", 6) == 0;
}

/* What killed commands left. What was renamed here to be removed was told then. */
static void visit_temporary(struct sweep *sweep, int dirfd, const char *name)
{
	if (is_gone(name) || is_locked(dirfd, name))
		return;
	if (sweep_away(sweep, dirfd, name, "leftover"))
		sweep->leftovers++;
}

static void visit_gone(struct sweep *sweep, int dirfd, const char *name)
{
	(void)sweep;
	if (is_gone(name))
		(void)fd_remove_tree(dirfd, name);
}

/* What killed makers of base layers left, and their lock files. */
static void visit_leftover(struct sweep *sweep, int dirfd, const char *name)
{
	bool tmp = strncmp(name, ".tmp-", 5) == 0, lock_file = strncmp(name, ".lock-", 6) == 0;
	char tree[LAYERSTORE_ID_SIZE];
	struct error ignored = {0};
	int lock = -1;

	if (!tmp && !lock_file)
		return;
	snprintf(tree, sizeof(tree), "%s", name + (tmp ? 5 : 6));
	if (!text_is_hex(tree, LAYERSTORE_ID_SIZE - 1) || (sweep->dry && lock_file) ||
	    layerstore_lock(sweep->state, tree, &lock, &ignored))
		return;
	if (tmp && sweep_away(sweep, dirfd, name, "leftover"))
		sweep->leftovers++;
	layerstore_unlock(sweep->state, tree, &lock);
}

/* ---- layers: what is there ---- */

static struct layer *add_layer(struct sweep *sweep, int dirfd, const char *name)
{
	struct layer *layer;
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
		return NULL;
	sweep->found = mem_realloc(sweep->found, sweep->count + 1, sizeof(*sweep->found));
	layer = &sweep->found[sweep->count++];
	*layer = (struct layer){.used = st.st_mtim};
	snprintf(layer->name, sizeof(layer->name), "%s", name);
	return layer;
}

static void visit_base(struct sweep *sweep, int dirfd, const char *name)
{
	struct layer_sealed sealed = {.files = 0};
	struct layer *layer =
	    text_is_hex(name, LAYERSTORE_ID_SIZE - 1) ? add_layer(sweep, dirfd, name) : NULL;

	if (!layer || !layerstore_sealed(dirfd, name, &sealed, &layer->usable))
		return;
	memcpy(layer->parent, sealed.parent, sizeof(layer->parent));
	layer->manifests = sealed.manifests;
	layer->records = sealed.records;
	layer->bytes =
	    (unsigned long long)sealed.bytes + (unsigned long long)sealed.files * BLOCK;
}

static void visit_deps(struct sweep *sweep, int dirfd, const char *name)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	char *path AUTO_FREE = mem_printf("%s/layer.json", name);
	struct json *json AUTO_JSON = NULL;
	struct error ignored = {0};
	struct layer *layer =
	    text_is_hex(name, STORE_KEY_SIZE - 1) ? add_layer(sweep, dirfd, name) : NULL;

	if (!layer)
		return;
	layer->deps = true;
	strbuf_init(&text, LAYER_JSON_MAX);
	if (fd_read_file(dirfd, path, &text, &ignored) == 0)
		json = js_parse(text.data, text.len, LAYER_JSON_MAX, path, &ignored);
	layer->usable = json != NULL;
	layer->bytes = (unsigned long long)js_int(json, "bytes", 0) +
		       (unsigned long long)js_int(json, "files", 0) * BLOCK;
}

/* ---- layers: what goes ---- */

static int oldest_first(const void *a, const void *b)
{
	const struct layer *x = a, *y = b;

	if (x->used.tv_sec != y->used.tv_sec)
		return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
	return (x->used.tv_nsec > y->used.tv_nsec) - (x->used.tv_nsec < y->used.tv_nsec);
}

/* Whether a layer that stays is laid upon this one. */
static bool is_needed(const struct sweep *sweep, const struct layer *layer)
{
	for (size_t i = 0; i < sweep->count; i++)
		if (!sweep->found[i].gone && sweep->found[i].usable && !sweep->found[i].deps &&
		    strcmp(sweep->found[i].parent, layer->name) == 0)
			return true;
	return false;
}

/* Never one in use: who uses it has it locked, and finds it gone once we have. */
static void remove_layer(struct sweep *sweep, struct layer *layer)
{
	char *path AUTO_FREE =
	    mem_printf("%s/store/%s", sweep->state, layer->deps ? "deps" : "base");
	int dir AUTO_FD = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int lock AUTO_FD = dir < 0 ? -1 : layerstore_lock_to_remove(dir, layer->name);

	layer->kept = true;
	if (lock < 0 || !sweep_away(sweep, dir, layer->name, "layer"))
		return;
	layer->gone = true;
	sweep->layers++;
}

static unsigned long long total(const struct sweep *sweep)
{
	unsigned long long sum = 0;

	for (size_t i = 0; i < sweep->count; i++)
		sum += sweep->found[i].gone ? 0 : sweep->found[i].bytes;
	return sum;
}

/* The oldest that may go, no other layer lies upon and was not tried yet; NULL: none. */
static struct layer *next_to_go(const struct sweep *sweep, bool too_much)
{
	time_t limit = time(NULL) - sweep->days * DAY;

	for (size_t i = 0; i < sweep->count; i++) {
		struct layer *layer = &sweep->found[i];

		if (!layer->gone && !layer->kept &&
		    (too_much || !layer->usable || layer->used.tv_sec <= limit) &&
		    !is_needed(sweep, layer))
			return layer;
	}
	return NULL;
}

static void sweep_layers(struct sweep *sweep)
{
	unsigned long long most =
	    (unsigned long long)config_number(sweep->options->config, "store.max");
	struct layer *layer;

	each(sweep, "store/base", visit_base);
	each(sweep, "store/deps", visit_deps);
	if (sweep->count)
		mem_sort(sweep->found, sweep->count, sizeof(*sweep->found), oldest_first);
	while ((layer = next_to_go(sweep, total(sweep) > most)))
		remove_layer(sweep, layer);
	if (total(sweep) > most)
		printf(
		    "the store has %llu MB, more than store.max: all that is left is in use\n",
		    total(sweep) >> 20);
}

/* ---- looking whether they are what was written ---- */

/* 0; ERROR_NO when it is damaged; else what kept us from knowing. */
static int check_layer(struct sweep *sweep, const struct layer *layer, struct error *err)
{
	struct json *job AUTO_JSON = js_object_new(), *paths = js_object_new();
	char *path AUTO_FREE = mem_printf("%s/store/base/%s", sweep->state, layer->name);
	struct supervised stage = {0};
	int result;

	js_set_str(paths, "check", path);
	js_set(job, "paths", paths);
	js_set_int(job, "manifests", layer->manifests);
	js_set_int(job, "records", layer->records);
	result =
	    supervise_start(sweep->sup, &stage, STAGE_LAYER, job, NULL, 0, 0, NULL, NULL, err);
	if (result == 0)
		result = supervise_wait(sweep->sup, &stage, err);
	supervise_end(sweep->sup, &stage);
	return result;
}

/* Those that lie upon a damaged one are not usable without it: the next sweep takes them. */
static int verify_layers(struct sweep *sweep, struct error *err)
{
	for (size_t i = 0; i < sweep->count; i++) {
		struct layer *layer = &sweep->found[i];
		struct error why = {0};
		int result;

		if (layer->deps || layer->gone || !layer->usable)
			continue;
		result = check_layer(sweep, layer, &why);
		if (result == 0)
			continue;
		if (result != ERROR_NO) {
			*err = why;
			return error_wrap(err, "base layer %s", layer->name);
		}
		printf("damaged: base layer %s: %s\n", layer->name, why.message);
		remove_layer(sweep, layer);
		if (!layer->gone)
			printf("base layer %s is in use: agent gc --verify again, later\n",
			       layer->name);
	}
	return 0;
}

/* ---- all of it ---- */

/* Control groups of jails that were killed: every agent-jail sweeps them when it begins, so one
 * is begun. Those of an agent that was killed while it stepped aside (pipeline/scope.h) are in our own. */
static void sweep_groups(struct sweep *sweep)
{
	struct jail_facts facts;
	struct own_group_tables tables AUTO_TABLES = OWN_GROUP_TABLES_NONE;
	int own AUTO_FD = own_group_open(&tables, NULL, NULL);
	struct error ignored = {0};

	if (own >= 0)
		own_group_sweep(own);
	jailplan_try(sweep->sup, sweep->options->config, sweep->state, FETCH_NONE, NULL, &facts,
		     NULL, &ignored);
}

/* store_reclaim_fn, by agent-jail. */
static int reclaim(void *arg, const char *path)
{
	struct sweep *sweep = arg;
	struct error err = {0};

	if (jailplan_reclaim(sweep->sup, path, &err) == 0)
		return 0;
	printf("cannot remove %s: %s\n", path, err.message);
	if (err.next[0])
		printf("  %s\n", err.next);
	return -1;
}

static int sweep_all(struct sweep *sweep, struct error *err)
{
	each(sweep, "runs", visit_run);
	each(sweep, "tmp", visit_temporary);
	each(sweep, "store/base", visit_leftover);
	sweep_layers(sweep);
	if (sweep->dry)
		return mirror_pack_all(sweep->options->config, sweep->state, sweep->sup, true,
				       err);
	if (sweep->options->verify && verify_layers(sweep, err))
		return err->kind;
	sweep->leftovers += store_sweep(sweep->state, reclaim, sweep);
	sweep_groups(sweep);
	each(sweep, "tmp", visit_gone);
	if (layerstore_flush(sweep->state, err))
		return err->kind;
	return mirror_pack_all(sweep->options->config, sweep->state, sweep->sup, false, err);
}

int cmd_gc(struct options *options, struct error *err)
{
	char *state AUTO_FREE = rundir_state_dir(err);
	struct journal journal;
	struct supervisor sup = {.signal_fd = -1};
	struct sweep sweep = {.options = options,
			      .state = state,
			      .sup = &sup,
			      .dry = options->dry_run,
			      .days = 30};
	int result;

	if (!state)
		return err->kind;
	if (options->word_count) {
		error_set(err, ERROR_USAGE, "agent gc takes no words, such as %s",
			  options->words[0]);
		return error_next(err, "agent gc --dry-run says what it would remove");
	}
	if (options->days && text_parse_size(options->days, 36500, &sweep.days) < 0)
		return error_set(err, ERROR_USAGE, "--days %s is not a number of days",
				 options->days);
	journal_init(&journal, false);
	journal.quiet = true;
	result = supervise_init(&sup, &journal, err);
	if (result == 0)
		result = sweep_all(&sweep, err);
	supervise_release(&sup);
	journal_release(&journal);
	free(sweep.found);
	printf("%u run%s, %u layer%s, %u leftover%s %s\n", sweep.runs,
	       sweep.runs == 1 ? "" : "s", sweep.layers, sweep.layers == 1 ? "" : "s",
	       sweep.leftovers, sweep.leftovers == 1 ? "" : "s",
	       sweep.dry ? "to remove" : "removed");
	return result;
}
