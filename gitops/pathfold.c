#include "pathfold.h"

#include <string.h>

#include <utf8proc.h>

#include "pipeline/base/mem.h"

static bool is_ascii(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] >= 0x80)
			return false;
	return true;
}

/* Canonically decomposed and case-folded, as file systems that ignore case and normalisation
 * compare names; NULL when it is no UTF-8. */
static char *fold_unicode(const char *text, size_t len)
{
	utf8proc_uint8_t *folded = NULL;
	utf8proc_ssize_t size = utf8proc_map(
	    (const utf8proc_uint8_t *)text, (utf8proc_ssize_t)len, &folded,
	    UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_CASEFOLD | UTF8PROC_IGNORE);

	return size < 0 ? NULL : (char *)folded;
}

static bool same_unicode(const char *a, size_t a_len, const char *b, size_t b_len)
{
	char *left AUTO_FREE = fold_unicode(a, a_len),
		   *right AUTO_FREE = fold_unicode(b, b_len);

	return left && right && strcmp(left, right) == 0;
}

bool path_same_fold(const char *a, size_t a_len, const char *b, size_t b_len)
{
	if (!is_ascii(a, a_len) || !is_ascii(b, b_len))
		return same_unicode(a, a_len, b, b_len);
	if (a_len != b_len)
		return false;
	for (size_t i = 0; i < a_len; i++) {
		unsigned char x = (unsigned char)a[i], y = (unsigned char)b[i];
		if (x >= 'A' && x <= 'Z')
			x = (unsigned char)(x - 'A' + 'a');
		if (y >= 'A' && y <= 'Z')
			y = (unsigned char)(y - 'A' + 'a');
		if (x != y)
			return false;
	}
	return true;
}
