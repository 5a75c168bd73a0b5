/*
 * Trees: a view's changes written as blobs and trees into the quarantine, by one call of the
 * library's tree update (cost follows the patch, not the repository).
 */
#ifndef GITOPS_TREE_H
#define GITOPS_TREE_H

#include <stddef.h>

#include "gitops/view.h"

struct json;

/* Writes the view's changed files and the new trees. 0 and tree. Same as the base when
 * nothing changed. */
int tree_write(struct view *view, char tree[GITOPS_OID_SIZE], struct error *err);

/* One change as tree.json records it. */
struct tree_change {
	const char *path;
	char old_oid[GITOPS_OID_SIZE]; /* "" : was not there */
	char new_oid[GITOPS_OID_SIZE]; /* "" : deleted */
	enum view_kind old_kind, new_kind;
};

/* The tree that base becomes by the changes (old sides are compared with the base first). 0
 * and tree; ERROR_FAILED when the base is not as recorded. Writes the new trees into the
 * quarantine. */
int tree_update(struct gitops_repo *repo, const char *base, const struct tree_change *changes,
		size_t count, char tree[GITOPS_OID_SIZE], struct error *err);

/* The "changes" array of tree.json: from a view; and read again (strict: path policy, modes,
 * oids). The second borrows its strings from the JSON; the caller frees the array. */
struct json *tree_changes_to_json(const struct view_change *changes, size_t count);
int tree_changes_from_json(const struct json *array, struct tree_change **changes,
			   size_t *count, struct error *err);

#endif
