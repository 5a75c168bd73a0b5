#include "edit_lines.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

/* ---- lines ---- */

void lines_split(const char *data, size_t len, bool crlf, struct lines *lines)
{
	size_t cap = 0;

	*lines = (struct lines){NULL, 0};
	for (size_t pos = 0; pos < len;) {
		const char *lf = memchr(data + pos, '\n', len - pos);
		size_t stop = lf ? (size_t)(lf - data) : len;
		struct line line = {.text = data + pos, .len = stop - pos, .end = lf ? 1 : 0};
		if (crlf && lf && line.len > 0 && data[stop - 1] == '\r') {
			line.len--;
			line.end = 2;
		}
		if (lines->len == cap) {
			cap = cap ? cap * 2 : 64;
			lines->items = mem_realloc(lines->items, cap, sizeof(*lines->items));
		}
		lines->items[lines->len++] = line;
		pos = lf ? stop + 1 : len;
	}
}

void lines_release(struct lines *lines)
{
	free(lines->items);
	*lines = (struct lines){NULL, 0};
}

void lines_normalise(const char *data, size_t len, struct strbuf *out)
{
	for (size_t pos = 0; pos < len;) {
		const char *cr = memchr(data + pos, '\r', len - pos);
		size_t stop = cr ? (size_t)(cr - data) : len;
		strbuf_add(out, data + pos, stop - pos);
		pos = stop;
		if (cr) {
			if (pos + 1 >= len || data[pos + 1] != '\n')
				strbuf_addc(out, '\r');
			pos++;
		}
	}
}

void lines_copy(const struct lines *lines, size_t from, size_t to, struct strbuf *out)
{
	for (size_t i = from; i < to && i < lines->len; i++)
		strbuf_add(out, lines->items[i].text,
			   lines->items[i].len + lines->items[i].end);
}

static const char *end_text(unsigned char end)
{
	return end == 2 ? "\r\n" : "\n";
}

const char *lines_neighbour_end(const struct lines *lines, size_t at)
{
	if (at > 0 && at - 1 < lines->len && lines->items[at - 1].end)
		return end_text(lines->items[at - 1].end);
	if (at < lines->len && lines->items[at].end)
		return end_text(lines->items[at].end);
	/* a last line without an end: the one before it tells */
	if (at > 1 && at - 2 < lines->len && lines->items[at - 2].end)
		return end_text(lines->items[at - 2].end);
	return "\n";
}

/* ---- comparing ---- */

static size_t blank_end(const char *text, size_t len)
{
	while (len > 0 &&
	       (text[len - 1] == ' ' || text[len - 1] == '\t' || text[len - 1] == '\r'))
		len--;
	return len;
}

struct line line_trim(const struct line *line, size_t *indent)
{
	size_t len = blank_end(line->text, line->len), skip = 0;

	while (skip < len && (line->text[skip] == ' ' || line->text[skip] == '\t'))
		skip++;
	if (indent)
		*indent = skip;
	return (struct line){.text = line->text + skip, .len = len - skip, .end = line->end};
}

size_t line_number_prefix(const struct line *line, long *number)
{
	size_t pos = 0;

	while (pos < line->len && line->text[pos] == ' ')
		pos++;
	size_t digits = pos;
	*number = 0;
	while (pos < line->len && pos - digits < 9 && line->text[pos] >= '0' &&
	       line->text[pos] <= '9')
		*number = *number * 10 + (line->text[pos++] - '0');
	if (pos == digits || pos == line->len)
		return 0;
	if (line->text[pos] == '\t')
		return pos + 1;
	if (line->text[pos] == ' ' && pos + 1 < line->len)
		pos++;
	if (line->text[pos] != '|' && line->text[pos] != ':')
		return 0;
	pos++;
	return pos < line->len && line->text[pos] == ' ' ? pos + 1 : pos;
}

/* What a typographic character is typed as; the code itself otherwise. */
static unsigned plain(unsigned code)
{
	if ((code >= 0x2010 && code <= 0x2015) || code == 0x2212)
		return '-';
	if (code >= 0x2018 && code <= 0x201B)
		return '\'';
	if (code >= 0x201C && code <= 0x201F)
		return '"';
	if (code == 0x00A0 || (code >= 0x2002 && code <= 0x200A) || code == 0x202F ||
	    code == 0x205F || code == 0x3000)
		return ' ';
	return code;
}

