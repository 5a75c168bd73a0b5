/* EDIT_PATCH: hunks of one file, and what goes with them in a patch (creation, removal, another
 * name, mode). See gitops/edit.h. */
#include "edit_internal.h"

#include <stdlib.h>
#include <string.h>

#include "gitops/edit_hunk.h"
#include "gitops/edit_lines.h"
#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/text.h"

#define ID_DIGITS_MIN ((size_t)7) /* of an abbreviated blob id that proves something */

/* ---- git's own patches ---- */

static bool id_begins(const char *oid, const char *digits)
{
	size_t len = digits ? strlen(digits) : 0;

	return len >= ID_DIGITS_MIN && len < GITOPS_OID_SIZE && strncmp(oid, digits, len) == 0;
}

/*
 * A patch that names the blob that the file is, and whose hunks, taken by the letter, make the
 * blob that it names: git's own, made for exactly this file. Nothing has to be guessed then,
 * line ends and encoding included.
 */
static bool apply_proven(const struct edit_job *job, struct strbuf *out)
{
	const struct edit *edit = job->edit;
	char oid[GITOPS_OID_SIZE];

	if (!id_begins(job->st.oid, edit->old_id))
		return false;
	if (hunks_apply_exactly(job->data.data, job->data.len, edit->hunks, edit->hunk_count,
				out)) {
		repo_hash_blob(out->data, out->len, oid);
		if (edit->remove ? out->len == 0 : id_begins(oid, edit->new_id))
			return true;
	}
	strbuf_reset(out);
	return false;
}

/* ---- in the file's encoding ---- */

static void hunks_free(struct edit_hunk *hunks, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(hunks[i].body);
	free(hunks);
}

/* A hunk's body in the file's encoding. EDIT_OK; EDIT_ENCODING when a new line, EDIT_NO_MATCH
 * when an old one has no place there. */
static enum edit_code convert_hunk(const struct edit_job *job, const struct edit_hunk *from,
				   struct edit_hunk *to)
{
	struct strbuf body;
	size_t pos = 0;
	enum edit_code code = EDIT_OK;

	strbuf_init(&body, STRBUF_MAX);
	while (pos < from->len) {
		const char *lf = memchr(from->body + pos, '\n', from->len - pos);
		size_t stop = lf ? (size_t)(lf - from->body) : from->len;
		AUTO_STRBUF struct strbuf text = STRBUF_NONE;
		strbuf_init(&text, STRBUF_MAX);
		/* the CR of a CR LF has to survive: the LF is added again below */
		if (stop > pos &&
		    !edit_convert(job, from->body + pos + 1, stop - pos - 1, &text)) {
			if (from->body[pos] == '+')
				code = EDIT_ENCODING;
			else if (code == EDIT_OK)
				code = EDIT_NO_MATCH;
		}
		if (stop > pos)
			strbuf_addc(&body, from->body[pos]);
		strbuf_add(&body, text.data, text.len);
		strbuf_addc(&body, '\n');
		pos = stop + 1;
	}
	*to = *from;
	to->len = body.len;
	to->body = strbuf_steal(&body);
	return code;
}

static int refuse_encoding(struct edit_job *job, enum edit_code code)
{
	if (code == EDIT_ENCODING)
		return edit_decide(job, code,
				   "'%s' is not UTF-8 (taken as ISO 8859-1) and a new line has "
				   "characters that do not exist there",
				   job->path);
	return edit_decide(job, code,
			   "the lines to find have characters that '%s' cannot have in its "
			   "encoding",
			   job->path);
}

/* ---- changing a file ---- */

static int tell_refused(struct edit_job *job, enum edit_code code, const char *why)
{
	if (code == EDIT_NOOP)
		return edit_decide(job, code, "the edit changes nothing in '%s'", job->path);
	if (code == EDIT_ALREADY_APPLIED)
		return edit_decide(job, code,
				   "'%s' already has the new lines and not the old ones: "
				   "nothing to do",
				   job->path);
	return edit_decide(job, code, "in '%s': %s", job->path, why);
}

/* Whether a new line leaves something out. */
static bool hunks_elide(const struct edit_job *job, const struct edit_hunk *hunks, size_t count)
{
	AUTO_STRBUF struct strbuf added = STRBUF_NONE;

	strbuf_init(&added, STRBUF_MAX);
	for (size_t i = 0; i < count; i++) {
		struct hunk_line line;
		for (size_t pos = 0; hunk_next(&hunks[i], &pos, &line);)
			if (line.mark == '+') {
				strbuf_add(&added, line.text, line.len);
				strbuf_addc(&added, '\n');
			}
	}
	return edit_elides(job, &added);
}

