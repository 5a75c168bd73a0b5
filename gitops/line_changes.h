/*
 * Which lines a change takes away and which it brings, as multisets: a line that is only moved
 * is neither. Pure; O(n log n) whatever the bytes.
 */
#ifndef GITOPS_LINE_CHANGES_H
#define GITOPS_LINE_CHANGES_H

#include <stdbool.h>
#include <stddef.h>

struct changed_line {
	const char
	    *text; /* borrowed; without its line end and, when trimmed, blanks around it */
	size_t len;
	size_t number; /* from 1: in the new bytes when added, in the old ones when removed */
};

struct line_changes {
	struct changed_line *added, *removed; /* owned; by number; no empty lines */
	size_t added_count, removed_count;
};

/* trimmed: blanks at both ends do not count, so that indenting a line is no change. */
void line_changes_find(const char *old, size_t old_len, const char *now, size_t now_len,
		       bool trimmed, struct line_changes *changes);
void line_changes_release(struct line_changes *changes);

#endif
