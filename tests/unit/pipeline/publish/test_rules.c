/* Which branch may be written, which verdict counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/publish/rules.h"

#define OURS "1111111111111111111111111111111111111111"
#define EARLIER "2222222222222222222222222222222222222222"
#define THEIRS "3333333333333333333333333333333333333333"
#define REF "refs/heads/agent/x"

static void ref_names_are_judged(void **state)
{
	static const char *const good[] = {"refs/heads/agent/fix-42", "refs/heads/x",
					   "refs/agent/a/b", "refs/heads/a.b_c-D9"};
	static const char *const bad[] = {"",
					  "x",
					  "HEAD",
					  "refs/heads/",
					  "refs/heads/HEAD",
					  "refs/tags/x",
					  "refs/replace/x",
					  "refs/notes/x",
					  "refs/agent/",
					  "refs/heads//x",
					  "refs/heads/x/",
					  "refs/heads/.x",
					  "refs/heads/x/.y",
					  "refs/heads/x.",
					  "refs/heads/x..y",
					  "refs/heads/x.lock",
					  "refs/heads/x.lock/y",
					  "refs/heads/-x",
					  "refs/heads/a/-x",
					  "refs/heads/a b",
					  "refs/heads/a~1",
					  "refs/heads/a^",
					  "refs/heads/a:b",
					  "refs/heads/a?",
					  "refs/heads/a*",
					  "refs/heads/a[",
					  "refs/heads/a\\b",
					  "refs/heads/a@{1}",
					  "refs/heads/$(id)",
					  "refs/heads/a\nb",
					  "refs/heads/\xc3\xa9",
					  "refs/heads/../../config",
					  "refs/headsx/y",
					  "+refs/heads/x",
					  ":refs/heads/x"};
	struct error err = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		if (rules_check_ref(good[i], &err))
			fail_msg("refused: %s", good[i]);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (rules_check_ref(bad[i], &err) != ERROR_USAGE)
			fail_msg("taken: %s", bad[i]);
}

static struct json *verdict(const char *tree, bool green)
{
	struct json *object = js_artefact_new("verdict", 1);

	js_set_str(object, "tree", tree);
	js_set_bool(object, "green", green);
	js_set_str(object, "outcome", "exited");
	return object;
}

static void verdict_counts_only_green_and_for_the_tree(void **state)
{
	struct json *green AUTO_JSON = verdict(OURS, true),
			   *red AUTO_JSON = verdict(OURS, false);
	struct json *other AUTO_JSON = verdict(THEIRS, true),
			   *silent AUTO_JSON = verdict(OURS, true);
	struct json *text AUTO_JSON = verdict(OURS, true),
			  *newer AUTO_JSON = js_artefact_new("verdict", 2);
	struct error err = {0};

	(void)state;
	js_unset(silent, "green");
	js_set_str(text, "green", "true");
	assert_int_equal(rules_check_verdict(green, OURS, &err), 0);
	assert_int_equal(rules_check_verdict(red, OURS, &err), ERROR_NO);
	assert_int_equal(rules_check_verdict(other, OURS, &err), ERROR_FAILED);
	assert_int_equal(rules_check_verdict(silent, OURS, &err), ERROR_NO);
	assert_int_equal(rules_check_verdict(text, OURS, &err), ERROR_NO);
	assert_true(rules_check_verdict(newer, OURS, &err) < 0);
	assert_true(rules_check_verdict(NULL, OURS, &err) < 0);
}

static void decision_for_every_tip(void **state)
{
	static const struct {
		const char *tip, *expect;
		int kind;
		enum rules_action action;
	} cases[] = {
	    {NULL, NULL, 0, RULES_CREATE},	     {OURS, NULL, 0, RULES_ALREADY},
	    {OURS, THEIRS, 0, RULES_ALREADY},	     {EARLIER, NULL, 0, RULES_UPDATE},
	    {EARLIER, THEIRS, 0, RULES_UPDATE},	     {THEIRS, THEIRS, 0, RULES_UPDATE},
	    {THEIRS, NULL, ERROR_NO, RULES_CREATE},  {THEIRS, EARLIER, ERROR_NO, RULES_CREATE},
	    {NULL, EARLIER, ERROR_NO, RULES_CREATE},
	};
	struct json *receipts AUTO_JSON = js_array_new();

	(void)state;
	js_push_str(receipts, "0000000000000000000000000000000000000000");
	js_push_str(receipts, EARLIER);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		enum rules_action action = RULES_CREATE;
		struct error err = {0};

		assert_int_equal(rules_decide(REF, cases[i].tip, OURS, cases[i].expect,
					      receipts, false, "", &action, &err),
				 cases[i].kind);
		assert_int_equal(action, cases[i].action);
		if (cases[i].kind)
			assert_non_null(strstr(err.next, "--branch"));
	}
}

static void decision_without_receipts_leaves_branches_alone(void **state)
{
	enum rules_action action;
	struct error err = {0};

	(void)state;
	assert_int_equal(rules_decide(REF, EARLIER, OURS, NULL, NULL, false, "", &action, &err),
			 ERROR_NO);
	assert_non_null(strstr(err.message,
			       "branch agent/x exists and its tip " EARLIER
			       " was not made by this program for this issue: it is "
			       "left alone"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(ref_names_are_judged),
	    cmocka_unit_test(verdict_counts_only_green_and_for_the_tree),
	    cmocka_unit_test(decision_for_every_tip),
	    cmocka_unit_test(decision_without_receipts_leaves_branches_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
