#include "tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gitops/edit.h"
#include "gitops/edit_json.h"
#include "gitops/view.h"
#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/text.h"
#include "pipeline/model/tools_internal.h"

/* ---- the table ---- */

struct parameter {
	const char *name, *type, *description;
	bool needed;
};

static const struct tool {
	const char *name;
	const char *description;
	tool_fn *run;
	bool effect;
	struct parameter parameters[6];
} tools[] = {
    {"list_files",
     "List files. Without arguments: the entries of the root directory. A path ending in / is "
     "a directory.",
     tool_list_files,
     false,
     {{"path", "string", "Directory, relative to the root of the repository.", false},
      {"pattern", "string", "Only paths that match this glob, such as *.c or src/**/*.py.",
       false},
      {"recursive", "boolean", "All files below the directory, not only its entries.", false}}},
    {"read_file",
     "Read a text file. Each line comes with its number and a tab in front, which are not part "
     "of the file.",
     tool_read_file,
     false,
     {{"path", "string", "File, relative to the root of the repository.", true},
      {"start_line", "integer", "First line, from 1.", false},
      {"end_line", "integer", "Last line.", false}}},
    {"search",
     "Find lines that contain a text (taken literally, unless regex is true). Returns "
     "path:line: text.",
     tool_search,
     false,
     {{"text", "string", "What to look for within a line.", true},
      {"regex", "boolean", "text is a regular expression.", false},
      {"ignore_case", "boolean", "Upper and lower case are the same.", false},
      {"path", "string", "Only in this directory or file.", false},
      {"pattern", "string", "Only in files whose path matches this glob.", false}}},
    {"edit_file",
     "Replace a piece of a file. old must occur exactly once (give enough lines around it), "
     "unless "
     "replace_all is true. Everything else in the file stays as it is.",
     tool_edit_file,
     true,
     {{"path", "string", "File, relative to the root of the repository.", true},
      {"old", "string", "The text to replace, as it is in the file, without line numbers.",
       true},
      {"new", "string", "The text to put there; left out: old is deleted.", false},
      {"replace_all", "boolean", "Replace every occurrence.", false}}},
    {"write_file",
     "Create a file, or replace the whole content of one. For a change within a file use "
     "edit_file.",
     tool_write_file,
     true,
     {{"path", "string", "File, relative to the root of the repository.", true},
      {"content", "string", "The whole content.", true},
      {"executable", "boolean", "Whether it is a program; left out: as it is.", false}}},
    {"delete_file",
     "Delete a file.",
     tool_delete_file,
     true,
     {{"path", "string", "File, relative to the root of the repository.", true}}},
    {"rename_file",
     "Move a file to another path, its content unchanged.",
     tool_rename_file,
     true,
     {{"path", "string", "File, relative to the root of the repository.", true},
      {"to", "string", "Its new path; nothing may be there.", true}}},
    {"submit",
     "Hand in the change when it is complete. The tests are run on it then; if they fail you "
     "get their "
     "output and may mend it.",
     tool_submit,
     true,
     {{"title", "string", "Subject line of the commit: imperative, at most 72 characters.",
       true},
      {"body", "string", "What was wrong and why this mends it, for the commit message.",
       false}}},
};

static const struct tool *find_tool(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(tools); i++)
		if (strcmp(tools[i].name, name) == 0)
			return &tools[i];
	return NULL;
}

static struct json *parameters_schema(const struct tool *tool)
{
	struct json *schema = js_object_new(), *properties = js_object_new();
	struct json *required = js_array_new();

	for (const struct parameter *p = tool->parameters; p->name; p++) {
		struct json *property = js_object_new();

		js_set_str(property, "type", p->type);
		js_set_str(property, "description", p->description);
		js_set(properties, p->name, property);
		if (p->needed)
			js_push_str(required, p->name);
	}
	js_set_str(schema, "type", "object");
	js_set(schema, "properties", properties);
	js_set(schema, "required", required);
	js_set_bool(schema, "additionalProperties", false);
	return schema;
}

struct json *tools_schema(void)
{
	struct json *list = js_array_new();

	for (size_t i = 0; i < ARRAY_LEN(tools); i++) {
		struct json *tool = js_object_new();

		js_set_str(tool, "name", tools[i].name);
		js_set_str(tool, "description", tools[i].description);
		js_set(tool, "parameters", parameters_schema(&tools[i]));
		js_push(list, tool);
	}
	return list;
}

/* ---- running ---- */

void tool_result_init(struct tool_result *result)
{
	strbuf_init(&result->text, TOOL_RESULT_MAX);
	result->failed = false;
}

void tool_result_release(struct tool_result *result)
{
	strbuf_release(&result->text);
}

