/* The layer step: the base's files as layers of the store, made here when they are not there,
 * by as many processes as help; leased until the run ends. A base tree that no checkout may
 * follow is refused here, before a model is paid. */
#include "agent.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/fds.h"

#define WORKERS_MAX 8
#define FILES_A_WORKER 1500 /* fewer are written before another process has started */
#define CANDIDATES 16
#define BOARD_BYTES 4096
#define WAIT_MS 1800000LL
#define POLL_MS 20
#define PLAN_MS 5

struct making {
	struct run *run;
	const char *tree;
	char *path; /* owned: of the layer under way */
	int board;  /* owned */
	struct layer_stack below[CANDIDATES];
	size_t candidates;
	struct supervised workers[WORKERS_MAX];
	size_t count; /* of workers */
	bool planned;
	long long changed;
	struct layer_sealed sealed;
};

/* ---- what the first worker decides ---- */

static struct json *on_event(void *arg, const char *event, struct json *fields)
{
	struct making *making = arg;
	const char *base = js_str(fields, "base", NULL);

	if (strcmp(event, "plan") != 0 || making->planned)
		return NULL;
	making->changed = js_int(fields, "changed", 0);
	for (size_t i = 0; base && i < making->candidates; i++) {
		if (strcmp(making->below[i].layers[0].tree, base) != 0)
			continue;
		memcpy(making->sealed.parent, making->below[i].layers[0].tree,
		       sizeof(making->sealed.parent));
		making->sealed.depth = (long long)making->below[i].count;
	}
	making->planned = true;
	return NULL;
}

static struct json *layer_job(const struct making *making)
{
	struct json *job = js_object_new(), *paths = repository_paths(&making->run->repo);

	js_unset(paths, "workdir");
	js_set_str(paths, "layer", making->path);
	js_set(job, "paths", paths);
	js_set_str(job, "tree", making->tree);
	js_set_int(job, "worker", (long long)making->count);
	if (making->count == 0) {
		struct json *candidates = js_array_new();

		for (size_t i = 0; i < making->candidates; i++)
			js_push_str(candidates, making->below[i].layers[0].tree);
		js_set(job, "candidates", candidates);
	} else {
		js_set_str(job, "base",
			   making->sealed.parent[0] ? making->sealed.parent : NULL);
	}
	return job;
}

static int start_worker(struct making *making, struct error *err)
{
	struct json *job AUTO_JSON = layer_job(making);
	struct supervised *worker = &making->workers[making->count];
	int result = supervise_start(&making->run->sup, worker, STAGE_LAYER, job,
				     (struct spawn_fd[]){{FD_BOARD, making->board}}, 1, 0,
				     making->count ? NULL : on_event, making, err);

	if (result)
		return result;
	worker->shown = making->count == 0;
	making->count++;
	return 0;
}

