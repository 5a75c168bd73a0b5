/*
 * The Anthropic Messages format, streaming (API version 2023-06-01).
 *
 * Source: the provider's API reference, "Messages", "Streaming messages", "Stop reasons",
 * "Prompt caching", "Errors". Unknown event and block types are passed over, as its versioning
 * policy asks.
 */
#include "provider.h"

#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/model/conversation.h"
#include "pipeline/model/wire.h"

/* ---- request ---- */

static struct json *block_new(const char *type)
{
	struct json *block = js_object_new();

	js_set_str(block, "type", type);
	return block;
}

static struct json *text_block(const struct json *text)
{
	struct json *block = block_new("text");

	js_set_strn(block, "text", js_text(text), js_text_len(text));
	return block;
}

/* Everything up to and with this block is kept in the provider's cache. */
static void mark_cached(struct json *block)
{
	struct json *control = js_object_new();

	js_set_str(control, "type", "ephemeral");
	js_set(block, "cache_control", control);
}

static struct json *call_block(const struct json *block)
{
	struct json *use = block_new("tool_use");
	char token[REPLY_ID_MAX + 1];

	wire_token(token, sizeof(token), js_str(block, "id", ""));
	js_set_str(use, "id", token);
	wire_token(token, REPLY_NAME_MAX + 1, js_str(block, "name", ""));
	js_set_str(use, "name", token);
	js_set(use, "input", js_copy(js_get(block, "input")));
	return use;
}

static struct json *result_block(const struct json *block)
{
	struct json *result = block_new("tool_result");
	char token[REPLY_ID_MAX + 1];

	wire_token(token, sizeof(token), js_str(block, "id", ""));
	js_set_str(result, "tool_use_id", token);
	js_set_str(result, "content", js_str(block, "text", ""));
	if (js_bool(block, "error", false))
		js_set_bool(result, "is_error", true);
	return result;
}

/* One block of ours as one of theirs; NULL: it has no place in a request. */
static struct json *wire_block(const struct json *block)
{
	const char *type = js_str(block, "type", "");

	if (strcmp(type, "text") == 0)
		return wire_has_text(js_get(block, "text")) ? text_block(js_get(block, "text"))
							    : NULL;
	if (strcmp(type, "tool_call") == 0)
		return call_block(block);
	if (strcmp(type, "tool_result") == 0)
		return result_block(block);
	if (strcmp(type, "opaque") == 0 &&
	    strcmp(js_str(block, "provider", ""), "anthropic") == 0)
		return js_copy(js_get(block, "data"));
	return NULL;
}

/* Roles must alternate: user and tool lines in a row become one user message. */
static void add_line(struct json *messages, const struct json *line)
{
	const char *role = strcmp(line_role(line), "assistant") == 0 ? "assistant" : "user";
	const struct json *content = line_content(line);
	struct json *last = js_len(messages) ? js_at(messages, js_len(messages) - 1) : NULL;
	struct json *blocks;

	if (last && strcmp(js_str(last, "role", ""), role) == 0) {
		blocks = js_get(last, "content");
	} else {
		struct json *message = js_object_new();

		js_set_str(message, "role", role);
		blocks = js_array_new();
		js_set(message, "content", blocks);
		js_push(messages, message);
	}
	for (size_t i = 0; i < js_len(content); i++) {
		struct json *block = wire_block(js_at(content, i));

		if (block)
			js_push(blocks, block);
	}
}

/* The last two user messages: the newer one for the next call, the older one for this. */
static void mark_messages(struct json *messages)
{
	int marks = 2;

	for (size_t i = js_len(messages); i > 0 && marks; i--) {
		struct json *message = js_at(messages, i - 1),
			    *blocks = js_get(message, "content");

		if (strcmp(js_str(message, "role", ""), "user") != 0 || !js_len(blocks))
			continue;
		mark_cached(js_at(blocks, js_len(blocks) - 1));
		marks--;
	}
}

static struct json *wire_tools(const struct json *tools)
{
	struct json *list = js_array_new();

	for (size_t i = 0; i < js_len(tools); i++) {
		struct json *tool = js_object_new();
		const struct json *from = js_at(tools, i);

		js_set_str(tool, "name", js_str(from, "name", ""));
		js_set_str(tool, "description", js_str(from, "description", ""));
		js_set(tool, "input_schema", js_copy(js_get(from, "parameters")));
		js_push(list, tool);
	}
	return list;
}

