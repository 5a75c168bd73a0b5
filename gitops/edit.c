#include "edit.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gitops/edit_lines.h"
#include "gitops/edit_near.h"
#include "gitops/pathpolicy.h"
#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

/* A rewrite that keeps less than 40 % of at least this many lines is refused once. */
#define SHRINK_LINES 30

static const char bom[] = "\xEF\xBB\xBF";
#define BOM_LEN ((size_t)3)

/* ---- lists --------------------------------------------------------------------------------------------- */

void edit_release(struct edit *edit)
{
	free(edit->path);
	free(edit->to);
	free(edit->old);
	free(edit->text);
	*edit = (struct edit){0};
}

void edit_list_release(struct edit_list *list)
{
	for (size_t i = 0; i < list->len; i++)
		edit_release(&list->items[i]);
	free(list->items);
	*list = (struct edit_list){0};
}

void edit_list_push(struct edit_list *list, struct edit *taken)
{
	if (list->len == list->cap) {
		list->cap = list->cap ? list->cap * 2 : 16;
		list->items = mem_realloc(list->items, list->cap, sizeof(*list->items));
	}
	list->items[list->len++] = *taken;
	*taken = (struct edit){0};
}

/* ---- outcomes ------------------------------------------------------------------------------------------- */

const char *edit_code_text(enum edit_code code)
{
	static const char *const names[] = {
	    [EDIT_OK] = "ok",
	    [EDIT_NO_MATCH] = "E_NO_MATCH",
	    [EDIT_AMBIGUOUS] = "E_AMBIGUOUS",
	    [EDIT_ALREADY_APPLIED] = "E_ALREADY_APPLIED",
	    [EDIT_NOOP] = "E_NOOP",
	    [EDIT_EXISTS] = "E_EXISTS",
	    [EDIT_MISSING_FILE] = "E_MISSING_FILE",
	    [EDIT_EMPTY_SEARCH] = "E_EMPTY_SEARCH",
	    [EDIT_PATH] = "E_PATH",
	    [EDIT_MODE] = "E_MODE",
	    [EDIT_BINARY] = "E_BINARY",
	    [EDIT_ENCODING] = "E_ENCODING",
	    [EDIT_INDENT] = "E_INDENT",
	    [EDIT_RANGE] = "E_RANGE",
	    [EDIT_SHRINK] = "E_SHRINK",
	    [EDIT_ELLIPSIS] = "E_ELLIPSIS",
	    [EDIT_LIMIT] = "E_LIMIT",
	};

	return (size_t)code < ARRAY_LEN(names) ? names[code] : "?";
}

/* Everything that one edit works with. */
struct job {
	struct view *view;
	const struct edit *edit;
	struct edit_result *result;
	struct error *err;    /* for failures of the repository */
	char path[256];       /* the path as it is shown */
	struct view_stat st;
	struct strbuf data;   /* the file's bytes */
	struct strbuf old;    /* what to find: in the file's encoding, LF only */
	struct strbuf text;   /* the new text, the same way */
	bool has_bom;
};

