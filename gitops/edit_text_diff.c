/* Unified diffs, with and without git's headers: see gitops/edit_text.h. */
#include "edit_text_internal.h"

#include <stdlib.h>
#include <string.h>

#include "gitops/edit_hunk.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

/* What is known of one file of the diff. */
struct section {
	bool open;
	bool git;	     /* it began with "diff --git" */
	bool removed, added; /* said by a mode line */
	bool binary, named;  /* named: "---" or "+++" was there */
	size_t line;	     /* where it began */
	char *git_names;     /* what is behind "diff --git " */
	char *minus, *plus;  /* owned, as all of these */
	char *rename_from, *rename_to, *copy_from, *copy_to;
	struct edit edit;
};

struct diff {
	struct doc *doc;
	size_t at;
	struct fence fence; /* the open one; mark 0: none */
	char *fence_name;   /* owned: the name before or on the open fence */
	struct section section;
	/* of the last hunk, for the question whether the text was cut */
	bool counted;
	long missing_old, missing_new;
	long missing_added; /* of a new file */
	char last_mark;
	size_t hunk_end; /* first line behind it */
	size_t inflated; /* bytes of binary patches so far */
};

static void section_release(struct section *section)
{
	free(section->git_names);
	free(section->minus);
	free(section->plus);
	free(section->rename_from);
	free(section->rename_to);
	free(section->copy_from);
	free(section->copy_to);
	edit_release(&section->edit);
	*section = (struct section){0};
}

/* ---- what a line is ---- */

static bool begins_name(const struct doc *doc, size_t index, const char *prefix)
{
	return doc_begins(doc, index, prefix) && doc_line(doc, index).len > strlen(prefix);
}

/* "--- a" and "+++ b" one behind the other. */
static bool is_pair(const struct doc *doc, size_t index)
{
	return begins_name(doc, index, "--- ") && begins_name(doc, index + 1, "+++ ");
}

bool is_diff_start(const struct doc *doc, size_t index)
{
	return begins_name(doc, index, "diff --git ") || is_pair(doc, index) ||
	       doc_begins(doc, index, "@@ ") ||
	       (begins_name(doc, index, "rename from ") &&
		begins_name(doc, index + 1, "rename to ")) ||
	       ((begins_name(doc, index, "--- ") || begins_name(doc, index, "+++ ")) &&
		doc_begins(doc, index + 1, "@@"));
}

/* The end of a mailed patch: "-- " and git's version. */
static bool is_signature(const struct doc *doc, size_t index)
{
	struct line next = doc_line(doc, index + 1);

	return doc_begins(doc, index, "--") && doc_line(doc, index).len == 2 && next.len &&
	       next.text[0] >= '0' && next.text[0] <= '9' && memchr(next.text, '.', next.len) &&
	       index + 4 >= doc->lines.len;
}

static bool is_other_format(const struct doc *doc, size_t index)
{
	return is_envelope_start(doc, index) ||
	       (is_block_start(doc, index) && !doc_begins(doc, index, "-"));
}

/* ---- names ---- */

static bool is_null(const char *name)
{
	return name && strcmp(name, "/dev/null") == 0;
}

/* One name, where the other is /dev/null or was left out; what git's own line says first. */
static char *path_of_one(const struct section *section, const char *name, const char *prefix)
{
	const char *rest = name_without(name, prefix);
	char *path = section->git_names ? name_of_git(section->git_names) : NULL;

	return path ? path : mem_strdup(rest ? rest : name);
}

