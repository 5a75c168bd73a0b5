/* Which paths a change may name. */
#include "fixture.h"

#include "gitops/pathpolicy.h"

static void ordinary_paths_are_allowed(void **state)
{
	static const char *const good[] = {"a",
					   "a/b/c.txt",
					   ".gitignore",
					   ".gitattributes",
					   ".github/workflows/x.yml",
					   "git/x",
					   "a.git/config",
					   ".gitx",
					   "..a",
					   "a..b",
					   "...x",
					   "with blank/x y",
					   "\xC3\xA9/\xE6\x97\xA5\xE6\x9C\xAC.txt",
					   "e\xCC\x81.txt",
					   "-rf",
					   "a'b\"c",
					   "git~x",
					   "gitmod",
					   "con",
					   "aux.c",
					   "~/x",
					   "$(id)",
					   "a;b|c",
					   "gi7eba",
					   "digit",
					   ".gi",
					   ".agent/config"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct error err = {0};
		if (path_check(good[i], strlen(good[i]), &err) != 0)
			fail_msg("'%s': %s", good[i], err.message);
	}
}

static void dangerous_paths_are_refused(void **state)
{
	static const char *const bad[] = {"",
					  "/",
					  "/etc/passwd",
					  "a//b",
					  "a/",
					  "/a",
					  "./a",
					  "a/./b",
					  "../a",
					  "a/../b",
					  "a/..",
					  "..",
					  ".",
					  ".git",
					  ".GIT",
					  ".Git/config",
					  "a/.git/x",
					  ".git/hooks/pre-commit",
					  ".git ",
					  ".git.",
					  ".git. . ",
					  ".git::$INDEX_ALLOCATION",
					  ".git:x",
					  "git~1",
					  "GIT~1/config",
					  "a/git~12/x",
					  ".g\xE2\x80\x8Cit/x",
					  ".gi\xE2\x80\x8Dt",
					  "\xEF\xBB\xBF.git",
					  ".git\xE2\x80\xAE",
					  "\xEF\xBC\x8Egit",
					  ".\xEF\xBD\x87it",
					  ".\xEF\xBD\x87\xEF\xBD\x89\xEF\xBD\x94/x",
					  ".g\xC4\xB1t",
					  ".g\xC4\xB0t",
					  ".g\xE1\xB5\xA2t",
					  ".\xE2\x84\x8Ait",
					  "\xE2\x80\xA4git",
					  ".\xF0\x9D\x90\xA0\xF0\x9D\x90\xA2\xF0\x9D\x90\xAD",
					  ".gi\xCC\x81t",
					  ".gitmodules",
					  ".GITMODULES",
					  "a/.gitmodules",
					  ".gitmodules.",
					  "gitmod~1",
					  "GI7EBA~1",
					  "a\\b",
					  "..\\x",
					  "C:x",
					  "a:b",
					  "a\nb",
					  "a\tb",
					  "a\x1b[2Jb",
					  "a\x7f",
					  "a\xC2\x9B"
					  "b",
					  "a\xE2\x80\xAE"
					  "b",
					  "a\xE2\x81\xA6"
					  "b",
					  "a\xE2\x80\xA8"
					  "b",
					  "a\xFF",
					  "\xC3",
					  "a./b",
					  "a /b",
					  "b ",
					  "b.",
					  "x\xEF\xBF\xB9y"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct error err = {0};
		if (path_check(bad[i], strlen(bad[i]), &err) != ERROR_NO)
			fail_msg("'%s' was allowed", bad[i]);
		assert_true(strlen(err.message) > 0);
		for (const char *c = err.message; *c; c++)
			assert_true((unsigned char)*c >= 0x20);
	}
	assert_int_equal(path_check("a\0b", 3, NULL), ERROR_NO);
}

static void long_and_deep_paths_are_refused(void **state)
{
	char path[5000];

	(void)state;
	memset(path, 'a', sizeof(path));
	assert_int_equal(path_check(path, 255, NULL), 0);
	assert_int_equal(path_check(path, 256, NULL), ERROR_NO);
	for (size_t i = 100; i < sizeof(path); i += 101)
		path[i] = '/';
	assert_int_equal(path_check(path, 4000, NULL), 0);
	assert_int_equal(path_check(path, 4096, NULL), ERROR_NO);
	for (size_t i = 0; i < 250; i++)
		path[i] = i % 2 ? '/' : 'a';
	assert_int_equal(path_check(path, 199, NULL), 0);	 /* 100 components */
	assert_int_equal(path_check(path, 201, NULL), ERROR_NO); /* 101 */
}

static void tidy_mends_spelling_and_no_more(void **state)
{
	static const char *const pairs[][2] = {
	    {"./a/b", "a/b"},  {"././/a", "a"}, {"a//b///c", "a/b/c"},
	    {"a/b/", "a/b"},   {".", ""},	{"./", ""},
	    {"", ""},	       {"/a", "/a"},	{"../a", "../a"},
	    {"a/./b", "a/./b"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		struct strbuf out;
		strbuf_init(&out, 100);
		path_tidy(pairs[i][0], &out);
		assert_string_equal(out.data, pairs[i][1]);
		strbuf_release(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(ordinary_paths_are_allowed),
	    cmocka_unit_test(dangerous_paths_are_refused),
	    cmocka_unit_test(long_and_deep_paths_are_refused),
	    cmocka_unit_test(tidy_mends_spelling_and_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
