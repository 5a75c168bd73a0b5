#include "edit_hunk.h"

#include <stdlib.h>
#include <string.h>

#include "gitops/edit_indent.h"
#include "gitops/edit_near.h"
#include "gitops/edit_reading.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

/* Lines [at, at + del) of the file become text. */
struct splice {
	size_t at, del, hunk;
	char *text; /* owned */
	size_t len;
};

/* Everything that one call works with. */
struct placing {
	const struct text_file *file;
	const struct edit_hunk *hunks;
	size_t count;
	bool search;
	struct hunks_report *report;
	struct strbuf *message;
	struct splice *splices; /* owned */
	size_t len, cap;
	size_t behind; /* first line behind the hunk placed last */
	int end;       /* what a hunk says of the last line's end: 0 nothing, 1 it has one, -1
			  it has none */
};

static void placing_release(struct placing *job)
{
	for (size_t i = 0; i < job->len; i++)
		free(job->splices[i].text);
	free(job->splices);
}

/* ---- refusing ---- */

static void refuse(struct placing *job, size_t index, enum edit_code code, const char *text)
{
	if (job->report->code == EDIT_OK)
		job->report->code = code;
	if (job->message->len && job->message->data[job->message->len - 1] != '\n')
		strbuf_addc(job->message, '\n');
	if (job->count > 1)
		strbuf_addf(job->message, "hunk %zu of %zu: ", index + 1, job->count);
	strbuf_adds(job->message, text);
}

static void refuse_unmatched(struct placing *job, size_t index, const struct reading *reading)
{
	AUTO_STRBUF struct strbuf text = STRBUF_NONE, old = STRBUF_NONE;

	strbuf_init(&text, 3500);
	strbuf_init(&old, STRBUF_MAX);
	for (size_t i = 0; i < reading->old.len; i++) {
		strbuf_add(&old, reading->old.items[i].text, reading->old.items[i].len);
		strbuf_addc(&old, '\n');
	}
	if (reading_elides(reading)) {
		refuse(job, index, EDIT_ELLIPSIS,
		       "the lines to find leave something out with '...'; give the exact "
		       "lines, fewer of them");
		return;
	}
	strbuf_adds(&text, "the lines to find are not in the file; ");
	near_describe(job->file, old.data, old.len, &text);
	refuse(job, index, EDIT_NO_MATCH, text.data);
}

static void refuse_scope(struct placing *job, size_t index, const char *scope)
{
	AUTO_STRBUF struct strbuf text = STRBUF_NONE, near = STRBUF_NONE;
	char shown[200];

	strbuf_init(&text, 3500);
	strbuf_init(&near, 3000);
	text_escape(shown, sizeof(shown), scope, strlen(scope));
	near_describe(job->file, scope, strlen(scope), &near);
	strbuf_addf(&text,
		    "the lines to find are not behind a line '%s' that the file would have to "
		    "hold; %s",
		    shown, near.data);
	refuse(job, index, EDIT_NO_MATCH, text.data);
}

static void refuse_ambiguous(struct placing *job, size_t index, const struct places *places)
{
	AUTO_STRBUF struct strbuf text = STRBUF_NONE;

	strbuf_init(&text, 3500);
	strbuf_addf(&text,
		    "the lines to find are at %zu places; add lines around them that make them "
		    "unique:\n",
		    places->len);
	near_places(job->file, places, &text);
	refuse(job, index, EDIT_AMBIGUOUS, text.data);
}

/* ---- making ---- */

static void add_splice(struct placing *job, size_t at, size_t del, size_t hunk,
		       struct strbuf *text)
{
	if (job->len == job->cap) {
		job->cap = job->cap ? job->cap * 2 : 16;
		job->splices = mem_realloc(job->splices, job->cap, sizeof(*job->splices));
	}
	size_t len = text->len;
	job->splices[job->len++] = (struct splice){at, del, hunk, strbuf_steal(text), len};
}

