/* list_files, read_file, search. */
#include "tools_internal.h"

#include <string.h>

#include "gitops/view.h"
#include "pipeline/base/error.h"
#include "pipeline/base/text.h"

#define LINE_SHOWN_MAX 2000 /* bytes of one line */

int tool_list_files(struct toolbox *box, const struct tool_args *args, struct error *err)
{
	struct strbuf path AUTO_STRBUF = STRBUF_NONE, *out = &args->result->text;
	struct view_listing listing = {0};
	const char *pattern;
	bool recursive;
	size_t len;
	int kind;

	strbuf_init(&path, STRBUF_MAX);
	if (!args_path(args, "path", true, &path) ||
	    !args_text(args, "pattern", false, &pattern, &len) ||
	    !args_bool(args, "recursive", &recursive))
		return 0;
	/* a pattern looks for files wherever they are */
	kind = view_list(box->view, path.data, recursive || pattern, pattern, TOOL_LIST_MAX,
			 &listing, err);
	if (kind < 0)
		return tool_pass(args->result, kind, err);
	for (size_t i = 0; i < listing.len; i++) {
		const struct view_entry *entry = &listing.items[i];

		strbuf_adds(out, entry->path);
		if (entry->kind == VIEW_DIR)
			strbuf_adds(out, "/");
		else if (entry->kind == VIEW_LINK)
			strbuf_adds(out, " (symbolic link)");
		else if (entry->kind == VIEW_SUBMODULE)
			strbuf_adds(out, " (submodule)");
		strbuf_addc(out, '\n');
	}
	if (!listing.len)
		strbuf_adds(out, "No files.\n");
	if (listing.cut)
		strbuf_addf(out, "[cut after %zu entries; name a path or a pattern]\n",
			    listing.len);
	view_listing_release(&listing);
	return 0;
}

struct range {
	size_t first, last; /* lines, from 1; last as asked for */
	size_t lines;	    /* of the file */
	size_t shown;	    /* the last one shown */
};

static void add_lines(struct strbuf *out, const struct strbuf *data, struct range *range)
{
	bool utf8 = text_is_utf8(data->data, data->len);
	const char *at = data->data, *end = data->data + data->len;

	for (size_t number = 1; at < end; number++) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t cut = (size_t)((newline ? newline : end) - at);
		bool too_long;

		range->lines = number;
		if (number >= range->first && number <= range->last &&
		    out->len < TOOL_RESULT_MAX - 4096) {
			if (cut && at[cut - 1] == '\r')
				cut--;
			too_long = cut > LINE_SHOWN_MAX;
			if (too_long) {
				cut = LINE_SHOWN_MAX;
				while (utf8 && cut && ((unsigned char)at[cut] & 0xc0) == 0x80)
					cut--;
			}
			strbuf_addf(out, "%6zu\t", number);
			view_to_utf8(at, cut, utf8, out);
			strbuf_adds(out, too_long ? " [line cut]\n" : "\n");
			range->shown = number;
		}
		at = newline ? newline + 1 : end;
	}
}

static void add_notes(struct strbuf *out, const struct strbuf *data, const struct range *range)
{
	if (range->lines == 0)
		strbuf_adds(out, "[the file is empty]\n");
	else if (range->shown == 0)
		strbuf_addf(out, "[the file has %zu lines]\n", range->lines);
	else if (range->shown < range->lines)
		strbuf_addf(out, "[lines %zu to %zu of %zu]\n", range->first, range->shown,
			    range->lines);
	if (data->len && data->data[data->len - 1] != '\n' && range->shown == range->lines)
		strbuf_adds(out, "[no newline at the end of the file]\n");
	if (memmem(data->data, data->len, "\r\n", 2))
		strbuf_adds(out, "[lines end in CR LF; edits keep that]\n");
	if (!text_is_utf8(data->data, data->len))
		strbuf_adds(out, "[not UTF-8: shown as Latin-1; edits keep the encoding]\n");
}

int tool_read_file(struct toolbox *box, const struct tool_args *args, struct error *err)
{
	struct strbuf path AUTO_STRBUF = STRBUF_NONE, data AUTO_STRBUF = STRBUF_NONE;
	struct strbuf *out = &args->result->text;
	struct range range = {0};
	struct view_stat stat;
	long long first, last;
	int kind;

	strbuf_init(&path, STRBUF_MAX);
	strbuf_init(&data, STRBUF_MAX);
	if (!args_path(args, "path", false, &path) ||
	    !args_number(args, "start_line", &first) || !args_number(args, "end_line", &last))
		return 0;
	kind = view_stat(box->view, path.data, &stat, err);
	if (kind == 0)
		kind = view_read(box->view, path.data, &data, err);
	if (kind < 0)
		return tool_pass(args->result, kind, err);
	if (stat.kind == VIEW_LINK) {
		strbuf_adds(out, "A symbolic link to: ");
		view_to_utf8(data.data, data.len, text_is_utf8(data.data, data.len), out);
		return 0;
	}
	if (view_is_binary(data.data, data.len)) {
		tool_refuse(args->result, "It is a binary file of %zu bytes.", data.len);
		return 0;
	}
	range.first = first > 0 ? (size_t)first : 1;
	range.last = last > 0 ? (size_t)last : SIZE_MAX;
	if (range.last - range.first >= TOOL_READ_LINES && range.last >= range.first)
		range.last = range.first + TOOL_READ_LINES - 1;
	add_lines(out, &data, &range);
	add_notes(out, &data, &range);
	return 0;
}

int tool_search(struct toolbox *box, const struct tool_args *args, struct error *err)
{
	struct strbuf path AUTO_STRBUF = STRBUF_NONE, *out = &args->result->text;
	struct view_query query = {.max_hits = TOOL_SEARCH_MAX};
	struct view_hits hits = {0};
	size_t len;
	int kind;

	strbuf_init(&path, STRBUF_MAX);
	if (!args_text(args, "text", true, &query.text, &len) ||
	    !args_bool(args, "regex", &query.regex) ||
	    !args_bool(args, "ignore_case", &query.ignore_case) ||
	    !args_path(args, "path", true, &path) ||
	    !args_text(args, "pattern", false, &query.pattern, &len))
		return 0;
	query.under = path.data;
	kind = view_search(box->view, &query, &hits, err);
	if (kind < 0)
		return tool_pass(args->result, kind, err);
	for (size_t i = 0; i < hits.len; i++) {
		const struct view_hit *hit = &hits.items[i];

		strbuf_addf(out, "%s:%zu: ", hit->path, hit->line);
		view_to_utf8(hit->text, hit->len, text_is_utf8(hit->text, hit->len), out);
		strbuf_addc(out, '\n');
	}
	if (!hits.len)
		strbuf_addf(out, "No line matches, in %zu files.\n", hits.files);
	if (hits.cut)
		strbuf_addf(out, "[stopped: %s]\n", hits.cut);
	view_hits_release(&hits);
	return 0;
}
