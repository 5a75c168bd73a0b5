/*
 * A tool call's arguments, taken one by one with a message for the model where one is wrong.
 * Lenient where models are careless and nothing is at stake: null for absent, numbers and
 * booleans as text.
 */
#ifndef MODEL_TOOL_ARGS_H
#define MODEL_TOOL_ARGS_H

#include <stdbool.h>
#include <stddef.h>

struct json;
struct strbuf;
struct tool_result;

struct tool_args {
	const struct json *input;
	struct tool_result *result; /* gets the message */
};

/* All return false after they have put a message into the result. */

/* No names but those of the list (NULL-terminated). */
bool args_known(const struct tool_args *args, const char *const *names);
/* *text is borrowed; *len without the NUL. A missing one is refused when needed, else *text is
 * NULL. */
bool args_text(const struct tool_args *args, const char *name, bool needed, const char **text,
	       size_t *len);
/* A tidied path; "" stands for the root and is taken only when root is true. out is
 * initialised. */
bool args_path(const struct tool_args *args, const char *name, bool root, struct strbuf *out);
bool args_bool(const struct tool_args *args, const char *name, bool *value);
/* 0 when absent. */
bool args_number(const struct tool_args *args, const char *name, long long *value);

/* Says why in the result, which becomes a failed one. Returns false. */
bool tool_refuse(struct tool_result *result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
