#include "round.h"

#include <stdio.h>
#include <string.h>

#include "gitops/view.h"
#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/text.h"
#include "pipeline/events.h"
#include "pipeline/model/call.h"
#include "pipeline/model/conversation.h"
#include "pipeline/model/job.h"
#include "pipeline/model/prompt.h"
#include "pipeline/model/replay.h"
#include "pipeline/model/reply.h"
#include "pipeline/model/text_turn.h"

#define LISTING_MAX 200	    /* entries of the root directory that the task shows */
#define MALFORMED_SHOWN 200 /* bytes of arguments that are no JSON, in the message */

/* ---- what we say ---- */

static int say(struct round *round, const char *role, const char *text, size_t len,
	       struct error *err)
{
	struct json *line = line_new(role, round->job->round);

	line_add_text(line, text, len);
	return talk_append(round->talk, line, err);
}

static int say_system(struct round *round, struct error *err)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&text, STRBUF_MAX);
	prompt_system(round->job, &text);
	return say(round, "system", text.data, text.len, err);
}

static int say_task(struct round *round, struct error *err)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE, list AUTO_STRBUF = STRBUF_NONE;
	struct view_listing listing = {0};
	int kind = view_list(round->box->view, "", false, NULL, LISTING_MAX, &listing, err);

	if (kind < 0)
		return kind;
	strbuf_init(&text, STRBUF_MAX);
	strbuf_init(&list, STRBUF_MAX);
	for (size_t i = 0; i < listing.len; i++)
		strbuf_addf(&list, "%s%s\n", listing.items[i].path,
			    listing.items[i].kind == VIEW_DIR ? "/" : "");
	if (listing.cut)
		strbuf_adds(&list, "[and more]\n");
	view_listing_release(&listing);
	prompt_task(round->job, round->issue, round->issue_len, list.data, &text);
	return say(round, "user", text.data, text.len, err);
}

static int say_feedback(struct round *round, struct error *err)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&text, STRBUF_MAX);
	prompt_feedback(round->job, &text);
	return say(round, "user", text.data, text.len, err);
}

/* ---- tool calls ---- */

static bool is_call(const struct json *block)
{
	return strcmp(js_str(block, "type", ""), "tool_call") == 0;
}

static void refuse_malformed(const struct json *block, bool cut, struct tool_result *result)
{
	const char *text = js_str(block, "malformed", "");
	char shown[MALFORMED_SHOWN];

	result->failed = true;
	if (cut) {
		strbuf_adds(&result->text, prompt_cut_call);
		return;
	}
	text_escape(shown, sizeof(shown), text, strlen(text));
	strbuf_addf(&result->text, "Not run: the arguments are no JSON object: %s", shown);
}

/* Runs one call of a turn. cut: the turn was cut at the output limit. */
static int run_call(struct round *round, const struct json *block, bool cut,
		    struct json *results, struct error *err)
{
	struct tool_result result AUTO_TOOL_RESULT = {.failed = false};
	const char *name = js_str(block, "name", "");
	char what[256];
	int kind = 0;

	tool_result_init(&result);
	tools_describe(name, js_get(block, "input"), what, sizeof(what));
	if (round->box->submitted) {
		result.failed = true;
		strbuf_adds(&result.text, "Not run: the change is submitted already.");
	} else if (js_get(block, "malformed")) {
		refuse_malformed(block, cut, &result);
		round->box->turn_refused = true;
	} else {
		kind = tools_run(round->box, name, js_get(block, "input"), &result, err);
	}
	if (kind < 0)
		return kind;
	event_progress("turn %zu: %s%s", round->turns, what, result.failed ? " (refused)" : "");
	line_add_result(results, js_str(block, "id", ""), result.text.data, result.text.len,
			result.failed);
	return 0;
}

static int run_calls(struct round *round, const struct json *line, bool cut, struct error *err)
{
	struct json *results AUTO_JSON = line_new("tool", round->job->round);
	const struct json *content = line_content(line);

	round->box->turn_refused = false;
	for (size_t i = 0; i < js_len(content); i++) {
		int kind = is_call(js_at(content, i))
			       ? run_call(round, js_at(content, i), cut, results, err)
			       : 0;

		if (kind < 0)
			return kind;
	}
	return talk_append(round->talk, MEM_STEAL(results), err);
}