/* A message whose blocks all fell away would be refused; the roles beside it are one then. */
static bool is_empty(const struct json *line)
{
	const struct json *content = line_content(line);

	for (size_t i = 0; i < js_len(content); i++) {
		struct json *block AUTO_JSON = wire_block(js_at(content, i));

		if (block)
			return false;
	}
	return true;
}

static void make_request(const struct provider_request *request, struct strbuf *body)
{
	struct json *root AUTO_JSON = js_object_new();
	struct json *system = js_array_new(), *messages = js_array_new();

	js_set_str(root, "model", request->model);
	js_set_int(root, "max_tokens", request->max_output_tokens);
	js_set_bool(root, "stream", true);
	if (request->tools)
		js_set(root, "tools", wire_tools(request->tools));
	js_set(root, "system", system);
	js_set(root, "messages", messages);
	for (size_t i = 0; i < talk_len(request->talk); i++) {
		const struct json *line = talk_at(request->talk, i);

		if (is_empty(line))
			continue;
		if (strcmp(line_role(line), "system") == 0) {
			struct json *block = wire_block(js_at(line_content(line), 0));

			if (block)
				js_push(system, block);
		} else {
			add_line(messages, line);
		}
	}
	if (js_len(system))
		mark_cached(js_at(system, js_len(system) - 1));
	mark_messages(messages);
	js_format(root, body);
}

/* ---- response ---- */

static const struct {
	const char *word;
	enum reply_stop stop;
} stop_words[] = {
    {"end_turn", STOP_END},
    {"stop_sequence", STOP_END},
    {"tool_use", STOP_TOOLS},
    {"max_tokens", STOP_LIMIT},
    {"refusal", STOP_REFUSED},
    {"pause_turn", STOP_PAUSED},
    {"model_context_window_exceeded", STOP_CONTEXT},
};

/* The counts are cumulative: a later one stands for the whole. */
static void take_usage(struct reply *reply, struct json *usage)
{
	static const char *const names[] = {"input_tokens", "output_tokens",
					    "cache_read_input_tokens",
					    "cache_creation_input_tokens"};
	long long *const counts[] = {&reply->usage.input, &reply->usage.output,
				     &reply->usage.cache_read, &reply->usage.cache_write};
	struct json *merged AUTO_JSON = NULL, *value;
	const char *key;
	void *iter = NULL;

	if (!js_is_object(usage))
		return;
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		if (js_is_int(js_get(usage, names[i])))
			*counts[i] = usage_count(usage, names[i]);
	merged = reply->usage.raw ? js_copy(reply->usage.raw) : js_object_new();
	while ((key = js_next(usage, &iter, &value)))
		js_set(merged, key, js_copy(value));
	usage_set_raw(&reply->usage, merged);
}

static int block_start(struct reply *reply, const struct json *root)
{
	const struct json *content = js_get(root, "content_block"), *text;
	const char *type = js_str(content, "type", "");
	struct reply_block *block;
	enum reply_kind kind = REPLY_OPAQUE;

	if (!js_is_object(content) || !js_is_int(js_get(root, "index")))
		return -1;
	if (strcmp(type, "text") == 0)
		kind = REPLY_TEXT;
	else if (strcmp(type, "tool_use") == 0)
		kind = REPLY_CALL;
	block = reply_add(reply, kind, js_int(root, "index", 0));
	if (!block)
		return 0;
	text = js_get(content, kind == REPLY_OPAQUE ? "thinking" : "text");
	if (js_text_len(text))
		reply_grow(reply, block, js_text(text), js_text_len(text));
	if (kind == REPLY_CALL) {
		const struct json *input = js_get(content, "input");

		reply_name(block, js_str(content, "id", ""), js_str(content, "name", ""));
		/* usually {} and sent in pieces; a server that does not stream it sends it here
		 */
		if (js_is_object(input) && js_len(input)) {
			struct strbuf whole AUTO_STRBUF = STRBUF_NONE;

			strbuf_init(&whole, REPLY_BYTES_MAX);
			js_format(input, &whole);
			reply_grow(reply, block, whole.data, whole.len);
		}
	} else if (kind == REPLY_OPAQUE) {
		block->data = js_copy(content);
	}
	return 0;
}

static void grow_from(struct reply *reply, struct reply_block *block, const struct json *delta,
		      const char *key)
{
	const struct json *text = wire_string(delta, key);

	if (text)
		reply_grow(reply, block, js_text(text), js_text_len(text));
}