/* The new bytes of a file by its hunks, placed by the ladder. */
static int place_hunks(struct edit_job *job, const struct edit_hunk *hunks, struct strbuf *out)
{
	const struct edit *edit = job->edit;
	AUTO_TEXT_FILE struct text_file file = {0};
	AUTO_STRBUF struct strbuf why = STRBUF_NONE;
	struct hunks_report report;
	size_t skip = job->has_bom ? EDIT_BOM_LEN : 0;

	strbuf_init(&why, sizeof(job->result->message) - 300);
	text_file_init(&file, job->data.data + skip, job->data.len - skip);
	strbuf_add(out, job->data.data, skip);
	hunks_apply(&file, hunks, edit->hunk_count, edit->search, &report, &why, out);
	job->result->level = report.level;
	job->result->line = report.line;
	job->result->places = report.places;
	if (report.code != EDIT_OK)
		return tell_refused(job, report.code, why.data);
	if (hunks_elide(job, hunks, edit->hunk_count))
		return edit_decide_elision(job);
	if (report.already)
		edit_decide(job, EDIT_OK, "; %zu of its %zu hunks %s there already",
			    report.already, edit->hunk_count,
			    report.already == 1 ? "was" : "were");
	return 0;
}

static int change_bytes(struct edit_job *job, struct strbuf *out)
{
	const struct edit *edit = job->edit;
	struct edit_hunk *hunks;
	enum edit_code code = EDIT_OK;

	if (apply_proven(job, out))
		return 0;
	if (view_is_binary(job->data.data, job->data.len))
		return edit_decide(job, EDIT_BINARY,
				   "'%s' is a binary file; only writing it whole can change it",
				   job->path);
	hunks = mem_calloc(edit->hunk_count + 1, sizeof(*hunks));
	for (size_t i = 0; i < edit->hunk_count && code == EDIT_OK; i++)
		code = convert_hunk(job, &edit->hunks[i], &hunks[i]);
	int rc = code ? refuse_encoding(job, code) : place_hunks(job, hunks, out);
	hunks_free(hunks, edit->hunk_count);
	return rc;
}

/* ---- creating, removing ---- */

static int create_file(struct edit_job *job)
{
	const struct edit *edit = job->edit;
	AUTO_STRBUF struct strbuf bytes = STRBUF_NONE;
	char oid[GITOPS_OID_SIZE]; /* the patch's own says that nothing is left out */
	int rc;

	strbuf_init(&bytes, view_get_limits(job->view)->file_bytes);
	if (edit->binary && ((rc = edit_binary_bytes(job, &bytes)) < 0 || job->result->code))
		return rc;
	if (!edit->binary && !hunks_new_file(edit->hunks, edit->hunk_count, &bytes))
		return edit_decide(
		    job, EDIT_MALFORMED,
		    "'%s' is to be made, and not all of its lines begin with '+'", job->path);
	if (job->st.kind != VIEW_NONE) {
		if ((rc = edit_load(job)) < 0 || job->result->code)
			return rc;
		if (bytes.len == job->data.len && !bytes.full &&
		    memcmp(bytes.data, job->data.data, bytes.len) == 0)
			return edit_decide(job, EDIT_ALREADY_APPLIED,
					   "'%s' is there with exactly this content already",
					   job->path);
		return edit_decide(job, EDIT_EXISTS, "'%s' exists already; edit it instead",
				   job->path);
	}
	repo_hash_blob(bytes.data, bytes.len, oid);
	if (!id_begins(oid, edit->new_id) && hunks_elide(job, edit->hunks, edit->hunk_count))
		return edit_decide_elision(job);
	enum view_kind kind = edit_kind(job, VIEW_NONE);
	if ((rc = edit_put(job, kind, &bytes)) < 0 || job->result->code)
		return rc;
	job->result->line = 1;
	job->result->places = 1;
	if (edit->binary)
		return edit_decide(job, EDIT_OK, "created '%s' (%zu bytes)", job->path,
				   bytes.len);
	return edit_decide(job, EDIT_OK, "created '%s' (%zu lines)", job->path,
			   edit_count_lines(bytes.data, bytes.len));
}

/* A patch that removes a file holds all of its lines: what is left by the hunks must be
 * nothing. */
static int remove_file(struct edit_job *job)
{
	AUTO_STRBUF struct strbuf bytes = STRBUF_NONE;
	int rc = edit_load(job);

	if (rc < 0 || job->result->code)
		return rc;
	strbuf_init(&bytes, STRBUF_MAX);
	if (job->data.len) {
		bool binary = job->edit->binary, hunks = job->edit->hunk_count > 0;

		rc = binary  ? edit_binary_bytes(job, &bytes)
		     : hunks ? change_bytes(job, &bytes)
			     : 0;
		if (rc < 0)
			return rc;
		if (job->result->code == EDIT_ALREADY_APPLIED || job->result->code == EDIT_NOOP)
			job->result->code = EDIT_NO_MATCH;
		if (job->result->code)
			return 0;
		if ((!hunks && !binary) ||
		    bytes.len > (job->has_bom && !binary ? EDIT_BOM_LEN : 0))
			return edit_decide(
			    job, EDIT_NO_MATCH,
			    "'%s' has other lines than those that the patch removes with it; "
			    "give all of its lines, or delete it by a delete operation",
			    job->path);
	}
	if ((rc = view_fits(job->view, job->edit->path, 0, job->err)) < 0)
		return edit_decide_error(job, rc, EDIT_LIMIT);
	if ((rc = view_remove(job->view, job->edit->path, job->err)) < 0)
		return edit_decide_error(job, rc, EDIT_PATH);
	return edit_decide(job, EDIT_OK, "deleted '%s'", job->path);
}

