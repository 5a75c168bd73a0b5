#include "view.h"

#include <string.h>

#include "gitops/pathpolicy.h"
#include "gitops/view_internal.h"
#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

#define CACHED_DIRS_MAX 4096

const struct view_limits view_limits_default = {
    .files = 200,
    .bytes = 8u << 20,
    .file_bytes = GITOPS_FILE_BYTES_MAX,
};

/* ---- kinds ---- */

enum view_kind view_kind_of_mode(unsigned mode)
{
	switch (mode) {
	case GIT_FILEMODE_TREE:
		return VIEW_DIR;
	case GIT_FILEMODE_LINK:
		return VIEW_LINK;
	case GIT_FILEMODE_COMMIT:
		return VIEW_SUBMODULE;
	case GIT_FILEMODE_BLOB_EXECUTABLE:
		return VIEW_EXEC;
	case GIT_FILEMODE_UNREADABLE:
		return VIEW_NONE;
	default: /* 100644, and 100664 of very old repositories, which the library shows as
		    100644 */
		return VIEW_FILE;
	}
}

const char *view_mode_text(enum view_kind kind)
{
	switch (kind) {
	case VIEW_NONE:
		return "000000";
	case VIEW_FILE:
		return "100644";
	case VIEW_EXEC:
		return "100755";
	case VIEW_LINK:
		return "120000";
	case VIEW_DIR:
		return "040000";
	case VIEW_SUBMODULE:
		return "160000";
	}
	return "000000";
}

bool view_is_binary(const char *data, size_t len)
{
	return memchr(data, '\0', len < 8000 ? len : 8000) != NULL;
}

void view_to_utf8(const char *data, size_t len, bool utf8, struct strbuf *out)
{
	if (utf8) {
		strbuf_add(out, data, len);
		return;
	}
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)data[i];
		if (c >= 0x80)
			strbuf_addc(out, (char)(0xC0 | c >> 6));
		strbuf_addc(out, (char)(c < 0x80 ? c : 0x80 | (c & 0x3F)));
	}
}

/* ---- life ---- */

int view_load_tree(struct gitops_repo *repo, const git_oid *oid, git_tree **tree,
		   struct error *err)
{
	char hex[GITOPS_OID_SIZE];
	enum gitops_type type;
	uint64_t size;

	git_oid_tostr(hex, sizeof(hex), oid);
	int rc = repo_header(repo, hex, &type, &size, err);
	if (rc < 0)
		return rc;
	if (type != GITOPS_TREE)
		return error_set(err, ERROR_FAILED, "object %s is not a tree", hex);
	if (size > GITOPS_TREE_BYTES_MAX)
		return error_set(err, ERROR_FAILED, "tree %s is too big: %llu bytes", hex,
				 (unsigned long long)size);
	if (git_tree_lookup(tree, repo_git(repo), oid) < 0)
		return gitops_error(err, ERROR_FAILED, "tree %s", hex);
	return 0;
}

struct view *view_new(struct gitops_repo *repo, const char *tree,
		      const struct view_limits *limits, struct error *err)
{
	AUTO_VIEW struct view *view = mem_calloc(1, sizeof(*view));
	git_oid oid;

	view->repo = repo;
	view->limits = limits ? *limits : view_limits_default;
	if (!tree || strlen(tree) != GITOPS_OID_SIZE - 1 || git_oid_fromstr(&oid, tree) < 0) {
		error_set(err, ERROR_USAGE, "malformed tree id '%.64s'", tree ? tree : "");
		return NULL;
	}
	memcpy(view->tree, tree, GITOPS_OID_SIZE);
	if (view_load_tree(repo, &oid, &view->root, err) < 0)
		return NULL;
	return MEM_STEAL(view);
}

void view_free(struct view *view)
{
	if (!view)
		return;
	for (size_t i = 0; i < view->len; i++) {
		free(view->items[i].path);
		free(view->items[i].data);
	}
	for (size_t i = 0; i < view->cached; i++) {
		free(view->cache[i].path);
		git_tree_free(view->cache[i].tree);
	}
	free(view->items);
	free(view->cache);
	git_tree_free(view->root);
	free(view);
}

