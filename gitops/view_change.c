/*
 * The changing half of gitops/view.h. Every function decides first and changes after: a
 * refused one leaves the view as it was.
 */
#include "view.h"

#include <string.h>

#include "gitops/pathfold.h"
#include "gitops/pathpolicy.h"
#include "gitops/view_internal.h"
#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

/* ---- items ---- */

/* Sets the item of a path (kind VIEW_NONE: deleted); takes data. */
static void set_item(struct view *view, const char *path, enum view_kind kind, char *data,
		     size_t len)
{
	bool exact;
	size_t at = view_find(view, path, strlen(path), &exact);

	if (!exact) {
		if (view->len == view->cap) {
			view->cap = view->cap ? view->cap * 2 : 16;
			view->items = mem_realloc(view->items, view->cap, sizeof(*view->items));
		}
		memmove(view->items + at + 1, view->items + at,
			(view->len - at) * sizeof(*view->items));
		view->items[at] = (struct view_item){.path = mem_strdup(path)};
		view->len++;
	}
	struct view_item *item = &view->items[at];
	view->bytes = view->bytes - item->len + len;
	free(item->data);
	item->kind = kind;
	item->data = data;
	item->len = len;
}

/* Forgets an item: the base shows through again. */
static void drop_item(struct view *view, const char *path)
{
	bool exact;
	size_t at = view_find(view, path, strlen(path), &exact);

	if (!exact)
		return;
	view->bytes -= view->items[at].len;
	free(view->items[at].path);
	free(view->items[at].data);
	memmove(view->items + at, view->items + at + 1,
		(view->len - at - 1) * sizeof(*view->items));
	view->len--;
}

static char *copy_bytes(const char *data, size_t len)
{
	char *copy = mem_calloc(len + 1, 1);

	if (len)
		memcpy(copy, data, len);
	return copy;
}

/* ---- what is refused ---- */

int view_fits(struct view *view, const char *path, size_t len, struct error *err)
{
	const struct view_limits *limits = &view->limits;
	bool exact;
	size_t at = view_find(view, path, strlen(path), &exact);
	uint64_t before = exact ? view->items[at].len : 0;

	if (len > limits->file_bytes)
		return error_set(err, ERROR_NO,
				 "'%s' would have %zu bytes, the limit for a file is %llu",
				 path, len, (unsigned long long)limits->file_bytes);
	if (view->bytes - before + len > limits->bytes)
		return error_set(
		    err, ERROR_NO,
		    "the change would have more than %llu bytes in all its files, the limit",
		    (unsigned long long)limits->bytes);
	if (!exact && view->len >= limits->files)
		return error_set(err, ERROR_NO,
				 "the change would touch more than %zu files, the limit",
				 limits->files);
	return 0;
}

static int collision(struct error *err, const char *path, const char *dir, size_t dir_len,
		     const char *name, size_t name_len)
{
	return error_set(err, ERROR_NO,
			 "path '%s' differs only in upper and lower case, or in how its "
			 "letters are composed, "
			 "from '%.*s%s%.*s', which exists",
			 path, (int)dir_len, dir, dir_len ? "/" : "", (int)name_len, name);
}

/*
 * A new name in the directory path[0..dir_len): no other live name there may be the same but
 * for case, since a checkout on some systems would lose one of the two.
 */
static int check_siblings(struct view *view, const char *path, size_t dir_len, const char *name,
			  size_t name_len, struct error *err)
{
	git_tree *tree;
	int rc = view_base_dir(view, path, dir_len, &tree, err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; tree && i < git_tree_entrycount(tree); i++) {
		const char *other = git_tree_entry_name(git_tree_entry_byindex(tree, i));
		size_t other_len = strlen(other);
		if (!path_same_fold(name, name_len, other, other_len) ||
		    !memcmp(name, other, name_len))
			continue;
		AUTO_FREE char *full = dir_len
					   ? mem_printf("%.*s/%s", (int)dir_len, path, other)
					   : mem_strdup(other);
		enum view_kind kind;
		const struct view_item *item;
		const git_tree_entry *entry;
		if ((rc = view_kind_at(view, full, strlen(full), &kind, &item, &entry, err)) <
		    0)
			return rc;
		if (kind != VIEW_NONE)
			return collision(err, path, path, dir_len,
					 full + (dir_len ? dir_len + 1 : 0), name_len);
		if ((rc = view_base_dir(view, path, dir_len, &tree, err)) < 0)
			return rc;
	}
	for (size_t at = view_first_below(view, path, dir_len);
	     at < view->len && view_is_below(view->items[at].path, path, dir_len); at++) {
		const char *other = view->items[at].path + (dir_len ? dir_len + 1 : 0);
		size_t other_len = strcspn(other, "/");
		if (view->items[at].kind != VIEW_NONE &&
		    path_same_fold(name, name_len, other, other_len) &&
		    memcmp(name, other, name_len) != 0)
			return collision(err, path, path, dir_len, other, other_len);
	}
	return 0;
}

