/* The edit engine: the ladder, its refusals, and what an edit leaves alone (law L11). */
#include "fixture.h"

/* Applies one replacement to a file of the given bytes. Returns the outcome; *after (owned)
 * the bytes. */
static enum edit_code replace_in(const char *bytes, size_t len, const char *old, size_t old_len,
				 const char *now, size_t now_len, long count, char **after,
				 size_t *after_len, char message[4096])
{
	struct fixture f;
	struct edit_result result;
	struct edit edit = {.op = EDIT_REPLACE,
			    .path = mem_strdup("f"),
			    .old = mem_calloc(old_len + 1, 1),
			    .old_len = old_len,
			    .text = mem_calloc(now_len + 1, 1),
			    .text_len = now_len,
			    .count = count};

	memcpy(edit.old, old, old_len);
	memcpy(edit.text, now, now_len);
	fixture_init(&f);
	AUTO_VIEW struct view *view = view_new(f.repo, EMPTY_TREE, NULL, &f.err);
	assert_non_null(view);
	assert_int_equal(view_put(view, "f", VIEW_FILE, bytes, len, &f.err), 0);
	if (edit_apply(view, &edit, &result, &f.err) < 0)
		fail_msg("%s", f.err.message);
	*after = fixture_read(view, "f", after_len);
	if (message)
		memcpy(message, result.message, 4096);
	view_free(MEM_STEAL(view));
	edit_release(&edit);
	fixture_release(&f);
	return result.code;
}

static void expect(const char *bytes, const char *old, const char *now, long count,
		   enum edit_code code, const char *wanted)
{
	char *after;
	size_t len;
	char message[4096];
	enum edit_code have = replace_in(bytes, strlen(bytes), old, strlen(old), now,
					 strlen(now), count, &after, &len, message);

	if (have != code)
		fail_msg("outcome %s instead of %s: %s", edit_code_text(have),
			 edit_code_text(code), message);
	assert_string_equal(after, wanted ? wanted : bytes);
	assert_int_equal(len, strlen(after));
	free(after);
}

static void replace_exact_unique_changes_only_that(void **state)
{
	(void)state;
	expect("a\nb\nc\n", "b", "x", 0, EDIT_OK, "a\nx\nc\n");
	expect("a\nb\nc\n", "b\n", "", 0, EDIT_OK, "a\nc\n");
	expect("a\nb\nc\n", "b\n", "x", 0, EDIT_OK, "a\nxc\n");
	expect("a b c", "b", "", 0, EDIT_OK, "a  c");
	expect("x = $&;\n", "x", "\\0 $& $1", 0, EDIT_OK, "\\0 $& $1 = $&;\n");
	expect("}", "}", "}\n", 0, EDIT_OK, "}\n");
	expect("}\n", "}\n", "}", 0, EDIT_OK, "}");
	expect("a\nb\n", "a\nb\n", "", 0, EDIT_OK, "");
}

static void replace_several_places_is_refused_or_counted(void **state)
{
	(void)state;
	expect("p = 1\nq\np = 1\n", "p = 1", "p = 2", 0, EDIT_AMBIGUOUS, NULL);
	expect("p = 1\nq\np = 1\n", "p = 1", "p = 2", 2, EDIT_OK, "p = 2\nq\np = 2\n");
	expect("p = 1\nq\np = 1\n", "p = 1", "p = 2", 3, EDIT_AMBIGUOUS, NULL);
	expect("a+a+a\nb a\n", "a", "xy", -1, EDIT_OK, "xy+xy+xy\nb xy\n");
	expect("aaa\n", "aa", "b", 0, EDIT_AMBIGUOUS, NULL);
	expect("aaaa\n", "aa", "b", -1, EDIT_OK, "bb\n");
	expect("x\ny\nx\ny\n", "x\n", "", -1, EDIT_OK, "y\ny\n");
	expect("x\nx\nx\n", "x\n", "y\nz\n", -1, EDIT_OK, "y\nz\ny\nz\ny\nz\n");
}

static void replace_ambiguous_names_all_lines(void **state)
{
	char *after, message[4096];
	size_t len;

	(void)state;
	enum edit_code code =
	    replace_in("p = 1\nq\np = 1\n", 14, "p = 1", 5, "z", 1, 0, &after, &len, message);
	assert_int_equal(code, EDIT_AMBIGUOUS);
	assert_non_null(strstr(message, "     1 | p = 1"));
	assert_non_null(strstr(message, "     3 | p = 1"));
	free(after);
}

