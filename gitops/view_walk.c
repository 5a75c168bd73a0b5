/*
 * The walking half of gitops/view.h: lists and searches. Trees are hostile (a dozen objects
 * can spell ten thousand million paths), so every walk has a budget of entries, a depth and a
 * time.
 */
#include "view.h"

#include <stdlib.h>
#include <string.h>

#include "gitops/glob.h"
#include "gitops/pathpolicy.h"
#include "gitops/regex.h"
#include "gitops/view_internal.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

#define WALK_ENTRIES_MAX 2000000
#define HIT_BYTES 400

/* An entry of a directory, base and changes merged. */
struct child {
	char *name; /* owned */
	enum view_kind kind;
	git_oid oid;		      /* of the base's entry, when item is NULL */
	const struct view_item *item; /* the change that put it there */
};

struct children {
	struct child *items;
	size_t len, cap;
};

/* Called for each entry; 0 go on, 1 stop the walk, or an error kind. Directories come before
 * their content; returning 2 for one leaves its content out. */
typedef int visit_fn(void *data, const char *path, const struct child *child,
		     struct error *err);

struct walk {
	struct view *view;
	visit_fn *visit;
	void *data;
	struct strbuf path;
	size_t budget;
	bool cut;
};

static void children_release(struct children *list)
{
	for (size_t i = 0; i < list->len; i++)
		free(list->items[i].name);
	free(list->items);
	*list = (struct children){0};
}

static struct child *add_child(struct children *list, const char *name, size_t len)
{
	if (list->len == list->cap) {
		list->cap = list->cap ? list->cap * 2 : 32;
		list->items = mem_realloc(list->items, list->cap, sizeof(*list->items));
	}
	struct child *child = &list->items[list->len++];
	*child = (struct child){.name = mem_strndup(name, len)};
	return child;
}

/* git's order: a directory sorts as if its name ended in a slash. */
static int compare_children(const void *pa, const void *pb)
{
	const struct child *a = pa, *b = pb;
	size_t a_len = strlen(a->name), b_len = strlen(b->name);
	size_t len = a_len < b_len ? a_len : b_len;
	int rc = memcmp(a->name, b->name, len);

	if (rc)
		return rc;
	int x = a->name[len] ? (unsigned char)a->name[len] : a->kind == VIEW_DIR ? '/' : 0;
	int y = b->name[len] ? (unsigned char)b->name[len] : b->kind == VIEW_DIR ? '/' : 0;
	return x - y;
}

/* The base's entries that are still there. */
static int base_children(struct view *view, struct strbuf *path, git_tree *base,
			 struct children *list, struct error *err)
{
	size_t dir = path->len;
	bool touched = view_first_below(view, path->data, dir) < view->len;
	int rc = 0;

	for (size_t i = 0; base && i < git_tree_entrycount(base) && rc >= 0; i++) {
		const git_tree_entry *entry = git_tree_entry_byindex(base, i);
		const char *name = git_tree_entry_name(entry);
		enum view_kind kind = view_kind_of_mode(git_tree_entry_filemode(entry));
		bool exact = false, lives = true;
		strbuf_addf(path, "%s%s", dir ? "/" : "", name);
		if (touched && kind != VIEW_DIR) {
			view_find(view, path->data, path->len, &exact);
		} else if (touched) {
			size_t at = view_first_below(view, path->data, path->len);
			view_find(view, path->data, path->len, &exact);
			if (exact || (at < view->len && view_is_below(view->items[at].path,
								      path->data, path->len))) {
				git_tree *tree = NULL;
				rc = view_base_dir(view, path->data, path->len, &tree, err);
				if (rc == 0)
					rc = view_dir_lives(view, path->data, path->len, tree,
							    err);
				lives = rc > 0;
				exact = false;
			}
		}
		if (rc >= 0 && lives && !exact) {
			struct child *child = add_child(list, name, strlen(name));
			child->kind = kind;
			git_oid_cpy(&child->oid, git_tree_entry_id(entry));
		}
		path->len = dir;
		path->data[dir] = '\0';
		path->full = false;
	}
	return rc < 0 ? rc : 0;
}

/* What changes put into the directory. */
static void changed_children(struct view *view, const struct strbuf *path, git_tree *base,
			     struct children *list)
{
	size_t skip = path->len ? path->len + 1 : 0;

