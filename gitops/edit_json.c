#include "edit_json.h"

#include <stdlib.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

/* What each operation may and must have. */
static const struct {
	const char *name;
	enum edit_op op;
	const char *keys[18];
} ops[] = {
    {"write",
     EDIT_WRITE,
     {"op", "path", "content", "content_base64", "mode", "create", "keep_end"}},
    {"edit", EDIT_REPLACE, {"op", "path", "old", "old_base64", "new", "new_base64", "count"}},
    {"insert", EDIT_INSERT, {"op", "path", "line", "text", "text_base64"}},
    {"delete", EDIT_DELETE, {"op", "path"}},
    {"rename", EDIT_RENAME, {"op", "path", "to"}},
    {"chmod", EDIT_CHMOD, {"op", "path", "mode"}},
    {"patch",
     EDIT_PATCH,
     {"op", "path", "to", "copy", "create", "remove", "binary", "delta", "content",
      "content_base64", "search", "mode", "old_id", "new_id", "hunks"}},
};

/* A member "key" or "key_base64", owned by the caller. Absent: empty when optional. */
static int take_bytes(const struct json *object, const char *key, bool optional, char **data,
		      size_t *len, struct error *err)
{
	AUTO_STRBUF struct strbuf buf = STRBUF_NONE;
	AUTO_FREE char *encoded = mem_printf("%s_base64", key);

	if (optional && !js_get(object, key) && !js_get(object, encoded))
		return 0;
	strbuf_init(&buf, CHANGES_BYTES_MAX);
	int rc = js_need_bytes(object, key, &buf, err);
	if (rc < 0)
		return rc;
	*len = buf.len;
	*data = strbuf_steal(&buf);
	return 0;
}

static int take_path(const struct json *object, const char *key, char **path, struct error *err)
{
	const char *text;
	int rc = js_need_str(object, key, &text, err);

	if (rc == 0)
		*path = mem_strdup(text);
	return rc;
}

static int take_mode(const struct json *object, int *mode, struct error *err)
{
	const struct json *node = js_get(object, "mode");
	const char *text = js_text(node);

	if (!node)
		return 0;
	if (text && strcmp(text, "100644") == 0)
		*mode = 0100644;
	else if (text && strcmp(text, "100755") == 0)
		*mode = 0100755;
	else
		return error_set(err, ERROR_USAGE, "mode must be \"100644\" or \"100755\"");
	return 0;
}

static int take_optional(const struct json *object, const char *key, char **text,
			 struct error *err)
{
	return js_get(object, key) ? take_path(object, key, text, err) : 0;
}

static int take_hunk(const struct json *object, struct edit *edit, struct error *err)
{
	static const char *const keys[] = {"body",	 "body_base64", "line",	   "scope",
					   "must_scope", "at_end",	"ordered", NULL};
	struct edit_hunk hunk = {.line = -1};
	long long line = -1;
	int rc = js_check_keys(object, keys, err);

	if (rc == 0)
		rc = take_bytes(object, "body", false, &hunk.body, &hunk.len, err);
	if (rc == 0 && js_get(object, "line"))
		rc = js_need_int(object, "line", -1, 1000000000, &line, err);
	if (rc == 0)
		rc = take_optional(object, "scope", &hunk.scope, err);
	hunk.line = (long)line;
	hunk.must_scope = js_bool(object, "must_scope", false);
	hunk.at_end = js_bool(object, "at_end", false);
	hunk.ordered = js_bool(object, "ordered", false);
	/* taken in any case, so that the edit's release frees it */
	edit_push_hunk(edit, &hunk);
	return rc;
}

static int take_patch(const struct json *object, struct edit *edit, struct error *err)
{
	const struct json *hunks = js_get(object, "hunks");
	int rc = take_optional(object, "to", &edit->to, err);

	edit->copy = js_bool(object, "copy", false);
	edit->create = js_bool(object, "create", false);
	edit->remove = js_bool(object, "remove", false);
	edit->binary = js_bool(object, "binary", false);
	edit->delta = js_bool(object, "delta", false);
	edit->search = js_bool(object, "search", false);
	if (rc == 0)
		rc = take_bytes(object, "content", true, &edit->text, &edit->text_len, err);
	if (rc == 0)
		rc = take_mode(object, &edit->mode, err);
	if (rc == 0)
		rc = take_optional(object, "old_id", &edit->old_id, err);
	if (rc == 0)
		rc = take_optional(object, "new_id", &edit->new_id, err);
	if (rc == 0 && (!js_is_array(hunks) || js_len(hunks) > EDIT_LIST_MAX))
		return error_set(err, ERROR_USAGE, "hunks must be an array of at most %d",
				 EDIT_LIST_MAX);
	for (size_t i = 0; i < js_len(hunks) && rc == 0; i++)
		rc = take_hunk(js_at(hunks, i), edit, err);
	return rc;
}

