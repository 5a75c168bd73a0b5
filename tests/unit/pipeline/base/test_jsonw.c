#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/jsonw.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

static void nested_values_come_out_in_order(void **state)
{
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;
	struct jsonw json;

	(void)state;
	strbuf_init(&out, 4096);
	jsonw_init(&json, &out);
	jsonw_object(&json, NULL);
	jsonw_string(&json, "a", "b");
	jsonw_array(&json, "list");
	jsonw_number(&json, NULL, UINT64_MAX);
	jsonw_object(&json, NULL);
	jsonw_end(&json);
	jsonw_array(&json, NULL);
	jsonw_end(&json);
	jsonw_end(&json);
	jsonw_bool(&json, "yes", true);
	jsonw_bool(&json, "no", false);
	jsonw_end(&json);
	assert_int_equal(jsonw_finish(&json), 0);
	assert_string_equal(out.data, "{\"a\":\"b\",\"list\":[18446744073709551615,{},[]],"
				      "\"yes\":true,\"no\":false}");
}

/* Every byte that can stand in a name, read back by a parser that is not ours. */
static void hostile_names_are_read_back_unchanged(void **state)
{
	static const char *const names[] = {"",
					    "\"",
					    "\\",
					    "\\\"",
					    "a\",\"args\":[\"x",
					    "\\u0000",
					    "</script>",
					    "\xc3\xa4\xe2\x80\xa8\xf0\x9f\x92\xa3",
					    "\x7f\x1b[2J"};
	char controls[32];

	(void)state;
	for (int i = 1; i < 32; i++)
		controls[i - 1] = (char)i;
	controls[31] = '\0';
	for (size_t i = 0; i <= ARRAY_LEN(names); i++) {
		const char *name = i < ARRAY_LEN(names) ? names[i] : controls;
		struct strbuf out AUTO_STRBUF = STRBUF_NONE;
		struct jsonw json;
		struct error err = {0};
		struct json *back AUTO_JSON = NULL;

		strbuf_init(&out, 4096);
		jsonw_init(&json, &out);
		jsonw_object(&json, NULL);
		jsonw_string(&json, "value", name);
		jsonw_string(&json, name[0] ? name : "key", "x");
		jsonw_end(&json);
		assert_int_equal(jsonw_finish(&json), 0);
		for (size_t k = 0; k < out.len; k++)
			assert_true((unsigned char)out.data[k] >= 0x20 && out.data[k] != 0x7f);
		back = js_parse(out.data, out.len, 4096, "test", &err);
		assert_non_null(back);
		assert_string_equal(js_str(back, "value", "missing"), name);
		assert_string_equal(js_str(back, name[0] ? name : "key", "missing"), "x");
	}
}

static void text_that_is_not_utf8_is_refused(void **state)
{
	static const char *const texts[] = {"\xff", "a\xc3", "\xc0\xaf", "\xed\xa0\x80",
					    "\xf5\x80\x80\x80"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		for (int as_key = 0; as_key < 2; as_key++) {
			struct strbuf out AUTO_STRBUF = STRBUF_NONE;
			struct jsonw json;

			strbuf_init(&out, 4096);
			jsonw_init(&json, &out);
			jsonw_object(&json, NULL);
			jsonw_string(&json, as_key ? texts[i] : "k", as_key ? "v" : texts[i]);
			jsonw_end(&json);
			assert_int_equal(jsonw_finish(&json), -1);
		}
	}
}

static void wrong_structure_is_refused(void **state)
{
	(void)state;
	for (int kind = 0; kind < 7; kind++) {
		struct strbuf out AUTO_STRBUF = STRBUF_NONE;
		struct jsonw json;

		strbuf_init(&out, kind == 6 ? 12 : 4096);
		jsonw_init(&json, &out);
		if (kind != 0)
			jsonw_object(&json, NULL);
		if (kind == 2)
			jsonw_string(&json, NULL, "without a key");
		if (kind == 3)
			jsonw_array(&json, "list"), jsonw_bool(&json, "key", true),
			    jsonw_end(&json);
		if (kind == 6)
			jsonw_string(&json, "k", "longer than there is room");
		if (kind > 1)
			jsonw_end(&json);
		if (kind == 4)
			jsonw_end(&json);
		if (kind == 5)
			jsonw_number(&json, NULL, 1); /* a second value */
		assert_int_equal(jsonw_finish(&json), -1);
	}
}

static void too_deep_is_refused(void **state)
{
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;
	struct jsonw json;

	(void)state;
	strbuf_init(&out, 4096);
	jsonw_init(&json, &out);
	for (int i = 0; i < 2 * JSONW_DEPTH; i++)
		jsonw_array(&json, NULL);
	for (int i = 0; i < 2 * JSONW_DEPTH; i++)
		jsonw_end(&json);
	assert_int_equal(jsonw_finish(&json), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nested_values_come_out_in_order),
	    cmocka_unit_test(hostile_names_are_read_back_unchanged),
	    cmocka_unit_test(text_that_is_not_utf8_is_refused),
	    cmocka_unit_test(wrong_structure_is_refused),
	    cmocka_unit_test(too_deep_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
