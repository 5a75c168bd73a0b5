#include "taken.h"

#include <stdlib.h>
#include <string.h>

#include "gitops/attr.h"
#include "gitops/ignore.h"
#include "gitops/pathpolicy.h"
#include "gitops/view.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

#define LEFT_OUT_MAX 20 /* named ones */

struct walk {
	struct view *view;
	const struct taken_source *source;
	struct ignore_stack *ignore;
	struct attr_stack *attrs; /* as the command left them */
	struct json *deleted, *written, *left_out;
	uint64_t bytes;
	size_t entries; /* that may still come */
	struct error *err;
};

/* A directory that is walked. */
struct place {
	const char *path; /* "" is the root */
	bool in_base;	  /* the base has it as a directory */
	bool ignored;	  /* what is new in it is ignored */
	bool hides;	  /* what is not listed is gone */
	int depth;
};

void taken_dir_release(struct taken_dir *dir)
{
	for (size_t i = 0; i < dir->len; i++)
		free(dir->items[i].name);
	free(dir->items);
	*dir = (struct taken_dir){NULL, 0, false};
}

static char *join(const char *dir, const char *name)
{
	return *dir ? mem_printf("%s/%s", dir, name) : mem_strdup(name);
}

static int refuse(struct walk *w, const char *path, const char *why)
{
	return error_set(w->err, ERROR_NO, "the command %s: '%s'", why, path);
}

/* What the base has; a path that no base may have is nothing there. */
static int base_kind(struct walk *w, const struct place *at, const char *path,
		     enum view_kind *kind)
{
	struct view_stat st = {.kind = VIEW_NONE};
	struct error refused = {0};
	int rc;

	*kind = VIEW_NONE;
	if (!at->in_base)
		return 0;
	rc = view_stat(w->view, path, &st, &refused);
	if (rc < 0 && rc != ERROR_NO) {
		*w->err = refused;
		return rc;
	}
	*kind = rc < 0 ? VIEW_NONE : st.kind;
	return 0;
}

/* ---- results ---- */

static int count(struct walk *w, const char *path, size_t len)
{
	const struct view_limits *limits = view_get_limits(w->view);
	int rc = path_check(path, strlen(path), w->err);

	if (rc < 0)
		return rc;
	if (js_len(w->deleted) + js_len(w->written) >= limits->files) {
		error_set(w->err, ERROR_NO,
			  "the command changed more than %zu files, the limit", limits->files);
		return error_next(w->err,
				  "raise apply.maxFiles, or let .gitignore name what it makes");
	}
	w->bytes += len;
	if (w->bytes <= limits->bytes)
		return 0;
	error_set(w->err, ERROR_NO,
		  "the files that the command changed have more than %llu bytes, the limit",
		  (unsigned long long)limits->bytes);
	return error_next(w->err, "raise apply.maxBytes, or let .gitignore name what it makes");
}

static int note_deleted(struct walk *w, const char *path)
{
	struct json *file;
	int rc = count(w, path, 0);

	if (rc < 0)
		return rc;
	file = js_object_new();
	js_set_str(file, "path", path);
	js_set_bool(file, "deleted", true);
	js_push(w->deleted, file);
	return 0;
}

static int note_written(struct walk *w, const char *path, bool exec, const struct strbuf *bytes)
{
	struct json *file;
	int rc = count(w, path, bytes->len);

	if (rc < 0)
		return rc;
	file = js_object_new();
	js_set_str(file, "path", path);
	js_set_str(file, "mode", view_mode_text(exec ? VIEW_EXEC : VIEW_FILE));
	js_set_bytes(file, "content", bytes->data, bytes->len);
	js_push(w->written, file);
	return 0;
}

/* ---- what is gone ---- */

static int gone(struct walk *w, const char *path, enum view_kind kind)
{
	struct view_listing listing;
	int rc;

	switch (kind) {
	case VIEW_NONE:
		return 0;
	case VIEW_FILE:
	case VIEW_EXEC:
		return note_deleted(w, path);
	case VIEW_LINK:
		return refuse(w, path, "removed a symbolic link");
	case VIEW_SUBMODULE:
		return refuse(w, path, "removed a submodule");
	case VIEW_DIR:
		break;
	}
	rc = view_list(w->view, path, true, NULL, view_get_limits(w->view)->files + 1, &listing,
		       w->err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; rc == 0 && i < listing.len; i++)
		rc = gone(w, listing.items[i].path, listing.items[i].kind);
	view_listing_release(&listing);
	return rc;
}

static int compare_entries(const void *a, const void *b)
{
	return strcmp(((const struct taken_entry *)a)->name,
		      ((const struct taken_entry *)b)->name);
}