int tool_pass(struct tool_result *result, int kind, const struct error *err)
{
	if (kind == ERROR_NO || kind == ERROR_USAGE) {
		tool_refuse(result, "%s", err->message);
		return 0;
	}
	return kind;
}

/* A result that was cut in the middle of a character, or is full, says so. */
static void seal(struct tool_result *result)
{
	static const char notice[] = "\n[cut: the result is too long; ask for less]";
	struct strbuf *text = &result->text;

	if (!text->full)
		return;
	text->len -= sizeof(notice);
	while (text->len && ((unsigned char)text->data[text->len] & 0xc0) == 0x80)
		text->len--;
	text->full = false;
	strbuf_adds(text, notice);
}

static void refuse_unknown(const char *name, struct tool_result *result)
{
	char shown[128];

	text_escape(shown, sizeof(shown), name, strlen(name));
	tool_refuse(result, "There is no tool \"%s\". The tools are:", shown);
	for (size_t i = 0; i < ARRAY_LEN(tools); i++)
		strbuf_addf(&result->text, "%s %s", i ? "," : "", tools[i].name);
}

int tools_run(struct toolbox *box, const char *name, const struct json *input,
	      struct tool_result *result, struct error *err)
{
	const struct tool *tool = find_tool(name);
	struct tool_args args = {.input = input, .result = result};
	const char *names[ARRAY_LEN(tools[0].parameters) + 1] = {NULL};
	int kind = 0;

	if (!tool) {
		refuse_unknown(name, result);
		return 0;
	}
	for (size_t i = 0; tool->parameters[i].name; i++)
		names[i] = tool->parameters[i].name;
	if (args_known(&args, names))
		kind = tool->run(box, &args, err);
	if (kind < 0)
		return error_wrap(err, "%s", tool->name);
	if (tool->effect && result->failed)
		box->turn_refused = true;
	seal(result);
	return 0;
}

bool tools_has_effect(const char *name)
{
	const struct tool *tool = find_tool(name);

	return tool && tool->effect;
}

void tools_describe(const char *name, const struct json *input, char *text, size_t size)
{
	static const char *const telling[] = {"path", "text", "title"};
	char what[64], detail[160] = "";

	for (size_t i = 0; i < ARRAY_LEN(telling) && !detail[0]; i++) {
		const char *value = js_str(input, telling[i], "");

		text_escape(detail, sizeof(detail), value, strlen(value));
	}
	text_escape(what, sizeof(what), name, strlen(name));
	snprintf(text, size, "%s%s%s", what, detail[0] ? " " : "", detail);
}

/* ---- the box ---- */

void toolbox_init(struct toolbox *box, struct view *view)
{
	memset(box, 0, sizeof(*box));
	box->view = view;
	box->edits = js_array_new();
}

void toolbox_release(struct toolbox *box)
{
	js_free(box->edits);
	free(box->title);
	free(box->body);
	memset(box, 0, sizeof(*box));
}

int toolbox_load(struct toolbox *box, const struct json *edits, struct error *err)
{
	struct edit_list list = {0};
	int kind = edit_list_from_json(edits, &list, err);

	if (kind == 0)
		kind = edit_apply_all(box->view, &list, err);
	for (size_t i = 0; i < list.len; i++)
		box->edit_bytes += list.items[i].old_len + list.items[i].text_len;
	edit_list_release(&list);
	if (kind < 0) {
		err->kind = ERROR_FAILED;
		return error_wrap(err, "the edits of the round before");
	}
	for (size_t i = 0; i < js_len(edits); i++)
		js_push(box->edits, js_copy(js_at(edits, i)));
	box->later_round = true;
	return 0;
}

/* Cuts where a character ends. */
static char *cut_copy(const char *text, size_t max)
{
	size_t len = strlen(text);

	if (len > max) {
		len = max;
		while (len && ((unsigned char)text[len] & 0xc0) == 0x80)
			len--;
	}
	return mem_strndup(text, len);
}

void toolbox_submit(struct toolbox *box, const char *title, const char *body)
{
	char *line = cut_copy(title, SUBMIT_TITLE_MAX);
	size_t start = strspn(line, " \t\r\n"), len = strcspn(line + start, "\r\n");

	while (len && (line[start + len - 1] == ' ' || line[start + len - 1] == '\t'))
		len--;
	free(box->title);
	free(box->body);
	box->title = mem_strndup(line + start, len);
	box->body = cut_copy(body, SUBMIT_BODY_MAX);
	box->submitted = true;
	free(line);
}

int toolbox_changed(struct toolbox *box, bool *changed, struct error *err)
{
	struct view_change *changes = NULL;
	size_t count = 0;
	int kind = view_changes(box->view, &changes, &count, err);

	free(changes);
	*changed = count > 0;
	return kind;
}
