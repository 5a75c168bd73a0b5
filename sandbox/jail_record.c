#include "jail_record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/strbuf.h"

void record_put(struct strbuf *out, const char *key, const char *value)
{
	strbuf_adds(out, key);
	strbuf_addc(out, '=');
	strbuf_add(out, value, strlen(value) + 1);
}

void record_put_number(struct strbuf *out, const char *key, uint64_t value)
{
	strbuf_addf(out, "%s=%llu", key, (unsigned long long)value);
	strbuf_addc(out, '\0');
}

int record_next(const char **data, size_t *len, const char *what, struct record *rec,
		struct error *err)
{
	const char *end, *equal;

	if (!*len)
		return 0;
	end = memchr(*data, '\0', *len);
	if (!end)
		return error_set(err, ERROR_USAGE, "%s: the last record is cut", what);
	equal = memchr(*data, '=', (size_t)(end - *data));
	if (!equal || equal == *data)
		return error_set(err, ERROR_USAGE, "%s: a record without a key", what);
	rec->key = *data;
	rec->key_len = (size_t)(equal - *data);
	rec->value = equal + 1;
	*len -= (size_t)(end + 1 - *data);
	*data = end + 1;
	return 1;
}

bool record_is(const struct record *rec, const char *key)
{
	return strlen(key) == rec->key_len && memcmp(rec->key, key, rec->key_len) == 0;
}

int record_bad(struct error *err, const char *what, const struct record *rec)
{
	return error_set(err, ERROR_USAGE, "%s: malformed value of %.*s: %s", what,
			 (int)rec->key_len, rec->key, rec->value);
}

int record_number(const char *text, uint64_t *value)
{
	char *end;

	if (text[0] < '0' || text[0] > '9' || (text[0] == '0' && text[1]))
		return -1;
	errno = 0;
	*value = strtoull(text, &end, 10);
	return errno || *end ? -1 : 0;
}
