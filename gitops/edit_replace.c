/* EDIT_REPLACE: the operation with the ladder, and what is said when it finds no place. See
 * gitops/edit.h. */
#include "edit_internal.h"

#include <string.h>

#include "gitops/edit_lines.h"
#include "gitops/edit_near.h"
#include "pipeline/base/error.h"

/* Takes line numbers, copied from a listing, off every line. False when not every line has
 * one, or, with consecutive, when they do not count up. */
static bool strip_numbers(const struct strbuf *text, bool consecutive, struct strbuf *out)
{
	AUTO_LINES struct lines lines = {NULL, 0};
	long last = 0;

	lines_split(text->data, text->len, false, &lines);
	for (size_t i = 0; i < lines.len; i++) {
		long number;
		size_t skip = line_number_prefix(&lines.items[i], &number);
		if (!skip || (consecutive && i && number != last + 1))
			return false;
		last = number;
		strbuf_add(out, lines.items[i].text + skip,
			   lines.items[i].len - skip + lines.items[i].end);
	}
	return lines.len > 0;
}

/* The same edit without copied line numbers; true when old and text were changed. */
static bool without_numbers(struct edit_job *job)
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

/* The same edit without a blank first line, which models put behind a marker; true when
 * there was one. */
static bool without_blank_line(struct edit_job *job)
{
	if (job->old.len < 2 || job->old.data[0] != '\n')
		return false;
	job->old.len--;
	memmove(job->old.data, job->old.data + 1, job->old.len + 1);
	if (job->text.len && job->text.data[0] == '\n') {
		job->text.len--;
		memmove(job->text.data, job->text.data + 1, job->text.len + 1);
	}
	return true;
}

static bool has_ellipsis_line(const struct strbuf *text)
{
	AUTO_LINES struct lines lines = {NULL, 0};

	lines_split(text->data, text->len, false, &lines);
	for (size_t i = 0; i < lines.len; i++)
		if (edit_is_gap(&lines.items[i]))
			return true;
	return false;
}

static bool only_blank(const struct strbuf *text)
{
	return strspn(text->data, " \t\n\r") >= text->len;
}

/* Nothing matched: say why, and what comes nearest. */
static int decide_unmatched(struct edit_job *job, const struct text_file *file)
{
	AUTO_STRBUF struct strbuf near = STRBUF_NONE;

	if (has_ellipsis_line(&job->old))
		return edit_decide(job, EDIT_ELLIPSIS,
				   "the text to find leaves something out with '...'; give the "
				   "exact lines, fewer of them");
	/* a text that is part of the old one, or next to nothing, proves nothing */
	if (job->text.len >= 3 && !only_blank(&job->text) &&
	    !memmem(job->old.data, job->old.len, job->text.data, job->text.len) &&
	    memmem(file->norm, file->norm_len, job->text.data, job->text.len))
		return edit_decide(
		    job, EDIT_ALREADY_APPLIED,
		    "'%s' already has the new text and not the old one: nothing to do",
		    job->path);
	strbuf_init(&near, 3500);
	near_describe(file, job->old.data, job->old.len, &near);
	return edit_decide(job, EDIT_NO_MATCH, "the text to find is not in '%s'; %s", job->path,
			   near.data);
}

static int decide_ambiguous(struct edit_job *job, const struct text_file *file,
			    const struct places *places, long want)
{
	AUTO_STRBUF struct strbuf where = STRBUF_NONE;

	strbuf_init(&where, 3500);
	near_places(file, places, &where);
	return edit_decide(job, EDIT_AMBIGUOUS,
			   "the text to find is at %zu places in '%s' and %ld %s asked for%s; "
			   "add lines around it that make "
			   "it unique, or give the count:\n%s",
			   places->len, job->path, want, want == 1 ? "was" : "were",
			   places->overlap ? " (they overlap)" : "", where.data);
}

/* A change of nothing but line ends: old and text as they are, byte for byte. */
static int replace_line_ends(struct edit_job *job)
{
	const struct edit *edit = job->edit;
	const char *hit = memmem(job->data.data, job->data.len, edit->old, edit->old_len);
	AUTO_STRBUF struct strbuf bytes = STRBUF_NONE;

	if (!hit)
		return edit_decide(job, EDIT_NO_MATCH, "'%s' does not have these line ends",
				   job->path);
	size_t at = (size_t)(hit - job->data.data), rest = at + edit->old_len;
	if (memmem(hit + 1, job->data.len - at - 1, edit->old, edit->old_len))
		return edit_decide(job, EDIT_AMBIGUOUS,
				   "these line ends are in '%s' more than once", job->path);
	strbuf_init(&bytes, view_get_limits(job->view)->file_bytes);
	strbuf_add(&bytes, job->data.data, at);
	strbuf_add(&bytes, edit->text, edit->text_len);
	strbuf_add(&bytes, job->data.data + rest, job->data.len - rest);
	int rc = edit_put(job, job->st.kind, &bytes);
	if (rc < 0 || job->result->code)
		return rc;
	job->result->line = edit_count_lines(job->data.data, at + 1);
	job->result->places = 1;
	return edit_decide(job, EDIT_OK, "changed line ends in '%s'", job->path);
}

