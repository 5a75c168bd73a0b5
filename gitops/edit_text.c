#include "edit_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gitops/edit_json.h"
#include "gitops/edit_text_internal.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

/* ---- formats ---- */

static const char *const formats[] = {
    [FORMAT_AUTO] = "auto",
    [FORMAT_UDIFF] = "udiff",
    [FORMAT_SEARCH_REPLACE] = "search-replace",
    [FORMAT_APPLY_PATCH] = "apply-patch",
    [FORMAT_WHOLE] = "whole",
    [FORMAT_TOOL] = "tool",
};

bool edit_format_find(const char *name, enum edit_format *format)
{
	for (size_t i = 0; i < ARRAY_LEN(formats); i++)
		if (strcmp(name, formats[i]) == 0) {
			*format = (enum edit_format)i;
			return true;
		}
	return false;
}

const char *edit_format_name(enum edit_format format)
{
	return formats[format];
}

/* ---- lines ---- */

struct line doc_line(const struct doc *doc, size_t index)
{
	struct line line = {.text = "", .len = 0};

	if (index < doc->lines.len)
		line = doc->lines.items[index];
	while (line.len && strchr(" \t\r", line.text[line.len - 1]) && line.text[line.len - 1])
		line.len--;
	return line;
}

struct line doc_content(const struct doc *doc, size_t index)
{
	struct line line = doc->lines.items[index];

	if (doc->crlf && line.len && line.text[line.len - 1] == '\r')
		line.len--;
	return line;
}

bool doc_begins(const struct doc *doc, size_t index, const char *prefix)
{
	size_t len = strlen(prefix);

	return index < doc->lines.len && doc->lines.items[index].len >= len &&
	       memcmp(doc->lines.items[index].text, prefix, len) == 0;
}

char *doc_rest(const struct doc *doc, size_t index, size_t skip)
{
	struct line line = doc_line(doc, index);

	while (skip < line.len && strchr(" \t", line.text[skip]) && line.text[skip])
		skip++;
	return mem_strndup(skip < line.len ? line.text + skip : "",
			   skip < line.len ? line.len - skip : 0);
}

int doc_refuse(const struct doc *doc, enum edit_code code, size_t index, const char *format,
	       ...)
{
	va_list args;

	doc->fault->code = code;
	doc->fault->line = doc->lines.len ? index + 1 : 0;
	va_start(args, format);
	vsnprintf(doc->fault->message, sizeof(doc->fault->message), format, args);
	va_end(args);
	return -1;
}

int doc_refuse_mixed(const struct doc *doc, size_t index)
{
	return doc_refuse(doc, EDIT_MALFORMED, index,
			  "an edit in another format begins here; use one format for all edits "
			  "of an answer");
}

void body_add(const struct doc *doc, size_t index, struct strbuf *body)
{
	struct line line = doc_content(doc, index);

	if (line.len && line.text[0] == '\\') {
		strbuf_adds(body, "\\\n");
		return;
	}
	if (!line.len || !strchr(" +-", line.text[0]) || !line.text[0])
		strbuf_addc(body, '?');
	strbuf_add(body, line.text, line.len);
	strbuf_addc(body, '\n');
}

/* ---- fences ---- */

bool fence_at(const struct doc *doc, size_t index, struct fence *fence)
{
	struct line line = doc_line(doc, index);
	size_t count = 0;

	*fence = (struct fence){0};
	if (!line.len || (line.text[0] != '`' && line.text[0] != '~'))
		return false;
	while (count < line.len && line.text[count] == line.text[0])
		count++;
	if (count < 3)
		return false;
	size_t skip = count;
	while (skip < line.len && line.text[skip] == ' ')
		skip++;
	if (line.text[0] == '`' && memchr(line.text + skip, '`', line.len - skip))
		return false; /* code within a line */
	*fence = (struct fence){line.text[0], count, line.text + skip, line.len - skip};
	return true;
}

bool fence_closes(const struct fence *open, const struct fence *line)
{
	return open->mark == line->mark && line->count >= open->count && !line->info_len;
}

/* ---- names ---- */

static bool is_word(const char *text, size_t len)
{
	if (!len)
		return false;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] <= ' ' || strchr("<>|\"`*?()", text[i]))
			return false;
	return true;
}

/* Whether it looks like a path rather than a word: it has a slash, or a dot that ends no
 * sentence. */
static bool is_pathlike(const char *text, size_t len)
{
	if (!is_word(text, len) || text[len - 1] == '.' || text[len - 1] == ',' ||
	    text[len - 1] == '!')
		return false;
	return memchr(text, '/', len) || memchr(text, '.', len);
}

