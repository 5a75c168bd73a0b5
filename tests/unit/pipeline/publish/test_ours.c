/* The line by which a signed commit says which issue it was made for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/base/mem.h"
#include "pipeline/publish/ours.h"

#define ISSUE "0123456789abcdef0123456789abcdef"
#define HEAD "tree x\nauthor a <a@x> 1 +0000\n\n"

static void issue_is_named_in_the_last_paragraph_alone(void **state)
{
	static const struct {
		const char *text;
		bool named;
	} cases[] = {
	    {HEAD "S\n\nAgent-Issue: " ISSUE "\n", true},
	    {HEAD "S\n\nAgent-Run: 1\nAgent-Issue: " ISSUE "\nIssue: x\n", true},
	    {HEAD "S\n\nAgent-Issue: " ISSUE "\n\n", true},
	    {HEAD "S\n\nAgent-Issue: " ISSUE "\n\nAgent-Run: 1\n", false},
	    {HEAD "S\n\nAgent-Issue: " ISSUE, false},
	    {HEAD "S\n\nAgent-Issue: " ISSUE "0\n", false},
	    {HEAD "S\n\nAgent-Issue: 0" ISSUE "\n", false},
	    {HEAD "S\n\nx Agent-Issue: " ISSUE "\n", false},
	    {HEAD "S\n\nagent-issue: " ISSUE "\n", false},
	    {"tree x\nAgent-Issue: " ISSUE "\n\nS\n", false},
	    {HEAD "S\n", false},
	    {"", false},
	    {"\n\n", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (ours_names_issue(cases[i].text, strlen(cases[i].text), ISSUE) !=
		    cases[i].named)
			fail_msg("case %zu: %s", i, cases[i].text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(issue_is_named_in_the_last_paragraph_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