/* A hunk that changes line ends, whose old lines have the file's: its new ends are meant. */
static bool ends_are_meant(const struct text_file *file, const struct reading *reading,
			   size_t first)
{
	bool lf = false, crlf = false;

	for (size_t i = 0; i < reading->old.len; i++)
		if (reading->old.items[i].end != file->lines.items[first + i].end &&
		    file->lines.items[first + i].end)
			return false;
	for (int side = 0; side < 2; side++) {
		const struct lines *lines = side ? &reading->now : &reading->old;
		for (size_t i = 0; i < lines->len; i++) {
			lf = lf || lines->items[i].end == 1;
			crlf = crlf || lines->items[i].end == 2;
		}
	}
	return lf && crlf;
}

/* The end of the kth of the new lines that stand for the file's lines [from, to). */
static const char *end_of(const struct text_file *file, size_t from, size_t to, size_t k)
{
	if (from + k < to && file->lines.items[from + k].end)
		return lines_neighbour_end(&file->lines, from + k + 1);
	return lines_neighbour_end(&file->lines, to);
}

/* Turns a placed reading into splices. 0, or -1 when an indentation cannot be mapped. */
static int make(struct placing *job, size_t index, const struct reading *reading,
		const struct place *place, enum edit_level level)
{
	const struct lines *now = &reading->now;
	AUTO_INDENT struct indent_map map = {NULL, 0, 0};
	size_t from = 0;

	if (level == LEVEL_INDENT)
		indent_match(job->file->lines.items + place->first, &reading->old, &map);
	bool meant = level == LEVEL_EXACT && ends_are_meant(job->file, reading, place->first);
	for (size_t j = 0; j <= now->len;) {
		if (j < now->len && reading->map[j] >= 0 &&
		    (size_t)reading->map[j] == from) { /* a line that stays */
			from++;
			j++;
			continue;
		}
		size_t stop = j;
		while (stop < now->len && reading->map[stop] < 0)
			stop++;
		size_t to = stop < now->len ? (size_t)reading->map[stop] : reading->old.len;
		if (j == stop && from == to)
			break;
		struct strbuf text;
		strbuf_init(&text, STRBUF_MAX);
		for (size_t k = 0; j < stop; j++, k++) {
			if (indent_add_line(&map, &now->items[j], &text) < 0) {
				strbuf_release(&text);
				return -1;
			}
			strbuf_adds(&text, meant ? now->items[j].end == 2 ? "\r\n" : "\n"
						 : end_of(job->file, place->first + from,
							  place->first + to, k));
		}
		add_splice(job, place->first + from, to - from, index, &text);
		from = to;
	}
	job->behind = place->first + place->count;
	if (reading->old_open != reading->now_open && job->behind == job->file->lines.len)
		job->end = reading->now_open ? -1 : 1;
	if (level > job->report->level)
		job->report->level = level;
	job->report->places++;
	return 0;
}

/* Lines to add without any line to find: only an empty file, or the named end of one, says
 * where. */
static void place_unanchored(struct placing *job, size_t index, const struct reading *reading)
{
	struct place end = {.first = job->file->lines.len};

	if (job->file->lines.len && !job->hunks[index].at_end)
		refuse(
		    job, index, EDIT_NO_ANCHOR,
		    "it only adds lines and has no context line that says where; give a line "
		    "or two of the file around them (a line number alone is not trusted)");
	else
		make(job, index, reading, &end, LEVEL_EXACT);
}

static void place_hunk(struct placing *job, size_t index)
{
	const struct edit_hunk *hunk = &job->hunks[index];
	AUTO_READINGS struct readings readings = {0};
	AUTO_PLACES struct places places = {0};
	struct choice choice;

	readings_init(&readings, hunk, job->search);
	const struct reading *first = &readings.items[0];
	if (!first->changes)
		return;
	if (!first->old.len) {
		place_unanchored(job, index, first);
		return;
	}
	readings_choose(&readings, job->file, hunk, job->behind, &choice, &places);
	switch (choice.found) {
	case CHOICE_ONE:
		if (reading_is_there(choice.reading, job->file, &choice.place, choice.level))
			job->report->already++;
		else if (make(job, index, choice.reading, &choice.place, choice.level) < 0)
			refuse(job, index, EDIT_INDENT,
			       "the lines to find match with other indentation, and a new line "
			       "has "
			       "an indentation that cannot be mapped; use the file's own "
			       "indentation");
		return;
	case CHOICE_SEVERAL:
		refuse_ambiguous(job, index, &places);
		return;
	case CHOICE_TOO_MUCH:
		refuse(job, index, EDIT_LIMIT,
		       "the lines to find are too many and too repetitive for this file; use "
		       "fewer and more particular ones");
		return;
	case CHOICE_NO_SCOPE:
	case CHOICE_NONE:
		break;
	}
	if (readings_applied(&readings, job->file))
		job->report->already++;
	else if (choice.found == CHOICE_NO_SCOPE)
		refuse_scope(job, index, hunk->scope);
	else
		refuse_unmatched(job, index, first);
}

