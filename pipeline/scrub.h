/*
 * Keeps a credential out of everything that is written: a server may echo it (in an error, in
 * an answer), and a repository may hold it. Every text of a provider or a forge, and what git prints with
 * a token in hand, passes through here before it goes to a conversation, an event, a log or an error. Pure.
 *
 * Keys of fewer than SCRUB_KEY_MIN bytes are left alone: local servers are run with words like
 * "ollama" or "EMPTY" for a key, and replacing those would change the edits of a model.
 */
#ifndef PIPELINE_SCRUB_H
#define PIPELINE_SCRUB_H

#include <stdbool.h>
#include <stddef.h>

struct error;
struct json;
struct strbuf;

#define SCRUB_KEY_MIN 12
#define SCRUB_MARK "[key]"

struct scrub {
	const char *key; /* borrowed; NULL: there is none, everything passes unchanged */
	size_t len;
};

/* Appends text with every occurrence of the key replaced by SCRUB_MARK. */
void scrub_text(const struct scrub *scrub, const char *text, size_t len, struct strbuf *out);

/* Whether the key occurs in the bytes. */
bool scrub_finds(const struct scrub *scrub, const char *text, size_t len);

/* Replaces the key in every string and member name of a document. Takes node; returns a new
 * value (the same one when there was nothing to do). NULL for NULL. */
struct json *scrub_json(const struct scrub *scrub, struct json *taken);

/* Replaces the key in an error's message and next step. */
void scrub_error(const struct scrub *scrub, struct error *err);

#endif
