/*
 * Regular expressions for searches that a model asks for. The expression is hostile, so
 * matching is by a set of states: time in proportion to text times expression, no
 * back-references, no look-around.
 *
 * Syntax, on bytes: literals, '.', [sets], ^ $ \b \B, \d \w \s and their opposites, \t \n \r
 * \xHH, (groups), (?:groups), a|b, * + ? {m} {m,} {m,n} (also with a lazy '?' behind, which
 * changes nothing here). Pure.
 */
#ifndef GITOPS_REGEX_H
#define GITOPS_REGEX_H

#include <stdbool.h>
#include <stddef.h>

struct error;
struct regex;

#define REGEX_BYTES_MAX 1000  /* of an expression */
#define REGEX_STATES_MAX 4000 /* after counted repetitions are written out */

/* NULL with err (ERROR_USAGE) saying where and why. */
struct regex *regex_new(const char *text, size_t len, bool ignore_case, struct error *err);
void regex_free(struct regex *regex); /* NULL is fine */
void regex_free_ptr(struct regex **regex);
#define AUTO_REGEX __attribute__((cleanup(regex_free_ptr)))

/* Whether the expression matches anywhere in the line. */
bool regex_search(struct regex *regex, const char *line, size_t len);

#endif
