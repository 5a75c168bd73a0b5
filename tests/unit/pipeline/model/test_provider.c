/* Hostile streams: whatever comes, the parsers end in order, within their caps, with a line
 * that the conversation takes. */
#include "model_test.h"

#include "pipeline/model/fault.h"

static const char anthropic_stream[] =
    "event: message_start\ndata: "
    "{'type':'message_start','message':{'usage':{'input_tokens':25,'output_tokens':1}}}\n\n"
    "event: content_block_start\ndata: "
    "{'type':'content_block_start','index':0,'content_block':{'type':'thinking',"
    "'thinking':'','signature':''}}\n\n"
    "data: "
    "{'type':'content_block_delta','index':0,'delta':{'type':'thinking_delta','thinking':'hm'}}"
    "\n\n"
    "data: "
    "{'type':'content_block_delta','index':0,'delta':{'type':'signature_delta','signature':'AB'"
    "}}\n\n"
    "data: {'type':'content_block_stop','index':0}\n\n"
    "data: "
    "{'type':'content_block_start','index':1,'content_block':{'type':'text','text':''}}\n\n"
    "data: "
    "{'type':'content_block_delta','index':1,'delta':{'type':'text_delta','text':'"
    "Gr\xc3\xbc\xc3\x9f'}}\n\n"
    "data: {'type':'content_block_stop','index':1}\n\n"
    "data: "
    "{'type':'content_block_start','index':2,'content_block':{'type':'tool_use','id':'t','name'"
    ":'look','input':{}}}\n\n"
    "data: "
    "{'type':'content_block_delta','index':2,'delta':{'type':'input_json_delta','partial_json':"
    "'{\\u0022a\\u0022:1}'}}\n\n"
    "data: {'type':'content_block_stop','index':2}\n\n"
    "data: "
    "{'type':'message_delta','delta':{'stop_reason':'tool_use'},'usage':{'output_tokens':15}}"
    "\n\n"
    "data: {'type':'message_stop'}\n\n";

static const char openai_stream[] =
    "data: "
    "{'choices':[{'index':0,'delta':{'role':'assistant','content':'','reasoning':'h'}}]}\n\n"
    "data: {'choices':[{'index':0,'delta':{'content':'Gr\xc3\xbc\xc3\x9f'}}]}\n\n"
    "data: "
    "{'choices':[{'index':0,'delta':{'tool_calls':[{'index':0,'id':'a','function':{'name':'"
    "look','arguments':''}}]}}]}\n\n"
    "data: "
    "{'choices':[{'index':0,'delta':{'tool_calls':[{'index':0,'function':{'arguments':'{"
    "\\u0022a\\u0022:1}'}}]}}]}\n\n"
    "data: {'choices':[{'index':0,'delta':{},'finish_reason':'tool_calls'}]}\n\n"
    "data: {'choices':[],'usage':{'prompt_tokens':3,'completion_tokens':4}}\n\ndata: "
    "[DONE]\n\n";

/* A generator whose numbers are the same in every run. */
static unsigned next(unsigned long long *state)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned)(*state >> 33);
}

/* Spoils a copy in a few places. */
static void spoil(struct strbuf *bytes, unsigned long long *state)
{
	static const char *const words[] = {
	    "\"",      "{",	  "}",	  "[",	  "null",	  "-1",	  "9999999999999999999",
	    "\\u0000", "\\ud800", "\n\n", "\xff", "\"index\":0,", "true", "data: ",
	    "1e999",   ":",	  "''"};
	unsigned times = next(state) % 4 + 1;

	while (times--) {
		size_t at = next(state) % bytes->len, len = next(state) % 12;
		const char *word = words[next(state) % ARRAY_LEN(words)];

		if (at + len >= bytes->len)
			len = bytes->len - at - 1;
		switch (next(state) % 4) {
		case 0: /* a byte becomes another */
			bytes->data[at] = (char)next(state);
			break;
		case 1: /* a piece goes */
			memmove(bytes->data + at, bytes->data + at + len,
				bytes->len - at - len);
			bytes->len -= len;
			break;
		case 2: /* a word stands in the place of a piece */
			len = strlen(word) < bytes->len - at ? strlen(word) : bytes->len - at;
			memcpy(bytes->data + at, word, len);
			break;
		default: /* a piece stands somewhere else too */
			memmove(bytes->data + next(state) % (bytes->len - len),
				bytes->data + at, len);
			break;
		}
	}
	bytes->data[bytes->len] = '\0';
}

