#include "edit_indent.h"

#include <stdlib.h>
#include <string.h>

#include "gitops/edit_lines.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

#define INDENTS_MAX 64

void indent_release(struct indent_map *map)
{
	free(map->pairs);
	*map = (struct indent_map){NULL, 0, 0};
}

static const struct indent_pair *indent_get(const struct indent_map *map, const char *from,
					    size_t len)
{
	for (size_t i = 0; map->pairs && i < map->len; i++)
		if (map->pairs[i].from_len == len && memcmp(map->pairs[i].from, from, len) == 0)
			return &map->pairs[i];
	return NULL;
}

/* Notes that from is to in the file; false when it is something else already. */
static bool indent_add(struct indent_map *map, const char *from, size_t from_len,
		       const char *to, size_t to_len)
{
	const struct indent_pair *have = indent_get(map, from, from_len);

	if (have)
		return have->to_len == to_len && memcmp(have->to, to, to_len) == 0;
	if (map->len == INDENTS_MAX) /* nobody indents in that many ways */
		return false;
	if (map->len == map->cap) {
		map->cap = map->cap ? map->cap * 2 : 8;
		map->pairs = mem_realloc(map->pairs, map->cap, sizeof(*map->pairs));
	}
	map->pairs[map->len++] = (struct indent_pair){from, to, from_len, to_len};
	return true;
}

bool indent_match(const struct line *file, const struct lines *old, struct indent_map *map)
{
	map->len = 0;
	for (size_t i = 0; i < old->len; i++) {
		size_t from, to;
		struct line mine = line_trim(&old->items[i], &from),
			    theirs = line_trim(&file[i], &to);
		if (!line_equal(&mine, &theirs, LEVEL_PUNCTUATION))
			return false;
		if (mine.len && !indent_add(map, old->items[i].text, from, file[i].text, to))
			return false;
	}
	return true;
}

/* All pairs put the same text in front: its length, or -1. */
static long common_shift(const struct indent_map *map)
{
	long shift = -1;

	for (size_t i = 0; map->pairs && i < map->len; i++) {
		const struct indent_pair *pair = &map->pairs[i];
		if (pair->to_len < pair->from_len ||
		    memcmp(pair->to + (pair->to_len - pair->from_len), pair->from,
			   pair->from_len) != 0)
			return -1;
		long here = (long)(pair->to_len - pair->from_len);
		if (shift >= 0 &&
		    (here != shift || memcmp(pair->to, map->pairs[0].to, (size_t)shift) != 0))
			return -1;
		shift = here;
	}
	return shift;
}

/* All pairs leave the same text out in front: its length, or 0. */
static size_t common_drop(const struct indent_map *map)
{
	size_t drop = 0;

	for (size_t i = 0; map->pairs && i < map->len; i++) {
		const struct indent_pair *pair = &map->pairs[i];
		if (pair->from_len <= pair->to_len ||
		    memcmp(pair->from + (pair->from_len - pair->to_len), pair->to,
			   pair->to_len) != 0)
			return 0;
		size_t here = pair->from_len - pair->to_len;
		if (i && (here != drop || memcmp(pair->from, map->pairs[0].from, drop) != 0))
			return 0;
		drop = here;
	}
	return drop;
}

/* One step of indentation on either side. */
struct indent_unit {
	const char *from, *to;
	size_t from_len, to_len;
};

static bool all_same(const char *text, size_t len)
{
	for (size_t i = 1; i < len; i++)
		if (text[i] != text[0])
			return false;
	return len > 0;
}

static size_t gcd(size_t a, size_t b)
{
	while (b) {
		size_t rest = a % b;
		a = b;
		b = rest;
	}
	return a;
}

/* The step between two pairs, or of one pair above no indentation, made as small as it
 * divides. */
static bool indent_unit(const struct indent_map *map, struct indent_unit *unit)
{
	static const struct indent_pair none = {"", "", 0, 0};

	for (size_t i = 0; map->pairs && i < map->len; i++)
		for (size_t j = 0; j <= map->len; j++) {
			const struct indent_pair *big = &map->pairs[i];
			const struct indent_pair *small = j < map->len ? &map->pairs[j] : &none;
			if (j == map->len && indent_get(map, "", 0))
				continue;
			if (big->from_len <= small->from_len || big->to_len <= small->to_len ||
			    memcmp(big->from, small->from, small->from_len) != 0 ||
			    memcmp(big->to, small->to, small->to_len) != 0)
				continue;
			*unit = (struct indent_unit){
			    big->from + small->from_len, big->to + small->to_len,
			    big->from_len - small->from_len, big->to_len - small->to_len};
			if (!all_same(unit->from, unit->from_len) ||
			    !all_same(unit->to, unit->to_len))
				continue;
			size_t divisor = gcd(unit->from_len, unit->to_len);
			unit->from_len /= divisor;
			unit->to_len /= divisor;
			return true;
		}
	return false;
}

/* Appends rest, a whole number of steps, in the file's steps. */
static bool add_steps(const struct indent_unit *unit, const char *rest, size_t len,
		      struct strbuf *out)
{
	if (len % unit->from_len)
		return false;
	for (size_t pos = 0; pos < len; pos += unit->from_len)
		if (memcmp(rest + pos, unit->from, unit->from_len) != 0)
			return false;
	for (size_t pos = 0; pos < len; pos += unit->from_len)
		strbuf_add(out, unit->to, unit->to_len);
	return true;
}

/* Appends the file's indentation for one of the edit's. False when the map does not say. */
static bool indent_translate(const struct indent_map *map, const char *from, size_t len,
			     struct strbuf *out)
{
	const struct indent_pair *pair = indent_get(map, from, len), *best = NULL;
	struct indent_unit unit;
	long shift = common_shift(map);

	if (pair) {
		strbuf_add(out, pair->to, pair->to_len);
		return true;
	}
	if (shift >= 0 && map->pairs) {
		strbuf_add(out, map->pairs[0].to, (size_t)shift);
		strbuf_add(out, from, len);
		return true;
	}
	size_t drop = common_drop(map);
	if (drop && map->pairs && len >= drop && memcmp(from, map->pairs[0].from, drop) == 0) {
		strbuf_add(out, from + drop, len - drop);
		return true;
	}
	if (!indent_unit(map, &unit))
		return false;
	for (size_t i = 0; map->pairs && i < map->len; i++) {
		const struct indent_pair *have = &map->pairs[i];
		if (have->from_len < len && memcmp(have->from, from, have->from_len) == 0 &&
		    (!best || have->from_len > best->from_len))
			best = have;
	}
	size_t mark = out->len;
	strbuf_add(out, best ? best->to : "", best ? best->to_len : 0);
	size_t known = best ? best->from_len : 0;
	if ((best || !indent_get(map, "", 0)) &&
	    add_steps(&unit, from + known, len - known, out))
		return true;
	out->len = mark;
	return false;
}

int indent_add_line(const struct indent_map *map, const struct line *line, struct strbuf *out)
{
	size_t indent;

	if (!map || !map->len) {
		strbuf_add(out, line->text, line->len);
		return 0;
	}
	struct line rest = line_trim(line, &indent);
	if (!rest.len)
		return 0; /* a blank line stays empty */
	if (!indent_translate(map, line->text, indent, out))
		return -1;
	strbuf_add(out, line->text + indent, line->len - indent);
	return 0;
}
