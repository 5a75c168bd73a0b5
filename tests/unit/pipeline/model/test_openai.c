/* The Chat Completions format and what its many servers make of it. */
#include "model_test.h"

#define OPENAI (&provider_openai)
#define CHUNK(delta, reason)                                                                   \
	"data: {'id':'x','choices':[{'index':0,'delta':" delta ",'finish_reason':" reason      \
	"}]}\n\n"
#define USAGE_CHUNK                                                                            \
	"data: {'id':'x','choices':[],'usage':{'prompt_tokens':30,'completion_tokens':9,"      \
	"'prompt_tokens_details':{'cached_tokens':10}}}\n\n"
#define DONE "data: [DONE]\n\n"
#define USAGE                                                                                  \
	",'input':20,'output':9,'cache_read':10,'cache_write':0,'raw':{'prompt_tokens':30,"    \
	"'completion_tokens':9,'prompt_tokens_details':{'cached_tokens':10}}}"
#define NO_USAGE ",'input':0,'output':0,'cache_read':0,'cache_write':0,'estimated':true}"
#define TWO_CALLS                                                                              \
	"{'role':'assistant','round':1,'content':[{'type':'tool_call','id':'a','name':'look'," \
	"'input':{'p':1}},{'type':'tool_call','id':'b','name':'look','input':{'p':2}}],'stop'" \
	":'tools'"

static void stream_text_and_calls_are_the_same_for_every_cut(void **state)
{
	(void)state;
	expect_line(
	    OPENAI,
	    CHUNK("{'role':'assistant','content':''}", "null") CHUNK(
		"{'content':'Grü'}",
		"null") CHUNK("{'content':'ße'}",
			      "null") CHUNK("{'tool_calls':[{'index':0,'id':'a','type':'"
					    "function','function':{'name':'look',"
					    "'arguments':''}}]}",
					    "null")
		CHUNK("{'tool_calls':[{'index':0,'function':{'arguments':'{\\u0022p'}}]}",
		      "null")
		    CHUNK("{'tool_calls':[{'index':0,'function':{'arguments':'\\u0022:1}'}}]}",
			  "null") CHUNK("{'tool_calls':[{'index':1,'id':'b','type':'function','"
					"function':{'name':"
					"'end','arguments':'{}'}}]}",
					"null") CHUNK("{}", "'tool_calls'") USAGE_CHUNK DONE,
	    "{'role':'assistant','round':1,'content':[{'type':'text','text':'Grüße'},"
	    "{'type':'tool_call','id':'a','name':'look','input':{'p':1}},"
	    "{'type':'tool_call','id':'b','name':'end','input':{}}],'stop':'tools'" USAGE);
}

static void stream_calls_interleaved_by_index(void **state)
{
	(void)state;
	expect_line(OPENAI,
		    CHUNK("{'tool_calls':[{'index':0,'id':'a','function':{'name':'look','"
			  "arguments':'{\\u0022p\\u0022'}},"
			  "{'index':1,'id':'b','function':{'name':'look','arguments':'{"
			  "\\u0022p\\u0022'}}]}",
			  "null") CHUNK("{'tool_calls':[{'index':1,'function':{'arguments':':2}"
					"'}},{'index':0,'function':"
					"{'arguments':':1}'}}]}",
					"'tool_calls'") DONE,
		    TWO_CALLS NO_USAGE);
}

static void stream_calls_without_usable_index_are_told_apart(void **state)
{
	(void)state;
	/* all index 0, each whole */
	expect_line(OPENAI,
		    CHUNK("{'tool_calls':[{'index':0,'id':'a','function':{'name':'look','"
			  "arguments':'{\\u0022p\\u0022:1}'}}]}",
			  "null") CHUNK("{'tool_calls':[{'index':0,'id':'b','function':{'name':"
					"'look','arguments':'{\\u0022p\\u0022:2}'}}]}",
					"'stop'") DONE,
		    TWO_CALLS NO_USAGE);
	/* no index, the arguments as an object, no finish reason */
	expect_line(
	    OPENAI,
	    CHUNK("{'tool_calls':[{'id':'a','function':{'name':'look','arguments':{'p':1}}},"
		  "{'id':'b','function':{'name':'look','arguments':{'p':2}}}]}",
		  "null") DONE,
	    TWO_CALLS NO_USAGE);
	/* the id repeated in every piece is one call */
	expect_line(OPENAI,
		    CHUNK("{'tool_calls':[{'index':0,'id':'a','function':{'name':'look','"
			  "arguments':'{'}}]}",
			  "null") CHUNK("{'tool_calls':[{'index':0,'id':'a','function':{'name':"
					"'look','arguments':'}'}}]}",
					"'tool_calls'") DONE,
		    "{'role':'assistant','round':1,'content':[{'type':'tool_call','id':'a','"
		    "name':'look','input':{}}],"
		    "'stop':'tools'" NO_USAGE);
	/* neither id nor index: ids are made up */
	expect_line(OPENAI,
		    CHUNK("{'tool_calls':[{'function':{'name':'look','arguments':'{}'}},"
			  "{'function':{'name':'end','arguments':'{}'}}]}",
			  "'tool_calls'") DONE,
		    "{'role':'assistant','round':1,'content':[{'type':'tool_call','id':'call_1_"
		    "1','name':'look',"
		    "'input':{}},{'type':'tool_call','id':'call_1_2','name':'end','input':{}}],"
		    "'stop':'tools'" NO_USAGE);
}

