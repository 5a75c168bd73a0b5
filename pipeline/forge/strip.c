#include "strip.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/forge/strip_text.h"

#define SEARCHES_MAX 100 /* footnotes that are looked for: the text is gone through for each */
#define LANGUAGE_MAX 20	 /* bytes of a language's name behind a fence */

struct block {
	char fence; /* '`' or '~' while in fenced code */
	size_t fence_len;
	bool html; /* within an HTML block: what looks like a fence is none */
};

static size_t indent_of(const char *line, size_t len)
{
	size_t indent = 0;

	while (indent < len && line[indent] == ' ')
		indent++;
	return indent;
}

/* How many fence characters a line begins with, 0 when it opens or closes none. */
static size_t fence_of(const char *line, size_t len, char *mark)
{
	size_t indent = indent_of(line, len), count = 0;

	if (indent > 3 || indent >= len || (line[indent] != '`' && line[indent] != '~'))
		return 0;
	*mark = line[indent];
	while (indent + count < len && line[indent + count] == *mark)
		count++;
	/* an info string of backticks has none */
	if (*mark == '`' && memchr(line + indent + count, '`', len - indent - count))
		return 0;
	return count >= 3 ? count : 0;
}

/* "[LABEL]: DESTINATION": shown nowhere. What is behind the colon, NULL when it is none. */
static const char *definition(const char *line, size_t len)
{
	size_t begin = strip_skip_marks(line, len), at = begin;

	if (at >= len || line[at] != '[')
		return NULL;
	for (at++; at < len && line[at] != ']' && line[at] != '\n'; at++)
		if (line[at] == '\\')
			at++;
	if (at == begin + 1 || at + 1 >= len || line[at] != ']' || line[at + 1] != ':')
		return NULL;
	return line + at + 2;
}

enum unseen { /* what the lines before were */
	      SEEN,
	      BARE,    /* a definition whose destination is to come */
	      DEFINED, /* one that may have a title on the next line */
	      TITLE,   /* within such a title */
	      FOOTNOTE /* a footnote that nothing refers to */
};

struct definitions {
	enum unseen before;
	size_t searches; /* for what refers to a footnote */
};

/* Whether a footnote's definition, whose line this is, is one that the text refers to: others are
 * not shown. */
static bool is_referred_to(struct definitions *state, const char *text, size_t text_len,
			   const char *line, size_t len)
{
	size_t begin = strip_skip_marks(line, len);
	const char *end = memchr(line + begin, ']', len - begin), *at = text;
	size_t label = end ? (size_t)(end - line) + 1 - begin : 0;

	if (state->searches++ >= SEARCHES_MAX)
		return false;
	while (label &&
	       (at = memmem(at, text_len - (size_t)(at - text), line + begin, label))) {
		const char *behind = at + label;

		if (behind >= text + text_len || *behind != ':')
			return true;
		at = behind;
	}
	return false;
}

/* What a line of a definition leaves: text is the part with destination or title. */
static enum unseen after_definition(const char *text, size_t len)
{
	size_t open = 0;

	while (len && strchr(" \t\r\n", text[len - 1]))
		len--;
	if (!len)
		return BARE;
	while (open < len &&
	       !(strchr("\"'(", text[open]) && (!open || strchr(" \t", text[open - 1]))))
		open++;
	if (open == len)
		return DEFINED;
	return len - open > 1 && strchr("\"')", text[len - 1]) ? SEEN : TITLE;
}

/* Whether a line is a definition or goes on with one. */
static bool is_unseen(struct definitions *state, const char *text, size_t text_len,
		      const char *line, size_t len)
{
	enum unseen *before = &state->before;
	const char *behind = definition(line, len);
	size_t skip = strip_skip_marks(line, len);
	bool blank = strip_is_blank(line, len);

	if (behind && line[skip + 1] == '^') {
		*before = is_referred_to(state, text, text_len, line, len) ? SEEN : FOOTNOTE;
		return *before == FOOTNOTE;
	}
	if (behind) {
		*before = after_definition(behind, (size_t)(line + len - behind));
		return true;
	}
	if (!blank && *before == TITLE) {
		size_t end = len;

		while (strchr(" \t\r\n", line[end - 1]))
			end--;
		*before = strchr("\"')", line[end - 1]) ? SEEN : TITLE;
		return true;
	}
	if (!blank && (*before == BARE || (*before == DEFINED && strchr("\"'(", line[skip])))) {
		*before = after_definition(line, len);
		return true;
	}
	if (*before == FOOTNOTE && (blank || indent_of(line, len) >= 4 || *line == '\t'))
		return true;
	if (*before == FOOTNOTE && !blank) /* a lazy line of its paragraph, or none of it */
		*before =
		    line > text + 1 && line[-1] == '\n' && line[-2] == '\n' ? SEEN : FOOTNOTE;
	else
		*before = SEEN;
	return *before == FOOTNOTE;
}

