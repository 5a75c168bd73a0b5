/*
 * The records "key=value\0" that spec, go and facts are made of: written and taken apart, one at a
 * time. Pure.
 */
#ifndef SANDBOX_JAIL_RECORD_H
#define SANDBOX_JAIL_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct strbuf;

struct record {
	const char *key; /* not terminated: key_len bytes */
	size_t key_len;
	const char *value; /* terminated */
};

void record_put(struct strbuf *out, const char *key, const char *value);
void record_put_number(struct strbuf *out, const char *key, uint64_t value);

/* Takes the next record from *data; what names the whole in messages. 1, 0 at the end,
 * ERROR_USAGE when malformed. */
int record_next(const char **data, size_t *len, const char *what, struct record *rec,
		struct error *err);
bool record_is(const struct record *rec, const char *key);

/* ERROR_USAGE: "what: malformed value of key". */
int record_bad(struct error *err, const char *what, const struct record *rec);

/* A decimal number without sign, blanks or leading zeros. 0 or -1. */
int record_number(const char *text, uint64_t *value);

#endif
