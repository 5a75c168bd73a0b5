/*
 * NAME
 *	agent-change - runs the operator's command on the base's work tree, takes what it changed
 *
 * SYNOPSIS
 *	started by agent(1) alone
 *
 *	FD_JOB {"paths":{"repo","common"?,"alternates"?,"store","scratch"},"tree","base_tree" (the same),
 *		"base_layers":[top first],"deps":key|null,"log_bytes":N,"idle_ms":N,"git":bool,"time":seconds of the base,
 *		"command","network","limits":{"files","bytes"}}
 *	FD_SPEC, FD_FACTS for agent-jail, FD_EGRESS where the command has the registries' network
 *	-> <scratch>/git, FD_LOG the capped log, FD_OUT changes.json: {"kind":"changes","version":1,"base_tree",
 *	"by":"command","command","command_sha256","network","layers":[top first],"files":[…],"left_out":[…]}
 *	(gitops/taken.h)
 *
 *	The exit facts go from agent-jail to the supervisor, which drops the change of a command that failed.
 *
 * SECURITY
 *	Hostile inputs: the repository's objects; the command's output; the work tree that it left, told by the
 *	jail's helper through FD_TAKE (sandbox/jail_take.h) and never opened here. Reach: reads the repository, writes
 *	the round's directory. No network, no secret; agent-jail is started before power is given up, by a spec that
 *	the supervisor wrote. A compromise yields a change of the attacker's choice for one run, as the command itself
 *	can make, and what the repository holds: path policy, jail and tests are still to come.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "gitops/edit_json.h"
#include "gitops/repo.h"
#include "gitops/taken.h"
#include "gitops/view.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/sha256.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/events.h"
#include "pipeline/fds.h"
#include "pipeline/layout.h"
#include "pipeline/stage.h"
#include "sandbox/jail_spec.h"
#include "sandbox/jail_start.h"
#include "sandbox/jail_take.h"

#define TAKE_MS 300000

/* Made before power is given up, used after. */
static struct jail_handle jail = {
    .pid = -1, .go_fd = -1, .output_fd = -1, .takes = true, .take_fd = -1};

/* Still with power: the jail's helper, which waits for the go. */
static int prestart(struct stage *stage, struct error *err)
{
	(void)stage;
	if (!fd_is_open(FD_FACTS) || !fd_is_open(FD_SPEC))
		return error_set(err, ERROR_ISOLATION,
				 "no spec for the jail, or nowhere for its facts");
	return jail_start(&jail, FD_FACTS, FD_SPEC, fd_is_open(FD_EGRESS) ? FD_EGRESS : -1, -1,
			  -1, -1, err);
}

/* ---- the work tree that the command left ---- */

struct work_tree {
	struct jail_take take;
	const struct layout *layout;
};

static const enum taken_kind kinds[256] = {[JAIL_TAKE_FILE] = TAKEN_FILE,
					   [JAIL_TAKE_DIR] = TAKEN_DIR,
					   [JAIL_TAKE_LINK] = TAKEN_LINK,
					   [JAIL_TAKE_WHITEOUT] = TAKEN_GONE,
					   [JAIL_TAKE_OTHER] = TAKEN_OTHER};

static int list_dir(void *arg, const char *path, size_t max, struct taken_dir *dir,
		    struct error *err)
{
	struct work_tree *tree = arg;
	struct jail_take_list list;
	int rc = jail_take_list(&tree->take, path, max, &list, err);

	if (rc < 0)
		return rc;
	*dir = (struct taken_dir){mem_calloc(list.len + 1, sizeof(*dir->items)), list.len,
				  list.opaque};
	for (size_t i = 0; i < list.len; i++) {
		struct jail_take_entry *entry = &list.items[i];

		dir->items[i].kind = kinds[entry->kind];
		dir->items[i].mode = entry->mode;
		dir->items[i].size = entry->size;
		dir->items[i].name = MEM_STEAL(entry->name);
	}
	jail_take_list_release(&list);
	return 0;
}

static int read_path(void *arg, const char *path, uint64_t max, struct strbuf *out,
		     struct error *err)
{
	struct work_tree *tree = arg;

	return jail_take_read(&tree->take, path, max, out, err);
}

static int is_dependency(void *arg, const char *path, struct error *err)
{
	const struct work_tree *tree = arg;

	return layout_is_dependency(tree->layout, path, err);
}

