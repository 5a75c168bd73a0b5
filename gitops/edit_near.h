/*
 * What a model is told when an edit found no place, or too many: the lines that come nearest,
 * with their numbers. Pure; the text is escaped and bounded.
 */
#ifndef GITOPS_EDIT_NEAR_H
#define GITOPS_EDIT_NEAR_H

#include "gitops/edit_lines.h"

struct strbuf;

/* Appends the passage of the file most like old, and its first difference; says so when
 * nothing is. */
void near_describe(const struct text_file *file, const char *old, size_t len,
		   struct strbuf *out);

/* Appends where the places are: line numbers and the first line of each, at most 20. */
void near_places(const struct text_file *file, const struct places *places, struct strbuf *out);

#endif
