/* Fuzz target: placing a text in a file. Input: file, old and new text, separated by 0xFE bytes. What is
 * replaced at LEVEL_EXACT must read, but for line ends, as a plain replacement does; lines outside of
 * all places are the file's own bytes. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gitops/edit_lines.h"
#include "gitops/edit_near.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *next_part(const char **rest, const char *end, size_t *len)
{
	const char *start = *rest, *stop = memchr(start, 0xFE, (size_t)(end - start));

	*len = (size_t)((stop ? stop : end) - start);
	*rest = stop ? stop + 1 : end;
	return start;
}

static void check_exact(const struct text_file *file, const struct places *places,
			const struct strbuf *now, const struct strbuf *out)
{
	struct strbuf wanted, have;
	size_t pos = 0;

	strbuf_init(&wanted, STRBUF_MAX);
	strbuf_init(&have, STRBUF_MAX);
	for (size_t i = 0; i < places->len; i++) {
		strbuf_add(&wanted, file->norm + pos, places->items[i].start - pos);
		strbuf_add(&wanted, now->data, now->len);
		pos = places->items[i].end;
	}
	strbuf_add(&wanted, file->norm + pos, file->norm_len - pos);
	lines_normalise(out->data, out->len, &have);
	struct strbuf again;
	strbuf_init(&again, STRBUF_MAX);
	lines_normalise(wanted.data, wanted.len,
			&again); /* a CR before a new LF reads as one line end */
	if (again.len == wanted.len &&
	    (have.len != wanted.len || memcmp(have.data, wanted.data, have.len)))
		abort();
	strbuf_release(&again);
	strbuf_release(&wanted);
	strbuf_release(&have);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *rest = (const char *)data, *end = rest + size;
	size_t file_len, old_len, now_len;
	const char *file_text = next_part(&rest, end, &file_len);
	const char *old_text = next_part(&rest, end, &old_len);
	const char *now_text = next_part(&rest, end, &now_len);
	struct strbuf old, now, out, near;
	struct text_file file;
	struct places places;

	strbuf_init(&old, STRBUF_MAX);
	strbuf_init(&now, STRBUF_MAX);
	strbuf_init(&out, STRBUF_MAX);
	strbuf_init(&near, 3500);
	lines_normalise(old_text, old_len, &old);
	lines_normalise(now_text, now_len, &now);
	text_file_init(&file, file_text, file_len);
	if (old.len) {
		places_find(&file, old.data, old.len, &places);
		if (places.len && !places.overlap &&
		    places_replace(&file, &places, old.data, old.len, now.data, now.len,
				   &out) == 0 &&
		    places.level == LEVEL_EXACT && !memchr(now.data, '\r', now.len))
			check_exact(&file, &places, &now, &out);
		near_describe(&file, old.data, old.len, &near);
		near_places(&file, &places, &near);
		places_release(&places);
	}
	text_file_release(&file);
	strbuf_release(&old);
	strbuf_release(&now);
	strbuf_release(&out);
	strbuf_release(&near);
	return 0;
}
