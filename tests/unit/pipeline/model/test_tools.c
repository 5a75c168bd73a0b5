/* The tools on a view: what they answer, and that nothing a model sends ends the process. */
#include "tests/unit/gitops/fixture.h"

#include "model_test.h"

#include "pipeline/model/tools.h"

struct scene {
	struct fixture f;
	struct view *view;
	struct toolbox box;
};

static void scene_init(struct scene *s)
{
	char tree[GITOPS_OID_SIZE];

	fixture_init(&s->f);
	fixture_tree(&s->f, tree, "a.txt", "one\ntwo\nthree\n", "src/b.c", "int b;\nint two;\n",
		     "src/crlf", "x\r\ny\r\n", "latin", "gr\xfc\xdf\n", "noeol", "last",
		     "empty", "", NULL);
	s->view = view_new(s->f.repo, tree, NULL, &s->f.err);
	assert_non_null(s->view);
	toolbox_init(&s->box, s->view);
}

static void scene_release(struct scene *s)
{
	toolbox_release(&s->box);
	view_free(s->view);
	fixture_release(&s->f);
}

/* Runs a call; its text, owned. */
static char *call(struct scene *s, const char *name, const char *input, bool *failed)
{
	struct json *json AUTO_JSON = parse(input);
	struct tool_result result AUTO_TOOL_RESULT = {.failed = false};

	tool_result_init(&result);
	assert_int_equal(tools_run(&s->box, name, json, &result, &s->f.err), 0);
	*failed = result.failed;
	assert_true(result.text.len <= TOOL_RESULT_MAX);
	return strbuf_steal(&result.text);
}

static void expect_text(struct scene *s, const char *name, const char *input,
			const char *wanted)
{
	bool failed;
	char *text AUTO_FREE = call(s, name, input, &failed);

	assert_string_equal(text, wanted);
	assert_false(failed);
}

static void expect_done(struct scene *s, const char *name, const char *input)
{
	bool failed;
	char *text AUTO_FREE = call(s, name, input, &failed);

	if (failed)
		fail_msg("%s %s: %s", name, input, text);
}

static void expect_refused(struct scene *s, const char *name, const char *input,
			   const char *part)
{
	bool failed;
	char *text AUTO_FREE = call(s, name, input, &failed);

	assert_true(failed);
	if (!strstr(text, part))
		fail_msg("\"%s\" is not in: %s", part, text);
}

static void list_shows_directories_and_patterns(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s);
	expect_text(&s, "list_files", "{}", "a.txt\nempty\nlatin\nnoeol\nsrc/\n");
	expect_text(&s, "list_files", "{'path':'./src/'}", "src/b.c\nsrc/crlf\n");
	expect_text(&s, "list_files", "{'pattern':'*.c','path':null}", "src/b.c\n");
	expect_text(&s, "list_files", "{'recursive':'true'}",
		    "a.txt\nempty\nlatin\nnoeol\nsrc/b.c\nsrc/crlf\n");
	expect_text(&s, "list_files", "{'pattern':'*.zig'}", "No files.\n");
	expect_refused(&s, "list_files", "{'path':'nowhere'}", "nowhere");
	expect_refused(&s, "list_files", "{'path':'../x'}", "..");
	scene_release(&s);
}

static void read_numbers_lines_and_says_what_cannot_be_seen(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s);
	expect_text(&s, "read_file", "{'path':'a.txt'}",
		    "     1\tone\n     2\ttwo\n     3\tthree\n");
	expect_text(&s, "read_file", "{'path':'a.txt','start_line':2,'end_line':'2'}",
		    "     2\ttwo\n[lines 2 to 2 of 3]\n");
	expect_text(&s, "read_file", "{'path':'a.txt','start_line':9}",
		    "[the file has 3 lines]\n");
	expect_text(&s, "read_file", "{'path':'a.txt','start_line':3,'end_line':2}",
		    "[the file has 3 lines]\n");
	expect_text(&s, "read_file", "{'path':'noeol'}",
		    "     1\tlast\n[no newline at the end of the file]\n");
	expect_text(&s, "read_file", "{'path':'src/crlf'}",
		    "     1\tx\n     2\ty\n[lines end in CR LF; edits keep that]\n");
	expect_text(&s, "read_file", "{'path':'latin'}",
		    "     1\tgr\xc3\xbc\xc3\x9f\n[not UTF-8: shown as Latin-1; edits keep the "
		    "encoding]\n");
	expect_text(&s, "read_file", "{'path':'empty'}", "[the file is empty]\n");
	expect_refused(&s, "read_file", "{'path':'none'}", "none");
	expect_refused(&s, "read_file", "{'path':'src'}", "src");
	scene_release(&s);
}

