/*
 * The cases of tests/fixtures/edits: what models really answer, and the right result. Each is
 * run as the format that its file is named after and, where it is text, as "auto" too; and
 * once more through JSON, as the model stage hands it to the apply stage.
 */
#include "fixture.h"

#include "gitops/edit_json.h"
#include "gitops/edit_text.h"
#include "pipeline/base/json.h"
#include "pipeline/base/text.h"

static const char *const files[] = {"edits",	   "udiff", "search-replace",
				    "apply-patch", "whole", "tool"};

static struct fixture f;  /* one for all: no case writes objects */
static size_t complaints; /* all cases are run before the test fails */

#define COMPLAIN(...) (complaints++, print_error("# " __VA_ARGS__), print_error("\n"))

static enum view_kind kind_of(const struct json *file)
{
	return strcmp(js_str(file, "mode", ""), "100755") == 0 ? VIEW_EXEC : VIEW_FILE;
}

static void put_files(struct view *view, const struct json *list)
{
	struct error err = {0};

	for (size_t i = 0; i < js_len(list); i++) {
		struct strbuf bytes;
		strbuf_init(&bytes, STRBUF_MAX);
		assert_int_equal(js_need_bytes(js_at(list, i), "content", &bytes, &err), 0);
		if (view_put(view, js_str(js_at(list, i), "path", ""), kind_of(js_at(list, i)),
			     bytes.data, bytes.len, &err) < 0)
			fail_msg("%s", err.message);
		strbuf_release(&bytes);
	}
}

static void expect_file(struct view *view, const char *id, const struct json *file)
{
	const char *path = js_str(file, "path", "");
	struct strbuf wanted;
	struct view_stat st;
	struct error err = {0};
	size_t len;

	if (view_stat(view, path, &st, &err) < 0 || st.kind != kind_of(file))
		COMPLAIN("%s: %s is not there with its mode", id, path);
	if (st.kind == VIEW_NONE)
		return;
	char *have = fixture_read(view, path, &len);
	strbuf_init(&wanted, STRBUF_MAX);
	assert_int_equal(js_need_bytes(file, "content", &wanted, &err), 0);
	if (len != wanted.len || memcmp(have, wanted.data, len) != 0)
		COMPLAIN("%s: %s is\n%s\ninstead of\n%s", id, path, have, wanted.data);
	strbuf_release(&wanted);
	free(have);
}

static void expect_files(struct view *view, const char *id, const struct json *list)
{
	struct view_listing listing;
	struct error err = {0};

	assert_int_equal(view_list(view, "", true, NULL, 1000, &listing, &err), 0);
	if (listing.len != js_len(list))
		COMPLAIN("%s: %zu files instead of %zu", id, listing.len, js_len(list));
	view_listing_release(&listing);
	for (size_t i = 0; i < js_len(list); i++)
		expect_file(view, id, js_at(list, i));
}

/* The case's edits; a text that is refused as a whole gives its code. */
static enum edit_code read_edits(const struct json *one, enum edit_format format,
				 struct edit_list *list)
{
	struct strbuf text;
	struct edit_fault fault;
	struct error err = {0};
	const char *id = js_str(one, "id", "?");

	if (js_get(one, "edits")) {
		if (edit_list_from_json(js_get(one, "edits"), list, &err) < 0)
			fail_msg("%s: %s", id, err.message);
		return EDIT_OK;
	}
	strbuf_init(&text, STRBUF_MAX);
	if (js_need_bytes(one, "text", &text, &err) < 0)
		fail_msg("%s: %s", id, err.message);
	int rc = edit_text_parse(text.data, text.len, &format, list, &fault);
	strbuf_release(&text);
	if (rc < 0 && (!fault.message[0] || fault.code == EDIT_OK))
		COMPLAIN("%s: refused without saying why", id);
	if (rc == 0 && list->len == 0)
		fail_msg("%s: read without an edit", id);
	return rc < 0 ? fault.code : EDIT_OK;
}

/* Through JSON and back; false when it is another list. */
static void pass_on(const char *id, struct edit_list *list)
{
	struct json *json = edit_list_to_json(list), *again;
	struct edit_list second = {NULL, 0, 0};
	struct strbuf one, two;
	struct error err = {0};

	/* a mode that no file can get does not travel: it is refused before */
	if (edit_list_from_json(json, &second, &err) < 0)
		fail_msg("%s: %s", id, err.message);
	again = edit_list_to_json(&second);
	strbuf_init(&one, STRBUF_MAX);
	strbuf_init(&two, STRBUF_MAX);
	js_format(json, &one);
	js_format(again, &two);
	assert_string_equal(one.data, two.data);
	strbuf_release(&one);
	strbuf_release(&two);
	js_free(json);
	js_free(again);
	edit_list_release(&second);
}

static void run_case(const struct json *one, enum edit_format format)
{
	const char *id = js_str(one, "id", "?"), *wanted = js_str(one, "outcome", "");
	struct edit_list list = {NULL, 0, 0};
	struct edit_result *results;
	struct view *view = view_new(f.repo, EMPTY_TREE, NULL, &f.err);
	assert_non_null(view);
	put_files(view, js_get(one, "before"));
	enum edit_code code = read_edits(one, format, &list);
	results = mem_calloc(list.len + 1, sizeof(*results));
	const char *why = "the text is refused";
	if (code == EDIT_OK) {
		pass_on(id, &list);
		if (edit_try(view, &list, results, &code, &f.err) < 0)
			fail_msg("%s: %s", id, f.err.message);
		why = list.len ? results[0].message : "";
		for (size_t i = 0; i < list.len; i++)
			if (!results[i].message[0] ||
			    !text_is_utf8(results[i].message, strlen(results[i].message)))
				COMPLAIN("%s: no message", id);
	}
	if (strcmp(edit_code_text(code), wanted) != 0)
		COMPLAIN("%s (as %s): %s instead of %s: %s", id, edit_format_name(format),
			 edit_code_text(code), wanted, why);
	expect_files(view, id, js_get(one, code == EDIT_OK ? "after" : "before"));
	free(results);
	edit_list_release(&list);
	view_free(view);
}

static size_t run_file(const char *name)
{
	AUTO_FREE char *path = mem_printf("tests/fixtures/edits/%s.jsonl", name);
	enum edit_format format = FORMAT_AUTO;
	struct strbuf text;
	struct error err = {0};
	size_t count = 0;

	edit_format_find(name, &format);
	strbuf_init(&text, STRBUF_MAX);
	if (fd_read_file(AT_FDCWD, path, &text, &err) < 0)
		fail_msg("%s", err.message);
	for (char *line = text.data; *line; count++) {
		size_t len = strcspn(line, "\n");
		struct json *one = js_parse(line, len, len + 1, "case", &err);
		if (!one)
			fail_msg("%s: case %zu: %s", path, count + 1, err.message);
		run_case(one, format);
		if (format != FORMAT_AUTO && js_bool(one, "auto", true))
			run_case(one, FORMAT_AUTO);
		js_free(one);
		line += len + (line[len] == '\n');
	}
	strbuf_release(&text);
	return count;
}

static void every_case_has_its_outcome(void **state)
{
	size_t count = 0;

	(void)state;
	fixture_init(&f);
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		count += run_file(files[i]);
	fixture_release(&f);
	assert_int_equal(complaints, 0);
	assert_true(count >= 160);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_case_has_its_outcome)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
