/*
 * The OpenAI Chat Completions format, streaming, as it is spoken by many servers (Ollama, vLLM,
 * llama.cpp, OpenRouter, …). Lenient where those differ: no usage, no index, no id, arguments
 * as an object, a whole document in place of a stream, reasoning beside the text.
 *
 * Source: the provider's API reference, "Chat Completions", "Streaming".
 */
#include "provider.h"

#include <stdio.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/model/conversation.h"
#include "pipeline/model/wire.h"

/* ---- request ---- */

static struct json *message_new(const char *role)
{
	struct json *message = js_object_new();

	js_set_str(message, "role", role);
	return message;
}

static struct json *wire_call(const struct json *block)
{
	struct json *call = js_object_new(), *function = js_object_new();
	struct strbuf arguments AUTO_STRBUF = STRBUF_NONE;
	char token[REPLY_NAME_MAX + 1];

	wire_token(token, sizeof(token), js_str(block, "name", ""));
	strbuf_init(&arguments, REPLY_BYTES_MAX);
	js_format(js_get(block, "input"), &arguments);
	js_set_str(function, "name", token);
	js_set_strn(function, "arguments", arguments.data, arguments.len);
	js_set_str(call, "id", js_str(block, "id", ""));
	js_set_str(call, "type", "function");
	js_set(call, "function", function);
	return call;
}

/* Reasoning is wanted back by some servers (400 without it) while tools are in use, by none
 * otherwise. */
static void add_reasoning(struct json *message, const struct json *content)
{
	for (size_t i = 0; i < js_len(content); i++) {
		const struct json *block = js_at(content, i);
		struct json *value;
		const char *key;
		void *iter = NULL;

		if (strcmp(js_str(block, "type", ""), "opaque") != 0 ||
		    strcmp(js_str(block, "provider", ""), "openai") != 0)
			continue;
		while ((key = js_next(js_get(block, "data"), &iter, &value)))
			if (strncmp(key, "reasoning", 9) == 0)
				js_set(message, key, js_copy(value));
	}
}

static void add_assistant(struct json *messages, const struct json *line)
{
	const struct json *content = line_content(line);
	struct json *message AUTO_JSON = message_new("assistant"), *calls = NULL;
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&text, STRBUF_MAX);
	line_text(line, &text);
	if (!text.len && !line_calls(line))
		return;
	js_set_str(message, "content", NULL);
	if (text.len)
		js_set_strn(message, "content", text.data, text.len);
	if (line_calls(line)) {
		calls = js_array_new();
		js_set(message, "tool_calls", calls);
		add_reasoning(message, content);
	}
	for (size_t i = 0; i < js_len(content); i++)
		if (strcmp(js_str(js_at(content, i), "type", ""), "tool_call") == 0)
			js_push(calls, wire_call(js_at(content, i)));
	js_push(messages, MEM_STEAL(message));
}

static void add_results(struct json *messages, const struct json *line)
{
	const struct json *content = line_content(line);

	for (size_t i = 0; i < js_len(content); i++) {
		const struct json *block = js_at(content, i);
		struct json *message;
		struct strbuf text AUTO_STRBUF = STRBUF_NONE;

		if (strcmp(js_str(block, "type", ""), "tool_result") != 0)
			continue;
		/* the format has no mark for a failed call */
		strbuf_init(&text, STRBUF_MAX);
		strbuf_adds(&text, js_bool(block, "error", false) ? "Error: " : "");
		strbuf_adds(&text, js_str(block, "text", ""));
		message = message_new("tool");
		js_set_str(message, "tool_call_id", js_str(block, "id", ""));
		js_set_strn(message, "content", text.data, text.len);
		js_push(messages, message);
	}
}

/* Some chat templates take no two user messages in a row: they become one. */
static void add_plain(struct json *messages, const struct json *line)
{
	struct json *last = js_len(messages) ? js_at(messages, js_len(messages) - 1) : NULL;
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&text, STRBUF_MAX);
	if (last && strcmp(js_str(last, "role", ""), line_role(line)) == 0) {
		strbuf_adds(&text, js_str(last, "content", ""));
		strbuf_adds(&text, "\n\n");
	} else {
		last = message_new(line_role(line));
		js_push(messages, last);
	}
	line_text(line, &text);
	js_set_strn(last, "content", text.data, text.len);
}

static struct json *wire_tools(const struct json *tools)
{
	struct json *list = js_array_new();

	for (size_t i = 0; i < js_len(tools); i++) {
		struct json *tool = js_object_new();

		js_set_str(tool, "type", "function");
		js_set(tool, "function", js_copy(js_at(tools, i)));
		js_push(list, tool);
	}
	return list;
}

