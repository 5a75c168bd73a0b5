/* What view.c (state, changes) and view_walk.c (listing, search) share. Not for others. */
#ifndef GITOPS_VIEW_INTERNAL_H
#define GITOPS_VIEW_INTERNAL_H

#include <git2.h>

#include "gitops/view.h"

/* A changed path: present with bytes, or deleted (kind VIEW_NONE). */
struct view_item {
	char *path; /* owned */
	enum view_kind kind;
	char *data; /* owned; NULL when deleted */
	size_t len;
};

/* A directory's tree that was read on the way to a path. */
struct view_cached {
	char *path; /* owned; "" is the root */
	git_tree *tree;
};

struct view {
	struct gitops_repo *repo; /* borrowed */
	char tree[GITOPS_OID_SIZE];
	struct view_limits limits;
	git_tree *root;
	struct view_item *items; /* sorted by path bytes */
	size_t len, cap;
	uint64_t bytes; /* of all items */
	struct view_cached *cache;
	size_t cached;
};

/* Reads a tree object after looking at its size. 0 or ERROR_FAILED. The caller frees. */
int view_load_tree(struct gitops_repo *repo, const git_oid *oid, git_tree **tree,
		   struct error *err);

/*
 * The base tree of a directory, *tree borrowed from the view's cache; NULL when there is none
 * in the base. 0 or ERROR_FAILED.
 */
int view_base_dir(struct view *view, const char *path, size_t len, git_tree **tree,
		  struct error *err);

/* Index of the first item whose path is not less than the bytes; *exact says whether it
 * equals. */
size_t view_find(const struct view *view, const char *path, size_t len, bool *exact);

/* Whether a directory (a prefix without the slash) holds a file. base: its base tree or NULL.
 * 1, 0, or ERROR_FAILED. */
int view_dir_lives(struct view *view, const char *path, size_t len, git_tree *base,
		   struct error *err);

/* What is at path[0..len), without a look at the way there. *item: the change that put it
 * there, or NULL; *entry: the base's entry, or NULL, borrowed until the next look-up. 0 or
 * ERROR_FAILED. */
int view_kind_at(struct view *view, const char *path, size_t len, enum view_kind *kind,
		 const struct view_item **item, const git_tree_entry **entry,
		 struct error *err);

/* Every proper prefix of path must be a directory or nothing: else ERROR_NO. *missing: length
 * of the first prefix that is not there; (size_t)-1 when all are. */
int view_check_way(struct view *view, const char *path, size_t *missing, struct error *err);

/* "a file", "a symbolic link", … */
const char *view_kind_noun(enum view_kind kind);

/* First item below the directory path[0..len), or view->len; the root has them all. And
 * whether a path is. */
size_t view_first_below(const struct view *view, const char *path, size_t len);
bool view_is_below(const char *item, const char *path, size_t len);

#endif