static int name_section(struct diff *diff)
{
	struct section *section = &diff->section;
	struct edit *edit = &section->edit;
	const char *from = section->rename_from ? section->rename_from : section->copy_from;
	const char *to = section->rename_to ? section->rename_to : section->copy_to;

	if (section->minus && section->plus && is_null(section->minus) &&
	    is_null(section->plus))
		return doc_refuse(diff->doc, EDIT_MALFORMED, section->line,
				  "both names are /dev/null");
	if (from && to) {
		edit->path = name_unquote(from);
		edit->to = name_unquote(to);
		edit->copy = !section->rename_from;
	} else if (section->minus && is_null(section->minus) && section->plus) {
		edit->create = true;
		edit->path = path_of_one(section, section->plus, "b/");
	} else if (section->plus && is_null(section->plus) && section->minus) {
		edit->remove = true;
		edit->path = path_of_one(section, section->minus, "a/");
	} else if (section->minus && section->plus) {
		edit->path = name_of_pair(section->minus, section->plus);
	} else if (section->plus) {
		edit->path = path_of_one(section, section->plus, "b/");
	} else if (section->minus) {
		edit->path = path_of_one(section, section->minus, "a/");
	} else if (section->git_names) {
		edit->path = name_of_git(section->git_names);
	} else if (diff->fence_name) {
		edit->path = mem_strdup(diff->fence_name);
	} else {
		return doc_refuse(diff->doc, EDIT_MALFORMED, section->line,
				  "a hunk without the name of its file: put '--- a/PATH' and "
				  "'+++ b/PATH' before it");
	}
	edit->create = edit->create || section->added;
	edit->remove = edit->remove || section->removed;
	if (!edit->path)
		return doc_refuse(diff->doc, EDIT_MALFORMED, section->line,
				  "the two names of a diff are those of different files; use "
				  "'rename from' and 'rename to' where one is renamed");
	return 0;
}

/* ---- sections ---- */

/* Drops what stands behind the added lines of a new file and is none of it: blank lines, and
 * words where the count is reached before them. */
static void trim_new_file(struct edit_hunk *hunk, bool counted)
{
	struct hunk_line line;
	size_t keep = 0;
	bool words = false;

	for (size_t pos = 0; hunk_next(hunk, &pos, &line);) {
		if (line.mark == '+')
			keep = pos;
		else if (line.mark != '?' || line.len)
			words = words || !counted;
	}
	if (!words)
		hunk->len = keep;
}

static int end_section(struct diff *diff)
{
	struct section *section = &diff->section;
	struct edit *edit = &section->edit;
	bool at_end = diff->at >= diff->doc->lines.len;
	int rc = 0;

	if (!section->open)
		return 0;
	edit->op = EDIT_PATCH;
	edit->binary = section->binary;
	rc = name_section(diff);
	for (size_t i = 0; rc == 0 && edit->create && i < edit->hunk_count; i++)
		trim_new_file(&edit->hunks[i], diff->counted && !diff->missing_added);
	if (rc == 0 && !edit->hunk_count && !edit->to && !edit->mode && !edit->binary &&
	    !edit->remove && !(edit->create && section->git)) {
		rc = doc_refuse(diff->doc, at_end ? EDIT_TRUNCATED : EDIT_MALFORMED,
				section->line, "the diff of '%.200s' has no hunk", edit->path);
	}
	if (rc == 0)
		edit_list_push(diff->doc->list, edit);
	section_release(section);
	return rc;
}

static int begin_section(struct diff *diff, bool git)
{
	int rc = end_section(diff);

	if (rc == 0)
		diff->section = (struct section){.open = true, .git = git, .line = diff->at};
	return rc;
}

static int parse_mode(const char *text)
{
	char *end;
	long mode = strtol(text, &end, 8);

	return end == text || mode <= 0 || mode > 0777777 ? 0777777 : (int)mode;
}

/* "index 1111111..2222222 100644" */
static void take_index(struct section *section, const char *text)
{
	size_t old = strspn(text, "0123456789abcdef");
	const char *now = text + old + 2;

	if (!old || strncmp(text + old, "..", 2) != 0)
		return;
	size_t len = strspn(now, "0123456789abcdef");
	free(section->edit.old_id);
	free(section->edit.new_id);
	section->edit.old_id = mem_strndup(text, old);
	section->edit.new_id = mem_strndup(now, len);
	if (now[len] == ' ') {
		int mode = parse_mode(now + len + 1);
		if ((mode & 0170000) != 0100000)
			section->edit.mode = mode;
	}
}

static void set_text(char **where, char *taken)
{
	free(*where);
	*where = taken;
}

