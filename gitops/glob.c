#include "glob.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"

enum token_kind {
	TOKEN_BYTE, /* one given byte */
	TOKEN_ANY,  /* one byte but '/' */
	TOKEN_SET,  /* one byte of a set, never '/' */
	TOKEN_STAR, /* any bytes but '/' */
	TOKEN_ALL,  /* any bytes */
	TOKEN_DIRS, /* nothing, or any bytes and a '/': the "**" and slash in front of something
		     */
};

struct token {
	enum token_kind kind;
	unsigned char byte;
	uint64_t set[4];
};

struct glob {
	bool ignore_case;
	bool base_only; /* no slash in the pattern: the last component is what counts */
	size_t len;
	struct token *tokens;	   /* owned */
	unsigned char *now, *next; /* owned: states, len + 1 each */
};

static unsigned char lower(unsigned char c)
{
	return c >= 'A' && c <= 'Z' ? (unsigned char)(c - 'A' + 'a') : c;
}

static void set_add(struct token *token, unsigned from, unsigned to)
{
	for (unsigned c = from; c <= to && c < 256; c++)
		token->set[c / 64] |= (uint64_t)1 << c % 64;
}

static bool set_has(const struct token *token, unsigned char c)
{
	return token->set[c / 64] >> c % 64 & 1;
}

/* "[:alpha:]" and the like at text; its length, 0 when it is none. */
static size_t add_class(struct token *token, const char *text, size_t len)
{
	static const struct {
		const char *name;
		unsigned char ranges[8]; /* from, to, from, to, … 0 */
	} classes[] = {
	    {"[:alpha:]", {'a', 'z', 'A', 'Z'}},
	    {"[:digit:]", {'0', '9'}},
	    {"[:alnum:]", {'a', 'z', 'A', 'Z', '0', '9'}},
	    {"[:lower:]", {'a', 'z'}},
	    {"[:upper:]", {'A', 'Z'}},
	    {"[:space:]", {' ', ' ', '\t', '\r'}},
	    {"[:xdigit:]", {'0', '9', 'a', 'f', 'A', 'F'}},
	    {"[:punct:]", {'!', '.', ':', '@', '[', '`', '{', '~'}},
	};

	for (size_t i = 0; i < ARRAY_LEN(classes); i++) {
		size_t width = strlen(classes[i].name);
		if (len < width || memcmp(text, classes[i].name, width) != 0)
			continue;
		for (size_t k = 0; k + 1 < sizeof(classes[i].ranges) && classes[i].ranges[k];
		     k += 2)
			set_add(token, classes[i].ranges[k], classes[i].ranges[k + 1]);
		return width;
	}
	return 0;
}

/* A set that opens at text[0] == '['. Its length, 0 when it is not closed. */
static size_t parse_set(struct token *token, const char *text, size_t len)
{
	size_t pos = 1;
	bool negate = pos < len && (text[pos] == '!' || text[pos] == '^');

	pos += negate;
	for (size_t first = pos; pos < len && (text[pos] != ']' || pos == first);) {
		size_t width = add_class(token, text + pos, len - pos);
		if (width) {
			pos += width;
			continue;
		}
		if (text[pos] == '\\' && pos + 1 < len)
			pos++;
		unsigned from = (unsigned char)text[pos++], to = from;
		if (pos + 1 < len && text[pos] == '-' && text[pos + 1] != ']') {
			pos += text[pos + 1] == '\\' && pos + 2 < len ? 2 : 1;
			to = (unsigned char)text[pos++];
		}
		set_add(token, from, to);
	}
	if (pos >= len)
		return 0;
	for (size_t i = 0; negate && i < 4; i++)
		token->set[i] = ~token->set[i];
	return pos + 1;
}

/* The stars at text; how many bytes they take. */
static size_t parse_stars(struct token *token, const char *text, size_t len, bool at_start)
{
	size_t stars = 0;

	while (stars < len && text[stars] == '*')
		stars++;
	token->kind = TOKEN_STAR;
	if (stars == 2 && at_start && stars < len && text[stars] == '/') {
		token->kind = TOKEN_DIRS;
		return stars + 1;
	}
	if (stars == 2 && at_start && stars == len)
		token->kind = TOKEN_ALL;
	return stars;
}

