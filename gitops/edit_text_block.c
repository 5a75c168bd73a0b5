/* Search and replace blocks: see gitops/edit_text.h. */
#include "edit_text_internal.h"

#include <stdlib.h>
#include <string.h>

#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

#define NAME_LINES 3 /* lines above a block in which its file's name is looked for */

/* Length of a run of the mark at the start of a line when it is one of 5 to 9; else 0. */
static size_t run_of(const struct line *line, char mark)
{
	size_t count = 0;

	while (count < line->len && line->text[count] == mark)
		count++;
	return count >= 5 && count <= 9 ? count : 0;
}

/* A marker line: a run and one of the words (NULL-terminated) behind it. Its run, or 0. */
static size_t marker(const struct doc *doc, size_t index, const char *marks,
		     const char *const *words)
{
	struct line line = doc_line(doc, index);

	for (; *marks; marks++) {
		size_t count = run_of(&line, *marks), skip = count;
		while (skip && skip < line.len && line.text[skip] == ' ')
			skip++;
		size_t len = line.len - skip;
		if (count && len && strchr("<>", line.text[line.len - 1])) /* "SEARCH>" */
			len--;
		for (const char *const *word = words; count && *word; word++)
			if (len == strlen(*word) &&
			    strncasecmp(line.text + skip, *word, len) == 0)
				return count;
	}
	return 0;
}

static const char *const open_words[] = {"SEARCH", "ORIGINAL", NULL};
static const char *const close_words[] = {"REPLACE", "UPDATED", NULL};

bool is_block_start(const struct doc *doc, size_t index)
{
	return marker(doc, index, "<-", open_words) > 0;
}

static bool is_block_end(const struct doc *doc, size_t index)
{
	return marker(doc, index, ">+", close_words) > 0;
}

/* "=======" alone; its length or 0. */
static size_t divider(const struct doc *doc, size_t index)
{
	struct line line = doc_line(doc, index);
	size_t count = run_of(&line, '=');

	return count == line.len ? count : 0;
}

/* A conflict's own markers, which may be content: "<<<<<<< HEAD" and ">>>>>>> branch". */
static bool conflict_mark(const struct doc *doc, size_t index, char mark)
{
	struct line line = doc_line(doc, index);
	size_t count = run_of(&line, mark);

	return count && count < line.len && line.text[count] == ' ';
}

/* ">>>>>>>" without its word. */
static bool is_bare_end(const struct doc *doc, size_t index)
{
	struct line line = doc_line(doc, index);

	return line.len && run_of(&line, '>') == line.len;
}

struct block {
	size_t start, end; /* lines of the two outer markers */
	size_t middle;	   /* of the divider */
};

/* Finds the end and the divider of the block that begins at its start. */
static int find_block(const struct doc *doc, struct block *block)
{
	size_t like = marker(doc, block->start, "<-", open_words), depth = 0;
	size_t same = 0, other = 0, same_at = 0, other_at = 0;

	for (block->end = block->start + 1; block->end < doc->lines.len; block->end++) {
		size_t count = divider(doc, block->end);
		if (is_block_end(doc, block->end))
			break;
		if (is_block_start(doc, block->end))
			return doc_refuse(doc, EDIT_MALFORMED, block->start,
					  "a block begins in the middle of another: each ends "
					  "with '>>>>>>> REPLACE'");
		if (conflict_mark(doc, block->end, '<'))
			depth++;
		else if (depth && conflict_mark(doc, block->end, '>'))
			depth--;
		else if (!depth && (same || other) && is_bare_end(doc, block->end))
			break;
		if (depth || !count)
			continue;
		if (count == like && !same++)
			same_at = block->end;
		if (count != like && !other++)
			other_at = block->end;
	}
	block->middle = same ? same_at : other_at;
	if (block->end == doc->lines.len)
		return doc_refuse(doc, EDIT_TRUNCATED, block->start,
				  "the block that begins here does not end with '>>>>>>> "
				  "REPLACE': the answer was cut. Send it again, whole");
	if (!same && !other)
		return doc_refuse(doc, EDIT_MALFORMED, block->start,
				  "the block that begins here has no '=======' between the old "
				  "and the new lines");
	if (same > 1 || (!same && other > 1))
		return doc_refuse(doc, EDIT_MALFORMED, block->start,
				  "the block that begins here has several '=======' lines, and "
				  "which one divides it cannot be told; use longer markers "
				  "(up to 9 characters) than those in the file");
	return 0;
}