/* A line of git's extended header. False when it is none. */
static bool take_header(struct diff *diff)
{
	struct section *section = &diff->section;
	const struct {
		const char *prefix;
		char **where;
	} names[] = {{"rename from ", &section->rename_from},
		     {"rename to ", &section->rename_to},
		     {"copy from ", &section->copy_from},
		     {"copy to ", &section->copy_to}};
	static const char *const modes[] = {"new mode ", "new file mode ", "deleted file mode ",
					    "old mode "};
	static const char *const skipped[] = {"similarity index ", "dissimilarity index "};

	if (!section->open || section->edit.hunk_count)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (begins_name(diff->doc, diff->at, names[i].prefix)) {
			set_text(names[i].where,
				 doc_rest(diff->doc, diff->at, strlen(names[i].prefix)));
			return true;
		}
	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		if (!begins_name(diff->doc, diff->at, modes[i]))
			continue;
		AUTO_FREE char *rest = doc_rest(diff->doc, diff->at, strlen(modes[i]));
		section->added = section->added || i == 1;
		section->removed = section->removed || i == 2;
		if (i < 2)
			section->edit.mode = parse_mode(rest);
		return true;
	}
	for (size_t i = 0; i < ARRAY_LEN(skipped); i++)
		if (doc_begins(diff->doc, diff->at, skipped[i]))
			return true;
	if (begins_name(diff->doc, diff->at, "index ")) {
		AUTO_FREE char *rest = doc_rest(diff->doc, diff->at, 6);
		take_index(section, rest);
		return true;
	}
	struct line line = doc_line(diff->doc, diff->at);
	if (doc_begins(diff->doc, diff->at, "Binary files ") && line.len > 7 &&
	    !memcmp(line.text + line.len - 7, " differ", 7)) {
		section->binary = true;
		return true;
	}
	return false;
}

/* ---- hunks ---- */

static bool ends_body(const struct diff *diff, size_t at)
{
	const struct doc *doc = diff->doc;
	struct fence fence;

	if (at >= doc->lines.len || doc_begins(doc, at, "@@") || is_pair(doc, at) ||
	    is_signature(doc, at) || begins_name(doc, at, "diff --git ") ||
	    doc_begins(doc, at, "*** End Patch") || begins_name(doc, at, "Index: "))
		return true;
	if (!fence_at(doc, at, &fence))
		return false;
	return diff->fence.mark ? fence_closes(&diff->fence, &fence) : !fence.info_len;
}

/* A list in the model's words behind a hunk ("- I changed …"), which looks like removed lines:
 * no line up to the next part is added or context. */
static bool is_list(const struct diff *diff, size_t at)
{
	const struct doc *doc = diff->doc;

	for (; !ends_body(diff, at); at++) {
		struct line line = doc_line(doc, at);
		bool item = doc_begins(doc, at, "- ") && line.len > 2 &&
			    ((line.text[2] >= 'A' && line.text[2] <= 'Z') ||
			     line.text[2] == '`' || line.text[2] == '*');
		if (line.len && !item && strchr(" +-", line.text[0]) && line.text[0])
			return false;
	}
	return true;
}

/* First line behind the body by the header's counts, when it is exactly what they say; 0 when
 * it is not. */
static size_t end_by_counts(const struct diff *diff, size_t at, long old, long now)
{
	const struct doc *doc = diff->doc;

	if (old + now == 0)
		return 0;
	for (; old > 0 || now > 0; at++) {
		if (at >= doc->lines.len)
			return 0;
		struct line line = doc_content(doc, at);
		char mark = line.len ? line.text[0] : ' ';
		if (line.len == 1 && mark == '\r')
			mark = ' ';
		old -= mark == ' ' || mark == '-';
		now -= mark == ' ' || mark == '+';
		if (!strchr(" +-\\", mark) || !mark || old < 0 || now < 0)
			return 0;
	}
	while (doc_begins(doc, at, "\\"))
		at++;
	/* more of it behind them: the counts are wrong */
	size_t next = at;
	while (next < doc->lines.len && !doc_line(doc, next).len && !doc_begins(doc, next, " "))
		next++;
	if (next < doc->lines.len && !is_pair(doc, next) && !is_signature(doc, next) &&
	    !(next > at && is_list(diff, next)) &&
	    (doc_begins(doc, next, "+") || doc_begins(doc, next, "-") ||
	     doc_begins(doc, next, " ")))
		return 0;
	return at;
}