/* ---- putting together ---- */

static int compare_splices(const void *a, const void *b)
{
	const struct splice *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	if (!x->del != !y->del) /* what is put in before a line goes before its change */
		return x->del ? 1 : -1;
	return x->hunk < y->hunk ? -1 : x->hunk > y->hunk;
}

static bool same_splice(const struct splice *a, const struct splice *b)
{
	return a->at == b->at && a->del == b->del && a->del && a->len == b->len &&
	       memcmp(a->text, b->text, a->len) == 0;
}

static void refuse_overlap(struct placing *job, const struct splice *a, const struct splice *b)
{
	size_t one = a->hunk < b->hunk ? a->hunk : b->hunk;
	size_t two = a->hunk < b->hunk ? b->hunk : a->hunk;
	AUTO_FREE char *text =
	    mem_printf("it changes line %zu, which hunk %zu changes too; make one hunk of them",
		       b->at + 1, one + 1);

	refuse(job, two, EDIT_OVERLAP, text);
}

/* The last line's end is as the file has it, unless a hunk says otherwise. */
static void close_end(const struct placing *job, size_t start, struct strbuf *out)
{
	const struct lines *lines = &job->file->lines;
	bool closed = out->len > start && out->data[out->len - 1] == '\n';
	bool want = !lines->len || lines->items[lines->len - 1].end;

	if (job->end)
		want = job->end > 0;
	if (out->len == start || closed == want)
		return;
	if (want) {
		strbuf_adds(out, lines_neighbour_end(lines, lines->len));
		return;
	}
	out->len--;
	if (out->len > start && out->data[out->len - 1] == '\r')
		out->len--;
	out->data[out->len] = '\0';
}

static void assemble(struct placing *job, struct strbuf *out)
{
	const struct lines *lines = &job->file->lines;
	size_t line = 0, start = out->len;

	mem_sort(job->splices, job->len, sizeof(*job->splices), compare_splices);
	for (size_t i = 0; i < job->len; i++) {
		const struct splice *splice = &job->splices[i], *last = i ? splice - 1 : NULL;
		if (last && same_splice(last, splice))
			continue;
		if (last && splice->at < last->at + last->del) {
			refuse_overlap(job, last, splice);
			return;
		}
		lines_copy(lines, line, splice->at, out);
		if (out->len > start && out->data[out->len - 1] != '\n' && splice->len)
			strbuf_adds(out, lines_neighbour_end(lines, splice->at));
		strbuf_add(out, splice->text, splice->len);
		line = splice->at + splice->del;
	}
	lines_copy(lines, line, lines->len, out);
	close_end(job, start, out);
	job->report->line = job->len ? job->splices[0].at + 1 : 0;
}

/* Hunks written one behind the other: the context of one shows what another before it made. */
static bool apply_in_turn(const struct placing *job, struct strbuf *out)
{
	AUTO_STRBUF struct strbuf text = STRBUF_NONE, next = STRBUF_NONE, ignored = STRBUF_NONE;
	struct hunks_report report = {.code = EDIT_OK};
	bool good = true;

	strbuf_init(&text, STRBUF_MAX);
	lines_copy(&job->file->lines, 0, job->file->lines.len, &text);
	for (size_t i = 0; i < job->count && good; i++) {
		AUTO_TEXT_FILE struct text_file file = {0};
		strbuf_init(&next, STRBUF_MAX);
		strbuf_init(&ignored, 4096);
		text_file_init(&file, text.data, text.len);
		report = (struct hunks_report){.code = EDIT_OK};
		hunks_apply(&file, &job->hunks[i], 1, job->search, &report, &ignored, &next);
		good = report.code == EDIT_OK;
		strbuf_release(&ignored);
		if (good) {
			text_file_release(&file);
			strbuf_release(&text);
			text = next;
			next = (struct strbuf)STRBUF_NONE;
		} else {
			strbuf_release(&next);
		}
	}
	if (good)
		strbuf_add(out, text.data, text.len);
	return good;
}

