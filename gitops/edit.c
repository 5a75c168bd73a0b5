#include "edit.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gitops/attr.h"
#include "gitops/edit_internal.h"
#include "gitops/edit_lines.h"
#include "gitops/pathpolicy.h"
#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

/* A rewrite that keeps less than 40 % of at least this many lines is refused once. */
#define SHRINK_LINES 10

static const char bom[] = EDIT_BOM;

/* ---- lists ---- */

void edit_release(struct edit *edit)
{
	free(edit->path);
	free(edit->to);
	free(edit->old);
	free(edit->text);
	free(edit->old_id);
	free(edit->new_id);
	for (size_t i = 0; i < edit->hunk_count; i++) {
		free(edit->hunks[i].body);
		free(edit->hunks[i].scope);
	}
	free(edit->hunks);
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

void edit_push_hunk(struct edit *edit, struct edit_hunk *taken)
{
	edit->hunks = mem_realloc(edit->hunks, edit->hunk_count + 1, sizeof(*edit->hunks));
	edit->hunks[edit->hunk_count++] = *taken;
	*taken = (struct edit_hunk){0};
}

/* ---- outcomes ---- */

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
	    [EDIT_NO_ANCHOR] = "E_NO_ANCHOR",
	    [EDIT_OVERLAP] = "E_OVERLAP",
	    [EDIT_TRUNCATED] = "E_TRUNCATED",
	    [EDIT_MALFORMED] = "E_MALFORMED",
	};

	return (size_t)code < ARRAY_LEN(names) ? names[code] : "?";
}

/* Sets the outcome and its message. Returns 0: it was decided. */
int edit_decide(struct edit_job *job, enum edit_code code, const char *format, ...)
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
int edit_decide_error(struct edit_job *job, int rc, enum edit_code code)
{
	if (rc != ERROR_NO)
		return rc;
	return edit_decide(job, code, "%s", job->err->message);
}

/* ---- preparing ---- */

/* What a filter driver (LFS) stores is not what a person sees: refused. */
static int check_filter(struct edit_job *job, const char *path)
{
	struct attr_facts facts;
	char shown[128];
	int rc = attr_of_view(job->view, path, &facts, job->err);

	if (rc < 0)
		return edit_decide_error(job, rc, EDIT_PATH);
	if (!facts.filter[0])
		return 0;
	text_escape(shown, sizeof(shown), facts.filter, strlen(facts.filter));
	return edit_decide(
	    job, EDIT_MODE,
	    "'%s' is stored through the filter '%s' (.gitattributes), which does not run here",
	    path, shown);
}

/* Looks at the path; 0 with result->code EDIT_OK to go on. must: a regular file has to be
 * there. */
int edit_look(struct edit_job *job, bool must)
{
	const char *path = job->edit->path;
	int rc = path_check(path, strlen(path), job->err);

	if (rc == 0)
		rc = view_stat(job->view, path, &job->st, job->err);
	if (rc < 0)
		return edit_decide_error(job, rc, EDIT_PATH);
	switch (job->st.kind) {
	case VIEW_NONE:
		if (must)
			return edit_decide(job, EDIT_MISSING_FILE, "there is no file '%s'",
					   job->path);
		break;
	case VIEW_DIR:
		return edit_decide(job, EDIT_MODE, "'%s' is a directory, not a file",
				   job->path);
	case VIEW_LINK:
		return edit_decide(job, EDIT_MODE,
				   "'%s' is a symbolic link; links are not changed or followed",
				   job->path);
	case VIEW_SUBMODULE:
		return edit_decide(job, EDIT_MODE, "'%s' is a submodule and cannot be changed",
				   job->path);
	case VIEW_FILE:
	case VIEW_EXEC:
		break;
	}
	return job->edit->op == EDIT_DELETE ? 0 : check_filter(job, path);
}