/* The numbers and the heading of "@@ -1,2 +3,4 @@ heading". False: no numbers. */
static bool parse_head(const struct doc *doc, size_t index, struct edit_hunk *hunk, long *old,
		       long *now)
{
	struct line line = doc_line(doc, index);
	const char *text = line.text + 2, *end = line.text + line.len;
	long first, other;
	bool numbers = false;

	hunk->line = -1;
	while (text < end && *text == ' ')
		text++;
	const char *rest =
	    text < end && *text == '-' ? parse_range(text + 1, end, &first, old) : NULL;
	while (rest && rest < end && *rest == ' ')
		rest++;
	if (rest && rest < end && *rest == '+' &&
	    (rest = parse_range(rest + 1, end, &other, now))) {
		numbers = true;
		hunk->line = first;
		text = rest;
	}
	while (text < end && (*text == ' ' || *text == '@'))
		text++;
	while (text < end && (end[-1] == ' ' || end[-1] == '@'))
		end--;
	size_t len = (size_t)(end - text);
	if (len && !(len == 3 && !memcmp(text, "...", 3)))
		hunk->scope = mem_strndup(text, len);
	return numbers;
}

static void count_body(struct diff *diff, const struct edit_hunk *hunk, bool numbers, long old,
		       long now)
{
	struct hunk_line line;

	diff->counted = numbers;
	diff->missing_old = old;
	diff->missing_new = now;
	diff->missing_added = now;
	diff->hunk_end = diff->at;
	for (size_t pos = 0; hunk_next(hunk, &pos, &line);) {
		old -= line.mark != '+';
		now -= line.mark != '-';
		diff->missing_added -= line.mark == '+';
		if (line.mark == '?' && !line.len)
			continue; /* blank lines at the end are none of it */
		diff->last_mark = line.mark;
		diff->missing_old = old;
		diff->missing_new = now;
	}
}

static int take_hunk(struct diff *diff, bool head)
{
	struct edit_hunk hunk = {.line = -1};
	struct strbuf body;
	long old = 0, now = 0;
	size_t stop = 0;

	if (!diff->section.open && begin_section(diff, false) < 0)
		return -1;
	bool numbers = head && parse_head(diff->doc, diff->at, &hunk, &old, &now);
	diff->at += head;
	if (numbers)
		stop = end_by_counts(diff, diff->at, old, now);
	strbuf_init(&body, STRBUF_MAX);
	int rc = 0;
	while (rc == 0 && (stop ? diff->at < stop : !ends_body(diff, diff->at))) {
		if (!stop && is_other_format(diff->doc, diff->at))
			rc = doc_refuse_mixed(diff->doc, diff->at);
		body_add(diff->doc, diff->at++, &body);
	}
	hunk.len = body.len;
	hunk.body = strbuf_steal(&body);
	count_body(diff, &hunk, numbers, old, now);
	edit_push_hunk(&diff->section.edit, &hunk);
	return rc;
}

/* ---- the walk ---- */

static void take_fence(struct diff *diff, const struct fence *fence)
{
	if (diff->fence.mark) {
		if (fence_closes(&diff->fence, fence))
			diff->fence.mark = '\0';
		return;
	}
	diff->fence = *fence;
	set_text(&diff->fence_name, name_of_fence(fence));
	for (size_t i = diff->at; i-- > 0 && !diff->fence_name;) {
		struct line line = doc_line(diff->doc, i);
		if (!line.len)
			continue;
		diff->fence_name = name_of_line(line.text, line.len, true);
		break;
	}
}

static int take_names(struct diff *diff)
{
	struct section *section = &diff->section;
	bool minus = doc_begins(diff->doc, diff->at, "--- ");

	if (!section->open || section->edit.hunk_count || section->named)
		if (begin_section(diff, false) < 0)
			return -1;
	section->named = true;
	if (minus)
		set_text(&section->minus, name_of_header(diff->doc, diff->at++));
	if (begins_name(diff->doc, diff->at, "+++ "))
		set_text(&section->plus, name_of_header(diff->doc, diff->at++));
	/* the hunk's own header left out */
	size_t next = diff->at;
	while (next < diff->doc->lines.len && !doc_line(diff->doc, next).len &&
	       !doc_begins(diff->doc, next, " "))
		next++;
	if (doc_begins(diff->doc, next, "@@") || ends_body(diff, next) ||
	    doc_begins(diff->doc, next, "GIT binary") ||
	    doc_begins(diff->doc, next, "Binary files"))
		return 0;
	diff->at = next;
	return take_hunk(diff, false);
}

