#include "pathset.h"

#include <stdlib.h>
#include <string.h>

#include "gitops/glob.h"
#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"

struct pathset {
	struct glob **globs; /* owned */
	size_t count;
};

void pathset_free(struct pathset *set)
{
	for (size_t i = 0; set && i < set->count; i++)
		glob_free(set->globs[i]);
	if (set)
		free(set->globs);
	free(set);
}

void pathset_free_ptr(struct pathset **set)
{
	pathset_free(*set);
}

struct pathset *pathset_new(const struct json *patterns, struct error *err)
{
	struct pathset *set AUTO_PATHSET = mem_calloc(1, sizeof(*set));
	size_t count = js_len(patterns);

	set->globs = mem_calloc(count + 1, sizeof(*set->globs));
	for (size_t i = 0; i < count; i++) {
		const char *text = js_text(js_at(patterns, i));
		size_t len = text ? strlen(text) : 0;

		/* "src/" is src, and all that is in it */
		while (len > 1 && text[len - 1] == '/')
			len--;
		set->globs[i] = glob_new(text ? text : "", len, false, err);
		if (!set->globs[i])
			return NULL;
		set->count++;
	}
	return MEM_STEAL(set);
}

size_t pathset_len(const struct pathset *set)
{
	return set ? set->count : 0;
}

bool pathset_has(const struct pathset *set, const char *path)
{
	for (size_t len = strcspn(path, "/");; len += 1 + strcspn(path + len + 1, "/")) {
		for (size_t i = 0; i < set->count; i++)
			if (glob_match(set->globs[i], path, len))
				return true;
		if (!path[len])
			return false;
	}
}