	for (size_t at = view_first_below(view, path->data, path->len);
	     at < view->len && view_is_below(view->items[at].path, path->data, path->len);
	     at++) {
		const struct view_item *item = &view->items[at];
		const char *name = item->path + skip;
		size_t len = strcspn(name, "/");
		if (item->kind == VIEW_NONE)
			continue;
		if (name[len] == '\0') {
			struct child *child = add_child(list, name, len);
			child->kind = item->kind;
			child->item = item;
			continue;
		}
		const struct child *last = list->len ? &list->items[list->len - 1] : NULL;
		if (last && last->kind == VIEW_DIR && strlen(last->name) == len &&
		    memcmp(last->name, name, len) == 0)
			continue;
		AUTO_FREE char *copy = mem_strndup(name, len);
		const git_tree_entry *entry = base ? git_tree_entry_byname(base, copy) : NULL;
		if (entry && git_tree_entry_type(entry) == GIT_OBJECT_TREE)
			continue; /* listed with the base's */
		add_child(list, name, len)->kind = VIEW_DIR;
	}
}

static bool has_oid(const struct child *child)
{
	return child->kind == VIEW_DIR && !git_oid_is_zero(&child->oid);
}

static int walk_dir(struct walk *walk, git_tree *base, int depth, struct error *err);

/* One entry, its content included. */
static int walk_child(struct walk *walk, const struct child *child, int depth,
		      struct error *err)
{
	size_t dir = walk->path.len;
	git_tree *tree = NULL;

	if (walk->budget == 0 || depth > GITOPS_DEPTH_MAX) {
		walk->cut = true;
		return walk->budget == 0;
	}
	walk->budget--;
	strbuf_addf(&walk->path, "%s%s", dir ? "/" : "", child->name);
	int rc = walk->path.full ? 0 : walk->visit(walk->data, walk->path.data, child, err);
	if (rc == 0 && child->kind == VIEW_DIR && !walk->path.full) {
		if (has_oid(child))
			rc = view_load_tree(walk->view->repo, &child->oid, &tree, err);
		if (rc == 0)
			rc = walk_dir(walk, tree, depth + 1, err);
		git_tree_free(tree);
	}
	walk->cut = walk->cut || walk->path.full;
	walk->path.full = false;
	walk->path.len = dir;
	walk->path.data[dir] = '\0';
	return rc == 2 ? 0 : rc;
}

static int walk_dir(struct walk *walk, git_tree *base, int depth, struct error *err)
{
	struct children list = {NULL, 0, 0};
	int rc = base_children(walk->view, &walk->path, base, &list, err);

	if (rc == 0) {
		size_t before = list.len;
		changed_children(walk->view, &walk->path, base, &list);
		if (list.len > before)
			mem_sort(list.items, list.len, sizeof(*list.items), compare_children);
	}
	for (size_t i = 0; i < list.len && rc == 0; i++)
		rc = walk_child(walk, &list.items[i], depth, err);
	children_release(&list);
	return rc;
}

/* Walks from a path: a directory's content, or the one file that is there. */
static int walk_from(struct walk *walk, const char *under, struct error *err)
{
	struct view_stat st;
	git_tree *tree;
	int rc = view_stat(walk->view, under, &st, err);

	if (rc < 0)
		return rc;
	if (st.kind == VIEW_NONE)
		return error_set(err, ERROR_NO, "no file or directory '%s'", under);
	strbuf_init(&walk->path, PATH_BYTES_MAX);
	strbuf_adds(&walk->path, under);
	walk->budget = WALK_ENTRIES_MAX;
	if (st.kind == VIEW_DIR) {
		rc = view_base_dir(walk->view, under, strlen(under), &tree, err);
		if (rc == 0)
			rc = walk_dir(walk, tree, 1, err);
	} else {
		bool exact;
		size_t at = view_find(walk->view, under, strlen(under), &exact);
		struct child child = {.kind = st.kind,
				      .item = exact ? &walk->view->items[at] : NULL};
		if (!exact)
			git_oid_fromstr(&child.oid, st.oid);
		rc = walk->visit(walk->data, under, &child, err);
	}
	strbuf_release(&walk->path);
	return rc < 0 ? rc : 0;
}

/* ---- list ---- */

struct lister {
	struct view_listing *listing;
	const struct glob *glob;
	bool recursive;
	size_t max, cap;
};

static int list_visit(void *data, const char *path, const struct child *child,
		      struct error *err)
{
	struct lister *lister = data;
	struct view_listing *listing = lister->listing;

