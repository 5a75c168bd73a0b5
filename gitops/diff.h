/*
 * The canonical patch of a change: git's diff format, full object ids, a/ and b/, three lines
 * of context, no rename detection, binary files as "GIT binary patch", so that `git apply`
 * makes the very tree again. Files in the order of their paths' bytes. Cost follows the
 * patch.
 */
#ifndef GITOPS_DIFF_H
#define GITOPS_DIFF_H

#include <stddef.h>

#include "gitops/view.h"

struct error;
struct strbuf;

struct diff_stat {
	size_t files, added, removed; /* files; lines of text files */
};

/* Appends the patch of the changes (as view_changes gives them) to out. 0; ERROR_NO when out
 * is full; ERROR_FAILED when old bytes cannot be read. */
int diff_format(struct view *view, const struct view_change *changes, size_t count,
		struct strbuf *out, struct diff_stat *stat, struct error *err);

#endif