static void grow_signature(struct reply *reply, struct reply_block *block,
			   const struct json *delta)
{
	const struct json *more = wire_string(delta, "signature");
	struct strbuf whole AUTO_STRBUF = STRBUF_NONE;

	if (!more || !block->data)
		return;
	strbuf_init(&whole, REPLY_BYTES_MAX);
	strbuf_adds(&whole, js_str(block->data, "signature", ""));
	strbuf_add(&whole, js_text(more), js_text_len(more));
	if (js_text_len(more) > REPLY_BYTES_MAX - reply->bytes)
		reply->overfull = true;
	else
		reply->bytes += js_text_len(more);
	js_set_strn(block->data, "signature", whole.data, whole.len);
}

static int block_delta(struct reply *reply, const struct json *root)
{
	const struct json *delta = js_get(root, "delta");
	const char *type = js_str(delta, "type", "");
	struct reply_block *block = reply_find(reply, js_int(root, "index", -1));

	if (!js_is_object(delta) || !block || block->closed)
		return -1;
	if (strcmp(type, "text_delta") == 0 && block->kind == REPLY_TEXT)
		grow_from(reply, block, delta, "text");
	else if (strcmp(type, "input_json_delta") == 0 && block->kind == REPLY_CALL)
		grow_from(reply, block, delta, "partial_json");
	else if (strcmp(type, "thinking_delta") == 0 && block->kind == REPLY_OPAQUE)
		grow_from(reply, block, delta, "thinking");
	else if (strcmp(type, "signature_delta") == 0 && block->kind == REPLY_OPAQUE)
		grow_signature(reply, block, delta);
	return 0;
}

static int block_stop(struct reply *reply, const struct json *root)
{
	struct reply_block *block = reply_find(reply, js_int(root, "index", -1));

	if (!block)
		return -1;
	block->closed = true;
	if (block->kind == REPLY_OPAQUE && block->text.len)
		js_set_strn(block->data, "thinking", block->text.data, block->text.len);
	return 0;
}

static void message_delta(struct reply *reply, const struct json *root)
{
	const struct json *delta = js_get(root, "delta"), *why;
	const char *reason = js_str(delta, "stop_reason", NULL);

	take_usage(reply, js_get(root, "usage"));
	if (js_is_int(js_get(js_get(root, "usage"), "output_tokens")))
		reply->usage.known = true;
	if (!reason)
		return;
	reply->stop = STOP_END;
	for (size_t i = 0; i < sizeof(stop_words) / sizeof(stop_words[0]); i++)
		if (strcmp(stop_words[i].word, reason) == 0)
			reply->stop = stop_words[i].stop;
	why = wire_string(js_get(delta, "stop_details"), "explanation");
	if (reply->stop == STOP_REFUSED && why) {
		struct reply_block *block = reply_add(reply, REPLY_TEXT, -1);

		if (block)
			reply_grow(reply, block, js_text(why), js_text_len(why));
	}
}

static int take_event(struct reply *reply, const char *name, const char *data, size_t len)
{
	struct error why = {0};
	struct json *root AUTO_JSON = js_parse(data, len, SSE_EVENT_MAX, "event", &why);
	const char *type = js_str(root, "type", name);

	if (!js_is_object(root))
		return -1;
	if (strcmp(type, "message_start") == 0)
		take_usage(reply, js_get(js_get(root, "message"), "usage"));
	else if (strcmp(type, "content_block_start") == 0)
		return block_start(reply, root);
	else if (strcmp(type, "content_block_delta") == 0)
		return block_delta(reply, root);
	else if (strcmp(type, "content_block_stop") == 0)
		return block_stop(reply, root);
	else if (strcmp(type, "message_delta") == 0)
		message_delta(reply, root);
	else if (strcmp(type, "message_stop") == 0)
		reply->done = true;
	else if (strcmp(type, "error") == 0)
		reply_fault(reply, js_str(js_get(root, "error"), "type", ""),
			    js_str(js_get(root, "error"), "message", ""));
	return 0;
}

static const char *const headers[] = {"anthropic-version: 2023-06-01", NULL};

const struct provider provider_anthropic = {
    .name = "anthropic",
    .endpoint = "/messages",
    .key_header = "x-api-key: ",
    .headers = headers,
    .request = make_request,
    .event = take_event,
};
