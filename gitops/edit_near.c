#include "edit_near.h"

#include <stdint.h>
#include <string.h>

#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

#define SHOWN_LINE_BYTES 160
#define SHOWN_LINES 12
#define SHOWN_PLACES 20
/* Above this many comparisons only the first lines of old are looked for. */
#define NEAR_WORK_MAX ((size_t)4 << 20)

/* Appends "  12 | text" and a newline; the line escaped and cut. */
static void near_line(const struct lines *lines, size_t index, struct strbuf *out)
{
	char shown[SHOWN_LINE_BYTES];

	/* Tabs must be seen as tabs: text_escape writes \t, which is what the model has to
	 * send. */
	text_escape(shown, sizeof(shown), lines->items[index].text, lines->items[index].len);
	strbuf_addf(out, "%6zu | %s\n", index + 1, shown);
}

static bool equal_trimmed(const struct line *a, const struct line *b)
{
	struct line x = line_trim(a, NULL), y = line_trim(b, NULL);

	return line_equal(&x, &y, LEVEL_PUNCTUATION);
}

/* Share of a's byte pairs that b has too, in thousandths (Dice's coefficient on a table of
 * 4096 bits). */
static unsigned likeness(const struct line *a, const struct line *b)
{
	uint64_t table[64] = {0};
	struct line x = line_trim(a, NULL), y = line_trim(b, NULL);
	size_t both = 0;

	if (x.len < 2 || y.len < 2)
		return 0;
	for (size_t i = 0; i + 1 < x.len; i++) {
		unsigned h =
		    ((unsigned char)x.text[i] * 31U + (unsigned char)x.text[i + 1] * 131U) %
		    4096;
		table[h / 64] |= (uint64_t)1 << h % 64;
	}
	for (size_t i = 0; i + 1 < y.len; i++) {
		unsigned h =
		    ((unsigned char)y.text[i] * 31U + (unsigned char)y.text[i + 1] * 131U) %
		    4096;
		both += table[h / 64] >> h % 64 & 1;
	}
	return (unsigned)(2000 * both / (x.len + y.len - 2));
}

/* Where old's lines agree best line by line with the file's; *best_score 0 when nowhere. */
static size_t best_window(const struct lines *file, const struct lines *old, size_t *best_score)
{
	size_t count = old->len, best = 0;

	*best_score = 0;
	if (file->len && count > NEAR_WORK_MAX / file->len)
		count = NEAR_WORK_MAX / file->len + 1;
	for (size_t at = 0; at < file->len; at++) {
		size_t score = 0;
		for (size_t i = 0; i < count && at + i < file->len; i++)
			if (line_trim(&old->items[i], NULL).len > 1 &&
			    equal_trimmed(&file->items[at + i], &old->items[i]))
				score++;
		if (score > *best_score) {
			*best_score = score;
			best = at;
		}
	}
	return best;
}

/* The file's line most like old's first line with text; *score in thousandths. */
static size_t best_line(const struct lines *file, const struct lines *old, unsigned *score)
{
	size_t first = 0, best = 0;

	*score = 0;
	while (first < old->len && line_trim(&old->items[first], NULL).len < 2)
		first++;
	if (first == old->len)
		return 0;
	for (size_t i = 0; i < file->len; i++) {
		unsigned here = likeness(&old->items[first], &file->items[i]);
		if (here > *score) {
			*score = here;
			best = i >= first ? i - first : 0;
		}
	}
	return best;
}

static void show_window(const struct lines *file, size_t at, size_t count, struct strbuf *out)
{
	size_t stop = at + count < file->len ? at + count : file->len;

	for (size_t i = at; i < stop && i < at + SHOWN_LINES; i++)
		near_line(file, i, out);
	if (stop > at + SHOWN_LINES)
		strbuf_addf(out, "       ... to line %zu\n", stop);
}

static void show_difference(const struct lines *file, size_t at, const struct lines *old,
			    struct strbuf *out)
{
	char mine[SHOWN_LINE_BYTES], theirs[SHOWN_LINE_BYTES];

	for (size_t i = 0; i < old->len; i++) {
		const struct line *want = &old->items[i];
		text_escape(mine, sizeof(mine), want->text, want->len);
		if (at + i >= file->len) {
			strbuf_addf(out, "the file ends before your line %zu: '%s'\n", i + 1,
				    mine);
			return;
		}
		const struct line *have = &file->items[at + i];
		if (equal_trimmed(have, want))
			continue;
		text_escape(theirs, sizeof(theirs), have->text, have->len);
		strbuf_addf(
		    out,
		    "first difference at line %zu: the file has '%s', your text has '%s'\n",
		    at + i + 1, theirs, mine);
		return;
	}
	strbuf_adds(
	    out, "only the indentation differs, in a way that does not map onto the file's\n");
}

void near_describe(const struct text_file *file, const char *old, size_t len,
		   struct strbuf *out)
{
	AUTO_LINES struct lines lines = {NULL, 0};
	size_t score;
	unsigned thousandths = 0;

	lines_split(old, len, false, &lines);
	if (!file->lines.len) {
		strbuf_adds(out, "the file is empty\n");
		return;
	}
	size_t at = best_window(&file->lines, &lines, &score);
	if (!score)
		at = best_line(&file->lines, &lines, &thousandths);
	if (!score && thousandths < 450) {
		strbuf_addf(out, "no line of the file (%zu lines) is like it\n",
			    file->lines.len);
		return;
	}
	strbuf_adds(out, "the nearest passage is:\n");
	show_window(&file->lines, at, lines.len, out);
	show_difference(&file->lines, at, &lines, out);
}

void near_places(const struct text_file *file, const struct places *places, struct strbuf *out)
{
	for (size_t i = 0; i < places->len && i < SHOWN_PLACES; i++)
		near_line(&file->lines, places->items[i].first, out);
	if (places->len > SHOWN_PLACES)
		strbuf_addf(out, "       ... and %zu more\n", places->len - SHOWN_PLACES);
}
