/*
 * A change brought into a copy of a repository's index. The repository's own is not written:
 * who holds its lock puts the copy in its place.
 */
#ifndef GITOPS_INDEX_H
#define GITOPS_INDEX_H

#include "gitops/view.h"

/*
 * Reads the index in gitdir (none: an empty one), checks that it has each changed path as the
 * base has it, brings the changes in and writes it to the file copy, which must not be there. 0;
 * ERROR_NO when other changes of a path are staged; ERROR_USAGE for an index that cannot be
 * read (split, sparse); ERROR_FAILED.
 */
int index_update(const char *gitdir, const struct view_change *changes, size_t count,
		 const char *copy, struct error *err);

#endif
