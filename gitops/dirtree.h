/*
 * A directory that is no commit, as a tree to edit: not all of it, only what a list of edits
 * can see. Files are read below the directory without following a link (openat2), so the tree
 * says of a link that it is one. Nothing is written but objects of the quarantine.
 */
#ifndef GITOPS_DIRTREE_H
#define GITOPS_DIRTREE_H

#include "gitops/edit.h"
#include "gitops/repo.h"

/*
 * The tree of the files that the edits name, of what stands in their way, of the names beside new
 * files that differ from them in case alone, and of .gitattributes files on the way. Paths that
 * the path policy refuses are left out: the engine refuses them. file_bytes: the largest file
 * that is read. 0 and tree; ERROR_NO when a file is larger; ERROR_FAILED when one cannot be read.
 */
int dirtree_make(struct gitops_repo *repo, int dirfd, const struct edit_list *list,
		 uint64_t file_bytes, char tree[GITOPS_OID_SIZE], struct error *err);

#endif