static void replace_unmatched_shows_the_nearest_passage(void **state)
{
	char *after, message[4096];
	size_t len;
	const char *file = "int main(void)\n{\n\treturn compute(1, 2);\n}\n";

	(void)state;
	enum edit_code code = replace_in(file, strlen(file), "{\n\treturn compute(1, 3);\n}",
					 26, "x", 1, 0, &after, &len, message);
	assert_int_equal(code, EDIT_NO_MATCH);
	assert_non_null(strstr(message, "first difference at line 3"));
	assert_non_null(strstr(message, "compute(1, 2)"));
	free(after);
}

static void replace_crlf_file_keeps_its_line_ends(void **state)
{
	(void)state;
	expect("one\r\ntwo\r\nthree\r\n", "one\ntwo", "1\n2", 0, EDIT_OK,
	       "1\r\n2\r\nthree\r\n");
	expect("one\r\ntwo\r\n", "one", "1\nnew", 0, EDIT_OK, "1\r\nnew\r\ntwo\r\n");
	expect("one\r\ntwo\r\n", "one\r\ntwo", "1\r\n2", 0, EDIT_OK, "1\r\n2\r\n");
	expect("one\ntwo\n", "one\r\ntwo\r\n", "1\r\n2\r\n", 0, EDIT_OK, "1\n2\n");
	expect("a\r\nb\nc\r\n", "b\nc", "b\nx\nc", 0, EDIT_OK, "a\r\nb\nx\nc\r\n");
	expect("a\r\nb\nc\r\n", "a\nb", "a2\nb2", 0, EDIT_OK, "a2\r\nb2\nc\r\n");
	expect("a\r\nb\nc\r\nd\n", "a\nb\nc\nd", "a\nx\nc\nd", 0, EDIT_OK, "a\r\nx\nc\r\nd\n");
	expect("a\nb\r\nc\nd\r\n", "a\nb\nc\nd\n", "b\nnew\nc\nd\n", 0, EDIT_OK,
	       "b\r\nnew\r\nc\nd\r\n");
	expect("a\r\nfoo\r\n", "\nfoo", "", 0, EDIT_OK, "a\r\n");
	expect("a\r\nfoo", "\nfoo", "", 0, EDIT_OK, "a");
}

static void replace_of_line_ends_alone_is_taken_literally(void **state)
{
	(void)state;
	expect("a\r\nb\r\n", "a\r\n", "a\n", 0, EDIT_OK, "a\nb\r\n");
	expect("a\nb\n", "a\n", "a\r\n", 0, EDIT_OK, "a\r\nb\n");
	expect("a\nb\n", "b\r\n", "b\n", 0, EDIT_NO_MATCH, NULL);
}

static void replace_trailing_blanks_are_found_and_kept(void **state)
{
	(void)state;
	expect("a  \nb\nc\n", "a\nb", "a\nx", 0, EDIT_OK, "a  \nx\nc\n");
	expect("a\nb\nc\n", "a \nb\t", "a\nx", 0, EDIT_OK, "a\nx\nc\n");
}

static void replace_without_final_newline_keeps_that(void **state)
{
	(void)state;
	expect("a\nb", "b\n", "x\n", 0, EDIT_OK, "a\nx");
	expect("a\nb", "b", "x\ny", 0, EDIT_OK, "a\nx\ny");
	expect("a\r\nb", "b", "b\ny", 0, EDIT_OK, "a\r\nb\r\ny");
}

static void replace_typographic_punctuation_is_folded(void **state)
{
	(void)state;
	expect("say \xE2\x80\x9Chi\xE2\x80\x9D \xE2\x80\x94 x\nkeep \xE2\x80\x99\n",
	       "say \"hi\" - x\nkeep '", "say \"ho\"\nkeep '", 0, EDIT_OK,
	       "say \"ho\"\nkeep \xE2\x80\x99\n");
}

