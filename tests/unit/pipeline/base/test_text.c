/* Hostile text stays text: UTF-8, escaping, slugs, hex, base64, sizes, words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

#define IS_UTF8(literal) text_is_utf8(literal, sizeof(literal) - 1)

static void utf8_valid_forms_are_taken(void **state)
{
	(void)state;
	assert_true(IS_UTF8(""));
	assert_true(IS_UTF8("plain\0with NUL"));
	assert_true(IS_UTF8(
	    "\xc2\x80 \xdf\xbf \xe0\xa0\x80 \xef\xbf\xbf \xf0\x90\x80\x80 \xf4\x8f\xbf\xbf"));
	assert_true(IS_UTF8("\xed\x9f\xbf\xee\x80\x80"));
}

static void utf8_malformed_forms_are_refused(void **state)
{
	(void)state;
	assert_false(IS_UTF8("\x80"));
	assert_false(IS_UTF8("\xc0\xaf")); /* overlong '/' */
	assert_false(IS_UTF8("\xc1\xbf"));
	assert_false(IS_UTF8("\xe0\x80\xaf")); /* overlong */
	assert_false(IS_UTF8("\xe0\x9f\xbf"));
	assert_false(IS_UTF8("\xf0\x8f\xbf\xbf")); /* overlong */
	assert_false(IS_UTF8("\xed\xa0\x80"));	   /* surrogate */
	assert_false(IS_UTF8("\xf4\x90\x80\x80")); /* above U+10FFFF */
	assert_false(IS_UTF8("\xf5\x80\x80\x80"));
	assert_false(IS_UTF8("\xff"));
	assert_false(IS_UTF8("a\xe2\x82")); /* cut */
	assert_false(IS_UTF8("\xe2(\xa1"));
}

static void unsafe_controls_and_invisible_are_named(void **state)
{
	static const unsigned unsafe[] = {
	    0,	    7,	    0x1b,   '\r',   0x7f,   0x85,   0x9b,   0xad,    0x200b,  0x200e,
	    0x202a, 0x202e, 0x2028, 0x2066, 0x2069, 0xfeff, 0xfe0f, 0xe0001, 0xe0041, 0x3164};
	static const unsigned safe[] = {'\t', '\n', ' ', 'a', 0xe4, 0x20ac, 0x4e2d, 0x1f600};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(unsafe); i++)
		assert_true(text_is_unsafe(unsafe[i]));
	for (size_t i = 0; i < ARRAY_LEN(safe); i++)
		assert_false(text_is_unsafe(safe[i]));
}

static void person_one_plain_line_alone_is_taken(void **state)
{
	static const char *const good[] = {"agent", "A. B\xc3\xa9 (C)", "a@b", "x y"};
	static const char *const bad[] = {"",	"a<b", "a>",   "a\nb",	       "a\tb",
					  " a", "a ",  "\xff", "\xe2\x80\xae", "\x1b[m"};
	char wide[258];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_null(text_person_fault(good[i]));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_non_null(text_person_fault(bad[i]));
	memset(wide, 'a', sizeof(wide) - 1);
	wide[257] = '\0';
	assert_non_null(text_person_fault(wide));
	wide[256] = '\0';
	assert_null(text_person_fault(wide));
}

static void escape_one_line_of_anything(void **state)
{
	char out[200];

	(void)state;
	text_escape(out, sizeof(out), "a\nb\tc\r\x1b]0;x\x07\xff\xe2\x80\xae\0d", 17);
	assert_string_equal(out, "a\\nb\\tc\\x0d\\x1b]0;x\\x07\\xff\\u{202e}\\x00");
	text_escape(out, sizeof(out), "grün €", strlen("grün €"));
	assert_string_equal(out, "grün €");
}

static void escape_short_place_cuts_between_characters(void **state)
{
	static const char text[] = "ab\xe2\x82\xac\x1b"
				   "cdefgh\xe2\x80\xae";

	(void)state;
	for (size_t size = 1; size < 40; size++) {
		char out[64];

		memset(out, '#', sizeof(out));
		text_escape(out, size, text, sizeof(text) - 1);
		assert_true(strlen(out) < size);
		assert_true(text_is_utf8(out, strlen(out)));
		assert_int_equal(out[size], '#');
		if (size >= 4 && size < 15)
			assert_non_null(strstr(out, "…"));
	}
}

static void escape_size_zero_writes_nothing(void **state)
{
	char out[1] = {'#'};

	(void)state;
	text_escape(out, 0, "abc", 3);
	assert_int_equal(out[0], '#');
}

