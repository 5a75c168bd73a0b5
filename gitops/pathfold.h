/*
 * Names that are one on file systems that ignore case or Unicode normalisation, by utf8proc,
 * whose only owner this is.
 */
#ifndef GITOPS_PATHFOLD_H
#define GITOPS_PATHFOLD_H

#include <stdbool.h>
#include <stddef.h>

/* Whether two components are one name on a file system that ignores case and Unicode
 * normalisation (UAX #15: canonical; full case folding). */
bool path_same_fold(const char *a, size_t a_len, const char *b, size_t b_len);

#endif