static void stream_reasoning_is_kept_beside_the_text(void **state)
{
	(void)state;
	expect_line(
	    OPENAI,
	    CHUNK("{'reasoning_content':'h','reasoning':'h'}", "null")
		CHUNK("{'reasoning_content':'m'}", "null") CHUNK("{'content':'ok'}", "'stop'")
		    DONE,
	    "{'role':'assistant','round':1,'content':[{'type':'opaque','provider':'openai','"
	    "data':"
	    "{'reasoning_content':'hm'}},{'type':'text','text':'ok'}],'stop':'end'" NO_USAGE);
}

static void stream_cut_at_the_limit_spoils_the_last_call_only(void **state)
{
	(void)state;
	expect_line(OPENAI,
		    CHUNK("{'tool_calls':[{'index':0,'id':'a','function':{'name':'look','"
			  "arguments':'{}'}},"
			  "{'index':1,'id':'b','function':{'name':'look','arguments':''}}]}",
			  "'length'") DONE,
		    "{'role':'assistant','round':1,'content':[{'type':'tool_call','id':'a','"
		    "name':'look','input':{}},"
		    "{'type':'tool_call','id':'b','name':'look','input':{},'malformed':''}],'"
		    "stop':'limit'" NO_USAGE);
}

static void stream_refusals_are_seen(void **state)
{
	(void)state;
	expect_line(OPENAI, CHUNK("{'refusal':'No.'}", "'stop'") DONE,
		    "{'role':'assistant','round':1,'content':[{'type':'text','text':'No.'}],'"
		    "stop':'refused'" NO_USAGE);
	expect_line(OPENAI, CHUNK("{'content':'x'}", "'content_filter'") DONE,
		    "{'role':'assistant','round':1,'content':[{'type':'text','text':'x'}],'"
		    "stop':'refused'" NO_USAGE);
}

static void stream_ends_with_finish_reason_or_done(void **state)
{
	(void)state;
	expect_line(OPENAI, CHUNK("{'content':'x'}", "'stop'"),
		    "{'role':'assistant','round':1,'content':[{'type':'text','text':'x'}],'"
		    "stop':'end'" NO_USAGE);
	expect_line(OPENAI,
		    CHUNK("{'content':'x'}", "''")
			CHUNK("{'content':[{'type':'text','text':'y'}]}", "null") DONE,
		    "{'role':'assistant','round':1,'content':[{'type':'text','text':'xy'}],'"
		    "stop':'end'" NO_USAGE);
}

static void stream_other_choices_and_null_are_passed_over(void **state)
{
	(void)state;
	expect_line(OPENAI,
		    "data: {'choices':null}\n\ndata: "
		    "{'choices':[{'index':1,'delta':{'content':'other'}}]}\n\n" CHUNK(
			"{'content':null,'tool_calls':null}", "null")
			CHUNK("{'content':'x'}", "'stop'") USAGE_CHUNK,
		    "{'role':'assistant','round':1,'content':[{'type':'text','text':'x'}],'"
		    "stop':'end'" USAGE);
}

static void stream_errors_are_faults(void **state)
{
	static const char *const cases[][3] = {
	    {"data: {'error':{'message':'busy','type':'server_error','code':null}}\n\n",
	     "server_error", "busy"},
	    {"data: {'error':{'message':'slow','code':429}}\n\n", "429", "slow"},
	    {"data: {'error':{'message':'m','type':'t','code':'insufficient_quota'}}\n\n",
	     "insufficient_quota", "m"},
	    {"data: {'error':'plain'}\n\n", "error", "plain"},
	    {CHUNK("{}", "'error'"), "api_error", "the server ended its answer with an error"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct provider_stream stream AUTO_STREAM = {.provider = NULL};

		feed_slowly(&stream, OPENAI, cases[i][0]);
		assert_string_equal(stream.reply.fault_type, cases[i][1]);
		assert_string_equal(stream.reply.fault_message, cases[i][2]);
	}
}

static void stream_garbage_is_seen(void **state)
{
	static const char *const cases[] = {"data: {\n\n", "data: 'x'\n\n", "data: []\n\n",
					    CHUNK("{'tool_calls':[7]}", "null")};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct provider_stream stream AUTO_STREAM = {.provider = NULL};

		feed_slowly(&stream, OPENAI, cases[i]);
		if (!stream.garbage)
			fail_msg("taken: %s", cases[i]);
	}
}

