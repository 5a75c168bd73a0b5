#include "strbuf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/mem.h"

void strbuf_init(struct strbuf *buf, size_t max_bytes)
{
	buf->cap = 64;
	buf->data = mem_calloc(buf->cap, 1);
	buf->len = 0;
	buf->max = max_bytes;
	buf->full = false;
}

void strbuf_release(struct strbuf *buf)
{
	free(buf->data);
	memset(buf, 0, sizeof(*buf));
}

int strbuf_add(struct strbuf *buf, const void *data, size_t len)
{
	int result = 0;

	if (len > buf->max - buf->len) {
		len = buf->max - buf->len;
		buf->full = true;
		result = -1;
	}
	if (buf->len + len + 1 > buf->cap) {
		size_t cap = buf->cap ? buf->cap : 64;

		while (cap < buf->len + len + 1)
			cap *= 2;
		buf->data = mem_realloc(buf->data, cap, 1);
		buf->cap = cap;
	}
	if (len)
		memcpy(buf->data + buf->len, data, len);
	buf->len += len;
	buf->data[buf->len] = '\0';
	return result;
}

int strbuf_adds(struct strbuf *buf, const char *text)
{
	return strbuf_add(buf, text, strlen(text));
}

int strbuf_addc(struct strbuf *buf, char c)
{
	return strbuf_add(buf, &c, 1);
}

int strbuf_addf(struct strbuf *buf, const char *format, ...)
{
	va_list args;
	char *text = NULL;
	int len, result;

	va_start(args, format);
	len = vasprintf(&text, format, args);
	va_end(args);
	if (len < 0)
		abort();
	result = strbuf_add(buf, text, (size_t)len);
	free(text);
	return result;
}

/* Bytes that continue a character of UTF-8 take no column. */
static size_t columns(const char *text, size_t len)
{
	size_t count = 0;

	for (size_t i = 0; i < len; i++)
		count += ((unsigned char)text[i] & 0xc0) != 0x80;
	return count;
}

int strbuf_add_wrapped(struct strbuf *buf, const char *text, size_t column, size_t indent,
		       size_t width)
{
	for (bool first = true; *text; first = false) {
		size_t len = strcspn(text, " "), wide = columns(text, len);

		if (!first && width && column + 1 + wide > width) {
			strbuf_addf(buf, "\n%*s", (int)indent, "");
			column = indent;
		} else if (!first) {
			strbuf_addc(buf, ' ');
			column++;
		}
		strbuf_add(buf, text, len);
		column += wide;
		text += len + (text[len] == ' ');
	}
	return buf->full ? -1 : 0;
}

void strbuf_reset(struct strbuf *buf)
{
	buf->len = 0;
	buf->full = false;
	if (buf->data)
		buf->data[0] = '\0';
}

char *strbuf_steal(struct strbuf *buf)
{
	char *data = buf->data ? buf->data : mem_strdup("");

	memset(buf, 0, sizeof(*buf));
	return data;
}