static const struct taken_entry *find_entry(const struct taken_dir *dir, const char *name)
{
	size_t low = 0, high = dir->len;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(dir->items[middle].name, name);

		if (order == 0)
			return &dir->items[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

/* What the base has in the directory and the work tree does not list. */
static int hidden(struct walk *w, const struct place *at, const struct taken_dir *dir)
{
	struct view_listing listing;
	int rc;

	if (!at->in_base || !at->hides)
		return 0;
	rc = view_list(w->view, at->path, false, NULL, TAKEN_ENTRIES_MAX, &listing, w->err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; rc == 0 && i < listing.len; i++) {
		const char *slash = strrchr(listing.items[i].path, '/');

		if (!find_entry(dir, slash ? slash + 1 : listing.items[i].path))
			rc = gone(w, listing.items[i].path, listing.items[i].kind);
	}
	view_listing_release(&listing);
	return rc;
}

/* ---- files ---- */

static int read_file(struct walk *w, const char *path, const struct taken_entry *entry,
		     struct strbuf *bytes)
{
	const struct view_limits *limits = view_get_limits(w->view);

	strbuf_init(bytes, limits->file_bytes);
	if (entry->size > limits->file_bytes) {
		error_set(w->err, ERROR_NO,
			  "the command left '%s' with %llu bytes, the limit for a file is %llu",
			  path, (unsigned long long)entry->size,
			  (unsigned long long)limits->file_bytes);
		return error_next(w->err,
				  "let .gitignore name it if it is not meant to be kept");
	}
	return w->source->read(w->source->arg, path, limits->file_bytes, bytes, w->err);
}

static bool same_bytes(const struct strbuf *a, const struct strbuf *b)
{
	return a->len == b->len && (!a->len || memcmp(a->data, b->data, a->len) == 0);
}

/* Whether the bytes are those that a checkout made of the base's file, by the base's attributes: 1, 0 or an error
 * kind. */
static int is_checkout(struct walk *w, const char *path, const struct strbuf *stored,
		       const struct strbuf *bytes)
{
	AUTO_STRBUF struct strbuf expected = STRBUF_NONE;
	struct attr_facts facts;
	struct view_stat st;
	int rc = attr_of_view(w->view, path, &facts, w->err);

	if (rc < 0)
		return rc;
	if (!attr_converts(&facts))
		return same_bytes(stored, bytes);
	if ((rc = view_stat(w->view, path, &st, w->err)) < 0)
		return rc;
	strbuf_init(&expected, STRBUF_MAX);
	attr_convert(&facts, stored->data, stored->len, st.oid, &expected);
	return same_bytes(&expected, bytes);
}

static int take_file(struct walk *w, const char *path, const struct taken_entry *entry,
		     enum view_kind kind)
{
	AUTO_STRBUF struct strbuf bytes = STRBUF_NONE, stored = STRBUF_NONE,
				  clean = STRBUF_NONE;
	const bool exec = entry->mode & 0100;
	struct attr_facts facts;
	int rc = read_file(w, path, entry, &bytes);

	strbuf_init(&stored, view_get_limits(w->view)->file_bytes);
	strbuf_init(&clean, view_get_limits(w->view)->file_bytes);
	if (rc == 0 && kind != VIEW_NONE)
		rc = view_read(w->view, path, &stored, w->err);
	if (rc == 0 && kind != VIEW_NONE)
		rc = is_checkout(w, path, &stored, &bytes);
	if (rc < 0)
		return rc;
	if (rc)
		return exec == (kind == VIEW_EXEC) ? 0 : note_written(w, path, exec, &stored);
	attr_decide(w->attrs, path, &facts);
	if (attr_clean(&facts, bytes.data, bytes.len, stored.data, stored.len, &clean))
		return refuse(
		    w, path,
		    "changed a file that is stored through a filter or in another encoding "
		    "(.gitattributes), which agent does not do");
	if (kind != VIEW_NONE && exec == (kind == VIEW_EXEC) && same_bytes(&clean, &stored))
		return 0;
	return note_written(w, path, exec, &clean);
}

static int take_link(struct walk *w, const char *path, enum view_kind kind)
{
	AUTO_STRBUF struct strbuf target = STRBUF_NONE, stored = STRBUF_NONE;
	int rc;

	if (kind != VIEW_LINK)
		return refuse(w, path, "made a symbolic link, which is not published");
	strbuf_init(&target, PATH_BYTES_MAX + 1);
	strbuf_init(&stored, PATH_BYTES_MAX + 1);
	rc = w->source->read(w->source->arg, path, PATH_BYTES_MAX, &target, w->err);
	if (rc == 0)
		rc = view_read(w->view, path, &stored, w->err);
	if (rc < 0)
		return rc;
	return same_bytes(&target, &stored) ? 0 : refuse(w, path, "changed a symbolic link");
}

/* ---- directories ---- */

static int walk_dir(struct walk *w, const struct place *from);

static int take_dir(struct walk *w, const struct place *at, const char *path,
		    enum view_kind kind)
{
	struct place below = {.path = path,
			      .in_base = kind == VIEW_DIR,
			      .ignored = at->ignored || ignore_match(w->ignore, path, true),
			      .depth = at->depth + 1};

	if (!below.in_base && below.ignored)
		return 0;
	if (below.depth > PATH_DEPTH_MAX)
		return refuse(w, path, "left directories that are nested more than 100 deep");
	return walk_dir(w, &below);
}

/* A submodule's directory is empty in the work tree. */
static int take_submodule(struct walk *w, const char *path, const struct taken_entry *entry)
{
	struct taken_dir dir = {NULL, 0, false};
	int rc;

	if (entry->kind != TAKEN_DIR)
		return refuse(w, path, "replaced a submodule");
	rc = w->source->list(w->source->arg, path, w->entries, &dir, w->err);
	if (rc == 0 && dir.len)
		rc = refuse(w, path, "wrote into a submodule");
	taken_dir_release(&dir);
	return rc;
}

/* Something where the base has nothing, or no longer anything. */
static int take_new(struct walk *w, const struct place *at, const char *path,
		    const struct taken_entry *entry)
{
	const struct taken_source *source = w->source;
	int rc = 0;

	if (entry->kind == TAKEN_DIR)
		return take_dir(w, at, path, VIEW_NONE);
	if (at->ignored || ignore_match(w->ignore, path, false))
		return 0;
	if (source->is_dependency)
		rc = source->is_dependency(source->arg, path, w->err);
	if (rc)
		return rc < 0 ? rc : 0;
	if (entry->kind == TAKEN_FILE)
		return take_file(w, path, entry, VIEW_NONE);
	if (entry->kind == TAKEN_LINK)
		return take_link(w, path, VIEW_NONE);
	if (js_len(w->left_out) < LEFT_OUT_MAX)
		js_push_str(w->left_out, path);
	return 0;
}

/* Entries and ignore rules are the command's: their product is work for hours. */
static int check_time(struct walk *w)
{
	if (!w->source->until_ms || fd_now_ms() < w->source->until_ms)
		return 0;
	error_set(w->err, ERROR_NO, "looking through what the command left takes too long");
	return error_next(w->err, "it has too many files, or rules in .gitignore for them");
}

static int take_entry(struct walk *w, const struct place *at, const char *path,
		      const struct taken_entry *entry)
{
	enum view_kind kind;
	int rc = check_time(w);

	if (rc == 0)
		rc = base_kind(w, at, path, &kind);
	if (rc < 0)
		return rc;
	if (entry->kind == TAKEN_GONE)
		return gone(w, path, kind);
	if (kind == VIEW_SUBMODULE)
		return take_submodule(w, path, entry);
	if (kind == VIEW_LINK)
		return entry->kind == TAKEN_LINK ? take_link(w, path, kind)
						 : refuse(w, path, "replaced a symbolic link");
	if (kind == VIEW_NONE)
		return take_new(w, at, path, entry);
	if (entry->kind == TAKEN_DIR && kind == VIEW_DIR)
		return take_dir(w, at, path, kind);
	if (entry->kind == TAKEN_FILE && kind != VIEW_DIR)
		return take_file(w, path, entry, kind);
	if (entry->kind == TAKEN_OTHER)
		return refuse(w, path,
			      "replaced what the base has by something that is no file");
	rc = gone(w, path, kind); /* a file became a directory, or the other way round */
	return rc < 0 ? rc : take_new(w, at, path, entry);
}

/* A file of rules in a directory, as the command left it; one that is none, or too long, says nothing. */
static int read_rules(struct walk *w, const struct place *at, const struct taken_dir *dir,
		      const char *name, size_t max, struct strbuf *text)
{
	AUTO_FREE char *path = join(at->path, name);
	const struct taken_entry *entry = find_entry(dir, name);
	struct view_stat st = {.kind = VIEW_NONE};
	int rc = 0;

	strbuf_init(text, max);
	if (entry)
		return entry->kind == TAKEN_FILE && entry->size <= max
			   ? w->source->read(w->source->arg, path, max, text, w->err)
			   : 0;
	if (!at->in_base || at->hides)
		return 0;
	rc = view_stat(w->view, path, &st, w->err);
	if (rc == 0 && (st.kind == VIEW_FILE || st.kind == VIEW_EXEC) && st.size <= max)
		rc = view_read(w->view, path, text, w->err);
	return rc;
}

/* leave_rules follows, also after an error. */
static int enter_rules(struct walk *w, const struct place *at, const struct taken_dir *dir)
{
	AUTO_STRBUF struct strbuf ignore = STRBUF_NONE, attrs = STRBUF_NONE;
	int rc = read_rules(w, at, dir, IGNORE_FILE, IGNORE_FILE_MAX, &ignore);

	if (rc == 0)
		rc = read_rules(w, at, dir, ATTR_FILE, ATTR_FILE_MAX, &attrs);
	ignore_push(w->ignore, at->path, rc == 0 ? ignore.data : NULL, ignore.len);
	attr_push(w->attrs, at->path, rc == 0 ? attrs.data : NULL, attrs.len);
	return rc;
}

static void leave_rules(struct walk *w)
{
	ignore_pop(w->ignore);
	attr_pop(w->attrs);
}

static int check_repository(struct walk *w, const struct place *at, const struct taken_dir *dir)
{
	if (!*at->path || at->ignored)
		return 0;
	for (size_t i = 0; i < dir->len; i++)
		if (dir->items[i].kind != TAKEN_GONE &&
		    path_is_dotgit(dir->items[i].name, strlen(dir->items[i].name)))
			return refuse(w, at->path, "left a repository in the tree");
	return 0;
}

static int walk_entries(struct walk *w, const struct place *at, const struct taken_dir *dir)
{
	int rc = check_repository(w, at, dir);

	if (rc == 0)
		rc = hidden(w, at, dir);
	for (size_t i = 0; rc == 0 && i < dir->len; i++) {
		AUTO_FREE char *path = join(at->path, dir->items[i].name);

		/* at the root: the throw-away repository of [test] git, or what became of it */
		if (strcmp(path, ".git") != 0)
			rc = take_entry(w, at, path, &dir->items[i]);
	}
	return rc;
}

static int walk_dir(struct walk *w, const struct place *from)
{
	struct taken_dir dir = {NULL, 0, false};
	struct place at = *from;
	int rc = w->source->list(w->source->arg, at.path, w->entries, &dir, w->err);

	if (rc < 0)
		return rc;
	w->entries -= dir.len;
	mem_sort(dir.items, dir.len, sizeof(*dir.items), compare_entries);
	at.hides = w->source->complete || dir.opaque;
	rc = enter_rules(w, &at, &dir);
	if (rc == 0)
		rc = walk_entries(w, &at, &dir);
	leave_rules(w);
	taken_dir_release(&dir);
	return rc;
}

int taken_collect(struct view *view, const struct taken_source *source, struct json **files,
		  struct json **left_out, struct error *err)
{
	AUTO_IGNORE_STACK struct ignore_stack *ignore = ignore_stack_new();
	AUTO_ATTR_STACK struct attr_stack *attrs = attr_stack_new();
	AUTO_JSON struct json *deleted = js_array_new(), *written = js_array_new(),
			      *special = js_array_new();
	struct walk w = {.view = view,
			 .source = source,
			 .ignore = ignore,
			 .attrs = attrs,
			 .deleted = deleted,
			 .written = written,
			 .left_out = special,
			 .entries = TAKEN_ENTRIES_MAX,
			 .err = err};
	const struct place root = {.path = "", .in_base = true};
	int rc = walk_dir(&w, &root);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < js_len(written); i++)
		js_push(deleted, js_copy(js_at(written, i)));
	*files = MEM_STEAL(deleted);
	*left_out = MEM_STEAL(special);
	return 0;
}

/* ---- the way back ---- */

static int apply_file(struct view *view, const struct json *file, bool deletions,
		      struct error *err)
{
	AUTO_STRBUF struct strbuf bytes = STRBUF_NONE;
	bool deleted = js_bool(file, "deleted", false);
	const char *path, *mode;
	int rc = js_need_str(file, "path", &path, err);

	if (rc < 0 || deleted != deletions)
		return rc;
	if (deleted)
		return view_remove(view, path, err);
	if ((rc = js_need_str(file, "mode", &mode, err)) < 0)
		return rc;
	if (strcmp(mode, "100644") != 0 && strcmp(mode, "100755") != 0)
		return error_set(err, ERROR_USAGE, "'%s': malformed mode", path);
	strbuf_init(&bytes, view_get_limits(view)->bytes);
	rc = js_need_bytes(file, "content", &bytes, err);
	return rc < 0 ? rc
		      : view_put(view, path, mode[3] == '7' ? VIEW_EXEC : VIEW_FILE, bytes.data,
				 bytes.len, err);
}

/* What goes away first: a file may become a directory of its name. */
int taken_apply(struct view *view, const struct json *files, struct error *err)
{
	int rc = 0;

	if (!js_is_array(files))
		return error_set(err, ERROR_USAGE, "changes.json: no files");
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; rc == 0 && i < js_len(files); i++)
			rc = apply_file(view, js_at(files, i), pass == 0, err);
	return rc;
}
