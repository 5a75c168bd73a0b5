/* What a page does not show is taken out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/forge/strip.h"

static char *strip(const char *text, struct strip_counts *counts)
{
	struct strbuf out;

	*counts = (struct strip_counts){0};
	strbuf_init(&out, STRBUF_MAX);
	strip_hidden(text, strlen(text), &out, counts);
	return strbuf_steal(&out);
}

static void hidden_content_goes(void **state)
{
	static const struct {
		const char *in, *out, *what;
	} cases[] = {
	    {"a <!-- evil --> b", "a  b", "1 comment"},
	    {"a <!-- evil\n\n```\nstill\n```\n--> b", "a  b", "1 comment"},
	    {"a <!-- open\nto the end", "a ", "1 comment"},
	    {"a <!--> evil --> b", "a  evil --> b", "1 comment"},
	    {"```html\n<!-- shown -->\n```\n", "```html\n<!-- shown -->\n```\n", ""},
	    {"~~~\n<!-- shown -->\n~~~\n<!-- not -->", "~~~\n<!-- shown -->\n~~~\n",
	     "1 comment"},
	    {"<div>\n```\n<!-- no fence within HTML -->\n```\n</div>",
	     "<div>\n```\n\n```\n</div>", "1 comment"},
	    {"````\n```\n<!-- shown -->\n````\n", "````\n```\n<!-- shown -->\n````\n", ""},
	    {"``` a`b\n<!-- hidden -->\n```", "``` a`b\n\n```", "1 comment"},
	    {"![evil](x.png)", "![image](x.png)", "1 alternative text or title"},
	    {"![](x.png \"evil\")", "![image](x.png )", "1 alternative text or title"},
	    {"![evil [nested]](x(1).png 'and more')", "![image](x(1).png )",
	     "2 alternative texts or titles"},
	    {"[text](http://x \"evil\") and [b](c)", "[text](http://x ) and [b](c)",
	     "1 alternative text or title"},
	    {"<img src=x alt=\"evil > text\">", "<img>", "1 HTML tag's attributes"},
	    {"<a href=\"x\" title='evil'>shown</a>", "<a>shown</a>", "1 HTML tag's attributes"},
	    {"<https://example.org/x> and <a@example.org>",
	     "<https://example.org/x> and <a@example.org>", ""},
	    {"a<b and c>d, 1 < 2", "a<b>d, 1 < 2", "1 HTML tag's attributes"},
	    {"<style>evil</style>x<script>evil", "x", "2 comments"},
	    /* what stands behind a fence's language, and names of tags */
	    {"```python evil words\nx\n```\n", "```python\nx\n```\n",
	     "1 alternative text or title"},
	    {"~~~ evil-words-that-are-no-language\nx\n~~~\n",
	     "~~~ evil-words-that-are-\nx\n~~~\n", "1 alternative text or title"},
	    {"> ```c evil\n> x\n> ```\n", "> ```c\n> x\n> ```\n",
	     "1 alternative text or title"},
	    {"a <evil-words-in-a-name> b </evil>", "a  b ", "2 HTML tags' attributes"},
	    {"a <? b > evil ?> c", "a  c", "1 comment"},
	    {"a <![CDATA[ b > evil ]]> c", "a  c", "1 comment"},
	    {"a <!DOCTYPE \"> b", "a  b", "1 comment"},
	    /* code spans are shown; what only looks like one is none */
	    {"a `Vec<T>` and ``<!-- ` -->`` b", "a `Vec<T>` and ``<!-- ` -->`` b", ""},
	    {"`<a href=\"x\">`", "`<a href=\"x\">`", ""},
	    {"`a\nb` <!-- evil --> `", "`a\nb`  `", "1 comment"},
	    {"\\` <!-- evil --> `", "\\`  `", "1 comment"},
	    {"`` <!-- evil --> `", "``  `", "1 comment"},
	    {"| ` <!-- evil --> | ` |\n|-|-|\n", "| `  | ` |\n|-|-|\n", "1 comment"},
	    {"<div>\n`<!-- evil -->`\n</div>", "<div>\n``\n</div>", "1 comment"},
	    {"- <div>\n  `<!-- evil -->`\n", "- <div>\n  ``\n", "1 comment"},
	    {"<pre>\n\n`<!-- evil -->`\n</pre>", "<pre>\n\n``\n</pre>", "1 comment"},
	    {"<a `> x ` <!-- evil --> `", "<a> x `  `", "1 comment, 1 HTML tag's attributes"},
	    {"[//]: # (evil)\nx\n", "x\n", "1 link definition"},
	    {"[a\\]b]: http://x \"evil\"\nx\n", "x\n", "1 link definition"},
	    {"x[^1]\n\n[^1]: a footnote is shown\n", "x[^1]\n\n[^1]: a footnote is shown\n",
	     ""},
	    {"x\n\n[^1]: evil\nmore evil\n\n    and more\n\ny\n", "x\n\ny\n",
	     "5 link definitions"},
	    {"[a]:\n http://x\n \"evil\nevil evil\nevil\"\ny\n", "y\n", "5 link definitions"},
	    {"[a]: http://x\ny\n[b]: http://y\nz \"s\"\n", "y\nz \"s\"\n",
	     "2 link definitions"},
	    {"> [a]: evil\n", "", "1 link definition"},
	    {"<div evil\nevil\n\ny", "<div>\n\ny", "1 HTML tag's attributes"},
	    {"<p a<b evil>y", "<p>y", "1 HTML tag's attributes"},
	    {"- [ ] a task: [x]\n", "- [ ] a task: [x]\n", ""},
	    {"a\xE2\x80\x8B"
	     "b\xE2\x80\xAE"
	     "c",
	     "abc", "2 invisible characters"},
	    {"a\xF3\xA0\x81\x81\xF3\xA0\x81\x82", "a", "2 invisible characters"},
	    {"<\xE2\x80\x8B!-- joined by a character --> x", " x",
	     "1 comment, 1 invisible character"},
	    {"\xE2\x9C\x94\xEF\xB8\x8F ok a\xEF\xB8\x8F", "\xE2\x9C\x94\xEF\xB8\x8F ok a",
	     "1 invisible character"},
	    {"\xFF x", "\xEF\xBF\xBD x", ""},
	    {"plain *text* with `code <b>` and 1 > 0\r\n",
	     "plain *text* with `code <b>` and 1 > 0\r\n", ""},
	};
	(void)state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct strip_counts counts;
		char *out AUTO_FREE = strip(cases[i].in, &counts);
		char what[256];

		strip_describe(&counts, what, sizeof(what));
		if (strcmp(out, cases[i].out) != 0)
			fail_msg("%zu: '%s' became '%s', not '%s'", i, cases[i].in, out,
				 cases[i].out);
		if (strcmp(what, cases[i].what) != 0)
			fail_msg("%zu: '%s', not '%s'", i, what, cases[i].what);
	}
}

static void hostile_text_takes_no_long_time(void **state)
{
	static const char *const fills[] = {
	    "<!--", "![", "](", "<a\"", "```\n", "<a '\"", "[a]: b\n", "<script", "-->\n<!--"};
	size_t len = (size_t)1 << 18;
	char *text AUTO_FREE = mem_calloc(len + 1, 1);
	(void)state;

	for (size_t i = 0; i < ARRAY_LEN(fills); i++) {
		struct strip_counts counts;
		size_t size = strlen(fills[i]);
		long long begun = fd_now_ms();

		for (size_t at = 0; at < len; at++)
			text[at] = fills[i][at % size];
		char *out AUTO_FREE = strip(text, &counts);
		assert_non_null(out);
		if (fd_now_ms() - begun > 60000) /* quadratic would be an hour */
			fail_msg("'%s' takes %lld ms", fills[i], fd_now_ms() - begun);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(hidden_content_goes),
	    cmocka_unit_test(hostile_text_takes_no_long_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
