/* "GIT binary patch" within a diff: see gitops/edit_text_internal.h. */
#include "edit_text_internal.h"

#include <stdlib.h>

#include "gitops/binpatch.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

#define BINARY_BYTES_MAX ((size_t)64 << 20) /* of all binary patches of a text */

/* "literal 123" or "delta 45": its size, -1 when it is none. */
static long long parse_method(const struct doc *doc, size_t index, bool *delta)
{
	struct line line = doc_line(doc, index);
	size_t skip;
	long long size = 0;

	*delta = doc_begins(doc, index, "delta ");
	if (!*delta && !doc_begins(doc, index, "literal "))
		return -1;
	skip = *delta ? 6 : 8;
	if (line.len == skip || line.len > skip + 12)
		return -1;
	for (size_t i = skip; i < line.len; i++) {
		if (line.text[i] < '0' || line.text[i] > '9')
			return -1;
		size = size * 10 + (line.text[i] - '0');
	}
	return size;
}

/* The lines up to the blank one, decoded. */
static int take_data(const struct doc *doc, size_t *at, struct strbuf *out)
{
	for (; *at < doc->lines.len && doc_line(doc, *at).len; (*at)++) {
		struct line line = doc_line(doc, *at);

		if (!binpatch_decode_line(line.text, line.len, out))
			return doc_refuse(
			    doc, *at + 1 >= doc->lines.len ? EDIT_TRUNCATED : EDIT_MALFORMED,
			    *at, "not a line of git's base85");
	}
	return 0;
}

/*
 * "GIT binary patch", the new file's bytes, and as git writes it those of the old one, for the way back:
 * these are passed over.
 */
int read_binary(struct doc *doc, size_t *at, size_t *inflated, struct edit *edit)
{
	size_t begin = (*at)++;
	long long size = parse_method(doc, *at, &edit->delta);
	AUTO_STRBUF struct strbuf packed = STRBUF_NONE;
	struct strbuf bytes;
	bool unused;

	if (size < 0)
		return doc_refuse(doc, *at >= doc->lines.len ? EDIT_TRUNCATED : EDIT_MALFORMED,
				  begin,
				  "a binary patch without 'literal SIZE' or 'delta SIZE'");
	if (size > GITOPS_FILE_BYTES_MAX || (size_t)size > BINARY_BYTES_MAX - *inflated)
		return doc_refuse(doc, EDIT_LIMIT, *at,
				  "a binary patch of %lld bytes, or too many of them", size);
	*inflated += (size_t)size;
	(*at)++;
	strbuf_init(&packed, EDIT_TEXT_MAX);
	if (take_data(doc, at, &packed) < 0)
		return -1;
	strbuf_init(&bytes, (size_t)size + 1);
	if (!binpatch_inflate(packed.data, packed.len, (size_t)size, &bytes)) {
		strbuf_release(&bytes);
		return doc_refuse(doc, *at >= doc->lines.len ? EDIT_TRUNCATED : EDIT_MALFORMED,
				  begin,
				  "a binary patch whose data is damaged or not all there");
	}
	free(edit->text);
	edit->text_len = bytes.len;
	edit->text = bytes.len ? strbuf_steal(&bytes) : mem_strdup("");
	strbuf_release(&bytes);
	if (parse_method(doc, *at + 1, &unused) < 0)
		return 0;
	for (*at += 2; *at < doc->lines.len && doc_line(doc, *at).len; (*at)++)
		continue;
	return 0;
}
