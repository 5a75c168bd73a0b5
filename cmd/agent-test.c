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
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gitops/layer.h"
#include "gitops/repo.h"
#include "gitops/snapshot.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/events.h"
#include "pipeline/fds.h"
#include "pipeline/stage.h"
#include "sandbox/jail_spec.h"
#include "sandbox/jail_start.h"

#define TREE_JSON_MAX ((size_t)64 << 20)
#define LOG_BYTES_DEFAULT (1 << 20)

/* Made before power is given up, used after. */
static struct jail_handle jail = {-1, -1, -1, 0};

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* Still with power: the jail's helper, which waits for the go. */
static int prestart(struct stage *stage, struct error *err)
{
	bool inherit = is_open(FD_STDOUT);

	(void)stage;
	if (!is_open(FD_FACTS) || !is_open(FD_SPEC))
		return error_set(err, ERROR_ISOLATION,
				 "no spec for the jail, or nowhere for its facts");
	return jail_start(&jail, FD_FACTS, FD_SPEC, -1, inherit ? FD_STDIN : -1,
			  inherit ? FD_STDOUT : -1, inherit ? FD_STDERR : -1, err);
}

/* ---- layout ---- */

struct layout {
	const char *tree, *base_tree, *store, *scratch; /* borrowed from the job */
	const char *deps;				/* NULL: none */
	struct jail_go go;
	bool git;
	long long time; /* of the base commit */
};

static int read_job(const struct stage *stage, struct layout *layout, struct error *err)
{
	int rc = js_need_str(stage->job, "tree", &layout->tree, err);

	if (rc == 0)
		rc = js_need_str(stage->job, "base_tree", &layout->base_tree, err);
	if (rc < 0)
		return rc;
	layout->store = stage_path(stage, "store");
	layout->scratch = stage_path(stage, "scratch");
	layout->deps = js_str(stage->job, "deps", NULL);
	layout->git = js_bool(stage->job, "git", false);
	layout->time = js_int(stage->job, "time", 0);
	if (!layout->store || !layout->scratch)
		return error_set(err, ERROR_USAGE, "job: no store or scratch among its paths");
	if (!text_is_hex(layout->tree, GITOPS_OID_SIZE - 1) ||
	    !text_is_hex(layout->base_tree, GITOPS_OID_SIZE - 1) ||
	    (layout->deps && !text_is_hex(layout->deps, 64)))
		return error_set(err, ERROR_USAGE, "job: malformed tree or layer id");
	return 0;
}

