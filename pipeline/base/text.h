/*
 * Hostile text stays text (law L12): validation and escaping of foreign bytes. Pure functions.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct strbuf;

/* Whether the bytes are valid UTF-8 (RFC 3629: no surrogates, no overlong forms). NUL is
 * allowed. */
bool text_is_utf8(const char *data, size_t len);

/*
 * Length in bytes of the valid UTF-8 sequence at data, 0 when there is none; *code is its code
 * point.
 */
size_t text_utf8_next(const char *data, size_t len, unsigned *code);

/* Whether a code point may not be shown raw: C0 (but \t and \n), DEL, C1, bidi controls, line
 * and paragraph separators, invisible format characters, BOM. */
bool text_is_unsafe(unsigned code);

/* What keeps a name or an address from a line of a commit's header: NULL when nothing does; static. */
const char *text_person_fault(const char *text);

/*
 * Copies data for one line of output: unsafe characters and newlines become \n, \t, \xNN or
 * \u{N}; invalid UTF-8 bytes become \xNN. Cut to size (with "…" at the end when cut); always
 * NUL-terminated; never splits a character.
 */
void text_escape(char *dst, size_t size, const char *data, size_t len);

/* As text_escape into a buffer, but newlines and tabs are kept: for several lines. */
void text_escape_lines(struct strbuf *dst, const char *data, size_t len);

/* Replaces every byte that is not valid UTF-8 by U+FFFD and every NUL too: for JSON strings. */
void text_to_utf8(struct strbuf *dst, const char *data, size_t len);

/*
 * A branch-name part from a title: lower-case ASCII letters, digits and single '-', 1 to 48
 * bytes; "change" when nothing is left. dst must hold 64 bytes.
 */
void text_slug(char dst[64], const char *title);

/* Lower-case hex of bytes; dst must hold 2 * len + 1. */
void text_hex(char *dst, const unsigned char *data, size_t len);

/* Whether text is exactly len lower-case hex digits. */
bool text_is_hex(const char *text, size_t len);

/* Base64 of RFC 4648 section 4. Decoding is strict: 0, or -1 when malformed. */
void text_base64(struct strbuf *dst, const char *data, size_t len);
int text_unbase64(struct strbuf *dst, const char *text, size_t len);

/* Parses a whole decimal number with an optional suffix k, m, g (powers of 1024, as
 * git-config). 0 or -1 when malformed, negative or above the limit. */
int text_parse_size(const char *text, long long max, long long *value);

/* Shell-like split of a command line into words: blanks separate; '…', "…" (with \ before " and
 * \) and \c quote; no expansion of any kind. Returns a NULL-terminated array (text_free_words
 * frees it), or NULL when a quote is not closed or no word is there. */
char **text_split_words(const char *text);
void text_free_words(char **words);

/* How many letters must be changed, put in, left out or swapped with their neighbour to make one
 * word of the other (optimal string alignment), case not counting; words of more than
 * TEXT_WORD_MAX bytes are as far apart as can be (SIZE_MAX). */
#define TEXT_WORD_MAX 63
size_t text_distance(const char *a, const char *b);

/* Whether a word is probably a slip of the pen for another: a distance of 1, or of 2 in words of
 * more than five letters. */
bool text_is_slip(const char *typed, const char *meant);

/* The value of a hex digit, -1 for anything else. */
int text_hex_digit(char c);

#endif
