/*
 * Edits as models write them in text, read into the list that the one engine (gitops/edit.h)
 * applies: search and replace blocks, unified diffs, the apply_patch envelope, whole files, tool
 * arguments. Pure: no files, no repository. What is around the edits (prose, Markdown fences,
 * here-document wrappers) is passed over; an edit that is not whole makes all of it refused.
 *
 * Formats: reference/git.md 4.1. Nothing is guessed here about where an edit belongs; only the
 * path and the lines are taken from the text.
 */
#ifndef GITOPS_EDIT_TEXT_H
#define GITOPS_EDIT_TEXT_H

#include "gitops/edit.h"

enum edit_format {
	FORMAT_AUTO, /* by the first line that begins one */
	FORMAT_UDIFF,
	FORMAT_SEARCH_REPLACE,
	FORMAT_APPLY_PATCH,
	FORMAT_WHOLE,
	FORMAT_TOOL,
};

#define EDIT_TEXT_MAX (32u << 20) /* bytes of one text */

/* "auto", "udiff", "search-replace", "apply-patch", "whole", "tool". False for others. */
bool edit_format_find(const char *name, enum edit_format *format);
const char *edit_format_name(enum edit_format format);

/* Why a text is refused as a whole. */
struct edit_fault {
	enum edit_code code; /* EDIT_MALFORMED, EDIT_TRUNCATED, EDIT_NOOP (no edit in it),
				EDIT_LIMIT */
	size_t line;	     /* of the text, from 1; 0: none */
	char message[512];   /* for the model */
};

/* Appends the text's edits to list and sets *format to what it was read as. 0; -1 with fault,
 * the list as it was. */
int edit_text_parse(const char *data, size_t len, enum edit_format *format,
		    struct edit_list *list, struct edit_fault *fault);

#endif
