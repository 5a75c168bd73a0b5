#include "jail_answers.h"

#include <linux/filter.h>
#include <string.h>

#include "pipeline/base/mem.h"

#define JAIL_FILTER_TABLE
#include "jail_filter.h"

_Static_assert(ARRAY_LEN(jail_payload_filter_answers) ==
		   ARRAY_LEN(jail_observed_filter_answers),
	       "both list the same calls");

const struct jail_answer *jail_answer_at(const char *digest, size_t index)
{
	if (index >= ARRAY_LEN(jail_payload_filter_answers))
		return NULL;
	if (strcmp(digest, jail_payload_filter_digest) == 0)
		return &jail_payload_filter_answers[index];
	if (strcmp(digest, jail_observed_filter_digest) == 0)
		return &jail_observed_filter_answers[index];
	return NULL;
}

const char *jail_answers_digest(bool observed)
{
	return observed ? jail_observed_filter_digest : jail_payload_filter_digest;
}
