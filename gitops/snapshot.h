/*
 * A throw-away repository for tests that ask git about the tree they run in: the tree as the
 * one commit of branch "main", tagged v0.0.0, without a remote and without any other object:
 * nothing of the history is there to be found. It is a layer of its own above the work tree's
 * layers, so the tested tree does not change and nothing of it is ever read back.
 *
 * The index holds what the files of the layers look like, so that `git status` need not read
 * them. Formats: gitformat-pack(5), gitformat-index(5), gitrepository-layout(5).
 */
#ifndef GITOPS_SNAPSHOT_H
#define GITOPS_SNAPSHOT_H

#include <stddef.h>

#include "gitops/repo.h"

struct error;

struct snapshot {
	struct gitops_repo *repo; /* borrowed */
	const char *tree;	  /* hex id: what the layers make, checked out before */
	long long time;		  /* of the commit: seconds since 1970 */
	const int *layers;	  /* directories, the topmost first; borrowed */
	size_t layer_count;
};

/*
 * Makes <scratch>/<name>/.git; what an earlier try left there is removed. 0; ERROR_NO when the
 * tree is too big for it; ERROR_FAILED.
 */
int snapshot_make(const struct snapshot *snapshot, const char *scratch, const char *name,
		  struct error *err);

#endif
