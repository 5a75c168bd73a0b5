/* Fuzz target: the end of a test's output, which may say that a program was missing. Whatever it says, only a plain name is
 * taken from it. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox/jail_find.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char name[JAIL_FIND_NAME];
	char *output = malloc(size + 1); /* of exactly this size: a byte too far is seen */

	if (!output)
		return 0;
	if (size)
		memcpy(output, data, size);
	output = realloc(output, size ? size : 1);
	if (jail_find_lack(output, size, name) == JAIL_LACK_PROGRAM &&
	    (!memchr(name, '\0', sizeof(name)) || !name[0] || name[0] == '-' ||
	     name[0] == '.' || strpbrk(name, "/*?[]\\\"' \n\r\t\033:;|&$`<>(){}~!")))
		abort();
	free(output);
	return 0;
}