/* Moves the state past a line; whether the line is code. */
static bool is_code_line(struct block *block, const char *line, size_t len)
{
	char mark = '\0';
	size_t count = fence_of(line, len, &mark), indent = indent_of(line, len);

	if (block->fence) {
		bool closes = mark == block->fence && count >= block->fence_len &&
			      strip_is_blank(line + indent + count, len - indent - count);
		if (closes)
			block->fence = '\0';
		return true;
	}
	if (strip_is_blank(line, len))
		block->html = false;
	else if (indent <= 3 && indent < len && line[indent] == '<')
		block->html = true;
	if (count && !block->html) {
		block->fence = mark;
		block->fence_len = count;
		return true;
	}
	return false;
}

/* Whether a comment is open behind a line. */
static bool comment_open(bool open, const char *line, size_t len)
{
	for (size_t at = 0; at < len;) {
		const char *next = open ? memmem(line + at, len - at, "-->", 3)
					: memmem(line + at, len - at, "<!--", 4);

		if (!next)
			break;
		at = (size_t)(next - line) + (open ? 3 : 2);
		open = !open;
	}
	return open;
}

/* A line that opens fenced code, without what is behind the name of its language, which no page
 * shows; true when it is one. Within quotes and lists, too. */
static bool put_fence_line(const char *line, size_t len, struct strbuf *out,
			   struct strip_counts *counts)
{
	size_t at = strip_skip_marks(line, len), begin, name;
	char mark = at < len ? line[at] : '\0';

	if (mark != '`' && mark != '~')
		return false;
	for (begin = at; at < len && line[at] == mark;)
		at++;
	if (at - begin < 3 || (mark == '`' && memchr(line + at, '`', len - at)))
		return false;
	while (at < len && (line[at] == ' ' || line[at] == '\t'))
		at++;
	for (name = at; at < len && at - name < LANGUAGE_MAX &&
			(isalpha((unsigned char)line[at]) ||
			 (line[at] && strchr("0123456789+#._-", line[at])));)
		at++;
	if (strip_is_blank(line + at, len - at))
		return false; /* nothing behind it: stays as it is */
	strbuf_add(out, line, at);
	strbuf_addc(out, '\n');
	counts->texts++;
	return true;
}

/* A piece of text between code: definitions go first, then what lies within lines. */
static void flush(struct strbuf *piece, struct strbuf *out, struct strip_counts *counts)
{
	strip_text(piece->data, piece->len, out, counts);
	strbuf_reset(piece);
}

void strip_hidden(const char *text, size_t len, struct strbuf *out, struct strip_counts *counts)
{
	struct strbuf plain AUTO_STRBUF = STRBUF_NONE, piece AUTO_STRBUF = STRBUF_NONE;
	struct block block = {'\0', 0, false};
	struct definitions state = {.before = SEEN};
	bool open = false; /* within a comment, which swallows what looks like a fence */

	strbuf_init(&plain, STRBUF_MAX);
	strbuf_init(&piece, STRBUF_MAX);
	strip_characters(text, len, &plain, counts);
	for (size_t at = 0; at < plain.len;) {
		const char *line = plain.data + at;
		const char *end = memchr(line, '\n', plain.len - at);
		size_t size = end ? (size_t)(end - line) + 1 : plain.len - at;
		char fence = block.fence;
		if (!open && is_code_line(&block, line, size)) {
			flush(&piece, out, counts);
			if (fence || !put_fence_line(line, size, out, counts))
				strbuf_add(out, line, size);
		} else if (!open && put_fence_line(line, size, &piece, counts)) {
			/* of a fence within a quote or list */
		} else if (!open && !block.html &&
			   is_unseen(&state, plain.data, plain.len, line, size)) {
			counts->definitions++;
		} else {
			strbuf_add(&piece, line, size);
			open = comment_open(open, line, size);
		}
		at += size;
	}
	flush(&piece, out, counts);
}

void strip_describe(const struct strip_counts *counts, char *dst, size_t size)
{
	const struct {
		size_t count;
		const char *one, *many;
	} parts[] = {
	    {counts->comments, "comment", "comments"},
	    {counts->attributes, "HTML tag's attributes", "HTML tags' attributes"},
	    {counts->texts, "alternative text or title", "alternative texts or titles"},
	    {counts->definitions, "link definition", "link definitions"},
	    {counts->characters, "invisible character", "invisible characters"}};
	size_t used = 0;

	dst[0] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		int n = 0;

		if (parts[i].count && used < size)
			n = snprintf(dst + used, size - used, "%s%zu %s", used ? ", " : "",
				     parts[i].count,
				     parts[i].count == 1 ? parts[i].one : parts[i].many);
		used += n > 0 ? (size_t)n : 0;
	}
}
