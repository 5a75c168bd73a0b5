/* What a command changed, told by a source that lies: what no file system would say. */
#include "fixture.h"

#include "gitops/taken.h"
#include "pipeline/base/json.h"

struct told {
	const char *path; /* of the directory */
	struct taken_entry entries[4];
	bool opaque;
};

struct lie {
	const struct told *dirs;
	size_t count;
	const char *bytes;
};

static int list_dir(void *arg, const char *path, size_t max, struct taken_dir *dir,
		    struct error *err)
{
	const struct lie *lie = arg;

	(void)max;
	*dir = (struct taken_dir){mem_calloc(4, sizeof(*dir->items)), 0, false};
	for (size_t i = 0; i < lie->count; i++) {
		if (strcmp(lie->dirs[i].path, path) != 0)
			continue;
		dir->opaque = lie->dirs[i].opaque;
		for (size_t k = 0; k < 4 && lie->dirs[i].entries[k].name; k++) {
			dir->items[dir->len] = lie->dirs[i].entries[k];
			dir->items[dir->len++].name = mem_strdup(lie->dirs[i].entries[k].name);
		}
		return 0;
	}
	taken_dir_release(dir);
	return error_set(err, ERROR_FAILED, "no such directory");
}

static int read_path(void *arg, const char *path, uint64_t max, struct strbuf *out,
		     struct error *err)
{
	const struct lie *lie = arg;

	(void)path;
	(void)max;
	if (!lie->bytes)
		return error_set(err, ERROR_FAILED, "no such file");
	strbuf_adds(out, lie->bytes);
	return 0;
}

static long long until_ms;

static int collect(const struct told *dirs, size_t count, const char *bytes,
		   struct json **files, struct error *err)
{
	struct fixture f;
	char tree[GITOPS_OID_SIZE];
	struct lie lie = {dirs, count, bytes};
	const struct taken_source source = {
	    .list = list_dir, .read = read_path, .arg = &lie, .until_ms = until_ms};
	struct json *left_out AUTO_JSON = NULL;

	*files = NULL;
	fixture_init(&f);
	fixture_tree(&f, tree, "a", "1", "d/b", "2", "d/c", "3", NULL);
	AUTO_VIEW struct view *view = view_new(f.repo, tree, NULL, &f.err);
	int rc = taken_collect(view, &source, files, &left_out, err);
	if (rc == 0 && js_len(*files)) {
		/* what is collected can be made */
		assert_int_equal(taken_apply(view, *files, err), 0);
	}
	view_free(MEM_STEAL(view));
	fixture_release(&f);
	return rc;
}

#define NAME(text) ((char *)(uintptr_t)(text))

static void names_that_no_tree_may_have_are_refused(void **state)
{
	static const char *const names[] = {"\xff\xfe",		"a\nb",	  ".GIT", "git~1", "x.",
					    "\xe2\x80\x8b.git", "con\x01"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const struct told root = {.path = "",
					  .entries = {{TAKEN_FILE, 0644, 1, NAME(names[i])}}};
		struct json *files AUTO_JSON = NULL;
		struct error err = {0};
		int rc = collect(&root, 1, "x", &files, &err);

		if (rc == 0 && js_len(files))
			assert_string_equal(js_str(js_at(files, 0), "path", ""), names[i]);
		else
			assert_int_equal(rc, ERROR_NO);
	}
}

static void sizes_that_are_no_files_are_refused_unread(void **state)
{
	const struct told root = {.path = "",
				  .entries = {{TAKEN_FILE, 0644, UINT64_MAX, NAME("n")}}};
	struct json *files AUTO_JSON = NULL;
	struct error err = {0};

	(void)state;
	assert_int_equal(collect(&root, 1, NULL, &files, &err), ERROR_NO);
}

