/*
 * What the wire formats share when they make a request of a conversation. Pure.
 */
#ifndef MODEL_WIRE_H
#define MODEL_WIRE_H

#include <stdbool.h>
#include <stddef.h>

struct json;

/* Whether a text has anything but white space: servers refuse empty text blocks. */
bool wire_has_text(const struct json *string);

/* Copies text with every byte outside of [A-Za-z0-9_-] replaced by '_' (what servers take for
 * ids and tool names), at least one byte, cut to size. */
void wire_token(char *dst, size_t size, const char *text);

/* A member that is a string and has bytes; NULL otherwise. Borrowed. */
const struct json *wire_string(const struct json *object, const char *key);

#endif
