#include "strip.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

#define LINK_MAX 4096 /* bytes of an image or link that is looked through */

/* ---- characters ---- */

/* Without a shape of their own, or changing what stands around them. */
static bool is_hidden_character(unsigned code)
{
	if (code == '\t' || code == '\n' || code == '\r')
		return false;
	return text_is_unsafe(code) || code == 0x00AD || code == 0x034F || code == 0x115F ||
	       code == 0x1160 || code == 0x17B4 || code == 0x17B5 || code == 0x2800 ||
	       code == 0x3164 || code == 0xFFA0 || (code >= 0x180B && code <= 0x180F) ||
	       (code >= 0x2060 && code <= 0x206F) || (code >= 0xFE00 && code <= 0xFE0E) ||
	       (code >= 0xFFF0 && code <= 0xFFFB) || (code >= 0x1BCA0 && code <= 0x1BCA3) ||
	       (code >= 0x1D173 && code <= 0x1D17A) || (code >= 0xE0000 && code <= 0xE0FFF);
}

/* The emoji form (U+FE0F) stays once behind a character that can have one. */
static void drop_characters(const char *text, size_t len, struct strbuf *out,
			    struct strip_counts *counts)
{
	unsigned before = 0;

	for (size_t pos = 0; pos < len;) {
		unsigned code = 0;
		size_t step = text_utf8_next(text + pos, len - pos, &code);

		if (!step) { /* no UTF-8: shown as a replacement character */
			strbuf_adds(out, "\xEF\xBF\xBD");
			pos++;
			continue;
		}
		if (code == 0xFE0F ? before < 0x80 || before == code
				   : is_hidden_character(code))
			counts->characters++;
		else
			strbuf_add(out, text + pos, step);
		before = code;
		pos += step;
	}
}

/* ---- HTML ---- */

/* The end of "<!-- … -->" at text, which begins there; an open one reaches to the end. */
static size_t comment_end(const char *text, size_t len)
{
	const char *end;

	if (len >= 5 && memcmp(text, "<!-->", 5) == 0)
		return 5;
	if (len >= 6 && memcmp(text, "<!--->", 6) == 0)
		return 6;
	end = memmem(text + 4, len - 4, "-->", 3);
	return end ? (size_t)(end - text) + 3 : len;
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The end of a tag at text ("<" and a letter, "/", "!" or "?"); 0 when it is none. Quotes may hold ">". */
static size_t tag_end(const char *text, size_t len)
{
	size_t at = 1;
	char quote = '\0';

	if (len < 3 ||
	    !(is_letter(text[1]) || text[1] == '/' || text[1] == '!' || text[1] == '?'))
		return 0;
	for (; at < len && at < 65536; at++) {
		if (quote) {
			if (text[at] == quote)
				quote = '\0';
		} else if (text[at] == '"' || text[at] == '\'') {
			quote = text[at];
		} else if (text[at] == '>') {
			return at + 1;
		} else if (text[at] == '<') {
			return 0;
		}
	}
	return 0;
}

/* Elements whose content no page shows; the length of all of it, 0 when it is none. */
static size_t unseen_element(const char *text, size_t len)
{
	static const char *const names[] = {"script",	"style",    "template", "title",
					    "noscript", "noembed",  "noframes", "iframe",
					    "object",	"datalist", "head",	"textarea"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		size_t size = strlen(names[i]);
		char closing[16];

		if (len < size + 2 || strncasecmp(text + 1, names[i], size) != 0 ||
		    !strchr(" \t\r\n>/", text[1 + size]))
			continue;
		snprintf(closing, sizeof(closing), "</%s", names[i]);
		for (size_t at = size + 1; at + size + 2 <= len; at++)
			if (text[at] == '<' && strncasecmp(text + at, closing, size + 2) == 0) {
				const char *end = memchr(text + at, '>', len - at);
				return end ? (size_t)(end - text) + 1 : len;
			}
		return len;
	}
	return 0;
}

/* A tag without its attributes; "<https://…>" and "<a@b>" are links and stay. */
static void put_tag(const char *text, size_t len, struct strbuf *out,
		    struct strip_counts *counts)
{
	size_t name = 1 + (text[1] == '/');

	while (name < len && (is_letter(text[name]) ||
			      (text[name] >= '0' && text[name] <= '9') || text[name] == '-'))
		name++;
	if (name < len &&
	    (text[name] == ':' || text[name] == '@' || text[name] == '.' ||
	     text[name] == '+') &&
	    !memchr(text, ' ', len)) {
		strbuf_add(out, text, len);
		return;
	}
	strbuf_add(out, text, name);
	strbuf_addc(out, '>');
	if (len > name + 1 && !(len == name + 2 && text[name] == '/'))
		counts->attributes++;
}

/* ---- Markdown ---- */

/* "](URL "TITLE")" at text: how much of it is to be kept in front of ")" (title_at), and its length;
 * 0 when it is none. */
static size_t link_tail(const char *text, size_t len, size_t *title_at)
{
	size_t at = 2, depth = 0;

	*title_at = 0;
	if (len < 3 || text[0] != ']' || text[1] != '(')
		return 0;
	for (; at < len && at < LINK_MAX; at++) {
		if (text[at] == '\n' && at + 1 < len && text[at + 1] == '\n')
			return 0;
		if ((text[at] == '"' || text[at] == '\'') && !*title_at &&
		    (text[at - 1] == ' ' || text[at - 1] == '\t' || text[at - 1] == '\n'))
			*title_at = at;
		if (text[at] == '(' && !*title_at)
			depth++;
		if (text[at] == ')' &&
		    (*title_at ? text[at - 1] == text[*title_at] : depth-- == 0))
			return at + 1;
	}
	return 0;
}

/* "![ALT](URL)" at text: its length, 0 when it is none. */
static size_t put_image(const char *text, size_t len, struct strbuf *out,
			struct strip_counts *counts)
{
	size_t at = 2, title, depth = 0, tail;

	if (len < 5 || text[0] != '!' || text[1] != '[')
		return 0;
	for (; at < len && at < LINK_MAX && (text[at] != ']' || depth > 0); at++) {
		depth += text[at] == '[';
		depth -= text[at] == ']';
		if (text[at] == '\\')
			at++;
	}
	if (at >= len || text[at] != ']')
		return 0;
	tail = link_tail(text + at, len - at, &title);
	if (!tail && !(at + 1 < len && text[at + 1] == '['))
		return 0;
	counts->texts += at > 2;
	strbuf_adds(out, "![image");
	if (!tail) { /* by a reference: its definition is taken out too */
		strbuf_addc(out, ']');
		return at + 1;
	}
	counts->texts += title > 0;
	strbuf_add(out, text + at, title ? title : tail - 1);
	strbuf_addc(out, ')');
	return at + tail;
}

/* Text outside of fenced code. */
static void put_text(const char *text, size_t len, struct strbuf *out,
		     struct strip_counts *counts)
{
	for (size_t at = 0; at < len;) {
		size_t left = len - at, size = 0, title;

		if (left >= 4 && memcmp(text + at, "<!--", 4) == 0) {
			size = comment_end(text + at, left);
			counts->comments++;
		} else if (text[at] == '<' && (size = unseen_element(text + at, left))) {
			counts->comments++;
		} else if (text[at] == '<' && (size = tag_end(text + at, left))) {
			put_tag(text + at, size, out, counts);
		} else if (text[at] == '!') {
			size = put_image(text + at, left, out, counts);
		} else if (text[at] == ']' && (size = link_tail(text + at, left, &title)) &&
			   title) {
			counts->texts++;
			strbuf_add(out, text + at, title);
			strbuf_addc(out, ')');
		} else {
			size = 0;
		}
		if (!size) {
			strbuf_addc(out, text[at]);
			size = 1;
		}
		at += size;
	}
}

/* ---- lines ---- */

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

static bool is_blank(const char *line, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!strchr(" \t\r\n", line[i]))
			return false;
	return true;
}