static void a_directory_in_itself_ends(void **state)
{
	/* every directory has one more below it: the source never ends */
	struct told dirs[120];
	char paths[120][300] = {""};
	struct json *files AUTO_JSON = NULL;
	struct error err = {0};

	(void)state;
	for (size_t i = 0; i < 120; i++) {
		if (i)
			snprintf(paths[i], sizeof(paths[i]), "%.290s%sx", paths[i - 1],
				 i > 1 ? "/" : "");
		dirs[i] = (struct told){.path = paths[i],
					.entries = {{TAKEN_DIR, 0755, 0, NAME("x")}}};
	}
	assert_int_equal(collect(dirs, 120, "x", &files, &err), ERROR_NO);
	assert_non_null(strstr(err.message, "100 deep"));
}

static void a_walk_has_an_end(void **state)
{
	const struct told root = {.path = "", .entries = {{TAKEN_FILE, 0644, 1, NAME("n")}}};
	struct json *files AUTO_JSON = NULL;
	struct error err = {0};

	(void)state;
	until_ms = 1;
	assert_int_equal(collect(&root, 1, "x", &files, &err), ERROR_NO);
	until_ms = 0;
	assert_non_null(strstr(err.message, "too long"));
}

static void an_opaque_directory_hides_the_base(void **state)
{
	const struct told dirs[] = {
	    {.path = "", .entries = {{TAKEN_DIR, 0755, 0, NAME("d")}}},
	    {.path = "d", .entries = {{TAKEN_FILE, 0755, 1, NAME("c")}}, .opaque = true}};
	struct json *files AUTO_JSON = NULL;
	struct error err = {0};

	(void)state;
	assert_int_equal(collect(dirs, 2, "3", &files, &err), 0);
	assert_int_equal(js_len(files), 2);
	assert_string_equal(js_str(js_at(files, 0), "path", ""), "d/b");
	assert_true(js_bool(js_at(files, 0), "deleted", false));
	assert_string_equal(js_str(js_at(files, 1), "mode", ""), "100755");
}

static void what_the_source_cannot_read_is_a_failure(void **state)
{
	const struct told root = {.path = "", .entries = {{TAKEN_DIR, 0755, 0, NAME("d")}}};
	const struct told file = {.path = "", .entries = {{TAKEN_FILE, 0644, 1, NAME("a")}}};
	struct json *files AUTO_JSON = NULL;
	struct error err = {0};

	(void)state;
	assert_int_equal(collect(&root, 1, "x", &files, &err), ERROR_FAILED);
	assert_int_equal(collect(&file, 1, NULL, &files, &err), ERROR_FAILED);
}

static void malformed_changes_are_not_made(void **state)
{
	static const char *const texts[] = {
	    "{}",
	    "[{}]",
	    "[{\"path\":\"a\"}]",
	    "[{\"path\":\"a\",\"mode\":\"120000\",\"content\":\"/etc\"}]",
	    "[{\"path\":\"a\",\"mode\":\"100644\"}]",
	    "[{\"path\":\"../x\",\"mode\":\"100644\",\"content\":\"\"}]",
	    "[{\"path\":\".git/config\",\"mode\":\"100644\",\"content\":\"\"}]",
	    "[{\"path\":\"none\",\"deleted\":true}]",
	    "[{\"path\":\"d\",\"deleted\":true}]",
	    "[{\"path\":\"a/b\",\"mode\":\"100644\",\"content\":\"\"}]"};
	struct fixture f;
	char tree[GITOPS_OID_SIZE];

	(void)state;
	fixture_init(&f);
	fixture_tree(&f, tree, "a", "1", "d/b", "2", NULL);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct error err = {0};
		struct json *files AUTO_JSON =
		    js_parse(texts[i], strlen(texts[i]), 4096, "test", &err);
		AUTO_VIEW struct view *view = view_new(f.repo, tree, NULL, &f.err);

		assert_non_null(files);
		if (taken_apply(view, files, &err) == 0)
			fail_msg("made: %s", texts[i]);
	}
	fixture_release(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names_that_no_tree_may_have_are_refused),
	    cmocka_unit_test(sizes_that_are_no_files_are_refused_unread),
	    cmocka_unit_test(a_directory_in_itself_ends),
	    cmocka_unit_test(a_walk_has_an_end),
	    cmocka_unit_test(an_opaque_directory_hides_the_base),
	    cmocka_unit_test(what_the_source_cannot_read_is_a_failure),
	    cmocka_unit_test(malformed_changes_are_not_made),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
