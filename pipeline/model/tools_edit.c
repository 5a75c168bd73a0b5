/* edit_file, write_file, delete_file, rename_file, submit. */
#include "tools_internal.h"

#include <string.h>

#include "gitops/edit.h"
#include "gitops/edit_json.h"
#include "gitops/view.h"
#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"

#define AUTO_EDIT __attribute__((cleanup(edit_release)))

/* Decides an edit; what is accepted becomes part of the change. */
static int make_edit(struct toolbox *box, const struct tool_args *args, const struct edit *edit,
		     struct error *err)
{
	size_t bytes = edit->old_len + edit->text_len;
	struct edit_result result = {0};
	int kind;

	if (js_len(box->edits) >= EDIT_LIST_MAX ||
	    bytes > TOOL_EDIT_BYTES_MAX - box->edit_bytes) {
		tool_refuse(args->result,
			    "The run has made as many edits as it may (%zu, %zu bytes).",
			    js_len(box->edits), box->edit_bytes);
		return 0;
	}
	kind = edit_apply(box->view, edit, &result, err);
	if (kind < 0)
		return kind;
	if (result.code != EDIT_OK) {
		tool_refuse(args->result, "%s: %s", edit_code_text(result.code),
			    result.message);
		return 0;
	}
	js_push(box->edits, edit_to_json(edit));
	box->edit_bytes += bytes;
	box->round_edits++;
	strbuf_adds(&args->result->text, result.message[0] ? result.message : "Done.");
	return 0;
}

/* path_check has been done; the edit owns a copy. */
static bool take_path(const struct tool_args *args, const char *name, char **where)
{
	struct strbuf path AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&path, STRBUF_MAX);
	if (!args_path(args, name, false, &path))
		return false;
	*where = strbuf_steal(&path);
	return true;
}

static bool take_text(const struct tool_args *args, const char *name, bool needed, char **where,
		      size_t *len)
{
	const char *text;

	if (!args_text(args, name, needed, &text, len))
		return false;
	*where = mem_strndup(text ? text : "", *len);
	return true;
}

int tool_edit_file(struct toolbox *box, const struct tool_args *args, struct error *err)
{
	struct edit edit AUTO_EDIT = {.op = EDIT_REPLACE};
	bool all;

	if (!take_path(args, "path", &edit.path) ||
	    !take_text(args, "old", true, &edit.old, &edit.old_len) ||
	    !take_text(args, "new", false, &edit.text, &edit.text_len) ||
	    !args_bool(args, "replace_all", &all))
		return 0;
	edit.count = all ? -1 : 1;
	return make_edit(box, args, &edit, err);
}

int tool_write_file(struct toolbox *box, const struct tool_args *args, struct error *err)
{
	struct edit edit AUTO_EDIT = {.op = EDIT_WRITE};
	const struct json *mode = js_get(args->input, "executable");
	bool executable;

	if (!take_path(args, "path", &edit.path) ||
	    !take_text(args, "content", true, &edit.text, &edit.text_len) ||
	    !args_bool(args, "executable", &executable))
		return 0;
	if (mode && !js_is_null(mode))
		edit.mode = executable ? 0100755 : 0100644;
	return make_edit(box, args, &edit, err);
}

int tool_delete_file(struct toolbox *box, const struct tool_args *args, struct error *err)
{
	struct edit edit AUTO_EDIT = {.op = EDIT_DELETE};

	if (!take_path(args, "path", &edit.path))
		return 0;
	return make_edit(box, args, &edit, err);
}

int tool_rename_file(struct toolbox *box, const struct tool_args *args, struct error *err)
{
	struct edit edit AUTO_EDIT = {.op = EDIT_RENAME};

	if (!take_path(args, "path", &edit.path) || !take_path(args, "to", &edit.to))
		return 0;
	return make_edit(box, args, &edit, err);
}

int tool_submit(struct toolbox *box, const struct tool_args *args, struct error *err)
{
	const char *title, *body;
	size_t title_len, body_len;
	bool changed;
	int kind;

	if (!args_text(args, "title", true, &title, &title_len) ||
	    !args_text(args, "body", false, &body, &body_len))
		return 0;
	kind = toolbox_changed(box, &changed, err);
	if (kind < 0)
		return kind;
	/* a call of the same turn may have been sent without the sight of its refusal */
	if (box->turn_refused)
		tool_refuse(args->result,
			    "Not submitted: an edit of this same turn was refused. Look at "
			    "its result first.");
	else if (!changed)
		tool_refuse(args->result,
			    "Not submitted: nothing differs from the base. Make the "
			    "change first.");
	else if (box->later_round && box->round_edits == 0)
		tool_refuse(args->result,
			    "Not submitted: nothing has changed since the tests failed.");
	else if (!title[strspn(title, " \t\r\n")])
		tool_refuse(args->result, "Not submitted: the title is empty.");
	if (args->result->failed)
		return 0;
	toolbox_submit(box, title, body ? body : "");
	strbuf_adds(&args->result->text, "Submitted. The tests are run now.");
	return 0;
}