/* ---- taking up ---- */

/* Does again what the calls of a turn did, going by the results that are there. */
static int redo_turn(struct round *round, const struct json *line, const struct json *results,
		     struct error *err)
{
	const struct json *content = line_content(line);
	size_t number = 0;

	round->box->turn_refused = false;
	for (size_t i = 0; i < js_len(content); i++) {
		const struct json *block = js_at(content, i), *result;
		struct tool_result again AUTO_TOOL_RESULT = {.failed = false};
		int kind;

		if (!is_call(block))
			continue;
		result = js_at(line_content(results), number++);
		if (!result)
			return error_set(
			    err, ERROR_FAILED,
			    "conversation: a tool call has no result; it was changed");
		if (js_bool(result, "error", false) ||
		    !tools_has_effect(js_str(block, "name", "")))
			continue;
		tool_result_init(&again);
		kind = tools_run(round->box, js_str(block, "name", ""), js_get(block, "input"),
				 &again, err);
		if (kind < 0)
			return kind;
		if (again.failed)
			return error_set(
			    err, ERROR_FAILED,
			    "conversation: an edit that was made cannot be made again: %s",
			    again.text.data);
	}
	return 0;
}

static void count_answer(struct round *round, const struct json *line)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	round->turns++;
	if (reply_stop_of(js_str(line, "stop", NULL)) == STOP_LIMIT)
		round->cut++;
	else
		round->cut = 0;
	strbuf_init(&text, STRBUF_MAX);
	line_text(line, &text);
	if (!line_calls(line) && !text.len)
		round->silent++;
}

/* What the first round opens with; a process may have been killed between the two. */
static int open_talk(struct round *round, struct error *err)
{
	int kind = 0;

	if (talk_len(round->talk) == 0)
		kind = say_system(round, err);
	if (kind == 0 && talk_len(round->talk) == 1)
		kind = say_task(round, err);
	return kind;
}

static bool is_cut(const struct json *line)
{
	return reply_stop_of(js_str(line, "stop", NULL)) != STOP_END;
}

/* Makes again what an answer in text made: what was refused then is refused now. */
static int redo_text(struct round *round, const struct json *line, struct error *err)
{
	struct text_turn turn AUTO_TEXT_TURN;
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	text_turn_init(&turn);
	strbuf_init(&text, STRBUF_MAX);
	line_text(line, &text);
	return text_turn_take(round->box, text.data, text.len, &turn, err);
}

/* A model whose server refused tools was told so (prompt_text); that holds when a process takes
 * the conversation up. A recording is text when nothing in it is a call and something an edit. */
static bool edits_as_text(const struct round *round)
{
	const struct talk *talk = round->recording ? round->recording : round->talk;
	bool told = false;

	if (round->job->edits != EDITS_AUTO)
		return round->job->edits == EDITS_TEXT;
	for (size_t i = 0; i < talk_len(talk); i++) {
		const struct json *line = talk_at(talk, i);
		struct strbuf text AUTO_STRBUF = STRBUF_NONE;

		strbuf_init(&text, STRBUF_MAX);
		line_text(line, &text);
		if (line_calls(line))
			return false;
		if (round->recording ? strcmp(line_role(line), "assistant") == 0 &&
					   text_turn_has_edits(text.data, text.len)
				     : strcmp(line_role(line), "user") == 0 &&
					   strcmp(text.data, prompt_text) == 0)
			told = true;
	}
	return told;
}

static int redo(struct round *round, struct error *err)
{
	int kind = 0;

	for (size_t i = 0; i < talk_len(round->talk) && kind == 0; i++) {
		const struct json *line = talk_at(round->talk, i);
		const struct json *after = talk_at(round->talk, i + 1);

		if (line_round(line) != round->job->round ||
		    strcmp(line_role(line), "assistant") != 0)
			continue;
		count_answer(round, line);
		if (after && strcmp(line_role(after), "tool") == 0)
			kind = redo_turn(round, line, after, err);
		else if (after && round->text && !is_cut(line))
			kind = redo_text(round, line, err);
	}
	round->cut = 0; /* the limit may have been raised since */
	return kind;
}