/* All that must hold before bytes may be put at a path. */
static int check_put(struct view *view, const char *path, struct error *err)
{
	size_t len = strlen(path), missing = (size_t)-1;
	enum view_kind kind = VIEW_NONE;
	const struct view_item *item;
	const git_tree_entry *entry;
	int rc = path_check(path, len, err);

	if (rc == 0)
		rc = view_check_way(view, path, &missing, err);
	if (rc == 0)
		rc = view_kind_at(view, path, len, &kind, &item, &entry, err);
	if (rc < 0)
		return rc;
	if (kind == VIEW_DIR || kind == VIEW_LINK || kind == VIEW_SUBMODULE)
		return error_set(err, ERROR_NO, "'%s' is %s and cannot be written as a file",
				 path, view_kind_noun(kind));
	if (kind != VIEW_NONE)
		return 0;
	/* The first name on the way that is new; below it the base has nothing, items
	 * perhaps do. */
	size_t name_end = missing == (size_t)-1 ? len : missing;
	for (;;) {
		const char *slash = memrchr(path, '/', name_end);
		size_t dir_len = slash ? (size_t)(slash - path) : 0,
		       name = slash ? dir_len + 1 : 0;
		rc = check_siblings(view, path, dir_len, path + name, name_end - name, err);
		if (rc < 0 || name_end == len)
			return rc;
		slash = strchr(path + name_end + 1, '/');
		name_end = slash ? (size_t)(slash - path) : len;
	}
}

/* ---- changes ---- */

int view_put(struct view *view, const char *path, enum view_kind kind, const char *data,
	     size_t len, struct error *err)
{
	if (kind != VIEW_FILE && kind != VIEW_EXEC)
		return error_set(err, ERROR_NO, "'%s' can only become a regular file", path);
	int rc = check_put(view, path, err);
	if (rc == 0)
		rc = view_fits(view, path, len, err);
	if (rc < 0)
		return rc;
	set_item(view, path, kind, copy_bytes(data, len), len);
	return 0;
}

static int stat_file(struct view *view, const char *path, struct view_stat *st,
		     struct error *err)
{
	int rc = path_check(path, strlen(path), err);

	if (rc == 0)
		rc = view_stat(view, path, st, err);
	if (rc < 0)
		return rc;
	if (st->kind == VIEW_NONE)
		return error_set(err, ERROR_NO, "no file '%s'", path);
	if (st->kind == VIEW_DIR || st->kind == VIEW_LINK || st->kind == VIEW_SUBMODULE)
		return error_set(err, ERROR_NO, "'%s' is %s; only regular files can be changed",
				 path, view_kind_noun(st->kind));
	return 0;
}

/* Deletes what stat_file accepted. */
static int delete_file(struct view *view, const char *path, struct error *err)
{
	const git_tree_entry *entry;
	const struct view_item *item;
	enum view_kind kind;
	int rc = view_kind_at(view, path, strlen(path), &kind, &item, &entry, err);

	if (rc < 0)
		return rc;
	if (entry && git_tree_entry_type(entry) == GIT_OBJECT_BLOB)
		set_item(view, path, VIEW_NONE, NULL, 0);
	else
		drop_item(view, path); /* new since the base: nothing remains of it */
	return 0;
}

int view_remove(struct view *view, const char *path, struct error *err)
{
	struct view_stat st = {.kind = VIEW_NONE};
	int rc = stat_file(view, path, &st, err);

	if (rc == 0)
		rc = view_fits(view, path, 0, err);
	return rc < 0 ? rc : delete_file(view, path, err);
}

void view_revert(struct view *view, const char *path)
{
	drop_item(view, path);
}

