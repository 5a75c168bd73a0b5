#include "mem.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *checked(void *data)
{
	if (!data)
		abort();
	return data;
}

void *mem_calloc(size_t count, size_t size)
{
	return checked(calloc(count ? count : 1, size ? size : 1));
}

void *mem_realloc(void *old, size_t count, size_t size)
{
	return checked(reallocarray(old, count ? count : 1, size ? size : 1));
}

char *mem_strdup(const char *text)
{
	return checked(strdup(text));
}

char *mem_strndup(const char *text, size_t len)
{
	return checked(strndup(text, len));
}

char *mem_vprintf(const char *format, va_list args)
{
	char *text = NULL;

	if (vasprintf(&text, format, args) < 0)
		abort();
	return checked(text);
}

char *mem_printf(const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	text = mem_vprintf(format, args);
	va_end(args);
	return text;
}

void mem_sort(void *items, size_t count, size_t size,
	      int (*compare)(const void *, const void *))
{
	if (count > 1)
		qsort(items, count, size, compare);
}

void mem_wipe(void *data, size_t len)
{
	explicit_bzero(data, len);
}

void mem_free_ptr(void *where)
{
	void *data;

	memcpy(&data, where, sizeof(data));
	free(data);
}