void hunks_apply(const struct text_file *file, const struct edit_hunk *hunks, size_t count,
		 bool search, struct hunks_report *report, struct strbuf *message,
		 struct strbuf *out)
{
	struct placing job = {.file = file,
			      .hunks = hunks,
			      .count = count,
			      .search = search,
			      .report = report,
			      .message = message};

	*report = (struct hunks_report){.code = EDIT_OK};
	for (size_t i = 0; i < count; i++)
		place_hunk(&job, i);
	if (report->code == EDIT_OK && !job.len && !job.end)
		report->code = report->already ? EDIT_ALREADY_APPLIED : EDIT_NOOP;
	size_t start = out->len;
	if (report->code == EDIT_OK)
		assemble(&job, out);
	if (report->code == EDIT_NO_MATCH && count > 1 && apply_in_turn(&job, out)) {
		*report = (struct hunks_report){.code = EDIT_OK, .places = count, .line = 1};
		strbuf_reset(message);
	}
	if (report->code != EDIT_OK)
		out->len = start;
	placing_release(&job);
}

/* ---- git's own way ---- */

static size_t raw_line(const char *raw, size_t len, size_t pos)
{
	const char *lf = memchr(raw + pos, '\n', len - pos);

	return lf ? (size_t)(lf - raw) + 1 : len;
}

/* Whether the next raw line is the hunk's, end and all. */
static bool raw_equal(const char *raw, size_t from, size_t to, const struct hunk_line *line)
{
	size_t text = to - from;
	bool open = to == from || raw[to - 1] != '\n';

	return to > from && open == line->open && text - (open ? 0 : 1) == line->len &&
	       memcmp(raw + from, line->text, line->len) == 0;
}

static bool hunk_has_old(const struct edit_hunk *hunk)
{
	struct hunk_line line;

	for (size_t pos = 0; hunk_next(hunk, &pos, &line);)
		if (line.mark != '+')
			return true;
	return false;
}

bool hunks_apply_exactly(const char *raw, size_t len, const struct edit_hunk *hunks,
			 size_t count, struct strbuf *out)
{
	size_t at = 0; /* bytes done */
	long number = 1;

	for (size_t i = 0; i < count; i++) {
		struct hunk_line line;
		long first = hunks[i].line + (hunk_has_old(&hunks[i]) ? 0 : 1);
		if (hunks[i].line < 0 || first < number)
			return false;
		for (; number < first; number++) {
			size_t next = at < len ? raw_line(raw, len, at) : at;
			if (next == at)
				return false;
			strbuf_add(out, raw + at, next - at);
			at = next;
		}
		for (size_t pos = 0; hunk_next(&hunks[i], &pos, &line);) {
			if (line.mark != '+') {
				size_t next = at < len ? raw_line(raw, len, at) : at;
				if (!raw_equal(raw, at, next, &line))
					return false;
				at = next;
				number++;
			}
			if (line.mark == '-')
				continue;
			strbuf_add(out, line.text, line.len);
			if (!line.open)
				strbuf_addc(out, '\n');
		}
	}
	strbuf_add(out, raw + at, len - at);
	return !out->full;
}

bool hunks_new_file(const struct edit_hunk *hunks, size_t count, struct strbuf *out)
{
	for (size_t i = 0; i < count; i++) {
		struct hunk_line line;
		for (size_t pos = 0; hunk_next(&hunks[i], &pos, &line);) {
			bool blank = line.len == 0 || (line.len == 1 && line.text[0] == '\r');
			if (line.mark != '+' && (line.mark == '-' || !blank))
				return false;
			strbuf_add(out, line.text, line.len);
			if (!line.open)
				strbuf_addc(out, '\n');
		}
	}
	return true;
}