/* ---- all of it ---- */

/* Puts the bytes under the name that the file has from now on. */
static int put_bytes(struct edit_job *job, enum view_kind kind, const struct strbuf *bytes)
{
	const struct edit *edit = job->edit;
	const char *to = edit->to ? edit->to : edit->path;
	int rc = bytes->full ? error_set(job->err, ERROR_NO, "'%s' would be too big", to)
			     : view_fits(job->view, to, bytes->len, job->err);

	if (rc < 0)
		return edit_decide_error(job, rc, EDIT_LIMIT);
	if (edit->to && !edit->copy &&
	    (rc = view_rename(job->view, edit->path, to, job->err)) < 0)
		return edit_decide_error(job, rc, EDIT_PATH);
	rc = view_put(job->view, to, kind, bytes->data, bytes->len, job->err);
	if (rc < 0 && edit->to && !edit->copy) {
		struct error ignored = {0};
		if (view_rename(job->view, to, edit->path, &ignored) < 0)
			return error_wrap(job->err, "'%s' cannot be put back", job->path);
	}
	return rc < 0 ? edit_decide_error(job, rc, EDIT_PATH) : 0;
}

static int change_file(struct edit_job *job)
{
	const struct edit *edit = job->edit;
	AUTO_STRBUF struct strbuf bytes = STRBUF_NONE;
	char also[80], to[256] = "";
	enum view_kind kind = edit_kind(job, job->st.kind);
	int rc = edit_load(job);

	if (rc < 0 || job->result->code)
		return rc;
	strbuf_init(&bytes, view_get_limits(job->view)->file_bytes);
	if (edit->binary)
		rc = edit_binary_bytes(job, &bytes);
	else if (edit->hunk_count)
		rc = change_bytes(job, &bytes);
	else
		strbuf_add(&bytes, job->data.data, job->data.len);
	bool renames = edit->to != NULL, modes = kind != job->st.kind;
	if (rc < 0)
		return rc;
	/* hunks that change nothing do not hinder a new name or mode */
	if ((renames || modes) &&
	    (job->result->code == EDIT_NOOP || job->result->code == EDIT_ALREADY_APPLIED)) {
		job->result->code = EDIT_OK;
		strbuf_reset(&bytes);
		strbuf_add(&bytes, job->data.data, job->data.len);
	}
	if (job->result->code)
		return 0;
	if (!renames && !modes && !bytes.full && bytes.len == job->data.len &&
	    memcmp(bytes.data, job->data.data, bytes.len) == 0)
		return edit_decide(
		    job, edit->mode && !edit->hunk_count ? EDIT_ALREADY_APPLIED : EDIT_NOOP,
		    "the edit changes nothing in '%s'", job->path);
	memcpy(also, job->result->message, sizeof(also) - 1);
	also[sizeof(also) - 1] = '\0';
	if ((rc = put_bytes(job, kind, &bytes)) < 0 || job->result->code)
		return rc;
	if (renames)
		text_escape(to, sizeof(to), edit->to, strlen(edit->to));
	AUTO_FREE char *where = job->result->line
				    ? mem_printf(" from line %zu on", job->result->line)
				    : mem_strdup("");
	return edit_decide(job, EDIT_OK, "%s '%s'%s%s%s%s%s", edit->copy ? "copied" : "edited",
			   job->path, where, renames ? ", now '" : "", to, renames ? "'" : "",
			   also);
}

int edit_do_patch(struct edit_job *job)
{
	const struct edit *edit = job->edit;
	int rc = edit_look(job, false);

	if (rc < 0 || job->result->code)
		return rc;
	/* a search block without anything to find makes the file that it names */
	bool creates = edit->create;
	if (edit->search && edit->hunk_count == 1 &&
	    (!edit->hunks[0].len || edit->hunks[0].body[0] == '+')) {
		if (job->st.kind != VIEW_NONE && job->st.size)
			return edit_decide(job, EDIT_EMPTY_SEARCH,
					   "there is nothing to find, and '%s' exists; give "
					   "the lines to replace",
					   job->path);
		creates = job->st.kind == VIEW_NONE;
	}
	if (!edit_mode_is_plain(edit->mode))
		return edit_decide(job, EDIT_MODE,
				   "'%s' can only be a regular file, executable or not (links "
				   "and submodules are not made)",
				   job->path);
	if (creates)
		return create_file(job);
	if (job->st.kind == VIEW_NONE)
		return edit_decide(job, EDIT_MISSING_FILE, "there is no file '%s'", job->path);
	if (edit->to && ((rc = edit_look_target(job, edit->to)) < 0 || job->result->code))
		return rc;
	return edit->remove ? remove_file(job) : change_file(job);
}
