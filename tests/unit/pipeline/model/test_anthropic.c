/* The Messages format: requests from conversations, lines from recorded streams. */
#include "model_test.h"

#define ANTHROPIC (&provider_anthropic)
#define START                                                                                  \
	"event: message_start\ndata: "                                                         \
	"{'type':'message_start','message':{'id':'m','role':'assistant',"                      \
	"'content':[],'usage':{'input_tokens':25,'cache_read_input_tokens':7,"                 \
	"'cache_creation_input_tokens':3,'output_tokens':1}}}\n\nevent: ping\ndata: "          \
	"{'type':'ping'}\n\n"
#define BLOCK(index, block)                                                                    \
	"event: content_block_start\ndata: {'type':'content_block_start','index':" index       \
	",'content_block':" block "}\n\n"
#define DELTA(index, delta)                                                                    \
	"event: content_block_delta\ndata: {'type':'content_block_delta','index':" index       \
	",'delta':" delta "}\n\n"
#define STOP(index)                                                                            \
	"event: content_block_stop\ndata: {'type':'content_block_stop','index':" index "}\n\n"
#define END(reason)                                                                            \
	"event: message_delta\ndata: {'type':'message_delta','delta':{'stop_reason':'" reason  \
	"','stop_sequence':null},'usage':{'output_tokens':15}}\n\n"                            \
	"event: message_stop\ndata: {'type':'message_stop'}\n\n"
#define USAGE                                                                                  \
	",'input':25,'output':15,'cache_read':7,'cache_write':3,'raw':{'input_tokens':25,"     \
	"'cache_read_input_tokens':7,'cache_creation_input_tokens':3,'output_tokens':15}}"

static void stream_text_and_calls_are_the_same_for_every_cut(void **state)
{
	(void)state;
	expect_line(
	    ANTHROPIC,
	    START BLOCK("0", "{'type':'text','text':''}") DELTA(
		"0", "{'type':'text_delta','text':'Grü'}")
		DELTA("0", "{'type':'text_delta','text':'ße\\n'}") STOP("0") BLOCK(
		    "1", "{'type':'tool_use','id':'t1','name':'look','input':{}}")
		    DELTA("1", "{'type':'input_json_delta','partial_json':''}") DELTA(
			"1", "{'type':'input_json_delta','partial_json':'{\\u0022pa'}")
			DELTA("1", "{'type':'input_json_delta','partial_json':'th\\u0022: 1}'}")
			    STOP("1") BLOCK("2", "{'type':'tool_use','id':'t2','name':'end',"
						 "'input':{}}") STOP("2") END("tool_use"),
	    "{'role':'assistant','round':1,'content':[{'type':'text','text':'Grüße\\n'},"
	    "{'type':'tool_call','id':'t1','name':'look','input':{'path':1}},"
	    "{'type':'tool_call','id':'t2','name':'end','input':{}}],'stop':'tools'" USAGE);
}

