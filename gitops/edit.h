/*
 * The edit engine: applies one edit to a view, or refuses it and says why in words that let a
 * model mend it. It serves both the model stage's instant feedback and the authoritative
 * apply stage, so what was accepted there is accepted here.
 *
 * An edit changes the bytes it names and no others (law L11): line ends, byte-order mark,
 * missing final newline, encoding and mode stay. A replacement is placed by a ladder of ever
 * looser comparisons (reference/git.md 4.2): exact bytes, line ends and trailing blanks
 * ignored, typographic punctuation folded, one consistent map of indentations. The first
 * level that matches at all decides: one place is taken, several are refused naming them all.
 * There is no similarity score.
 */
#ifndef GITOPS_EDIT_H
#define GITOPS_EDIT_H

#include <stdbool.h>
#include <stddef.h>

#include "gitops/view.h"

struct error;
struct strbuf;

enum edit_op {
	EDIT_WRITE,   /* the whole file is content; the file is made or replaced */
	EDIT_REPLACE, /* old becomes text, at exactly count places */
	EDIT_INSERT,  /* text goes behind line number line (0: at the top) */
	EDIT_DELETE,  /* the file is removed */
	EDIT_RENAME,  /* the file moves to another path, its bytes and mode unchanged */
	EDIT_CHMOD,   /* the file's mode becomes mode */
	EDIT_PATCH,   /* hunks of one file, all decided before any is made; see below */
};

/*
 * One hunk of EDIT_PATCH. body: lines that each begin with a mark and end with LF: ' ' context,
 * '-' to be removed, '+' to be added, '?' context whose mark is lost (a blank line without its
 * space; text behind a hunk that may be prose), '\\' the line before has no line end. Search and
 * replace blocks have '-' lines alone and then '+' lines.
 */
struct edit_hunk {
	char *body; /* owned */
	size_t len;
	long line;	 /* of the first old line, from 1 (of a hunk without old lines: the line
			before it); -1: not said */
	char *scope;	 /* owned: whole lines, LF between them, of which the hunk is behind the
			last; or NULL */
	bool must_scope; /* the scope has to be there; else it only helps to choose */
	bool at_end;	 /* the hunk ends with the file */
	bool ordered;	 /* the hunk is behind the one before it */
};

struct edit {
	enum edit_op op;
	char *path; /* owned, as all of these */
	char *to;   /* EDIT_RENAME */
	char *old;  /* EDIT_REPLACE: bytes to find; NUL-terminated behind old_len */
	size_t old_len;
	char *text; /* EDIT_WRITE, REPLACE, INSERT: the new bytes; may be NULL with len 0 */
	size_t text_len;
	long count;  /* EDIT_REPLACE: how many places; 0 means 1; -1 means all (at least one) */
	long line;   /* EDIT_INSERT */
	int mode;    /* EDIT_WRITE: 0 (keep, or 100644), 0100644 or 0100755 */
	bool create; /* EDIT_WRITE, PATCH: the file is made; refuse when it exists */
	bool keep_end; /* EDIT_WRITE: text cannot say whether the last line has an end: the
			  file's way is kept */
	/* EDIT_PATCH; to: the file gets this name too, mode as for EDIT_WRITE */
	bool copy;   /* to is another file, path stays */
	bool remove; /* the file goes away; the hunks hold all of it */
	bool search; /* a search and replace block: line numbers that were copied along, and a
			blank first line, are forgiven */
	bool
	    binary; /* the patch says that the file is binary; text: its new bytes, or NULL: it does
			not hold them */
	bool delta;	       /* binary: text is what makes the new bytes from the old ones
		       (gitops/binpatch.h) */
	char *old_id, *new_id; /* owned: what blob ids begin with, as the patch says; or NULL */
	struct edit_hunk *hunks; /* owned */
	size_t hunk_count;
};

/* Appends a hunk to an EDIT_PATCH; *taken is zeroed. */
void edit_push_hunk(struct edit *edit, struct edit_hunk *taken);

struct edit_list {
	struct edit *items;
	size_t len, cap;
};

void edit_release(struct edit *edit);
void edit_list_release(struct edit_list *list);
void edit_list_push(struct edit_list *list, struct edit *taken); /* *taken is zeroed */

enum edit_code {
	EDIT_OK,
	EDIT_NO_MATCH,	      /* old is not in the file */
	EDIT_AMBIGUOUS,	      /* old is there more often than count says */
	EDIT_ALREADY_APPLIED, /* old is not there but the new text is; nothing was changed */
	EDIT_NOOP,	      /* the edit would change nothing */
	EDIT_EXISTS,	      /* a file is there that should not be */
	EDIT_MISSING_FILE,    /* no such file */
	EDIT_EMPTY_SEARCH,    /* old is empty */
	EDIT_PATH,	      /* the path is refused */
	EDIT_MODE,	      /* links, submodules, other modes */
	EDIT_BINARY,	      /* not a text file */
	EDIT_ENCODING,	      /* the new text cannot be written in the file's encoding */
	EDIT_INDENT,	      /* the new text's indentation cannot be mapped */
	EDIT_RANGE,	      /* no such line */
	EDIT_SHRINK,	      /* a rewrite that drops most of a file */
	EDIT_ELLIPSIS,	      /* old or new leaves something out with "..." */
	EDIT_LIMIT,	      /* too many files or bytes */
	EDIT_NO_ANCHOR,	      /* lines to add, and nothing that says where */
	EDIT_OVERLAP,	      /* two hunks change the same lines */
	EDIT_TRUNCATED,	      /* the text of the edits ends in the middle of one */
	EDIT_MALFORMED,	      /* the text of the edits cannot be read */
};
const char *edit_code_text(enum edit_code code); /* "E_NO_MATCH", …; "ok" */

enum edit_level { LEVEL_EXACT, LEVEL_BLANKS, LEVEL_PUNCTUATION, LEVEL_INDENT };

struct edit_result {
	enum edit_code code;
	enum edit_level level; /* EDIT_REPLACE that was done: how it matched */
	size_t line;	       /* first changed line (from 1), 0 when none */
	size_t places;	       /* places changed */
	char message[4096]; /* one or more lines for the model: what was done, or what to mend;
			       UTF-8, escaped */
};

/*
 * Decides one edit and, when it is EDIT_OK, makes it in the view. 0 whenever it was decided
 * (look at result->code); ERROR_FAILED when the repository could not be read. The view is
 * changed only by EDIT_OK.
 */
int edit_apply(struct view *view, const struct edit *edit, struct edit_result *result,
	       struct error *err);

/*
 * Applies a whole list to a fresh view. The first edit that is refused ends it with ERROR_NO
 * and a message naming its number, path and code; EDIT_ALREADY_APPLIED and EDIT_NOOP count as
 * refused here, since the list was accepted before.
 */
int edit_apply_all(struct view *view, const struct edit_list *list, struct error *err);

/*
 * Tries a list: all of it is made or none. results: one for each edit, of list->len. An edit
 * that is there already does not hinder the others. Edits behind a refused one are decided
 * too, on the state that the accepted ones leave, so that all is told at once. 0 and *outcome:
 * EDIT_OK when the view was changed, EDIT_ALREADY_APPLIED when everything is there already,
 * EDIT_NOOP for an empty list, else the code of the first that was refused (the view is as it
 * was). ERROR_FAILED as edit_apply.
 */
int edit_try(struct view *view, const struct edit_list *list, struct edit_result *results,
	     enum edit_code *outcome, struct error *err);

#endif
