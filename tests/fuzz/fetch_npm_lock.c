/* Fuzz target: lock files and .npmrc. Whatever is accepted names only paths inside. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/text.h"
#include "pipeline/fetch/inside.h"
#include "pipeline/fetch/npm_lock.h"

static void check_list(char **list)
{
	for (char **path = list; *path; path++)
		if (!inside_path(*path))
			abort();
	text_free_words(list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const hosts[] = {"registry.example:443", NULL};
	const struct npm_lint lint = {hosts, NULL};
	struct error err = {0};
	struct json *lock = js_parse((const char *)data, size, 65536, "lock", &err);
	char *settings = npm_lock_settings((const char *)data, size);

	if (strpbrk(settings, "$/:@") || strstr(settings, "git"))
		abort();
	free(settings);
	if (lock && npm_lock_lint(lock, "package-lock.json", &lint, &err) == 0) {
		check_list(npm_lock_members(lock));
		check_list(npm_lock_required(lock));
	}
	if (lock)
		check_list(npm_lock_bins(lock));
	js_free(lock);
	return 0;
}
