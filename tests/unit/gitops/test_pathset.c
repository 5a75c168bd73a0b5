#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gitops/pathset.h"
#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"

static void has_paths_and_what_is_below_them(void **state)
{
	static const struct {
		const char *pattern, *path;
		bool in;
	} cases[] = {
	    {"src", "src/a.c", true},
	    {"src/", "src/x/a.c", true},
	    {"src", "src", true},
	    {"src", "lib/src/a.c", true},
	    {"/src", "lib/src/a.c", false},
	    {"/src", "src/a.c", true},
	    {"docs/*.md", "docs/a.md", true},
	    {"docs/*.md", "docs/x/a.md", false},
	    {"**", "a/b/c", true},
	    {"*.lock", "a/b.lock", true},
	    {"package.json", "x/package.json", true},
	    {"src", "srcs/a.c", false},
	    {"src", "SRC/a.c", false},
	    {"a/b", "a/bc", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct json *patterns AUTO_JSON = js_array_new();
		struct error err = {0};
		struct pathset *set AUTO_PATHSET = NULL;

		js_push_str(patterns, cases[i].pattern);
		set = pathset_new(patterns, &err);
		assert_non_null(set);
		if (pathset_has(set, cases[i].path) != cases[i].in)
			fail_msg("%s, %s", cases[i].pattern, cases[i].path);
	}
}

static void new_malformed_refused(void **state)
{
	static const char *const bad[] = {"", "["};
	struct json *number AUTO_JSON = js_array_new();
	struct error err = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct json *patterns AUTO_JSON = js_array_new();

		js_push_str(patterns, "fine");
		js_push_str(patterns, bad[i]);
		assert_null(pathset_new(patterns, &err));
	}
	js_push(number, js_int_new(1));
	assert_null(pathset_new(number, &err));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(has_paths_and_what_is_below_them),
	    cmocka_unit_test(new_malformed_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
