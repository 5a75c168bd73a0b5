/* What a server says back of a token. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/publish/unsay.h"

#define TOKEN "tok-0123456789abcdef"
#define BASIC "Ym90OnRvay0wMTIzNDU2Nzg5YWJjZGVm" /* bot:TOKEN */

static void it_goes_in_each_form(void **state)
{
	static const struct {
		const char *secret, *user, *text, *wanted;
	} cases[] = {
	    {"bot:" TOKEN, "", "remote: it is bot:" TOKEN "!", "remote: it is bot:[key]!"},
	    {TOKEN, "bot", "a " TOKEN " b " TOKEN, "a [key] b [key]"},
	    {TOKEN, "bot", "Basic " BASIC "\n", "Basic [key]\n"},
	    {"bot:" TOKEN, "bot", TOKEN BASIC, "[key][key]"},
	    {TOKEN, "bot", "nothing of it", "nothing of it"},
	    {TOKEN, "bot", "", ""},
	    {"two\nlines-that-git-never-got", "bot", "two\nlines-that-git-never-got",
	     "two\nlines-that-git-never-got"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct strbuf text AUTO_STRBUF = STRBUF_NONE;

		strbuf_init(&text, 1000);
		strbuf_adds(&text, cases[i].text);
		unsay_secret(cases[i].secret, strlen(cases[i].secret), cases[i].user, &text);
		assert_string_equal(text.len ? text.data : "", cases[i].wanted);
	}
}

/* Where the text is cut off, the token's beginning is no better than all of it. */
static void a_cut_hides_nothing(void **state)
{
	(void)state;
	for (size_t cut = 4; cut < strlen(TOKEN); cut++) {
		struct strbuf text AUTO_STRBUF = STRBUF_NONE;

		strbuf_init(&text, 3 + cut);
		strbuf_adds(&text, "is " TOKEN);
		assert_true(text.full);
		unsay_secret(TOKEN, strlen(TOKEN), "bot", &text);
		assert_string_equal(text.data, "is ");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(it_goes_in_each_form),
	    cmocka_unit_test(a_cut_hides_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
