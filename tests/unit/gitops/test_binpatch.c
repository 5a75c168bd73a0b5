/* Bytes of git's binary patches: exactly what they say, or nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gitops/binpatch.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

static void line_of_base85_is_what_its_length_says(void **state)
{
	static const struct {
		const char *line;
		size_t len; /* 0: refused */
		const char *bytes;
	} cases[] = {
	    {"C00000", 3, "\0\0\0"},
	    {"D|NsC0", 4, "\xff\xff\xff\xff"},
	    {"A{{R30", 1, "\xff"},
	    {"D|NsC1", 0, ""}, /* 2^32 */
	    {"D~~~~~", 0, ""},
	    {"", 0, ""},
	    {"D", 0, ""},
	    {"D0000", 0, ""},
	    {"D000000", 0, ""},
	    {"E00000", 0, ""},
	    {"000000", 0, ""},
	    {"D0000\"", 0, ""},
	    {"D0000\xe9", 0, ""},
	    {" D00000", 0, ""},
	    {"@00000", 0, ""},
	    {"{00000", 0, ""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO_STRBUF struct strbuf out = STRBUF_NONE;

		strbuf_init(&out, 64);
		bool good = binpatch_decode_line(cases[i].line, strlen(cases[i].line), &out);
		if (good != (cases[i].len > 0))
			fail_msg("%s: %s", cases[i].line, good ? "taken" : "refused");
		if (good) {
			assert_int_equal(out.len, cases[i].len);
			assert_memory_equal(out.data, cases[i].bytes, out.len);
		}
	}
}

/* 64 zeros and nothing, by zlib's own compress(). */
static const char zeros[] = "\x78\x9c\x63\x60\xa0\x0c\x00\x00\x00\x40\x00\x01";

static bool inflates(const char *data, size_t len, size_t size)
{
	AUTO_STRBUF struct strbuf out = STRBUF_NONE;

	strbuf_init(&out, 4096);
	return binpatch_inflate(data, len, size, &out) && out.len == size;
}

static void stream_is_of_that_size_and_no_more(void **state)
{
	static const char nothing[] = "\x78\x9c\x03\x00\x00\x00\x00\x01";
	char damaged[sizeof(zeros)], longer[sizeof(zeros)];

	(void)state;
	memcpy(damaged, zeros, sizeof(zeros));
	damaged[sizeof(zeros) - 2] ^= 1;
	memcpy(longer, zeros, sizeof(zeros)); /* the NUL behind it too */
	assert_true(inflates(zeros, sizeof(zeros) - 1, 64));
	assert_true(inflates(nothing, sizeof(nothing) - 1, 0));
	assert_false(inflates(zeros, sizeof(zeros) - 1, 63));
	assert_false(inflates(zeros, sizeof(zeros) - 1, 65));
	assert_false(inflates(zeros, sizeof(zeros) - 1, 0));
	assert_false(inflates(damaged, sizeof(zeros) - 1, 64));
	assert_false(inflates(longer, sizeof(zeros), 64));
	for (size_t len = 0; len < sizeof(zeros) - 1; len++)
		assert_false(inflates(zeros, len, 64));
}

static void delta_stays_within_both_files(void **state)
{
#define OLD "0123456789"
	static const struct {
		const char *delta;
		size_t len;
		const char *made; /* NULL: refused */
	} cases[] = {
	    {"\x0a\x03\x90\x03", 4, "012"},
	    {"\x0a\x03\x91\x07\x03", 5, "789"},
	    {"\x0a\x05\x90\x03\x02xy", 7, "012xy"},
	    {"\x0a\x00", 2, ""},
	    {"\x0a\x04\x90\x03", 4, NULL},		   /* makes less */
	    {"\x0a\x02\x90\x03", 4, NULL},		   /* more */
	    {"\x09\x03\x90\x03", 4, NULL},		   /* of another file */
	    {"\x0a\x03\x91\x08\x03", 5, NULL},		   /* behind its end */
	    {"\x0a\x03\x9f\xff\xff\xff\xff\x03", 8, NULL}, /* far behind it */
	    {"\x0a\x03\x80", 3, NULL},			   /* 64 KiB of it */
	    {"\x0a\x03\x90", 3, NULL},			   /* cut */
	    {"\x0a\x03\x03xy", 5, NULL},
	    {"\x0a\x03\x00xyz", 6, NULL}, /* reserved */
	    {"\x0a", 1, NULL},
	    {"", 0, NULL},
	    {"\x8a\x80", 2, NULL},
	    {"\x8a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01\x00", 13, NULL},
	    {"\x0a\xff\xff\xff\xff\x7f\x90\x03", 8, NULL}, /* larger than may be */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO_STRBUF struct strbuf out = STRBUF_NONE;

		strbuf_init(&out, 4096);
		bool good = binpatch_delta(OLD, 10, cases[i].delta, cases[i].len, 100, &out);
		if (good != (cases[i].made != NULL))
			fail_msg("case %zu: %s", i, good ? "taken" : "refused");
		if (good) {
			assert_int_equal(out.len, strlen(cases[i].made));
			assert_memory_equal(out.data ? out.data : "", cases[i].made, out.len);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(line_of_base85_is_what_its_length_says),
	    cmocka_unit_test(stream_is_of_that_size_and_no_more),
	    cmocka_unit_test(delta_stays_within_both_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
