/* receive-pack's first words: found refs, any cut into pieces, and everything that is not that
 * protocol. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/publish/advert.h"

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define REF "refs/heads/agent/x"

static void add(struct strbuf *out, const char *payload, size_t len)
{
	strbuf_addf(out, "%04zx", len + 4);
	strbuf_add(out, payload, len);
}
#define ADD(out, text) add(out, text, sizeof(text) - 1)

static int parse_in_steps(const struct strbuf *text, size_t step, struct advert *advert,
			  struct error *err)
{
	int state = 0;

	*advert = (struct advert){.at = 0};
	*err = (struct error){0};
	for (size_t len = 0; !state && len < text->len;) {
		len = len + step < text->len ? len + step : text->len;
		state = advert_parse(advert, text->data, len, REF, err);
	}
	return state;
}

static void advert_ref_is_found_for_every_cut(void **state)
{
	AUTO_STRBUF struct strbuf text = STRBUF_NONE;
	struct advert advert;
	struct error err;

	(void)state;
	strbuf_init(&text, 4096);
	ADD(&text, B " refs/heads/agent/x2\0report-status atomic agent=git/2\n");
	ADD(&text, B " refs/heads/" REF "\n");
	ADD(&text, "shallow " A);
	ADD(&text, A " " REF "\n");
	ADD(&text, B " .have\n");
	strbuf_adds(&text, "0000");
	for (size_t step = 1; step <= text.len; step++) {
		assert_int_equal(parse_in_steps(&text, step, &advert, &err), 1);
		assert_string_equal(advert.tip, A);
		assert_int_equal(advert.at, text.len);
	}
}

static void advert_without_the_ref_has_no_tip(void **state)
{
	AUTO_STRBUF struct strbuf text = STRBUF_NONE;
	struct advert advert;
	struct error err;

	(void)state;
	strbuf_init(&text, 4096);
	ADD(&text, "0000000000000000000000000000000000000000 capabilities^{}\0report-status\n");
	strbuf_adds(&text, "0000");
	assert_int_equal(parse_in_steps(&text, text.len, &advert, &err), 1);
	assert_string_equal(advert.tip, "");
	strbuf_reset(&text);
	ADD(&text, "version 1");
	ADD(&text, A " " REF "\0report-status\n");
	strbuf_adds(&text, "0000");
	assert_int_equal(parse_in_steps(&text, 7, &advert, &err), 1);
	assert_string_equal(advert.tip, A);
}

static void advert_sha256_tip_is_kept_whole(void **state)
{
	AUTO_STRBUF struct strbuf text = STRBUF_NONE;
	struct advert advert;
	struct error err;

	(void)state;
	strbuf_init(&text, 4096);
	ADD(&text, A "aaaaaaaaaaaaaaaaaaaaaaaa " REF "\0object-format=sha256\n");
	strbuf_adds(&text, "0000");
	assert_int_equal(parse_in_steps(&text, 1, &advert, &err), 1);
	assert_int_equal(strlen(advert.tip), 64);
}

static void advert_hostile_bytes_are_refused(void **state)
{
	static const char *const cases[] = {
	    "HTTP/1.1 200 OK\r\n",
	    "0001",
	    "0002",
	    "0003",
	    "0004",
	    "fff1",
	    "ffff",
	    "-001",
	    "00 5",
	    "000az refs/x",
	    "0032aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa refs/x",
	    "0033gaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa refs/x",
	    "0032aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa refs/",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct advert advert = {.at = 0};
		struct error err = {0};

		if (advert_parse(&advert, cases[i], strlen(cases[i]), REF, &err) !=
		    ERROR_FAILED)
			fail_msg("taken: %s", cases[i]);
		assert_true(err.message[0]);
	}
}

static void advert_second_nul_is_refused(void **state)
{
	AUTO_STRBUF struct strbuf text = STRBUF_NONE;
	struct advert advert;
	struct error err;

	(void)state;
	strbuf_init(&text, 4096);
	ADD(&text, A " refs/heads/a\0report-status\n");
	ADD(&text, A " refs/heads/b\0report-status\n");
	assert_int_equal(parse_in_steps(&text, text.len, &advert, &err), ERROR_FAILED);
}

static void advert_error_packet_is_told_escaped(void **state)
{
	AUTO_STRBUF struct strbuf text = STRBUF_NONE;
	struct advert advert;
	struct error err;

	(void)state;
	strbuf_init(&text, 4096);
	ADD(&text, "ERR no \033[31mway");
	assert_int_equal(parse_in_steps(&text, 3, &advert, &err), ERROR_FAILED);
	assert_non_null(strstr(err.message, "no \\x1b[31mway"));
}

static void advert_cut_anywhere_waits(void **state)
{
	AUTO_STRBUF struct strbuf text = STRBUF_NONE;

	(void)state;
	strbuf_init(&text, 4096);
	ADD(&text, A " " REF "\0report-status\n");
	strbuf_adds(&text, "0000");
	for (size_t len = 0; len < text.len; len++) {
		struct advert advert = {.at = 0};
		struct error err = {0};

		assert_int_equal(advert_parse(&advert, text.data, len, REF, &err), 0);
		assert_true(advert.at <= len);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(advert_ref_is_found_for_every_cut),
	    cmocka_unit_test(advert_without_the_ref_has_no_tip),
	    cmocka_unit_test(advert_sha256_tip_is_kept_whole),
	    cmocka_unit_test(advert_hostile_bytes_are_refused),
	    cmocka_unit_test(advert_second_nul_is_refused),
	    cmocka_unit_test(advert_error_packet_is_told_escaped),
	    cmocka_unit_test(advert_cut_anywhere_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
