/* Bounded JSON: what is refused, what getters say of wrong shapes, bytes that are no text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

static struct json *parse(const char *text)
{
	struct error err;

	return js_parse(text, strlen(text), 10000, "input", &err);
}

static void parse_malformed_is_refused_with_a_line(void **state)
{
	static const char *const bad[] = {"",
					  "{",
					  "{\"a\":1}x",
					  "{\"a\":1,\"a\":2}",
					  "[1,]",
					  "{'a':1}",
					  "nul",
					  "{\"a\":01}",
					  "\"text\"",
					  "[\"\x80\"]",
					  "[\"\\ud800\"]",
					  "[1e999]",
					  "[NaN]",
					  "[\"a\nb\"]",
					  "{\"a\" 1}",
					  "[\"\\u0000\"]",
					  "[99999999999999999999]"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct error err = {.kind = ERROR_NONE};

		assert_null(js_parse(bad[i], strlen(bad[i]), 1000, "the answer", &err));
		assert_int_equal(err.kind, ERROR_USAGE);
		assert_non_null(strstr(err.message, "the answer"));
		assert_non_null(strstr(err.message, "line"));
	}
}

static void parse_deep_nesting_is_refused(void **state)
{
	char *text AUTO_FREE = mem_calloc(100001, 1);
	struct error err;

	(void)state;
	memset(text, '[', 100000);
	assert_null(js_parse(text, 100000, 200000, "input", &err));
}

static void parse_too_long_is_refused(void **state)
{
	struct error err;

	(void)state;
	assert_null(js_parse("[1, 2]", 6, 5, "input", &err));
	assert_non_null(strstr(err.message, "5 bytes"));
}

static void read_fd_leaves_the_position(void **state)
{
	int fd AUTO_FD = fd_memfd_sealed("t", "{\"a\":1}", 7);
	struct error err;
	struct json *one AUTO_JSON = js_read_fd(fd, 100, "t", &err);
	struct json *two AUTO_JSON = js_read_fd(fd, 100, "t", &err);

	(void)state;
	assert_int_equal(js_int(one, "a", 0), 1);
	assert_int_equal(js_int(two, "a", 0), 1);
	assert_null(js_read_fd(fd, 6, "t", &err));
	assert_int_equal(err.kind, ERROR_USAGE);
	assert_null(js_read_fd(-1, 6, "t", &err));
	assert_int_equal(err.kind, ERROR_FAILED);
}

static void getters_wrong_shape_gives_fallback(void **state)
{
	struct json *doc AUTO_JSON =
	    parse("{\"s\":\"x\",\"i\":3,\"b\":true,\"n\":null,\"a\":[1],\"r\":1.5}");

	(void)state;
	assert_string_equal(js_str(doc, "s", "-"), "x");
	assert_string_equal(js_str(doc, "i", "-"), "-");
	assert_int_equal(js_int(doc, "i", 9), 3);
	assert_int_equal(js_int(doc, "s", 9), 9);
	assert_int_equal(js_int(doc, "r", 9), 9);
	assert_true(js_bool(doc, "b", false));
	assert_true(js_bool(doc, "i", true));
	assert_true(js_is_null(js_get(doc, "n")));
	assert_false(js_is_null(js_get(doc, "missing")));
	assert_int_equal(js_len(js_get(doc, "a")), 1);
	assert_int_equal(js_number(js_at(js_get(doc, "a"), 0), 9), 1);
	assert_null(js_at(js_get(doc, "a"), 1));
	assert_null(js_get(NULL, "a"));
	assert_null(js_get(js_get(doc, "a"), "x"));
	assert_int_equal(js_len(NULL), 0);
	assert_null(js_text(NULL));
}

static void need_missing_or_out_of_range_names_the_key(void **state)
{
	struct json *doc AUTO_JSON = parse("{\"s\":7,\"i\":70000}");
	const char *text = "kept";
	long long value = 5;
	struct error err;

	(void)state;
	assert_int_equal(js_need_str(doc, "s", &text, &err), ERROR_USAGE);
	assert_non_null(strstr(err.message, "\"s\""));
	assert_int_equal(js_need_str(doc, "none", &text, &err), ERROR_USAGE);
	assert_string_equal(text, "kept");
	assert_int_equal(js_need_int(doc, "i", 1, 65535, &value, &err), ERROR_USAGE);
	assert_non_null(strstr(err.message, "65535"));
	assert_int_equal(value, 5);
	assert_int_equal(js_need_int(doc, "i", 1, 70000, &value, &err), 0);
	assert_int_equal(value, 70000);
}

static void bytes_come_back(const char *data, size_t len, bool coded)
{
	struct json *doc AUTO_JSON = js_object_new();
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;
	struct error err;

	js_set_bytes(doc, "c", data, len);
	assert_true((js_get(doc, "c_base64") != NULL) == coded);
	assert_true((js_get(doc, "c") != NULL) == !coded);
	strbuf_init(&out, 1000);
	assert_int_equal(js_need_bytes(doc, "c", &out, &err), 0);
	assert_int_equal(out.len, len);
	assert_memory_equal(out.data, data, len);
}

static void bytes_text_or_not_come_back(void **state)
{
	(void)state;
	bytes_come_back("", 0, false);
	bytes_come_back("grün\r\n", 7, false);
	bytes_come_back("a\0b", 3, true);
	bytes_come_back("\xff\xfe", 2, true);
}

static void bytes_ambiguous_or_too_large_are_refused(void **state)
{
	static const char *const bad[] = {"{\"c\":\"x\",\"c_base64\":\"eA==\"}",
					  "{\"c_base64\":\"e\"}",
					  "{}",
					  "{\"c\":5}",
					  "{\"c\":\"too long for it\"}",
					  "{\"c_base64\":\"dG9vIGxvbmcgZm9yIGl0\"}"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct json *doc AUTO_JSON = parse(bad[i]);
		struct strbuf out AUTO_STRBUF = STRBUF_NONE;
		struct error err;

		strbuf_init(&out, 8);
		assert_non_null(doc);
		assert_int_equal(js_need_bytes(doc, "c", &out, &err), ERROR_USAGE);
	}
}

static void check_keys_unknown_is_named(void **state)
{
	static const char *const allowed[] = {"a", "b", NULL};
	struct json *good AUTO_JSON = parse("{\"a\":1}"),
			  *bad AUTO_JSON = parse("{\"a\":1,\"zz\":2}");
	struct json *list AUTO_JSON = parse("[]");
	struct error err;

	(void)state;
	assert_int_equal(js_check_keys(good, allowed, &err), 0);
	assert_int_equal(js_check_keys(bad, allowed, &err), ERROR_USAGE);
	assert_non_null(strstr(err.message, "zz"));
	assert_int_equal(js_check_keys(list, allowed, &err), ERROR_USAGE);
	assert_int_equal(js_check_keys(NULL, allowed, &err), ERROR_USAGE);
}

static void check_kind_other_kind_or_version_is_refused(void **state)
{
	struct json *doc AUTO_JSON = js_artefact_new("tree", 1);
	struct error err;

	(void)state;
	assert_int_equal(js_check_kind(doc, "tree", 1, &err), 0);
	assert_int_equal(js_check_kind(doc, "tree", 2, &err), ERROR_USAGE);
	assert_int_equal(js_check_kind(doc, "verdict", 1, &err), ERROR_USAGE);
	assert_int_equal(js_check_kind(NULL, "tree", 1, &err), ERROR_USAGE);
}

static void set_replaces_and_format_is_compact(void **state)
{
	struct json *doc AUTO_JSON = js_object_new(), *list = js_array_new(),
			 *copy AUTO_JSON = NULL;
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;

	(void)state;
	js_set_int(doc, "a", 1);
	js_set_str(doc, "a", NULL);
	js_push_str(list, "x\x80y");
	js_push(list, js_string_new("a\0b", 3));
	js_set(doc, "l", list);
	js_set_bool(doc, "t", true);
	js_unset(doc, "t");
	copy = js_copy(doc);
	js_set_int(doc, "later", 1);
	strbuf_init(&out, 1000);
	js_format(copy, &out);
	assert_string_equal(out.data, "{\"a\":null,\"l\":[\"x\xef\xbf\xbdy\",\"a\xef\xbf\xbd"
				      "b\"]}");
}

static void next_walks_each_member_once(void **state)
{
	struct json *doc AUTO_JSON = parse("{\"a\":1,\"b\":2,\"c\":3}"), *value;
	void *iter = NULL;
	const char *key;
	long long sum = 0;

	(void)state;
	while ((key = js_next(doc, &iter, &value)))
		sum = sum * 10 + js_number(value, 0);
	assert_int_equal(sum, 123);
	iter = NULL;
	assert_null(js_next(NULL, &iter, &value));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(parse_malformed_is_refused_with_a_line),
	    cmocka_unit_test(parse_deep_nesting_is_refused),
	    cmocka_unit_test(parse_too_long_is_refused),
	    cmocka_unit_test(read_fd_leaves_the_position),
	    cmocka_unit_test(getters_wrong_shape_gives_fallback),
	    cmocka_unit_test(need_missing_or_out_of_range_names_the_key),
	    cmocka_unit_test(bytes_text_or_not_come_back),
	    cmocka_unit_test(bytes_ambiguous_or_too_large_are_refused),
	    cmocka_unit_test(check_keys_unknown_is_named),
	    cmocka_unit_test(check_kind_other_kind_or_version_is_refused),
	    cmocka_unit_test(set_replaces_and_format_is_compact),
	    cmocka_unit_test(next_walks_each_member_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
