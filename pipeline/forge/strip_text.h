/*
 * What a page does not show within text: the half of strip.h below the lines. Knows characters, HTML,
 * images, links and code spans; must not know which lines are code. Pure; linear.
 */
#ifndef FORGE_STRIP_TEXT_H
#define FORGE_STRIP_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "pipeline/forge/strip.h"

struct strbuf;

/* Appends text without characters that have no shape or change what stands around them. */
void strip_characters(const char *text, size_t len, struct strbuf *out,
		      struct strip_counts *counts);

/* Appends what is visible of text outside of fenced code. */
void strip_text(const char *text, size_t len, struct strbuf *out, struct strip_counts *counts);

/* Past the marks of quotes and lists in front of a line's text. */
size_t strip_skip_marks(const char *line, size_t len);

/* Whether a line has nothing but blanks. */
bool strip_is_blank(const char *line, size_t len);

#endif
