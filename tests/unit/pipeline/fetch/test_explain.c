/* Why a warm failed: from hostile events and logs to one line that helps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/fetch/plan.h"

static void explain(const char *events, const char *log, size_t log_len, char *token_key,
		    struct error *err)
{
	char name[] = "npm";
	char *argv[] = {name, NULL};
	struct fetch_plan plan = {.recipe = FETCH_NPM, .token_key = token_key};
	struct error ignored = {0};
	AUTO_JSON struct json *list =
	    js_parse(events, strlen(events), 65536, "events", &ignored);

	assert_non_null(list);
	plan.warm.argv = argv;
	memset(err, 0, sizeof(*err));
	error_set(err, ERROR_FAILED, "the warm failed: exit status 1");
	fetch_explain(&plan, list, log, log_len, err);
	assert_int_equal(err->kind, ERROR_FAILED);
}

static void fetch_explain_denied_host_has_its_remedy(void **state)
{
	static const char log[] = "npm error 403 Forbidden\n\n";
	struct error err;

	(void)state;
	explain("[{\"host\":\"a.example\",\"port\":443,\"allowed\":false,\"why\":\"not on the "
		"list\"},"
		"{\"host\":\"a.example\",\"port\":443,\"allowed\":false,\"why\":\"not on the "
		"list\"},"
		"{\"host\":\"b.example\",\"port\":443,\"allowed\":true,\"why\":\"\"}]",
		log, sizeof(log) - 1, NULL, &err);
	assert_string_equal(err.message, "the warm failed: exit status 1: npm could not reach "
					 "a.example:443 (not on the list); "
					 "its last words: npm error 403 Forbidden");
	assert_string_equal(
	    err.next, "if you trust it, add `[fetch] host = a.example:443` to the operator "
		      "configuration");
}

static void fetch_explain_private_address_has_another_remedy(void **state)
{
	struct error err;

	(void)state;
	explain("[{\"host\":\"a.example\",\"port\":443,\"allowed\":false,"
		"\"why\":\"the name leads to a private address, 10.0.0.1\"}]",
		"", 0, NULL, &err);
	assert_non_null(strstr(err.next, "`[fetch] private = a.example:443`"));
	assert_null(strstr(err.next, "host ="));
}

static void fetch_explain_failure_is_no_refusal(void **state)
{
	struct error err;

	(void)state;
	explain("[{\"host\":\"a.example\",\"port\":443,\"allowed\":true,\"why\":\"Connection "
		"refused\"}]",
		"", 0, NULL, &err);
	assert_non_null(strstr(err.message, "a.example:443 (Connection refused)"));
	assert_string_equal(err.next, "");
}

static void fetch_explain_hostile_hosts_are_left_out(void **state)
{
	struct error err;

	(void)state;
	explain(
	    "[{\"host\":\"a.example`; rm -rf ~ "
	    "#\",\"port\":443,\"allowed\":false,\"why\":\"not on the list\"},"
	    "{\"host\":\"\",\"port\":0,\"allowed\":false,\"why\":\"a malformed request line\"},"
	    "{\"host\":7,\"port\":\"x\",\"allowed\":false,\"why\":\"not on the list\"},7,null]",
	    "line\x1b[31m red\n", 14, NULL, &err);
	assert_string_equal(err.message,
			    "the warm failed: exit status 1; last words: line\\x1b[31m red");
	assert_string_equal(err.next, "");
}

static void fetch_explain_log_without_newline_is_taken(void **state)
{
	struct error err;

	(void)state;
	explain("[]", "one\n\n\ntwo", 9, NULL, &err);
	assert_non_null(strstr(err.message, "last words: one | two"));
	explain("[]", "", 0, NULL, &err);
	assert_string_equal(err.message, "the warm failed: exit status 1");
}

static void fetch_explain_token_is_mentioned_when_nothing_else_is(void **state)
{
	char key[] = "//a.example/:_authToken";
	struct error err;

	(void)state;
	explain("[]", "npm error 401\n", 14, key, &err);
	assert_non_null(strstr(err.next, key));
}

static void fetch_explain_many_hosts_are_cut(void **state)
{
	static char events[100000];
	struct error err;
	size_t len = 0;

	(void)state;
	events[len++] = '[';
	for (int i = 0; i < 500; i++)
		len += (size_t)snprintf(events + len, sizeof(events) - len,
					"%s{\"host\":\"h%d.example\",\"port\":443,\"allowed\":"
					"false,\"why\":\"not on the list\"}",
					i ? "," : "", i);
	snprintf(events + len, sizeof(events) - len, "]");
	explain(events, "", 0, NULL, &err);
	assert_non_null(strstr(err.message, "h7.example"));
	assert_null(strstr(err.message, "h8.example"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(fetch_explain_denied_host_has_its_remedy),
	    cmocka_unit_test(fetch_explain_private_address_has_another_remedy),
	    cmocka_unit_test(fetch_explain_failure_is_no_refusal),
	    cmocka_unit_test(fetch_explain_hostile_hosts_are_left_out),
	    cmocka_unit_test(fetch_explain_log_without_newline_is_taken),
	    cmocka_unit_test(fetch_explain_token_is_mentioned_when_nothing_else_is),
	    cmocka_unit_test(fetch_explain_many_hosts_are_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