static void replace_indentation_is_mapped(void **state)
{
	(void)state;
	expect("f {\n    let w = 3;\n    let h = 4;\n}\n", "let w = 3;\nlet h = 4;",
	       "let w = 3;\nif w {\n    let h = 5;\n}", 0, EDIT_OK,
	       "f {\n    let w = 3;\n    if w {\n        let h = 5;\n    }\n}\n");
	expect("all:\n\tcc a.c\n", "all:\n        cc a.c",
	       "all:\n        cc -O2 a.c\n        strip a", 0, EDIT_OK,
	       "all:\n\tcc -O2 a.c\n\tstrip a\n");
	expect("def f():\n    if a:\n        b()\n    c()\n", "if a:\n  b()\n      c()",
	       "if a:\n  d()\n      c()", 0, EDIT_OK,
	       "def f():\n    if a:\n        d()\n    c()\n");
	expect("def f():\n    if a:\n        b()\n    c()\n", "if a:\nb()\nc()",
	       "if a:\nd()\nc()", 0, EDIT_NO_MATCH, NULL);
	expect("if x:\n\ta()\n\tb()\n", "if x:\n    a()\n    b()",
	       "if x:\n    if y:\n        a()\n", 0, EDIT_OK, "if x:\n\tif y:\n\t\ta()\n\n");
	expect("if x:\n\ta()\n\tb()\n", "if x:\n    a()\n    b()", "if x:\n      a()", 0,
	       EDIT_INDENT, NULL);
}

static void replace_ladder_takes_the_first_level_that_matches(void **state)
{
	(void)state;
	/* exact once, with other blanks too: exact wins and is unique */
	expect("  a();\na();  \n\ta();;\nb\n", "  a();\n", "x\n", 0, EDIT_OK,
	       "x\na();  \n\ta();;\nb\n");
	/* blanks twice */
	expect("a(); \nb\na();  \nb\n", "a();\nb\n", "x\n", 0, EDIT_AMBIGUOUS, NULL);
}

static void replace_already_applied_is_told_apart(void **state)
{
	(void)state;
	expect("x = 2\n", "x = 1", "x = 2", 0, EDIT_ALREADY_APPLIED, NULL);
	expect("x = 2\n", "x = 1", "\n", 0, EDIT_NO_MATCH, NULL);
}

static void replace_degenerate_edits_are_refused(void **state)
{
	(void)state;
	expect("x\n", "", "y", 0, EDIT_EMPTY_SEARCH, NULL);
	expect("x\n", "x", "x", 0, EDIT_NOOP, NULL);
	expect("", "x", "y", 0, EDIT_NO_MATCH, NULL);
	expect("a\nb\nc\nd\n", "a\n...\nd", "z", 0, EDIT_ELLIPSIS, NULL);
	expect("a\nb\nc\n", "b", "// ... rest of the code unchanged", 0, EDIT_ELLIPSIS, NULL);
	expect("a\n\n\n\n\nb\n", "\n\n", "\n", 0, EDIT_AMBIGUOUS, NULL);
}

static void replace_copied_line_numbers_are_stripped(void **state)
{
	(void)state;
	expect("f\n    let w = 3;\n    let h = 4;\n",
	       "     2\t    let w = 3;\n     3\t    let h = 4;",
	       "     2\t    let w = 3;\n     3\t    let h = 5;", 0, EDIT_OK,
	       "f\n    let w = 3;\n    let h = 5;\n");
	expect("f\n    let w = 3;\n    let h = 4;\n",
	       "     2\t    let w = 3;\n     5\t    let h = 4;", "x", 0, EDIT_NO_MATCH, NULL);
}

static void replace_latin1_file_keeps_its_encoding(void **state)
{
	(void)state;
	expect("caf\xe9\nx\n", "x", "y", 0, EDIT_OK, "caf\xe9\ny\n");
	expect("caf\xe9\nx\n", "caf\xC3\xA9", "th\xC3\xA9", 0, EDIT_OK, "th\xe9\nx\n");
	expect("caf\xe9\nx\n", "x", "\xE2\x82\xAC", 0, EDIT_ENCODING, NULL);
}

static void replace_bom_stays(void **state)
{
	(void)state;
	expect("\xEF\xBB\xBF"
	       "a\nb\n",
	       "a", "x", 0, EDIT_OK,
	       "\xEF\xBB\xBF"
	       "x\nb\n");
	expect("\xEF\xBB\xBF"
	       "a\nb\n",
	       "\xEF\xBB\xBF"
	       "a\nb\n",
	       "\xEF\xBB\xBF"
	       "z\n",
	       0, EDIT_OK,
	       "\xEF\xBB\xBF"
	       "z\n");
	expect("\xEF\xBB\xBF"
	       "  a\n  b\n",
	       "a\nb", "c\nb", 0, EDIT_OK,
	       "\xEF\xBB\xBF"
	       "  c\n  b\n");
}

