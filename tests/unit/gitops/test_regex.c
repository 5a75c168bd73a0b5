/* Regular expressions for searches, compared with libc's where the syntax is the same. */
#include "fixture.h"

#include <regex.h>

#include "gitops/regex.h"

static int search(const char *pattern, const char *line, bool ignore_case)
{
	struct error err = {0};
	struct regex *regex = regex_new(pattern, strlen(pattern), ignore_case, &err);

	if (!regex)
		return -1;
	int found = regex_search(regex, line, strlen(line));
	regex_free(regex);
	return found;
}

static void expressions_match_as_written(void **state)
{
	static const struct {
		const char *pattern, *line;
		int wanted;
	} cases[] = {{"abc", "xxabcxx", 1},
		     {"^abc$", "abc", 1},
		     {"^abc$", "abcd", 0},
		     {"a.c", "abc", 1},
		     {"a|b", "xb", 1},
		     {"(ab)+c", "ababc", 1},
		     {"ab?c", "ac", 1},
		     {"a{2,3}b", "aab", 1},
		     {"^a{2,3}b", "ab", 0},
		     {"^a{2,3}b", "aaaab", 0},
		     {"a{0}b", "b", 1},
		     {"^a{2}$", "aa", 1},
		     {"^a{2,}$", "aaaaa", 1},
		     {"^(a|bc){2}$", "bca", 1},
		     {"\\bfoo\\b", "a foo b", 1},
		     {"\\bfoo\\b", "afoo", 0},
		     {"\\Bfoo", "afoo", 1},
		     {"\\d+\\s\\w", "12 x", 1},
		     {"\\D", "123", 0},
		     {"[^0-9]", "123", 0},
		     {"[a-f]x", "ex", 1},
		     {"[]x]", "]", 1},
		     {"[[:alpha:]]+", "123a", 1},
		     {"[\\d.]+x", "1.5x", 1},
		     {"\\.c", "a.c", 1},
		     {"\\.c", "abc", 0},
		     {"a**", "b", 1},
		     {"a+?b", "aab", 1},
		     {"(?:a|b)c", "bc", 1},
		     {"x*", "", 1},
		     {"^$", "", 1},
		     {"$^", "", 1},
		     {"a{", "a{", 1},
		     {"a{x}", "a{x}", 1},
		     {"\\x41", "A", 1},
		     {"foo\\(", "foo(", 1},
		     {"a||b", "zzz", 1},
		     {"()", "x", 1},
		     {"(a|b|c|d)+e", "abcde", 1},
		     {"a{1,2}{2}c", "aac", 1},
		     {"int \\w+\\(", "static int foo(void)", 1},
		     {"[^]]", "]", 0},
		     {"[a\\]b]", "]", 1},
		     {"}", "}", 1},
		     {"]", "]", 1}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (search(cases[i].pattern, cases[i].line, false) != cases[i].wanted)
			fail_msg("'%s' on '%s'", cases[i].pattern, cases[i].line);
	assert_int_equal(search("FoO[a-c]", "xfoOB", true), 1);
	assert_int_equal(search("FoO", "xfoO", false), 0);
}

static void malformed_expressions_are_refused(void **state)
{
	static const char *const bad[] = {
	    "",
	    "(",
	    ")",
	    "a)",
	    "(a",
	    "[",
	    "[a",
	    "*",
	    "+a",
	    "a{3,2}",
	    "a{1,2000}",
	    "\\",
	    "\\1",
	    "(?=a)",
	    "(?<n>a)",
	    "\\q",
	    "[b-a]",
	    "((((((((((((((((((((((((((((((((((((((((((((((((((((((((a",
	    "(((a{1000}){1000}){1000})"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (search(bad[i], "x", false) != -1)
			fail_msg("'%s' was taken", bad[i]);
}

static void random_expressions_agree_with_libc(void **state)
{
	static const char *const parts[] = {"a", "b",	 ".",	 "*", "+", "?",	  "|",	   "(",
					    ")", "[ab]", "[^a]", "^", "$", "{2}", "{0,1}", "c"};
	unsigned long seed = 4711;
	int compared = 0;

	(void)state;
	for (int round = 0; round < 30000; round++) {
		char pattern[64] = "", line[16] = "";
		regex_t libc;
		for (int i = 0; i < 6; i++)
			strcat(pattern, parts[(seed = seed * 6364136223846793005UL +
						      1442695040888963407UL) >>
						  40 &
					      15]);
		for (int i = 0; i < 7; i++)
			strncat(line,
				&"abcab"[((seed = seed * 6364136223846793005UL +
						  1442695040888963407UL) >>
					  40) %
					 5],
				1);
		/* where POSIX leaves the meaning open, or libc differs from everybody */
		if (strstr(pattern, "|*") || strstr(pattern, "(*") || strstr(pattern, "^*") ||
		    strstr(pattern, "(+") || strstr(pattern, "(?") || strstr(pattern, "({") ||
		    strstr(pattern, "|{") || strstr(pattern, "^{") || strstr(pattern, "^+") ||
		    strstr(pattern, "^?") || strstr(pattern, "$+") || strstr(pattern, "${") ||
		    strstr(pattern, "*?") || strstr(pattern, "+?") || strstr(pattern, "??") ||
		    strstr(pattern, "}?") || pattern[0] == '{' || strstr(pattern, "()") ||
		    strstr(pattern, "(|"))
			continue;
		if (regcomp(&libc, pattern, REG_EXTENDED | REG_NOSUB) != 0)
			continue;
		int wanted = regexec(&libc, line, 0, NULL, 0) == 0,
		    have = search(pattern, line, false);
		regfree(&libc);
		if (have == -1)
			continue;
		compared++;
		if (have != wanted)
			fail_msg("'%s' on '%s': %d instead of %d", pattern, line, have, wanted);
	}
	assert_true(compared > 3000);
}

static void nasty_expressions_end(void **state)
{
	char line[20001];

	(void)state;
	memset(line, 'a', 20000);
	line[20000] = '\0';
	assert_int_equal(search("(a*)*b", line, false), 0);
	assert_int_equal(search("(a|aa)+$b", line, false), 0);
	assert_int_equal(search("(.*.*.*.*.*.*)x", line, false), 0);
	assert_int_equal(search("a{500}a{500}b", line, false), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(expressions_match_as_written),
	    cmocka_unit_test(malformed_expressions_are_refused),
	    cmocka_unit_test(random_expressions_agree_with_libc),
	    cmocka_unit_test(nasty_expressions_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
