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

static const char *const observed[] = {
    [JAIL_OBSERVE_NONE] = "not observed", [JAIL_OBSERVE_OFF] = "off", [JAIL_OBSERVE_ON] = "on"};

const char *jail_observe_text(enum jail_observe observe)
{
	return (unsigned)observe < ARRAY_LEN(observed) ? observed[observe] : "?";
}

/* ---- egress=PROTO COUNT PORT HOST PROGRAM: what may hold blanks comes last ---- */

static void format_egress(const struct jail_facts *facts, struct strbuf *out)
{
	for (size_t i = 0; i < facts->egress_count; i++) {
		const struct jail_egress *egress = &facts->egress[i];

		strbuf_addf(out, "egress=%s %llu %u %s %s", egress->proto,
			    (unsigned long long)egress->count, egress->port, egress->host,
			    egress->program);
		strbuf_addc(out, '\0');
	}
}

/* The next word of *text, up to its blank, which is passed. 0, or -1 when it is empty, too long or the last. */
static int take_word(const char **text, char *word, size_t size)
{
	size_t len = strcspn(*text, " ");

	if (!len || len >= size || !(*text)[len])
		return -1;
	memcpy(word, *text, len);
	word[len] = '\0';
	*text += len + 1;
	return 0;
}

static int parse_egress(struct jail_facts *facts, const char *text)
{
	struct jail_egress *egress = &facts->egress[facts->egress_count];
	char count[24], port[8];
	uint64_t number;

	if (facts->egress_count == JAIL_EGRESS_MAX ||
	    take_word(&text, egress->proto, sizeof(egress->proto)) < 0 ||
	    take_word(&text, count, sizeof(count)) < 0 ||
	    record_number(count, &egress->count) < 0 ||
	    take_word(&text, port, sizeof(port)) < 0 || record_number(port, &number) < 0 ||
	    number > 65535 || take_word(&text, egress->host, sizeof(egress->host)) < 0 ||
	    !*text || strlen(text) >= sizeof(egress->program))
		return -1;
	egress->port = (unsigned)number;
	memcpy(egress->program, text, strlen(text) + 1);
	facts->egress_count++;
	return 0;
}

static int parse_observe(struct jail_facts *facts, const char *text)
{
	for (unsigned i = 0; i < ARRAY_LEN(observed); i++) {
		if (strcmp(observed[i], text) == 0) {
			facts->observe = (enum jail_observe)i;
			return 0;
		}
	}
	return -1;
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
	record_put(out, "scratch", facts->scratch);
	record_put(out, "layers", facts->layers);
	record_put(out, "detail", facts->detail);
	record_put(out, "next", facts->next);
	record_put(out, "observe", jail_observe_text(facts->observe));
	format_egress(facts, out);
	record_put_number(out, "egress_more", facts->egress_more);
	record_put_number(out, "listeners", facts->listeners);
	record_put(out, "end", "1"); /* last: facts that were cut are no facts */
}

#define FACT_COUNT 18
#define EGRESS_BEFORE 15 /* the fact that follows the list of what was tried */

static int parse_outcome(struct jail_facts *facts, const char *text)
{
	for (unsigned i = 0; i < ARRAY_LEN(outcomes); i++) {
		if (strcmp(outcomes[i], text) == 0) {
			facts->outcome = (enum jail_outcome)i;
			return 0;
		}
	}
	return -1;
}

static int parse_value(struct jail_facts *facts, const char *text)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || *end || end == text || value < INT_MIN || value > INT_MAX)
		return -1;
	facts->value = (int)value;
	return 0;
}

static int parse_fact(struct jail_facts *facts, unsigned index, const char *value)
{
	const struct {
		char *text;
		size_t size;
	} texts[] = {[6] = {facts->uid, sizeof(facts->uid)},
		     [7] = {facts->limits, sizeof(facts->limits)},
		     [8] = {facts->work, sizeof(facts->work)},
		     [9] = {facts->backend, sizeof(facts->backend)},
		     [10] = {facts->scratch, sizeof(facts->scratch)},
		     [11] = {facts->layers, sizeof(facts->layers)},
		     [12] = {facts->detail, sizeof(facts->detail)},
		     [13] = {facts->next, sizeof(facts->next)}};

	switch (index) {
	case 0:
		return parse_outcome(facts, value);
	case 1:
		return parse_value(facts, value);
	case 2:
		return record_number(value, &facts->elapsed_ms);
	case 3:
		return record_number(value, &facts->memory_peak_bytes);
	case 4:
		return record_number(value, &facts->oom_count);
	case 5:
		return record_number(value, &facts->leftover);
	case 14:
		return parse_observe(facts, value);
	case 15:
		return record_number(value, &facts->egress_more);
	case 16:
		return record_number(value, &facts->listeners);
	case 17:
		return strcmp(value, "1") == 0 ? 0 : -1;
	default:
		if (strlen(value) >= texts[index].size)
			return -1;
		memcpy(texts[index].text, value, strlen(value) + 1);
		return 0;
	}
}

int jail_facts_parse(const char *data, size_t len, struct jail_facts *facts, struct error *err)
{
	static const char *const keys[FACT_COUNT] = {
	    "outcome", "value",	 "elapsed_ms", "memory_peak_bytes", "oom_count", "leftover",
	    "uid",     "limits", "work",       "backend",	    "scratch",	 "layers",
	    "detail",  "next",	 "observe",    "egress_more",	    "listeners", "end"};
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
		while ((result = record_next(&data, &len, "jail facts", &rec, err)) > 0 &&
		       i == EGRESS_BEFORE && record_is(&rec, "egress"))
			if (parse_egress(&parsed, rec.value) < 0)
				return record_bad(err, "jail facts", &rec);
		if (result < 0)
			return result;
		if (!result || !record_is(&rec, keys[i]))
			return error_set(err, ERROR_USAGE, "jail facts: %s is missing",
					 keys[i]);
		if (parse_fact(&parsed, i, rec.value) < 0)
			return record_bad(err, "jail facts", &rec);
	}
	if (len)
		return error_set(err, ERROR_USAGE, "jail facts: more behind their end");
	*facts = parsed;
	return 0;
}