/* "[LABEL]: DESTINATION": shown nowhere. */
static bool is_definition(const char *line, size_t len)
{
	size_t at = indent_of(line, len);

	if (at > 3 || at >= len || line[at] != '[')
		return false;
	for (at++; at < len && line[at] != ']' && line[at] != '\n'; at++)
		if (line[at] == '\\')
			at++;
	return at + 1 < len && line[at] == ']' && line[at + 1] == ':' &&
	       !(at > 0 && line[indent_of(line, len) + 1] == '^'); /* footnotes are shown */
}

/* Moves the state past a line; whether the line is code. */
static bool is_code_line(struct block *block, const char *line, size_t len)
{
	char mark = '\0';
	size_t count = fence_of(line, len, &mark), indent = indent_of(line, len);

	if (block->fence) {
		bool closes = mark == block->fence && count >= block->fence_len &&
			      is_blank(line + indent + count, len - indent - count);
		if (closes)
			block->fence = '\0';
		return true;
	}
	if (is_blank(line, len))
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

/* A piece of text between code: definitions go first, then what lies within lines. */
static void flush(struct strbuf *piece, struct strbuf *out, struct strip_counts *counts)
{
	put_text(piece->data, piece->len, out, counts);
	strbuf_reset(piece);
}

void strip_hidden(const char *text, size_t len, struct strbuf *out, struct strip_counts *counts)
{
	struct strbuf plain AUTO_STRBUF = STRBUF_NONE, piece AUTO_STRBUF = STRBUF_NONE;
	struct block block = {'\0', 0, false};
	bool open = false; /* within a comment, which swallows what looks like a fence */

	strbuf_init(&plain, STRBUF_MAX);
	strbuf_init(&piece, STRBUF_MAX);
	drop_characters(text, len, &plain, counts);
	for (size_t at = 0; at < plain.len;) {
		const char *line = plain.data + at;
		const char *end = memchr(line, '\n', plain.len - at);
		size_t size = end ? (size_t)(end - line) + 1 : plain.len - at;
		if (!open && is_code_line(&block, line, size)) {
			flush(&piece, out, counts);
			strbuf_add(out, line, size);
		} else if (!open && !block.html && is_definition(line, size)) {
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
