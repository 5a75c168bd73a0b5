#include "wire.h"

#include <ctype.h>
#include <string.h>

#include "pipeline/base/json.h"

bool wire_has_text(const struct json *string)
{
	const char *text = js_text(string);

	return text && text[strspn(text, " \t\r\n\f\v")] != '\0';
}

void wire_token(char *dst, size_t size, const char *text)
{
	size_t used = 0;

	for (; *text && used + 1 < size; text++) {
		unsigned char c = (unsigned char)*text;
		bool plain = (c < 0x80 && isalnum(c)) || c == '_' || c == '-';

		dst[used++] = plain ? (char)c : '_';
	}
	if (!used)
		dst[used++] = '_';
	dst[used] = '\0';
}

const struct json *wire_string(const struct json *object, const char *key)
{
	const struct json *value = js_get(object, key);

	return js_text_len(value) ? value : NULL;
}