/* tree.json must speak of the tree that is to be tested. */
static int check_tree_json(const struct layout *layout, struct error *err)
{
	AUTO_JSON struct json *json = NULL;
	int rc;

	if (!is_open(FD_TREE))
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

static void tell_progress(void *data, const struct checkout_stats *stats)
{
	(void)data;
	event_progress("laying out the change: %zu files", stats->files);
}

static void add_layer(struct layout *layout, bool home, const char *format, const char *name)
{
	const char *percent = strchr(format, '%');
	AUTO_FREE char *layer =
	    mem_printf("%.*s%s%s", (int)(percent - format), format, name, percent + 2);

	if (home)
		jail_go_add_home(&layout->go, layer);
	else
		jail_go_add(&layout->go, layer);
}

static bool has_directory(const char *store, const char *deps, const char *part)
{
	AUTO_FREE char *path = mem_printf("%s/deps/%s/%s", store, deps, part);
	struct stat st;

	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* A layer above the others, with a repository that knows nothing but the tree. */
static int add_snapshot(struct gitops_repo *repo, const struct layout *layout,
			struct error *err)
{
	size_t count = layout->go.layer_count - 1;
	AUTO_FREE int *layers = mem_calloc(count + 1, sizeof(*layers));
	const struct snapshot snapshot = {repo, layout->tree, layout->time, layers, count};
	int rc = 0;

	for (size_t i = 0; i < count; i++) {
		const char *name = layout->go.layers[i + 1];
		bool own = strncmp(name, "run/", 4) == 0;
		AUTO_FREE char *path = mem_printf(
		    "%s/%s", own ? layout->scratch : layout->store, own ? name + 4 : name);

		layers[i] = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (layers[i] < 0)
			rc = error_errno(err, ERROR_FAILED, errno, "%s", path);
	}
	if (rc == 0)
		rc = snapshot_make(&snapshot, layout->scratch, "git", err);
	for (size_t i = 0; i < count; i++)
		if (layers[i] >= 0)
			close(layers[i]);
	return rc;
}

/* "base/<tree id>/tree", and no way out of there. */
static bool is_base_layer(const char *name)
{
	return name && strncmp(name, "base/", 5) == 0 && strlen(name) == 5 + 40 + 5 &&
	       strspn(name + 5, "0123456789abcdef") == 40 && strcmp(name + 45, "/tree") == 0;
}

static int add_base_layers(const struct stage *stage, struct layout *layout, struct error *err)
{
	const struct json *list = js_get(stage->job, "base_layers");

	if (js_len(list) == 0)
		return error_set(err, ERROR_USAGE, "job: no base layers");
	for (size_t i = 0; i < js_len(list); i++) {
		if (!is_base_layer(js_text(js_at(list, i))))
			return error_set(err, ERROR_USAGE, "job: malformed name of a layer");
		jail_go_add(&layout->go, js_text(js_at(list, i)));
	}
	return 0;
}

/* The work tree's layers, the topmost first. */
static int lay_out(const struct stage *stage, struct gitops_repo *repo, struct layout *layout,
		   struct error *err)
{
	struct checkout checkout = {.repo = repo, .progress = tell_progress};
	int rc = 0;

	if (layout->git)
		jail_go_add(&layout->go, "run/git");
	if (strcmp(layout->tree, layout->base_tree) != 0) {
		rc = layer_apply(&checkout, layout->base_tree, layout->tree, layout->scratch,
				 "layer", err);
		jail_go_add(&layout->go, "run/layer");
	}
	if (rc < 0)
		return rc;
	if (layout->deps && !has_directory(layout->store, layout->deps, "work") &&
	    !has_directory(layout->store, layout->deps, "home"))
		return error_set(err, ERROR_FAILED,
				 "the dependency layer %s is not in the store", layout->deps);
	if (layout->deps && has_directory(layout->store, layout->deps, "work"))
		add_layer(layout, false, "deps/%s/work", layout->deps);
	if ((rc = add_base_layers(stage, layout, err)) < 0)
		return rc;
	if (layout->deps && has_directory(layout->store, layout->deps, "home"))
		add_layer(layout, true, "deps/%s/home", layout->deps);
	if (checkout.stats.encodings_kept)
		event_progress(
		    "%zu files have an encoding that is not known here and stay UTF-8",
		    checkout.stats.encodings_kept);
	return layout->git ? add_snapshot(repo, layout, err) : 0;
}

/* ---- the test ---- */

static struct json *strings(char *const *list, size_t count)
{
	struct json *array = js_array_new();

	for (size_t i = 0; i < count; i++)
		js_push_str(array, list[i]);
	return array;
}

static int write_layout(const struct layout *layout, unsigned long long total, bool truncated,
			struct error *err)
{
	AUTO_JSON struct json *out = js_artefact_new("layout", 1);
	AUTO_STRBUF struct strbuf text = STRBUF_NONE;

	js_set_str(out, "tree", layout->tree);
	js_set(out, "layers", strings(layout->go.layers, layout->go.layer_count));
	js_set(out, "home_layers", strings(layout->go.home_layers, layout->go.home_count));
	js_set_int(out, "log_bytes", (long long)total);
	js_set_bool(out, "log_truncated", truncated);
	strbuf_init(&text, STRBUF_MAX);
	js_format(out, &text);
	strbuf_addc(&text, '\n');
	if (fd_write_all(FD_OUT, text.data, text.len) < 0)
		return error_errno(err, ERROR_FAILED, errno, "layout.json cannot be written");
	return 0;
}

static int run_test(const struct stage *stage, struct layout *layout, struct error *err)
{
	AUTO_REPO struct gitops_repo *repo = NULL;
	unsigned long long total = 0;
	int truncated = 0, rc = read_job(stage, layout, err);
	long long log_bytes = js_int(stage->job, "log_bytes", LOG_BYTES_DEFAULT);

	if (rc == 0 && (log_bytes < 0 || log_bytes > (long long)1 << 30))
		rc = error_set(err, ERROR_USAGE, "job: log_bytes out of range");
	if (rc == 0)
		rc = check_tree_json(layout, err);
	if (rc == 0)
		rc = repo_open_job(js_get(stage->job, "paths"),
				   stage_path(stage, "objects") != NULL, &repo, err);
	if (rc == 0)
		rc = lay_out(stage, repo, layout, err);
	if (rc == 0)
		rc = jail_send_go(&jail, &layout->go, err);
	jail.idle_ms = js_int(stage->job, "idle_ms", 0);
	if (rc == 0)
		rc = jail_collect(&jail, FD_LOG, (size_t)log_bytes, &total, &truncated, err);
	return rc < 0 ? rc : write_layout(layout, total, truncated != 0, err);
}

static int run(struct stage *stage, struct error *err)
{
	struct layout layout = {.tree = NULL};

	jail_go_init(&layout.go);
	int rc = run_test(stage, &layout, err);
	jail_go_release(&layout.go);
	jail_close(&jail);
	return rc;
}

int main(int argc, char **argv)
{
	return stage_main(argc, argv, prestart, run);
}
