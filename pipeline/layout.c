#include "layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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
#include "sandbox/jail_start.h"

#define LOG_BYTES_DEFAULT (1 << 20)
#define LOG_BYTES_MAX (1 << 30)

int layout_read(const struct stage *stage, struct layout *layout, struct error *err)
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
	layout->log_bytes = js_int(stage->job, "log_bytes", LOG_BYTES_DEFAULT);
	if (layout->log_bytes < 0 || layout->log_bytes > LOG_BYTES_MAX)
		return error_set(err, ERROR_USAGE, "job: log_bytes out of range");
	if (!layout->store || !layout->scratch)
		return error_set(err, ERROR_USAGE, "job: no store or scratch among its paths");
	if (!text_is_hex(layout->tree, GITOPS_OID_SIZE - 1) ||
	    !text_is_hex(layout->base_tree, GITOPS_OID_SIZE - 1) ||
	    (layout->deps && !text_is_hex(layout->deps, 64)))
		return error_set(err, ERROR_USAGE, "job: malformed tree or layer id");
	return 0;
}

void layout_release(struct layout *layout)
{
	jail_go_release(&layout->go);
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
int layout_make(const struct stage *stage, struct gitops_repo *repo, struct layout *layout,
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

/* Without following a link: a layer's links lead wherever its packages wanted, and what is looked for there was not
 * put there by the layer. */
int layout_is_dependency(const struct layout *layout, const char *path, struct error *err)
{
	AUTO_FREE char *work =
	    layout->deps ? mem_printf("%s/deps/%s/work", layout->store, layout->deps) : NULL;
	AUTO_FD int dir = -1, found = -1;

	if (!work)
		return 0;
	dir = open(work, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir >= 0)
		found = fd_open_beneath(dir, path, O_PATH | O_NOFOLLOW, 0);
	if (found >= 0)
		return 1;
	if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == ENAMETOOLONG)
		return 0;
	return error_errno(err, ERROR_FAILED, errno, "'%s' in the dependency layer %.12s", path,
			   layout->deps);
}

/* ---- the record ---- */

static struct json *strings(char *const *list, size_t count)
{
	struct json *array = js_array_new();

	for (size_t i = 0; i < count; i++)
		js_push_str(array, list[i]);
	return array;
}

int layout_write(const struct layout *layout, unsigned long long total, bool truncated,
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

int layout_go(const struct stage *stage, struct gitops_repo *repo, struct layout *layout,
	      struct jail_handle *jail, struct error *err)
{
	if (layout_make(stage, repo, layout, err) || jail_send_go(jail, &layout->go, err))
		return err->kind;
	jail->idle_ms = js_int(stage->job, "idle_ms", 0);
	return 0;
}