/* Files whose lines are all alike, and long texts to find in them: no time without end. */
static void repetitive_files_are_searched_in_bounded_time(void **state)
{
	const size_t lines = 400000, part = 20000;
	AUTO_FREE char *file = mem_calloc(lines * 2 + 1, 1), *old = mem_calloc(part * 2 + 8, 1);
	char *after, message[4096];
	size_t len;

	(void)state;
	for (size_t i = 0; i < lines; i++)
		memcpy(file + i * 2, "}\n", 2);
	for (size_t i = 0; i < part; i++)
		memcpy(old + i * 2, "}\n", 2);
	assert_int_equal(
	    replace_in(file, lines * 2, old, part * 2, "x", 1, 0, &after, &len, NULL),
	    EDIT_AMBIGUOUS);
	free(after);
	memcpy(old + part * 2, "x\n", 2);
	assert_int_equal(
	    replace_in(file, lines * 2, old, part * 2 + 2, "y", 1, 0, &after, &len, NULL),
	    EDIT_NO_MATCH);
	free(after);
	memcpy(old + part * 2, "}  \n", 4); /* many places, but for blanks at an end */
	assert_int_equal(
	    replace_in(file, lines * 2, old, part * 2 + 4, "y", 1, 0, &after, &len, message),
	    EDIT_LIMIT);
	free(after);
}

static void replace_binary_is_refused(void **state)
{
	char *after;
	size_t len;

	(void)state;
	assert_int_equal(replace_in("a\0b", 3, "a", 1, "b", 1, 0, &after, &len, NULL),
			 EDIT_BINARY);
	free(after);
}

/* ---- whole files and others ---- */

struct scene {
	struct fixture f;
	struct view *view;
	struct edit_result result;
};

static void scene_init(struct scene *s)
{
	char tree[GITOPS_OID_SIZE];

	fixture_init(&s->f);
	fixture_tree(&s->f, tree, "a.txt", "1\n2\n3\n", "d/b.txt", "b\n", "crlf.txt",
		     "a\r\nb\r\n", "README.md", "hello\n", "nonl", "x", NULL);
	s->view = view_new(s->f.repo, tree, NULL, &s->f.err);
	assert_non_null(s->view);
}

static void scene_release(struct scene *s)
{
	view_free(s->view);
	fixture_release(&s->f);
}

static enum edit_code apply(struct scene *s, struct edit edit)
{
	if (edit.text && !edit.text_len)
		edit.text_len = strlen(edit.text);
	if (edit_apply(s->view, &edit, &s->result, &s->f.err) < 0)
		fail_msg("%s", s->f.err.message);
	return s->result.code;
}

#define P(text) ((char *)(uintptr_t)(text))

static void expect_file(struct scene *s, const char *path, const char *bytes)
{
	char *have = fixture_read(s->view, path, NULL);

	assert_string_equal(have, bytes);
	free(have);
}

static void write_keeps_line_ends_and_mode(void **state)
{
	struct scene s;
	struct view_stat st;

	(void)state;
	scene_init(&s);
	assert_int_equal(
	    apply(&s,
		  (struct edit){.op = EDIT_WRITE, .path = P("crlf.txt"), .text = P("a\nc\n")}),
	    EDIT_OK);
	expect_file(&s, "crlf.txt", "a\r\nc\r\n");
	assert_int_equal(apply(&s, (struct edit){.op = EDIT_WRITE,
						 .path = P("crlf.txt"),
						 .text = P("a\r\nc\n")}),
			 EDIT_OK);
	expect_file(&s, "crlf.txt", "a\r\nc\n");
	assert_int_equal(apply(&s, (struct edit){.op = EDIT_WRITE,
						 .path = P("run.sh"),
						 .text = P("#!/bin/sh\n"),
						 .mode = 0100755}),
			 EDIT_OK);
	assert_int_equal(apply(&s, (struct edit){.op = EDIT_WRITE,
						 .path = P("run.sh"),
						 .text = P("#!/bin/sh\n:\n")}),
			 EDIT_OK);
	assert_int_equal(view_stat(s.view, "run.sh", &st, &s.f.err), 0);
	assert_int_equal(st.kind, VIEW_EXEC);
	assert_int_equal(
	    apply(&s,
		  (struct edit){.op = EDIT_WRITE, .path = P("a.txt"), .text = P("1\n2\n3\n")}),
	    EDIT_NOOP);
	assert_int_equal(apply(&s, (struct edit){.op = EDIT_WRITE,
						 .path = P("a.txt"),
						 .text = P("x\n"),
						 .create = true}),
			 EDIT_EXISTS);
	scene_release(&s);
}

