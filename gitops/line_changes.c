#include "line_changes.h"

#include <stdlib.h>
#include <string.h>

#include "pipeline/base/mem.h"

struct lines {
	struct changed_line *items; /* owned */
	size_t count;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

static struct changed_line line_at(const char *text, size_t len, size_t number, bool trimmed)
{
	if (len && text[len - 1] == '\r')
		len--;
	while (trimmed && len && is_blank(text[len - 1]))
		len--;
	while (trimmed && len && is_blank(*text))
		text++, len--;
	return (struct changed_line){text, len, number};
}

static struct lines split(const char *data, size_t len, bool trimmed)
{
	struct lines lines = {NULL, 0};
	size_t number = 1;

	for (size_t i = 0; i < len; i++)
		number += data[i] == '\n';
	lines.items = mem_calloc(number, sizeof(*lines.items));
	number = 0;
	for (size_t at = 0; at < len;) {
		const char *end = memchr(data + at, '\n', len - at);
		size_t line = end ? (size_t)(end - data) - at : len - at;
		struct changed_line item = line_at(data + at, line, ++number, trimmed);

		if (item.len)
			lines.items[lines.count++] = item;
		at += line + 1;
	}
	return lines;
}

static int by_text(const void *left, const void *right)
{
	const struct changed_line *a = left, *b = right;

	if (a->len != b->len)
		return a->len < b->len ? -1 : 1;
	int order = memcmp(a->text, b->text, a->len);
	if (order)
		return order;
	return a->number < b->number ? -1 : a->number > b->number;
}

static int by_number(const void *left, const void *right)
{
	const struct changed_line *a = left, *b = right;

	return a->number < b->number ? -1 : a->number > b->number;
}

static int compare_text(const struct changed_line *a, const struct changed_line *b)
{
	if (a->len != b->len)
		return a->len < b->len ? -1 : 1;
	return memcmp(a->text, b->text, a->len);
}

/* Both sorted by text: what has no partner on the other side is kept, in front. */
static void drop_pairs(struct lines *old, struct lines *now)
{
	size_t i = 0, j = 0, kept_old = 0, kept_now = 0;

	while (i < old->count || j < now->count) {
		int order = i == old->count   ? 1
			    : j == now->count ? -1
					      : compare_text(&old->items[i], &now->items[j]);

		if (order < 0)
			old->items[kept_old++] = old->items[i++];
		else if (order > 0)
			now->items[kept_now++] = now->items[j++];
		else
			i++, j++;
	}
	old->count = kept_old;
	now->count = kept_now;
}

void line_changes_find(const char *old, size_t old_len, const char *now, size_t now_len,
		       bool trimmed, struct line_changes *changes)
{
	struct lines before = split(old, old_len, trimmed),
		     after = split(now, now_len, trimmed);

	mem_sort(before.items, before.count, sizeof(*before.items), by_text);
	mem_sort(after.items, after.count, sizeof(*after.items), by_text);
	drop_pairs(&before, &after);
	mem_sort(before.items, before.count, sizeof(*before.items), by_number);
	mem_sort(after.items, after.count, sizeof(*after.items), by_number);
	*changes = (struct line_changes){after.items, before.items, after.count, before.count};
}

void line_changes_release(struct line_changes *changes)
{
	free(changes->added);
	free(changes->removed);
	*changes = (struct line_changes){NULL, NULL, 0, 0};
}
