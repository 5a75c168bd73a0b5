/*
 * Secrets in the lines that a change brings: private keys, tokens of well known services by
 * their published prefixes and lengths, and random-looking values that are assigned to a name
 * such as "password" or "api_key". Pure; time follows the bytes. The value itself is never
 * repeated: a finding shows its first four characters at most.
 *
 * Sources of the forms: the services' own documentation of their token formats (GitHub, GitLab,
 * AWS, Google, Slack, Stripe, npm, PyPI, Anthropic, OpenAI and others), RFC 7468 (PEM), RFC 7519
 * (JWT).
 */
#ifndef GITOPS_LEAK_H
#define GITOPS_LEAK_H

#include <stddef.h>

struct leak {
	const char *what; /* "a GitHub token", …; static */
	size_t line;	  /* from 1, in the new bytes */
	char shown[48];	  /* masked: "ghp_… (40 characters)"; printable ASCII */
};

/*
 * Looks at the lines of now that old does not have. Fills found (room for max) in order of
 * lines; returns how many there are, which may be more than max.
 */
size_t leak_find(const char *old, size_t old_len, const char *now, size_t now_len,
		 struct leak *found, size_t max);

#endif
