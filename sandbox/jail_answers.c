#include "jail_answers.h"

#include <linux/filter.h>

#include "pipeline/base/mem.h"

#define JAIL_FILTER_TABLE
#include "jail_filter.h"

const struct jail_answer *jail_answer_at(size_t index)
{
	return index < ARRAY_LEN(jail_payload_answers) ? &jail_payload_answers[index] : NULL;
}

const char *jail_answers_digest(void)
{
	return jail_payload_filter_digest;
}
