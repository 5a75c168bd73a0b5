/*
 * Placing text in text, line by line: the pure part of the edit engine (gitops/edit.h). Works
 * on bytes of any encoding that keeps ASCII; knows no files and no views.
 */
#ifndef GITOPS_EDIT_LINES_H
#define GITOPS_EDIT_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gitops/edit.h"

struct strbuf;

struct line {
	const char *text;
	size_t len;	   /* without the line end */
	unsigned char end; /* bytes of the line end: 0 none, 1 LF, 2 CR LF */
};

struct lines {
	struct line *items; /* owned; they point into the bytes that were split */
	size_t len;
};

/* Splits at LF and, with crlf, at CR LF; a last line without an end counts when it is not
 * empty. */
void lines_split(const char *data, size_t len, bool crlf, struct lines *lines);
void lines_release(struct lines *lines);
#define AUTO_LINES __attribute__((cleanup(lines_release)))

/* Appends data with CR LF as LF. */
void lines_normalise(const char *data, size_t len, struct strbuf *out);

/* Which new line is which old line (a longest common subsequence of equal lines): map[j] is
 * an index into old or -1; the caller frees. */
long *lines_align(const struct lines *old, const struct lines *now);

/* A place where the text to find was found: lines [first, first + count) of the file. */
struct place {
	size_t first, count;
	size_t start, end; /* LEVEL_EXACT: bytes in the normalised file */
};

#define PLACES_MAX 10000		  /* places that are looked for */
#define PLACES_WORK_MAX ((size_t)1 << 26) /* lines compared before the search is given up */

struct places {
	struct place *items; /* owned; in order */
	size_t len, cap;
	bool overlap; /* LEVEL_EXACT: two of them overlap */
	enum edit_level level;
	size_t work; /* lines compared; above PLACES_WORK_MAX: not everything was looked at */
};
void places_release(struct places *places);
#define AUTO_PLACES __attribute__((cleanup(places_release)))

/* A file's bytes (without byte-order mark), prepared. */
struct text_file {
	struct lines lines; /* of the raw bytes */
	const char *norm;   /* with LF only: raw itself or own */
	size_t norm_len;
	char *own;	 /* owned or NULL */
	size_t *offsets; /* owned: where each line begins in norm; one more at the end */
};
void text_file_init(struct text_file *file, const char *raw, size_t len);
void text_file_release(struct text_file *file);
#define AUTO_TEXT_FILE __attribute__((cleanup(text_file_release)))

/* Finds old (LF only) in the file: the first level of the ladder with any match.
 * places->len 0: none. */
void places_find(const struct text_file *file, const char *old, size_t len,
		 struct places *places);

/* Where old may match at any level: the lines agree but for blanks at either end and
 * punctuation. Indices of first lines, owned by the caller. */
size_t *lines_candidates(const struct text_file *file, const struct lines *old, size_t *count);

/* Appends to places the candidates at which whole lines match at this level. */
void places_find_lines(const struct text_file *file, const struct lines *old,
		       enum edit_level level, const size_t *candidates, size_t count,
		       struct places *places);

/* Lines that say something: a search of blank lines alone must be exact. */
bool lines_have_text(const struct lines *lines);

/*
 * Appends the file with now (LF only) in each place of old. Lines that are in old and in now
 * keep the file's bytes; changed lines keep the line end of the line they replace, added ones
 * take their neighbour's. 0, or -1 when an indentation of now cannot be mapped
 * (LEVEL_INDENT).
 */
int places_replace(const struct text_file *file, const struct places *places, const char *old,
		   size_t old_len, const char *now, size_t now_len, struct strbuf *out);

/* Appends the raw lines [from, to) of a file. */
void lines_copy(const struct lines *lines, size_t from, size_t to, struct strbuf *out);

/* The line end that a new line at index at should have ("\n" or "\r\n"): that of the line
 * before, else of the one after, else LF. */
const char *lines_neighbour_end(const struct lines *lines, size_t at);

/* Appends now (LF only) as the file's whole new text, each line with the end that its
 * counterpart or neighbour in the file has. */
void lines_rewrite(const struct lines *file, const char *now, size_t len, struct strbuf *out);

/* Whether two lines are equal at a level below LEVEL_INDENT. */
bool line_equal(const struct line *a, const struct line *b, enum edit_level level);
/* Equal for lines that are equal at any level: blanks at the ends do not count. */
uint64_t line_hash(const struct line *line);
/* Length of a line number that was copied from a listing ("   12<TAB>", "12: ", "12 | ") at
 * the start of a line, and *number; 0 when there is none. */
size_t line_number_prefix(const struct line *line, long *number);
/* Line without leading and trailing blanks, its indentation's length. */
struct line line_trim(const struct line *line, size_t *indent);

#endif