static void escape_lines_keeps_lines(void **state)
{
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;

	(void)state;
	strbuf_init(&out, 1000);
	text_escape_lines(&out, "a\n\tb\x1b[0m\r\n\x80", 11);
	assert_string_equal(out.data, "a\n\tb\\x1b[0m\\x0d\n\\x80");
}

static void to_utf8_replaces_what_is_not(void **state)
{
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;

	(void)state;
	strbuf_init(&out, 1000);
	text_to_utf8(&out, "a\0b\xff\xc3\xa4\xe2\x82", 8);
	assert_string_equal(out.data, "a\xef\xbf\xbd"
				      "b\xef\xbf\xbd\xc3\xa4\xef\xbf\xbd\xef\xbf\xbd");
	assert_true(text_is_utf8(out.data, out.len));
}

static void slug_any_title_is_a_ref_part(void **state)
{
	static const char *const titles[][2] = {
	    {"Fix the parser!", "fix-the-parser"},
	    {"  --Ünïcode / ../../x.lock ", "n-code-x-lock"},
	    {"", "change"},
	    {"***", "change"},
	    {"-rf", "rf"},
	    {"a@{b}~^:?*[\\ c", "a-b-c"},
	};
	char out[64];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(titles); i++) {
		text_slug(out, titles[i][0]);
		assert_string_equal(out, titles[i][1]);
	}
	text_slug(out, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa bbbbbbbbbbbb");
	assert_int_equal(strlen(out), 47);
	text_slug(out, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
	assert_int_equal(strlen(out), 48);
}

static void hex_there_and_back(void **state)
{
	char out[9];

	(void)state;
	text_hex(out, (const unsigned char *)"\x00\xff\x10\xab", 4);
	assert_string_equal(out, "00ff10ab");
	assert_true(text_is_hex(out, 8));
	assert_false(text_is_hex("00FF10AB", 8));
	assert_false(text_is_hex("00ff10a", 8));
	assert_false(text_is_hex("00ff10abc", 8));
	assert_false(text_is_hex("00ff10ag", 8));
}

static void base64_vectors_of_rfc4648(void **state)
{
	static const char *const vectors[][2] = {{"", ""},
						 {"f", "Zg=="},
						 {"fo", "Zm8="},
						 {"foo", "Zm9v"},
						 {"foob", "Zm9vYg=="},
						 {"fooba", "Zm9vYmE="},
						 {"foobar", "Zm9vYmFy"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
		struct strbuf out AUTO_STRBUF = STRBUF_NONE, back AUTO_STRBUF = STRBUF_NONE;

		strbuf_init(&out, 100);
		strbuf_init(&back, 100);
		text_base64(&out, vectors[i][0], strlen(vectors[i][0]));
		assert_string_equal(out.data, vectors[i][1]);
		assert_int_equal(text_unbase64(&back, out.data, out.len), 0);
		assert_string_equal(back.data, vectors[i][0]);
	}
}

static void base64_all_bytes_come_back(void **state)
{
	struct strbuf out AUTO_STRBUF = STRBUF_NONE, back AUTO_STRBUF = STRBUF_NONE;
	char bytes[256];

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(255 - i);
	strbuf_init(&out, 1000);
	strbuf_init(&back, 1000);
	text_base64(&out, bytes, sizeof(bytes));
	assert_int_equal(text_unbase64(&back, out.data, out.len), 0);
	assert_int_equal(back.len, sizeof(bytes));
	assert_memory_equal(back.data, bytes, sizeof(bytes));
}

static void unbase64_malformed_is_refused(void **state)
{
	static const char *const bad[] = {"Zg=",      "Zg",   "Zg===",	 "=Zg=", "Z===",
					  "Zg==Zg==", "Zh==", "Zm9=",	 "Zm-v", "Zm\nv",
					  "Z m9",     "====", "Zm9vZ=g="};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct strbuf out AUTO_STRBUF = STRBUF_NONE;

		strbuf_init(&out, 100);
		assert_int_equal(text_unbase64(&out, bad[i], strlen(bad[i])), -1);
	}
}

static void unbase64_nul_is_refused(void **state)
{
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;

	(void)state;
	strbuf_init(&out, 100);
	assert_int_equal(text_unbase64(&out, "Zm9\0", 4), -1);
}

static void size_suffixes_and_limits(void **state)
{
	long long value = -7;

	(void)state;
	assert_int_equal(text_parse_size("0", 10, &value), 0);
	assert_int_equal(value, 0);
	assert_int_equal(text_parse_size("4k", 5000, &value), 0);
	assert_int_equal(value, 4096);
	assert_int_equal(text_parse_size("2M", 1LL << 40, &value), 0);
	assert_int_equal(value, 2 << 20);
	assert_int_equal(text_parse_size("3g", 1LL << 40, &value), 0);
	assert_int_equal(value, 3LL << 30);
}

static void size_malformed_is_refused(void **state)
{
	static const char *const bad[] = {"",
					  "-1",
					  "+1",
					  " 1",
					  "1 ",
					  "k",
					  "1kk",
					  "1x",
					  "0x10",
					  "1.5",
					  "1k1",
					  "99999999999999999999",
					  "9007199254740993g",
					  "101"};
	long long value = -7;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(text_parse_size(bad[i], 100, &value), -1);
	assert_int_equal(value, -7);
}

static void words_are(const char *text, const char *const *wanted)
{
	char **words = text_split_words(text);
	size_t i = 0;

	assert_non_null(words);
	for (; wanted[i]; i++) {
		assert_non_null(words[i]);
		assert_string_equal(words[i], wanted[i]);
	}
	assert_null(words[i]);
	text_free_words(words);
}

static void words_quotes_and_blanks(void **state)
{
	(void)state;
	words_are("make check", (const char *const[]){"make", "check", NULL});
	words_are("  a\t'b c'\n\"d \\\" \\\\ \\n e\"f  ",
		  (const char *const[]){"a", "b c", "d \" \\ \\n ef", NULL});
	words_are("'' \"\"", (const char *const[]){"", "", NULL});
	words_are("a\\ b \\'c", (const char *const[]){"a b", "'c", NULL});
	words_are("$(id) `id` a;b *", (const char *const[]){"$(id)", "`id`", "a;b", "*", NULL});
	words_are("a\\", (const char *const[]){"a\\", NULL});
}

static void words_open_quote_or_nothing_is_refused(void **state)
{
	static const char *const bad[] = {"", "   ", "'a", "a \"b", "\"a\\\"", "a'b"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_null(text_split_words(bad[i]));
	text_free_words(NULL);
}

static void distance_counts_slips(void **state)
{
	char longest[TEXT_WORD_MAX + 2] = "";

	(void)state;
	assert_int_equal(text_distance("", ""), 0);
	assert_int_equal(text_distance("", "abc"), 3);
	assert_int_equal(text_distance("test.comand", "test.command"), 1);
	assert_int_equal(text_distance("shwo", "SHOW"), 1);
	assert_int_equal(text_distance("kitten", "sitting"), 3);
	memset(longest, 'x', TEXT_WORD_MAX);
	assert_int_equal(text_distance(longest, ""), TEXT_WORD_MAX);
	longest[TEXT_WORD_MAX] = 'x';
	assert_true(text_distance(longest, longest) == SIZE_MAX);
}

static void slip_short_words_are_less_alike(void **state)
{
	(void)state;
	assert_true(text_is_slip("rum", "run"));
	assert_false(text_is_slip("ls", "gc"));
	assert_true(text_is_slip("--dryrum", "--dry-run"));
	assert_false(text_is_slip("--draft", "--dry-run"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(utf8_valid_forms_are_taken),
	    cmocka_unit_test(utf8_malformed_forms_are_refused),
	    cmocka_unit_test(unsafe_controls_and_invisible_are_named),
	    cmocka_unit_test(person_one_plain_line_alone_is_taken),
	    cmocka_unit_test(escape_one_line_of_anything),
	    cmocka_unit_test(escape_short_place_cuts_between_characters),
	    cmocka_unit_test(escape_size_zero_writes_nothing),
	    cmocka_unit_test(escape_lines_keeps_lines),
	    cmocka_unit_test(to_utf8_replaces_what_is_not),
	    cmocka_unit_test(slug_any_title_is_a_ref_part),
	    cmocka_unit_test(hex_there_and_back),
	    cmocka_unit_test(base64_vectors_of_rfc4648),
	    cmocka_unit_test(base64_all_bytes_come_back),
	    cmocka_unit_test(unbase64_malformed_is_refused),
	    cmocka_unit_test(unbase64_nul_is_refused),
	    cmocka_unit_test(size_suffixes_and_limits),
	    cmocka_unit_test(size_malformed_is_refused),
	    cmocka_unit_test(words_quotes_and_blanks),
	    cmocka_unit_test(words_open_quote_or_nothing_is_refused),
	    cmocka_unit_test(distance_counts_slips),
	    cmocka_unit_test(slip_short_words_are_less_alike),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