static int take_line(struct diff *diff)
{
	const struct doc *doc = diff->doc;
	struct fence fence;

	if (is_other_format(doc, diff->at))
		return doc_refuse_mixed(doc, diff->at);
	if (fence_at(doc, diff->at, &fence)) {
		take_fence(diff, &fence);
	} else if (begins_name(doc, diff->at, "diff --git ")) {
		if (begin_section(diff, true) < 0)
			return -1;
		diff->section.git_names = doc_rest(doc, diff->at, 11);
	} else if (diff->section.open && !diff->section.edit.hunk_count &&
		   !diff->section.edit.text && doc_begins(doc, diff->at, "GIT binary patch")) {
		diff->section.binary = true;
		return read_binary(diff->doc, &diff->at, &diff->inflated, &diff->section.edit);
	} else if (doc_begins(doc, diff->at, "@@@")) {
		return doc_refuse(doc, EDIT_MALFORMED, diff->at,
				  "a combined diff of a merge cannot be applied");
	} else if (is_pair(doc, diff->at) || ((begins_name(doc, diff->at, "--- ") ||
					       begins_name(doc, diff->at, "+++ ")) &&
					      doc_begins(doc, diff->at + 1, "@@"))) {
		return take_names(diff);
	} else if (doc_begins(doc, diff->at, "@@")) {
		return take_hunk(diff, true);
	} else if (begins_name(doc, diff->at, "rename from ") &&
		   (!diff->section.open || diff->section.edit.hunk_count ||
		    diff->section.rename_from)) {
		if (begin_section(diff, false) < 0)
			return -1;
		take_header(diff);
	} else {
		take_header(diff);
	}
	diff->at++;
	return 0;
}

/* A text that ends within its last hunk. In a fence the missing end of it tells; without one
 * the counts do, where the last line is part of a change. */
static int check_end(const struct diff *diff)
{
	const struct doc *doc = diff->doc;
	bool last = diff->hunk_end == doc->lines.len;
	bool both = diff->counted && diff->missing_old > 0 && diff->missing_new > 0;
	bool change = diff->last_mark == '-' || diff->last_mark == '+';

	if (diff->fence.mark)
		return doc_refuse(
		    doc, EDIT_TRUNCATED, doc->lines.len - 1,
		    "the fence around the diff is not closed: the answer was cut. "
		    "Send it again, whole");
	if (last && both && change &&
	    (!doc->whole_last ||
	     (diff->last_mark == '-' && diff->missing_new > diff->missing_old)))
		return doc_refuse(
		    doc, EDIT_TRUNCATED, doc->lines.len - 1,
		    "the last hunk ends in the middle of a change, before the lines "
		    "that its header counts. Send it again, whole");
	return 0;
}

/* A copy is one of the file as it was before the patch (git-diff(1), "copy from"): copies go before
 * whatever else the patch does to their source. Nothing else of the order changes. */
static void put_copies_first(struct edit_list *list, size_t from)
{
	size_t count = list->len - from, used = 0;
	struct edit *sorted AUTO_FREE = mem_calloc(count + 1, sizeof(*sorted));

	for (int copies = 1; copies >= 0; copies--)
		for (size_t i = from; i < list->len; i++)
			if (list->items[i].copy == (copies == 1))
				sorted[used++] = list->items[i];
	memcpy(list->items + from, sorted, count * sizeof(*sorted));
}

int read_diff(struct doc *doc)
{
	struct diff diff = {.doc = doc};
	size_t before = doc->list->len;
	int rc = 0;

	while (rc == 0 && diff.at < doc->lines.len)
		rc = take_line(&diff);
	if (rc == 0 && (diff.section.open || doc->list->len > before))
		rc = check_end(&diff);
	if (rc == 0)
		rc = end_section(&diff);
	if (rc == 0 && doc->list->len == before)
		rc = doc_refuse(doc, EDIT_MALFORMED, 0, "there is no diff in the text");
	if (rc == 0)
		put_copies_first(doc->list, before);
	section_release(&diff.section);
	free(diff.fence_name);
	return rc;
}
