/* Fuzz target: the TLS hello that agent-egress looks into. A name that is found must be what it
 * says, and every prefix of a named hello must want more. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/fetch/authority.h"
#include "pipeline/fetch/hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct authority at;
	const char *why = NULL;
	char name[256];
	enum hello_result result = hello_parse(data, size, name, &why);

	if (result == HELLO_REFUSED && !why)
		abort();
	if (result != HELLO_NAMED)
		return 0;
	if (strlen(name) == 0 || strlen(name) > 255)
		abort();
	if (authority_parse_host(name, strlen(name), &at, &why) == 0 && strlen(at.host) > 253)
		abort();
	if (size < 400)
		for (size_t part = 0; part < size; part++) {
			result = hello_parse(data, part, name, &why);
			if (result == HELLO_REFUSED || result == HELLO_UNNAMED)
				abort();
		}
	return 0;
}