static void write_that_drops_most_lines_is_refused_until_deleted(void **state)
{
	struct scene s;
	struct strbuf text;

	(void)state;
	scene_init(&s);
	strbuf_init(&text, 100000);
	for (int i = 0; i < 50; i++)
		strbuf_addf(&text, "line %d\n", i);
	assert_int_equal(
	    apply(&s, (struct edit){.op = EDIT_WRITE, .path = P("big.txt"), .text = text.data}),
	    EDIT_OK);
	strbuf_release(&text);
	assert_int_equal(apply(&s, (struct edit){.op = EDIT_WRITE,
						 .path = P("big.txt"),
						 .text = P("line 0\nline 1\n")}),
			 EDIT_SHRINK);
	assert_int_equal(apply(&s, (struct edit){.op = EDIT_DELETE, .path = P("big.txt")}),
			 EDIT_OK);
	assert_int_equal(apply(&s, (struct edit){.op = EDIT_WRITE,
						 .path = P("big.txt"),
						 .text = P("line 0\nline 1\n")}),
			 EDIT_OK);
	scene_release(&s);
}

static void insert_places_text_behind_a_line(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s);
	assert_int_equal(apply(&s, (struct edit){.op = EDIT_INSERT,
						 .path = P("a.txt"),
						 .text = P("0\n"),
						 .line = 0}),
			 EDIT_OK);
	expect_file(&s, "a.txt", "0\n1\n2\n3\n");
	assert_int_equal(apply(&s, (struct edit){.op = EDIT_INSERT,
						 .path = P("a.txt"),
						 .text = P("4"),
						 .line = 4}),
			 EDIT_OK);
	expect_file(&s, "a.txt", "0\n1\n2\n3\n4\n");
	assert_int_equal(apply(&s, (struct edit){.op = EDIT_INSERT,
						 .path = P("a.txt"),
						 .text = P("9"),
						 .line = 9}),
			 EDIT_RANGE);
	assert_int_equal(apply(&s, (struct edit){.op = EDIT_INSERT,
						 .path = P("crlf.txt"),
						 .text = P("x\ny"),
						 .line = 1}),
			 EDIT_OK);
	expect_file(&s, "crlf.txt", "a\r\nx\r\ny\r\nb\r\n");
	assert_int_equal(apply(&s, (struct edit){.op = EDIT_INSERT,
						 .path = P("nonl"),
						 .text = P("y\n"),
						 .line = 1}),
			 EDIT_OK);
	expect_file(&s, "nonl", "x\ny");
	scene_release(&s);
}

static void delete_and_rename_keep_the_rest(void **state)
{
	struct scene s;
	struct view_stat st;

	(void)state;
	scene_init(&s);
	assert_int_equal(apply(&s, (struct edit){.op = EDIT_DELETE, .path = P("no")}),
			 EDIT_MISSING_FILE);
	assert_int_equal(apply(&s, (struct edit){.op = EDIT_DELETE, .path = P("d")}),
			 EDIT_MODE);
	assert_int_equal(
	    apply(&s,
		  (struct edit){.op = EDIT_RENAME, .path = P("a.txt"), .to = P("README.md")}),
	    EDIT_EXISTS);
	assert_int_equal(
	    apply(&s, (struct edit){.op = EDIT_RENAME, .path = P("a.txt"), .to = P("A.txt")}),
	    EDIT_OK);
	expect_file(&s, "A.txt", "1\n2\n3\n");
	assert_int_equal(
	    apply(&s,
		  (struct edit){.op = EDIT_RENAME, .path = P("d/b.txt"), .to = P("d/b.txt/c")}),
	    EDIT_OK);
	expect_file(&s, "d/b.txt/c", "b\n");
	assert_int_equal(apply(&s, (struct edit){.op = EDIT_DELETE, .path = P("d/b.txt/c")}),
			 EDIT_OK);
	assert_int_equal(view_stat(s.view, "d", &st, &s.f.err), 0);
	assert_int_equal(st.kind, VIEW_NONE);
	assert_int_equal(
	    apply(&s, (struct edit){.op = EDIT_WRITE, .path = P("d"), .text = P("file\n")}),
	    EDIT_OK);
	scene_release(&s);
}

