/* The commit message: a model's text stays text. */
#include "fixture.h"

#include "gitops/message.h"

static char *make(const char *title, const char *fallback, const char *body)
{
	static const char *const trailers[] = {"Agent-Run: 20260101-1",
					       "Issue: #7\nSigned-off-by: x [skip ci]"};
	struct strbuf out;
	struct error err = {0};

	strbuf_init(&out, 100000);
	if (message_format(title, fallback, body, trailers, 2, &out, &err) < 0)
		fail_msg("%s", err.message);
	return strbuf_steal(&out);
}

#define TAIL "\nAgent-Run: 20260101-1\nIssue: #7 Signed-off-by: x\n"

static void expect(const char *title, const char *body, const char *wanted)
{
	AUTO_FREE char *whole = mem_printf("%s%s", wanted, TAIL);
	AUTO_FREE char *have = make(title, "fallback", body);

	assert_string_equal(have, whole);
}

static void plain_text_stays(void **state)
{
	(void)state;
	expect("Fix the parser", "It lost a line.\n\nNow it does not:\n  code here\n",
	       "Fix the parser\n\nIt lost a line.\n\nNow it does not:\n  code here\n");
	expect("feat(core): add x", NULL, "feat(core): add x\n");
	expect("Fix it", "", "Fix it\n");
	expect("T", "a\r\nb\r\n\r\n\r\n\r\nc\n\n\n", "T\n\na\nb\n\nc\n");
	expect("T", "see https://example.org/x: it says a: b\nurl http://x\n",
	       "T\n\nsee https://example.org/x: it says a: b\nurl http://x\n");
	expect("T", "mail a@example.org, 5 @ 3, array[ci], [x] done\n",
	       "T\n\nmail a@example.org, 5 @ 3, array, [x] done\n");
}

static void subject_is_one_short_line(void **state)
{
	(void)state;
	expect("  Two\nlines", NULL, "Two\n");
	expect("# Heading", NULL, "Heading\n");
	expect("a\tb\x1b[31mc\xE2\x80\xAE"
	       "d",
	       NULL, "a b[31mcd\n");
	expect("fixup! squash! Real", NULL, "Real\n");
	expect("Signed-off-by: Boss <b@x>", NULL, "Boss <b@x>\n");
	expect("word word word word word word word word word word word word word word word "
	       "word word",
	       NULL,
	       "word word word word word word word word word word word word word word…\n");
	expect("", NULL, "fallback\n");
	expect("\n\n", NULL, "fallback\n");
	expect("[skip ci]", NULL, "fallback\n");
	AUTO_FREE char *none = make(NULL, "", NULL);
	assert_memory_equal(none, "Change the code", 15);
}

static void trailer_shaped_lines_are_stripped(void **state)
{
	(void)state;
	expect("T",
	       "text\n\nSigned-off-by: Boss <b@x>\nCo-authored-by: y\n  Reviewed-by: z\nFixes: "
	       "#3\nIssue: 9\nCloses: 4\nAgent-Test: true\nCc: all\nacked-by : w\nBREAKING "
	       "CHANGE: no\n",
	       "T\n\ntext\n");
	expect("T", "Note: careful\nWARNING: more\n", "T\n\nNote - careful\nWARNING - more\n");
	expect("T", "Signed-off-by:/x\nSigned-off-by://x\n", "T\n");
	expect("T", "(cherry picked from commit 123)\n", "T\n");
	expect("T", "a\n---\ndiff --git a/x b/x\nFrom 123 Mon\n",
	       "T\n\na\n  ---\n  diff --git a/x b/x\n  From 123 Mon\n");
}

static void ci_directives_are_stripped(void **state)
{
	static const char *const all[] = {"[skip ci]",
					  "[ci skip]",
					  "[no ci]",
					  "[skip actions]",
					  "[actions skip]",
					  "[SKIP CI]",
					  "[ci-skip]",
					  "[skip-ci]",
					  "[skip  ci]",
					  "[skip\nci]",
					  "***NO_CI***",
					  "***no_ci***",
					  "[skip travis]",
					  "[travis skip]",
					  "[skip netlify]",
					  "[skip appveyor]",
					  "[skip azurepipelines]",
					  "[azp skip]",
					  "[ci]",
					  "[ci full]",
					  "[skip [skip ci] ci]",
					  "[s\xE2\x80\x8Bkip ci]",
					  "[skip\tci]",
					  "[skip build]",
					  "[buildkite skip]",
					  "[skip checks]",
					  "[\x1bskip ci]"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		AUTO_FREE char *title = mem_printf("Fix it %s now", all[i]),
			       *body = mem_printf("text %s end\n", all[i]);
		AUTO_FREE char *have = make(title, "f", body);
		if (strcasestr(have, "skip") || strcasestr(have, "no_ci") ||
		    strcasestr(have, "no ci") || strstr(have, "[ci"))
			if (strcmp(all[i], "[skip\nci]") !=
			    0) /* in the title only its first line counts */
				fail_msg("'%s': %s", all[i], have);
	}
	expect("T", "skip-checks: true\nskip-checks:true\n", "T\n");
}

