#include "edit_reading.h"

#include <stdlib.h>
#include <string.h>

#include "gitops/edit_hunk.h"
#include "gitops/edit_internal.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

/* How a hunk may have been spoilt. */
enum {
	AS_WRITTEN = 0,
	WHOLE_CONTEXT = 1, /* context lines lost their mark: what is taken for it is text */
	NO_TAIL = 2,	   /* unmarked lines at either end are none of it */
	NO_NUMBERS = 4,	   /* line numbers were copied along */
	NO_FIRST = 8,	   /* a blank line behind the first marker */
	NO_LAST = 16,	   /* a blank line before the next one */
};

bool hunk_next(const struct edit_hunk *hunk, size_t *pos, struct hunk_line *line)
{
	if (*pos >= hunk->len)
		return false;
	const char *start = hunk->body + *pos;
	const char *lf = memchr(start, '\n', hunk->len - *pos);
	size_t len = lf ? (size_t)(lf - start) : hunk->len - *pos;
	*pos += len + (lf ? 1 : 0);
	*line = (struct hunk_line){.mark = len ? *start : '?',
				   .text = len ? start + 1 : start,
				   .len = len ? len - 1 : 0};
	while (*pos < hunk->len && hunk->body[*pos] == '\\') {
		line->open = true;
		lf = memchr(hunk->body + *pos, '\n', hunk->len - *pos);
		*pos = lf ? (size_t)(lf - hunk->body) + 1 : hunk->len;
	}
	return true;
}

/* ---- one reading ---- */

static size_t count_lines(const struct edit_hunk *hunk)
{
	struct hunk_line line;
	size_t count = 0;

	for (size_t pos = 0; hunk_next(hunk, &pos, &line);)
		count++;
	return count;
}

static struct line text_of(const struct hunk_line *from, int how)
{
	struct line line = {.text = from->text, .len = from->len, .end = 1};

	if ((how & WHOLE_CONTEXT) && from->mark == ' ') {
		line.text--;
		line.len++;
	}
	if (line.len && line.text[line.len - 1] == '\r') {
		line.len--;
		line.end = 2;
	}
	return line;
}

static bool is_blank(const struct line *line)
{
	return line_trim(line, NULL).len == 0;
}

/* Where the marked lines begin and end: [*from, *to). */
static void marked_part(const struct edit_hunk *hunk, size_t *from, size_t *to)
{
	struct hunk_line line;
	size_t i = 0;
	bool seen = false;

	*from = *to = 0;
	for (size_t pos = 0; hunk_next(hunk, &pos, &line); i++) {
		struct line text = text_of(&line, AS_WRITTEN);
		bool marked = line.mark != '?';
		if (!seen && (marked || !is_blank(&text))) {
			*from = i;
			seen = true;
		}
		if (marked)
			*to = i + 1;
	}
}

static void add_line(struct lines *lines, struct line line)
{
	lines->items[lines->len++] = line;
}

/* Strips copied numbers off all lines of a side; false when they are not consecutive
 * (must) or only some lines have one. */
static bool strip_numbers(struct lines *lines, bool must)
{
	size_t numbered = 0;
	long number, last = 0;

	for (size_t i = 0; i < lines->len; i++) {
		if (!line_number_prefix(&lines->items[i], &number))
			continue;
		if (must && numbered && number != last + 1)
			return false;
		last = number;
		numbered++;
	}
	if (numbered != lines->len)
		return !must && !numbered;
	for (size_t i = 0; i < lines->len; i++) {
		size_t skip = line_number_prefix(&lines->items[i], &number);
		lines->items[i].text += skip;
		lines->items[i].len -= skip;
	}
	return true;
}

static bool drop_blank(struct lines *lines, bool last)
{
	if (!lines->len || !is_blank(&lines->items[last ? lines->len - 1 : 0]))
		return false;
	lines->len--;
	if (!last)
		memmove(lines->items, lines->items + 1, lines->len * sizeof(*lines->items));
	return true;
}