/* The only code span of a line, or NULL. */
static char *only_span(const char *text, size_t len)
{
	const char *open = memchr(text, '`', len);
	const char *close =
	    open ? memchr(open + 1, '`', len - (size_t)(open + 1 - text)) : NULL;

	if (!close || close == open + 1 ||
	    memchr(close + 1, '`', len - (size_t)(close + 1 - text)))
		return NULL;
	for (const char *c = open + 1; c < close; c++)
		if ((unsigned char)*c < ' ')
			return NULL;
	return mem_strndup(open + 1, (size_t)(close - open - 1));
}

static size_t skip_label(const char *text, size_t len)
{
	static const char *const labels[] = {
	    "file name:", "filename:", "file path:", "filepath:", "file:", "path:",
	    "new file:",  "edit:",     "update:",    "create:",	  "file ", "#"};

	for (size_t i = 0; i < ARRAY_LEN(labels); i++)
		if (len > strlen(labels[i]) &&
		    strncasecmp(text, labels[i], strlen(labels[i])) == 0)
			return strlen(labels[i]);
	return 0;
}

char *name_of_line(const char *text, size_t len, bool bare)
{
	bool marked = false, colon = false;
	char *span = only_span(text, len);

	if (span) {
		/* "Use `make` like this" names no file */
		if (is_pathlike(span, strlen(span)) || len <= strlen(span) + 12)
			return span;
		free(span);
		return NULL;
	}
	for (;;) {
		size_t before = len;
		while (len && strchr(" \t#>*\"'", *text) && *text) {
			marked = marked || *text == '*';
			text++;
			len--;
		}
		size_t label = skip_label(text, len);
		marked = marked || (label && text[label - 1] == ':');
		text += label;
		len -= label;
		while (len && strchr(" \t\r:*\"'", text[len - 1]) && text[len - 1]) {
			colon = colon || text[len - 1] == ':';
			len--;
		}
		static const char *const notes[] = {"(new file)", "(new)", "(modified)",
						    "(updated)"};
		for (size_t i = 0; i < ARRAY_LEN(notes); i++)
			if (len > strlen(notes[i]) &&
			    !memcmp(text + len - strlen(notes[i]), notes[i], strlen(notes[i])))
				len -= strlen(notes[i]);
		if (len == before)
			break;
	}
	if (!is_word(text, len))
		return NULL;
	if (is_pathlike(text, len) || marked || (bare && !colon))
		return mem_strndup(text, len);
	return NULL;
}

char *name_of_fence(const struct fence *fence)
{
	const char *text = fence->info, *end = text + fence->info_len;
	const char *stop = text;

	while (stop < end && !strchr(" :", *stop))
		stop++;
	if (stop < end && is_pathlike(stop + 1, (size_t)(end - stop - 1)))
		return mem_strndup(stop + 1, (size_t)(end - stop - 1));
	if (stop == end && memchr(text, '/', fence->info_len) &&
	    is_pathlike(text, fence->info_len))
		return mem_strndup(text, fence->info_len);
	if (stop == end && memchr(text, '.', fence->info_len) &&
	    is_pathlike(text, fence->info_len))
		return mem_strndup(text, fence->info_len);
	return NULL;
}

const char *parse_range(const char *text, const char *end, long *first, long *count)
{
	long *number = first;
	bool digits = false;

	*first = 0;
	*count = 1;
	for (; text < end; text++) {
		if (*text >= '0' && *text <= '9') {
			if (*number > 100000000)
				return NULL;
			*number = *number * 10 + (*text - '0');
			digits = true;
		} else if (*text == ',' && number == first && digits) {
			number = count;
			*count = 0;
			digits = false;
		} else {
			break;
		}
	}
	return digits ? text : NULL;
}

/* ---- all formats ---- */

/* Takes the indentation of a fenced block in a list off its lines. */
static void dedent(struct doc *doc)
{
	size_t indent = 0;
	struct line mark = {0};

	for (size_t i = 0; i < doc->lines.len; i++) {
		struct line *line = &doc->lines.items[i];
		size_t blanks = 0;
		while (blanks < line->len && line->text[blanks] == ' ')
			blanks++;
		bool fence =
		    line->len - blanks >= 3 && (!memcmp(line->text + blanks, "```", 3) ||
						!memcmp(line->text + blanks, "~~~", 3));
		if (!indent) {
			if (fence && blanks < 2)
				return; /* the usual case: at the left edge */
			if (is_diff_start(doc, i) || is_block_start(doc, i) ||
			    is_envelope_start(doc, i))
				return;
			if (!fence)
				continue;
			indent = blanks;
			mark = *line;
		} else if (fence && blanks <= indent && doc_line(doc, i).len == blanks + 3 &&
			   line->text[blanks] == mark.text[indent]) {
			line->text += blanks;
			line->len -= blanks;
			indent = 0;
			continue;
		}
		size_t cut = blanks < indent ? blanks : indent;
		line->text += cut;
		line->len -= cut;
	}
}

