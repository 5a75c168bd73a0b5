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
	struct hook_rule rule;
	struct error err = {0};
	bool closed;
	const char text[] = "[core]\n\tbare = true\n[user]\n\tname = agent.gate\n";

	(void)state;
	assert_int_equal(hook_rules_parse(text, strlen(text), "config", &rules, &err), 0);
	assert_true(hook_list_match(&rules.task, "refs/heads/task/a/b"));
	assert_false(hook_list_match(&rules.task, "refs/heads/tasks"));
	assert_true(hook_list_match(&rules.writable, "refs/agent/x"));
	assert_false(hook_list_match(&rules.writable, "refs/heads/main"));
	assert_true(hook_list_match(&rules.refuse, "refs/replace/0123"));
	assert_int_equal(rules.gate.count + rules.identity.count, 0);
	rule = hook_rules_for(&rules, "refs/heads/main");
	assert_false(rule.gate_open || rule.gate || rule.task || rule.refuse || rule.writable);
	assert_int_equal(rule.gate_s, 600);
	assert_int_equal(rule.policy, HOOK_POLICY_AGENTS);
	assert_string_equal(rule.gate_test, "");
	assert_string_equal(rule.config_ref, "HEAD");
	assert_string_equal(rules.config_ref, "HEAD");
	assert_false(hook_rules_gates(&rules, &closed) || closed);
	hook_rules_release(&rules);
}

static void rules_of_the_configuration_replace_the_defaults(void **state)
{
	struct hook_rules rules;
	struct hook_rule rule;
	struct error err = {0};
	bool closed;
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
	assert_true(rules.push_options && rules.includes);
	rule = hook_rules_for(&rules, "refs/heads/main");
	assert_true(rule.gate && rule.gate_open);
	assert_int_equal(rule.gate_s, 30);
	assert_string_equal(rule.config_ref, "refs/heads/main");
	assert_true(hook_rules_gates(&rules, &closed));
	assert_false(closed);
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
					  "taskref = refs/x",
					  "policy = some",
					  "gateTest"};

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

static void rules_of_a_section_hold_for_its_refs_and_the_last_counts(void **state)
{
	struct hook_rules rules;
	struct hook_rule rule;
	struct error err = {0};
	bool closed;
	const char text[] =
	    "[agent \"refs/heads/main\"]\n\tgate\n\tgateTime = 5\n"
	    "[agent \"refs/heads/rel/*\"]\n\tgate = yes\n\tgateFail = closed\n"
	    "\tgateTest = make check\n\tconfigRef = refs/heads/rules\n\tpolicy = all\n"
	    "[agent \"refs/heads/rel/old\"]\n\tgate = off\n\tpolicy = none\n"
	    "\ttask = true\n\twritable = 1\n\trefuse = on\n"
	    "[agent]\n\tgateTime = 7\n\tgateFail = open\n\tgate = refs/heads/x\n";

	(void)state;
	assert_int_equal(hook_rules_parse(text, strlen(text), "config", &rules, &err), 0);
	rule = hook_rules_for(&rules, "refs/heads/main");
	assert_true(rule.gate && rule.gate_open);
	assert_int_equal(rule.gate_s, 5);
	assert_string_equal(rule.gate_test, "");
	rule = hook_rules_for(&rules, "refs/heads/rel/1");
	assert_true(rule.gate && !rule.gate_open && !rule.task && !rule.writable);
	assert_int_equal(rule.gate_s, 7);
	assert_int_equal(rule.policy, HOOK_POLICY_ALL);
	assert_string_equal(rule.gate_test, "make check");
	assert_string_equal(rule.config_ref, "refs/heads/rules");
	rule = hook_rules_for(&rules, "refs/heads/rel/old");
	assert_true(!rule.gate && rule.task && rule.writable && rule.refuse);
	assert_int_equal(rule.policy, HOOK_POLICY_NONE);
	assert_true(hook_rules_for(&rules, "refs/heads/x").gate);
	assert_string_equal(rules.config_ref, "HEAD");
	assert_true(hook_rules_gates(&rules, &closed) && closed);
	hook_rules_release(&rules);
}

static void rules_of_a_section_that_mean_nothing_are_refused(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
	    {"[agent \"gate\"]\n\tgate = true\n", "agent.gate.gate: a section of agent has"},
	    {"[agent \"main\"]\n\tgateTime = 1\n", "agent.main.gateTime: a section"},
	    {"[agent \"\"]\n\tgate = true\n", "agent..gate"},
	    {"[agent \"refs/heads/x\"]\n\tidentity = bot\n", "for the whole repository"},
	    {"[agent \"refs/heads/x\"]\n\tgate = refs/heads/x\n", "must be true or false"},
	    {"[agent \"refs/heads/x\"]\n\tgate =\n", "must be true or false"},
	    {"[agent \"refs/heads/x\"]\n\tgaet = true\n", "unknown variable"},
	    {"[agent \"refs/heads/x\"]\n\tgateFail = Open\n", "closed or open"},
	    {"[agent \"refs/heads/x\"]\n\tgateTime\n", "has no value"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct hook_rules rules;
		struct error err = {0};
		int result =
		    hook_rules_parse(bad[i].text, strlen(bad[i].text), "config", &rules, &err);

		if (result != ERROR_USAGE || !strcasestr(err.message, bad[i].says) ||
		    !strstr(err.message, "config:2: "))
			fail_msg("%s: %d %s", bad[i].text, result, err.message);
		hook_rules_release(&rules);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rules_without_variables_are_the_defaults),
	    cmocka_unit_test(rules_of_the_configuration_replace_the_defaults),
	    cmocka_unit_test(rules_that_say_nothing_sensible_are_refused_with_the_line),
	    cmocka_unit_test(rules_of_a_section_hold_for_its_refs_and_the_last_counts),
	    cmocka_unit_test(rules_of_a_section_that_mean_nothing_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