/* Next folded character; bytes that are no UTF-8 stand for themselves. */
static unsigned next_plain(const char *text, size_t len, size_t *pos)
{
	unsigned code;
	size_t step = text_utf8_next(text + *pos, len - *pos, &code);

	if (!step) {
		code = 0x110000U + (unsigned char)text[*pos];
		step = 1;
	}
	*pos += step;
	return plain(code);
}

static bool equal_plain(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t i = 0, j = 0;

	while (i < a_len && j < b_len)
		if (next_plain(a, a_len, &i) != next_plain(b, b_len, &j))
			return false;
	return i == a_len && j == b_len;
}

bool line_equal(const struct line *a, const struct line *b, enum edit_level level)
{
	if (level == LEVEL_EXACT)
		return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
	size_t a_len = blank_end(a->text, a->len), b_len = blank_end(b->text, b->len);
	if (a_len == b_len && memcmp(a->text, b->text, a_len) == 0)
		return true;
	return level == LEVEL_PUNCTUATION && equal_plain(a->text, a_len, b->text, b_len);
}

uint64_t line_hash(const struct line *line)
{
	struct line rest = line_trim(line, NULL);
	uint64_t hash = 0xcbf29ce484222325ULL; /* FNV-1a, a character at a time */

	for (size_t pos = 0; pos < rest.len;)
		hash = (hash ^ next_plain(rest.text, rest.len, &pos)) * 0x100000001b3ULL;
	return hash;
}

/* ---- aligning ---- */

#define ALIGN_CELLS_MAX ((size_t)4 << 20)

/* Longest common subsequence of old[0..n) and now[0..m) by the usual table, written into map
 * (indices moved by base). Too big a table: nothing is common. */
static void align_middle(const struct line *old, size_t n, const struct line *now, size_t m,
			 size_t base, long *map)
{
	if (n == 0 || m == 0 || n > ALIGN_CELLS_MAX / (m + 1) - 1)
		return;
	uint32_t *table = mem_calloc((n + 1) * (m + 1), sizeof(*table));
	size_t width = m + 1;
	for (size_t i = n; i-- > 0;)
		for (size_t j = m; j-- > 0;) {
			uint32_t *cell = &table[i * width + j];
			if (line_equal(&old[i], &now[j], LEVEL_EXACT))
				*cell = cell[width + 1] + 1;
			else
				*cell = cell[width] > cell[1] ? cell[width] : cell[1];
		}
	for (size_t i = 0, j = 0; i < n && j < m;) {
		const uint32_t *cell = &table[i * width + j];
		if (line_equal(&old[i], &now[j], LEVEL_EXACT))
			map[j++] = (long)(base + i++);
		else if (cell[width] >= cell[1])
			i++;
		else
			j++;
	}
	free(table);
}

long *lines_align(const struct lines *old, const struct lines *now)
{
	long *map = mem_calloc(now->len + 1, sizeof(*map));
	size_t head = 0, n = old->len, m = now->len;

	for (size_t j = 0; j < m; j++)
		map[j] = -1;
	while (head < n && head < m &&
	       line_equal(&old->items[head], &now->items[head], LEVEL_EXACT)) {
		map[head] = (long)head;
		head++;
	}
	while (n > head && m > head &&
	       line_equal(&old->items[n - 1], &now->items[m - 1], LEVEL_EXACT))
		map[--m] = (long)--n;
	if (n > head && m > head)
		align_middle(old->items + head, n - head, now->items + head, m - head, head,
			     map + head);
	return map;
}

/* ---- a prepared file ---- */

void text_file_init(struct text_file *file, const char *raw, size_t len)
{
	size_t offset = 0;
	bool crlf = false;

	*file = (struct text_file){.norm = raw, .norm_len = len};
	lines_split(raw, len, true, &file->lines);
	file->offsets = mem_calloc(file->lines.len + 1, sizeof(*file->offsets));
	for (size_t i = 0; i < file->lines.len; i++) {
		const struct line *line = &file->lines.items[i];
		file->offsets[i] = offset;
		offset += line->len + (line->end ? 1 : 0);
		crlf = crlf || line->end == 2;
	}
	file->offsets[file->lines.len] = offset;
	if (!crlf)
		return;
	struct strbuf norm;
	strbuf_init(&norm, len + 1);
	lines_normalise(raw, len, &norm);
	file->norm_len = norm.len;
	file->own = strbuf_steal(&norm);
	file->norm = file->own;
}

void text_file_release(struct text_file *file)
{
	lines_release(&file->lines);
	free(file->own);
	free(file->offsets);
	*file = (struct text_file){0};
}