int view_rename(struct view *view, const char *path, const char *to, struct error *err)
{
	struct view_stat st = {.kind = VIEW_NONE};
	AUTO_STRBUF struct strbuf data = STRBUF_NONE;
	int rc = stat_file(view, path, &st, err);

	if (rc < 0)
		return rc;
	strbuf_init(&data, view->limits.file_bytes);
	if ((rc = view_read(view, path, &data, err)) < 0)
		return rc;
	/* Gone first, so that a change of case alone, or a file that becomes a directory of
	 * its own name, is no collision with itself; put back when the new place is refused. */
	if ((rc = view_remove(view, path, err)) < 0)
		return rc;
	rc = view_put(view, to, st.kind, data.data, data.len, err);
	if (rc == 0)
		return 0;
	if (st.changed)
		set_item(view, path, st.kind, copy_bytes(data.data, data.len), data.len);
	else
		drop_item(view, path);
	return rc;
}

int view_base_kind(struct view *view, const char *path, enum view_kind *kind, struct error *err)
{
	enum view_kind now;
	const struct view_item *item;
	const git_tree_entry *entry;
	int rc = view_kind_at(view, path, strlen(path), &now, &item, &entry, err);

	if (rc < 0)
		return rc;
	*kind = entry ? view_kind_of_mode(git_tree_entry_filemode(entry)) : VIEW_NONE;
	return 0;
}

/* ---- going back ---- */

struct view_mark {
	struct view_item *items; /* owned copies */
	size_t len;
	uint64_t bytes;
};

static struct view_item *copy_items(const struct view_item *items, size_t len)
{
	struct view_item *copies = mem_calloc(len + 1, sizeof(*copies));

	for (size_t i = 0; i < len; i++) {
		copies[i] = items[i];
		copies[i].path = mem_strdup(items[i].path);
		copies[i].data = items[i].data ? copy_bytes(items[i].data, items[i].len) : NULL;
	}
	return copies;
}

static void free_items(struct view_item *items, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		free(items[i].path);
		free(items[i].data);
	}
	free(items);
}

struct view_mark *view_save(const struct view *view)
{
	struct view_mark *mark = mem_calloc(1, sizeof(*mark));

	*mark = (struct view_mark){copy_items(view->items, view->len), view->len, view->bytes};
	return mark;
}

void view_restore(struct view *view, const struct view_mark *mark)
{
	free_items(view->items, view->len);
	view->items = copy_items(mark->items, mark->len);
	view->len = mark->len;
	view->cap = mark->len + 1;
	view->bytes = mark->bytes;
}

void view_mark_free(struct view_mark *mark)
{
	if (!mark)
		return;
	free_items(mark->items, mark->len);
	free(mark);
}

/* ---- what changed ---- */

static int fill_change(struct view *view, const struct view_item *item,
		       struct view_change *change, struct error *err)
{
	const struct view_item *same;
	const git_tree_entry *entry;
	enum view_kind kind;
	int rc = view_kind_at(view, item->path, strlen(item->path), &kind, &same, &entry, err);

	if (rc < 0)
		return rc;
	*change = (struct view_change){.path = item->path, .new_kind = item->kind};
	if (entry && git_tree_entry_type(entry) == GIT_OBJECT_BLOB) {
		change->old_kind = view_kind_of_mode(git_tree_entry_filemode(entry));
		git_oid_tostr(change->old_oid, sizeof(change->old_oid),
			      git_tree_entry_id(entry));
	}
	if (item->kind != VIEW_NONE) {
		change->data = item->data;
		change->len = item->len;
		repo_hash_blob(item->data, item->len, change->new_oid);
	}
	return 0;
}

int view_changes(struct view *view, struct view_change **out, size_t *count, struct error *err)
{
	AUTO_FREE struct view_change *changes = mem_calloc(view->len + 1, sizeof(*changes));
	size_t used = 0;

	for (size_t i = 0; i < view->len; i++) {
		struct view_change *change = &changes[used];
		int rc = fill_change(view, &view->items[i], change, err);
		if (rc < 0)
			return rc;
		if (change->old_kind != change->new_kind ||
		    strcmp(change->old_oid, change->new_oid) != 0)
			used++;
	}
	*out = MEM_STEAL(changes);
	*count = used;
	return 0;
}
