/* Path patterns, compared with git's own where git is there to ask. */
#include "fixture.h"

#include "gitops/glob.h"

static bool match(const char *pattern, const char *path)
{
	struct error err = {0};
	struct glob *glob = glob_new(pattern, strlen(pattern), false, &err);

	if (!glob)
		fail_msg("%s", err.message);
	bool result = glob_match(glob, path, strlen(path));
	glob_free(glob);
	return result;
}

static void patterns_match_as_in_gitignore(void **state)
{
	static const struct {
		const char *pattern, *path;
		bool wanted;
	} cases[] = {{"*.c", "a.c", true},
		     {"*.c", "d/e/a.c", true},
		     {"*.c", "a.h", false},
		     {"/*.c", "a.c", true},
		     {"/*.c", "d/a.c", false},
		     {"d/*.c", "d/a.c", true},
		     {"d/*.c", "d/e/a.c", false},
		     {"d/**", "d/e/a.c", true},
		     {"d/**", "x/d/a.c", false},
		     {"**/a.c", "a.c", true},
		     {"**/a.c", "d/e/a.c", true},
		     {"**/a.c", "d/ba.c", false},
		     {"d/**/a.c", "d/a.c", true},
		     {"d/**/a.c", "d/e/f/a.c", true},
		     {"d/**/a.c", "d/xa.c", false},
		     {"a?c", "abc", true},
		     {"d/a?c", "d/a/c", false},
		     {"[abc].x", "b.x", true},
		     {"[!abc].x", "b.x", false},
		     {"[^abc].x", "d.x", true},
		     {"[a-f].x", "e.x", true},
		     {"[]a].x", "].x", true},
		     {"[[:digit:]].x", "5.x", true},
		     {"\\*.c", "*.c", true},
		     {"\\*.c", "a.c", false},
		     {"a*b*c", "aXbYc", true},
		     {"a*b*c", "aXcYb", false},
		     {"d/[/]x", "d//x", false},
		     {"*", "a/b", true},
		     {"**", "a/b/c", true},
		     {"a/**/**/b", "a/b", true},
		     {"a**b", "axxb", true},
		     {"x/a**b", "x/a/b", false}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (match(cases[i].pattern, cases[i].path) != cases[i].wanted)
			fail_msg("'%s' on '%s'", cases[i].pattern, cases[i].path);
}

/* git check-attr with one rule says whether its wildmatch agrees. */
static void random_patterns_agree_with_git(void **state)
{
	static const char *const parts[] = {"a",  "b",	  "*",	  "?",	  "/",
					    "**", "[ab]", "[!a]", "/**/", ".c"};
	static const char *const names[] = {"a", "b", "ab", "/", "c", ".c"};
	struct fixture f;
	unsigned long seed = 12345;

	(void)state;
	fixture_init(&f);
	for (int round = 0; round < 150; round++) {
		char pattern[64] = "", path[64] = "";
		for (int i = 0; i < 4; i++)
			strcat(pattern, parts[(seed = seed * 1103515245 + 12345) / 65536 %
					      ARRAY_LEN(parts)]);
		for (int i = 0; i < 5; i++)
			strcat(path, names[(seed = seed * 1103515245 + 12345) / 65536 %
					   ARRAY_LEN(names)]);
		size_t len = strlen(path);
		if (path[0] == '/' || path[len - 1] == '/' || strstr(path, "//") ||
		    pattern[strlen(pattern) - 1] == '/')
			continue;
		AUTO_FREE char *rule = mem_printf("%s hit\n", pattern);
		AUTO_FREE char *info = mem_printf("%s/info/attributes", f.gitdir);
		int fd = open(info, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		assert_true(fd >= 0);
		assert_int_equal(fd_write_all(fd, rule, strlen(rule)), 0);
		close(fd);
		AUTO_FREE char *answer = GIT(&f, NULL, "check-attr", "hit", "--", path);
		bool wanted = strstr(answer, ": hit: set") != NULL;
		if (match(pattern, path) != wanted)
			fail_msg("'%s' on '%s': git says %d", pattern, path, wanted);
	}
	fixture_release(&f);
}

static void malformed_patterns_are_refused(void **state)
{
	(void)state;
	assert_null(glob_new("", 0, false, NULL));
	assert_null(glob_new("[abc", 4, false, NULL));
	char big[2000];
	memset(big, 'a', sizeof(big));
	assert_null(glob_new(big, sizeof(big), false, NULL));
}

/* The pattern that keeps a backtracking matcher busy for ever. */
static void nasty_patterns_end(void **state)
{
	char path[2001];

	(void)state;
	memset(path, 'a', 2000);
	path[2000] = '\0';
	assert_false(match("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", path));
	assert_false(match("**/a**/a**/a**/a**/a**/a**/b", path));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(patterns_match_as_in_gitignore),
	    cmocka_unit_test(random_patterns_agree_with_git),
	    cmocka_unit_test(malformed_patterns_are_refused),
	    cmocka_unit_test(nasty_patterns_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