/* Hints that some tools' blocks begin with: ":start_line:12" and a line of dashes. */
static size_t skip_hints(const struct doc *doc, size_t at, size_t stop, long *number)
{
	size_t next = at;

	while (next < stop &&
	       (doc_begins(doc, next, ":start_line:") || doc_begins(doc, next, ":end_line:"))) {
		long count;
		struct line line = doc_line(doc, next);
		if (doc_begins(doc, next, ":start_line:"))
			parse_range(line.text + 12, line.text + line.len, number, &count);
		next++;
	}
	struct line line = doc_line(doc, next);
	if (next == at || next == stop || run_of(&line, '-') != line.len)
		return next;
	return next + 1;
}

static void add_side(const struct doc *doc, size_t from, size_t to, char mark,
		     struct strbuf *body)
{
	for (size_t i = from; i < to; i++) {
		struct line line = doc_content(doc, i);
		strbuf_addc(body, mark);
		strbuf_add(body, line.text, line.len);
		strbuf_addc(body, '\n');
	}
}

/* The name above a block, or within its fence; NULL when there is none. floor: lines before
 * belong to something else. */
static char *find_name(const struct doc *doc, size_t start, size_t floor)
{
	struct fence fence;

	for (size_t i = start, seen = 0; i-- > floor && seen < NAME_LINES;) {
		struct line line = doc_line(doc, i);
		char *name = NULL;
		if (!line.len)
			continue;
		if (fence_at(doc, i, &fence))
			name = name_of_fence(&fence);
		else {
			name = name_of_line(line.text, line.len, true);
			seen++;
		}
		if (name)
			return name;
	}
	return NULL;
}

/* A named fence without a block in it: a whole file, which would be left out in silence. *next:
 * the line to go on with. */
static bool is_whole_file(const struct doc *doc, size_t index, size_t *next)
{
	struct fence open, fence;

	*next = index;
	if (!fence_at(doc, index, &open) || (index && is_block_end(doc, index - 1)))
		return false; /* none, or the end of the fence around a block */
	for (size_t i = index + 1; i < doc->lines.len; i++) {
		if (is_block_start(doc, i))
			return false;
		if (fence_at(doc, i, &fence) && fence_closes(&open, &fence)) {
			struct line above = doc_line(doc, index ? index - 1 : doc->lines.len);
			AUTO_FREE char *name = name_of_line(above.text, above.len, false);
			*next = i;
			return name != NULL;
		}
	}
	return false;
}

int read_blocks(struct doc *doc)
{
	AUTO_FREE char *name = NULL;
	size_t floor = 0;

	for (size_t at = 0; at < doc->lines.len; at++) {
		struct block block = {.start = at};
		struct edit edit = {.op = EDIT_PATCH, .search = true};
		struct edit_hunk hunk = {.line = -1};
		struct strbuf body;
		if (!is_block_start(doc, at)) {
			if (is_envelope_start(doc, at) || is_diff_start(doc, at) ||
			    is_whole_file(doc, at, &at))
				return doc_refuse_mixed(doc, at);
			continue;
		}
		if (find_block(doc, &block) < 0)
			return -1;
		char *here = find_name(doc, block.start, floor);
		if (here) {
			free(name);
			name = here;
		}
		if (!name)
			return doc_refuse(
			    doc, EDIT_MALFORMED, block.start,
			    "the block that begins here does not name its file: put "
			    "the path on a line of its own above it");
		size_t first = skip_hints(doc, block.start + 1, block.middle, &hunk.line);
		strbuf_init(&body, STRBUF_MAX);
		add_side(doc, first, block.middle, '-', &body);
		add_side(doc, block.middle + 1, block.end, '+', &body);
		edit.path = mem_strdup(name);
		hunk.len = body.len;
		hunk.body = strbuf_steal(&body);
		edit_push_hunk(&edit, &hunk);
		edit_list_push(doc->list, &edit);
		at = block.end;
		floor = block.end + 1;
	}
	if (!floor)
		return doc_refuse(doc, EDIT_MALFORMED, 0,
				  "there is no search and replace block in the text");
	return 0;
}