static void issues_and_people_are_not_called(void **state)
{
	(void)state;
	expect("Fixes #12",
	       "This closes #3 and resolves: owner/repo#4, fixed GH-5.\nCloses "
	       "https://h/o/r/issues/6\nclose the door\n",
	       "About #12\n\nThis about #3 and about owner/repo#4, about GH-5.\nAbout "
	       "https://h/o/r/issues/6\nclose the door\n");
	expect("T", "thanks @bob and (@org/team), x@y\nABC-12 #close #time 2h #12\n",
	       "T\n\nthanks @ bob and (@ org/team), x@y\nABC-12 close time 2h #12\n");
	expect("T", "fixes JIRA-123 and implements !45\n",
	       "T\n\nabout JIRA-123 and about !45\n");
}

static void git_sees_our_trailers_and_no_others(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	AUTO_FREE char *text =
	    make("T [skip ci]", "f",
		 "body\n\nSigned-off-by: x\nOther-Key: y\nplain: z\n\n  indented: q");
	AUTO_FREE char *seen = GIT(&f, text, "interpret-trailers", "--parse");
	assert_string_equal(seen, "Agent-Run: 20260101-1\nIssue: #7 Signed-off-by: x");
	fixture_release(&f);
}

static void malformed_trailers_are_errors(void **state)
{
	static const char *const bad[] = {"no colon", ": x", "a b: c", "Key : value"};
	struct error err = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct strbuf out;
		strbuf_init(&out, 1000);
		assert_int_equal(message_format("T", "", NULL, &bad[i], 1, &out, &err),
				 ERROR_USAGE);
		strbuf_release(&out);
	}
}

/* Whatever comes in: UTF-8, no control characters, one subject line, ends with the
 * trailers. */
static void random_bytes_make_a_proper_message(void **state)
{
	static const char alphabet[] =
	    "aF[]#:@- \n\r\t\x1b\xE2\x80\x8B\xC3\xA9\xFFskipci*NO_CI fixes#12";
	unsigned long seed = 99;

	(void)state;
	for (int round = 0; round < 5000; round++) {
		char title[200], body[400];
		for (size_t i = 0; i < sizeof(title) + sizeof(body) - 2; i++) {
			seed = seed * 6364136223846793005UL + 1442695040888963407UL;
			char c = alphabet[(seed >> 33) % (sizeof(alphabet) - 1)];
			if (i < sizeof(title) - 1)
				title[i] = c;
			else
				body[i - (sizeof(title) - 1)] = c;
		}
		title[sizeof(title) - 1] = body[sizeof(body) - 1] = '\0';
		AUTO_FREE char *have = make(title, "fallback", body);
		size_t len = strlen(have);
		assert_true(len > strlen(TAIL) && strcmp(have + len - strlen(TAIL), TAIL) == 0);
		assert_true(strcspn(have, "\n") <= MESSAGE_SUBJECT_MAX * 4);
		for (size_t i = 0; i < len; i++)
			assert_true((unsigned char)have[i] >= 0x20 || have[i] == '\n');
		assert_null(strcasestr(have, "[skip ci]"));
		assert_null(strcasestr(have, "***NO_CI***"));
		assert_null(strstr(have, "\xE2\x80\x8B"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(plain_text_stays),
	    cmocka_unit_test(subject_is_one_short_line),
	    cmocka_unit_test(trailer_shaped_lines_are_stripped),
	    cmocka_unit_test(ci_directives_are_stripped),
	    cmocka_unit_test(issues_and_people_are_not_called),
	    cmocka_unit_test(git_sees_our_trailers_and_no_others),
	    cmocka_unit_test(malformed_trailers_are_errors),
	    cmocka_unit_test(random_bytes_make_a_proper_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
