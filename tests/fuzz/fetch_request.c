/* Fuzz target: request heads of agent-egress and answers of an upstream proxy. What is taken
 * must come out of the formatter as it went in, and hold no byte that a host name cannot have.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/fetch/authority.h"
#include "pipeline/fetch/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct authority at, again;
	const char *why = NULL, *text = (const char *)data;
	size_t used = 0;
	int status;
	char out[300];

	if (request_parse(text, size, &at, &used, &why) == REQUEST_CONNECT) {
		if (used > size || !at.port || at.port > 65535)
			abort();
		if (strspn(at.host, "abcdefghijklmnopqrstuvwxyz0123456789.-_:") !=
			strlen(at.host) ||
		    !at.host[0])
			abort();
		authority_format(&at, out, sizeof(out));
		if (authority_parse(out, strlen(out), &again, &why) < 0 ||
		    !authority_equal(&at, &again))
			abort();
	}
	used = 0;
	if (response_parse(text, size, &used, &status) == 1 &&
	    (used > size || status < 200 || status > 299))
		abort();
	return 0;
}
