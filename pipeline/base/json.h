/*
 * JSON by jansson: bounded parsing, typed getters, strict objects. The only owner of jansson.h;
 * everybody else sees struct json, which is opaque.
 *
 * Functions are js_verb (jansson owns the json_ names). Ownership: functions that return "new"
 * values give the caller one reference (js_free, AUTO_JSON); js_get and js_at borrow; js_set*
 * and js_push* take what they are given.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>

struct error;
struct json;
struct strbuf;

void js_free(struct json *node);
void js_free_ptr(struct json **node); /* for AUTO_JSON only */
#define AUTO_JSON __attribute__((cleanup(js_free_ptr)))

/* Parses one document: at most max_bytes, valid UTF-8, no duplicate keys, depth as jansson
 * limits (2048), nothing behind it. NULL with err (ERROR_USAGE, naming what and the line) when
 * malformed. what names the input for the message. */
struct json *js_parse(const char *data, size_t len, size_t max_bytes, const char *what,
		      struct error *err);

/* Reads a descriptor (from offset 0) and parses it. NULL with err. */
struct json *js_read_fd(int fd, size_t max_bytes, const char *what, struct error *err);

/* Compact (js_format) or indented (js_format_pretty) text, appended to out. */
void js_format(const struct json *node, struct strbuf *out);
/* As js_format, in ASCII: what is not is written \uNNNN, so that no terminal or log reader acts
 * on it. */
void js_format_ascii(const struct json *node, struct strbuf *out);
void js_format_pretty(const struct json *node, struct strbuf *out);

struct json *js_object_new(void);
struct json *js_array_new(void);
struct json *js_string_new(const char *text, size_t len); /* invalid UTF-8, NUL become U+FFFD */
struct json *js_int_new(long long value);
struct json *js_copy(const struct json *node); /* deep */

void js_set(struct json *object, const char *key, struct json *taken);
void js_set_str(struct json *object, const char *key, const char *text); /* NULL text: null */
void js_set_strn(struct json *object, const char *key, const char *text, size_t len);
void js_set_int(struct json *object, const char *key, long long value);
void js_set_bool(struct json *object, const char *key, bool value);
void js_unset(struct json *object, const char *key);
void js_push(struct json *array, struct json *taken);
void js_push_str(struct json *array, const char *text);
/* For a binary-safe member: "key" when the bytes are UTF-8 without NUL, else "key_base64". */
void js_set_bytes(struct json *object, const char *key, const char *data, size_t len);

/* Borrowed; NULL when absent or not of that shape. A NULL object is allowed everywhere below.
 */
struct json *js_get(const struct json *object, const char *key);
struct json *js_at(const struct json *array, size_t index);
size_t js_len(const struct json *array_or_object);

bool js_is_object(const struct json *node);
bool js_is_array(const struct json *node);
bool js_is_string(const struct json *node);
bool js_is_int(const struct json *node);
bool js_is_null(const struct json *node);

/* Values of a member; the default when absent or of another type. Strings are borrowed. */
const char *js_str(const struct json *object, const char *key, const char *fallback);
long long js_int(const struct json *object, const char *key, long long fallback);
bool js_bool(const struct json *object, const char *key, bool fallback);
/* Value of a node itself; NULL / 0 when it is no string. */
const char *js_text(const struct json *node);
size_t js_text_len(const struct json *node);
long long js_number(const struct json *node, long long fallback);

/* Required members: 0, or ERROR_USAGE with err naming the key. *text is borrowed. */
int js_need_str(const struct json *object, const char *key, const char **text,
		struct error *err);
int js_need_int(const struct json *object, const char *key, long long least, long long most,
		long long *value, struct error *err);
/* Reads what js_set_bytes wrote into buf (initialised). */
int js_need_bytes(const struct json *object, const char *key, struct strbuf *buf,
		  struct error *err);

/* ERROR_USAGE when the object has a key that the NULL-terminated list does not name. */
int js_check_keys(const struct json *object, const char *const *allowed, struct error *err);

/* Checks "kind" and "version" of an artefact (DESIGN section 3: typed, versioned). */
int js_check_kind(const struct json *object, const char *kind, int version, struct error *err);
struct json *js_artefact_new(const char *kind, int version);

/* Walks an object: *iter starts as NULL; returns the next key (borrowed) and value, NULL at the
 * end. */
const char *js_next(struct json *object, void **iter, struct json **value);

#endif