static void make_request(const struct provider_request *request, struct strbuf *body)
{
	struct json *root AUTO_JSON = js_object_new(), *messages = js_array_new();

	js_set_str(root, "model", request->model);
	js_set_int(root,
		   request->quirks & QUIRK_COMPLETION_TOKENS ? "max_completion_tokens"
							     : "max_tokens",
		   request->max_output_tokens);
	js_set_bool(root, "stream", true);
	if (!(request->quirks & QUIRK_NO_STREAM_OPTIONS)) {
		struct json *options = js_object_new();

		js_set_bool(options, "include_usage", true);
		js_set(root, "stream_options", options);
	}
	if (request->tools)
		js_set(root, "tools", wire_tools(request->tools));
	js_set(root, "messages", messages);
	for (size_t i = 0; i < talk_len(request->talk); i++) {
		const struct json *line = talk_at(request->talk, i);

		if (strcmp(line_role(line), "assistant") == 0)
			add_assistant(messages, line);
		else if (strcmp(line_role(line), "tool") == 0)
			add_results(messages, line);
		else
			add_plain(messages, line);
	}
	js_format(root, body);
}

/* ---- response ---- */

enum { INDEX_TEXT = -1, INDEX_REASONING = -2 }; /* calls have the server's numbers, from 0 */

static void grow_kind(struct reply *reply, enum reply_kind kind, long long index,
		      const char *name, const struct json *text)
{
	struct reply_block *block = reply_find(reply, index);

	if (!js_text_len(text))
		return;
	if (!block)
		block = reply_add(reply, kind, index);
	if (!block)
		return;
	if (kind == REPLY_OPAQUE)
		reply_name(block, NULL, name);
	reply_grow(reply, block, js_text(text), js_text_len(text));
}

/* A string, or a list of parts of which the text ones count. */
static void take_content(struct reply *reply, const struct json *content)
{
	if (js_is_string(content))
		grow_kind(reply, REPLY_TEXT, INDEX_TEXT, NULL, content);
	for (size_t i = 0; js_is_array(content) && i < js_len(content); i++)
		grow_kind(reply, REPLY_TEXT, INDEX_TEXT, NULL,
			  wire_string(js_at(content, i), "text"));
}

/*
 * Whether a piece begins another call than the one that its index points to: servers that give
 * every call index 0, or none, tell them apart by an id, or by nothing but a name.
 */
static bool is_another(const struct reply_block *block, const struct json *piece)
{
	const char *id = js_str(piece, "id", "");

	if (id[0])
		return block->id && strncmp(block->id, id, REPLY_ID_MAX) != 0;
	return !js_is_int(js_get(piece, "index")) &&
	       js_str(js_get(piece, "function"), "name", "")[0] != '\0';
}

/* The call that a piece belongs to; NULL (and overfull) at the cap. */
static struct reply_block *call_of(struct reply *reply, const struct json *piece)
{
	bool numbered = js_is_int(js_get(piece, "index"));
	long long index = js_int(piece, "index", 0);
	struct reply_block *block = NULL;

	for (size_t i = reply->len; i > 0 && !block; i--) {
		struct reply_block *have = &reply->blocks[i - 1];

		if (have->kind == REPLY_CALL && (!numbered || have->index == index))
			block = have;
	}
	if (!block || is_another(block, piece))
		block = reply_add(reply, REPLY_CALL, index < 0 ? 0 : index);
	if (block)
		reply_name(block, js_str(piece, "id", ""), NULL);
	return block;
}

static int take_call(struct reply *reply, const struct json *piece)
{
	const struct json *function = js_get(piece, "function");
	struct json *arguments = js_get(function, "arguments");
	struct reply_block *block;

	if (!js_is_object(piece))
		return -1;
	block = call_of(reply, piece);
	if (!block)
		return 0;
	reply_name(block, NULL, js_str(function, "name", ""));
	if (js_is_object(arguments)) {
		struct strbuf whole AUTO_STRBUF = STRBUF_NONE;

		strbuf_init(&whole, REPLY_BYTES_MAX);
		js_format(arguments, &whole);
		reply_grow(reply, block, whole.data, whole.len);
	} else if (js_text_len(arguments)) {
		reply_grow(reply, block, js_text(arguments), js_text_len(arguments));
	}
	return 0;
}

static int take_delta(struct reply *reply, const struct json *delta)
{
	static const char *const reasoning[] = {"reasoning_content", "reasoning"};
	const struct json *calls = js_get(delta, "tool_calls"), *refusal;

	for (size_t i = 0; i < ARRAY_LEN(reasoning); i++) {
		const struct json *text = wire_string(delta, reasoning[i]);

		if (!text)
			continue;
		grow_kind(reply, REPLY_OPAQUE, INDEX_REASONING, reasoning[i], text);
		break; /* some servers send both, with the same text */
	}
	take_content(reply, js_get(delta, "content"));
	refusal = wire_string(delta, "refusal");
	if (refusal) {
		grow_kind(reply, REPLY_TEXT, INDEX_TEXT, NULL, refusal);
		reply->stop = STOP_REFUSED;
	}
	for (size_t i = 0; js_is_array(calls) && i < js_len(calls); i++)
		if (take_call(reply, js_at(calls, i)) < 0)
			return -1;
	return 0;
}

