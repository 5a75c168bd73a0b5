/* Whole files in fences, each under its name: see gitops/edit_text.h. */
#include "edit_text_internal.h"

#include <stdlib.h>
#include <string.h>

#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

/* The name above a fence: on the line right above, or with one blank line between; or on the
 * fence. */
static char *name_above(const struct doc *doc, size_t index, const struct fence *fence)
{
	char *name = name_of_fence(fence);

	for (size_t i = index; i-- > 0 && !name && index - i <= 2;) {
		struct line line = doc_line(doc, i);
		if (!line.len)
			continue;
		/* a word alone on its line is a name where a paragraph begins */
		return name_of_line(line.text, line.len, i == 0 || !doc_line(doc, i - 1).len);
	}
	return name;
}

static bool is_markdown(const char *name)
{
	static const char *const ends[] = {".md", ".markdown", ".mdx", ".rst", ".txt"};
	size_t len = strlen(name);

	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		if (len > strlen(ends[i]) &&
		    strcasecmp(name + len - strlen(ends[i]), ends[i]) == 0)
			return true;
	return false;
}

/* Whether a file of its own begins at a fence. */
static bool begins_next(const struct doc *doc, size_t index, const struct fence *fence)
{
	AUTO_FREE char *name = name_above(doc, index, fence);

	return name != NULL;
}

/* Bare fences of the same kind from at on, up to the next named one. */
static size_t count_bare(const struct doc *doc, size_t at, const struct fence *open)
{
	size_t count = 0;
	struct fence fence;

	for (; at < doc->lines.len; at++) {
		if (!fence_at(doc, at, &fence))
			continue;
		if (begins_next(doc, at, &fence))
			return count;
		count += fence_closes(open, &fence);
	}
	return count;
}

/*
 * The line that closes the file's fence. A fence with an info string within the file opens one
 * of the file's own, which the next bare one closes. 0 when the text ends before.
 */
static size_t find_close(const struct doc *doc, size_t start, const struct fence *open)
{
	size_t depth = 0;

	for (size_t i = start + 1; i < doc->lines.len; i++) {
		struct fence fence;
		if (!fence_at(doc, i, &fence) || fence.mark != open->mark ||
		    fence.count < open->count)
			continue;
		if (fence.info_len && fence.count == open->count)
			depth++;
		else if (!fence.info_len && depth)
			depth--;
		else if (!fence.info_len)
			return i;
	}
	return 0;
}

static void take_file(struct doc *doc, size_t start, size_t stop, char *name)
{
	struct edit edit = {.op = EDIT_WRITE, .path = name, .keep_end = true};
	struct strbuf text;

	strbuf_init(&text, STRBUF_MAX);
	for (size_t i = start; i < stop; i++) {
		struct line line = doc_content(doc, i);
		strbuf_add(&text, line.text, line.len);
		strbuf_addc(&text, '\n');
	}
	edit.text_len = text.len;
	edit.text = strbuf_steal(&text);
	edit_list_push(doc->list, &edit);
}

int read_whole(struct doc *doc)
{
	size_t before = doc->list->len;

	for (size_t at = 0; at < doc->lines.len; at++) {
		struct fence fence;
		if (!fence_at(doc, at, &fence))
			continue;
		AUTO_FREE char *name = name_above(doc, at, &fence);
		size_t stop = find_close(doc, at, &fence);
		if (!stop)
			return doc_refuse(
			    doc, EDIT_TRUNCATED, at,
			    "the fence that begins here is not closed: the answer "
			    "was cut. Send it again, whole");
		/* prose with an example behind the file, or a fence within it: not to be told
		 * apart where the file is text itself */
		if (name && is_markdown(name) && count_bare(doc, stop + 1, &fence))
			return doc_refuse(
			    doc, EDIT_MALFORMED, at,
			    "where '%.200s' ends cannot be told, since it may hold "
			    "fences itself: use a longer fence (````) around it",
			    name);
		if (name)
			take_file(doc, at + 1, stop, MEM_STEAL(name));
		at = stop;
	}
	if (doc->list->len == before)
		return doc_refuse(
		    doc, EDIT_MALFORMED, 0,
		    "there is no file in the text: put its path on a line of its own, "
		    "and its whole content in a fence below");
	return 0;
}