/* Sets the outcome and its message. Returns 0: it was decided. */
static int decide(struct job *job, enum edit_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int decide(struct job *job, enum edit_code code, const char *format, ...)
{
	va_list args;

	job->result->code = code;
	va_start(args, format);
	vsnprintf(job->result->message, sizeof(job->result->message), format, args);
	va_end(args);
	/* a cut may have split a character */
	size_t len = strlen(job->result->message), back = 0;
	while (back < 4 && back < len && !text_is_utf8(job->result->message, len - back))
		back++;
	job->result->message[len - back] = '\0';
	return 0;
}

/* A refusal of the view becomes an outcome; a failure stays a failure. */
static int decide_error(struct job *job, int rc, enum edit_code code)
{
	if (rc != ERROR_NO)
		return rc;
	return decide(job, code, "%s", job->err->message);
}

/* ---- preparing -------------------------------------------------------------------------------------------- */

/* Looks at the path; 0 with result->code EDIT_OK to go on. must: a regular file has to be there. */
static int look(struct job *job, bool must)
{
	const char *path = job->edit->path;
	int rc = path_check(path, strlen(path), job->err);

	if (rc == 0)
		rc = view_stat(job->view, path, &job->st, job->err);
	if (rc < 0)
		return decide_error(job, rc, EDIT_PATH);
	switch (job->st.kind) {
	case VIEW_NONE:
		return must ? decide(job, EDIT_MISSING_FILE, "there is no file '%s'", job->path) : 0;
	case VIEW_DIR:
		return decide(job, EDIT_MODE, "'%s' is a directory, not a file", job->path);
	case VIEW_LINK:
		return decide(job, EDIT_MODE, "'%s' is a symbolic link; links are not changed or followed",
			      job->path);
	case VIEW_SUBMODULE:
		return decide(job, EDIT_MODE, "'%s' is a submodule and cannot be changed", job->path);
	case VIEW_FILE:
	case VIEW_EXEC:
		break;
	}
	return 0;
}

static int load(struct job *job)
{
	int rc = view_read(job->view, job->edit->path, &job->data, job->err);

	if (rc < 0)
		return decide_error(job, rc, EDIT_LIMIT);
	job->has_bom = job->data.len >= BOM_LEN && memcmp(job->data.data, bom, BOM_LEN) == 0;
	return 0;
}

/* UTF-8 as ISO 8859-1. False when a character has no place there. */
static bool to_latin1(const char *text, size_t len, struct strbuf *out)
{
	for (size_t pos = 0; pos < len;) {
		unsigned code;
		size_t step = text_utf8_next(text + pos, len - pos, &code);
		if (!step || code > 0xFF)
			return false;
		strbuf_addc(out, (char)code);
		pos += step;
	}
	return true;
}

/* Text of the edit in the file's encoding, without byte-order mark, with LF only. */
static bool convert(const struct job *job, const char *text, size_t len, struct strbuf *out)
{
	AUTO_STRBUF struct strbuf latin1 = STRBUF_NONE;

	if (!len)
		return true;
	if (!text_is_utf8(job->data.data, job->data.len) && text_is_utf8(text, len)) {
		strbuf_init(&latin1, len);
		if (!to_latin1(text, len, &latin1))
			return false;
		text = latin1.data;
		len = latin1.len;
	} else if (!text_is_utf8(text, len)) {
		return false;
	}
	if (job->has_bom && len >= BOM_LEN && memcmp(text, bom, BOM_LEN) == 0) {
		text += BOM_LEN;
		len -= BOM_LEN;
	}
	lines_normalise(text, len, out);
	return true;
}

/* A comment that stands for code that was left out: "// ... rest unchanged". */
static bool is_elision(const struct line *line)
{
	static const char *const openers[] = {"//", "#", "/*", "<!--", "--", ";", "%", "*"};
	static const char *const words[] = {"existing", "rest of", "remain", "unchanged", "same as",
					    "previous", "omitted"};
	struct line rest = line_trim(line, NULL);
	char lower[200];
	size_t skip = 0;

	for (size_t i = 0; i < ARRAY_LEN(openers) && !skip; i++)
		if (rest.len > strlen(openers[i]) && !memcmp(rest.text, openers[i], strlen(openers[i])))
			skip = strlen(openers[i]);
	while (skip && skip < rest.len && rest.text[skip] == ' ')
		skip++;
	if (!skip || rest.len - skip >= sizeof(lower))
		return false;
	for (size_t i = skip; i < rest.len; i++) {
		char c = rest.text[i];
		lower[i - skip] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
	}
	lower[rest.len - skip] = '\0';
	if (strncmp(lower, "...", 3) != 0 && strncmp(lower, "\xE2\x80\xA6", 3) != 0)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strstr(lower, words[i]))
			return true;
	return false;
}

/* Whether the new text leaves something out that the file does not leave out in the same words. */
static bool elides(const struct job *job, const struct strbuf *text)
{
	AUTO_LINES struct lines lines = {NULL, 0};

	lines_split(text->data, text->len, true, &lines);
	for (size_t i = 0; i < lines.len; i++) {
		const struct line *line = &lines.items[i];
		if (is_elision(line) &&
		    !memmem(job->data.data, job->data.len, line->text, line->len))
			return true;
	}
	return false;
}

static int decide_elision(struct job *job)
{
	return decide(job, EDIT_ELLIPSIS,
		      "the new text leaves something out with '...'; write out every line that belongs there");
}

