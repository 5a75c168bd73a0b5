/* The key is replaced wherever it stands. */
#include "tests/unit/pipeline/model/model_test.h"

#include "pipeline/scrub.h"

#define KEY "sk-planted-key-0123"
static const struct scrub scrub = {.key = KEY, .len = sizeof(KEY) - 1};

static void expect_text(const struct scrub *with, const char *text, const char *wanted)
{
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&out, STRBUF_MAX);
	scrub_text(with, text, strlen(text), &out);
	assert_string_equal(out.data, wanted);
}

static void text_every_occurrence_is_replaced(void **state)
{
	(void)state;
	expect_text(&scrub, "a " KEY KEY " b " KEY, "a [key][key] b [key]");
	expect_text(&scrub, KEY, "[key]");
	expect_text(&scrub, "sk-planted-key-012", "sk-planted-key-012");
	expect_text(&scrub, "", "");
}

static void text_without_key_passes(void **state)
{
	const struct scrub none = {.key = NULL}, word = {.key = "ollama", .len = 6};

	(void)state;
	expect_text(&none, "x " KEY, "x " KEY);
	expect_text(NULL, "x " KEY, "x " KEY);
	expect_text(&word, "run ollama", "run ollama");
	assert_false(scrub_finds(&word, "ollama", 6));
}

static void json_strings_and_names_are_scrubbed_at_any_depth(void **state)
{
	struct json *node;

	(void)state;
	node = scrub_json(
	    &scrub, parse("{'a':['x " KEY "',{'" KEY "':{'b':'" KEY "'}},1,true,null,2.5]}"));
	expect_json(node, "{'a':['x [key]',{'[key]':{'b':'[key]'}},1,true,null,2.5]}");
	js_free(node);
	node = scrub_json(&scrub, parse("[{'a " KEY "':1}]"));
	expect_json(node, "[{'a [key]':1}]");
	js_free(node);
}

static void json_escaped_key_is_scrubbed_too(void **state)
{
	struct json *node;

	(void)state;
	node = scrub_json(&scrub, parse("{'a':'\\u0073k-planted-key-0123'}"));
	expect_json(node, "{'a':'[key]'}");
	js_free(node);
	assert_null(scrub_json(&scrub, NULL));
}

static void json_without_it_is_returned_as_it_is(void **state)
{
	struct json *node = parse("{'a':'b'}");

	(void)state;
	assert_ptr_equal(scrub_json(&scrub, node), node);
	js_free(node);
}

static void error_message_and_next_are_scrubbed(void **state)
{
	struct error err = {0};

	(void)state;
	error_set(&err, ERROR_FAILED, "with %s and %s", KEY, KEY);
	error_next(&err, "try %s", KEY);
	scrub_error(&scrub, &err);
	assert_string_equal(err.message, "with [key] and [key]");
	assert_string_equal(err.next, "try [key]");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(text_every_occurrence_is_replaced),
	    cmocka_unit_test(text_without_key_passes),
	    cmocka_unit_test(json_strings_and_names_are_scrubbed_at_any_depth),
	    cmocka_unit_test(json_escaped_key_is_scrubbed_too),
	    cmocka_unit_test(json_without_it_is_returned_as_it_is),
	    cmocka_unit_test(error_message_and_next_are_scrubbed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