static int compile(struct glob *glob, const char *pattern, size_t len)
{
	for (size_t pos = 0; pos < len;) {
		struct token *token = &glob->tokens[glob->len++];
		char c = pattern[pos];
		if (c == '*') {
			pos += parse_stars(token, pattern + pos, len - pos,
					   pos == 0 || pattern[pos - 1] == '/');
		} else if (c == '?') {
			token->kind = TOKEN_ANY;
			pos++;
		} else if (c == '[') {
			size_t width = parse_set(token, pattern + pos, len - pos);
			if (!width)
				return -1;
			token->kind = TOKEN_SET;
			pos += width;
		} else {
			if (c == '\\' && pos + 1 < len)
				pos++;
			token->kind = TOKEN_BYTE;
			token->byte = (unsigned char)pattern[pos++];
			if (glob->ignore_case)
				token->byte = lower(token->byte);
		}
	}
	return 0;
}

struct glob *glob_new(const char *pattern, size_t len, bool ignore_case, struct error *err)
{
	if (len == 0 || len > GLOB_BYTES_MAX) {
		error_set(err, ERROR_USAGE, "pattern is empty or longer than %d bytes",
			  GLOB_BYTES_MAX);
		return NULL;
	}
	AUTO_GLOB struct glob *glob = mem_calloc(1, sizeof(*glob));
	glob->ignore_case = ignore_case;
	glob->base_only = !memchr(pattern, '/', len);
	if (pattern[0] == '/' && len > 1) {
		pattern++;
		len--;
	}
	glob->tokens = mem_calloc(len, sizeof(*glob->tokens));
	if (compile(glob, pattern, len) < 0) {
		error_set(err, ERROR_USAGE, "pattern '%.*s': '[' without ']'", (int)len,
			  pattern);
		return NULL;
	}
	glob->now = mem_calloc(glob->len + 1, 1);
	glob->next = mem_calloc(glob->len + 1, 1);
	return MEM_STEAL(glob);
}

void glob_free(struct glob *glob)
{
	if (!glob)
		return;
	free(glob->tokens);
	free(glob->now);
	free(glob->next);
	free(glob);
}

void glob_free_ptr(struct glob **glob)
{
	glob_free(*glob);
	*glob = NULL;
}

/* Marks a state and those that follow from it without a byte. */
static void enter(const struct glob *glob, unsigned char *states, size_t at)
{
	while (!states[at]) {
		states[at] = 1;
		if (at == glob->len || glob->tokens[at].kind < TOKEN_STAR)
			return;
		at++; /* STAR, ALL and DIRS may take nothing */
	}
}

static bool set_match(const struct glob *glob, const struct token *token, unsigned char c)
{
	if (set_has(token, c))
		return true;
	return glob->ignore_case &&
	       (set_has(token, lower(c)) ||
		(c >= 'a' && c <= 'z' && set_has(token, (unsigned char)(c - 'a' + 'A'))));
}

/* What one byte does to one state. */
static void step(const struct glob *glob, size_t at, unsigned char c, unsigned char *next)
{
	const struct token *token = &glob->tokens[at];

	switch (token->kind) {
	case TOKEN_BYTE:
		if (token->byte == (glob->ignore_case ? lower(c) : c))
			enter(glob, next, at + 1);
		return;
	case TOKEN_ANY:
		if (c != '/')
			enter(glob, next, at + 1);
		return;
	case TOKEN_SET:
		if (c != '/' && set_match(glob, token, c))
			enter(glob, next, at + 1);
		return;
	case TOKEN_STAR:
		if (c != '/')
			enter(glob, next, at);
		return;
	case TOKEN_ALL:
		enter(glob, next, at);
		return;
	case TOKEN_DIRS:
		next[at] = 1; /* still inside a component: what follows is not entered … */
		if (c == '/')
			enter(glob, next, at + 1); /* … before its slash */
		return;
	}
}

bool glob_match(const struct glob *glob, const char *path, size_t len)
{
	unsigned char *now = glob->now, *next = glob->next;

	if (glob->base_only) {
		const char *slash = memrchr(path, '/', len);
		if (slash) {
			len -= (size_t)(slash + 1 - path);
			path = slash + 1;
		}
	}
	memset(now, 0, glob->len + 1);
	enter(glob, now, 0);
	for (size_t i = 0; i < len; i++) {
		bool any = false;
		memset(next, 0, glob->len + 1);
		for (size_t at = 0; at < glob->len; at++)
			if (now[at])
				step(glob, at, (unsigned char)path[i], next);
		for (size_t at = 0; at <= glob->len; at++)
			any = any || next[at];
		if (!any)
			return false;
		unsigned char *swap = now;
		now = next;
		next = swap;
	}
	return now[glob->len];
}