/* What is done to a search block's two sides; false when there is nothing of the kind. */
static bool mend_block(struct reading *reading, int how)
{
	if ((how & NO_NUMBERS) &&
	    (!strip_numbers(&reading->old, true) || !strip_numbers(&reading->now, false)))
		return false;
	for (int last = 0; last < 2; last++) {
		if (!(how & (last ? NO_LAST : NO_FIRST)))
			continue;
		if (reading->old.len < 2 || !drop_blank(&reading->old, last))
			return false;
		drop_blank(&reading->now, last);
	}
	return true;
}

static void reading_release(struct reading *reading)
{
	free(reading->old.items);
	free(reading->now.items);
	free(reading->map);
	free(reading->candidates);
	*reading = (struct reading){0};
}

/* Fills a reading; false when this way makes no difference to the hunk. */
static bool reading_init(struct reading *reading, const struct edit_hunk *hunk, int how)
{
	size_t count = count_lines(hunk), from = 0, to = count, i = 0;
	bool context = false, whole = false;
	struct hunk_line line;

	*reading = (struct reading){0};
	reading->old.items = mem_calloc(count + 1, sizeof(struct line));
	reading->now.items = mem_calloc(count + 1, sizeof(struct line));
	reading->map = mem_calloc(count + 1, sizeof(*reading->map));
	if (how & NO_TAIL) {
		marked_part(hunk, &from, &to);
		if (from == 0 && to == count)
			return false;
	}
	for (size_t pos = 0; hunk_next(hunk, &pos, &line); i++) {
		if (i < from || i >= to)
			continue;
		struct line text = text_of(&line, how);
		whole = whole || line.mark == ' ';
		if (line.mark == ' ' || line.mark == '?') {
			context = true;
			reading->map[reading->now.len] = (long)reading->old.len;
		} else if (line.mark == '+') {
			reading->map[reading->now.len] = -1;
		}
		reading->changes = reading->changes || line.mark == '+' || line.mark == '-';
		if (line.mark != '+') {
			add_line(&reading->old, text);
			reading->old_open = line.open;
		}
		if (line.mark != '-') {
			add_line(&reading->now, text);
			reading->now_open = line.open;
		}
	}
	if ((how & WHOLE_CONTEXT) && !whole)
		return false;
	if (!mend_block(reading, how))
		return false;
	if (!context) { /* no context is marked: it is what both sides have */
		free(reading->map);
		reading->map = lines_align(&reading->old, &reading->now);
	}
	return true;
}

/* Unmarked lines behind a hunk are words of the model only where it marks context lines. */
static bool may_drop_tail(const struct edit_hunk *hunk)
{
	struct hunk_line line;
	size_t from, to, i = 0;
	bool marked = false, lost = false, tail = false;

	marked_part(hunk, &from, &to);
	for (size_t pos = 0; hunk_next(hunk, &pos, &line); i++) {
		struct line text = text_of(&line, AS_WRITTEN);
		marked = marked || line.mark == ' ';
		if (line.mark != '?' || is_blank(&text))
			continue;
		lost = lost || i < to;
		tail = tail || i >= to;
	}
	return !tail || (marked && !lost);
}

void readings_init(struct readings *readings, const struct edit_hunk *hunk, bool search)
{
	static const int blocks[] = {AS_WRITTEN, NO_NUMBERS, NO_FIRST, NO_LAST,
				     NO_FIRST | NO_LAST};
	static const int hunks[] = {AS_WRITTEN, WHOLE_CONTEXT, NO_TAIL,
				    WHOLE_CONTEXT | NO_TAIL};
	const int *ways = search ? blocks : hunks;
	size_t count = search ? ARRAY_LEN(blocks) : ARRAY_LEN(hunks);
	bool tail = search || may_drop_tail(hunk);

	*readings = (struct readings){.len = 0};
	for (size_t i = 0; i < count; i++) {
		struct reading *reading = &readings->items[readings->len];
		if (((ways[i] & NO_TAIL) && !tail) || !reading_init(reading, hunk, ways[i])) {
			if (i) {
				reading_release(reading);
				continue;
			}
		}
		readings->len++;
	}
}

void readings_release(struct readings *readings)
{
	for (size_t i = 0; i < readings->len; i++)
		reading_release(&readings->items[i]);
	readings->len = 0;
}