/* Puts the new bytes; the last step of every edit that writes. */
static int put(struct job *job, enum view_kind kind, const struct strbuf *bytes)
{
	const char *path = job->edit->path;
	int rc = bytes->full ? error_set(job->err, ERROR_NO, "'%s' would be too big", path)
			     : view_fits(job->view, path, bytes->len, job->err);

	if (rc < 0)
		return decide_error(job, rc, EDIT_LIMIT);
	rc = view_put(job->view, path, kind, bytes->data, bytes->len, job->err);
	return rc < 0 ? decide_error(job, rc, EDIT_PATH) : 0;
}

/* ---- write ------------------------------------------------------------------------------------------------ */

static size_t count_lines(const char *data, size_t len)
{
	size_t count = 0;

	for (size_t i = 0; i < len; i++)
		count += data[i] == '\n';
	return count + (len > 0 && data[len - 1] != '\n');
}

static bool shrinks(const struct strbuf *before, size_t len, const char *text)
{
	size_t old_lines = count_lines(before->data, before->len);

	return old_lines >= SHRINK_LINES && len * 10 < before->len * 4 &&
	       count_lines(text, len) * 10 < old_lines * 4;
}

/* The bytes of a rewrite: the old file's line ends, encoding and byte-order mark go on where the new
 * text, which came as UTF-8 with LF, does not say otherwise. */
static int rewrite_bytes(struct job *job, struct strbuf *out)
{
	const struct edit *edit = job->edit;
	const struct strbuf *before = &job->data;
	bool binary = view_is_binary(before->data, before->len);

	if (binary || !edit->text_len || !text_is_utf8(edit->text, edit->text_len) ||
	    memchr(edit->text, '\r', edit->text_len)) {
		strbuf_add(out, edit->text ? edit->text : "", edit->text_len);
		return 0;
	}
	if (!convert(job, edit->text, edit->text_len, &job->text))
		return decide(job, EDIT_ENCODING,
			      "'%s' is not UTF-8 (taken as ISO 8859-1) and the new text has characters that do not exist there",
			      job->path);
	size_t skip = job->has_bom ? BOM_LEN : 0;
	AUTO_LINES struct lines lines = {NULL, 0};
	lines_split(before->data + skip, before->len - skip, true, &lines);
	strbuf_add(out, bom, skip);
	if (lines.len)
		lines_rewrite(&lines, job->text.data, job->text.len, out);
	else
		strbuf_add(out, job->text.data, job->text.len);
	return 0;
}

static enum view_kind write_kind(const struct job *job, enum view_kind before)
{
	if (job->edit->mode)
		return view_kind_of_mode((unsigned)job->edit->mode);
	return before == VIEW_EXEC ? VIEW_EXEC : VIEW_FILE;
}

static int do_write(struct job *job)
{
	const struct edit *edit = job->edit;
	AUTO_STRBUF struct strbuf bytes = STRBUF_NONE;
	enum view_kind before = VIEW_NONE;
	int rc = look(job, false);

	if (rc < 0 || job->result->code)
		return rc;
	bool exists = job->st.kind != VIEW_NONE;
	before = job->st.kind;
	if (exists && edit->create)
		return decide(job, EDIT_EXISTS, "'%s' exists already; edit it instead", job->path);
	if (!exists && (rc = view_base_kind(job->view, edit->path, &before, job->err)) < 0)
		return rc;
	if (exists && ((rc = load(job)) < 0 || job->result->code))
		return rc;
	if (exists && shrinks(&job->data, edit->text_len, edit->text))
		return decide(job, EDIT_SHRINK,
			      "the new content has %zu lines where '%s' has %zu. Write the whole file, or use edit "
			      "for a part of it. If most of it is really to go, delete the file and write it again",
			      count_lines(edit->text, edit->text_len), job->path,
			      count_lines(job->data.data, job->data.len));
	struct strbuf plain = {.data = edit->text, .len = edit->text_len};
	if (elides(job, &plain))
		return decide_elision(job);
	strbuf_init(&bytes, view_get_limits(job->view)->file_bytes);
	if ((rc = rewrite_bytes(job, &bytes)) < 0 || job->result->code)
		return rc;
	enum view_kind kind = write_kind(job, before);
	if (exists && kind == job->st.kind && bytes.len == job->data.len && !bytes.full &&
	    memcmp(bytes.data, job->data.data, bytes.len) == 0)
		return decide(job, EDIT_NOOP, "'%s' has exactly this content already", job->path);
	if ((rc = put(job, kind, &bytes)) < 0 || job->result->code)
		return rc;
	job->result->line = 1;
	job->result->places = 1;
	return decide(job, EDIT_OK, "%s '%s' (%zu lines)", exists ? "rewrote" : "created", job->path,
		      count_lines(bytes.data, bytes.len));
}

