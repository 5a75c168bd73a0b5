/* The apply_patch envelope: see gitops/edit_text.h. */
#include "edit_text_internal.h"

#include <stdlib.h>
#include <string.h>

#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

/* The text behind "*** WORD" on a line that may have blanks before it; owned. NULL: another
 * line. */
static char *order(const struct doc *doc, size_t index, const char *word)
{
	struct line line = doc_line(doc, index);
	size_t skip = 0, len = strlen(word);

	while (skip < line.len && skip < 8 && line.text[skip] == ' ')
		skip++;
	if (line.len - skip < 4 + len || memcmp(line.text + skip, "*** ", 4) != 0 ||
	    memcmp(line.text + skip + 4, word, len) != 0)
		return NULL;
	return doc_rest(doc, index, skip + 4 + len);
}

static bool is_order(const struct doc *doc, size_t index, const char *word)
{
	AUTO_FREE char *rest = order(doc, index, word);

	return rest != NULL;
}

static bool begins_file(const struct doc *doc, size_t index)
{
	return is_order(doc, index, "Add File:") || is_order(doc, index, "Update File:") ||
	       is_order(doc, index, "Delete File:");
}

/* "*** End Patch" with blanks before it ends the patch where none without follows. */
static bool is_padded_end(const struct doc *doc, size_t index)
{
	if (!is_order(doc, index, "End Patch"))
		return false;
	while (++index < doc->lines.len)
		if (doc_begins(doc, index, "*** End Patch"))
			return false;
	return true;
}

/* A mark before it makes it content: orders are looked for at the left edge within a file. */
static bool ends_file(const struct doc *doc, size_t index)
{
	return index >= doc->lines.len || is_padded_end(doc, index) ||
	       (doc_begins(doc, index, "***") &&
		(begins_file(doc, index) || is_order(doc, index, "End Patch") ||
		 is_order(doc, index, "Begin Patch")));
}

bool is_envelope_start(const struct doc *doc, size_t index)
{
	return is_order(doc, index, "Begin Patch") ||
	       (doc_begins(doc, index, "***") && begins_file(doc, index));
}

static void strip_quotes(char *path)
{
	size_t len = strlen(path);

	if (len > 2 && strchr("`\"'", path[0]) && path[len - 1] == path[0]) {
		memmove(path, path + 1, len - 2);
		path[len - 2] = '\0';
	}
}

/* "*** Add File": all of its lines are added ones. */
static int read_add(struct doc *doc, size_t *at, struct edit *edit)
{
	struct edit_hunk hunk = {.line = -1};
	struct strbuf body;
	size_t keep = 0;
	int rc = 0;

	edit->create = true;
	strbuf_init(&body, STRBUF_MAX);
	for (; rc == 0 && !ends_file(doc, *at); ++*at) {
		bool blank = !doc_line(doc, *at).len;
		if (!doc_begins(doc, *at, "+") && !blank)
			rc = doc_refuse(
			    doc, EDIT_MALFORMED, *at,
			    "a line of the new file '%.200s' does not begin with '+'",
			    edit->path);
		body_add(doc, *at, &body);
		if (doc_begins(doc, *at, "+"))
			keep = body.len;
	}
	hunk.len = keep; /* blank lines before the next file are none of this one */
	hunk.body = strbuf_steal(&body);
	if (keep)
		edit_push_hunk(edit, &hunk);
	else
		free(hunk.body);
	return rc;
}

/* "@@ scope", or, where the two formats are mixed, "@@ -1,2 +3,4 @@ scope". */
static void take_head(const struct doc *doc, size_t index, struct edit_hunk *hunk)
{
	struct line line = doc_line(doc, index);
	const char *text = line.text + 2, *end = line.text + line.len;
	long first, count;

	while (text < end && *text == ' ')
		text++;
	const char *rest =
	    text < end && *text == '-' ? parse_range(text + 1, end, &first, &count) : NULL;
	if (rest && rest + 1 < end && rest[0] == ' ' && rest[1] == '+') {
		hunk->line = first;
		return;
	}
	text = line.text + 2 + (line.len > 2 && line.text[2] == ' ');
	while (end > text && (end[-1] == ' ' || end[-1] == '@'))
		end--;
	if (text >= end)
		return;
	char *scope = hunk->scope ? mem_printf("%s\n%.*s", hunk->scope, (int)(end - text), text)
				  : mem_strndup(text, (size_t)(end - text));
	free(hunk->scope);
	hunk->scope = scope;
	hunk->must_scope = true;
}

