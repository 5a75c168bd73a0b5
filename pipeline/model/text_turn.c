#include "text_turn.h"

#include <stdlib.h>
#include <string.h>

#include "gitops/edit.h"
#include "gitops/edit_json.h"
#include "gitops/edit_text.h"
#include "gitops/view.h"
#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/text.h"
#include "pipeline/model/prompt.h"

#define SAY_MAX ((size_t)512 << 10) /* of one message to the model */

void text_turn_init(struct text_turn *turn)
{
	*turn = (struct text_turn){.requests = 0};
	strbuf_init(&turn->say, SAY_MAX);
}

void text_turn_release(struct text_turn *turn)
{
	strbuf_release(&turn->say);
}

/* ---- lines of the answer that are orders ---- */

struct order {
	char *words; /* owned: behind the order's name */
	const char *name;
};

static const char *const order_names[] = {"LIST", "READ", "FIND", "DELETE", "RENAME", "DONE:"};

/* An answer's orders: outside of fences and blocks, at the left edge. */
struct scan {
	const char *text, *end;
	bool fence, block;
};

static bool starts(const char *line, size_t len, const char *prefix)
{
	return len >= strlen(prefix) && memcmp(line, prefix, strlen(prefix)) == 0;
}

static bool next_order(struct scan *scan, struct order *order)
{
	while (scan->text < scan->end) {
		const char *line = scan->text;
		const char *lf = memchr(line, '\n', (size_t)(scan->end - line));
		size_t len = lf ? (size_t)(lf - line) : (size_t)(scan->end - line);

		scan->text = lf ? lf + 1 : scan->end;
		while (len && (line[len - 1] == '\r' || line[len - 1] == ' '))
			len--;
		if (starts(line, len, "```") || starts(line, len, "~~~"))
			scan->fence = !scan->fence;
		else if (starts(line, len, "<<<<<"))
			scan->block = true;
		else if (starts(line, len, ">>>>>"))
			scan->block = false;
		if (scan->fence || scan->block)
			continue;
		for (size_t i = 0; i < ARRAY_LEN(order_names); i++) {
			size_t name = strlen(order_names[i]);
			if (!starts(line, len, order_names[i]) ||
			    (len > name && line[name] != ' '))
				continue;
			while (name < len && line[name] == ' ')
				name++;
			*order = (struct order){mem_strndup(line + name, len - name),
						order_names[i]};
			return true;
		}
	}
	return false;
}

/* ---- what is asked for ---- */

/* "PATH", "PATH 10-80" */
static struct json *read_input(char *words)
{
	struct json *input = js_object_new();
	char *blank = strrchr(words, ' '), *end = NULL;
	long first = blank ? strtol(blank + 1, &end, 10) : 0, last = 0;

	if (blank && end && *end == '-')
		last = strtol(end + 1, &end, 10);
	if (blank && end && !*end && first > 0) {
		*blank = '\0';
		js_set_int(input, "start_line", first);
		if (last >= first)
			js_set_int(input, "end_line", last);
	}
	js_set_str(input, "path", words);
	return input;
}

static int answer_request(struct toolbox *box, struct order *order, struct text_turn *turn,
			  struct error *err)
{
	struct json *input AUTO_JSON = NULL;
	struct tool_result result AUTO_TOOL_RESULT = {.failed = false};
	const char *tool = "list_files";
	char shown[300];

	text_escape(shown, sizeof(shown), order->words, strlen(order->words));
	if (strcmp(order->name, "READ") == 0) {
		tool = "read_file";
		input = read_input(order->words);
	} else {
		bool find = strcmp(order->name, "FIND") == 0;
		tool = find ? "search" : tool;
		input = js_object_new();
		if (order->words[0])
			js_set_str(input, find ? "text" : "path", order->words);
	}
	tool_result_init(&result);
	int kind = tools_run(box, tool, input, &result, err);
	if (kind < 0)
		return kind;
	strbuf_addf(&turn->say, "%s %s%s\n", order->name, shown,
		    result.failed ? " was refused:" : "");
	prompt_frame("RESULT", result.text.data, result.text.len, &turn->say);
	return 0;
}

/* ---- edits ---- */

static void push_path_edit(struct edit_list *list, const struct order *order)
{
	bool rename = strcmp(order->name, "RENAME") == 0;
	char *to = rename ? strstr(order->words, " TO ") : NULL;
	struct edit edit = {.op = rename ? EDIT_RENAME : EDIT_DELETE};

	edit.path =
	    mem_strndup(order->words, to ? (size_t)(to - order->words) : strlen(order->words));
	if (rename)
		edit.to = mem_strdup(to ? to + 4 : "");
	edit_list_push(list, &edit);
}

static size_t bytes_of(const struct edit *edit)
{
	size_t bytes = edit->old_len + edit->text_len;

	for (size_t i = 0; i < edit->hunk_count; i++)
		bytes += edit->hunks[i].len;
	return bytes;
}

static void keep_edits(struct toolbox *box, const struct edit_list *list,
		       const struct edit_result *results)
{
	for (size_t i = 0; i < list->len; i++) {
		if (results[i].code != EDIT_OK)
			continue;
		js_push(box->edits, edit_to_json(&list->items[i]));
		box->edit_bytes += bytes_of(&list->items[i]);
		box->round_edits++;
	}
}