/* ---- replace ----------------------------------------------------------------------------------------------- */

/* Length of "   12<TAB>" at the start of a line; 0 when there is none. */
static size_t number_prefix(const struct line *line, long *number)
{
	size_t pos = 0;

	while (pos < line->len && line->text[pos] == ' ')
		pos++;
	size_t digits = pos;
	*number = 0;
	while (pos < line->len && pos - digits < 9 && line->text[pos] >= '0' && line->text[pos] <= '9')
		*number = *number * 10 + (line->text[pos++] - '0');
	return pos > digits && pos < line->len && line->text[pos] == '\t' ? pos + 1 : 0;
}

/* Takes line numbers, copied from a listing, off every line. False when not every line has one, or,
 * with consecutive, when they do not count up. */
static bool strip_numbers(const struct strbuf *text, bool consecutive, struct strbuf *out)
{
	AUTO_LINES struct lines lines = {NULL, 0};
	long last = 0;

	lines_split(text->data, text->len, false, &lines);
	for (size_t i = 0; i < lines.len; i++) {
		long number;
		size_t skip = number_prefix(&lines.items[i], &number);
		if (!skip || (consecutive && i && number != last + 1))
			return false;
		last = number;
		strbuf_add(out, lines.items[i].text + skip,
			   lines.items[i].len - skip + lines.items[i].end);
	}
	return lines.len > 0;
}

/* The same edit without copied line numbers; true when old and text were changed. */
static bool without_numbers(struct job *job)
{
	struct strbuf old, text;

	strbuf_init(&old, STRBUF_MAX);
	strbuf_init(&text, STRBUF_MAX);
	if (!strip_numbers(&job->old, true, &old) ||
	    (job->text.len && !strip_numbers(&job->text, false, &text))) {
		strbuf_release(&old);
		strbuf_release(&text);
		return false;
	}
	strbuf_release(&job->old);
	strbuf_release(&job->text);
	job->old = old;
	job->text = text;
	return true;
}

static bool has_ellipsis_line(const struct strbuf *text)
{
	AUTO_LINES struct lines lines = {NULL, 0};

	lines_split(text->data, text->len, false, &lines);
	for (size_t i = 0; i < lines.len; i++) {
		struct line rest = line_trim(&lines.items[i], NULL);
		if ((rest.len == 3 && (!memcmp(rest.text, "...", 3) || !memcmp(rest.text, "\xE2\x80\xA6", 3))) ||
		    is_elision(&lines.items[i]))
			return true;
	}
	return false;
}

static bool only_blank(const struct strbuf *text)
{
	return strspn(text->data, " \t\n\r") >= text->len;
}

/* Nothing matched: say why, and what comes nearest. */
static int decide_unmatched(struct job *job, const struct text_file *file)
{
	AUTO_STRBUF struct strbuf near = STRBUF_NONE;

	if (has_ellipsis_line(&job->old))
		return decide(job, EDIT_ELLIPSIS,
			      "the text to find leaves something out with '...'; give the exact lines, fewer of them");
	if (job->text.len && !only_blank(&job->text) &&
	    memmem(file->norm, file->norm_len, job->text.data, job->text.len))
		return decide(job, EDIT_ALREADY_APPLIED,
			      "'%s' already has the new text and not the old one: nothing to do", job->path);
	strbuf_init(&near, 3500);
	near_describe(file, job->old.data, job->old.len, &near);
	return decide(job, EDIT_NO_MATCH, "the text to find is not in '%s'; %s", job->path, near.data);
}

