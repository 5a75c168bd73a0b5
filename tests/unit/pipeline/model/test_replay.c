/* A recorded conversation, played. */
#include "model_test.h"

#include "pipeline/model/replay.h"

#define ANSWER(round, text)                                                                    \
	"{'role':'assistant','round':" round ",'content':[{'type':'text','text':'" text "'}]}"
#define CALL                                                                                   \
	"{'role':'assistant','round':2,'usage':{'input':9},'content':[{'type':'tool_call','"   \
	"id':'a','name':'b','input':{}}]}"

static const char *const recorded[] = {"{'role':'user','round':1,'content':[]}",
				       ANSWER("1", "one"),
				       "{'role':'tool','round':1,'content':[]}",
				       ANSWER("1", "two"),
				       CALL,
				       NULL};

static void next_answers_come_in_order_whatever_their_round(void **state)
{
	struct talk *recording AUTO_TALK = talk_of(recorded), *talk AUTO_TALK = talk_new();
	static const char *const texts[] = {"one", "two", ""};
	struct error err = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct strbuf text AUTO_STRBUF = STRBUF_NONE;
		struct json *line = NULL;

		assert_int_equal(replay_next(recording, talk, 3, "replay:x", &line, &err), 0);
		strbuf_init(&text, STRBUF_MAX);
		line_text(line, &text);
		assert_string_equal(text.data, texts[i]);
		assert_int_equal(line_round(line), 3);
		assert_string_equal(js_str(line, "stop", ""), i == 2 ? "tools" : "end");
		/* nothing was paid for it */
		assert_int_equal(js_int(js_get(line, "usage"), "input", -1), 0);
		assert_int_equal(talk_append(talk, line, &err), 0);
	}
}

static void next_at_the_end_says_how_many_there_were(void **state)
{
	struct talk *recording AUTO_TALK = talk_of(recorded);
	struct talk *talk AUTO_TALK = talk_of(
	    (const char *const[]){ANSWER("1", "a"), ANSWER("1", "b"), ANSWER("1", "c"), NULL});
	struct error err = {0};
	struct json *line = NULL;

	(void)state;
	assert_int_equal(replay_next(recording, talk, 1, "replay:x", &line, &err),
			 ERROR_FAILED);
	assert_null(line);
	assert_non_null(strstr(err.message, "the recording ends after 3 answers"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(next_answers_come_in_order_whatever_their_round),
	    cmocka_unit_test(next_at_the_end_says_how_many_there_were),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