static void feed_spoilt(const struct provider *provider, const struct strbuf *bytes, bool whole,
			unsigned long long *state)
{
	struct provider_stream stream AUTO_STREAM = {.provider = NULL};
	struct json *line AUTO_JSON = NULL;
	struct error err = {0};
	struct fault fault;
	size_t at = 0;

	provider_stream_init(&stream, provider, whole);
	while (at < bytes->len) {
		size_t len = next(state) % 200 + 1;

		if (len > bytes->len - at)
			len = bytes->len - at;
		if (provider_stream_feed(&stream, bytes->data + at, len) < 0)
			break;
		at += len;
	}
	provider_stream_end(&stream);
	assert_true(stream.reply.bytes <= bytes->len + 64);
	assert_true(stream.reply.usage.input >= 0 && stream.reply.usage.output >= 0 &&
		    stream.reply.usage.cache_read >= 0 && stream.reply.usage.cache_write >= 0);
	line = reply_to_line(&stream.reply, provider->name, 1, 1);
	usage_to_json(&stream.reply.usage, line);
	if (line_check(line, &err) < 0)
		fail_msg("%s", err.message);
	fault_of_status(&fault, 400, bytes->data, bytes->len, -1, NULL);
}

static void stream_spoilt_in_any_way_ends_in_order(void **state)
{
	static const struct {
		const struct provider *provider;
		const char *stream;
	} cases[] = {{&provider_anthropic, anthropic_stream},
		     {&provider_openai, openai_stream}};
	unsigned long long random = 20240229;

	(void)state;
	for (int round = 0; round < 6000; round++) {
		size_t which = round % ARRAY_LEN(cases);
		char *stream AUTO_FREE = quoted(cases[which].stream);
		struct strbuf bytes AUTO_STRBUF = STRBUF_NONE;

		strbuf_init(&bytes, STRBUF_MAX);
		strbuf_adds(&bytes, stream);
		if (round >= 2)
			spoil(&bytes, &random);
		feed_spoilt(cases[which].provider, &bytes, round % 7 == 0, &random);
	}
}

static void find_knows_two_formats(void **state)
{
	(void)state;
	assert_ptr_equal(provider_find("anthropic"), &provider_anthropic);
	assert_ptr_equal(provider_find("openai"), &provider_openai);
	assert_null(provider_find("replay"));
	assert_null(provider_find(""));
}

static void path_has_the_version_once(void **state)
{
	static const struct {
		const struct provider *provider;
		const char *base, *wanted;
	} cases[] = {
	    {&provider_anthropic, "", "/v1/messages"},
	    {&provider_anthropic, "/v1", "/v1/messages"},
	    {&provider_anthropic, "/proxy/anthropic", "/proxy/anthropic/v1/messages"},
	    {&provider_anthropic, "/api/v1", "/api/v1/messages"},
	    {&provider_openai, "", "/v1/chat/completions"},
	    {&provider_openai, "/v1", "/v1/chat/completions"},
	    {&provider_openai, "/api/v1", "/api/v1/chat/completions"},
	    {&provider_openai, "/v1beta/openai", "/v1beta/openai/chat/completions"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct strbuf path AUTO_STRBUF = STRBUF_NONE;

		strbuf_init(&path, STRBUF_MAX);
		provider_path(cases[i].provider, cases[i].base, &path);
		assert_string_equal(path.data, cases[i].wanted);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(stream_spoilt_in_any_way_ends_in_order),
	    cmocka_unit_test(find_knows_two_formats),
	    cmocka_unit_test(path_has_the_version_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
