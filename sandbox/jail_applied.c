#include "jail_applied.h"

#include <string.h>

#define KEY "applied="

const char *jail_applied_next(const char **data, size_t *len)
{
	const size_t key_len = sizeof(KEY) - 1;
	const char *record = *data, *end;

	if (*len <= key_len || memcmp(record, KEY, key_len) != 0)
		return NULL;
	end = memchr(record, '\0', *len);
	if (!end)
		return NULL;
	*len -= (size_t)(end + 1 - record);
	*data = end + 1;
	return record + key_len;
}

size_t jail_applied_size(const char *data, size_t len)
{
	const char *at = data;
	size_t left = len;

	while (jail_applied_next(&at, &left))
		continue;
	return (size_t)(at - data);
}
