/* Fuzz target: questions to the resolver of the jail. Whatever is asked, the answer fits, is one of the asked, and the name is
 * printable text without a blank. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox/jail/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *query = malloc(size ? size : 1), *answer = malloc(DNS_QUERY_MAX);
	struct dns_question question;
	size_t len;

	if (!query || !answer)
		abort();
	if (size)
		memcpy(query, data, size); /* of its own size: a byte behind it is an error */
	len = dns_answer(query, size, answer, &question);
	if (len > DNS_QUERY_MAX || len > size || (len && len < 12))
		abort();
	if (len &&
	    (memcmp(answer, query, 2) != 0 || !(answer[2] & 0x80) || !(answer[3] & 0x0f)))
		abort();
	if (strnlen(question.name, sizeof(question.name)) == sizeof(question.name))
		abort();
	for (const char *c = question.name; *c; c++)
		if (*c <= ' ' || *c >= 0x7f)
			abort();
	if (question.name[0] && len < 12 + 5)
		abort();
	free(query);
	free(answer);
	return 0;
}
