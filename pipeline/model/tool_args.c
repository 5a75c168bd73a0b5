#include "tool_args.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gitops/pathpolicy.h"
#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/model/tools.h"

#define NUMBER_MOST 1000000000LL

bool tool_refuse(struct tool_result *result, const char *format, ...)
{
	char text[4600]; /* an edit result's message fits */
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	strbuf_reset(&result->text);
	strbuf_adds(&result->text, text);
	result->failed = true;
	return false;
}

/* The member, or NULL when it is absent or null. */
static const struct json *member(const struct tool_args *args, const char *name)
{
	const struct json *node = js_get(args->input, name);

	return js_is_null(node) ? NULL : node;
}

bool args_known(const struct tool_args *args, const char *const *names)
{
	struct error why = {0};
	char list[256] = "";
	size_t used = 0;

	if (js_check_keys(args->input, names, &why) == 0)
		return true;
	for (; *names && used < sizeof(list); names++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s",
					 used ? ", " : "", *names);
	return tool_refuse(args->result, "%s. The arguments are: %s.", why.message, list);
}

bool args_text(const struct tool_args *args, const char *name, bool needed, const char **text,
	       size_t *len)
{
	const struct json *node = member(args, name);

	*text = NULL;
	*len = 0;
	if (!node)
		return !needed ||
		       tool_refuse(args->result, "The argument \"%s\" is missing.", name);
	if (!js_is_string(node))
		return tool_refuse(args->result, "The argument \"%s\" must be a string.", name);
	*text = js_text(node);
	*len = js_text_len(node);
	return true;
}

bool args_path(const struct tool_args *args, const char *name, bool root, struct strbuf *out)
{
	struct error why = {0};
	const char *text;
	size_t len;

	if (!args_text(args, name, !root, &text, &len))
		return false;
	path_tidy(text ? text : "", out);
	if (out->len == 0 && root)
		return true;
	if (path_check(out->data, out->len, &why) == 0)
		return true;
	return tool_refuse(args->result, "%s", why.message);
}

bool args_bool(const struct tool_args *args, const char *name, bool *value)
{
	const struct json *node = member(args, name);
	const char *text = js_text(node);

	*value = js_bool(args->input, name, false);
	if (!node || *value || js_bool(args->input, name, true) == false)
		return true;
	if (text && (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)) {
		*value = text[0] == 't';
		return true;
	}
	return tool_refuse(args->result, "The argument \"%s\" must be true or false.", name);
}

bool args_number(const struct tool_args *args, const char *name, long long *value)
{
	const struct json *node = member(args, name);
	const char *text = js_text(node);
	char *end = NULL;

	*value = js_number(node, 0);
	if (text && text[0]) {
		*value = strtoll(text, &end, 10);
		if (*end)
			*value = -1;
	} else if (node && !js_is_int(node)) {
		*value = -1;
	}
	if (*value >= 0 && *value <= NUMBER_MOST)
		return true;
	return tool_refuse(args->result,
			   "The argument \"%s\" must be a whole number, 0 or more.", name);
}