static void read_long_files_and_lines_are_cut(void **state)
{
	struct strbuf big;
	struct scene s;
	bool failed;
	char *text;

	(void)state;
	scene_init(&s);
	strbuf_init(&big, STRBUF_MAX);
	for (int i = 1; i <= 5000; i++)
		strbuf_addf(&big, "line %d\n", i);
	assert_int_equal(view_put(s.view, "long", VIEW_FILE, big.data, big.len, &s.f.err), 0);
	text = call(&s, "read_file", "{'path':'long'}", &failed);
	assert_non_null(strstr(text, "  2000\tline 2000\n[lines 1 to 2000 of 5000]\n"));
	assert_null(strstr(text, "line 2001"));
	free(text);
	strbuf_reset(&big);
	for (int i = 0; i < 200000; i++)
		strbuf_adds(&big, "\xc3\xa4");
	assert_int_equal(view_put(s.view, "wide", VIEW_FILE, big.data, big.len, &s.f.err), 0);
	text = call(&s, "read_file", "{'path':'wide'}", &failed);
	assert_true(strlen(text) < 2200);
	assert_non_null(strstr(text, "\xc3\xa4 [line cut]\n"));
	free(text);
	strbuf_reset(&big);
	for (int i = 0; i < 2000; i++)
		strbuf_addf(&big, "%0199d\n", i);
	assert_int_equal(view_put(s.view, "much", VIEW_FILE, big.data, big.len, &s.f.err), 0);
	text = call(&s, "read_file", "{'path':'much'}", &failed);
	assert_true(strlen(text) > 50000 && strlen(text) <= TOOL_RESULT_MAX);
	assert_non_null(strstr(text, " of 2000]\n"));
	free(text);
	assert_int_equal(view_put(s.view, "binary", VIEW_FILE, "a\0b", 3, &s.f.err), 0);
	expect_refused(&s, "read_file", "{'path':'binary'}", "binary file of 3 bytes");
	strbuf_release(&big);
	scene_release(&s);
}

static void search_is_literal_unless_asked(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s);
	expect_text(&s, "search", "{'text':'two'}", "a.txt:2: two\nsrc/b.c:2: int two;\n");
	expect_text(&s, "search", "{'text':'t.o'}", "No line matches, in 6 files.\n");
	expect_text(&s, "search", "{'text':'T.O','regex':true,'ignore_case':true,'path':'src'}",
		    "src/b.c:2: int two;\n");
	expect_text(&s, "search", "{'text':'two','pattern':'*.txt'}", "a.txt:2: two\n");
	expect_refused(&s, "search", "{'text':'(','regex':true}", "");
	expect_refused(&s, "search", "{'text':''}", "");
	expect_refused(&s, "search", "{}", "\"text\" is missing");
	scene_release(&s);
}

