/*
 * Placing the hunks of one file (struct edit_hunk of gitops/edit.h) and making the new bytes:
 * the pure half of EDIT_PATCH. All hunks are placed on the file as it is before any is made.
 * A hunk is read in the few ways that models are known to spoil one (marks of context lines
 * lost, blank lines or words behind it), at each level of the ladder in turn; the first level
 * at which any reading matches decides. Where it matches at several places, what the patch says
 * itself may choose (scope, end of file, order, the strictly nearest line number), and nothing
 * else.
 */
#ifndef GITOPS_EDIT_HUNK_H
#define GITOPS_EDIT_HUNK_H

#include "gitops/edit.h"
#include "gitops/edit_lines.h"

struct strbuf;

struct hunks_report {
	enum edit_code code;   /* EDIT_OK: out has the new bytes; EDIT_ALREADY_APPLIED: all
				  hunks are there; EDIT_NOOP: none changes a line; else that of
				  the first refused hunk */
	enum edit_level level; /* the loosest that was needed */
	size_t line;	       /* first changed line, from 1 */
	size_t places;	       /* hunks made */
	size_t already;	       /* hunks that were there */
};

/*
 * file: bytes without byte-order mark; hunks in the file's encoding; search: as in struct edit.
 * Appends the new bytes to out, or what to say of the refused hunks to message.
 */
void hunks_apply(const struct text_file *file, const struct edit_hunk *hunks, size_t count,
		 bool search, struct hunks_report *report, struct strbuf *message,
		 struct strbuf *out);

/* As git does it: at exactly the lines that the hunks name, byte for byte, line ends included.
 * False when a byte differs (out is then not to be used). */
bool hunks_apply_exactly(const char *raw, size_t len, const struct edit_hunk *hunks,
			 size_t count, struct strbuf *out);

/* The added lines of all hunks, as a new file's bytes. False when there are other lines than
 * added ones (blank ones count as added). */
bool hunks_new_file(const struct edit_hunk *hunks, size_t count, struct strbuf *out);

/* The next line of a hunk's body from *pos on: its mark, its text with a CR, whether a '\\' mark
 * follows (which is passed over). False at the end. */
struct hunk_line {
	char mark;
	const char *text; /* the mark is the byte before */
	size_t len;
	bool open; /* no line end in the file it comes from */
};
bool hunk_next(const struct edit_hunk *hunk, size_t *pos, struct hunk_line *line);

#endif
