#include "jsonw.h"

#include <string.h>

#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

void jsonw_init(struct jsonw *json, struct strbuf *out)
{
	memset(json, 0, sizeof(*json));
	json->out = out;
}

static void add(struct jsonw *json, const char *text)
{
	if (strbuf_adds(json->out, text) < 0)
		json->spoiled = true;
}

static void add_char(struct jsonw *json, char c)
{
	if (strbuf_addc(json->out, c) < 0)
		json->spoiled = true;
}

/* The quotation mark, the reverse solidus and the control characters must be escaped (RFC 8259,
 * section 7); DEL is, too, so that no terminal is ever addressed. */
static void add_quoted(struct jsonw *json, const char *text)
{
	if (!text_is_utf8(text, strlen(text)))
		json->spoiled = true;
	add_char(json, '"');
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\') {
			add_char(json, '\\');
			add_char(json, *text);
		} else if (c < 0x20 || c == 0x7f) {
			if (strbuf_addf(json->out, "\\u%04x", c) < 0)
				json->spoiled = true;
		} else {
			add_char(json, *text);
		}
	}
	add_char(json, '"');
}

/* What stands in front of a value: a comma, a key. */
static void begin_value(struct jsonw *json, const char *key)
{
	bool in_object = json->depth && json->closers[json->depth - 1] == '}';

	/* one outermost value, a key in objects and only there */
	if ((!json->depth && json->out->len) || in_object != (key != NULL))
		json->spoiled = true;
	if (json->depth) {
		if (json->follows[json->depth - 1])
			add_char(json, ',');
		json->follows[json->depth - 1] = true;
	}
	if (key) {
		add_quoted(json, key);
		add_char(json, ':');
	}
}

static void open_one(struct jsonw *json, const char *key, char opener, char closer)
{
	begin_value(json, key);
	add_char(json, opener);
	if (json->depth == JSONW_DEPTH) {
		json->spoiled = true;
		return;
	}
	json->closers[json->depth] = closer;
	json->follows[json->depth++] = false;
}

void jsonw_object(struct jsonw *json, const char *key)
{
	open_one(json, key, '{', '}');
}

void jsonw_array(struct jsonw *json, const char *key)
{
	open_one(json, key, '[', ']');
}

void jsonw_end(struct jsonw *json)
{
	if (!json->depth) {
		json->spoiled = true;
		return;
	}
	add_char(json, json->closers[--json->depth]);
}

void jsonw_string(struct jsonw *json, const char *key, const char *text)
{
	begin_value(json, key);
	add_quoted(json, text);
}

void jsonw_number(struct jsonw *json, const char *key, uint64_t value)
{
	begin_value(json, key);
	if (strbuf_addf(json->out, "%llu", (unsigned long long)value) < 0)
		json->spoiled = true;
}

void jsonw_bool(struct jsonw *json, const char *key, bool value)
{
	begin_value(json, key);
	add(json, value ? "true" : "false");
}

int jsonw_finish(struct jsonw *json)
{
	if (json->depth || !json->out->len || json->out->full)
		json->spoiled = true;
	return json->spoiled ? -1 : 0;
}
