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
	bool create; /* EDIT_WRITE: refuse when the file exists */
};

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

#endif