	(void)err;
	if (lister->recursive && child->kind == VIEW_DIR)
		return 0;
	if (!lister->glob || glob_match(lister->glob, path, strlen(path))) {
		if (listing->len >= lister->max) {
			listing->cut = true;
			return 1;
		}
		if (listing->len == lister->cap) {
			lister->cap = lister->cap ? lister->cap * 2 : 64;
			listing->items =
			    mem_realloc(listing->items, lister->cap, sizeof(*listing->items));
		}
		listing->items[listing->len++] =
		    (struct view_entry){.path = mem_strdup(path),
					.kind = child->kind,
					.changed = child->item != NULL};
	}
	return child->kind == VIEW_DIR ? 2 : 0;
}

int view_list(struct view *view, const char *under, bool recursive, const char *pattern,
	      size_t max_entries, struct view_listing *listing, struct error *err)
{
	AUTO_GLOB struct glob *glob = NULL;
	struct lister lister = {listing, NULL, recursive, max_entries, 0};
	struct walk walk = {.view = view, .visit = list_visit, .data = &lister};

	*listing = (struct view_listing){0};
	if (pattern && !(glob = glob_new(pattern, strlen(pattern), false, err)))
		return error_set(err, ERROR_NO, "%s", err ? err->message : "bad pattern");
	lister.glob = glob;
	int rc = walk_from(&walk, under, err);
	listing->cut = listing->cut || walk.cut;
	if (rc < 0)
		view_listing_release(listing);
	return rc;
}

void view_listing_release(struct view_listing *listing)
{
	for (size_t i = 0; i < listing->len; i++)
		free(listing->items[i].path);
	free(listing->items);
	*listing = (struct view_listing){0};
}

/* ---- search ---- */

struct searcher {
	const struct view_query *query;
	struct view_hits *hits;
	struct view *view;
	const struct glob *glob;
	struct regex *regex;
	char *needle; /* lower case when case is ignored */
	size_t needle_len;
	uint64_t budget;
	long long deadline;
	size_t cap;
	char *folded; /* owned: a file in lower case */
	size_t folded_cap;
};

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Adds the line around data[at]; 1 when that was the last that is wanted. */
static int add_hit(struct searcher *s, const char *path, const char *data, size_t from,
		   size_t to, size_t line)
{
	struct view_hits *hits = s->hits;
	size_t len = to - from;

	if (len > 0 && data[to - 1] == '\r')
		len--;
	if (len > HIT_BYTES)
		len = HIT_BYTES;
	if (hits->len == s->cap) {
		s->cap = s->cap ? s->cap * 2 : 32;
		hits->items = mem_realloc(hits->items, s->cap, sizeof(*hits->items));
	}
	hits->items[hits->len++] = (struct view_hit){.path = mem_strdup(path),
						     .line = line,
						     .text = mem_strndup(data + from, len),
						     .len = len};
	if (hits->len < s->query->max_hits)
		return 0;
	hits->cut = "too many matches";
	return 1;
}

static size_t count_newlines(const char *data, size_t from, size_t to)
{
	size_t count = 0;

	for (const char *p = data + from;
	     (p = memchr(p, '\n', (size_t)(data + to - p))) != NULL; p++)
		count++;
	return count;
}

/* Plain text: jumps from hit to hit. haystack is data, or data in lower case. */
static int search_plain(struct searcher *s, const char *path, const char *data,
			const char *haystack, size_t len)
{
	size_t pos = 0, line = 1, counted = 0;

	while (pos < len) {
		const char *hit = memmem(haystack + pos, len - pos, s->needle, s->needle_len);
		if (!hit)
			return 0;
		size_t at = (size_t)(hit - haystack);
		const char *before = memrchr(data, '\n', at);
		const char *after = memchr(data + at, '\n', len - at);
		size_t from = before ? (size_t)(before + 1 - data) : 0;
		size_t to = after ? (size_t)(after - data) : len;
		line += count_newlines(data, counted, from);
		counted = from;
		if (add_hit(s, path, data, from, to, line))
			return 1;
		pos = to + 1;
	}
	return 0;
}

static int search_regex(struct searcher *s, const char *path, const char *data, size_t len)
{
	size_t line = 1;

	for (size_t from = 0; from < len; line++) {
		const char *lf = memchr(data + from, '\n', len - from);
		size_t to = lf ? (size_t)(lf - data) : len;
		size_t text = to > from && data[to - 1] == '\r' ? to - 1 : to;
		if (regex_search(s->regex, data + from, text - from) &&
		    add_hit(s, path, data, from, to, line))
			return 1;
		from = to + 1;
		if (line % 4096 == 0 && fd_now_ms() > s->deadline)
			return 0; /* said at the next file */
	}
	return 0;
}

