#include "json.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

/* struct json is jansson's json_t under another name. */
static json_t *real(const struct json *node)
{
	union {
		const struct json *in;
		json_t *out;
	} cast = {.in = node};

	return cast.out;
}

static struct json *wrap(json_t *node)
{
	if (!node)
		abort(); /* out of memory: every caller made sure of its arguments */
	return (struct json *)node;
}

void js_free(struct json *node)
{
	json_decref(real(node));
}

void js_free_ptr(struct json **node)
{
	js_free(*node);
}

struct json *js_parse(const char *data, size_t len, size_t max_bytes, const char *what,
		      struct error *err)
{
	json_error_t why;
	json_t *node;

	if (len > max_bytes) {
		error_set(err, ERROR_USAGE, "%s is larger than %zu bytes", what, max_bytes);
		return NULL;
	}
	node = json_loadb(data, len, JSON_REJECT_DUPLICATES, &why);
	if (!node) {
		error_set(err, ERROR_USAGE, "%s is not valid JSON: line %d: %s", what, why.line,
			  why.text);
		return NULL;
	}
	return wrap(node);
}

struct json *js_read_fd(int fd, size_t max_bytes, const char *what, struct error *err)
{
	struct strbuf buf AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&buf, max_bytes);
	if (fd_pread_all(fd, &buf) < 0) {
		if (errno == EFBIG)
			error_set(err, ERROR_USAGE, "%s is larger than %zu bytes", what,
				  max_bytes);
		else
			error_errno(err, ERROR_FAILED, errno, "%s cannot be read", what);
		return NULL;
	}
	return js_parse(buf.data, buf.len, max_bytes, what, err);
}

static int dump_to_strbuf(const char *data, size_t len, void *out)
{
	return strbuf_add(out, data, len);
}

void js_format(const struct json *node, struct strbuf *out)
{
	json_dump_callback(real(node), dump_to_strbuf, out, JSON_COMPACT | JSON_ENCODE_ANY);
}

