#include "diff.h"

#include <stdbool.h>
#include <string.h>

#include <git2.h>

#include "pipeline/base/error.h"
#include "pipeline/base/strbuf.h"

#define LINES_PRODUCT_MAX ((size_t)100000000000) /* old lines times new lines: seconds */
#define NULL_OID "0000000000000000000000000000000000000000"

/* A path in a header line: git quotes it when it has a quote (the policy lets no worse
 * through). */
static void add_path(struct strbuf *out, const char *prefix, const char *path)
{
	if (!strchr(path, '"')) {
		strbuf_adds(out, prefix);
		strbuf_adds(out, path);
		return;
	}
	strbuf_addc(out, '"');
	strbuf_adds(out, prefix);
	for (; *path; path++) {
		if (*path == '"')
			strbuf_addc(out, '\\');
		strbuf_addc(out, *path);
	}
	strbuf_addc(out, '"');
}

/* "--- a/x" or "+++ b/x"; a blank in the path is followed by a tab, as git does. */
static void add_file_line(struct strbuf *out, const char *mark, const char *prefix,
			  const char *path)
{
	strbuf_adds(out, mark);
	if (!path) {
		strbuf_adds(out, "/dev/null\n");
		return;
	}
	add_path(out, prefix, path);
	strbuf_adds(out, strchr(path, ' ') ? "\t\n" : "\n");
}

static void add_header(struct strbuf *out, const struct view_change *change)
{
	const char *old_mode = view_mode_text(change->old_kind);
	const char *new_mode = view_mode_text(change->new_kind);

	strbuf_adds(out, "diff --git ");
	add_path(out, "a/", change->path);
	strbuf_addc(out, ' ');
	add_path(out, "b/", change->path);
	strbuf_addc(out, '\n');
	if (change->old_kind == VIEW_NONE)
		strbuf_addf(out, "new file mode %s\n", new_mode);
	else if (change->new_kind == VIEW_NONE)
		strbuf_addf(out, "deleted file mode %s\n", old_mode);
	else if (change->old_kind != change->new_kind)
		strbuf_addf(out, "old mode %s\nnew mode %s\n", old_mode, new_mode);
	if (strcmp(change->old_oid, change->new_oid) == 0)
		return;
	strbuf_addf(out, "index %s..%s", change->old_oid[0] ? change->old_oid : NULL_OID,
		    change->new_oid[0] ? change->new_oid : NULL_OID);
	if (change->old_kind == change->new_kind)
		strbuf_addf(out, " %s", new_mode);
	strbuf_addc(out, '\n');
}

struct printer {
	struct strbuf *out;
	const struct view_change *change;
	bool named; /* the --- and +++ lines are written */
};

/* Lines as the library prints them, but for its own file header. */
static int print_line(const git_diff_delta *delta, const git_diff_hunk *hunk,
		      const git_diff_line *line, void *payload)
{
	struct printer *printer = payload;
	const struct view_change *change = printer->change;

	(void)delta;
	(void)hunk;
	if (line->origin == GIT_DIFF_LINE_FILE_HDR)
		return 0;
	if (!printer->named && line->origin != GIT_DIFF_LINE_BINARY) {
		add_file_line(printer->out, "--- ", "a/",
			      change->old_kind ? change->path : NULL);
		add_file_line(printer->out, "+++ ", "b/",
			      change->new_kind ? change->path : NULL);
		printer->named = true;
	}
	if (line->origin == GIT_DIFF_LINE_CONTEXT || line->origin == GIT_DIFF_LINE_ADDITION ||
	    line->origin == GIT_DIFF_LINE_DELETION)
		strbuf_addc(printer->out, line->origin);
	strbuf_add(printer->out, line->content, line->content_len);
	return printer->out->full ? -1 : 0;
}

/*
 * Whether a comparison line by line could take minutes: what is left without the common head
 * and tail has too many lines on both sides. Then the file is shown as a binary one is. (A
 * model that rewrites megabytes of lines that look alike would otherwise stop the stage.)
 */
static bool too_long_to_compare(const struct strbuf *old, const char *now, size_t len)
{
	size_t head = 0, tail = 0, least = old->len < len ? old->len : len, n = 1, m = 1;

	while (head < least && old->data[head] == now[head])
		head++;
	while (tail < least - head && old->data[old->len - 1 - tail] == now[len - 1 - tail])
		tail++;
	for (size_t i = head; i < old->len - tail; i++)
		n += old->data[i] == '\n';
	for (size_t i = head; i < len - tail; i++)
		m += now[i] == '\n';
	return n > LINES_PRODUCT_MAX / m;
}

static int add_patch(struct printer *printer, const struct strbuf *old, struct diff_stat *stat,
		     struct error *err)
{
	const struct view_change *change = printer->change;
	git_diff_options options = GIT_DIFF_OPTIONS_INIT;
	git_patch *patch = NULL;
	size_t added = 0, removed = 0;

	options.context_lines = 3;
	options.id_abbrev = GITOPS_OID_SIZE - 1;
	options.flags = GIT_DIFF_SHOW_BINARY;
	if (change->old_kind && change->new_kind &&
	    too_long_to_compare(old, change->data, change->len))
		options.flags |= GIT_DIFF_FORCE_BINARY;
	if (git_patch_from_buffers(&patch, change->old_kind ? old->data : NULL, old->len,
				   change->path, change->new_kind ? change->data : NULL,
				   change->len, change->path, &options) < 0)
		return gitops_error(err, ERROR_FAILED, "diff of '%s'", change->path);
	int rc = git_patch_print(patch, print_line, printer);
	if (rc == 0)
		rc = git_patch_line_stats(NULL, &added, &removed, patch);
	git_patch_free(patch);
	if (printer->out->full)
		return error_set(err, ERROR_NO, "the patch has more than %zu bytes",
				 printer->out->max);
	if (rc < 0)
		return gitops_error(err, ERROR_FAILED, "diff of '%s'", change->path);
	stat->added += added;
	stat->removed += removed;
	return 0;
}

int diff_format(struct view *view, const struct view_change *changes, size_t count,
		struct strbuf *out, struct diff_stat *stat, struct error *err)
{
	*stat = (struct diff_stat){.files = count};
	for (size_t i = 0; i < count; i++) {
		const struct view_change *change = &changes[i];
		struct printer printer = {.out = out, .change = change};
		struct strbuf old AUTO_STRBUF = STRBUF_NONE;
		add_header(out, change);
		if (strcmp(change->old_oid, change->new_oid) == 0)
			continue;
		strbuf_init(&old, STRBUF_MAX);
		int rc = change->old_kind ? repo_blob(view_repo(view), change->old_oid,
						      STRBUF_MAX, &old, err)
					  : 0;
		if (rc == 0)
			rc = add_patch(&printer, &old, stat, err);
		if (rc < 0)
			return rc;
	}
	return out->full
		   ? error_set(err, ERROR_NO, "the patch has more than %zu bytes", out->max)
		   : 0;
}