static int finish_replace(struct edit_job *job, const struct text_file *file,
			  const struct places *places)
{
	static const char *const how[] = {
	    "", ", not counting blanks at line ends",
	    ", taking typographic quotes, dashes and blanks as plain ones",
	    ", with the indentation mapped onto the file's"};
	AUTO_STRBUF struct strbuf bytes = STRBUF_NONE;

	strbuf_init(&bytes, view_get_limits(job->view)->file_bytes);
	strbuf_add(&bytes, job->data.data, job->has_bom ? EDIT_BOM_LEN : 0);
	if (places_replace(file, places, job->old.data, job->old.len, job->text.data,
			   job->text.len, &bytes) < 0)
		return edit_decide(
		    job, EDIT_INDENT,
		    "the text to find matches line %zu of '%s' with other indentation, and the "
		    "new text has "
		    "an indentation that cannot be mapped; use the file's own indentation",
		    places->items[0].first + 1, job->path);
	if (!bytes.full && bytes.len == job->data.len &&
	    memcmp(bytes.data, job->data.data, bytes.len) == 0)
		return edit_decide(job, EDIT_NOOP, "the edit changes nothing in '%s'",
				   job->path);
	int rc = edit_put(job, job->st.kind, &bytes);
	if (rc < 0 || job->result->code)
		return rc;
	job->result->level = places->level;
	job->result->line = places->items[0].first + 1;
	job->result->places = places->len;
	return edit_decide(job, EDIT_OK, "edited '%s' at line %zu (%zu place%s%s)", job->path,
			   job->result->line, places->len, places->len == 1 ? "" : "s",
			   how[places->level]);
}

static int replace_text(struct edit_job *job)
{
	AUTO_TEXT_FILE struct text_file file = {0};
	AUTO_PLACES struct places places = {0};
	size_t skip = job->has_bom ? EDIT_BOM_LEN : 0;
	long want = job->edit->count ? job->edit->count : 1;

	text_file_init(&file, job->data.data + skip, job->data.len - skip);
	places_find(&file, job->old.data, job->old.len, &places);
	if (!places.len && without_numbers(job))
		places_find(&file, job->old.data, job->old.len, &places);
	if (!places.len && without_blank_line(job))
		places_find(&file, job->old.data, job->old.len, &places);
	if (places.work > PLACES_WORK_MAX)
		return edit_decide(
		    job, EDIT_LIMIT,
		    "the text to find is too long and too repetitive for '%s'; use a "
		    "shorter, more particular part of it",
		    job->path);
	if (!places.len)
		return decide_unmatched(job, &file);
	if (places.len >= PLACES_MAX)
		return edit_decide(job, EDIT_LIMIT,
				   "the text to find is at more than %d places in '%s'",
				   PLACES_MAX - 1, job->path);
	if (want > 0 ? (size_t)want != places.len || places.overlap
		     : places.overlap && places.level != LEVEL_EXACT)
		return decide_ambiguous(job, &file, &places, want);
	return finish_replace(job, &file, &places);
}

int edit_do_replace(struct edit_job *job)
{
	const struct edit *edit = job->edit;
	int rc = edit_look(job, true);

	if (rc < 0 || job->result->code)
		return rc;
	if (!edit->old_len)
		return edit_decide(
		    job, EDIT_EMPTY_SEARCH,
		    "the text to find is empty; use insert, or write for the whole file");
	if ((rc = edit_load(job)) < 0 || job->result->code)
		return rc;
	if (view_is_binary(job->data.data, job->data.len))
		return edit_decide(job, EDIT_BINARY,
				   "'%s' is a binary file; only write can replace it",
				   job->path);
	if (edit->old_len == edit->text_len &&
	    memcmp(edit->old, edit->text, edit->old_len) == 0)
		return edit_decide(job, EDIT_NOOP, "the old and the new text are the same");
	if (!edit_convert(job, edit->old, edit->old_len, &job->old))
		return edit_decide(
		    job, EDIT_NO_MATCH,
		    "the text to find has characters that '%s' cannot have in its encoding",
		    job->path);
	if (!edit_convert(job, edit->text, edit->text_len, &job->text))
		return edit_decide(job, EDIT_ENCODING,
				   "'%s' is not UTF-8 (taken as ISO 8859-1) and the new text "
				   "has characters that do not exist there",
				   job->path);
	if (job->old.len == job->text.len &&
	    memcmp(job->old.data, job->text.data, job->old.len) == 0)
		return replace_line_ends(job);
	if (edit_elides(job, &job->text))
		return edit_decide_elision(job);
	return replace_text(job);
}