void js_format_ascii(const struct json *node, struct strbuf *out)
{
	json_dump_callback(real(node), dump_to_strbuf, out,
			   JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
}

void js_format_pretty(const struct json *node, struct strbuf *out)
{
	json_dump_callback(real(node), dump_to_strbuf, out, JSON_INDENT(2) | JSON_ENCODE_ANY);
}

struct json *js_object_new(void)
{
	return wrap(json_object());
}

struct json *js_array_new(void)
{
	return wrap(json_array());
}

struct json *js_int_new(long long value)
{
	return wrap(json_integer(value));
}

struct json *js_string_new(const char *text, size_t len)
{
	struct strbuf clean AUTO_STRBUF = STRBUF_NONE;

	if (text_is_utf8(text, len) && !memchr(text, '\0', len))
		return wrap(json_stringn_nocheck(text, len));
	strbuf_init(&clean, STRBUF_MAX);
	text_to_utf8(&clean, text, len);
	return wrap(json_stringn_nocheck(clean.data, clean.len));
}

struct json *js_copy(const struct json *node)
{
	return wrap(json_deep_copy(real(node)));
}

void js_set(struct json *object, const char *key, struct json *taken)
{
	if (json_object_set_new_nocheck(real(object), key, real(taken)) < 0)
		abort();
}

void js_set_str(struct json *object, const char *key, const char *text)
{
	if (!text)
		js_set(object, key, wrap(json_null()));
	else
		js_set_strn(object, key, text, strlen(text));
}

void js_set_strn(struct json *object, const char *key, const char *text, size_t len)
{
	js_set(object, key, js_string_new(text, len));
}

void js_set_int(struct json *object, const char *key, long long value)
{
	js_set(object, key, wrap(json_integer(value)));
}

void js_set_bool(struct json *object, const char *key, bool value)
{
	js_set(object, key, wrap(json_boolean(value)));
}

void js_unset(struct json *object, const char *key)
{
	json_object_del(real(object), key);
}

void js_push(struct json *array, struct json *taken)
{
	if (json_array_append_new(real(array), real(taken)) < 0)
		abort();
}

void js_push_str(struct json *array, const char *text)
{
	js_push(array, js_string_new(text, strlen(text)));
}

void js_set_bytes(struct json *object, const char *key, const char *data, size_t len)
{
	struct strbuf name AUTO_STRBUF = STRBUF_NONE, coded AUTO_STRBUF = STRBUF_NONE;

	if (text_is_utf8(data, len) && !memchr(data, '\0', len)) {
		js_set_strn(object, key, data, len);
		return;
	}
	strbuf_init(&name, 256);
	strbuf_addf(&name, "%s_base64", key);
	strbuf_init(&coded, STRBUF_MAX);
	text_base64(&coded, data, len);
	js_set_strn(object, name.data, coded.data, coded.len);
}

struct json *js_get(const struct json *object, const char *key)
{
	return object ? (struct json *)json_object_get(real(object), key) : NULL;
}

struct json *js_at(const struct json *array, size_t index)
{
	return array ? (struct json *)json_array_get(real(array), index) : NULL;
}

size_t js_len(const struct json *node)
{
	if (!node)
		return 0;
	return js_is_array(node) ? json_array_size(real(node)) : json_object_size(real(node));
}

bool js_is_object(const struct json *node)
{
	return node && json_is_object(real(node));
}

bool js_is_array(const struct json *node)
{
	return node && json_is_array(real(node));
}

bool js_is_string(const struct json *node)
{
	return node && json_is_string(real(node));
}

bool js_is_int(const struct json *node)
{
	return node && json_is_integer(real(node));
}

bool js_is_null(const struct json *node)
{
	return node && json_is_null(real(node));
}

const char *js_text(const struct json *node)
{
	return js_is_string(node) ? json_string_value(real(node)) : NULL;
}

size_t js_text_len(const struct json *node)
{
	return js_is_string(node) ? json_string_length(real(node)) : 0;
}

long long js_number(const struct json *node, long long fallback)
{
	return js_is_int(node) ? (long long)json_integer_value(real(node)) : fallback;
}

const char *js_str(const struct json *object, const char *key, const char *fallback)
{
	const char *text = js_text(js_get(object, key));

	return text ? text : fallback;
}

long long js_int(const struct json *object, const char *key, long long fallback)
{
	return js_number(js_get(object, key), fallback);
}

bool js_bool(const struct json *object, const char *key, bool fallback)
{
	const struct json *node = js_get(object, key);

	return node && json_is_boolean(real(node)) ? json_is_true(real(node)) : fallback;
}

int js_need_str(const struct json *object, const char *key, const char **text,
		struct error *err)
{
	const char *found = js_text(js_get(object, key));

	if (!found)
		return error_set(err, ERROR_USAGE, "\"%s\" is missing or no string", key);
	*text = found;
	return 0;
}

int js_need_int(const struct json *object, const char *key, long long least, long long most,
		long long *value, struct error *err)
{
	const struct json *node = js_get(object, key);
	long long found = js_number(node, 0);

	if (!js_is_int(node) || found < least || found > most)
		return error_set(err, ERROR_USAGE,
				 "\"%s\" is missing or no whole number from %lld to %lld", key,
				 least, most);
	*value = found;
	return 0;
}

int js_need_bytes(const struct json *object, const char *key, struct strbuf *buf,
		  struct error *err)
{
	char coded[128];
	const struct json *plain = js_get(object, key), *base64;

	snprintf(coded, sizeof(coded), "%s_base64", key);
	base64 = js_get(object, coded);
	if (js_is_string(plain) && !base64) {
		if (strbuf_add(buf, js_text(plain), js_text_len(plain)) == 0)
			return 0;
		return error_set(err, ERROR_USAGE, "\"%s\" is too large", key);
	}
	if (!plain && js_is_string(base64)) {
		if (text_unbase64(buf, js_text(base64), js_text_len(base64)) == 0 && !buf->full)
			return 0;
		return error_set(err, ERROR_USAGE, "\"%s\" is malformed or too large", coded);
	}
	return error_set(err, ERROR_USAGE, "\"%s\" is missing or no string", key);
}

int js_check_keys(const struct json *object, const char *const *allowed, struct error *err)
{
	const char *key;
	json_t *value;

	if (!js_is_object(object))
		return error_set(err, ERROR_USAGE, "not an object");
	json_object_foreach(real(object), key, value)
	{
		size_t i = 0;

		while (allowed[i] && strcmp(allowed[i], key) != 0)
			i++;
		if (!allowed[i])
			return error_set(err, ERROR_USAGE, "unknown member \"%s\"", key);
	}
	return 0;
}

struct json *js_artefact_new(const char *kind, int version)
{
	struct json *object = js_object_new();

	js_set_str(object, "kind", kind);
	js_set_int(object, "version", version);
	return object;
}

int js_check_kind(const struct json *object, const char *kind, int version, struct error *err)
{
	if (!js_is_object(object) || strcmp(js_str(object, "kind", ""), kind) != 0)
		return error_set(err, ERROR_USAGE, "not a %s artefact", kind);
	if (js_int(object, "version", -1) != version)
		return error_set(err, ERROR_USAGE,
				 "%s artefact of version %lld, this program reads %d", kind,
				 js_int(object, "version", -1), version);
	return 0;
}

const char *js_next(struct json *object, void **iter, struct json **value)
{
	if (!js_is_object(object))
		return NULL;
	*iter =
	    *iter ? json_object_iter_next(real(object), *iter) : json_object_iter(real(object));
	if (!*iter)
		return NULL;
	*value = (struct json *)json_object_iter_value(*iter);
	return json_object_iter_key(*iter);
}