static void tell_results(const struct edit_list *list, const struct edit_result *results,
			 struct text_turn *turn)
{
	strbuf_adds(&turn->say, turn->refused
				    ? "None of the edits was made, because not all of them can "
				      "be. Send all of them again, with these mended:\n"
				    : "The edits were made:\n");
	for (size_t i = 0; i < list->len; i++)
		strbuf_addf(&turn->say, "%zu. %s: %s\n", i + 1, edit_code_text(results[i].code),
			    results[i].message);
}

static int make_edits(struct toolbox *box, const struct edit_list *list, struct text_turn *turn,
		      struct error *err)
{
	AUTO_FREE struct edit_result *results = mem_calloc(list->len + 1, sizeof(*results));
	enum edit_code outcome = EDIT_OK;
	size_t bytes = 0;

	for (size_t i = 0; i < list->len; i++)
		bytes += bytes_of(&list->items[i]);
	if (js_len(box->edits) + list->len > EDIT_LIST_MAX ||
	    bytes > TOOL_EDIT_BYTES_MAX - box->edit_bytes) {
		turn->refused = true;
		strbuf_adds(&turn->say, "The run has made as many edits as it may.\n");
		return 0;
	}
	int kind = edit_try(box->view, list, results, &outcome, err);
	if (kind < 0)
		return kind;
	turn->refused = outcome != EDIT_OK && outcome != EDIT_ALREADY_APPLIED;
	if (!turn->refused)
		keep_edits(box, list, results);
	tell_results(list, results, turn);
	return 0;
}

static int take_edits(struct toolbox *box, const char *text, size_t len, struct edit_list *list,
		      struct text_turn *turn, struct error *err)
{
	enum edit_format format = FORMAT_AUTO;
	struct edit_fault fault;
	size_t orders = list->len;
	int rc = edit_text_parse(text, len, &format, list, &fault);

	/* fences that name no file are words, where something else is said too */
	bool words =
	    format == FORMAT_AUTO || (format == FORMAT_WHOLE && fault.code == EDIT_MALFORMED &&
				      (turn->requests || turn->done || orders));
	if (rc < 0 && !words) {
		turn->edits = 1;
		turn->refused = true;
		strbuf_addf(&turn->say, "None of the edits was made. %s, line %zu: %s\n",
			    edit_code_text(fault.code), fault.line, fault.message);
		return 0;
	}
	turn->edits = list->len;
	return list->len ? make_edits(box, list, turn, err) : 0;
}

/* ---- the answer ---- */

static int submit(struct toolbox *box, const char *title, const char *body,
		  struct text_turn *turn, struct error *err)
{
	bool changed;
	int kind = toolbox_changed(box, &changed, err);

	if (kind < 0)
		return kind;
	if (turn->refused)
		strbuf_adds(&turn->say, "Not done: the edits of this answer were not made.\n");
	else if (!changed)
		strbuf_adds(&turn->say, "Not done: nothing differs from the base.\n");
	else if (box->later_round && box->round_edits == 0)
		strbuf_adds(&turn->say,
			    "Not done: nothing has changed since the tests failed.\n");
	else if (!title[strspn(title, " \t")])
		strbuf_adds(&turn->say, "Not done: give a title behind 'DONE:'.\n");
	else
		toolbox_submit(box, title, body);
	return 0;
}

int text_turn_take(struct toolbox *box, const char *text, size_t len, struct text_turn *turn,
		   struct error *err)
{
	struct scan scan = {.text = text, .end = text + len};
	struct edit_list list = {NULL, 0, 0};
	struct order order;
	char *title AUTO_FREE = NULL, *body AUTO_FREE = NULL;
	int kind = 0;

	while (kind == 0 && !turn->done && next_order(&scan, &order)) {
		if (strcmp(order.name, "DONE:") == 0) {
			turn->done = true;
			title = MEM_STEAL(order.words);
			body = mem_strndup(scan.text, (size_t)(scan.end - scan.text));
		} else if (strcmp(order.name, "DELETE") == 0 ||
			   strcmp(order.name, "RENAME") == 0) {
			push_path_edit(&list, &order);
		} else if (turn->requests++ < TEXT_REQUESTS_MAX) {
			kind = answer_request(box, &order, turn, err);
		}
		free(order.words);
	}
	if (turn->requests > TEXT_REQUESTS_MAX)
		strbuf_addf(&turn->say, "More than %d requests: the rest was left out.\n",
			    TEXT_REQUESTS_MAX);
	if (kind == 0)
		kind = take_edits(box, text, len, &list, turn, err);
	edit_list_release(&list);
	if (kind == 0 && turn->done)
		kind = submit(box, title, body, turn, err);
	if (kind == 0 && !box->submitted && turn->edits && !turn->refused)
		strbuf_adds(&turn->say, "When the change is complete, say so: DONE: TITLE\n");
	return kind;
}

bool text_turn_has_edits(const char *text, size_t len)
{
	enum edit_format format = FORMAT_AUTO;
	struct edit_list list = {NULL, 0, 0};
	struct edit_fault fault;
	bool has = edit_text_parse(text, len, &format, &list, &fault) == 0;

	edit_list_release(&list);
	return has;
}
