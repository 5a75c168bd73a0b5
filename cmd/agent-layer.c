/*
 * NAME
 *	agent-layer - writes a base layer, or its share of one; checks one
 *
 * SYNOPSIS
 *	started by agent(1) alone, one or several at once for the same layer
 *
 *	FD_JOB {"paths":{"repo","common"?,"alternates"?,"layer"},"tree","worker":N,
 *		"candidates":[tree id…] for the first, else "base":tree id or null}
 *	FD_BOARD memory that those who make one layer share (gitops/checkout.h)
 *	-> <layer>/tree, <layer>/manifest-N;
 *	{"event":"plan","base":tree id or null,"changed":N} from the first, before it writes;
 *	{"event":"result","files","bytes","records","lfs_pointers","submodules","encodings_kept"}
 *
 *	FD_JOB {"paths":{"check"},"manifests":N,"records":N}
 *	-> {"event":"result"}, or exit status 1 when the layer is not what its manifests say
 *
 * SECURITY
 *	Hostile inputs: the repository's objects. Reach: reads the repository, writes the one
 *	directory of the layer under way; runs nothing. A compromise yields a wrong layer, that
 *	is, a wrong verdict for this and later runs on the same tree; no finished layer can be
 *	reached from here.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gitops/layer.h"
#include "gitops/repo.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/text.h"
#include "pipeline/events.h"
#include "pipeline/fds.h"
#include "pipeline/stage.h"

#define CANDIDATES_MAX 64
#define WORKERS_MAX 64

static bool is_tree_id(const char *text)
{
	return text && text_is_hex(text, GITOPS_OID_SIZE - 1);
}

/* ---- checking ---- */

static int check_one(int layer, long long number, size_t *records, struct error *err)
{
	AUTO_FREE char *name = mem_printf("manifest-%lld", number);
	int tree AUTO_FD = fd_open_beneath(layer, "tree", O_RDONLY | O_DIRECTORY, 0);
	int manifest AUTO_FD = fd_open_beneath(layer, name, O_RDONLY | O_NONBLOCK, 0);
	size_t count = 0;
	int rc;

	if (tree < 0 || manifest < 0)
		return error_set(err, ERROR_NO, "%s is gone", tree < 0 ? "tree" : name);
	rc = layer_verify(tree, manifest, &count, err);
	*records += count;
	return rc;
}

static int check_layer(const struct stage *stage, const char *path, struct error *err)
{
	int layer AUTO_FD = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	long long manifests = js_int(stage->job, "manifests", 0);
	size_t records = 0;
	int rc = 0;

	if (layer < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", path);
	for (long long i = 0; rc == 0 && i < manifests; i++)
		rc = check_one(layer, i, &records, err);
	if (rc == 0 && (long long)records != js_int(stage->job, "records", -1))
		rc = error_set(err, ERROR_NO, "its manifests are cut off");
	if (rc == 0)
		event_send("result", js_object_new());
	return rc;
}

/* ---- making ---- */

static void tell_progress(void *data, const struct checkout_stats *all)
{
	(void)data;
	event_progress("laying out the base: %zu files, %llu MB", all->files,
		       (unsigned long long)(all->bytes >> 20));
}

static int map_board(struct checkout_board **board, struct error *err)
{
	*board = mmap(NULL, sizeof(**board), PROT_READ | PROT_WRITE, MAP_SHARED, FD_BOARD, 0);
	if (*board == MAP_FAILED)
		return error_errno(err, ERROR_FAILED, errno, "shared memory");
	return 0;
}

/* The first process decides what the layer is laid upon, and tells. */
static int plan(const struct stage *stage, struct checkout *checkout, const char *tree,
		const char **base, struct error *err)
{
	const struct json *list = js_get(stage->job, "candidates");
	const char *trees[CANDIDATES_MAX];
	size_t count = 0, best = 0, changed = 0;
	struct json *fields;
	int rc;

	for (size_t i = 0; i < js_len(list) && count < CANDIDATES_MAX; i++)
		if (is_tree_id(js_text(js_at(list, i))))
			trees[count++] = js_text(js_at(list, i));
	rc = layer_choose(checkout, tree, trees, count, &best, &changed, err);
	if (rc < 0)
		return rc;
	*base = best < count ? trees[best] : NULL;
	fields = js_object_new();
	js_set_str(fields, "base", *base);
	js_set_int(fields, "changed", (long long)changed);
	event_send("plan", fields);
	return 0;
}

static void report(const struct checkout_stats *stats)
{
	struct json *fields = js_object_new();

	js_set_int(fields, "files", (long long)stats->files + (long long)stats->links);
	js_set_int(fields, "bytes", (long long)stats->bytes);
	js_set_int(fields, "records",
		   (long long)stats->files + (long long)stats->links +
		       (long long)stats->removed);
	js_set_int(fields, "lfs_pointers", (long long)stats->lfs_pointers);
	js_set_int(fields, "submodules", (long long)stats->submodules);
	js_set_int(fields, "encodings_kept", (long long)stats->encodings_kept);
	event_send("result", fields);
}

static int write_layer(struct checkout *checkout, const char *layer, long long worker,
		       const char *base, const char *tree, struct error *err)
{
	AUTO_FREE char *name = mem_printf("manifest-%lld", worker);
	int dir AUTO_FD = open(layer, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int files AUTO_FD =
	    dir < 0 ? -1 : openat(dir, "tree", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int out AUTO_FD =
	    files < 0 ? -1 : openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	struct checkout_manifest manifest = {.fd = out};

	if (out < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", layer);
	checkout->manifest = &manifest;
	return checkout_write(checkout, base, tree, files, err);
}

static int make_layer(const struct stage *stage, const char *layer, struct error *err)
{
	AUTO_REPO struct gitops_repo *repo = NULL;
	struct checkout checkout = {
	    .mtime = layer_base_time, .quick = true, .progress = tell_progress};
	long long worker = js_int(stage->job, "worker", -1);
	const char *tree, *base = js_str(stage->job, "base", NULL);
	int rc = js_need_str(stage->job, "tree", &tree, err);

	if (rc < 0)
		return rc;
	if (!is_tree_id(tree) || (base && !is_tree_id(base)) || worker < 0 ||
	    worker >= WORKERS_MAX)
		return error_set(err, ERROR_USAGE, "job: malformed tree id or number");
	if ((rc = map_board(&checkout.board, err)) < 0 ||
	    (rc = repo_open_job(js_get(stage->job, "paths"), false, &repo, err)) < 0)
		return rc;
	checkout.repo = repo;
	if (js_get(stage->job, "candidates") &&
	    (rc = plan(stage, &checkout, tree, &base, err)) < 0)
		return rc;
	rc = write_layer(&checkout, layer, worker, base, tree, err);
	if (rc == 0)
		report(&checkout.stats);
	return rc;
}

static int run(struct stage *stage, struct error *err)
{
	const char *layer = stage_path(stage, "layer"), *check = stage_path(stage, "check");

	if (check)
		return check_layer(stage, check, err);
	if (!layer)
		return error_set(err, ERROR_USAGE, "job: no layer among its paths");
	return make_layer(stage, layer, err);
}

int main(int argc, char **argv)
{
	return stage_main(argc, argv, NULL, run);
}
