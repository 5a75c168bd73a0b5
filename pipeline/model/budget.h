/*
 * Tokens are set aside before each call and settled after it. The bound before a call must hold
 * for any text, so that a cap is never passed: a byte-level tokenizer makes at most one token
 * of a byte (and usually one of three or four). From the second call on, what the provider
 * counted for the request before stands for its bytes, and only what was added since counts
 * byte by byte.
 */
#ifndef MODEL_BUDGET_H
#define MODEL_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

struct error;
struct reply;
struct scrub;
struct talk;
struct usage;

/* Tokens that a provider adds of its own for tools and roles, at most. */
#define BUDGET_OVERHEAD 1024

/* Upper bound in tokens of a call whose request has request_bytes. The conversation's last
 * answer by this model with a usage from the server gives the measure; model as in the line's
 * "model". */
long long budget_bound(const struct talk *talk, const char *model, size_t request_bytes,
		       long long max_output_tokens);

/* Sends "reserve", waits for the answer. 0; ERROR_FAILED with what the supervisor says when
 * denied. */
int budget_reserve(long long tokens, struct error *err);

struct budget_sizes {
	size_t request_bytes, reply_bytes;
	long long max_output_tokens;
};

/* Settles the reservation: what the server said or, where it said nothing, an estimate by size
 * (three bytes a token, no more than it may have written), which is put into usage. An answer
 * that never began costs nothing. */
void budget_settle(struct usage *usage, const struct budget_sizes *sizes, bool began,
		   const struct scrub *scrub);

#endif
