/* What went wrong, told apart. */
#include "model_test.h"

#include "pipeline/model/fault.h"
#include "pipeline/scrub.h"

static void status_and_words_tell_the_kind(void **state)
{
	static const struct {
		int status;
		const char *body;
		long retry_after_s;
		enum fault_kind kind;
	} cases[] = {
	    {401, "{'error':{'message':'Incorrect API key'}}", -1, FAULT_KEY},
	    {403, "<html>", -1, FAULT_KEY},
	    {400, "{'error':{'message':'API key not valid. Please pass a valid API key.'}}", -1,
	     FAULT_KEY},
	    {402, "{}", -1, FAULT_QUOTA},
	    {429, "{'error':{'type':'rate_limit_error','message':'slow down'}}", 3, FAULT_RATE},
	    {429, "", -1, FAULT_RATE},
	    {429,
	     "{'error':{'code':'insufficient_quota','message':'You exceeded your current "
	     "quota'}}",
	     -1, FAULT_QUOTA},
	    /* the same words of a limit a minute */
	    {429, "{'error':{'code':429,'message':'You exceeded your current quota'}}", 20,
	     FAULT_RATE},
	    {400,
	     "{'type':'error','error':{'type':'invalid_request_error','message':'Your credit "
	     "balance is too low'}}",
	     -1, FAULT_QUOTA},
	    {400, "{'error':{'message':'You have reached your specified API usage limits.'}}",
	     -1, FAULT_QUOTA},
	    {404,
	     "{'type':'error','error':{'type':'not_found_error','message':'model: claude-x'}}",
	     -1, FAULT_MODEL},
	    {404,
	     "{'error':{'code':'model_not_found','message':'The model `x` does not exist'}}",
	     -1, FAULT_MODEL},
	    {404, "{'error':{'message':'model \\'x\\' not found, try pulling it first'}}", -1,
	     FAULT_MODEL},
	    {404,
	     "{'object':'error','message':'The model `x` does not "
	     "exist.','type':'NotFoundError'}",
	     -1, FAULT_MODEL},
	    {400, "{'error':{'message':'x is not a valid model ID'}}", -1, FAULT_MODEL},
	    {404, "<html>", -1, FAULT_ADDRESS},
	    {404, "404 page not found", -1, FAULT_ADDRESS},
	    {405, "{'detail':'Method Not Allowed'}", -1, FAULT_ADDRESS},
	    {400, "{'error':{'message':'x does not support tools'}}", -1, FAULT_TOOLS},
	    {404,
	     "{'error':{'message':'No endpoints found that support tool use.','code':404}}", -1,
	     FAULT_TOOLS},
	    {400, "{'error':{'message':'prompt is too long: 3 tokens > 2 maximum'}}", -1,
	     FAULT_TOO_LONG},
	    {400,
	     "{'error':{'code':'context_length_exceeded','message':'This model has a limit'}}",
	     -1, FAULT_TOO_LONG},
	    {400, "{'error':{'message':'the request exceeds the available context size'}}", -1,
	     FAULT_TOO_LONG},
	    {413, "", -1, FAULT_TOO_LONG},
	    {400, "{'error':{'message':'tools.0: bad'}}", -1, FAULT_REQUEST},
	    {422, "{'detail':'no'}", -1, FAULT_REQUEST},
	    {302, "", -1, FAULT_REDIRECT},
	    {408, "", -1, FAULT_BUSY},
	    {500, "garbage", -1, FAULT_BUSY},
	    {503, "{'error':'loading model'}", -1, FAULT_BUSY},
	    {529, "{'type':'error','error':{'type':'overloaded_error','message':'Overloaded'}}",
	     -1, FAULT_BUSY},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *body AUTO_FREE = quoted(cases[i].body);
		struct fault fault;

		fault_of_status(&fault, cases[i].status, body, strlen(body),
				cases[i].retry_after_s, NULL);
		if (fault.kind != cases[i].kind)
			fail_msg("%d %s: kind %d", cases[i].status, cases[i].body,
				 (int)fault.kind);
		assert_int_equal(fault.status, cases[i].status);
	}
}

static void quotes_in_a_message_do_not_hide_the_model(void **state)
{
	static const char body[] =
	    "{\"error\":{\"message\":\"model 'x' not found, try pulling it first\"}}";
	struct fault fault;

	(void)state;
	fault_of_status(&fault, 404, body, sizeof(body) - 1, -1, NULL);
	assert_int_equal(fault.kind, FAULT_MODEL);
	assert_string_equal(fault.detail, "model 'x' not found, try pulling it first");
}

static void stream_types_tell_the_kind(void **state)
{
	static const struct {
		const char *type;
		enum fault_kind kind;
	} cases[] = {
	    {"overloaded_error", FAULT_BUSY},
	    {"api_error", FAULT_BUSY},
	    {"rate_limit_error", FAULT_RATE},
	    {"429", FAULT_RATE},
	    {"503", FAULT_BUSY},
	    {"insufficient_quota", FAULT_QUOTA},
	    {"billing_error", FAULT_QUOTA},
	    {"authentication_error", FAULT_KEY},
	    {"whatever", FAULT_BUSY},
	    {"7", FAULT_BUSY},
	    {"invalid_request_error", FAULT_REQUEST},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct fault fault;

		fault_of_stream(&fault, cases[i].type, "m", NULL);
		if (fault.kind != cases[i].kind)
			fail_msg("%s: kind %d", cases[i].type, (int)fault.kind);
	}
}

