/* The exit facts as text. See jail_spec.h. */
#include "jail_spec.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "sandbox/jail_record.h"

static const char *const outcomes[] = {
    [JAIL_EXITED] = "exited",	[JAIL_SIGNALED] = "signalled", [JAIL_TIMEOUT] = "timeout",
    [JAIL_OOM] = "oom",		[JAIL_LIMIT] = "limit",	       [JAIL_KILLED] = "killed",
    [JAIL_NOT_RUN] = "not-run", [JAIL_SETUP] = "setup",	       [JAIL_INTERNAL] = "internal",
};

const char *jail_outcome_text(enum jail_outcome outcome)
{
	return (unsigned)outcome < ARRAY_LEN(outcomes) ? outcomes[outcome] : "?";
}

void jail_facts_format(const struct jail_facts *facts, struct strbuf *out)
{
	record_put(out, "jail_facts", "1");
	record_put(out, "outcome", jail_outcome_text(facts->outcome));
	strbuf_addf(out, "value=%d", facts->value);
	strbuf_addc(out, '\0');
	record_put_number(out, "elapsed_ms", facts->elapsed_ms);
	record_put_number(out, "memory_peak_bytes", facts->memory_peak_bytes);
	record_put_number(out, "oom_count", facts->oom_count);
	record_put_number(out, "leftover", facts->leftover);
	record_put(out, "uid", facts->uid);
	record_put(out, "limits", facts->limits);
	record_put(out, "work", facts->work);
	record_put(out, "backend", facts->backend);
	record_put(out, "layers", facts->layers);
	record_put(out, "detail", facts->detail);
	record_put(out, "next", facts->next);
	record_put(out, "end", "1"); /* last: facts that were cut are no facts */
}

#define FACT_COUNT 14

static int parse_fact(struct jail_facts *facts, unsigned index, const struct record *rec)
{
	char *text = NULL;
	size_t size = 0;
	char *end;
	long value;

	switch (index) {
	case 0:
		for (unsigned i = 0; i < ARRAY_LEN(outcomes); i++) {
			if (strcmp(outcomes[i], rec->value) == 0) {
				facts->outcome = (enum jail_outcome)i;
				return 0;
			}
		}
		return -1;
	case 1:
		errno = 0;
		value = strtol(rec->value, &end, 10);
		if (errno || *end || end == rec->value || value < INT_MIN || value > INT_MAX)
			return -1;
		facts->value = (int)value;
		return 0;
	case 2:
		return record_number(rec->value, &facts->elapsed_ms);
	case 3:
		return record_number(rec->value, &facts->memory_peak_bytes);
	case 4:
		return record_number(rec->value, &facts->oom_count);
	case 5:
		return record_number(rec->value, &facts->leftover);
	case 6:
		text = facts->uid, size = sizeof(facts->uid);
		break;
	case 7:
		text = facts->limits, size = sizeof(facts->limits);
		break;
	case 8:
		text = facts->work, size = sizeof(facts->work);
		break;
	case 9:
		text = facts->backend, size = sizeof(facts->backend);
		break;
	case 10:
		text = facts->layers, size = sizeof(facts->layers);
		break;
	case 11:
		text = facts->detail, size = sizeof(facts->detail);
		break;
	case 12:
		text = facts->next, size = sizeof(facts->next);
		break;
	default:
		return strcmp(rec->value, "1") == 0 ? 0 : -1;
	}
	if (strlen(rec->value) >= size)
		return -1;
	memcpy(text, rec->value, strlen(rec->value) + 1);
	return 0;
}

int jail_facts_parse(const char *data, size_t len, struct jail_facts *facts, struct error *err)
{
	static const char *const keys[FACT_COUNT] = {
	    "outcome", "value",	 "elapsed_ms", "memory_peak_bytes", "oom_count", "leftover",
	    "uid",     "limits", "work",       "backend",	    "layers",	 "detail",
	    "next",    "end"};
	struct jail_facts parsed;
	struct record rec;
	int result;

	memset(&parsed, 0, sizeof(parsed));
	result = record_next(&data, &len, "jail facts", &rec, err);
	if (result < 0)
		return result;
	if (!result || !record_is(&rec, "jail_facts") || strcmp(rec.value, "1") != 0)
		return error_set(err, ERROR_USAGE,
				 "jail facts: do not begin with jail_facts=1");
	for (unsigned i = 0; i < FACT_COUNT; i++) {
		result = record_next(&data, &len, "jail facts", &rec, err);
		if (result < 0)
			return result;
		if (!result || !record_is(&rec, keys[i]))
			return error_set(err, ERROR_USAGE, "jail facts: %s is missing",
					 keys[i]);
		if (parse_fact(&parsed, i, &rec) < 0)
			return record_bad(err, "jail facts", &rec);
	}
	if (len)
		return error_set(err, ERROR_USAGE, "jail facts: more behind their end");
	*facts = parsed;
	return 0;
}