int edit_load(struct edit_job *job)
{
	int rc = view_read(job->view, job->edit->path, &job->data, job->err);

	if (rc < 0)
		return edit_decide_error(job, rc, EDIT_LIMIT);
	job->has_bom =
	    job->data.len >= EDIT_BOM_LEN && memcmp(job->data.data, bom, EDIT_BOM_LEN) == 0;
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
bool edit_convert(const struct edit_job *job, const char *text, size_t len, struct strbuf *out)
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
	} else if (!text_is_utf8(text, len) && text_is_utf8(job->data.data, job->data.len)) {
		return false;
	}
	if (job->has_bom && len >= EDIT_BOM_LEN && memcmp(text, bom, EDIT_BOM_LEN) == 0) {
		text += EDIT_BOM_LEN;
		len -= EDIT_BOM_LEN;
	}
	lines_normalise(text, len, out);
	return true;
}

/* The words of a comment in lower case, without its opener; false for other lines. */
static bool comment_words(const struct line *line, char lower[200])
{
	static const char *const openers[] = {"//", "#", "/*", "<!--", "--", ";", "%", "*"};
	struct line rest = line_trim(line, NULL);
	size_t skip = 0;

	for (size_t i = 0; i < ARRAY_LEN(openers) && !skip; i++)
		if (rest.len > strlen(openers[i]) &&
		    !memcmp(rest.text, openers[i], strlen(openers[i])))
			skip = strlen(openers[i]);
	while (skip && skip < rest.len && strchr(" ([{", rest.text[skip]))
		skip++;
	if (!skip || rest.len - skip >= 200)
		return false;
	for (size_t i = skip; i < rest.len; i++) {
		char c = rest.text[i];
		lower[i - skip] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
	}
	lower[rest.len - skip] = '\0';
	return true;
}

static bool has_word(const char *text, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strstr(text, words[i]))
			return true;
	return false;
}

/* A comment that stands for code that was left out: "// ... rest unchanged". */
static bool is_elision(const struct line *line)
{
	static const char *const left_out[] = {"existing", "rest of",  "remain",  "unchanged",
					       "same as",  "previous", "omitted", "other "};
	static const char *const rest[] = {"unchanged", "remain", "same",
					   "as before", "stays",  "omitted"};
	char lower[200];

	if (!comment_words(line, lower))
		return false;
	bool dots = strncmp(lower, "...", 3) == 0 || strncmp(lower, "\xE2\x80\xA6", 3) == 0;
	size_t words = strspn(lower, ". ") + (dots && lower[0] != '.' ? 3 : 0);
	if (dots && (has_word(lower, left_out, ARRAY_LEN(left_out)) ||
		     strspn(lower + words, ". */->)]}") == strlen(lower + words)))
		return true;
	return strstr(lower, "existing code") || strstr(lower, "code unchanged") ||
	       (strstr(lower, "rest of ") && has_word(lower, rest, ARRAY_LEN(rest)));
}

bool edit_is_gap(const struct line *line)
{
	struct line rest = line_trim(line, NULL);

	return (rest.len == 3 &&
		(!memcmp(rest.text, "...", 3) || !memcmp(rest.text, "\xE2\x80\xA6", 3))) ||
	       is_elision(line);
}

/* Whether the new text leaves something out that the file does not leave out in the same
 * words. */
bool edit_elides(const struct edit_job *job, const struct strbuf *text)
{
	AUTO_LINES struct lines lines = {NULL, 0};

	lines_split(text->data, text->len, true, &lines);
	for (size_t i = 0; i < lines.len; i++) {
		const struct line *line = &lines.items[i];
		/* a whole file's line of dots at its left edge is no code either */
		bool gap = job->edit->op == EDIT_WRITE && line->len && line->text[0] != ' ' &&
			   line->text[0] != '\t' && edit_is_gap(line);
		if ((gap || is_elision(line)) &&
		    !memmem(job->data.data, job->data.len, line->text, line->len))
			return true;
	}
	return false;
}

int edit_decide_elision(struct edit_job *job)
{
	return edit_decide(job, EDIT_ELLIPSIS,
			   "the new text leaves something out with '...'; write out every line "
			   "that belongs there");
}

/* Puts the new bytes; the last step of every edit that writes. */
int edit_put(struct edit_job *job, enum view_kind kind, const struct strbuf *bytes)
{
	const char *path = job->edit->path;
	int rc = bytes->full
		     ? error_set(job->err, ERROR_NO,
				 "'%s' would be too big, the limit for a file is %zu bytes",
				 path, bytes->max)
		     : view_fits(job->view, path, bytes->len, job->err);

	if (rc < 0)
		return edit_decide_error(job, rc, EDIT_LIMIT);
	rc = view_put(job->view, path, kind, bytes->data, bytes->len, job->err);
	return rc < 0 ? edit_decide_error(job, rc, EDIT_PATH) : 0;
}