static int read_limits(const struct json *job, struct view_limits *limits, struct error *err)
{
	const struct json *given = js_get(job, "limits");
	long long files, bytes;
	int rc = js_need_int(given, "files", 0, 1000000, &files, err);

	if (rc == 0)
		rc = js_need_int(given, "bytes", 0, (long long)STRBUF_MAX, &bytes, err);
	if (rc < 0)
		return rc;
	*limits = view_limits_default;
	limits->files = (size_t)files;
	limits->bytes = (uint64_t)bytes;
	if (limits->file_bytes > limits->bytes)
		limits->file_bytes = limits->bytes;
	return 0;
}

static int take_changes(const struct stage *stage, struct gitops_repo *repo,
			const struct layout *layout, struct json **files,
			struct json **left_out, struct error *err)
{
	AUTO_VIEW struct view *view = NULL;
	AUTO_FREE struct work_tree *tree = mem_calloc(1, sizeof(*tree));
	struct taken_source source = {
	    .list = list_dir, .read = read_path, .is_dependency = is_dependency, .arg = tree};
	struct view_limits limits;
	int rc = read_limits(stage->job, &limits, err);

	tree->layout = layout;
	source.until_ms = fd_now_ms() + TAKE_MS;
	if (rc == 0)
		rc = jail_take_begin(&tree->take, jail.take_fd, &source.complete, err);
	if (rc == 0 && !(view = view_new(repo, layout->base_tree, &limits, err)))
		rc = err->kind;
	return rc < 0 ? rc : taken_collect(view, &source, files, left_out, err);
}

/* ---- the whole ---- */

static int write_changes(const struct stage *stage, const struct layout *layout,
			 struct json *files, struct json *left_out, struct error *err)
{
	AUTO_JSON struct json *out = js_artefact_new("changes", 1);
	AUTO_STRBUF struct strbuf text = STRBUF_NONE;
	const char *command = js_str(stage->job, "command", "");
	struct json *layers = js_array_new();
	char digest[65];

	sha256_hex(command, strlen(command), digest);
	for (size_t i = 0; i < layout->go.layer_count; i++)
		js_push_str(layers, layout->go.layers[i]);
	js_set_str(out, "base_tree", layout->base_tree);
	js_set_str(out, "by", "command");
	js_set_str(out, "command", command);
	js_set_str(out, "command_sha256", digest);
	js_set_str(out, "network", js_str(stage->job, "network", "none"));
	js_set(out, "layers", layers);
	js_set(out, "files", files);
	js_set(out, "left_out", left_out);
	strbuf_init(&text, CHANGES_BYTES_MAX);
	js_format(out, &text);
	strbuf_addc(&text, '\n');
	if (text.full) {
		error_set(err, ERROR_NO, "the change is larger than %u MiB",
			  (unsigned)(CHANGES_BYTES_MAX >> 20));
		return error_next(err, "lower apply.maxBytes, and let .gitignore name what the "
				       "command makes");
	}
	if (fd_write_all(FD_OUT, text.data, text.len) < 0)
		return error_errno(err, ERROR_FAILED, errno, "changes.json cannot be written");
	return 0;
}

static int run_change(const struct stage *stage, struct layout *layout, struct error *err)
{
	AUTO_REPO struct gitops_repo *repo = NULL;
	struct json *files = NULL, *left_out = NULL;
	unsigned long long total = 0;
	int truncated = 0, rc = layout_read(stage, layout, err);

	if (rc == 0 && strcmp(layout->tree, layout->base_tree) != 0)
		rc = error_set(err, ERROR_USAGE, "job: a command runs on the base's tree");
	if (rc == 0)
		rc = repo_open_job(js_get(stage->job, "paths"), false, &repo, err);
	if (rc == 0)
		rc = layout_go(stage, repo, layout, &jail, err);
	if (rc == 0)
		rc = jail_capture(&jail, FD_LOG, (size_t)layout->log_bytes, &total, &truncated,
				  err);
	if (rc < 0)
		return rc;
	event_progress("looking for what it changed");
	rc = take_changes(stage, repo, layout, &files, &left_out, err);
	return rc < 0 ? rc : write_changes(stage, layout, files, left_out, err);
}

static int run(struct stage *stage, struct error *err)
{
	struct layout layout = {.tree = NULL};

	jail_go_init(&layout.go);
	int rc = run_change(stage, &layout, err);
	layout_release(&layout);
	jail_close(&jail);
	return rc;
}

int main(int argc, char **argv)
{
	return stage_main(argc, argv, prestart, run);
}