static void edits_are_made_and_recorded(void **state)
{
	struct scene s;
	char *text;

	(void)state;
	scene_init(&s);
	expect_done(&s, "edit_file", "{'path':'./a.txt','old':'two','new':'zwei'}");
	expect_done(&s, "edit_file",
		    "{'path':'src/b.c','old':'int','new':'long','replace_all':true}");
	expect_done(&s, "write_file",
		    "{'path':'run','content':'#!/bin/sh\\n','executable':true}");
	expect_done(&s, "delete_file", "{'path':'latin'}");
	expect_done(&s, "rename_file", "{'path':'noeol','to':'dir/noeol'}");
	expect_json(
	    s.box.edits,
	    "[{'op':'edit','path':'a.txt','old':'two','new':'zwei','count':1},"
	    "{'op':'edit','path':'src/b.c','old':'int','new':'long','count':-1},"
	    "{'op':'write','path':'run','content':'#!/bin/sh\\n','mode':'100755'},"
	    "{'op':'delete','path':'latin'},{'op':'rename','path':'noeol','to':'dir/noeol'}]");
	assert_int_equal(s.box.round_edits, 5);
	text = fixture_read(s.view, "src/b.c", NULL);
	assert_string_equal(text, "long b;\nlong two;\n");
	free(text);
	scene_release(&s);
}

static void refused_edits_change_nothing(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s);
	expect_refused(&s, "edit_file", "{'path':'a.txt','old':'four','new':'x'}",
		       "E_NO_MATCH");
	expect_refused(&s, "edit_file", "{'path':'src/b.c','old':'int','new':'x'}",
		       "E_AMBIGUOUS");
	expect_refused(&s, "edit_file", "{'path':'a.txt','old':'','new':'x'}",
		       "E_EMPTY_SEARCH");
	expect_refused(&s, "edit_file", "{'path':'a.txt','new':'x'}", "\"old\" is missing");
	expect_refused(&s, "edit_file", "{'path':'a.txt','old':['two'],'new':'x'}",
		       "must be a string");
	expect_refused(&s, "edit_file",
		       "{'path':'a.txt','old':'two','new':'x','replace_all':'maybe'}",
		       "true or false");
	expect_refused(&s, "edit_file", "{'path':'a.txt','old_str':'two','new_str':'x'}",
		       "The arguments are: path, old, new, replace_all");
	expect_refused(&s, "write_file", "{'path':'.git/hooks/post-commit','content':'x'}",
		       ".git");
	expect_refused(&s, "write_file", "{'path':'/etc/passwd','content':'x'}", "absolute");
	expect_refused(&s, "write_file", "{'path':'src/../../x','content':'x'}", "refused");
	expect_refused(&s, "write_file", "{'path':'','content':'x'}", "empty");
	expect_refused(&s, "write_file", "{'path':'src','content':'x'}", "src");
	expect_refused(&s, "delete_file", "{'path':'none'}", "none");
	expect_refused(&s, "rename_file", "{'path':'a.txt','to':'src/b.c'}", "E_EXISTS");
	expect_refused(&s, "rename_file", "{'path':'a.txt','to':'.GIT/x'}", "refused");
	expect_refused(&s, "read_file", "{'path':'a.txt','start_line':-1}", "whole number");
	expect_refused(&s, "read_file", "{'path':'a.txt','start_line':1.5}", "whole number");
	expect_refused(&s, "read_file", "{'path':'a.txt','start_line':99999999999}",
		       "whole number");
	expect_refused(&s, "run", "{'command':'rm -rf /'}", "There is no tool \"run\"");
	expect_refused(&s, "\x1b[0m", "{}", "There is no tool \"\\x1b[0m\"");
	expect_refused(&s, "", "{}", "submit");
	assert_int_equal(js_len(s.box.edits), 0);
	scene_release(&s);
}

static void submit_needs_a_change_that_the_model_has_seen(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s);
	expect_refused(&s, "submit", "{'title':'T'}", "nothing differs from the base");
	expect_refused(&s, "edit_file", "{'path':'a.txt','old':'four','new':'x'}",
		       "E_NO_MATCH");
	expect_done(&s, "edit_file", "{'path':'a.txt','old':'two','new':'2'}");
	expect_refused(&s, "submit", "{'title':'T'}", "an edit of this same turn was refused");
	s.box.turn_refused = false;
	expect_refused(&s, "submit", "{'title':' \\n'}", "title is empty");
	expect_refused(&s, "submit", "{'body':'x'}", "\"title\" is missing");
	assert_false(s.box.submitted);
	s.box.turn_refused = false;
	expect_done(&s, "submit", "{'title':'  Count \\n second line','body':'Why.\\n'}");
	assert_true(s.box.submitted);
	assert_string_equal(s.box.title, "Count");
	assert_string_equal(s.box.body, "Why.\n");
	scene_release(&s);
}