/* ---- write ---- */

size_t edit_count_lines(const char *data, size_t len)
{
	size_t count = 0;

	for (size_t i = 0; i < len; i++)
		count += data[i] == '\n';
	return count + (len > 0 && data[len - 1] != '\n');
}

static bool shrinks(const struct strbuf *before, size_t len, const char *text)
{
	size_t old_lines = edit_count_lines(before->data, before->len);

	return old_lines >= SHRINK_LINES && len * 10 < before->len * 4 &&
	       edit_count_lines(text, len) * 10 < old_lines * 4;
}

/* The bytes of a rewrite: the old file's line ends, encoding and byte-order mark go on where
 * the new text, which came as UTF-8 with LF, does not say otherwise. */
static int rewrite_bytes(struct edit_job *job, struct strbuf *out)
{
	const struct edit *edit = job->edit;
	const struct strbuf *before = &job->data;
	bool binary = view_is_binary(before->data, before->len);

	if (binary || !edit->text_len || !text_is_utf8(edit->text, edit->text_len) ||
	    memchr(edit->text, '\r', edit->text_len)) {
		strbuf_add(out, edit->text ? edit->text : "", edit->text_len);
		return 0;
	}
	if (!edit_convert(job, edit->text, edit->text_len, &job->text))
		return edit_decide(job, EDIT_ENCODING,
				   "'%s' is not UTF-8 (taken as ISO 8859-1) and the new text "
				   "has characters that do not exist there",
				   job->path);
	size_t skip = job->has_bom ? EDIT_BOM_LEN : 0;
	AUTO_LINES struct lines lines = {NULL, 0};
	lines_split(before->data + skip, before->len - skip, true, &lines);
	strbuf_add(out, bom, skip);
	if (edit->keep_end && lines.len && !lines.items[lines.len - 1].end && job->text.len &&
	    job->text.data[job->text.len - 1] == '\n')
		job->text.data[--job->text.len] = '\0';
	if (lines.len)
		lines_rewrite(&lines, job->text.data, job->text.len, out);
	else
		strbuf_add(out, job->text.data, job->text.len);
	return 0;
}

enum view_kind edit_kind(const struct edit_job *job, enum view_kind before)
{
	if (job->edit->mode)
		return job->edit->mode & 0100 ? VIEW_EXEC : VIEW_FILE;
	return before == VIEW_EXEC ? VIEW_EXEC : VIEW_FILE;
}

static int do_write(struct edit_job *job)
{
	const struct edit *edit = job->edit;
	AUTO_STRBUF struct strbuf bytes = STRBUF_NONE;
	enum view_kind before = VIEW_NONE;
	int rc = edit_look(job, false);

	if (rc < 0 || job->result->code)
		return rc;
	bool exists = job->st.kind != VIEW_NONE;
	before = job->st.kind;
	if (exists && edit->create)
		return edit_decide(job, EDIT_EXISTS, "'%s' exists already; edit it instead",
				   job->path);
	if (!exists && (rc = view_base_kind(job->view, edit->path, &before, job->err)) < 0)
		return rc;
	if (exists && ((rc = edit_load(job)) < 0 || job->result->code))
		return rc;
	if (exists && shrinks(&job->data, edit->text_len, edit->text))
		return edit_decide(job, EDIT_SHRINK,
				   "the new content has %zu lines where '%s' has %zu. Write "
				   "the whole file, or use edit "
				   "for a part of it. If most of it is really to go, delete "
				   "the file and write it again",
				   edit_count_lines(edit->text, edit->text_len), job->path,
				   edit_count_lines(job->data.data, job->data.len));
	struct strbuf plain = {.data = edit->text, .len = edit->text_len};
	if (edit_elides(job, &plain))
		return edit_decide_elision(job);
	strbuf_init(&bytes, view_get_limits(job->view)->file_bytes);
	if ((rc = rewrite_bytes(job, &bytes)) < 0 || job->result->code)
		return rc;
	enum view_kind kind = edit_kind(job, before);
	if (exists && kind == job->st.kind && bytes.len == job->data.len && !bytes.full &&
	    memcmp(bytes.data, job->data.data, bytes.len) == 0)
		return edit_decide(job, EDIT_NOOP, "'%s' has exactly this content already",
				   job->path);
	if ((rc = edit_put(job, kind, &bytes)) < 0 || job->result->code)
		return rc;
	job->result->line = 1;
	job->result->places = 1;
	return edit_decide(job, EDIT_OK, "%s '%s' (%zu lines)", exists ? "rewrote" : "created",
			   job->path, edit_count_lines(bytes.data, bytes.len));
}

