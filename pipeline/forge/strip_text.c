#include "strip_text.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

#define LINK_MAX 4096 /* bytes of an image or link that is looked through */
#define RAW_MAX 8192  /* of a tag in HTML */

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
void strip_characters(const char *text, size_t len, struct strbuf *out,
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

/* The end of "<? … ?>", "<![CDATA[ … ]]>" and "<!X … >" at text; an open one reaches to the end. 0
 * when it is none. */
static size_t declaration_end(const char *text, size_t len)
{
	const char *mark = ">", *end;

	if (len < 3 || text[0] != '<' || (text[1] != '?' && text[1] != '!'))
		return 0;
	if (text[1] == '?')
		mark = "?>";
	else if (len >= 9 && memcmp(text, "<![CDATA[", 9) == 0)
		mark = "]]>";
	else if (!((text[2] >= 'a' && text[2] <= 'z') || (text[2] >= 'A' && text[2] <= 'Z')))
		return 0;
	end = memmem(text + 2, len - 2, mark, strlen(mark));
	return end ? (size_t)(end - text) + strlen(mark) : len;
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

	if (len < 3 || !(is_letter(text[1]) || text[1] == '/'))
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

/* Whether a page has such an element: other names are shown nowhere, and say what anybody likes. */
static bool is_element(const char *name, size_t len)
{
	static const char *const names[] = {
	    "a",       "abbr",	  "b",	   "blockquote", "br",	       "caption", "cite",
	    "code",    "col",	  "dd",	   "del",	 "details",    "dfn",	  "div",
	    "dl",      "dt",	  "em",	   "figure",	 "figcaption", "h1",	  "h2",
	    "h3",      "h4",	  "h5",	   "h6",	 "hr",	       "i",	  "img",
	    "input",   "ins",	  "kbd",   "li",	 "mark",       "ol",	  "p",
	    "picture", "pre",	  "q",	   "rp",	 "rt",	       "ruby",	  "s",
	    "samp",    "section", "small", "source",	 "span",       "strike",  "strong",
	    "sub",     "summary", "sup",   "table",	 "tbody",      "td",	  "tfoot",
	    "th",      "thead",	  "time",  "tr",	 "tt",	       "u",	  "ul",
	    "var",     "video",	  "wbr",   "font",	 "center",     "colgroup"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strlen(names[i]) == len && strncasecmp(name, names[i], len) == 0)
			return true;
	return false;
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
	if (!is_element(text + 1 + (text[1] == '/'), name - 1 - (text[1] == '/'))) {
		counts->attributes++;
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

/* Where code spans are: known on lines where nothing else could be meant. */
struct spans {
	bool off; /* until the next empty line */
	bool pre; /* within <pre>, which goes on past empty lines */
	bool
	    html; /* perhaps HTML until the next empty line: bytes go to the browser as they are */
};

bool strip_is_blank(const char *line, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!strchr(" \t\r\n", line[i]))
			return false;
	return true;
}

/* Past the marks of quotes and lists in front of a line's text. */
size_t strip_skip_marks(const char *line, size_t len)
{
	size_t at = 0;

	while (at < len && line[at] && strchr(" \t>-+*.)0123456789", line[at]))
		at++;
	return at;
}

static void begin_line(struct spans *spans, const char *text, size_t len)
{
	const char *end = memchr(text, '\n', len);
	size_t size = end ? (size_t)(end - text) : len, skip = strip_skip_marks(text, size);

	if (strip_is_blank(text, size))
		spans->off = spans->html = spans->pre;
	else if (skip < size && text[skip] == '<') /* perhaps HTML, in which ` is nothing */
		spans->off = spans->html = true;
}

/* A tag as browsers read it, where Markdown does not look: it may hold "<" and single quotes, and an
 * open one takes all to the empty line. 0 when it is none. */
static size_t raw_tag_end(const char *text, size_t len)
{
	const char *end, *blank;

	if (len < 2 || !(is_letter(text[1]) || text[1] == '/'))
		return 0;
	len = len < RAW_MAX ? len : RAW_MAX;
	end = memchr(text, '>', len);
	len = end ? (size_t)(end - text) + 1 : len;
	blank = memmem(text, len, "\n\n", 2);
	return blank ? (size_t)(blank - text) : len;
}

/* A code span that ends on its line, which a page shows as it is; 0 when it is none. */
static size_t code_span(struct spans *spans, const char *text, size_t len, size_t at)
{
	size_t run = 0, count = 0;

	if (spans->off || (at && text[at - 1] == '\\')) {
		spans->off = true;
		return 0;
	}
	while (at + run < len && text[at + run] == '`')
		run++;
	for (size_t i = at + run; i < len && text[i] != '\n' && text[i] != '|'; i++) {
		if (text[i] == '`') {
			count++;
			continue;
		}
		if (count == run)
			return i - at;
		count = 0;
	}
	if (count == run && at + run + run < len + 1) {
		size_t end = at + run;

		while (end < len && text[end] != '\n' && text[end] != '|')
			end++;
		if (end > at + run + run)
			return end - at;
	}
	spans->off = true; /* it may end on another line, in another cell, or nowhere */
	return 0;
}

static size_t put_markup(const char *text, size_t left, bool html, struct strbuf *out,
			 struct strip_counts *counts)
{
	size_t size = 0, title;

	if (left >= 4 && memcmp(text, "<!--", 4) == 0) {
		counts->comments++;
		return comment_end(text, left);
	}
	if (*text == '<' &&
	    ((size = unseen_element(text, left)) || (size = declaration_end(text, left)))) {
		counts->comments++;
	} else if (*text == '<' && ((size = tag_end(text, left)) ||
				    (html && (size = raw_tag_end(text, left))))) {
		put_tag(text, size, out, counts);
	} else if (*text == '!') {
		size = put_image(text, left, out, counts);
	} else if (*text == ']' && (size = link_tail(text, left, &title))) {
		if (!title)
			return 0;
		counts->texts++;
		strbuf_add(out, text, title);
		strbuf_addc(out, ')');
	}
	return size;
}

/* Text outside of fenced code. */
void strip_text(const char *text, size_t len, struct strbuf *out, struct strip_counts *counts)
{
	struct spans spans = {.off = false};

	for (size_t at = 0; at < len;) {
		size_t size = 0;

		if (!at || text[at - 1] == '\n')
			begin_line(&spans, text + at, len - at);
		if (text[at] == '`' && (size = code_span(&spans, text, len, at))) {
			strbuf_add(out, text + at, size);
			at += size;
			continue;
		}
		if (len - at >= 4 && strncasecmp(text + at, "<pre", 4) == 0)
			spans.pre = spans.off = true;
		else if (len - at >= 5 && strncasecmp(text + at, "</pre", 5) == 0)
			spans.pre = false;
		size = put_markup(text + at, len - at, spans.html, out, counts);
		if (size && (memchr(text + at, '`', size) || memchr(text + at, '\n', size)))
			spans.off = true;
		if (!size) {
			strbuf_addc(out, text[at]);
			size = 1;
		}
		at += size;
	}
}
