/* What the readers of gitops/edit_text.h share. Not for others. */
#ifndef GITOPS_EDIT_TEXT_INTERNAL_H
#define GITOPS_EDIT_TEXT_INTERNAL_H

#include "gitops/edit_lines.h"
#include "gitops/edit_text.h"

struct strbuf;

/* The text, line by line. */
struct doc {
	struct lines lines; /* of the raw bytes: a CR is part of a line */
	bool crlf;	 /* every line ends in CR LF: that is the text's way, not the edit's */
	bool whole_last; /* the last line has an end */
	struct edit_list *list;
	struct edit_fault *fault;
};

/* A line without trailing blanks and CR; an empty one past the end. */
struct line doc_line(const struct doc *doc, size_t index);
/* A line as content: without the CR that is the text's own. */
struct line doc_content(const struct doc *doc, size_t index);
bool doc_begins(const struct doc *doc, size_t index, const char *prefix);
/* The line's text behind a prefix and blanks; owned. */
char *doc_rest(const struct doc *doc, size_t index, size_t skip);

/* Refuses the text. Returns -1. */
int doc_refuse(const struct doc *doc, enum edit_code code, size_t index, const char *format,
	       ...) __attribute__((format(printf, 4, 5)));

/* An edit in another format than the one that is read would be left out in silence: refuses the
 * text. Returns -1. */
int doc_refuse_mixed(const struct doc *doc, size_t index);

/* A Markdown fence. */
struct fence {
	char mark; /* '`' or '~'; 0: none */
	size_t count;
	const char *info; /* what is written behind it; borrowed */
	size_t info_len;
};
/* Whether a line is a fence, at its very beginning. */
bool fence_at(const struct doc *doc, size_t index, struct fence *fence);
/* Whether it closes the open one. */
bool fence_closes(const struct fence *open, const struct fence *line);

/*
 * The path that a line names, decorated as models do it ("**`src/a.c`**:", "### File: a.c",
 * "`a.c`"); NULL when it is no such line. bare: a single word without dot or slash will do. The
 * caller frees.
 */
char *name_of_line(const char *text, size_t len, bool bare);
/* The path in a fence's info string ("c src/a.c", "python:src/a.py"); NULL. */
char *name_of_fence(const struct fence *fence);

/* Names in a unified diff (edit_text_names.c); the caller frees. */
char *name_unquote(const char *text); /* git's quoting undone */
/* Of a "---" or "+++" line, without its time stamp. */
char *name_of_header(const struct doc *doc, size_t index);
/* Behind the prefix, borrowed; NULL when it does not begin so. */
const char *name_without(const char *name, const char *prefix);
/* The path that a pair means, its prefixes taken off; NULL when it means two files. */
char *name_of_pair(const char *minus, const char *plus);
/* The path of "a/x b/x"; NULL. */
char *name_of_git(const char *names);

/* "12,3": *count is 1 where it is left out. Returns behind it, or NULL. */
const char *parse_range(const char *text, const char *end, long *first, long *count);

/* Adds a body line: its mark from its first byte, '?' when it has none. */
void body_add(const struct doc *doc, size_t index, struct strbuf *body);

/* The binary patch whose first line is *at, which goes to the line behind it; *inflated: bytes of all of
 * them so far. 0, -1 when the text is refused. */
int read_binary(struct doc *doc, size_t *at, size_t *inflated, struct edit *edit);

int read_diff(struct doc *doc);
int read_blocks(struct doc *doc);
int read_envelope(struct doc *doc);
int read_whole(struct doc *doc);
int read_tool(const char *data, size_t len, struct doc *doc);

/* Whether a line begins a format; for choosing one. */
bool is_diff_start(const struct doc *doc, size_t index);
bool is_block_start(const struct doc *doc, size_t index);
bool is_envelope_start(const struct doc *doc, size_t index);

#endif