/* ---- insert ---- */

/* Appends text (LF only) with the given line end, a last line that has none included when
 * close is set. */
static void add_with_end(const struct strbuf *text, const char *end, bool close,
			 struct strbuf *out)
{
	AUTO_LINES struct lines lines = {NULL, 0};

	lines_split(text->data, text->len, false, &lines);
	for (size_t i = 0; i < lines.len; i++) {
		strbuf_add(out, lines.items[i].text, lines.items[i].len);
		if (i + 1 < lines.len || close)
			strbuf_adds(out, end);
	}
}

static void insert_bytes(const struct edit_job *job, const struct lines *lines, size_t at,
			 struct strbuf *out)
{
	const char *end = lines_neighbour_end(lines, at);
	bool open_end = at == lines->len && at > 0 && !lines->items[at - 1].end;

	strbuf_add(out, bom, job->has_bom ? EDIT_BOM_LEN : 0);
	lines_copy(lines, 0, at, out);
	if (open_end) /* the file's last line has no end: it gets one, and the new last line has
			 none */
		strbuf_adds(out, end);
	bool keep_open = open_end || (!lines->len && job->text.len &&
				      job->text.data[job->text.len - 1] != '\n');
	add_with_end(&job->text, end, !keep_open, out);
	lines_copy(lines, at, lines->len, out);
}

static int do_insert(struct edit_job *job)
{
	const struct edit *edit = job->edit;
	AUTO_LINES struct lines lines = {NULL, 0};
	AUTO_STRBUF struct strbuf bytes = STRBUF_NONE;
	int rc = edit_look(job, true);

	if (rc < 0 || job->result->code)
		return rc;
	if ((rc = edit_load(job)) < 0 || job->result->code)
		return rc;
	if (view_is_binary(job->data.data, job->data.len))
		return edit_decide(job, EDIT_BINARY, "'%s' is a binary file", job->path);
	if (!edit->text_len)
		return edit_decide(job, EDIT_NOOP, "nothing to insert");
	if (!edit_convert(job, edit->text, edit->text_len, &job->text))
		return edit_decide(job, EDIT_ENCODING,
				   "'%s' is not UTF-8 (taken as ISO 8859-1) and the new text "
				   "has characters that do not exist there",
				   job->path);
	if (edit_elides(job, &job->text))
		return edit_decide_elision(job);
	size_t skip = job->has_bom ? EDIT_BOM_LEN : 0;
	lines_split(job->data.data + skip, job->data.len - skip, true, &lines);
	if (edit->line < 0 || (size_t)edit->line > lines.len)
		return edit_decide(job, EDIT_RANGE,
				   "'%s' has %zu lines; line %ld is none of 0 to %zu",
				   job->path, lines.len, edit->line, lines.len);
	strbuf_init(&bytes, view_get_limits(job->view)->file_bytes);
	insert_bytes(job, &lines, (size_t)edit->line, &bytes);
	if ((rc = edit_put(job, job->st.kind, &bytes)) < 0 || job->result->code)
		return rc;
	job->result->line = (size_t)edit->line + 1;
	job->result->places = 1;
	return edit_decide(job, EDIT_OK, "inserted %zu lines into '%s' behind line %ld",
			   edit_count_lines(job->text.data, job->text.len), job->path,
			   edit->line);
}

/* ---- delete, rename ---- */