/* Begins the round, or goes on with what the conversation has of it. */
static int take_up(struct round *round, struct error *err)
{
	const struct json *last = talk_last(round->talk);
	long long now = round->job->round;

	if (last && line_round(last) > now)
		return error_set(err, ERROR_USAGE,
				 "conversation: it is in round %lld, the job in %lld",
				 line_round(last), now);
	if (now == 1) {
		int kind = open_talk(round, err);

		return kind < 0 ? kind : redo(round, err);
	}
	if (!last)
		return error_set(err, ERROR_USAGE,
				 "conversation: the rounds before %lld are missing", now);
	return line_round(last) < now ? say_feedback(round, err) : redo(round, err);
}

/* ---- the loop ---- */

static int no_with_text(const struct json *line, const char *what, struct error *err)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	char shown[1024];

	strbuf_init(&text, STRBUF_MAX);
	line_text(line, &text);
	text_escape(shown, sizeof(shown), text.data, text.len);
	error_set(err, ERROR_NO, "%s%s%s", what, shown[0] ? ": " : "", shown);
	return error_next(err, "say more in the issue, or try another model");
}

static int cut_too_often(const struct round *round, struct error *err)
{
	error_set(err, ERROR_FAILED,
		  "the model's answers were cut at the output limit of %lld tokens %zu times "
		  "in a row",
		  round->job->limits.max_output_tokens, round->cut);
	return error_next(err, "raise [model] maxOutputTokens, then: agent resume");
}

/* An answer without a tool call that is not cut: the model is done. */
static int end_turn(struct round *round, const struct json *line, struct error *err)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	bool changed;
	int kind = toolbox_changed(round->box, &changed, err);

	if (kind < 0)
		return kind;
	strbuf_init(&text, STRBUF_MAX);
	line_text(line, &text);
	if (!text.len && round->silent == 1)
		return say(round, "user", prompt_silent, strlen(prompt_silent), err);
	if (!changed || round->box->round_edits == 0)
		return no_with_text(line,
				    round->job->round > 1 ? "the model made no further change"
							  : "the model made no change",
				    err);
	toolbox_submit(round->box, round->job->title[0] ? round->job->title : "Change as asked",
		       text.data);
	return 0;
}

/* An answer of a model without tools. */
static int take_text(struct round *round, const struct json *line, struct error *err)
{
	struct text_turn turn AUTO_TEXT_TURN;
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	int kind;

	text_turn_init(&turn);
	strbuf_init(&text, STRBUF_MAX);
	line_text(line, &text);
	kind = text_turn_take(round->box, text.data, text.len, &turn, err);
	if (kind < 0 || round->box->submitted)
		return kind;
	event_progress("turn %zu: %zu requests, %zu edits%s", round->turns, turn.requests,
		       turn.edits, turn.refused ? " (refused)" : "");
	if (turn.say.len)
		return say(round, "user", turn.say.data, turn.say.len, err);
	/* words alone: asked about once, then they are the model's last ones */
	const struct json *before = talk_at(round->talk, talk_len(round->talk) - 2);
	struct strbuf asked AUTO_STRBUF = STRBUF_NONE;
	strbuf_init(&asked, STRBUF_MAX);
	line_text(before, &asked);
	if (strcmp(asked.data, prompt_text_nothing) != 0)
		return say(round, "user", prompt_text_nothing, strlen(prompt_text_nothing),
			   err);
	return end_turn(round, line, err);
}

