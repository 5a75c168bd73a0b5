#include "reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/text.h"
#include "pipeline/model/conversation.h"

#define USAGE_MOST 1000000000LL /* tokens of one call: more is a lie */
#define RAW_MAX 4096		/* bytes of a usage object that is kept as it came */

void reply_init(struct reply *reply)
{
	memset(reply, 0, sizeof(*reply));
}

void reply_release(struct reply *reply)
{
	for (size_t i = 0; i < reply->len; i++) {
		strbuf_release(&reply->blocks[i].text);
		free(reply->blocks[i].id);
		free(reply->blocks[i].name);
		js_free(reply->blocks[i].data);
	}
	free(reply->blocks);
	js_free(reply->usage.raw);
	memset(reply, 0, sizeof(*reply));
}

struct reply_block *reply_add(struct reply *reply, enum reply_kind kind, long long index)
{
	struct reply_block *block;

	if (reply->len == REPLY_BLOCKS_MAX) {
		reply->overfull = true;
		return NULL;
	}
	reply->blocks = mem_realloc(reply->blocks, reply->len + 1, sizeof(*reply->blocks));
	block = &reply->blocks[reply->len++];
	memset(block, 0, sizeof(*block));
	block->kind = kind;
	block->index = index;
	strbuf_init(&block->text, REPLY_BYTES_MAX);
	return block;
}

struct reply_block *reply_find(struct reply *reply, long long index)
{
	for (size_t i = reply->len; i > 0; i--)
		if (reply->blocks[i - 1].index == index)
			return &reply->blocks[i - 1];
	return NULL;
}

void reply_grow(struct reply *reply, struct reply_block *block, const char *text, size_t len)
{
	if (len > REPLY_BYTES_MAX - reply->bytes) {
		reply->overfull = true;
		return;
	}
	reply->bytes += len;
	strbuf_add(&block->text, text, len);
}

/* Sets what is still missing; what is too long is cut where a character ends. */
static void set_once(char **where, const char *text, size_t max)
{
	size_t len;

	if (*where || !text || !text[0])
		return;
	len = strnlen(text, max);
	while (len && ((unsigned char)text[len] & 0xc0) == 0x80)
		len--;
	*where = mem_strndup(text, len);
}

void reply_name(struct reply_block *block, const char *id, const char *name)
{
	set_once(&block->id, id, REPLY_ID_MAX);
	set_once(&block->name, name, REPLY_NAME_MAX);
}

void reply_fault(struct reply *reply, const char *type, const char *message)
{
	text_escape(reply->fault_type, sizeof(reply->fault_type), type, strlen(type));
	text_escape(reply->fault_message, sizeof(reply->fault_message), message,
		    strlen(message));
	if (!reply->fault_type[0])
		snprintf(reply->fault_type, sizeof(reply->fault_type), "error");
}

long long usage_count(const struct json *object, const char *key)
{
	long long value = js_int(object, key, 0);

	return value > 0 && value <= USAGE_MOST ? value : 0;
}

void usage_set_raw(struct usage *usage, const struct json *raw)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	js_free(usage->raw);
	usage->raw = NULL;
	strbuf_init(&text, RAW_MAX);
	js_format(raw, &text);
	if (!text.full)
		usage->raw = js_copy(raw);
}

void usage_to_json(const struct usage *usage, struct json *object)
{
	js_set_int(object, "input", usage->input);
	js_set_int(object, "output", usage->output);
	js_set_int(object, "cache_read", usage->cache_read);
	js_set_int(object, "cache_write", usage->cache_write);
	if (usage->raw)
		js_set(object, "raw", js_copy(usage->raw));
	if (!usage->known)
		js_set_bool(object, "estimated", true);
}

static const struct {
	enum reply_stop stop;
	const char *text;
} stops[] = {
    {STOP_END, "end"},	       {STOP_TOOLS, "tools"},	{STOP_LIMIT, "limit"},
    {STOP_REFUSED, "refused"}, {STOP_PAUSED, "paused"}, {STOP_CONTEXT, "context"},
};

const char *reply_stop_text(enum reply_stop stop)
{
	for (size_t i = 0; i < ARRAY_LEN(stops); i++)
		if (stops[i].stop == stop)
			return stops[i].text;
	return "end";
}

enum reply_stop reply_stop_of(const char *text)
{
	for (size_t i = 0; text && i < ARRAY_LEN(stops); i++)
		if (strcmp(stops[i].text, text) == 0)
			return stops[i].stop;
	return STOP_END;
}

static void add_call(struct json *line, const struct reply_block *block, size_t turn,
		     size_t number)
{
	struct json *input AUTO_JSON = NULL;
	struct error why = {0};
	char made_up[64];

	snprintf(made_up, sizeof(made_up), "call_%zu_%zu", turn, number);
	if (block->text.len == 0 && block->closed)
		input = js_object_new();
	else
		input = js_parse(block->text.data, block->text.len, REPLY_BYTES_MAX,
				 "arguments", &why);
	if (input && !js_is_object(input)) {
		js_free(input);
		input = NULL;
	}
	line_add_call(line, block->id ? block->id : made_up, block->name ? block->name : "",
		      MEM_STEAL(input), block->text.data, block->text.len);
}

struct json *reply_to_line(const struct reply *reply, const char *provider, long long round,
			   size_t turn)
{
	struct json *line = line_new("assistant", round);
	size_t calls = 0;

	js_set_str(line, "stop", reply_stop_text(reply->stop));
	for (size_t i = 0; i < reply->len; i++) {
		const struct reply_block *block = &reply->blocks[i];

		switch (block->kind) {
		case REPLY_TEXT:
			if (block->text.len)
				line_add_text(line, block->text.data, block->text.len);
			break;
		case REPLY_CALL:
			add_call(line, block, turn, ++calls);
			break;
		case REPLY_OPAQUE: /* half of one is worth nothing to its provider */
			if (block->closed && block->data)
				line_add_opaque(line, provider, js_copy(block->data));
			break;
		}
	}
	return line;
}
