/* The cases of tests/fixtures/edits: what models really answer, and the right result. */
#include "fixture.h"

#include "gitops/edit_json.h"
#include "pipeline/base/json.h"

#define CASES "tests/fixtures/edits/cases.jsonl"

static void put_files(struct view *view, const struct json *files)
{
	struct error err = {0};

	for (size_t i = 0; i < js_len(files); i++) {
		struct strbuf bytes;
		strbuf_init(&bytes, STRBUF_MAX);
		assert_int_equal(js_need_bytes(js_at(files, i), "content", &bytes, &err), 0);
		if (view_put(view, js_str(js_at(files, i), "path", ""), VIEW_FILE, bytes.data,
			     bytes.len, &err) < 0)
			fail_msg("%s", err.message);
		strbuf_release(&bytes);
	}
}

static void expect_files(struct view *view, const char *id, const struct json *files)
{
	struct view_listing listing;
	struct error err = {0};

	assert_int_equal(view_list(view, "", true, NULL, 1000, &listing, &err), 0);
	if (listing.len != js_len(files))
		fail_msg("%s: %zu files instead of %zu", id, listing.len, js_len(files));
	view_listing_release(&listing);
	for (size_t i = 0; i < js_len(files); i++) {
		struct strbuf wanted;
		size_t len;
		const char *path = js_str(js_at(files, i), "path", "");
		char *have = fixture_read(view, path, &len);
		strbuf_init(&wanted, STRBUF_MAX);
		assert_int_equal(js_need_bytes(js_at(files, i), "content", &wanted, &err), 0);
		if (len != wanted.len || memcmp(have, wanted.data, len) != 0)
			fail_msg("%s: %s is\n%s\ninstead of\n%s", id, path, have, wanted.data);
		strbuf_release(&wanted);
		free(have);
	}
}

static void run_case(const struct json *one)
{
	const char *id = js_str(one, "id", "?"), *wanted = js_str(one, "outcome", "");
	struct fixture f;
	struct edit_list list = {NULL, 0, 0};
	enum edit_code code = EDIT_OK;
	struct edit_result result = {.code = EDIT_OK};

	fixture_init(&f);
	struct view *view = view_new(f.repo, EMPTY_TREE, NULL, &f.err);
	assert_non_null(view);
	put_files(view, js_get(one, "before"));
	if (edit_list_from_json(js_get(one, "edits"), &list, &f.err) < 0)
		fail_msg("%s: %s", id, f.err.message);
	for (size_t i = 0; i < list.len && code == EDIT_OK; i++) {
		if (edit_apply(view, &list.items[i], &result, &f.err) < 0)
			fail_msg("%s: %s", id, f.err.message);
		code = result.code;
	}
	if (strcmp(edit_code_text(code), wanted) != 0)
		fail_msg("%s: %s instead of %s: %s", id, edit_code_text(code), wanted,
			 result.message);
	expect_files(view, id, js_get(one, code == EDIT_OK ? "after" : "before"));
	/* and through JSON again it is the same edit */
	struct json *again = edit_list_to_json(&list);
	struct edit_list second = {NULL, 0, 0};
	assert_int_equal(edit_list_from_json(again, &second, &f.err), 0);
	assert_int_equal(second.len, list.len);
	js_free(again);
	edit_list_release(&second);
	edit_list_release(&list);
	view_free(view);
	fixture_release(&f);
}

static void every_case_has_its_outcome(void **state)
{
	struct strbuf text;
	struct error err = {0};
	size_t count = 0;

	(void)state;
	strbuf_init(&text, STRBUF_MAX);
	if (fd_read_file(AT_FDCWD, CASES, &text, &err) < 0)
		fail_msg("%s", err.message);
	for (char *line = text.data; *line; count++) {
		size_t len = strcspn(line, "\n");
		struct json *one = js_parse(line, len, len + 1, "case", &err);
		if (!one)
			fail_msg("%s", err.message);
		run_case(one);
		js_free(one);
		line += len + (line[len] == '\n');
	}
	assert_true(count >= 30);
	strbuf_release(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_case_has_its_outcome)};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
