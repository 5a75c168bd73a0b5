/* The agent.* variables of a server's repository: what they mean, and that nothing misspelt passes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/hookrules.h"

static void rules_without_variables_are_the_defaults(void **state)
{
	struct hook_rules rules;
	struct error err = {0};
	const char text[] = "[core]\n\tbare = true\n[user]\n\tname = agent.gate\n";

	(void)state;
	assert_int_equal(hook_rules_parse(text, strlen(text), "config", &rules, &err), 0);
	assert_true(hook_list_match(&rules.task, "refs/heads/task/a/b"));
	assert_false(hook_list_match(&rules.task, "refs/heads/tasks"));
	assert_true(hook_list_match(&rules.writable, "refs/agent/x"));
	assert_false(hook_list_match(&rules.writable, "refs/heads/main"));
	assert_true(hook_list_match(&rules.refuse, "refs/replace/0123"));
	assert_int_equal(rules.gate.count + rules.identity.count, 0);
	assert_false(rules.gate_open);
	assert_int_equal(rules.gate_s, 600);
	assert_string_equal(rules.config_ref, "HEAD");
	hook_rules_release(&rules);
}

static void rules_of_the_configuration_replace_the_defaults(void **state)
{
	struct hook_rules rules;
	struct error err = {0};
	const char text[] =
	    "[AGENT]\n\ttask = refs/heads/todo/*\n\ttask = refs/heads/wish-*\n"
	    "\tGate = refs/heads/main\n\tgateFail = open\n\tgateTime = 30\n"
	    "\tidentity = bot\n\trefuse = none\n\tconfigRef = refs/heads/main\n"
	    "[core]\n\thooksPath = /elsewhere\n[receive]\n\tadvertisePushOptions\n"
	    "[include]\n\tpath = x\n";

	(void)state;
	assert_int_equal(hook_rules_parse(text, strlen(text), "config", &rules, &err), 0);
	assert_false(hook_list_match(&rules.task, "refs/heads/task/a"));
	assert_true(hook_list_match(&rules.task, "refs/heads/todo/a"));
	assert_true(hook_list_match(&rules.task, "refs/heads/wish-1"));
	assert_true(hook_list_match(&rules.gate, "refs/heads/main"));
	assert_false(hook_list_match(&rules.gate, "refs/heads/maint"));
	assert_true(rules.gate_open && rules.push_options && rules.includes);
	assert_int_equal(rules.gate_s, 30);
	assert_true(hook_list_has(&rules.identity, "bot"));
	assert_false(hook_list_has(&rules.identity, "bo*"));
	assert_int_equal(rules.refuse.count, 0);
	assert_string_equal(rules.config_ref, "refs/heads/main");
	assert_string_equal(rules.hooks_path, "/elsewhere");
	hook_rules_release(&rules);
}

static void rules_that_say_nothing_sensible_are_refused_with_the_line(void **state)
{
	static const char *const bad[] = {"gaet = refs/heads/main",
					  "gate = main",
					  "gate = heads/main",
					  "gate",
					  "gate =",
					  "gateFail = maybe",
					  "gateTime = 0",
					  "gateTime = -1",
					  "gateTime = soon",
					  "configRef = main",
					  "identity =",
					  "task = \"\"",
					  "configRef",
					  "gateTime = 9999999",
					  "gateFail = Open",
					  "taskref = refs/x"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct hook_rules rules;
		struct error err = {0};
		char *text AUTO_FREE = mem_printf("[core]\n[agent]\n\t%s\n", bad[i]);
		int result = hook_rules_parse(text, strlen(text), "config", &rules, &err);

		if (result != ERROR_USAGE || !strstr(err.message, "config:3: "))
			fail_msg("%s: %d %s", bad[i], result, err.message);
		hook_rules_release(&rules);
	}
}

static void rules_in_a_subsection_are_unknown(void **state)
{
	struct hook_rules rules;
	struct error err = {0};
	const char text[] = "[agent \"gate\"]\n\tgate = refs/heads/main\n";

	(void)state;
	assert_int_equal(hook_rules_parse(text, strlen(text), "config", &rules, &err),
			 ERROR_USAGE);
	assert_non_null(strstr(err.message, "agent.gate.gate"));
	hook_rules_release(&rules);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rules_without_variables_are_the_defaults),
	    cmocka_unit_test(rules_of_the_configuration_replace_the_defaults),
	    cmocka_unit_test(rules_that_say_nothing_sensible_are_refused_with_the_line),
	    cmocka_unit_test(rules_in_a_subsection_are_unknown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
