/* Tool arguments in JSON: ours (gitops/edit_json.h) and those of the usual editor tools. See
 * gitops/edit_text.h. */
#include "edit_text_internal.h"

#include <string.h>

#include "gitops/edit_json.h"
#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

/* The first of the members that is there, as text; owned. NULL when none is. */
static char *take_text(const struct json *object, const char *const *keys, size_t *len)
{
	for (; *keys; keys++) {
		const struct json *member = js_get(object, *keys);
		const char *text = js_text(member);
		if (!text)
			continue;
		size_t size = js_text_len(member);
		if (len)
			*len = size;
		char *copy = mem_calloc(size + 1, 1);
		memcpy(copy, text, size);
		return copy;
	}
	return NULL;
}

static const char *const path_keys[] = {"path", "file_path", "filename", "file", NULL};
static const char *const old_keys[] = {"old_str", "old_string", "old_text", "old", NULL};
static const char *const new_keys[] = {"new_str", "new_string", "new_text", "new", NULL};
static const char *const whole_keys[] = {"file_text", "content", "contents", NULL};
static const char *const insert_keys[] = {"insert_text", "new_str", "text", NULL};

static int refuse(struct doc *doc, const char *what)
{
	return doc_refuse(doc, EDIT_MALFORMED, 0, "%s", what);
}

/* One replacement: {"old_str","new_str"?,"replace_all"?}. */
static int read_replace(struct doc *doc, const struct json *object, const char *path)
{
	struct edit edit = {.op = EDIT_REPLACE, .path = mem_strdup(path), .count = 1};

	edit.old = take_text(object, old_keys, &edit.old_len);
	edit.text = take_text(object, new_keys, &edit.text_len);
	if (js_bool(object, "replace_all", false))
		edit.count = -1;
	if (!edit.old) {
		edit_release(&edit);
		return refuse(doc, "the text to find (old_str) is missing");
	}
	edit_list_push(doc->list, &edit);
	return 0;
}

static int read_insert(struct doc *doc, const struct json *object, const char *path)
{
	struct edit edit = {.op = EDIT_INSERT, .path = mem_strdup(path)};
	const char *key = js_get(object, "insert_line") ? "insert_line" : "line";
	struct error err = {0};
	long long line = 0;

	edit.text = take_text(object, insert_keys, &edit.text_len);
	if (!edit.text || js_need_int(object, key, -1000000000, 1000000000, &line, &err) < 0) {
		edit_release(&edit);
		return refuse(doc, "an insertion needs insert_line and insert_text");
	}
	edit.line = (long)line;
	edit_list_push(doc->list, &edit);
	return 0;
}

static int read_content(struct doc *doc, const struct json *object, const char *path,
			bool create)
{
	struct edit edit = {.op = EDIT_WRITE, .path = mem_strdup(path), .create = create};

	edit.text = take_text(object, whole_keys, &edit.text_len);
	if (!edit.text) {
		edit_release(&edit);
		return refuse(doc, "the file's content (file_text) is missing");
	}
	edit_list_push(doc->list, &edit);
	return 0;
}

/* An editor tool's arguments, by its command or by the members that are there. */
static int read_arguments(struct doc *doc, const struct json *object)
{
	const char *command = js_str(object, "command", NULL);
	const struct json *edits = js_get(object, "edits");
	AUTO_FREE char *path = take_text(object, path_keys, NULL);
	int rc = 0;

	if (!path)
		return refuse(doc, "the path is missing");
	if (js_is_array(edits)) {
		for (size_t i = 0; i < js_len(edits) && rc == 0; i++)
			rc = read_replace(doc, js_at(edits, i), path);
		return rc;
	}
	if (command && strcmp(command, "str_replace") == 0)
		return read_replace(doc, object, path);
	if (command && strcmp(command, "insert") == 0)
		return read_insert(doc, object, path);
	if (command && strcmp(command, "create") == 0)
		return read_content(doc, object, path, true);
	if (command)
		return doc_refuse(doc, EDIT_MALFORMED, 0,
				  "command '%.40s' is no edit (str_replace, insert, create)",
				  command);
	for (const char *const *key = old_keys; *key; key++)
		if (js_get(object, *key))
			return read_replace(doc, object, path);
	if (js_get(object, "insert_line"))
		return read_insert(doc, object, path);
	return read_content(doc, object, path, false);
}

static int read_own(struct doc *doc, const struct json *object)
{
	struct error err = {0};
	struct edit edit;

	if (edit_from_json(object, &edit, &err) < 0)
		return doc_refuse(doc, EDIT_MALFORMED, 0, "%.400s", err.message);
	edit_list_push(doc->list, &edit);
	return 0;
}

static int read_value(struct doc *doc, const struct json *value, int depth)
{
	static const char *const wraps[] = {"arguments", "input", "parameters"};
	int rc = 0;

	if (js_is_array(value)) {
		for (size_t i = 0; i < js_len(value) && rc == 0; i++)
			rc = depth ? read_value(doc, js_at(value, i), depth - 1)
				   : refuse(doc, "lists within lists");
		return rc;
	}
	if (!js_is_object(value))
		return refuse(doc, "the arguments are no object");
	for (size_t i = 0; i < ARRAY_LEN(wraps); i++)
		if (js_is_object(js_get(value, wraps[i])) && depth)
			return read_value(doc, js_get(value, wraps[i]), depth - 1);
	if (js_get(value, "op"))
		return read_own(doc, value);
	if (js_is_array(js_get(value, "edits")) && !js_get(value, "path") &&
	    !js_get(value, "file_path") && depth)
		return read_value(doc, js_get(value, "edits"), depth - 1);
	return read_arguments(doc, value);
}

int read_tool(const char *data, size_t len, struct doc *doc)
{
	struct error err = {0};
	struct fence fence, end;
	AUTO_STRBUF struct strbuf inner = STRBUF_NONE;

	for (size_t i = 0; i < doc->lines.len; i++) {
		if (!fence_at(doc, i, &fence))
			continue;
		strbuf_init(&inner, len);
		for (size_t k = i + 1; k < doc->lines.len; k++) {
			if (fence_at(doc, k, &end) && fence_closes(&fence, &end))
				break;
			strbuf_add(&inner, doc->lines.items[k].text,
				   doc->lines.items[k].len + doc->lines.items[k].end);
		}
		data = inner.data;
		len = inner.len;
		break;
	}
	struct json *value = js_parse(data, len, EDIT_TEXT_MAX, "arguments", &err);
	if (!value)
		return doc_refuse(doc, EDIT_MALFORMED, 0, "the arguments are no JSON: %.400s",
				  err.message);
	int rc = read_value(doc, value, 3);
	js_free(value);
	return rc;
}
