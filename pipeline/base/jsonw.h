/*
 * Writing JSON (RFC 8259) where no library is at hand: the static agent-jail describes a sandbox to a
 * runtime with it. Members come out in the order of the calls. What a caller gets wrong, and text that
 * is not UTF-8, spoils the whole: jsonw_finish then says so, and nothing half-right is used. Pure.
 */
#ifndef PIPELINE_BASE_JSONW_H
#define PIPELINE_BASE_JSONW_H

#include <stdbool.h>
#include <stdint.h>

struct strbuf;

#define JSONW_DEPTH 32

struct jsonw {
	struct strbuf *out;	   /* borrowed */
	unsigned depth;		   /* of open objects and arrays */
	char closers[JSONW_DEPTH]; /* '}' or ']' each */
	bool follows[JSONW_DEPTH]; /* one has members already: a comma comes first */
	bool spoiled;		   /* nothing of it may be used */
};

void jsonw_init(struct jsonw *json, struct strbuf *out);

/* key: in an object its name, in an array (and for the outermost value) NULL. */
void jsonw_object(struct jsonw *json, const char *key);
void jsonw_array(struct jsonw *json, const char *key);
void jsonw_end(struct jsonw *json); /* the innermost open one */
void jsonw_string(struct jsonw *json, const char *key, const char *text);
void jsonw_number(struct jsonw *json, const char *key, uint64_t value);
void jsonw_bool(struct jsonw *json, const char *key, bool value);

/* 0 when all is closed, of one value, valid, and within out's maximum; else -1. */
int jsonw_finish(struct jsonw *json);

#endif