static void push_hunk(struct edit *edit, struct edit_hunk *hunk, struct strbuf *body)
{
	if (body->len) {
		hunk->len = body->len;
		hunk->body = strbuf_steal(body);
		edit_push_hunk(edit, hunk);
	}
	free(hunk->scope);
	*hunk = (struct edit_hunk){.line = -1, .ordered = true};
	strbuf_release(body);
	strbuf_init(body, STRBUF_MAX);
}

static void read_update(struct doc *doc, size_t *at, struct edit *edit)
{
	struct edit_hunk hunk = {.line = -1, .ordered = true};
	struct strbuf body;

	strbuf_init(&body, STRBUF_MAX);
	edit->to = order(doc, *at, "Move to:");
	if (edit->to) {
		strip_quotes(edit->to);
		++*at;
	}
	for (; !ends_file(doc, *at); ++*at) {
		if (doc_begins(doc, *at, "@@")) {
			if (body.len)
				push_hunk(edit, &hunk, &body);
			take_head(doc, *at, &hunk);
		} else if (doc_begins(doc, *at, "***") && is_order(doc, *at, "End of File")) {
			hunk.at_end = true;
			push_hunk(edit, &hunk, &body);
		} else {
			body_add(doc, *at, &body);
		}
	}
	push_hunk(edit, &hunk, &body);
	strbuf_release(&body);
}

/* Blank lines between two files or hunks make no hunk. */
static void drop_blank_hunks(struct edit *edit)
{
	size_t kept = 0;

	for (size_t i = 0; i < edit->hunk_count; i++) {
		struct edit_hunk *hunk = &edit->hunks[i];
		bool blank = true;
		for (size_t pos = 0; pos < hunk->len; pos++)
			blank = blank && strchr("?\n\r", hunk->body[pos]) && hunk->body[pos];
		if (blank) {
			free(hunk->body);
			free(hunk->scope);
		} else {
			edit->hunks[kept++] = *hunk;
		}
	}
	edit->hunk_count = kept;
}

static int read_file(struct doc *doc, size_t *at)
{
	struct edit edit = {.op = EDIT_PATCH};
	size_t start = *at;
	int rc = 0;
	bool add = is_order(doc, *at, "Add File:"), remove = is_order(doc, *at, "Delete File:");

	edit.path = order(doc, *at,
			  add	   ? "Add File:"
			  : remove ? "Delete File:"
				   : "Update File:");
	if (!edit.path || !edit.path[0])
		rc = doc_refuse(doc, EDIT_MALFORMED, start, "the file's name is missing");
	else
		strip_quotes(edit.path);
	++*at;
	if (rc == 0 && add) {
		rc = read_add(doc, at, &edit);
	} else if (rc == 0 && remove) {
		edit.op = EDIT_DELETE;
		while (!ends_file(doc, *at))
			++*at;
	} else if (rc == 0) {
		read_update(doc, at, &edit);
		drop_blank_hunks(&edit);
	}
	if (rc == 0)
		edit_list_push(doc->list, &edit);
	edit_release(&edit);
	return rc;
}

int read_envelope(struct doc *doc)
{
	bool open = false, any = false;
	size_t at = 0;

	while (at < doc->lines.len) {
		if (is_order(doc, at, "Begin Patch")) {
			open = any = true;
			at++;
		} else if (any && is_order(doc, at, "End Patch")) {
			open = false;
			at++;
		} else if (doc_begins(doc, at, "***") && begins_file(doc, at)) {
			open = any = true;
			if (read_file(doc, &at) < 0)
				return -1;
		} else if (is_block_start(doc, at) || is_diff_start(doc, at)) {
			return doc_refuse_mixed(doc, at);
		} else {
			at++;
		}
	}
	if (!any)
		return doc_refuse(doc, EDIT_MALFORMED, 0, "there is no patch in the text");
	if (open)
		return doc_refuse(doc, EDIT_TRUNCATED, doc->lines.len - 1,
				  "the patch does not end with '*** End Patch': the answer was "
				  "cut. Send it again, whole");
	return 0;
}