void view_free_ptr(struct view **view)
{
	view_free(*view);
	*view = NULL;
}

struct gitops_repo *view_repo(struct view *view)
{
	return view->repo;
}

const char *view_tree(const struct view *view)
{
	return view->tree;
}

const struct view_limits *view_get_limits(const struct view *view)
{
	return &view->limits;
}

/* ---- the base tree, directory by directory ---- */

/* Orders NUL-free bytes as strcmp does. */
static int compare_bytes(const char *a, size_t a_len, const char *b, size_t b_len)
{
	int rc = memcmp(a, b, a_len < b_len ? a_len : b_len);

	if (rc)
		return rc;
	return a_len < b_len ? -1 : a_len > b_len;
}

static size_t cache_find(const struct view *view, const char *path, size_t len, bool *exact)
{
	size_t low = 0, high = view->cached;

	*exact = false;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const char *have = view->cache[middle].path;
		int rc = compare_bytes(have, strlen(have), path, len);
		if (rc == 0) {
			*exact = true;
			return middle;
		}
		if (rc < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void cache_add(struct view *view, size_t at, const char *path, size_t len,
		      git_tree *tree)
{
	if (view->cached % 64 == 0)
		view->cache = mem_realloc(view->cache, view->cached + 64, sizeof(*view->cache));
	memmove(view->cache + at + 1, view->cache + at,
		(view->cached - at) * sizeof(*view->cache));
	view->cache[at].path = mem_strndup(path, len);
	view->cache[at].tree = tree;
	view->cached++;
}

static void cache_clear(struct view *view)
{
	for (size_t i = 0; i < view->cached; i++) {
		free(view->cache[i].path);
		git_tree_free(view->cache[i].tree);
	}
	view->cached = 0;
}

/* An entry of a tree by name bytes. NULL when there is none. Borrowed from the tree. */
static const git_tree_entry *entry_of(git_tree *tree, const char *name, size_t len)
{
	char copy[PATH_COMPONENT_MAX + 1];

	if (!tree || len > PATH_COMPONENT_MAX)
		return NULL;
	memcpy(copy, name, len);
	copy[len] = '\0';
	return git_tree_entry_byname(tree, copy);
}

int view_base_dir(struct view *view, const char *path, size_t len, git_tree **tree,
		  struct error *err)
{
	size_t depth = 0;

	*tree = view->root;
	for (size_t start = 0; start < len;) {
		const char *slash = memchr(path + start, '/', len - start);
		size_t end = slash ? (size_t)(slash - path) : len;
		bool exact;
		size_t at = cache_find(view, path, end, &exact);
		if (exact) {
			*tree = view->cache[at].tree;
		} else {
			const git_tree_entry *entry =
			    entry_of(*tree, path + start, end - start);
			if (!entry || git_tree_entry_type(entry) != GIT_OBJECT_TREE ||
			    ++depth > GITOPS_DEPTH_MAX) {
				*tree = NULL;
				return 0;
			}
			git_tree *child = NULL;
			int rc =
			    view_load_tree(view->repo, git_tree_entry_id(entry), &child, err);
			if (rc < 0)
				return rc;
			cache_add(view, at, path, end, child);
			*tree = child;
		}
		start = end + 1;
	}
	return 0;
}

/* The base entry at a path: *entry NULL when there is none. Borrowed until the next
 * view_base_dir. */
static int base_entry(struct view *view, const char *path, size_t len,
		      const git_tree_entry **entry, struct error *err)
{
	const char *slash = memrchr(path, '/', len);
	size_t dir = slash ? (size_t)(slash - path) : 0, name = slash ? dir + 1 : 0;
	git_tree *tree;
	int rc = view_base_dir(view, path, dir, &tree, err);

	if (rc < 0)
		return rc;
	*entry = entry_of(tree, path + name, len - name);
	return 0;
}

/* ---- the changes above it ---- */

size_t view_find(const struct view *view, const char *path, size_t len, bool *exact)
{
	size_t low = 0, high = view->len;

	*exact = false;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const char *have = view->items[middle].path;
		int rc = compare_bytes(have, strlen(have), path, len);
		if (rc == 0) {
			*exact = true;
			return middle;
		}
		if (rc < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

size_t view_first_below(const struct view *view, const char *path, size_t len)
{
	bool exact;

	if (len == 0)
		return 0;
	char *prefix = mem_calloc(len + 2, 1);
	memcpy(prefix, path, len);
	prefix[len] = '/';
	size_t at = view_find(view, prefix, len + 1, &exact);
	free(prefix);
	return at;
}

bool view_is_below(const char *item, const char *path, size_t len)
{
	return len == 0 || (strncmp(item, path, len) == 0 && item[len] == '/');
}

/* Whether the base tree of a directory has a file that is not deleted. 1, 0 or
 * ERROR_FAILED. */
static int base_lives(struct view *view, const char *path, size_t len, git_tree *base,
		      int depth, struct error *err)
{
	if (depth > GITOPS_DEPTH_MAX)
		return 1;
	for (size_t i = 0; i < git_tree_entrycount(base); i++) {
		const git_tree_entry *entry = git_tree_entry_byindex(base, i);
		const char *name = git_tree_entry_name(entry);
		AUTO_FREE char *full =
		    len ? mem_printf("%.*s/%s", (int)len, path, name) : mem_strdup(name);
		size_t full_len = strlen(full);
		bool exact;
		view_find(view, full, full_len, &exact);
		if (git_tree_entry_type(entry) != GIT_OBJECT_TREE) {
			if (!exact) /* an item of a base file is counted with the items */
				return 1;
			continue;
		}
		size_t below = view_first_below(view, full, full_len);
		if (below >= view->len ||
		    !view_is_below(view->items[below].path, full, full_len)) {
			if (!exact)
				return 1;
			continue;
		}
		git_tree *child = NULL;
		int rc = view_load_tree(view->repo, git_tree_entry_id(entry), &child, err);
		if (rc < 0)
			return rc;
		rc = base_lives(view, full, full_len, child, depth + 1, err);
		git_tree_free(child);
		if (rc != 0)
			return rc;
	}
	return 0;
}

int view_dir_lives(struct view *view, const char *path, size_t len, git_tree *base,
		   struct error *err)
{
	size_t at = view_first_below(view, path, len);
	bool touched = false;

	for (; at < view->len && view_is_below(view->items[at].path, path, len); at++) {
		touched = true;
		if (view->items[at].kind != VIEW_NONE)
			return 1;
	}
	if (!base)
		return 0;
	return touched ? base_lives(view, path, len, base, 0, err) : 1;
}

/* ---- looking ---- */

/* Refuses what cannot name anything inside the tree, with a reason that helps a model. */
static int check_shape(const char *path, struct error *err)
{
	if (path[0] == '/')
		return error_set(
		    err, ERROR_NO,
		    "path '%s' is absolute; name it relative to the root of the repository",
		    path);
	if (strlen(path) > PATH_BYTES_MAX)
		return error_set(err, ERROR_NO, "path is longer than %d bytes", PATH_BYTES_MAX);
	for (const char *part = path; *part;) {
		size_t len = strcspn(part, "/");
		if (len == 0 || (len == 1 && part[0] == '.') ||
		    (len == 2 && !strncmp(part, "..", 2)))
			return error_set(err, ERROR_NO,
					 "path '%s' has an empty, '.' or '..' component", path);
		part += len;
		if (*part == '/' && *++part == '\0')
			return error_set(err, ERROR_NO, "path '%s' ends in a slash", path);
	}
	return 0;
}

int view_kind_at(struct view *view, const char *path, size_t len, enum view_kind *kind,
		 const struct view_item **item, const git_tree_entry **entry, struct error *err)
{
	bool exact;
	size_t at = view_find(view, path, len, &exact);
	git_tree *dir = NULL;

	*item = NULL;
	int rc = base_entry(view, path, len, entry, err);
	if (rc < 0)
		return rc;
	if (exact && view->items[at].kind != VIEW_NONE) {
		*item = &view->items[at];
		*kind = view->items[at].kind;
		return 0;
	}
	enum view_kind below =
	    *entry ? view_kind_of_mode(git_tree_entry_filemode(*entry)) : VIEW_NONE;
	if (below != VIEW_NONE && below != VIEW_DIR) {
		if (!exact) {
			*kind = below;
			return 0;
		}
		below = VIEW_NONE; /* deleted; perhaps a directory now */
	}
	if (below == VIEW_DIR && (rc = view_base_dir(view, path, len, &dir, err)) < 0)
		return rc;
	if (below == VIEW_DIR && (rc = base_entry(view, path, len, entry, err)) < 0)
		return rc;
	if ((rc = view_dir_lives(view, path, len, dir, err)) < 0)
		return rc;
	*kind = rc ? VIEW_DIR : VIEW_NONE;
	return 0;
}

const char *view_kind_noun(enum view_kind kind)
{
	switch (kind) {
	case VIEW_LINK:
		return "a symbolic link";
	case VIEW_SUBMODULE:
		return "a submodule";
	case VIEW_DIR:
		return "a directory";
	case VIEW_FILE:
	case VIEW_EXEC:
	case VIEW_NONE:
		break;
	}
	return "a file";
}

int view_check_way(struct view *view, const char *path, size_t *missing, struct error *err)
{
	*missing = (size_t)-1;
	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		enum view_kind kind;
		const struct view_item *item;
		const git_tree_entry *entry;
		size_t len = (size_t)(slash - path);
		int rc = view_kind_at(view, path, len, &kind, &item, &entry, err);
		if (rc < 0)
			return rc;
		if (kind == VIEW_NONE) {
			*missing = len;
			return 0;
		}
		if (kind != VIEW_DIR)
			return error_set(err, ERROR_NO, "path '%s' leads through %s: '%.*s'",
					 path, view_kind_noun(kind), (int)len, path);
	}
	return 0;
}

int view_stat(struct view *view, const char *path, struct view_stat *out, struct error *err)
{
	struct view_stat st = {.kind = VIEW_NONE};
	const struct view_item *item = NULL;
	const git_tree_entry *entry = NULL;
	size_t missing;
	int rc = check_shape(path, err);

	if (view->cached > CACHED_DIRS_MAX)
		cache_clear(view);
	if (rc == 0 && *path)
		rc = view_check_way(view, path, &missing, err);
	if (rc < 0)
		return rc;
	if (!*path) {
		st.kind = VIEW_DIR;
		memcpy(st.oid, view->tree, sizeof(st.oid));
		*out = st;
		return 0;
	}
	if ((rc = view_kind_at(view, path, strlen(path), &st.kind, &item, &entry, err)) < 0)
		return rc;
	if (item) {
		st.size = item->len;
		st.changed = true;
		repo_hash_blob(item->data, item->len, st.oid);
	} else if (entry && st.kind == view_kind_of_mode(git_tree_entry_filemode(entry))) {
		git_oid_tostr(st.oid, sizeof(st.oid), git_tree_entry_id(entry));
		enum gitops_type type;
		if (st.kind != VIEW_DIR && st.kind != VIEW_SUBMODULE &&
		    (rc = repo_header(view->repo, st.oid, &type, &st.size, err)) < 0)
			return rc;
	}
	*out = st;
	return 0;
}

int view_read(struct view *view, const char *path, struct strbuf *out, struct error *err)
{
	struct view_stat st;
	bool exact;
	int rc = view_stat(view, path, &st, err);

	if (rc < 0)
		return rc;
	if (st.kind == VIEW_NONE)
		return error_set(err, ERROR_NO, "no file '%s'", path);
	if (st.kind == VIEW_DIR || st.kind == VIEW_SUBMODULE)
		return error_set(err, ERROR_NO, "'%s' is %s", path, view_kind_noun(st.kind));
	if (st.size > view->limits.file_bytes)
		return error_set(
		    err, ERROR_NO, "'%s' is too big: %llu bytes, the limit is %llu", path,
		    (unsigned long long)st.size, (unsigned long long)view->limits.file_bytes);
	size_t at = view_find(view, path, strlen(path), &exact);
	if (!exact || !st.changed)
		rc = repo_blob(view->repo, st.oid, view->limits.file_bytes, out, err);
	else if (strbuf_add(out, view->items[at].data, view->items[at].len) < 0)
		rc = error_set(err, ERROR_NO, "too big for the reader");
	return rc < 0 ? error_wrap(err, "'%s'", path) : 0;
}
