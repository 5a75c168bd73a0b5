/* The job, checked. */
#include "model_test.h"

#include "pipeline/model/job.h"

#define OID "1234567890123456789012345678901234567890"
#define HEAD                                                                                   \
	"{'paths':{'repo':'/r'},'provider':{'kind':'openai','model':'m','host':'h','port':80"
#define TAIL ",'base_commit':'" OID "','base_tree':'" OID "','round':1,'rounds':3"

static void expect_refused(const char *text, const char *part)
{
	struct json *json AUTO_JSON = parse(text);
	struct error err = {0};
	struct model_job job;

	assert_int_equal(model_job_parse(json, &job, &err), ERROR_USAGE);
	if (!strstr(err.message, part))
		fail_msg("\"%s\" is not in: %s", part, err.message);
}

static void parse_fills_in_defaults(void **state)
{
	struct json *json AUTO_JSON =
	    parse(HEAD "}" TAIL ",'limits':{'turns':7},'feedback':null}");
	struct error err = {0};
	struct model_job job;

	(void)state;
	assert_int_equal(model_job_parse(json, &job, &err), 0);
	assert_true(job.tls);
	assert_int_equal(job.limits.turns, 7);
	assert_int_equal(job.limits.max_output_tokens, 16384);
	assert_null(job.feedback);
	assert_string_equal(job.path, "");
}

static void parse_replay_needs_no_host(void **state)
{
	struct json *json AUTO_JSON =
	    parse("{'paths':{'repo':'/r'},'provider':{'kind':'replay','model':'m'}" TAIL "}");
	struct error err = {0};
	struct model_job job;

	(void)state;
	assert_int_equal(model_job_parse(json, &job, &err), 0);
}

static void parse_names_what_is_wrong(void **state)
{
	(void)state;
	expect_refused("{}", "\"paths\"");
	expect_refused("{'paths':{}}", "provider");
	expect_refused(
	    "{'paths':{'repo':'/r'},'provider':{'kind':'openai','model':'m','port':1}" TAIL "}",
	    "\"host\"");
	expect_refused("{'paths':{'repo':'/"
		       "r'},'provider':{'kind':'openai','model':'m','host':'h','port':0}" TAIL
		       "}",
		       "\"port\"");
	expect_refused(HEAD "},'base_commit':'12','base_tree':'" OID "','round':1,'rounds':1}",
		       "\"base_commit\"");
	expect_refused(HEAD "}" TAIL ",'limits':{'turns':0}}", "\"turns\"");
	expect_refused(HEAD "},'base_commit':'" OID "','base_tree':'" OID
			    "','round':2,'rounds':3}",
		       "\"feedback\"");
	expect_refused(HEAD "},'base_commit':'" OID "','base_tree':'" OID
			    "','round':4,'rounds':3}",
		       "\"rounds\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(parse_fills_in_defaults),
	    cmocka_unit_test(parse_replay_needs_no_host),
	    cmocka_unit_test(parse_names_what_is_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