static int do_delete(struct edit_job *job)
{
	int rc = edit_look(job, true);

	if (rc < 0 || job->result->code)
		return rc;
	if ((rc = view_fits(job->view, job->edit->path, 0, job->err)) < 0)
		return edit_decide_error(job, rc, EDIT_LIMIT);
	if ((rc = view_remove(job->view, job->edit->path, job->err)) < 0)
		return edit_decide_error(job, rc, EDIT_PATH);
	return edit_decide(job, EDIT_OK, "deleted '%s'", job->path);
}

int edit_look_target(struct edit_job *job, const char *to)
{
	struct view_stat there;
	char shown[256];
	int rc = path_check(to, strlen(to), job->err);

	text_escape(shown, sizeof(shown), to, strlen(to));
	if (rc < 0)
		return edit_decide_error(job, rc, EDIT_PATH);
	if ((rc = check_filter(job, to)) < 0 || job->result->code)
		return rc;
	if (strcmp(job->edit->path, to) == 0)
		return edit_decide(job, EDIT_NOOP, "'%s' has this name already", job->path);
	rc = view_stat(job->view, to, &there, job->err);
	/* a name below the file itself is decided by view_rename, when the file is out of
	 * the way */
	if (rc < 0 && rc != ERROR_NO)
		return rc;
	if (rc == 0 && there.kind != VIEW_NONE)
		return edit_decide(
		    job, EDIT_EXISTS,
		    "'%s' exists already; delete it first if it is to be replaced", shown);
	rc = view_fits(job->view, to, (size_t)job->st.size, job->err);
	return rc < 0 ? edit_decide_error(job, rc, EDIT_LIMIT) : 0;
}

static int do_rename(struct edit_job *job)
{
	const char *to = job->edit->to;
	char shown[256];
	int rc = edit_look(job, true);

	if (rc < 0 || job->result->code)
		return rc;
	if ((rc = edit_look_target(job, to)) < 0 || job->result->code)
		return rc;
	if ((rc = view_rename(job->view, job->edit->path, to, job->err)) < 0)
		return edit_decide_error(job, rc, EDIT_PATH);
	text_escape(shown, sizeof(shown), to, strlen(to));
	return edit_decide(job, EDIT_OK, "renamed '%s' to '%s'", job->path, shown);
}

/* ---- mode ---- */

bool edit_mode_is_plain(int mode)
{
	return mode == 0 || (mode & 0170000) == 0100000;
}

static int do_chmod(struct edit_job *job)
{
	int rc = edit_look(job, true);

	if (rc < 0 || job->result->code)
		return rc;
	if (!edit_mode_is_plain(job->edit->mode) || !job->edit->mode)
		return edit_decide(job, EDIT_MODE,
				   "'%s' can only be a regular file, executable or not",
				   job->path);
	enum view_kind kind = edit_kind(job, job->st.kind);
	if (kind == job->st.kind)
		return edit_decide(job, EDIT_ALREADY_APPLIED, "'%s' has mode %s already",
				   job->path, view_mode_text(kind));
	if ((rc = edit_load(job)) < 0 || job->result->code)
		return rc;
	if ((rc = edit_put(job, kind, &job->data)) < 0 || job->result->code)
		return rc;
	return edit_decide(job, EDIT_OK, "'%s' has mode %s now", job->path,
			   view_mode_text(kind));
}

/* ---- all of them ---- */

static int dispatch(struct edit_job *job)
{
	switch (job->edit->op) {
	case EDIT_WRITE:
		return do_write(job);
	case EDIT_REPLACE:
		return edit_do_replace(job);
	case EDIT_INSERT:
		return do_insert(job);
	case EDIT_DELETE:
		return do_delete(job);
	case EDIT_RENAME:
		return do_rename(job);
	case EDIT_CHMOD:
		return do_chmod(job);
	case EDIT_PATCH:
		return edit_do_patch(job);
	}
	return error_set(job->err, ERROR_USAGE, "unknown edit");
}

int edit_apply(struct view *view, const struct edit *edit, struct edit_result *result,
	       struct error *err)
{
	struct error own = {0};
	struct edit_job job = {
	    .view = view, .edit = edit, .result = result, .err = err ? err : &own};

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
			return error_set(
			    err, ERROR_NO, "edit %zu of '%.200s' refused (%s): %.900s", i + 1,
			    list->items[i].path, edit_code_text(result.code), result.message);
	}
	return 0;
}
