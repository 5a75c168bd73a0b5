/*
 * Whether a task is run now, and if not, why not. Pure: all that counts is in the facts.
 */
#ifndef MAINTAIN_DECIDE_H
#define MAINTAIN_DECIDE_H

#include <stdbool.h>
#include <stddef.h>

#define DECIDE_ATTEMPTS                                                                        \
	3 /* of a run that fails outside of the change, before the next occurrence */

#define DECIDE_KILLED 10 /* of one whose agent maintain is killed */

enum decision {
	DECIDE_WAIT,   /* its time has not come */
	DECIDE_SKIP,   /* it is not to be run; this occurrence is dealt with */
	DECIDE_RUN,    /* a new run */
	DECIDE_RESUME, /* the run that was begun has not come to its end */
};

/* What became of its last run, and of what it proposed. */
enum outcome {
	OUTCOME_NONE,
	OUTCOME_RUNNING,
	OUTCOME_PUBLISHED,
	OUTCOME_NOTHING,
	OUTCOME_REFUSED,
	OUTCOME_FAILED
};
enum proposal { PROPOSAL_NONE, PROPOSAL_OPEN, PROPOSAL_MERGED, PROPOSAL_CLOSED };

struct decide_facts {
	bool by_clock; /* --due: only what is due */
	bool again;    /* --again: what was closed, or came to nothing, too */
	bool disabled;
	long long now, due; /* seconds since 1970; due -1: by no schedule */
	enum outcome outcome;
	long long attempts; /* of the last run */
	enum proposal proposal;
	const char *branch; /* of the proposal, for the reason */
	bool same_as_run;   /* it would see what its last run saw */
	bool same_as_proposal;
	bool
	    outside; /* what it does depends on more than it sees: a command that reaches registries */
};

/* reason: one line, "" where there is none to give. */
enum decision decide(const struct decide_facts *facts, char *reason, size_t size);

enum outcome
outcome_parse(const char *text); /* of the record; OUTCOME_NONE for anything else */
enum proposal proposal_parse(const char *text);

#endif
