/* From the work tree's bytes to those that are stored; git itself is the oracle. */
#include "fixture.h"

#include "gitops/attr.h"

static const struct {
	const char *rules, *bytes;
	size_t len;
} cases[] = {
    {"", "a\r\nb\r\n", 6},
    {"* text", "a\r\nb\n", 5},
    {"* text=auto", "a\r\nb\r\n", 6},
    {"* text=auto", "a\rb\r\n", 5},
    {"* text=auto", "a\0\r\n", 4},
    {"* text=auto", "\1\2\3\4\5\r\n", 7},
    {"* eol=crlf", "a\r\nb\n\r", 6},
    {"* eol=lf", "a\r\n", 3},
    {"* -text", "a\r\n", 3},
    {"* text eol=crlf", "\r\r\n", 3},
    {"* ident", "$Id$ $Id: 0123 $ $Id: two words $ $Ident$\n$Id: open\n", 51},
    {"* ident text", "$Id: 0123 $\r\n$Id:$", 18},
    {"* ident", "$Id", 3},
    {"* text", "", 0},
    {"* text=auto", "\1\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n", 33},
    {"* text=auto", "a line\r\n\032", 9},
    {"* text=auto", "\1a line\r\n\032", 10},
    {"* text=maybe crlf", "a\r\n", 3},
    {"* text=maybe -crlf eol=lf", "a\r\n", 3},
};

static void bytes_are_stored_as_git_stores_them(void **state)
{
	static const char *const init[] = {"git", "init", "-q", ".", NULL};
	static const char *const add[] = {"git", "-c", "core.safecrlf=false",
					  "add", "-A", NULL};
	static const char *const show[] = {"git", "ls-files", "-s", "f", NULL};
	struct fixture f;

	(void)state;
	fixture_init(&f);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO_ATTR_STACK struct attr_stack *stack = attr_stack_new();
		AUTO_STRBUF struct strbuf out = STRBUF_NONE;
		AUTO_FREE char *dir = mem_printf("%s/clean%zu", f.dir, i);
		AUTO_FREE char *rules = mem_printf("%s/.gitattributes", dir);
		AUTO_FREE char *file = mem_printf("%s/f", dir);
		struct attr_facts facts;
		char oid[GITOPS_OID_SIZE];

		assert_int_equal(mkdir(dir, 0755), 0);
		free(run_program(dir, init, ""));
		int one AUTO_FD = open(rules, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
		int two AUTO_FD = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
		assert_int_equal(fd_write_all(one, cases[i].rules, strlen(cases[i].rules)), 0);
		assert_int_equal(fd_write_all(two, cases[i].bytes, cases[i].len), 0);
		free(run_program(dir, add, ""));
		AUTO_FREE char *listed = run_program(dir, show, "");
		attr_push(stack, "", cases[i].rules, strlen(cases[i].rules));
		attr_decide(stack, "f", &facts);
		strbuf_init(&out, STRBUF_MAX);
		assert_int_equal(attr_clean(&facts, cases[i].bytes, cases[i].len, "", 0, &out),
				 0);
		repo_hash_blob(out.data, out.len, oid);
		if (strncmp(listed + 7, oid, 40) != 0)
			fail_msg("case %zu (%s): git has %.40s, not %s", i, cases[i].rules,
				 listed + 7, oid);
	}
	fixture_release(&f);
}

static void stored_crlf_stays_where_text_is_guessed(void **state)
{
	const struct attr_facts facts = {.text = ATTR_TEXT_AUTO};
	AUTO_STRBUF struct strbuf out = STRBUF_NONE;

	(void)state;
	strbuf_init(&out, STRBUF_MAX);
	assert_int_equal(attr_clean(&facts, "a\r\nb\r\n", 6, "a\r\n", 3, &out), 0);
	assert_int_equal(out.len, 6);
	/* what git takes for binary has no line ends */
	strbuf_reset(&out);
	assert_int_equal(attr_clean(&facts, "a\r\nb\r\n", 6, "\0\r\n", 3, &out), 0);
	assert_int_equal(out.len, 4);
}

static void filters_and_encodings_are_not_done(void **state)
{
	const struct attr_facts filter = {.filter = "lfs"}, wide = {.encoding = "UTF-16"},
				plain = {.encoding = "utf-8"};
	AUTO_STRBUF struct strbuf out = STRBUF_NONE;

	(void)state;
	strbuf_init(&out, STRBUF_MAX);
	assert_int_equal(attr_clean(&filter, "a", 1, "", 0, &out), 1);
	assert_int_equal(attr_clean(&wide, "a", 1, "", 0, &out), 1);
	assert_int_equal(out.len, 0);
	assert_int_equal(attr_clean(&plain, "a", 1, "", 0, &out), 0);
	assert_int_equal(out.len, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bytes_are_stored_as_git_stores_them),
	    cmocka_unit_test(stored_crlf_stays_where_text_is_guessed),
	    cmocka_unit_test(filters_and_encodings_are_not_done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
