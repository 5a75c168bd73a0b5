/*
 * How the payload's seccomp filter answers each call: the same source as the filter
 * (sandbox/gen_jail_filter.c), tied to it by the program's digest, for those who tell it.
 */
#ifndef SANDBOX_JAIL_ANSWERS_H
#define SANDBOX_JAIL_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jail_answer {
	const char *name;
	int number;
	uint32_t action;       /* SECCOMP_RET_… (seccomp(2)) */
	const char *condition; /* what the arguments must be for it; NULL: nothing */
};

/* Of the filter with that SHA-256, in hex: NULL past the end, and for a filter that is not known. In the order of their
 * numbers; what is not listed is ENOSYS, and a call of another architecture kills. */
const struct jail_answer *jail_answer_at(const char *digest, size_t index);

/* The filter of a jail. */
const char *jail_answers_digest(bool observed);

#endif