/* Reasoning that a model puts before its answer may hold drafts of edits. */
static size_t skip_thoughts(const char *data, size_t len)
{
	static const char *const tags[][2] = {{"<think>", "</think>"},
					      {"<thinking>", "</thinking>"}};
	size_t start = 0;

	while (start < len && strchr(" \t\r\n", data[start]) && data[start])
		start++;
	for (size_t i = 0; i < ARRAY_LEN(tags); i++) {
		size_t open = strlen(tags[i][0]), close = strlen(tags[i][1]);
		if (len - start < open || memcmp(data + start, tags[i][0], open) != 0)
			continue;
		const char *end = memmem(data + start, len - start, tags[i][1], close);
		return end ? (size_t)(end - data) + close : 0;
	}
	return 0;
}

static enum edit_format choose(const struct doc *doc, const char *data, size_t len)
{
	struct fence fence;
	size_t first = 0;

	for (size_t i = 0; i < doc->lines.len; i++) {
		if (is_envelope_start(doc, i))
			return FORMAT_APPLY_PATCH;
		if (is_block_start(doc, i))
			return FORMAT_SEARCH_REPLACE;
		if (is_diff_start(doc, i))
			return FORMAT_UDIFF;
	}
	while (first < len && strchr(" \t\r\n", data[first]) && data[first])
		first++;
	if (first < len && (data[first] == '{' || data[first] == '['))
		return FORMAT_TOOL;
	for (size_t i = 0; i < doc->lines.len; i++)
		if (fence_at(doc, i, &fence)) {
			bool json = fence.info_len == 4 && !memcmp(fence.info, "json", 4);
			return json && doc_begins(doc, i + 1, "{") ? FORMAT_TOOL : FORMAT_WHOLE;
		}
	return FORMAT_AUTO;
}

static int read_as(enum edit_format format, struct doc *doc, const char *data, size_t len)
{
	switch (format) {
	case FORMAT_UDIFF:
		return read_diff(doc);
	case FORMAT_SEARCH_REPLACE:
		return read_blocks(doc);
	case FORMAT_APPLY_PATCH:
		return read_envelope(doc);
	case FORMAT_WHOLE:
		return read_whole(doc);
	case FORMAT_TOOL:
		return read_tool(data, len, doc);
	case FORMAT_AUTO:
		break;
	}
	return doc_refuse(
	    doc, EDIT_MALFORMED, 0,
	    "there is no edit in the text: no diff, no search and replace block, no "
	    "patch envelope, no named file in a fence");
}

static bool all_crlf(const struct lines *lines)
{
	size_t ended = 0;

	for (size_t i = 0; i < lines->len; i++) {
		const struct line *line = &lines->items[i];
		if (!line->end)
			continue;
		if (!line->len || line->text[line->len - 1] != '\r')
			return false;
		ended++;
	}
	return ended > 0;
}

static void cut_list(struct edit_list *list, size_t len)
{
	while (list->len > len)
		edit_release(&list->items[--list->len]);
}

int edit_text_parse(const char *data, size_t len, enum edit_format *format,
		    struct edit_list *list, struct edit_fault *fault)
{
	struct doc doc = {.list = list, .fault = fault};
	size_t before = list->len, skip;
	int rc;

	*fault = (struct edit_fault){.code = EDIT_OK};
	if (len > EDIT_TEXT_MAX)
		return doc_refuse(&doc, EDIT_LIMIT, 0, "the text has more than %u bytes",
				  EDIT_TEXT_MAX);
	if (len >= 3 && memcmp(data, "\xEF\xBB\xBF", 3) == 0) {
		data += 3;
		len -= 3;
	}
	skip = skip_thoughts(data, len);
	data += skip;
	len -= skip;
	lines_split(data, len, false, &doc.lines);
	doc.crlf = all_crlf(&doc.lines);
	doc.whole_last = len && data[len - 1] == '\n';
	dedent(&doc);
	if (*format == FORMAT_AUTO)
		*format = choose(&doc, data, len);
	rc = read_as(*format, &doc, data, len);
	if (rc == 0 && list->len == before)
		rc = doc_refuse(&doc, EDIT_NOOP, 0, "there is no edit in it");
	if (rc == 0 && list->len > EDIT_LIST_MAX)
		rc = doc_refuse(&doc, EDIT_LIMIT, 0, "more than %d edits", EDIT_LIST_MAX);
	if (rc < 0)
		cut_list(list, before);
	lines_release(&doc.lines);
	return rc;
}
