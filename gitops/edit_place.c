/* The ladder and the replacement: the other half of gitops/edit_lines.h. */
#include "edit_lines.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gitops/edit_indent.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

void places_release(struct places *places)
{
	free(places->items);
	*places = (struct places){0};
}

static void add_place(struct places *places, struct place place)
{
	if (places->len == places->cap) {
		places->cap = places->cap ? places->cap * 2 : 8;
		places->items = mem_realloc(places->items, places->cap, sizeof(*places->items));
	}
	places->items[places->len++] = place;
}

/* Index of the line that holds the byte of the normalised file. */
static size_t line_at(const struct text_file *file, size_t offset)
{
	size_t low = 0, high = file->lines.len;

	while (low + 1 < high) {
		size_t middle = low + (high - low) / 2;
		if (file->offsets[middle] <= offset)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static void find_exact(const struct text_file *file, const char *old, size_t len,
		       struct places *places)
{
	size_t pos = 0, last_end = 0;

	while (pos + len <= file->norm_len && places->len < PLACES_MAX) {
		const char *hit = memmem(file->norm + pos, file->norm_len - pos, old, len);
		if (!hit)
			return;
		size_t start = (size_t)(hit - file->norm);
		if (places->len && start < last_end) {
			places->overlap = true;
			pos = last_end; /* one is enough to know */
			continue;
		}
		last_end = start + len;
		pos = places->overlap ? last_end : start + 1;
		size_t first = line_at(file, start), last = line_at(file, last_end - 1);
		add_place(places, (struct place){.first = first,
						 .count = last - first + 1,
						 .start = start,
						 .end = last_end});
	}
}

/* ---- finding ---- */

static bool match_here(const struct line *file, const struct lines *old, enum edit_level level,
		       struct indent_map *map)
{
	if (level == LEVEL_INDENT)
		return indent_match(file, old, map);
	for (size_t i = 0; i < old->len; i++)
		if (!line_equal(&file[i], &old->items[i], level))
			return false;
	return true;
}

/* Rabin and Karp's rolling sum: the time is that of one pass over the file, also when all of
 * its lines are alike. */
size_t *lines_candidates(const struct text_file *file, const struct lines *old, size_t *count)
{
	const uint64_t base = 0x100000001b3ULL;
	uint64_t want = 0, have = 0, top = 1;
	size_t total = file->lines.len, n = old->len, used = 0;
	size_t *found = mem_calloc(total + 1, sizeof(*found));

	*count = 0;
	if (n > total)
		return found;
	uint64_t *hashes = mem_calloc(total, sizeof(*hashes));
	for (size_t i = 0; i < n; i++) {
		want = want * base + line_hash(&old->items[i]);
		top = i ? top * base : 1;
	}
	for (size_t i = 0; i < total; i++) {
		hashes[i] = line_hash(&file->lines.items[i]);
		if (i >= n)
			have -= hashes[i - n] * top;
		have = have * base + hashes[i];
		if (i + 1 >= n && have == want)
			found[used++] = i + 1 - n;
	}
	free(hashes);
	*count = used;
	return found;
}

void places_find_lines(const struct text_file *file, const struct lines *old,
		       enum edit_level level, const size_t *candidates, size_t count,
		       struct places *places)
{
	struct indent_map map = {NULL, 0, 0};

	for (size_t i = 0; i < count && places->len < PLACES_MAX; i++) {
		size_t at = candidates[i];
		places->work += old->len;
		if (places->work > PLACES_WORK_MAX)
			break;
		if (!match_here(file->lines.items + at, old, level, &map))
			continue;
		if (places->len) {
			const struct place *last = &places->items[places->len - 1];
			places->overlap = places->overlap || at < last->first + last->count;
		}
		add_place(places, (struct place){.first = at, .count = old->len});
	}
	indent_release(&map);
}

bool lines_have_text(const struct lines *lines)
{
	for (size_t i = 0; i < lines->len; i++)
		if (line_trim(&lines->items[i], NULL).len)
			return true;
	return false;
}

void places_find(const struct text_file *file, const char *old, size_t len,
		 struct places *places)
{
	AUTO_LINES struct lines lines = {NULL, 0};

	*places = (struct places){.level = LEVEL_EXACT};
	find_exact(file, old, len, places);
	lines_split(old, len, false, &lines);
	if (places->len || !lines_have_text(&lines))
		return;
	size_t count, *candidates = lines_candidates(file, &lines, &count);
	for (int level = LEVEL_BLANKS; level <= LEVEL_INDENT && !places->len; level++) {
		places->level = (enum edit_level)level;
		places_find_lines(file, &lines, places->level, candidates, count, places);
	}
	free(candidates);
}

/* ---- replacing ---- */

/* What one replacement works on. */
struct change {
	const struct text_file *file;
	size_t first;		 /* the place's first line */
	size_t count;		 /* its lines */
	const struct lines *old; /* the edit's lines, or the file's own at LEVEL_EXACT */
	const struct lines *now;
	const struct indent_map *map; /* LEVEL_INDENT, else NULL */
};

/* The line end of new line j, which stands for old lines [from, to) of the place as its
 * kth. */
static const char *new_end(const struct change *change, size_t from, size_t to, size_t k)
{
	const struct lines *lines = &change->file->lines;

	if (from + k < to && lines->items[change->first + from + k].end)
		return lines_neighbour_end(lines, change->first + from + k + 1);
	return lines_neighbour_end(lines, change->first + to);
}

/* Appends the new lines of one place. */
static int emit(const struct change *change, struct strbuf *out)
{
	const struct lines *file = &change->file->lines;
	AUTO_FREE long *map = lines_align(change->old, change->now);
	size_t from = 0; /* first old line that is not dealt with */

	for (size_t j = 0; j < change->now->len;) {
		const struct line *line = &change->now->items[j];
		if (map[j] >= 0) {
			const struct line *own = &file->items[change->first + (size_t)map[j]];
			strbuf_add(out, own->text, own->len);
			if (line->end && own->end)
				strbuf_add(out, own->text + own->len, own->end);
			else if (line->end)
				strbuf_adds(out, lines_neighbour_end(file, change->first +
									       (size_t)map[j]));
			from = (size_t)map[j++] + 1;
			continue;
		}
		size_t stop = j;
		while (stop < change->now->len && map[stop] < 0)
			stop++;
		size_t to = stop < change->now->len ? (size_t)map[stop] : change->count;
		for (size_t k = 0; j < stop; j++, k++) {
			line = &change->now->items[j];
			if (indent_add_line(change->map, line, out) < 0)
				return -1;
			if (line->end)
				strbuf_adds(out, new_end(change, from, to, k));
		}
		from = to;
	}
	return 0;
}

/* One place at a level of whole lines. */
static int replace_lines(const struct text_file *file, const struct place *place,
			 enum edit_level level, const struct lines *old, struct lines *now,
			 struct strbuf *out)
{
	const struct line *last = &file->lines.items[place->first + place->count - 1];
	struct indent_map map = {NULL, 0, 0};
	bool with_end = old->items[old->len - 1].end != 0;
	struct line *new_last = now->len ? &now->items[now->len - 1] : NULL;
	unsigned char kept = new_last ? new_last->end : 0;

	if (level == LEVEL_INDENT)
		indent_match(file->lines.items + place->first, old, &map);
	/* The edit ends its last line and the file does not: the file's way is kept. */
	if (with_end && !last->end && new_last)
		new_last->end = 0;
	struct change change = {file, place->first, place->count,
				old,  now,	    level == LEVEL_INDENT ? &map : NULL};
	int rc = emit(&change, out);
	if (rc == 0 && !with_end)
		strbuf_add(out, last->text + last->len, last->end);
	if (new_last)
		new_last->end = kept;
	indent_release(&map);
	return rc;
}

/* Places [from, to) that share lines, at LEVEL_EXACT: their lines as a whole are replaced. */
static void replace_exact(const struct text_file *file, const struct place *group,
			  size_t places, const char *now, size_t now_len, struct strbuf *out)
{
	size_t first = group[0].first;
	const struct place *last_place = &group[places - 1];
	size_t last = last_place->first + last_place->count - 1;
	const struct line *last_line = &file->lines.items[last];
	size_t pos = file->offsets[first];
	size_t content_end = file->offsets[last] + last_line->len;
	bool with_end = last_place->end > content_end;
	AUTO_STRBUF struct strbuf text = STRBUF_NONE;
	AUTO_LINES struct lines old_lines = {NULL, 0}, new_lines = {NULL, 0};

	strbuf_init(&text, STRBUF_MAX);
	for (size_t i = 0; i < places; i++) {
		strbuf_add(&text, file->norm + pos, group[i].start - pos);
		strbuf_add(&text, now, now_len);
		pos = group[i].end;
	}
	if (!with_end)
		strbuf_add(&text, file->norm + pos, content_end - pos);
	lines_split(file->norm + file->offsets[first],
		    (with_end ? last_place->end : content_end) - file->offsets[first], false,
		    &old_lines);
	lines_split(text.data, text.len, false, &new_lines);
	struct change change = {file, first, last - first + 1, &old_lines, &new_lines, NULL};
	emit(&change, out);
	if (!with_end)
		strbuf_add(out, last_line->text + last_line->len, last_line->end);
}

int places_replace(const struct text_file *file, const struct places *places, const char *old,
		   size_t old_len, const char *now, size_t now_len, struct strbuf *out)
{
	AUTO_LINES struct lines old_lines = {NULL, 0}, new_lines = {NULL, 0};
	size_t line = 0;

	lines_split(old, old_len, false, &old_lines);
	lines_split(now, now_len, false, &new_lines);
	for (size_t i = 0; i < places->len;) {
		const struct place *place = &places->items[i];
		size_t group = 1, end = place->first + place->count;
		lines_copy(&file->lines, line, place->first, out);
		if (places->level == LEVEL_EXACT) {
			while (i + group < places->len && place[group].first < end) {
				end = place[group].first + place[group].count;
				group++;
			}
			replace_exact(file, place, group, now, now_len, out);
		} else if (replace_lines(file, place, places->level, &old_lines, &new_lines,
					 out) < 0) {
			return -1;
		}
		line = end;
		i += group;
	}
	lines_copy(&file->lines, line, file->lines.len, out);
	return 0;
}

void lines_rewrite(const struct lines *file, const char *now, size_t len, struct strbuf *out)
{
	AUTO_LINES struct lines lines = {NULL, 0};
	struct text_file whole = {.lines = *file};

	lines_split(now, len, false, &lines);
	struct change change = {&whole, 0, file->len, file, &lines, NULL};
	emit(&change, out);
}