static long long processors(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* The first worker begins at once; others join when its plan says that there is enough. */
static int start_workers(struct making *making, struct error *err)
{
	long long wanted;
	int result = start_worker(making, err);

	while (result == 0 && !making->planned && !making->workers[0].ended)
		result = supervise_until_readable(&making->run->sup, -1, PLAN_MS, err);
	if (result)
		return result;
	wanted = making->changed / FILES_A_WORKER;
	if (wanted > processors())
		wanted = processors();
	if (wanted > WORKERS_MAX)
		wanted = WORKERS_MAX;
	while (result == 0 && (long long)making->count < wanted)
		result = start_worker(making, err);
	return result;
}

/* All must end well: the result of one is the sum of all. */
static int await_workers(struct making *making, struct error *err)
{
	struct layer_sealed *sealed = &making->sealed;

	for (size_t i = 0; i < making->count; i++) {
		const struct json *facts;
		int result = supervise_wait(&making->run->sup, &making->workers[i], err);

		if (result)
			return result;
		facts = making->workers[i].result;
		if (!facts)
			return error_set(err, ERROR_FAILED,
					 "agent-layer ended without a result");
		sealed->files += js_int(facts, "files", 0);
		sealed->bytes += js_int(facts, "bytes", 0);
		sealed->records += js_int(facts, "records", 0);
		sealed->lfs_pointers += js_int(facts, "lfs_pointers", 0);
		sealed->submodules += js_int(facts, "submodules", 0);
		sealed->encodings_kept += js_int(facts, "encodings_kept", 0);
	}
	if (!making->planned)
		return error_set(err, ERROR_FAILED, "agent-layer ended without a plan");
	sealed->manifests = (long long)making->count;
	return 0;
}

/* ---- making one ---- */

static int prepare(struct making *making, struct error *err)
{
	making->board = memfd_create("board", MFD_CLOEXEC);
	if (making->board < 0 || ftruncate(making->board, BOARD_BYTES) < 0)
		return error_errno(err, ERROR_FAILED, errno, "shared memory");
	making->path = layerstore_begin(making->run->dir.state, making->tree,
					STAGE_UID_BASE + STAGE_LAYER, err);
	if (!making->path)
		return err->kind;
	memcpy(making->sealed.tree, making->tree, sizeof(making->sealed.tree));
	making->candidates =
	    layerstore_candidates(making->run->dir.state, making->below, CANDIDATES);
	return 0;
}

static int make_layer(struct run *run, const char *tree, struct error *err)
{
	AUTO_FREE struct making *making = mem_calloc(1, sizeof(*making));
	int result;

	*making = (struct making){.run = run, .tree = tree, .board = -1};
	result = prepare(making, err);
	if (result == 0)
		result = start_workers(making, err);
	if (result == 0)
		result = await_workers(making, err);
	for (size_t i = 0; i < making->count; i++)
		supervise_end(&run->sup, &making->workers[i]);
	if (result == 0)
		result = layerstore_seal(run->dir.state, making->path, &making->sealed, err);
	if (result != 0 && making->path)
		layerstore_abandon(run->dir.state, making->path);
	for (size_t i = 0; i < making->candidates; i++)
		layer_stack_release(&making->below[i]);
	fd_close_ptr(&making->board);
	free(making->path);
	return result;
}

/* Until we are the one who makes it, or somebody else has. *lock stays -1 then. */
static int become_maker(struct run *run, const char *tree, int *lock, struct error *err)
{
	long long until = fd_now_ms() + WAIT_MS;

	for (;;) {
		struct error busy = {0};
		int result = layerstore_lock(run->dir.state, tree, lock, &busy);

		if (result != ERROR_LATER) {
			*err = busy;
			return result;
		}
		if (fd_now_ms() > until) {
			*err = busy;
			return error_next(err, "it has for 30 minutes: look at the processes "
					       "named agent-layer, then try again");
		}
		result = supervise_until_readable(&run->sup, -1, POLL_MS, err);
		if (result)
			return result;
		result = layerstore_open(run->dir.state, tree, &run->layers, err);
		if (result != ERROR_SKIPPED)
			return result;
	}
}

static void tell(struct run *run, const struct layer_sealed *made)
{
	const struct layer_stack *stack = &run->layers;
	bool lfs = false, submodules = false, encodings = false;

	for (size_t i = 0; i < stack->count; i++) {
		lfs |= stack->layers[i].lfs_pointers > 0;
		submodules |= stack->layers[i].submodules > 0;
		encodings |= stack->layers[i].encodings_kept > 0;
	}
	if (made)
		journal_done(&run->journal, "base layer %.12s: %lld file%s%s", made->tree,
			     made->files, made->files == 1 ? "" : "s",
			     made->parent[0] ? " changed" : "");
	if (lfs)
		journal_note(&run->journal,
			     "note: the base has Git LFS pointers: the tests see "
			     "the pointers, not what they stand for");
	if (submodules)
		journal_note(&run->journal,
			     "note: the base has submodules: their directories are empty");
	if (encodings)
		journal_note(&run->journal,
			     "note: the base has files in a working-tree-encoding that is not "
			     "known here: the tests see them in UTF-8");
}

int step_layer(struct run *run, struct error *err)
{
	const char *tree = run_base(run, "tree");
	int lock = -1, result;
	bool made = false;

	layer_stack_release(&run->layers);
	result = layerstore_open(run->dir.state, tree, &run->layers, err);
	if (result == ERROR_SKIPPED) {
		journal_stage(&run->journal, "layer", "laying out the base");
		result = become_maker(run, tree, &lock, err);
		if (result == 0 && lock >= 0) {
			result = layerstore_open(run->dir.state, tree, &run->layers, err);
			made = result == ERROR_SKIPPED;
			if (made)
				result = make_layer(run, tree, err);
			if (made && result == 0)
				result =
				    layerstore_open(run->dir.state, tree, &run->layers, err);
		}
		layerstore_unlock(run->dir.state, tree, &lock);
	}
	if (result == ERROR_SKIPPED)
		return error_set(err, ERROR_FAILED, "the base layer %s is gone again", tree);
	if (result == 0)
		tell(run, made ? &run->layers.layers[0] : NULL);
	return result;
}