static int decide_ambiguous(struct job *job, const struct text_file *file,
			    const struct places *places, long want)
{
	AUTO_STRBUF struct strbuf where = STRBUF_NONE;

	strbuf_init(&where, 3500);
	near_places(file, places, &where);
	return decide(job, EDIT_AMBIGUOUS,
		      "the text to find is at %zu places in '%s' and %ld %s asked for%s; add lines around it that make "
		      "it unique, or give the count:\n%s",
		      places->len, job->path, want, want == 1 ? "was" : "were",
		      places->overlap ? " (they overlap)" : "", where.data);
}

/* A change of nothing but line ends: old and text as they are, byte for byte. */
static int replace_line_ends(struct job *job)
{
	const struct edit *edit = job->edit;
	const char *hit = memmem(job->data.data, job->data.len, edit->old, edit->old_len);
	AUTO_STRBUF struct strbuf bytes = STRBUF_NONE;

	if (!hit)
		return decide(job, EDIT_NO_MATCH, "'%s' does not have these line ends", job->path);
	size_t at = (size_t)(hit - job->data.data), rest = at + edit->old_len;
	if (memmem(hit + 1, job->data.len - at - 1, edit->old, edit->old_len))
		return decide(job, EDIT_AMBIGUOUS, "these line ends are in '%s' more than once", job->path);
	strbuf_init(&bytes, view_get_limits(job->view)->file_bytes);
	strbuf_add(&bytes, job->data.data, at);
	strbuf_add(&bytes, edit->text, edit->text_len);
	strbuf_add(&bytes, job->data.data + rest, job->data.len - rest);
	int rc = put(job, job->st.kind, &bytes);
	if (rc < 0 || job->result->code)
		return rc;
	job->result->line = count_lines(job->data.data, at + 1);
	job->result->places = 1;
	return decide(job, EDIT_OK, "changed line ends in '%s'", job->path);
}

static int finish_replace(struct job *job, const struct text_file *file, const struct places *places)
{
	static const char *const how[] = {"", ", not counting blanks at line ends",
					  ", taking typographic quotes, dashes and blanks as plain ones",
					  ", with the indentation mapped onto the file's"};
	AUTO_STRBUF struct strbuf bytes = STRBUF_NONE;

	strbuf_init(&bytes, view_get_limits(job->view)->file_bytes);
	strbuf_add(&bytes, job->data.data, job->has_bom ? BOM_LEN : 0);
	if (places_replace(file, places, job->old.data, job->old.len, job->text.data, job->text.len,
			   &bytes) < 0)
		return decide(job, EDIT_INDENT,
			      "the text to find matches line %zu of '%s' with other indentation, and the new text has "
			      "an indentation that cannot be mapped; use the file's own indentation",
			      places->items[0].first + 1, job->path);
	if (!bytes.full && bytes.len == job->data.len &&
	    memcmp(bytes.data, job->data.data, bytes.len) == 0)
		return decide(job, EDIT_NOOP, "the edit changes nothing in '%s'", job->path);
	int rc = put(job, job->st.kind, &bytes);
	if (rc < 0 || job->result->code)
		return rc;
	job->result->level = places->level;
	job->result->line = places->items[0].first + 1;
	job->result->places = places->len;
	return decide(job, EDIT_OK, "edited '%s' at line %zu (%zu place%s%s)", job->path,
		      job->result->line, places->len, places->len == 1 ? "" : "s", how[places->level]);
}

static int replace_text(struct job *job)
{
	AUTO_TEXT_FILE struct text_file file = {0};
	AUTO_PLACES struct places places = {0};
	size_t skip = job->has_bom ? BOM_LEN : 0;
	long want = job->edit->count ? job->edit->count : 1;

	text_file_init(&file, job->data.data + skip, job->data.len - skip);
	places_find(&file, job->old.data, job->old.len, &places);
	if (!places.len && without_numbers(job))
		places_find(&file, job->old.data, job->old.len, &places);
	if (!places.len)
		return decide_unmatched(job, &file);
	if (places.len >= PLACES_MAX)
		return decide(job, EDIT_LIMIT, "the text to find is at more than %d places in '%s'",
			      PLACES_MAX - 1, job->path);
	if (want > 0 ? (size_t)want != places.len || places.overlap
		     : places.overlap && places.level != LEVEL_EXACT)
		return decide_ambiguous(job, &file, &places, want);
	return finish_replace(job, &file, &places);
}

