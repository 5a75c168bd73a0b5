/*
 * What a page does not show but a model would read: taken out of an issue's Markdown before
 * anybody acts on it. HTML comments, attributes of HTML tags, content that browsers never show,
 * alternative texts and titles of images and links, link reference definitions, footnotes that nothing
 * refers to, what stands behind the language of a fence, names of tags that no page has, and characters
 * without a shape or that change the direction of others. Fenced code and code spans are shown as
 * they are, so only their characters are looked at. Pure; linear.
 *
 * Sources: CommonMark 0.31 (HTML blocks 4.6, fences 4.5, definitions 4.7, images 6.4); Unicode UAX
 * #9, UTS #51.
 */
#ifndef FORGE_STRIP_H
#define FORGE_STRIP_H

#include <stddef.h>

struct strbuf;

struct strip_counts {
	size_t comments;    /* HTML comments, and elements that are not shown */
	size_t attributes;  /* HTML tags that had any */
	size_t texts;	    /* alternative texts and titles */
	size_t definitions; /* link reference definitions */
	size_t characters;  /* invisible or direction-changing */
};

/* Appends what is visible to out, adds to counts. text: UTF-8. */
void strip_hidden(const char *text, size_t len, struct strbuf *out,
		  struct strip_counts *counts);

/* "2 comments, 1 invisible character" into dst; "" when nothing was taken out. */
void strip_describe(const struct strip_counts *counts, char *dst, size_t size);

#endif