static void submit_of_edits_that_cancel_out_is_refused(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s);
	expect_done(&s, "edit_file", "{'path':'a.txt','old':'two','new':'2'}");
	expect_done(&s, "edit_file", "{'path':'a.txt','old':'2','new':'two'}");
	expect_refused(&s, "submit", "{'title':'T'}", "nothing differs from the base");
	scene_release(&s);
}

static void submit_texts_are_capped(void **state)
{
	struct scene s;
	struct strbuf text;

	(void)state;
	scene_init(&s);
	strbuf_init(&text, STRBUF_MAX);
	for (int i = 0; i < 20000; i++)
		strbuf_adds(&text, "\xc3\xa4");
	toolbox_submit(&s.box, text.data, text.data);
	assert_int_equal(strlen(s.box.title), SUBMIT_TITLE_MAX);
	assert_int_equal(strlen(s.box.body), SUBMIT_BODY_MAX);
	toolbox_submit(&s.box, "x", text.data + 1);
	strbuf_release(&text);
	scene_release(&s);
}

static void later_round_needs_a_new_edit(void **state)
{
	struct json *edits AUTO_JSON =
	    parse("[{'op':'edit','path':'a.txt','old':'two','new':'2'}]");
	struct json *stale AUTO_JSON =
	    parse("[{'op':'edit','path':'a.txt','old':'four','new':'2'}]");
	struct scene s;

	(void)state;
	scene_init(&s);
	assert_int_equal(toolbox_load(&s.box, edits, &s.f.err), 0);
	expect_text(&s, "search", "{'text':'2','path':'a.txt'}", "a.txt:2: 2\n");
	expect_refused(&s, "submit", "{'title':'T'}",
		       "nothing has changed since the tests failed");
	s.box.turn_refused = false;
	expect_done(&s, "write_file", "{'path':'new','content':''}");
	expect_done(&s, "submit", "{'title':'T'}");
	assert_int_equal(js_len(s.box.edits), 2);
	assert_int_equal(toolbox_load(&s.box, stale, &s.f.err), ERROR_FAILED);
	scene_release(&s);
}

static void schema_names_every_tool_and_its_needs(void **state)
{
	struct json *schema AUTO_JSON = tools_schema();

	(void)state;
	assert_int_equal(js_len(schema), 8);
	assert_string_equal(js_str(js_at(schema, 3), "name", ""), "edit_file");
	expect_json(js_get(js_get(js_at(schema, 3), "parameters"), "required"),
		    "['path','old']");
	assert_true(tools_has_effect("submit") && tools_has_effect("rename_file"));
	assert_false(tools_has_effect("search") || tools_has_effect("none"));
}

static void describe_escapes(void **state)
{
	struct json *input AUTO_JSON = parse("{'path':'a\\u001b[31mb\\n'}");
	char text[64];

	(void)state;
	tools_describe("read_file", input, text, sizeof(text));
	assert_string_equal(text, "read_file a\\x1b[31mb\\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(list_shows_directories_and_patterns),
	    cmocka_unit_test(read_numbers_lines_and_says_what_cannot_be_seen),
	    cmocka_unit_test(read_long_files_and_lines_are_cut),
	    cmocka_unit_test(search_is_literal_unless_asked),
	    cmocka_unit_test(edits_are_made_and_recorded),
	    cmocka_unit_test(refused_edits_change_nothing),
	    cmocka_unit_test(submit_needs_a_change_that_the_model_has_seen),
	    cmocka_unit_test(submit_of_edits_that_cancel_out_is_refused),
	    cmocka_unit_test(submit_texts_are_capped),
	    cmocka_unit_test(later_round_needs_a_new_edit),
	    cmocka_unit_test(schema_names_every_tool_and_its_needs),
	    cmocka_unit_test(describe_escapes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