static int search_bytes(struct searcher *s, const char *path, const char *data, size_t len)
{
	if (view_is_binary(data, len)) {
		s->hits->skipped++;
		return 0;
	}
	s->hits->files++;
	if (s->regex)
		return search_regex(s, path, data, len);
	if (!s->query->ignore_case)
		return search_plain(s, path, data, data, len);
	if (s->folded_cap < len) {
		s->folded_cap = len;
		s->folded = mem_realloc(s->folded, len, 1);
	}
	for (size_t i = 0; i < len; i++)
		s->folded[i] = lower(data[i]);
	return search_plain(s, path, data, s->folded, len);
}

/* Whether the search may go on, with len more bytes. */
static bool may_read(struct searcher *s, uint64_t len)
{
	if (fd_now_ms() > s->deadline)
		s->hits->cut = "it took too long";
	else if (len > s->budget)
		s->hits->cut = "too many bytes to read";
	else
		s->budget -= len;
	return !s->hits->cut;
}

static int search_base(struct searcher *s, const char *path, const git_oid *oid,
		       struct error *err)
{
	git_odb *odb = repo_odb(s->view->repo);
	git_odb_object *object = NULL;
	git_object_t type;
	size_t len;

	if (git_odb_read_header(&len, &type, odb, oid) < 0)
		return gitops_error(err, ERROR_FAILED, "'%s'", path);
	if (type != GIT_OBJECT_BLOB || len > s->view->limits.file_bytes) {
		s->hits->skipped++;
		return 0;
	}
	if (!may_read(s, len))
		return 1;
	if (repo_read(s->view->repo, oid, &object) < 0)
		return gitops_error(err, ERROR_FAILED, "'%s'", path);
	int rc =
	    search_bytes(s, path, git_odb_object_data(object), git_odb_object_size(object));
	git_odb_object_free(object);
	return rc;
}

static int search_visit(void *data, const char *path, const struct child *child,
			struct error *err)
{
	struct searcher *s = data;

	if (child->kind != VIEW_FILE && child->kind != VIEW_EXEC)
		return 0;
	if (s->glob && !glob_match(s->glob, path, strlen(path)))
		return 0;
	if (!child->item)
		return search_base(s, path, &child->oid, err);
	if (!may_read(s, child->item->len))
		return 1;
	return search_bytes(s, path, child->item->data, child->item->len);
}

static int search_prepare(struct searcher *s, struct glob **glob, struct error *err)
{
	const struct view_query *query = s->query;

	if (!query->text || !*query->text)
		return error_set(err, ERROR_NO, "nothing to search for");
	s->needle_len = strlen(query->text);
	if (strchr(query->text, '\n'))
		return error_set(err, ERROR_NO,
				 "the search goes line by line; leave the newline out");
	if (query->pattern &&
	    !(*glob = glob_new(query->pattern, strlen(query->pattern), false, err)))
		return error_set(err, ERROR_NO, "%s", err ? err->message : "bad pattern");
	if (query->regex &&
	    !(s->regex = regex_new(query->text, s->needle_len, query->ignore_case, err)))
		return error_set(err, ERROR_NO, "%s", err ? err->message : "bad expression");
	s->glob = *glob;
	s->needle = mem_strdup(query->text);
	for (size_t i = 0; query->ignore_case && i < s->needle_len; i++)
		s->needle[i] = lower(s->needle[i]);
	s->budget = query->max_bytes ? query->max_bytes : (uint64_t)256 << 20;
	s->deadline = fd_now_ms() + (query->max_ms ? query->max_ms : 10000);
	return 0;
}

int view_search(struct view *view, const struct view_query *query, struct view_hits *hits,
		struct error *err)
{
	AUTO_GLOB struct glob *glob = NULL;
	struct searcher s = {.query = query, .hits = hits, .view = view};
	struct walk walk = {.view = view, .visit = search_visit, .data = &s};

	*hits = (struct view_hits){0};
	int rc = search_prepare(&s, &glob, err);
	if (rc == 0)
		rc = walk_from(&walk, query->under ? query->under : "", err);
	if (!hits->cut && walk.cut)
		hits->cut = "too many files, or too deep";
	regex_free(s.regex);
	free(s.needle);
	free(s.folded);
	if (rc < 0)
		view_hits_release(hits);
	return rc;
}

void view_hits_release(struct view_hits *hits)
{
	for (size_t i = 0; i < hits->len; i++) {
		free(hits->items[i].path);
		free(hits->items[i].text);
	}
	free(hits->items);
	*hits = (struct view_hits){0};
}
