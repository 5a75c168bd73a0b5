/* Fuzz target: path patterns, expressions and attribute files. Input: pattern and text, separated by the first
 * newline. Nothing may crash or take long; a pattern matches itself where it has no special characters. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gitops/attr.h"
#include "gitops/glob.h"
#include "gitops/pathpolicy.h"
#include "gitops/regex.h"
#include "pipeline/base/error.h"
#include "pipeline/base/strbuf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_attributes(const char *text, size_t len, const char *data, size_t size)
{
	struct attr_stack *stack = attr_stack_new();
	struct attr_facts facts;
	struct strbuf out;

	strbuf_init(&out, 1 << 20);
	attr_push(stack, "", data, size);
	attr_push(stack, "d", text, len);
	attr_decide(stack, "d/file.txt", &facts);
	attr_convert(&facts, text, len, "0123456789012345678901234567890123456789", &out);
	attr_stack_free(stack);
	strbuf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *pattern = (const char *)data, *lf = memchr(pattern, '\n', size);
	size_t len = lf ? (size_t)(lf - pattern) : size;
	const char *text = pattern + len + (lf != NULL);
	size_t text_len = size - len - (lf != NULL);
	struct error err = {0};
	struct glob *glob = glob_new(pattern, len, text_len & 1, &err);
	struct regex *regex = regex_new(pattern, len, text_len & 1, &err);

	if (glob) {
		glob_match(glob, text, text_len);
		bool plain = true;
		for (size_t i = 0; i < len; i++)
			plain = plain && !strchr("*?[\\/", pattern[i]) && pattern[i];
		if (plain && !glob_match(glob, pattern, len))
			abort();
	}
	if (regex)
		regex_search(regex, text, text_len);
	glob_free(glob);
	regex_free(regex);
	if (path_check(text, text_len, &err) == 0 &&
	    (!text_len || memchr(text, '\0', text_len) || text[0] == '/'))
		abort();
	try_attributes(text, text_len, pattern, size);
	return 0;
}