static void detail_is_escaped_scrubbed_and_cut(void **state)
{
	const struct scrub scrub = {.key = "planted-secret-key", .len = 18};
	static char body[4000];
	struct fault fault;

	(void)state;
	snprintf(body, sizeof(body),
		 "{\"error\":{\"message\":\"a \\u001b[31m planted-secret-key %01500d\"}}", 0);
	fault_of_status(&fault, 400, body, strlen(body), -1, &scrub);
	assert_non_null(strstr(fault.detail, "a \\x1b[31m [key] 000"));
	assert_true(strlen(fault.detail) < sizeof(fault.detail));
	assert_null(strstr(fault.detail, "planted"));
}

static void wait_follows_the_server_or_doubles(void **state)
{
	struct fault fault = {.kind = FAULT_RATE, .retry_after_s = 7};

	(void)state;
	assert_int_equal(fault_wait_ms(&fault, 2, 1000, 0), 7000);
	fault.retry_after_s = -1;
	assert_int_equal(fault_wait_ms(&fault, 2, 1000, 0), 1000);
	assert_int_equal(fault_wait_ms(&fault, 3, 1000, 0), 2000);
	assert_int_equal(fault_wait_ms(&fault, 5, 1000, 0), 8000);
	assert_int_equal(fault_wait_ms(&fault, 60, 1000, 0), 60000);
	assert_in_range(fault_wait_ms(&fault, 3, 1000, 0xffff), 1000, 1001);
	assert_in_range(fault_wait_ms(&fault, 3, 1000, 0x8000), 1400, 1600);
}

static void errors_name_kind_status_and_next_step(void **state)
{
	const struct fault_context context = {.provider = "anthropic",
					      .model = "claude\x1b",
					      .host = "api.example",
					      .has_key = false,
					      .tries = 3};
	static const struct {
		enum fault_kind kind;
		int error;
		unsigned tries;
	} cases[] = {
	    {FAULT_KEY, ERROR_FAILED, 1},     {FAULT_QUOTA, ERROR_FAILED, 1},
	    {FAULT_MODEL, ERROR_USAGE, 1},    {FAULT_RATE, ERROR_LATER, 8},
	    {FAULT_BUSY, ERROR_LATER, 5},     {FAULT_CUT, ERROR_FAILED, 4},
	    {FAULT_TOO_BIG, ERROR_FAILED, 1}, {FAULT_REDIRECT, ERROR_FAILED, 1},
	};
	struct fault fault;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct error err = {0};

		fault_of_kind(&fault, cases[i].kind, "why", NULL);
		assert_int_equal(fault_error(&fault, &context, &err), cases[i].error);
		assert_int_equal(fault_tries(cases[i].kind), cases[i].tries);
		assert_non_null(strstr(err.message, "anthropic at api.example: "));
		assert_non_null(strstr(err.message, ": why"));
		assert_non_null(strstr(err.message, ", 3 tries"));
		assert_string_not_equal(err.next, "");
	}
	for (int kind = FAULT_NONE + 1; kind < FAULT_COUNT; kind++) {
		struct error err = {0};

		fault_of_kind(&fault, (enum fault_kind)kind, "", NULL);
		fault.status = 418;
		fault.retry_after_s = 9;
		assert_true(fault_error(&fault, &context, &err) < 0);
		assert_non_null(strstr(err.message, "(418), 3 tries; it asks to wait 9 s"));
		assert_true(fault_tries((enum fault_kind)kind) >= 1);
	}
}

static void refused_output_limit_has_its_own_next_step(void **state)
{
	const struct fault_context context = {
	    .provider = "p", .model = "m", .host = "h", .has_key = true, .tries = 1};
	struct error err = {0};
	struct fault fault;

	(void)state;
	fault_of_kind(&fault, FAULT_REQUEST, "max_tokens: 16384 > 4096, the maximum for m",
		      NULL);
	fault_error(&fault, &context, &err);
	assert_non_null(strstr(err.next, "maxOutputTokens"));
	fault_of_kind(&fault, FAULT_REQUEST, "something else", NULL);
	fault_error(&fault, &context, &err);
	assert_null(strstr(err.next, "maxOutputTokens"));
}

static void model_name_is_escaped_and_missing_key_is_said(void **state)
{
	const struct fault_context context = {.provider = "openai",
					      .model = "m\x1b[0m",
					      .host = "h",
					      .has_key = false,
					      .tries = 1};
	struct error err = {0};
	struct fault fault;

	(void)state;
	fault_of_kind(&fault, FAULT_MODEL, "", NULL);
	fault_error(&fault, &context, &err);
	assert_string_equal(err.message, "openai at h: unknown model \"m\\x1b[0m\"");
	fault_of_kind(&fault, FAULT_KEY, "", NULL);
	fault_error(&fault, &context, &err);
	assert_non_null(strstr(err.next, "no key was given"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(status_and_words_tell_the_kind),
	    cmocka_unit_test(quotes_in_a_message_do_not_hide_the_model),
	    cmocka_unit_test(stream_types_tell_the_kind),
	    cmocka_unit_test(detail_is_escaped_scrubbed_and_cut),
	    cmocka_unit_test(wait_follows_the_server_or_doubles),
	    cmocka_unit_test(errors_name_kind_status_and_next_step),
	    cmocka_unit_test(refused_output_limit_has_its_own_next_step),
	    cmocka_unit_test(model_name_is_escaped_and_missing_key_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