static void refused_paths_have_their_code(void **state)
{
	static const char *const bad[] = {"/etc/x",   "../x",	 "a/../x",	".git/hooks/x",
					  "x/.GIT/y", "a\\b",	 "a.txt/x",	"",
					  "a//b",     "git~1/x", ".gitmodules", "Readme.md"};
	struct scene s;

	(void)state;
	scene_init(&s);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (apply(&s,
			  (struct edit){.op = EDIT_WRITE, .path = P(bad[i]), .text = P("x")}) !=
		    EDIT_PATH)
			fail_msg("'%s': %s", bad[i], s.result.message);
	scene_release(&s);
}

static void limits_have_their_code(void **state)
{
	struct view_limits limits = {.files = 2, .bytes = 99, .file_bytes = 60};
	struct scene s;
	char big[80];

	(void)state;
	scene_init(&s);
	AUTO_VIEW struct view *view = view_new(s.f.repo, view_tree(s.view), &limits, &s.f.err);
	view_free(s.view);
	s.view = MEM_STEAL(view);
	memset(big, 'x', sizeof(big) - 1);
	big[79] = '\0';
	assert_int_equal(
	    apply(&s, (struct edit){.op = EDIT_WRITE, .path = P("n1"), .text = big}),
	    EDIT_LIMIT);
	big[50] = '\0';
	assert_int_equal(
	    apply(&s, (struct edit){.op = EDIT_WRITE, .path = P("n1"), .text = big}), EDIT_OK);
	assert_int_equal(
	    apply(&s, (struct edit){.op = EDIT_WRITE, .path = P("n2"), .text = big}),
	    EDIT_LIMIT);
	assert_int_equal(
	    apply(&s, (struct edit){.op = EDIT_WRITE, .path = P("n2"), .text = P("y")}),
	    EDIT_OK);
	assert_int_equal(
	    apply(&s, (struct edit){.op = EDIT_WRITE, .path = P("n3"), .text = P("y")}),
	    EDIT_LIMIT);
	assert_int_equal(apply(&s, (struct edit){.op = EDIT_DELETE, .path = P("a.txt")}),
			 EDIT_LIMIT);
	scene_release(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(replace_exact_unique_changes_only_that),
	    cmocka_unit_test(replace_several_places_is_refused_or_counted),
	    cmocka_unit_test(replace_ambiguous_names_all_lines),
	    cmocka_unit_test(replace_unmatched_shows_the_nearest_passage),
	    cmocka_unit_test(replace_crlf_file_keeps_its_line_ends),
	    cmocka_unit_test(replace_of_line_ends_alone_is_taken_literally),
	    cmocka_unit_test(replace_trailing_blanks_are_found_and_kept),
	    cmocka_unit_test(replace_without_final_newline_keeps_that),
	    cmocka_unit_test(replace_typographic_punctuation_is_folded),
	    cmocka_unit_test(replace_indentation_is_mapped),
	    cmocka_unit_test(replace_ladder_takes_the_first_level_that_matches),
	    cmocka_unit_test(replace_already_applied_is_told_apart),
	    cmocka_unit_test(replace_degenerate_edits_are_refused),
	    cmocka_unit_test(replace_copied_line_numbers_are_stripped),
	    cmocka_unit_test(replace_latin1_file_keeps_its_encoding),
	    cmocka_unit_test(replace_bom_stays),
	    cmocka_unit_test(repetitive_files_are_searched_in_bounded_time),
	    cmocka_unit_test(replace_binary_is_refused),
	    cmocka_unit_test(write_keeps_line_ends_and_mode),
	    cmocka_unit_test(write_that_drops_most_lines_is_refused_until_deleted),
	    cmocka_unit_test(insert_places_text_behind_a_line),
	    cmocka_unit_test(delete_and_rename_keep_the_rest),
	    cmocka_unit_test(refused_paths_have_their_code),
	    cmocka_unit_test(limits_have_their_code),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
