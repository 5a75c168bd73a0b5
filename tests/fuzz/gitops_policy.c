/* Fuzz target: what is decided about a change. Input: path, old and new content, separated by the first two NUL bytes.
 * Nothing may crash; a finding lies in the file and is masked; names that are one when folded are one both ways, and a
 * name is one with itself. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gitops/leak.h"
#include "gitops/pathfold.h"
#include "gitops/pathpolicy.h"
#include "gitops/policy.h"
#include "gitops/tamper.h"
#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
	if (!holds)
		abort();
}

static size_t lines(const char *text, size_t len)
{
	size_t count = 1;

	for (size_t i = 0; i < len; i++)
		count += text[i] == '\n';
	return count;
}

static void try_content(const char *path, const char *old, size_t old_len, const char *now,
			size_t now_len)
{
	struct leak leaks[4];
	struct tamper found[TAMPER_KIND_COUNT];
	struct tamper_file file = {path, old, now, old_len, now_len, false};
	size_t count = leak_find(old, old_len, now, now_len, leaks, 4);

	for (size_t i = 0; i < count && i < 4; i++) {
		must(leaks[i].line >= 1 && leaks[i].line <= lines(now, now_len));
		must(strlen(leaks[i].shown) < sizeof(leaks[i].shown));
	}
	must(leak_find(now, now_len, now, now_len, leaks, 4) == 0);
	count = tamper_find(&file, found);
	for (size_t i = 0; i < count; i++)
		must(!found[i].text ||
		     (found[i].text >= now && found[i].text + found[i].len <= now + now_len) ||
		     (found[i].text >= old && found[i].text + found[i].len <= old + old_len));
	must(tamper_find(&(struct tamper_file){path, now, now, now_len, now_len, true},
			 found) <= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct policy *policy;
	struct error err = {0};
	const char *text = (const char *)data, *first = memchr(text, '\0', size);
	char *path = mem_strndup(text, first ? (size_t)(first - text) : size);
	size_t path_len = strlen(path);
	const char *old = first ? first + 1 : "";
	size_t rest = first ? size - path_len - 1 : 0;
	const char *second = memchr(old, '\0', rest);
	size_t old_len = second ? (size_t)(second - old) : rest;
	const char *now = second ? second + 1 : "";

	if (!policy)
		policy = policy_new(NULL, &err);
	must(policy != NULL);
	policy_outcome(policy, path, NULL);
	if (path_check(path, path_len, &err) == 0)
		must(path_same_fold(path, path_len, path, path_len) ||
		     !text_is_utf8(path, path_len));
	must(path_same_fold(path, path_len, old, old_len) ==
	     path_same_fold(old, old_len, path, path_len));
	try_content(path, old, old_len, now, second ? rest - old_len - 1 : 0);
	free(path);
	return 0;
}