bool reading_elides(const struct reading *reading)
{
	for (size_t i = 0; i < reading->old.len; i++)
		if (edit_is_gap(&reading->old.items[i]))
			return true;
	return false;
}

/* ---- choosing among places ---- */

/* Keeps the places for which keep[] is set, when there is any. */
static void keep_places(struct places *places, const bool *keep)
{
	size_t kept = 0;

	for (size_t i = 0; i < places->len; i++)
		kept += keep[i];
	if (!kept)
		return;
	kept = 0;
	for (size_t i = 0; i < places->len; i++)
		if (keep[i])
			places->items[kept++] = places->items[i];
	places->len = kept;
}

/* Next line from at on that is the scope's, at the first level with any; the number of lines
 * when there is none. */
static size_t find_scope(const struct text_file *file, const struct line *scope, size_t at)
{
	struct line mine = line_trim(scope, NULL);

	for (int level = LEVEL_EXACT; level <= LEVEL_INDENT; level++)
		for (size_t i = at; i < file->lines.len; i++) {
			const struct line *have = &file->lines.items[i];
			struct line theirs = line_trim(have, NULL);
			if (level < LEVEL_INDENT
				? line_equal(have, scope, (enum edit_level)level)
				: line_equal(&theirs, &mine, LEVEL_PUNCTUATION))
				return i;
		}
	return file->lines.len;
}

/* Of the places behind one scope line the first counts. False when none is behind the scope. */
static bool keep_scope(const struct text_file *file, const char *text, struct places *places)
{
	AUTO_LINES struct lines scope = {NULL, 0};
	AUTO_FREE bool *keep = mem_calloc(places->len + 1, sizeof(*keep));
	size_t at = 0, total = file->lines.len;
	bool any = false;

	lines_split(text, strlen(text), true, &scope);
	for (size_t i = 0; i + 1 < scope.len && at < total; i++)
		at = find_scope(file, &scope.items[i], at) + 1;
	if (!scope.len || at >= total)
		return false;
	bool nested = scope.len > 1;
	for (at = find_scope(file, &scope.items[scope.len - 1], at); at < total;) {
		size_t next = find_scope(file, &scope.items[scope.len - 1], at + 1);
		size_t stop = nested ? total : next;
		for (size_t i = 0; i < places->len; i++)
			if (places->items[i].first >= at && places->items[i].first < stop) {
				keep[i] = true;
				any = true;
				break;
			}
		at = nested ? total : next;
	}
	keep_places(places, keep);
	return any;
}

static void keep_end(const struct text_file *file, struct places *places)
{
	AUTO_FREE bool *keep = mem_calloc(places->len + 1, sizeof(*keep));

	for (size_t i = 0; i < places->len; i++)
		keep[i] = places->items[i].first + places->items[i].count == file->lines.len;
	keep_places(places, keep);
}

static void keep_behind(size_t behind, struct places *places)
{
	AUTO_FREE bool *keep = mem_calloc(places->len + 1, sizeof(*keep));

	for (size_t i = 0; i < places->len; i++)
		keep[i] = places->items[i].first >= behind;
	keep_places(places, keep);
}

/* The strictly nearest to the line number. */
static void keep_nearest(long line, struct places *places)
{
	size_t want = (size_t)line - 1, best = 0, least = (size_t)-1;
	bool tie = false;

	for (size_t i = 0; i < places->len; i++) {
		size_t first = places->items[i].first;
		size_t far = first > want ? first - want : want - first;
		tie = far < least ? false : tie || far == least;
		if (far < least) {
			least = far;
			best = i;
		}
	}
	if (tie)
		return;
	places->items[0] = places->items[best];
	places->len = 1;
}

/* False: what must hold of the place does not. */
static bool narrow(const struct text_file *file, const struct edit_hunk *hunk,
		   const struct reading *reading, size_t behind, struct places *places)
{
	if (hunk->scope && (hunk->must_scope || places->len > 1)) {
		/* the line number, where there is one, is the better witness than a heading */
		bool heading = !hunk->must_scope && hunk->line > 0;
		if (!heading && !keep_scope(file, hunk->scope, places) && hunk->must_scope)
			return false;
	}
	if (places->len > 1 && (hunk->at_end || reading->old_open))
		keep_end(file, places);
	if (places->len > 1 && hunk->ordered && behind)
		keep_behind(behind, places);
	if (places->len > 1 && hunk->line > 0)
		keep_nearest(hunk->line, places);
	return true;
}