static void stream_stop_reasons_are_told_apart(void **state)
{
	static const char *const cases[][2] = {
	    {START END("end_turn"), "'end'"},
	    {START END("stop_sequence"), "'end'"},
	    {START END("max_tokens"), "'limit'"},
	    {START END("refusal"), "'refused'"},
	    {START END("pause_turn"), "'paused'"},
	    {START END("model_context_window_exceeded"), "'context'"},
	    {START END("of_next_year"), "'end'"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *bytes AUTO_FREE = quoted(cases[i][0]),
			    *stop AUTO_FREE = quoted(cases[i][1]);
		struct json *line AUTO_JSON =
		    line_of(ANTHROPIC, bytes, strlen(bytes), 0, false);
		struct strbuf text AUTO_STRBUF = STRBUF_NONE;

		strbuf_init(&text, STRBUF_MAX);
		js_format(js_get(line, "stop"), &text);
		assert_string_equal(text.data, stop);
	}
}

static void stream_thinking_is_kept_for_its_provider(void **state)
{
	(void)state;
	expect_line(
	    ANTHROPIC,
	    START BLOCK("0", "{'type':'thinking','thinking':'','signature':''}")
		DELTA("0", "{'type':'thinking_delta','thinking':'hm'}")
		    DELTA("0", "{'type':'thinking_delta','thinking':'m'}")
			DELTA("0", "{'type':'signature_delta','signature':'AB'}")
			    DELTA("0", "{'type':'signature_delta','signature':'CD'}") STOP("0")
				BLOCK("1", "{'type':'redacted_thinking','data':'xyz'}")
				    STOP("1") END("end_turn"),
	    "{'role':'assistant','round':1,'content':[{'type':'opaque','provider':'anthropic','"
	    "data':"
	    "{'type':'thinking','thinking':'hmm','signature':'ABCD'}},{'type':'opaque','"
	    "provider':"
	    "'anthropic','data':{'type':'redacted_thinking','data':'xyz'}}],'stop':'"
	    "end'" USAGE);
}

static void stream_call_cut_at_the_limit_is_malformed(void **state)
{
	(void)state;
	expect_line(ANTHROPIC,
		    START BLOCK("0", "{'type':'tool_use','id':'t1','name':'look','input':{}}")
			DELTA("0", "{'type':'input_json_delta','partial_json':'{\\u0022pa'}")
			    END("max_tokens"),
		    "{'role':'assistant','round':1,'content':[{'type':'tool_call','id':'t1','"
		    "name':'look','input':{},"
		    "'malformed':'{\\u0022pa'}],'stop':'limit'" USAGE);
	/* nothing of the arguments came: that is no call without arguments */
	expect_line(ANTHROPIC,
		    START BLOCK("0", "{'type':'tool_use','id':'t1','name':'look','input':{}}")
			END("max_tokens"),
		    "{'role':'assistant','round':1,'content':[{'type':'tool_call','id':'t1','"
		    "name':'look','input':{},"
		    "'malformed':''}],'stop':'limit'" USAGE);
	/* half of a thinking block is worth nothing */
	expect_line(ANTHROPIC,
		    START BLOCK("0", "{'type':'thinking','thinking':'','signature':''}")
			DELTA("0", "{'type':'thinking_delta','thinking':'hm'}")
			    END("max_tokens"),
		    "{'role':'assistant','round':1,'content':[],'stop':'limit'" USAGE);
}

static void stream_unknown_events_and_blocks_are_passed_over(void **state)
{
	(void)state;
	expect_line(ANTHROPIC,
		    START "event: news\ndata: {'type':'news','x':1}\n\n" BLOCK(
			"0", "{'type':'text','text':'a'}")
			DELTA("0", "{'type':'citations_delta','citation':{}}") STOP("0")
			    END("end_turn"),
		    "{'role':'assistant','round':1,'content':[{'type':'text','text':'a'}],'"
		    "stop':'end'" USAGE);
}

static void stream_error_event_is_a_fault(void **state)
{
	struct provider_stream stream AUTO_STREAM = {.provider = NULL};

	(void)state;
	feed_slowly(
	    &stream, ANTHROPIC,
	    START
	    "event: error\ndata: {'type':'error','error':{'type':'overloaded_error','message':"
	    "'Over\\u001bloaded'}}\n\n" END("end_turn"));
	assert_string_equal(stream.reply.fault_type, "overloaded_error");
	assert_string_equal(stream.reply.fault_message, "Over\\x1bloaded");
	assert_int_equal(stream.reply.stop, STOP_NONE);
}

static void stream_that_is_cut_has_no_stop(void **state)
{
	struct provider_stream stream AUTO_STREAM = {.provider = NULL};

	(void)state;
	feed_slowly(&stream, ANTHROPIC, START BLOCK("0", "{'type':'text','text':'a'}"));
	assert_int_equal(stream.reply.stop, STOP_NONE);
	assert_false(stream.garbage);
	assert_false(stream.reply.usage.known);
	assert_int_equal(stream.reply.usage.input, 25);
}

static void stream_garbage_is_seen(void **state)
{
	static const char *const cases[] = {
	    "data: {'type':\n\n",
	    "data: 7\n\n",
	    "data: [DONE]\n\n",
	    "data: {'type':'content_block_start','index':0}\n\n",
	    "data: {'type':'content_block_start','content_block':{'type':'text'}}\n\n",
	    "data: "
	    "{'type':'content_block_delta','index':0,'delta':{'type':'text_delta','text':'x'}}"
	    "\n\n",
	    "data: {'type':'content_block_stop','index':4}\n\n",
	    START BLOCK("0", "{'type':'text','text':'a'}") STOP("0")
		DELTA("0", "{'type':'text_delta','text':'b'}"),
	    "data: {'type':'x','a':'\xff'}\n\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct provider_stream stream AUTO_STREAM = {.provider = NULL};

		feed_slowly(&stream, ANTHROPIC, cases[i]);
		if (!stream.garbage)
			fail_msg("taken: %s", cases[i]);
	}
}

static void stream_block_flood_is_stopped(void **state)
{
	struct provider_stream stream AUTO_STREAM = {.provider = NULL};
	int result = 0;

	(void)state;
	provider_stream_init(&stream, ANTHROPIC, false);
	for (int i = 0; i < 2 * REPLY_BLOCKS_MAX && result == 0; i++) {
		char *event AUTO_FREE = quoted(BLOCK("0", "{'type':'text','text':''}"));

		result = provider_stream_feed(&stream, event, strlen(event));
	}
	assert_int_equal(result, -1);
	assert_true(stream.reply.overfull);
	assert_int_equal(stream.reply.len, REPLY_BLOCKS_MAX);
}

static void stream_absurd_usage_counts_nothing(void **state)
{
	struct provider_stream stream AUTO_STREAM = {.provider = NULL};

	(void)state;
	feed_slowly(&stream, ANTHROPIC,
		    "data: {'type':'message_start','message':{'usage':{'input_tokens':-5,"
		    "'cache_read_input_tokens':9223372036854775807}}}\n\n");
	assert_int_equal(stream.reply.usage.input, 0);
	assert_int_equal(stream.reply.usage.cache_read, 0);
}

static const char *const talk[] = {
    "{'role':'system','round':1,'content':[{'type':'text','text':'S'}]}",
    "{'role':'user','round':1,'content':[{'type':'text','text':'U'}]}",
    "{'role':'assistant','round':1,'content':[{'type':'opaque','provider':'anthropic','data':{'"
    "type':'thinking',"
    "'thinking':'t','signature':'s'}},{'type':'opaque','provider':'openai','data':{'reasoning':"
    "'r'}},"
    "{'type':'text','text':' "
    "\\n'},{'type':'tool_call','id':'a.b:0','name':'look','input':{'p':1}},"
    "{'type':'tool_call','id':'c2','name':'','input':{},'malformed':'{'}]}",
    "{'role':'tool','round':1,'content':[{'type':'tool_result','id':'a.b:0','text':'r1','error'"
    ":false},"
    "{'type':'tool_result','id':'c2','text':'bad','error':true}]}",
    "{'role':'user','round':2,'content':[{'type':'text','text':'again'}]}",
    NULL};

static void request_is_what_the_format_wants(void **state)
{
	struct json *request AUTO_JSON = request_of(ANTHROPIC, talk, 0);

	(void)state;
	expect_json(
	    request,
	    "{'model':'m','max_tokens':99,'stream':true,"
	    "'tools':[{'name':'look','description':'Look.','input_schema':{'type':'object'}}],"
	    "'system':[{'type':'text','text':'S','cache_control':{'type':'ephemeral'}}],"
	    "'messages':[{'role':'user','content':[{'type':'text','text':'U','cache_control':{'"
	    "type':'ephemeral'}}]},"
	    "{'role':'assistant','content':[{'type':'thinking','thinking':'t','signature':'s'},"
	    "{'type':'tool_use','id':'a_b_0','name':'look','input':{'p':1}},"
	    "{'type':'tool_use','id':'c2','name':'_','input':{}}]},"
	    "{'role':'user','content':[{'type':'tool_result','tool_use_id':'a_b_0','content':'"
	    "r1'},"
	    "{'type':'tool_result','tool_use_id':'c2','content':'bad','is_error':true},"
	    "{'type':'text','text':'again','cache_control':{'type':'ephemeral'}}]}]}");
}

static void request_empty_answer_leaves_no_message(void **state)
{
	static const char *const lines[] = {
	    "{'role':'user','round':1,'content':[{'type':'text','text':'a'}]}",
	    "{'role':'assistant','round':1,'content':[]}",
	    "{'role':'user','round':1,'content':[{'type':'text','text':'b'}]}", NULL};
	struct json *request AUTO_JSON = request_of(ANTHROPIC, lines, 0);

	(void)state;
	expect_json(js_get(request, "messages"),
		    "[{'role':'user','content':[{'type':'text','text':'a'},"
		    "{'type':'text','text':'b','cache_control':{'type':'ephemeral'}}]}]");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(stream_text_and_calls_are_the_same_for_every_cut),
	    cmocka_unit_test(stream_stop_reasons_are_told_apart),
	    cmocka_unit_test(stream_thinking_is_kept_for_its_provider),
	    cmocka_unit_test(stream_call_cut_at_the_limit_is_malformed),
	    cmocka_unit_test(stream_unknown_events_and_blocks_are_passed_over),
	    cmocka_unit_test(stream_error_event_is_a_fault),
	    cmocka_unit_test(stream_that_is_cut_has_no_stop),
	    cmocka_unit_test(stream_garbage_is_seen),
	    cmocka_unit_test(stream_block_flood_is_stopped),
	    cmocka_unit_test(stream_absurd_usage_counts_nothing),
	    cmocka_unit_test(request_is_what_the_format_wants),
	    cmocka_unit_test(request_empty_answer_leaves_no_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
