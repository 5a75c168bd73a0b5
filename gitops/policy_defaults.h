/* The built-in rules for protected paths, which gitops/policy.h applies and `agent help protect`
 * prints. */
#ifndef GITOPS_POLICY_DEFAULTS_H
#define GITOPS_POLICY_DEFAULTS_H

#include <stddef.h>

/* "OUTCOME PATTERN" each; static. */
const char *const *policy_defaults(size_t *count);

#endif
