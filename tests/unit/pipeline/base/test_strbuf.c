/* Bytes that cannot grow past their maximum. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

static void strbuf_init_is_an_empty_string(void **state)
{
	struct strbuf buf AUTO_STRBUF = STRBUF_NONE;

	(void)state;
	strbuf_init(&buf, 10);
	assert_string_equal(buf.data, "");
	assert_int_equal(buf.len, 0);
	assert_false(buf.full);
}

static void strbuf_add_grows_and_ends_with_nul(void **state)
{
	struct strbuf buf AUTO_STRBUF = STRBUF_NONE;

	(void)state;
	strbuf_init(&buf, STRBUF_MAX);
	for (int i = 0; i < 10000; i++)
		assert_int_equal(strbuf_addf(&buf, "%04d\n", i), 0);
	assert_int_equal(buf.len, 50000);
	assert_int_equal(buf.data[buf.len], '\0');
	assert_memory_equal(buf.data + 49995, "9999\n", 6);
	assert_int_equal(strbuf_add(&buf, "a\0b", 3), 0);
	assert_memory_equal(buf.data + 50000, "a\0b", 4);
}

static void strbuf_add_past_maximum_keeps_what_fits(void **state)
{
	struct strbuf buf AUTO_STRBUF = STRBUF_NONE;

	(void)state;
	strbuf_init(&buf, 5);
	assert_int_equal(strbuf_adds(&buf, "abc"), 0);
	assert_false(buf.full);
	assert_int_equal(strbuf_adds(&buf, "defg"), -1);
	assert_true(buf.full);
	assert_string_equal(buf.data, "abcde");
	assert_int_equal(strbuf_addc(&buf, 'x'), -1);
	assert_int_equal(strbuf_addf(&buf, "%d", 1), -1);
	assert_string_equal(buf.data, "abcde");
}

static void strbuf_add_to_the_brim_is_not_full(void **state)
{
	struct strbuf buf AUTO_STRBUF = STRBUF_NONE;

	(void)state;
	strbuf_init(&buf, 5);
	assert_int_equal(strbuf_adds(&buf, "abcde"), 0);
	assert_false(buf.full);
}

static void strbuf_reset_clears_content_and_full(void **state)
{
	struct strbuf buf AUTO_STRBUF = STRBUF_NONE;

	(void)state;
	strbuf_init(&buf, 3);
	strbuf_adds(&buf, "abcdef");
	strbuf_reset(&buf);
	assert_false(buf.full);
	assert_string_equal(buf.data, "");
	assert_int_equal(strbuf_adds(&buf, "xyz"), 0);
}

static void strbuf_steal_gives_the_bytes_away(void **state)
{
	struct strbuf buf AUTO_STRBUF = STRBUF_NONE;
	char *text AUTO_FREE = NULL, *none AUTO_FREE = NULL;

	(void)state;
	strbuf_init(&buf, 100);
	strbuf_adds(&buf, "mine");
	text = strbuf_steal(&buf);
	assert_string_equal(text, "mine");
	none = strbuf_steal(&buf);
	assert_string_equal(none, "");
}

static void strbuf_release_twice_is_fine(void **state)
{
	struct strbuf buf;

	(void)state;
	strbuf_init(&buf, 10);
	strbuf_release(&buf);
	strbuf_release(&buf);
	assert_int_equal(strbuf_adds(&buf, "x"), -1);
	strbuf_release(&buf);
}

static void strbuf_add_wrapped_breaks_between_words(void **state)
{
	struct strbuf buf AUTO_STRBUF = STRBUF_NONE;

	(void)state;
	strbuf_init(&buf, 100);
	strbuf_add_wrapped(&buf, "aa bb cc", 0, 2, 5);
	assert_string_equal(buf.data, "aa bb\n  cc");
	strbuf_reset(&buf);
	strbuf_add_wrapped(&buf, "\xc3\xa4\xc3\xa4 bb", 0, 0, 5); /* two letters */
	assert_string_equal(buf.data, "\xc3\xa4\xc3\xa4 bb");
	strbuf_reset(&buf);
	strbuf_add_wrapped(&buf, "longer than that", 3, 1, 4);
	assert_string_equal(buf.data, "longer\n than\n that");
	strbuf_reset(&buf);
	strbuf_add_wrapped(&buf, "all in one line ", 70, 1, 0);
	assert_string_equal(buf.data, "all in one line");
	strbuf_reset(&buf);
	strbuf_add_wrapped(&buf, "", 1, 1, 1);
	assert_string_equal(buf.data, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(strbuf_init_is_an_empty_string),
	    cmocka_unit_test(strbuf_add_grows_and_ends_with_nul),
	    cmocka_unit_test(strbuf_add_past_maximum_keeps_what_fits),
	    cmocka_unit_test(strbuf_add_to_the_brim_is_not_full),
	    cmocka_unit_test(strbuf_add_wrapped_breaks_between_words),
	    cmocka_unit_test(strbuf_reset_clears_content_and_full),
	    cmocka_unit_test(strbuf_steal_gives_the_bytes_away),
	    cmocka_unit_test(strbuf_release_twice_is_fine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