static int do_replace(struct job *job)
{
	const struct edit *edit = job->edit;
	int rc = look(job, true);

	if (rc < 0 || job->result->code)
		return rc;
	if (!edit->old_len)
		return decide(job, EDIT_EMPTY_SEARCH,
			      "the text to find is empty; use insert, or write for the whole file");
	if ((rc = load(job)) < 0 || job->result->code)
		return rc;
	if (view_is_binary(job->data.data, job->data.len))
		return decide(job, EDIT_BINARY, "'%s' is a binary file; only write can replace it", job->path);
	if (edit->old_len == edit->text_len && memcmp(edit->old, edit->text, edit->old_len) == 0)
		return decide(job, EDIT_NOOP, "the old and the new text are the same");
	if (!convert(job, edit->old, edit->old_len, &job->old))
		return decide(job, EDIT_NO_MATCH,
			      "the text to find has characters that '%s' cannot have in its encoding", job->path);
	if (!convert(job, edit->text, edit->text_len, &job->text))
		return decide(job, EDIT_ENCODING,
			      "'%s' is not UTF-8 (taken as ISO 8859-1) and the new text has characters that do not exist there",
			      job->path);
	if (job->old.len == job->text.len && memcmp(job->old.data, job->text.data, job->old.len) == 0)
		return replace_line_ends(job);
	if (elides(job, &job->text))
		return decide_elision(job);
	return replace_text(job);
}

/* ---- insert ------------------------------------------------------------------------------------------------- */

/* Appends text (LF only) with the given line end, a last line that has none included when close is set. */
static void add_with_end(const struct strbuf *text, const char *end, bool close, struct strbuf *out)
{
	AUTO_LINES struct lines lines = {NULL, 0};

	lines_split(text->data, text->len, false, &lines);
	for (size_t i = 0; i < lines.len; i++) {
		strbuf_add(out, lines.items[i].text, lines.items[i].len);
		if (i + 1 < lines.len || close)
			strbuf_adds(out, end);
	}
}

static void insert_bytes(const struct job *job, const struct lines *lines, size_t at,
			 struct strbuf *out)
{
	const char *end = lines_neighbour_end(lines, at);
	bool open_end = at == lines->len && at > 0 && !lines->items[at - 1].end;

	strbuf_add(out, bom, job->has_bom ? BOM_LEN : 0);
	lines_copy(lines, 0, at, out);
	if (open_end) /* the file's last line has no end: it gets one, and the new last line has none */
		strbuf_adds(out, end);
	bool keep_open = open_end ||
			 (!lines->len && job->text.len && job->text.data[job->text.len - 1] != '\n');
	add_with_end(&job->text, end, !keep_open, out);
	lines_copy(lines, at, lines->len, out);
}

static int do_insert(struct job *job)
{
	const struct edit *edit = job->edit;
	AUTO_LINES struct lines lines = {NULL, 0};
	AUTO_STRBUF struct strbuf bytes = STRBUF_NONE;
	int rc = look(job, true);

	if (rc < 0 || job->result->code)
		return rc;
	if ((rc = load(job)) < 0 || job->result->code)
		return rc;
	if (view_is_binary(job->data.data, job->data.len))
		return decide(job, EDIT_BINARY, "'%s' is a binary file", job->path);
	if (!edit->text_len)
		return decide(job, EDIT_NOOP, "nothing to insert");
	if (!convert(job, edit->text, edit->text_len, &job->text))
		return decide(job, EDIT_ENCODING,
			      "'%s' is not UTF-8 (taken as ISO 8859-1) and the new text has characters that do not exist there",
			      job->path);
	if (elides(job, &job->text))
		return decide_elision(job);
	size_t skip = job->has_bom ? BOM_LEN : 0;
	lines_split(job->data.data + skip, job->data.len - skip, true, &lines);
	if (edit->line < 0 || (size_t)edit->line > lines.len)
		return decide(job, EDIT_RANGE, "'%s' has %zu lines; line %ld is none of 0 to %zu", job->path,
			      lines.len, edit->line, lines.len);
	strbuf_init(&bytes, view_get_limits(job->view)->file_bytes);
	insert_bytes(job, &lines, (size_t)edit->line, &bytes);
	if ((rc = put(job, job->st.kind, &bytes)) < 0 || job->result->code)
		return rc;
	job->result->line = (size_t)edit->line + 1;
	job->result->places = 1;
	return decide(job, EDIT_OK, "inserted %zu lines into '%s' behind line %ld",
		      count_lines(job->text.data, job->text.len), job->path, edit->line);
}

