#include "scrub.h"

#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/strbuf.h"

static bool is_active(const struct scrub *scrub)
{
	return scrub && scrub->key && scrub->len >= SCRUB_KEY_MIN;
}

bool scrub_finds(const struct scrub *scrub, const char *text, size_t len)
{
	return is_active(scrub) && memmem(text, len, scrub->key, scrub->len) != NULL;
}

void scrub_text(const struct scrub *scrub, const char *text, size_t len, struct strbuf *out)
{
	const char *end = text + len, *hit;

	while (is_active(scrub) &&
	       (hit = memmem(text, (size_t)(end - text), scrub->key, scrub->len))) {
		strbuf_add(out, text, (size_t)(hit - text));
		strbuf_adds(out, SCRUB_MARK);
		text = hit + scrub->len;
	}
	strbuf_add(out, text, (size_t)(end - text));
}

static bool finds_in(const struct scrub *scrub, struct json *node)
{
	if (js_is_string(node))
		return scrub_finds(scrub, js_text(node), js_text_len(node));
	if (js_is_array(node)) {
		for (size_t i = 0; i < js_len(node); i++)
			if (finds_in(scrub, js_at(node, i)))
				return true;
	} else if (js_is_object(node)) {
		struct json *value;
		const char *name;
		void *iter = NULL;

		while ((name = js_next(node, &iter, &value)))
			if (scrub_finds(scrub, name, strlen(name)) || finds_in(scrub, value))
				return true;
	}
	return false;
}

static struct json *cleaned(const struct scrub *scrub, struct json *node);

static struct json *cleaned_object(const struct scrub *scrub, struct json *node)
{
	struct json *copy = js_object_new(), *value;
	const char *name;
	void *iter = NULL;

	while ((name = js_next(node, &iter, &value))) {
		struct strbuf text AUTO_STRBUF = STRBUF_NONE;

		strbuf_init(&text, STRBUF_MAX);
		scrub_text(scrub, name, strlen(name), &text);
		js_set(copy, text.data, cleaned(scrub, value));
	}
	return copy;
}

static struct json *cleaned(const struct scrub *scrub, struct json *node)
{
	if (js_is_string(node)) {
		struct strbuf text AUTO_STRBUF = STRBUF_NONE;

		strbuf_init(&text, STRBUF_MAX);
		scrub_text(scrub, js_text(node), js_text_len(node), &text);
		return js_string_new(text.data, text.len);
	}
	if (js_is_array(node)) {
		struct json *copy = js_array_new();

		for (size_t i = 0; i < js_len(node); i++)
			js_push(copy, cleaned(scrub, js_at(node, i)));
		return copy;
	}
	if (js_is_object(node))
		return cleaned_object(scrub, node);
	return js_copy(node);
}

struct json *scrub_json(const struct scrub *scrub, struct json *taken)
{
	struct json *copy;

	if (!taken || !is_active(scrub) || !finds_in(scrub, taken))
		return taken;
	copy = cleaned(scrub, taken);
	js_free(taken);
	return copy;
}

static void scrub_field(const struct scrub *scrub, char *field, size_t size)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	if (!scrub_finds(scrub, field, strlen(field)))
		return;
	strbuf_init(&text, STRBUF_MAX);
	scrub_text(scrub, field, strlen(field), &text);
	/* the mark is shorter than the shortest key: it fits */
	memcpy(field, text.data, text.len < size ? text.len + 1 : size);
	field[size - 1] = '\0';
}

void scrub_error(const struct scrub *scrub, struct error *err)
{
	scrub_field(scrub, err->message, sizeof(err->message));
	scrub_field(scrub, err->next, sizeof(err->next));
}