static bool has_calls(const struct reply *reply)
{
	for (size_t i = 0; i < reply->len; i++)
		if (reply->blocks[i].kind == REPLY_CALL)
			return true;
	return false;
}

/* The answer is whole; the last call of one that was cut at the limit is not. */
static void close_blocks(struct reply *reply)
{
	for (size_t i = 0; i < reply->len; i++) {
		struct reply_block *block = &reply->blocks[i];

		if (block->kind == REPLY_OPAQUE) {
			if (!block->data)
				block->data = js_object_new();
			js_set_strn(block->data, block->name, block->text.data,
				    block->text.len);
		}
		block->closed = reply->stop != STOP_LIMIT || i + 1 < reply->len;
	}
}

static void finish(struct reply *reply, const char *reason)
{
	static const char *const cut[] = {"length", "max_tokens", "MAX_TOKENS"};

	if (strcmp(reason, "error") == 0) {
		reply_fault(reply, "api_error", "the server ended its answer with an error");
		return;
	}
	if (reply->stop != STOP_REFUSED)
		reply->stop = has_calls(reply) ? STOP_TOOLS : STOP_END;
	if (strcmp(reason, "content_filter") == 0)
		reply->stop = STOP_REFUSED;
	for (size_t i = 0; i < ARRAY_LEN(cut); i++)
		if (strcmp(reason, cut[i]) == 0)
			reply->stop = STOP_LIMIT;
	close_blocks(reply);
}

static void take_usage(struct reply *reply, const struct json *usage)
{
	const struct json *details = js_get(usage, "prompt_tokens_details");
	long long input = usage_count(usage, "prompt_tokens");
	long long cached = usage_count(details, "cached_tokens");

	if (!js_is_object(usage))
		return;
	if (!cached)
		cached = usage_count(usage, "prompt_cache_hit_tokens");
	if (cached > input)
		cached = input;
	reply->usage.input = input - cached;
	reply->usage.cache_read = cached;
	reply->usage.output = usage_count(usage, "completion_tokens");
	reply->usage.known = input > 0 || reply->usage.output > 0;
	usage_set_raw(&reply->usage, usage);
}

static void take_error(struct reply *reply, const struct json *fault)
{
	char code[32];
	const char *type = js_str(fault, "type", NULL);

	if (js_is_string(fault)) {
		reply_fault(reply, "", js_text(fault));
		return;
	}
	snprintf(code, sizeof(code), "%lld", js_int(fault, "code", 0));
	if (js_is_int(js_get(fault, "code")))
		type = code; /* an HTTP status: it says more */
	else if (js_str(fault, "code", NULL))
		type = js_str(fault, "code", NULL);
	reply_fault(reply, type ? type : "", js_str(fault, "message", ""));
}

static int take_document(struct reply *reply, const char *data, size_t len)
{
	struct error why = {0};
	struct json *root AUTO_JSON = js_parse(data, len, REPLY_BYTES_MAX, "event", &why);
	const struct json *fault = js_get(root, "error"), *choice = NULL, *delta, *reason;

	if (!js_is_object(root))
		return -1;
	if (fault && !js_is_null(fault)) {
		take_error(reply, fault);
		return 0;
	}
	take_usage(reply, js_get(root, "usage"));
	if (js_is_array(js_get(root, "choices")))
		choice = js_at(js_get(root, "choices"), 0);
	if (!choice || js_int(choice, "index", 0) != 0)
		return 0;
	delta = js_get(choice, "delta");
	if (!js_is_object(delta))
		delta = js_get(choice, "message");
	if (js_is_object(delta) && take_delta(reply, delta) < 0)
		return -1;
	reason = wire_string(choice, "finish_reason");
	if (reason)
		finish(reply, js_text(reason));
	return 0;
}

static int take_event(struct reply *reply, const char *name, const char *data, size_t len)
{
	(void)name;
	if (len == 6 && memcmp(data, "[DONE]", 6) == 0) {
		reply->done = true;
		if (reply->stop == STOP_NONE)
			finish(reply, "stop");
		return 0;
	}
	return take_document(reply, data, len);
}

static int take_whole(struct reply *reply, const char *data, size_t len)
{
	int result = take_document(reply, data, len);

	if (result < 0 || reply->fault_type[0])
		return result;
	if (reply->stop == STOP_NONE)
		return -1; /* some other document */
	reply->done = true;
	return 0;
}

static const char *const headers[] = {NULL};

const struct provider provider_openai = {
    .name = "openai",
    .endpoint = "/chat/completions",
    .base_is_versioned = true,
    .key_header = "Authorization: Bearer ",
    .headers = headers,
    .request = make_request,
    .event = take_event,
    .whole = take_whole,
};