static void whole_document_is_taken(void **state)
{
	char *bytes AUTO_FREE = quoted(
	    "{'choices':[{'index':0,'message':{'role':'assistant','content':'hi','tool_calls':["
	    "{'id':'a','type':'function',"
	    "'function':{'name':'look','arguments':'{}'}}]},'finish_reason':'tool_calls'}],"
	    "'usage':{'prompt_tokens':30,'completion_tokens':9,'prompt_tokens_details':{'"
	    "cached_tokens':10}}}");
	struct provider_stream stream AUTO_STREAM = {.provider = NULL};

	(void)state;
	for (size_t cut = 0; cut <= strlen(bytes); cut++) {
		struct json *line AUTO_JSON = line_of(OPENAI, bytes, strlen(bytes), cut, true);

		expect_json(
		    line,
		    "{'role':'assistant','round':1,'content':[{'type':'text','text':'hi'},"
		    "{'type':'tool_call','id':'a','name':'look','input':{}}],'stop':'"
		    "tools'" USAGE);
	}
	provider_stream_init(&stream, OPENAI, true);
	assert_int_equal(provider_stream_feed(&stream, "{\"ok\":true}", 11), 0);
	provider_stream_end(&stream);
	assert_true(stream.garbage);
}

static const char *const talk[] = {
    "{'role':'system','round':1,'content':[{'type':'text','text':'S'}]}",
    "{'role':'user','round':1,'content':[{'type':'text','text':'U'}]}",
    "{'role':'user','round':1,'content':[{'type':'text','text':'V'}]}",
    "{'role':'assistant','round':1,'content':[{'type':'opaque','provider':'openai','data':{'"
    "reasoning_content':'r'}},"
    "{'type':'opaque','provider':'anthropic','data':{'type':'thinking'}},"
    "{'type':'tool_call','id':'a:0','name':'lo ok','input':{'p':'\\u0022'}}]}",
    "{'role':'tool','round':1,'content':[{'type':'tool_result','id':'a:0','text':'bad','error':"
    "true}]}",
    "{'role':'assistant','round':1,'content':[{'type':'opaque','provider':'openai','data':{'"
    "reasoning_content':'r'}},"
    "{'type':'text','text':'T'}]}",
    "{'role':'assistant','round':1,'content':[]}",
    NULL};

static void request_is_what_the_format_wants(void **state)
{
	struct json *request AUTO_JSON = request_of(OPENAI, talk, 0);

	(void)state;
	expect_json(request, "{'model':'m','max_tokens':99,'stream':true,'stream_options':{'"
			     "include_usage':true},"
			     "'tools':[{'type':'function','function':{'name':'look','"
			     "description':'Look.','parameters':"
			     "{'type':'object'}}}],'messages':[{'role':'system','content':'S'},"
			     "{'role':'user','content':'U\\n\\nV'},"
			     "{'role':'assistant','content':null,'tool_calls':[{'id':'a:0','"
			     "type':'function','function':{'name':"
			     "'lo_ok','arguments':'{\\u0022p\\u0022:\\u0022\\\\\\u0022\\u0022}'"
			     "}}],'reasoning_content':'r'},"
			     "{'role':'tool','tool_call_id':'a:0','content':'Error: "
			     "bad'},{'role':'assistant','content':'T'}]}");
}

static void request_takes_what_was_learnt(void **state)
{
	struct json *request AUTO_JSON = NULL;
	unsigned quirks = 0;

	(void)state;
	assert_true(
	    provider_learn(OPENAI, &quirks,
			   "Unsupported: 'max_tokens'. Use 'max_completion_tokens' instead."));
	assert_false(provider_learn(OPENAI, &quirks, "Use 'max_completion_tokens' instead."));
	assert_true(provider_learn(OPENAI, &quirks, "extra inputs: stream_options"));
	assert_false(provider_learn(OPENAI, &quirks, "something else"));
	assert_false(provider_learn(&provider_anthropic, &quirks, "max_completion_tokens"));
	request = request_of(OPENAI, talk, quirks);
	assert_null(js_get(request, "max_tokens"));
	assert_null(js_get(request, "stream_options"));
	assert_int_equal(js_int(request, "max_completion_tokens", 0), 99);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(stream_text_and_calls_are_the_same_for_every_cut),
	    cmocka_unit_test(stream_calls_interleaved_by_index),
	    cmocka_unit_test(stream_calls_without_usable_index_are_told_apart),
	    cmocka_unit_test(stream_reasoning_is_kept_beside_the_text),
	    cmocka_unit_test(stream_cut_at_the_limit_spoils_the_last_call_only),
	    cmocka_unit_test(stream_refusals_are_seen),
	    cmocka_unit_test(stream_ends_with_finish_reason_or_done),
	    cmocka_unit_test(stream_other_choices_and_null_are_passed_over),
	    cmocka_unit_test(stream_errors_are_faults),
	    cmocka_unit_test(stream_garbage_is_seen),
	    cmocka_unit_test(whole_document_is_taken),
	    cmocka_unit_test(request_is_what_the_format_wants),
	    cmocka_unit_test(request_takes_what_was_learnt),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
