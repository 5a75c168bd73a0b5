/* Whether a task is run: every reason for and against. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/maintain/decide.h"

static void expect(const struct decide_facts *facts, enum decision wanted, const char *why)
{
	char reason[400];

	assert_int_equal(decide(facts, reason, sizeof(reason)), wanted);
	if (!strstr(reason, why))
		fail_msg("%s is not in: %s", why, reason);
}

static const struct decide_facts due = {
    .by_clock = true, .now = 1000, .due = 900, .branch = "agent/maintain-x"};

static void clock_waits_and_runs(void **state)
{
	struct decide_facts facts = due;

	(void)state;
	expect(&facts, DECIDE_RUN, "");
	facts.due = 1000;
	expect(&facts, DECIDE_RUN, "");
	facts.due = 1001;
	expect(&facts, DECIDE_WAIT, "");
	facts.due = -1;
	expect(&facts, DECIDE_WAIT, "");
	facts.by_clock = false;
	expect(&facts, DECIDE_RUN, "");
	facts.disabled = true;
	expect(&facts, DECIDE_SKIP, "switched off");
}

static void open_proposal_is_the_only_one(void **state)
{
	struct decide_facts facts = due;

	(void)state;
	facts.proposal = PROPOSAL_OPEN;
	expect(&facts, DECIDE_SKIP, "agent/maintain-x is open");
	facts.again = true;
	expect(&facts, DECIDE_SKIP, "is open");
	facts.proposal = PROPOSAL_MERGED;
	expect(&facts, DECIDE_RUN, "");
}

static void closed_proposal_waits_for_news(void **state)
{
	struct decide_facts facts = due;

	(void)state;
	facts.proposal = PROPOSAL_CLOSED;
	facts.same_as_proposal = true;
	expect(&facts, DECIDE_SKIP, "a person closed agent/maintain-x");
	facts.outside = true;
	expect(&facts, DECIDE_SKIP, "a person closed");
	facts.again = true;
	expect(&facts, DECIDE_RUN, "");
	facts.again = false;
	facts.same_as_proposal = false;
	expect(&facts, DECIDE_RUN, "");
}

static void nothing_to_do_waits_for_news(void **state)
{
	struct decide_facts facts = due;

	(void)state;
	facts.outcome = OUTCOME_NOTHING;
	facts.same_as_run = true;
	expect(&facts, DECIDE_SKIP, "nothing to do");
	facts.outside = true;
	expect(&facts, DECIDE_RUN, "");
	facts.outside = false;
	facts.again = true;
	expect(&facts, DECIDE_RUN, "");
	facts.again = false;
	facts.outcome = OUTCOME_REFUSED;
	expect(&facts, DECIDE_RUN, "");
}

static void unfinished_run_is_gone_on_with(void **state)
{
	struct decide_facts facts = due;

	(void)state;
	facts.due = 2000;
	facts.outcome = OUTCOME_RUNNING;
	facts.attempts = DECIDE_KILLED - 1;
	expect(&facts, DECIDE_RESUME, "");
	facts.attempts = DECIDE_KILLED;
	expect(&facts, DECIDE_WAIT, "");
	facts.attempts = 1;
	facts.outcome = OUTCOME_FAILED;
	facts.attempts = DECIDE_ATTEMPTS - 1;
	expect(&facts, DECIDE_RESUME, "");
	facts.attempts = DECIDE_ATTEMPTS;
	expect(&facts, DECIDE_WAIT, "");
	facts.due = 900;
	expect(&facts, DECIDE_RUN, "");
	facts.outcome = OUTCOME_RUNNING;
	facts.disabled = true;
	expect(&facts, DECIDE_SKIP, "switched off");
}

static void words_of_the_record_parsed(void **state)
{
	(void)state;
	assert_int_equal(outcome_parse("running"), OUTCOME_RUNNING);
	assert_int_equal(outcome_parse("failed"), OUTCOME_FAILED);
	assert_int_equal(outcome_parse(""), OUTCOME_NONE);
	assert_int_equal(outcome_parse("else"), OUTCOME_NONE);
	assert_int_equal(proposal_parse("open"), PROPOSAL_OPEN);
	assert_int_equal(proposal_parse("closed"), PROPOSAL_CLOSED);
	assert_int_equal(proposal_parse("elsewhere"), PROPOSAL_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(clock_waits_and_runs),
	    cmocka_unit_test(open_proposal_is_the_only_one),
	    cmocka_unit_test(closed_proposal_waits_for_news),
	    cmocka_unit_test(nothing_to_do_waits_for_news),
	    cmocka_unit_test(unfinished_run_is_gone_on_with),
	    cmocka_unit_test(words_of_the_record_parsed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
