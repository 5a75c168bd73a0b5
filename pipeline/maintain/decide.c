#include "decide.h"

#include <stdio.h>
#include <string.h>

#include "pipeline/base/mem.h"

enum outcome outcome_parse(const char *text)
{
	static const char *const words[] = {"",	       "running", "published",
					    "nothing", "refused", "failed"};

	for (size_t i = 1; i < ARRAY_LEN(words); i++)
		if (strcmp(text, words[i]) == 0)
			return (enum outcome)i;
	return OUTCOME_NONE;
}

enum proposal proposal_parse(const char *text)
{
	static const char *const words[] = {"", "open", "merged", "closed"};

	for (size_t i = 1; i < ARRAY_LEN(words); i++)
		if (strcmp(text, words[i]) == 0)
			return (enum proposal)i;
	return PROPOSAL_NONE;
}

static bool is_unfinished(const struct decide_facts *facts)
{
	return (facts->outcome == OUTCOME_RUNNING && facts->attempts < DECIDE_KILLED) ||
	       (facts->outcome == OUTCOME_FAILED && facts->attempts < DECIDE_ATTEMPTS);
}

enum decision decide(const struct decide_facts *facts, char *reason, size_t size)
{
	reason[0] = '\0';
	if (facts->disabled) {
		snprintf(reason, size, "switched off (enabled: no)");
		return DECIDE_SKIP;
	}
	if (is_unfinished(facts))
		return DECIDE_RESUME;
	if (facts->by_clock && (facts->due < 0 || facts->now < facts->due))
		return DECIDE_WAIT;
	if (facts->proposal == PROPOSAL_OPEN) {
		snprintf(reason, size, "%s is open and not merged yet", facts->branch);
		return DECIDE_SKIP;
	}
	if (facts->again)
		return DECIDE_RUN;
	if (facts->proposal == PROPOSAL_CLOSED && facts->same_as_proposal) {
		snprintf(reason, size,
			 "a person closed %s, and nothing that the task sees has changed "
			 "since (--again runs it)",
			 facts->branch);
		return DECIDE_SKIP;
	}
	if (facts->outcome == OUTCOME_NOTHING && facts->same_as_run && !facts->outside) {
		snprintf(reason, size,
			 "there was nothing to do, and nothing that the task sees has changed "
			 "since (--again runs it)");
		return DECIDE_SKIP;
	}
	return DECIDE_RUN;
}