void readings_choose(struct readings *readings, const struct text_file *file,
		     const struct edit_hunk *hunk, size_t behind, struct choice *choice,
		     struct places *places)
{
	*choice = (struct choice){.found = CHOICE_NONE};
	for (int level = LEVEL_EXACT; level <= LEVEL_INDENT; level++)
		for (size_t i = 0; i < readings->len; i++) {
			struct reading *reading = &readings->items[i];
			if (!reading->old.len ||
			    (level != LEVEL_EXACT && !lines_have_text(&reading->old)))
				continue;
			if (!reading->candidates)
				reading->candidates = lines_candidates(
				    file, &reading->old, &reading->candidate_count);
			places->len = 0;
			places->level = (enum edit_level)level;
			places_find_lines(file, &reading->old, places->level,
					  reading->candidates, reading->candidate_count,
					  places);
			if (places->work > PLACES_WORK_MAX || places->len >= PLACES_MAX) {
				choice->found = CHOICE_TOO_MUCH;
				return;
			}
			if (!places->len)
				continue;
			if (!narrow(file, hunk, reading, behind, places)) {
				choice->found = CHOICE_NO_SCOPE;
				continue;
			}
			choice->reading = reading;
			choice->place = places->items[0];
			choice->level = places->level;
			choice->found = places->len == 1 ? CHOICE_ONE : CHOICE_SEVERAL;
			return;
		}
}

/* ---- what is there already ---- */

/* Whether the new side says more than that lines of the old one are somewhere: it adds a line
 * with text, or it is what is left on both sides of removed lines. */
static bool says_enough(const struct reading *reading)
{
	size_t before = 0, after = 0, removed = 0, kept = 0;

	for (size_t j = 0; j < reading->now.len; j++) {
		struct line text = line_trim(&reading->now.items[j], NULL);
		if (reading->map[j] < 0 && text.len)
			return true;
	}
	for (size_t j = 0; j < reading->now.len; j++) {
		struct line text = line_trim(&reading->now.items[j], NULL);
		if (reading->map[j] > (long)kept)
			removed++;
		if (text.len && removed)
			after++;
		else if (text.len)
			before++;
		kept = (size_t)reading->map[j] + 1;
	}
	return removed == 1 && before && after;
}

bool readings_applied(struct readings *readings, const struct text_file *file)
{
	for (size_t i = 0; i < readings->len; i++) {
		const struct reading *reading = &readings->items[i];
		AUTO_PLACES struct places places = {0};
		size_t count;
		if (!reading->now.len || !says_enough(reading))
			continue;
		AUTO_FREE size_t *candidates = lines_candidates(file, &reading->now, &count);
		for (int level = LEVEL_EXACT; level <= LEVEL_INDENT; level++)
			places_find_lines(file, &reading->now, (enum edit_level)level,
					  candidates, count, &places);
		if (places.len)
			return true;
	}
	return false;
}

bool reading_is_there(const struct reading *reading, const struct text_file *file,
		      const struct place *place, enum edit_level level)
{
	const struct lines *now = &reading->now;
	size_t ahead = 0, next = 0;

	if (level == LEVEL_INDENT || now->len <= reading->old.len)
		return false;
	while (ahead < now->len && reading->map[ahead] < 0)
		ahead++;
	/* all of the old lines, one behind the other */
	for (size_t j = ahead; j < now->len; j++)
		if (reading->map[j] >= 0 && reading->map[j] == (long)next)
			next++;
		else if (next < reading->old.len)
			return false;
	if (next != reading->old.len || place->first < ahead ||
	    place->first - ahead + now->len > file->lines.len || !says_enough(reading))
		return false;
	for (size_t j = 0; j < now->len; j++)
		if (!line_equal(&file->lines.items[place->first - ahead + j], &now->items[j],
				level))
			return false;
	return true;
}
