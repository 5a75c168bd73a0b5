#include "inside.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#define PATH_BYTES_MAX 1024

bool inside_path(const char *text)
{
	size_t total = strlen(text);

	if (total == 0 || total > PATH_BYTES_MAX)
		return false;
	for (size_t i = 0; i < total; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f || text[i] == '\\')
			return false;
	for (const char *part = text; part;) {
		size_t len = strcspn(part, "/");

		if (len == 0 || (len == 1 && part[0] == '.') ||
		    (len == 2 && part[0] == '.' && part[1] == '.'))
			return false;
		if (len == 4 && strncasecmp(part, ".git", 4) == 0)
			return false;
		part = part[len] ? part + len + 1 : NULL;
	}
	return true;
}
