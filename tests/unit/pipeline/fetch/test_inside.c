/* Paths that must stay below a directory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "pipeline/fetch/inside.h"

static void inside_path_relative_paths_are_taken(void **state)
{
	(void)state;
	assert_true(inside_path("a"));
	assert_true(inside_path("a/b/c.json"));
	assert_true(inside_path("**/Cargo.toml"));
	assert_true(inside_path(".npm/_cacache"));
	assert_true(inside_path("..a/b..c/.gitignore"));
}

static void inside_path_ways_out_are_refused(void **state)
{
	char longest[1100];

	(void)state;
	assert_false(inside_path(""));
	assert_false(inside_path("/a"));
	assert_false(inside_path(".."));
	assert_false(inside_path("a/../b"));
	assert_false(inside_path("a/.."));
	assert_false(inside_path("./a"));
	assert_false(inside_path("a//b"));
	assert_false(inside_path("a/"));
	assert_false(inside_path(".git"));
	assert_false(inside_path("a/.GIT/hooks"));
	assert_false(inside_path("a\\b"));
	assert_false(inside_path("a\nb"));
	assert_false(inside_path("a\x7f"));
	memset(longest, 'a', sizeof(longest));
	longest[1025] = 0;
	assert_false(inside_path(longest));
	longest[1024] = 0;
	assert_true(inside_path(longest));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(inside_path_relative_paths_are_taken),
	    cmocka_unit_test(inside_path_ways_out_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
