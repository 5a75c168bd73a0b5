/*
 * The commits that a push brings, each measured against its parents by the path policy: what one
 * of them adds and a later one takes away again is in the history all the same, and everybody
 * who fetches the branch has it.
 */
#ifndef GITOPS_HISTORY_H
#define GITOPS_HISTORY_H

#include <stddef.h>

#include "gitops/repo.h"

struct error;
struct policy;

#define HISTORY_COMMITS_MAX 10000	      /* of one push */
#define HISTORY_PARENTS_MAX 64		      /* of one commit */
#define HISTORY_BYTES_MAX ((uint64_t)1 << 30) /* of all changed files of them together */

/*
 * Judges the commits that tip has and none of known (commit ids; "" is none) has, oldest first.
 * Of a merge only those paths count that differ from all its parents: the others are somebody's
 * whose commit is judged by itself or is known. 0; ERROR_NO with the commit and what it did, or
 * which limit it is over; ERROR_FAILED when objects cannot be read.
 */
int history_judge(struct gitops_repo *repo, const struct policy *policy, const char *tip,
		  const char *const *known, size_t known_count, struct error *err);

#endif
