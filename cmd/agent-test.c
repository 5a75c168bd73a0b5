/*
 * NAME
 *	agent-test - lays out exactly one tree, starts the jail, collects its log
 *
 * SYNOPSIS
 *	started by agent(1) alone
 *
 *	FD_JOB {"paths":{"repo","common"?,"alternates"?,"objects"?,"store","scratch"},"tree",
 *		"base_tree","base_layers":[top first],"deps":key|null,"log_bytes":N,"idle_ms":N,"git":bool,"time":seconds of the base}
 *	FD_TREE tree.json of that tree (absent when it is the base's)
 *	FD_SPEC, FD_FACTS for agent-jail
 *	FD_STDIN, FD_STDOUT, FD_STDERR for its payload, or none of them
 *	-> <scratch>/layer, <scratch>/git, FD_LOG the capped log, FD_OUT layout.json:
 *	{"kind":"layout","version":1,"tree","layers":[top first],"home_layers":[...],
 *	"log_bytes":N,"log_truncated":bool}
 *
 *	What differs between base_tree and tree is found from the objects, not believed from
 *	tree.json. The exit facts go from agent-jail to the supervisor; this program has no
 *	verdict to give.
 *
 * SECURITY
 *	Hostile inputs: the repository's objects, the patched tree, the test's output. Reach:
 *	reads the repository, writes the round's directory. No network, no secret;
 *	agent-jail is started before power is given up, by a spec that the supervisor wrote. A
 *	compromise yields a wrong layer, that is, a wrong verdict for this run and for later
 *	ones on the same base tree; not the verdict itself, no secret, no push of another
 *	tree.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "gitops/repo.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/fds.h"
#include "pipeline/layout.h"
#include "pipeline/stage.h"
#include "sandbox/jail_spec.h"
#include "sandbox/jail_start.h"

#define TREE_JSON_MAX ((size_t)64 << 20)

/* Made before power is given up, used after. */
static struct jail_handle jail = {.pid = -1, .go_fd = -1, .output_fd = -1, .take_fd = -1};

/* Still with power: the jail's helper, which waits for the go. */
static int prestart(struct stage *stage, struct error *err)
{
	bool inherit = fd_is_open(FD_STDOUT);

	(void)stage;
	if (!fd_is_open(FD_FACTS) || !fd_is_open(FD_SPEC))
		return error_set(err, ERROR_ISOLATION,
				 "no spec for the jail, or nowhere for its facts");
	return jail_start(&jail, FD_FACTS, FD_SPEC, -1, inherit ? FD_STDIN : -1,
			  inherit ? FD_STDOUT : -1, inherit ? FD_STDERR : -1, err);
}

/* ---- the test ---- */

/* tree.json must speak of the tree that is to be tested. */
static int check_tree_json(const struct layout *layout, struct error *err)
{
	AUTO_JSON struct json *json = NULL;
	int rc;

	if (!fd_is_open(FD_TREE))
		return strcmp(layout->tree, layout->base_tree) == 0
			   ? 0
			   : error_set(err, ERROR_USAGE, "no tree.json for tree %s",
				       layout->tree);
	if (!(json = js_read_fd(FD_TREE, TREE_JSON_MAX, "tree.json", err)))
		return err->kind;
	if ((rc = js_check_kind(json, "tree", 1, err)) < 0)
		return rc;
	if (strcmp(js_str(json, "tree", ""), layout->tree) != 0 ||
	    strcmp(js_str(json, "base_tree", ""), layout->base_tree) != 0)
		return error_set(err, ERROR_USAGE, "tree.json is not about tree %s",
				 layout->tree);
	return 0;
}

static int run_test(const struct stage *stage, struct layout *layout, struct error *err)
{
	AUTO_REPO struct gitops_repo *repo = NULL;
	unsigned long long total = 0;
	int truncated = 0, rc = layout_read(stage, layout, err);

	if (rc == 0)
		rc = check_tree_json(layout, err);
	if (rc == 0)
		rc = repo_open_job(js_get(stage->job, "paths"),
				   stage_path(stage, "objects") != NULL, &repo, err);
	if (rc == 0)
		rc = layout_go(stage, repo, layout, &jail, err);
	if (rc == 0)
		rc = jail_collect(&jail, FD_LOG, (size_t)layout->log_bytes, &total, &truncated,
				  err);
	return rc < 0 ? rc : layout_write(layout, total, truncated != 0, err);
}

static int run(struct stage *stage, struct error *err)
{
	struct layout layout = {.tree = NULL};

	jail_go_init(&layout.go);
	int rc = run_test(stage, &layout, err);
	layout_release(&layout);
	jail_close(&jail);
	return rc;
}

int main(int argc, char **argv)
{
	return stage_main(argc, argv, prestart, run);
}
