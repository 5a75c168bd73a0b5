/*
 * Growable bytes with a maximum that is given at the start: whoever fills one from outside
 * cannot make it grow past that. Always NUL-terminated behind len, so data may be used as a
 * string where the content has no NUL.
 */
#ifndef BASE_STRBUF_H
#define BASE_STRBUF_H

#include <stdbool.h>
#include <stddef.h>

struct strbuf {
	char *data; /* owned; never NULL after init */
	size_t len; /* bytes used, without the NUL */
	size_t cap; /* bytes allocated */
	size_t max; /* most bytes that len may reach */
	bool full;  /* an addition did not fit: the content is cut and must not be trusted as
		       whole */
};

void strbuf_init(struct strbuf *buf, size_t max_bytes);
void strbuf_release(struct strbuf *buf);
#define AUTO_STRBUF __attribute__((cleanup(strbuf_release)))
/* A released or zeroed strbuf may be released again. STRBUF_MAX bounds what is our own text. */
#define STRBUF_MAX ((size_t)1 << 28)
#define STRBUF_NONE                                                                            \
	{                                                                                      \
		NULL, 0, 0, 0, false                                                           \
	}

/* Each returns 0, or -1 when the maximum is reached (what fits is kept, full is set). */
int strbuf_add(struct strbuf *buf, const void *data, size_t len);
int strbuf_adds(struct strbuf *buf, const char *text);
int strbuf_addc(struct strbuf *buf, char c);
int strbuf_addf(struct strbuf *buf, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Words of text, from a column on: where the next one would go past the width (in characters), a new
 * line begins, indented. Width 0: all in one line. */
int strbuf_add_wrapped(struct strbuf *buf, const char *text, size_t column, size_t indent,
		       size_t width);
void strbuf_reset(struct strbuf *buf);	/* len = 0, memory kept */
char *strbuf_steal(struct strbuf *buf); /* the caller frees; buf is empty and released after */

#endif