/* Takes what the last answer asks for. 0: go on (box->submitted says when it is over). */
static int take_answer(struct round *round, const struct json *line, struct error *err)
{
	enum reply_stop stop = reply_stop_of(js_str(line, "stop", NULL));

	if (stop == STOP_REFUSED)
		return no_with_text(line, "the model declined the task", err);
	if (stop == STOP_CONTEXT) {
		error_set(err, ERROR_FAILED, "the model's context window is full");
		return error_next(
		    err, "choose a model with a larger one, or make the issue smaller");
	}
	if (round->cut >= ROUND_CUT_MOST)
		return cut_too_often(round, err);
	if (line_calls(line))
		return run_calls(round, line, stop == STOP_LIMIT, err);
	if (stop == STOP_LIMIT)
		return say(round, "user", prompt_cut, strlen(prompt_cut), err);
	if (stop == STOP_PAUSED)
		return 0;
	if (round->text)
		return take_text(round, line, err);
	return end_turn(round, line, err);
}

/* The server says that the model has no tools: it is told how to work without. */
static bool may_turn_to_text(const struct round *round)
{
	return round->caller->toolless && !round->text && round->job->edits == EDITS_AUTO &&
	       talk_count(round->talk, "assistant") == 0;
}

static int turn_to_text(struct round *round, struct error *err)
{
	*err = (struct error){0};
	event_progress("%s takes no tools: it edits by text", round->job->model);
	round->text = true;
	round->caller->tools = NULL;
	return say(round, "user", prompt_text, strlen(prompt_text), err);
}

static int ask(struct round *round, struct error *err)
{
	long long most = round->job->limits.turns;
	struct json *line = NULL;
	int kind = 0;

	if ((long long)round->turns >= most) {
		error_set(err, ERROR_FAILED, "the model did not submit within %lld answers",
			  most);
		return error_next(err, "raise [model] turns, then: agent resume");
	}
	if (most > 3 && (long long)round->turns == most - 1)
		kind = say(round, "user", prompt_last, strlen(prompt_last), err);
	if (kind < 0)
		return kind;
	if (round->recording) {
		kind = replay_next(round->recording, round->talk, round->job->round,
				   round->model, &line, err);
	} else {
		event_progress("turn %zu: asking %s", round->turns + 1, round->job->model);
		kind = call_model(round->caller, round->talk, round->turns + 1, &line, err);
		if (kind < 0 && may_turn_to_text(round))
			return turn_to_text(round, err);
	}
	if (kind == 0)
		kind = talk_append(round->talk, line, err);
	if (kind == 0)
		count_answer(round, talk_last(round->talk));
	return kind;
}

int round_run(struct round *round, struct error *err)
{
	int kind;

	round->text = edits_as_text(round);
	if (round->text && round->caller)
		round->caller->tools = NULL;
	kind = take_up(round, err);
	while (kind == 0 && !round->box->submitted) {
		const struct json *last = talk_last(round->talk);
		bool answered = strcmp(line_role(last), "assistant") == 0;

		if (answered)
			kind = take_answer(round, last, err);
		if (kind == 0 && !round->box->submitted &&
		    (!answered || talk_last(round->talk) == last))
			kind = ask(round, err);
	}
	return kind;
}

/* ---- the artefact ---- */

static struct json *round_usage(const struct round *round)
{
	static const char *const names[] = {"input", "output", "cache_read", "cache_write"};
	struct json *sum = js_object_new();
	long long calls = 0;

	for (size_t n = 0; n < ARRAY_LEN(names); n++)
		js_set_int(sum, names[n], 0);
	for (size_t i = 0; i < talk_len(round->talk); i++) {
		const struct json *line = talk_at(round->talk, i),
				  *usage = js_get(line, "usage");

		if (line_round(line) != round->job->round || !js_is_object(usage))
			continue;
		for (size_t n = 0; n < ARRAY_LEN(names); n++)
			js_set_int(sum, names[n],
				   js_int(sum, names[n], 0) + usage_count(usage, names[n]));
		calls++;
	}
	js_set_int(sum, "calls", calls);
	return sum;
}

struct json *round_changes(const struct round *round)
{
	struct json *changes = js_artefact_new("changes", 1);

	js_set_str(changes, "base_tree", round->job->base_tree);
	js_set_str(changes, "model", round->model);
	js_set_str(changes, "title", round->box->title);
	js_set_str(changes, "body", round->box->body);
	js_set(changes, "edits", js_copy(round->box->edits));
	js_set(changes, "usage", round_usage(round));
	return changes;
}
