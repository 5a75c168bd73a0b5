/*
 * The canonical patch from one tree to another, from the objects alone: for a commit that was
 * made here the very bytes that gitops/diff.h gave, so that a recorded digest of them can be
 * checked anywhere. The path policy is applied on the way.
 */
#ifndef GITOPS_REDERIVE_H
#define GITOPS_REDERIVE_H

#include "gitops/repo.h"

struct error;
struct strbuf;

/* Makes the view, which is of the base tree, one of tree. The same results. */
struct view;
int rederive_view(struct view *view, const char *tree, struct error *err);

/* Trees that may have had a change before: of a merge's other parents. */
struct rederive_others {
	char (*trees)[GITOPS_OID_SIZE]; /* owned by the caller */
	size_t count;
};

/* As rederive_view, but without the paths that are in tree as they are in one of the others. */
int rederive_own(struct view *view, const char *tree, const struct rederive_others *others,
		 struct error *err);

/* Appended to patch. 0; ERROR_NO when a path or kind of file is one that no change of ours may
 * have; ERROR_FAILED when objects are missing. */
int rederive_patch(struct gitops_repo *repo, const char *base_tree, const char *tree,
		   struct strbuf *patch, struct error *err);

#endif