/* ---- delete, rename -------------------------------------------------------------------------------------- */

static int do_delete(struct job *job)
{
	int rc = look(job, true);

	if (rc < 0 || job->result->code)
		return rc;
	if ((rc = view_fits(job->view, job->edit->path, 0, job->err)) < 0)
		return decide_error(job, rc, EDIT_LIMIT);
	if ((rc = view_remove(job->view, job->edit->path, job->err)) < 0)
		return decide_error(job, rc, EDIT_PATH);
	return decide(job, EDIT_OK, "deleted '%s'", job->path);
}

static int do_rename(struct job *job)
{
	const char *to = job->edit->to;
	struct view_stat there;
	char shown[256];
	int rc = look(job, true);

	if (rc < 0 || job->result->code)
		return rc;
	text_escape(shown, sizeof(shown), to, strlen(to));
	if ((rc = path_check(to, strlen(to), job->err)) < 0)
		return decide_error(job, rc, EDIT_PATH);
	if (strcmp(job->edit->path, to) == 0)
		return decide(job, EDIT_NOOP, "'%s' has this name already", job->path);
	rc = view_stat(job->view, to, &there, job->err);
	/* a name below the file itself is decided by view_rename, when the file is out of the way */
	if (rc < 0 && rc != ERROR_NO)
		return rc;
	if (rc == 0 && there.kind != VIEW_NONE)
		return decide(job, EDIT_EXISTS, "'%s' exists already; delete it first if it is to be replaced",
			      shown);
	if ((rc = view_fits(job->view, to, (size_t)job->st.size, job->err)) < 0)
		return decide_error(job, rc, EDIT_LIMIT);
	if ((rc = view_rename(job->view, job->edit->path, to, job->err)) < 0)
		return decide_error(job, rc, EDIT_PATH);
	return decide(job, EDIT_OK, "renamed '%s' to '%s'", job->path, shown);
}

/* ---- all of them -------------------------------------------------------------------------------------------- */

static int dispatch(struct job *job)
{
	switch (job->edit->op) {
	case EDIT_WRITE:
		return do_write(job);
	case EDIT_REPLACE:
		return do_replace(job);
	case EDIT_INSERT:
		return do_insert(job);
	case EDIT_DELETE:
		return do_delete(job);
	case EDIT_RENAME:
		return do_rename(job);
	}
	return error_set(job->err, ERROR_USAGE, "unknown edit");
}

int edit_apply(struct view *view, const struct edit *edit, struct edit_result *result,
	       struct error *err)
{
	struct error own = {0};
	struct job job = {.view = view, .edit = edit, .result = result, .err = err ? err : &own};

	*result = (struct edit_result){.code = EDIT_OK};
	text_escape(job.path, sizeof(job.path), edit->path, strlen(edit->path));
	strbuf_init(&job.data, view_get_limits(view)->file_bytes);
	strbuf_init(&job.old, STRBUF_MAX);
	strbuf_init(&job.text, STRBUF_MAX);
	int rc = dispatch(&job);
	strbuf_release(&job.data);
	strbuf_release(&job.old);
	strbuf_release(&job.text);
	if (rc == 0 && err)
		*err = (struct error){0}; /* a refusal is no error */
	return rc;
}

int edit_apply_all(struct view *view, const struct edit_list *list, struct error *err)
{
	for (size_t i = 0; i < list->len; i++) {
		struct edit_result result;
		int rc = edit_apply(view, &list->items[i], &result, err);
		if (rc < 0)
			return error_wrap(err, "edit %zu", i + 1);
		if (result.code != EDIT_OK)
			return error_set(err, ERROR_NO, "edit %zu of '%.200s' refused (%s): %.900s", i + 1,
					 list->items[i].path, edit_code_text(result.code), result.message);
	}
	return 0;
}