static int take_members(const struct json *object, struct edit *edit, struct error *err)
{
	long long number = 0;
	int rc = take_path(object, "path", &edit->path, err);

	if (rc < 0)
		return rc;
	switch (edit->op) {
	case EDIT_WRITE:
		edit->create = js_bool(object, "create", false);
		edit->keep_end = js_bool(object, "keep_end", false);
		if ((rc = take_mode(object, &edit->mode, err)) < 0)
			return rc;
		return take_bytes(object, "content", false, &edit->text, &edit->text_len, err);
	case EDIT_REPLACE:
		if (js_get(object, "count") &&
		    (rc = js_need_int(object, "count", -1, 1000000, &number, err)) < 0)
			return rc;
		edit->count = (long)number;
		rc = take_bytes(object, "old", false, &edit->old, &edit->old_len, err);
		return rc < 0
			   ? rc
			   : take_bytes(object, "new", true, &edit->text, &edit->text_len, err);
	case EDIT_INSERT:
		if ((rc = js_need_int(object, "line", -1000000000, 1000000000, &number, err)) <
		    0)
			return rc;
		edit->line = (long)number;
		return take_bytes(object, "text", false, &edit->text, &edit->text_len, err);
	case EDIT_DELETE:
		return 0;
	case EDIT_RENAME:
		return take_path(object, "to", &edit->to, err);
	case EDIT_CHMOD:
		return take_mode(object, &edit->mode, err);
	case EDIT_PATCH:
		return take_patch(object, edit, err);
	}
	return 0;
}

int edit_from_json(const struct json *object, struct edit *edit, struct error *err)
{
	const char *name;
	int rc;

	*edit = (struct edit){0};
	if (!js_is_object(object))
		return error_set(err, ERROR_USAGE, "an edit must be an object");
	if ((rc = js_need_str(object, "op", &name, err)) < 0)
		return rc;
	for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
		if (strcmp(name, ops[i].name) != 0)
			continue;
		edit->op = ops[i].op;
		rc = js_check_keys(object, ops[i].keys, err);
		if (rc == 0)
			rc = take_members(object, edit, err);
		if (rc < 0)
			edit_release(edit);
		return rc;
	}
	return error_set(
	    err, ERROR_USAGE,
	    "unknown op '%.40s' (write, edit, insert, delete, rename, chmod, patch)", name);
}

static const char *bytes_or_empty(const char *data)
{
	return data ? data : "";
}

static void set_flag(struct json *object, const char *key, bool value)
{
	if (value)
		js_set_bool(object, key, true);
}

static void set_text(struct json *object, const char *key, const char *text)
{
	if (text)
		js_set_str(object, key, text);
}

static void set_mode(struct json *object, int mode)
{
	if (mode)
		js_set_str(object, "mode", mode & 0100 ? "100755" : "100644");
}

static void set_patch(struct json *object, const struct edit *edit)
{
	struct json *hunks = js_array_new();

	set_text(object, "to", edit->to);
	set_flag(object, "copy", edit->copy);
	set_flag(object, "create", edit->create);
	set_flag(object, "remove", edit->remove);
	set_flag(object, "binary", edit->binary);
	set_flag(object, "delta", edit->delta);
	if (edit->binary && edit->text)
		js_set_bytes(object, "content", edit->text, edit->text_len);
	set_flag(object, "search", edit->search);
	set_mode(object, edit->mode);
	set_text(object, "old_id", edit->old_id);
	set_text(object, "new_id", edit->new_id);
	for (size_t i = 0; i < edit->hunk_count; i++) {
		const struct edit_hunk *hunk = &edit->hunks[i];
		struct json *one = js_object_new();
		js_set_bytes(one, "body", bytes_or_empty(hunk->body), hunk->len);
		if (hunk->line >= 0)
			js_set_int(one, "line", hunk->line);
		set_text(one, "scope", hunk->scope);
		set_flag(one, "must_scope", hunk->must_scope);
		set_flag(one, "at_end", hunk->at_end);
		set_flag(one, "ordered", hunk->ordered);
		js_push(hunks, one);
	}
	js_set(object, "hunks", hunks);
}

struct json *edit_to_json(const struct edit *edit)
{
	struct json *object = js_object_new();

	for (size_t i = 0; i < ARRAY_LEN(ops); i++)
		if (ops[i].op == edit->op)
			js_set_str(object, "op", ops[i].name);
	js_set_str(object, "path", edit->path);
	switch (edit->op) {
	case EDIT_WRITE:
		js_set_bytes(object, "content", bytes_or_empty(edit->text), edit->text_len);
		set_mode(object, edit->mode);
		set_flag(object, "create", edit->create);
		set_flag(object, "keep_end", edit->keep_end);
		break;
	case EDIT_REPLACE:
		js_set_bytes(object, "old", bytes_or_empty(edit->old), edit->old_len);
		js_set_bytes(object, "new", bytes_or_empty(edit->text), edit->text_len);
		if (edit->count)
			js_set_int(object, "count", edit->count);
		break;
	case EDIT_INSERT:
		js_set_int(object, "line", edit->line);
		js_set_bytes(object, "text", bytes_or_empty(edit->text), edit->text_len);
		break;
	case EDIT_DELETE:
		break;
	case EDIT_RENAME:
		js_set_str(object, "to", edit->to);
		break;
	case EDIT_CHMOD:
		set_mode(object, edit->mode);
		break;
	case EDIT_PATCH:
		set_patch(object, edit);
		break;
	}
	return object;
}

int edit_list_from_json(const struct json *array, struct edit_list *list, struct error *err)
{
	if (!js_is_array(array))
		return error_set(err, ERROR_USAGE, "edits must be an array");
	if (js_len(array) > EDIT_LIST_MAX - list->len)
		return error_set(err, ERROR_USAGE, "more than %d edits", EDIT_LIST_MAX);
	for (size_t i = 0; i < js_len(array); i++) {
		struct edit edit;
		if (edit_from_json(js_at(array, i), &edit, err) < 0)
			return error_wrap(err, "edit %zu", i + 1);
		edit_list_push(list, &edit);
	}
	return 0;
}

struct json *edit_list_to_json(const struct edit_list *list)
{
	struct json *array = js_array_new();

	for (size_t i = 0; i < list->len; i++)
		js_push(array, edit_to_json(&list->items[i]));
	return array;
}
