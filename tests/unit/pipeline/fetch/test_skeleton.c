/* Skeletons: what of a tree a warm gets to see, and the key that follows from it. */
#include "tests/unit/gitops/fixture.h"

#include "pipeline/base/json.h"
#include "pipeline/fetch/skeleton.h"

struct file {
	const char *path, *bytes;
	bool executable;
};

/* A view of a tree with these files (path NULL ends). */
static struct view *tree_of(struct fixture *f, const struct file *files)
{
	AUTO_VIEW struct view *empty = view_new(f->repo, EMPTY_TREE, NULL, &f->err);
	char tree[GITOPS_OID_SIZE];

	assert_non_null(empty);
	for (; files->path; files++)
		assert_int_equal(view_put(empty, files->path,
					  files->executable ? VIEW_EXEC : VIEW_FILE,
					  files->bytes, strlen(files->bytes), &f->err),
				 0);
	assert_int_equal(tree_write(empty, tree, &f->err), 0);
	return view_new(f->repo, tree, NULL, &f->err);
}

static struct json *job(const char *text)
{
	struct error err = {0};
	struct json *parsed = js_parse(text, strlen(text), 65536, "job", &err);

	assert_non_null(parsed);
	return parsed;
}

static bool has(const struct skeleton *skeleton, const char *path)
{
	for (size_t i = 0; i < skeleton->count; i++)
		if (strcmp(skeleton->files[i].path, path) == 0)
			return true;
	return false;
}

#define LOCK                                                                                   \
	"{\"lockfileVersion\":3,\"packages\":{\"\":{},\"packages/m\":{},"                      \
	"\"node_modules/m\":{\"resolved\":\"packages/m\",\"link\":true},"                      \
	"\"node_modules/a\":{\"version\":\"1.0.0\",\"integrity\":\"sha512-AA==\"}}}"
#define HOSTS "{\"hosts\":[\"registry.example:443\"]}"

static const struct file project[] = {
    {"package.json", "{}", false},
    {"package-lock.json", LOCK, false},
    {"packages/m/package.json", "{\"bin\":{\"t\":\"./t.js\",\"gone\":\"gone.js\"}}", false},
    {"packages/m/t.js", "secret source", true},
    {"packages/m/index.js", "source", false},
    {".npmrc", "git=./evil.sh\nlegacy-peer-deps=true\n", false},
    {"evil.sh", "#!/bin/sh\n", true},
    {NULL, NULL, false}};

static void skeleton_npm_takes_manifests_and_stubs_only(void **state)
{
	struct fixture f;
	struct skeleton skeleton;
	AUTO_JSON struct json *rules = job(HOSTS);
	struct view *view;

	(void)state;
	fixture_init(&f);
	view = tree_of(&f, project);
	if (skeleton_npm(view, rules, &skeleton, &f.err))
		fail_msg("%s", f.err.message);
	assert_int_equal(skeleton.count, 5);
	assert_string_equal(skeleton.files[0].path, ".npmrc");
	assert_string_equal(skeleton.files[0].text, "legacy-peer-deps=true\n");
	assert_true(has(&skeleton, "package.json"));
	assert_true(has(&skeleton, "package-lock.json"));
	assert_true(has(&skeleton, "packages/m/package.json"));
	assert_string_equal(skeleton.files[4].path, "packages/m/t.js");
	assert_string_equal(skeleton.files[4].text, "");
	assert_string_equal(skeleton.outputs[0], "node_modules");
	assert_string_equal(skeleton.outputs[1], "packages/m/node_modules");
	assert_string_equal(skeleton.outputs[2], "~/.npm/_cacache");
	assert_string_equal(skeleton.required[0], "node_modules/a");
	assert_null(skeleton.required[1]);
	skeleton_release(&skeleton);
	view_free(view);
	fixture_release(&f);
}

static void skeleton_npm_incomplete_projects_are_refused(void **state)
{
	static const struct file no_manifest[] = {{"package-lock.json", LOCK, false},
						  {NULL, NULL, false}};
	static const struct file no_member[] = {{"package.json", "{}", false},
						{"package-lock.json", LOCK, false},
						{NULL, NULL, false}};
	static const struct file no_json[] = {{"package.json", "{}", false},
					      {"package-lock.json", "{", false},
					      {NULL, NULL, false}};
	static const struct file *const all[] = {no_manifest, no_member, no_json};
	AUTO_JSON struct json *rules = job(HOSTS);
	struct fixture f;

	(void)state;
	fixture_init(&f);
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct view *view = tree_of(&f, all[i]);
		struct skeleton skeleton;

		assert_true(skeleton_npm(view, rules, &skeleton, &f.err) < 0);
		assert_true(f.err.message[0]);
		skeleton_release(&skeleton);
		view_free(view);
	}
	fixture_release(&f);
}

static void skeleton_general_takes_what_the_patterns_name(void **state)
{
	static const struct file files[] = {
	    {"go.mod", "m", false},	      {"go.sum", "s", false},
	    {"a/go.mod", "x", true},	      {"a/b/main.go", "y", false},
	    {"other/secret.txt", "z", false}, {NULL, NULL, false}};
	AUTO_JSON struct json *good =
	    job("{\"inputs\":[\"go.mod\",\"go.sum\",\"**/go.mod\"],\"outputs\":[\"~/go\"]}");
	AUTO_JSON struct json *missing =
	    job("{\"inputs\":[\"go.mod\",\"none\"],\"outputs\":[]}");
	AUTO_JSON struct json *empty = job("{\"inputs\":[\"*.none\"],\"outputs\":[]}");
	AUTO_JSON struct json *directory = job("{\"inputs\":[\"a\"],\"outputs\":[]}");
	const struct json *bad[] = {missing, empty, directory};
	struct skeleton skeleton;
	struct fixture f;
	struct view *view;

	(void)state;
	fixture_init(&f);
	view = tree_of(&f, files);
	assert_int_equal(skeleton_general(view, good, &skeleton, &f.err), 0);
	assert_int_equal(skeleton.count, 3);
	assert_string_equal(skeleton.files[0].path, "a/go.mod");
	assert_true(skeleton.files[0].executable);
	assert_string_equal(skeleton.outputs[0], "~/go");
	skeleton_release(&skeleton);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(skeleton_general(view, bad[i], &skeleton, &f.err), ERROR_NO);
		skeleton_release(&skeleton);
	}
	view_free(view);
	fixture_release(&f);
}

static void skeleton_general_links_are_refused(void **state)
{
	AUTO_JSON struct json *rules = job("{\"inputs\":[\"link\"],\"outputs\":[]}");
	AUTO_JSON struct json *star = job("{\"inputs\":[\"l*\"],\"outputs\":[]}");
	AUTO_FREE char *blob = NULL, *line = NULL, *tree = NULL;
	struct skeleton skeleton;
	struct fixture f;
	struct view *view;

	(void)state;
	fixture_init(&f);
	blob = GIT(&f, "/etc/passwd", "hash-object", "-w", "--stdin");
	line = mem_printf("120000 blob %s\tlink\n", blob);
	tree = GIT(&f, line, "mktree");
	view = view_new(f.repo, tree, NULL, &f.err);
	assert_non_null(view);
	assert_int_equal(skeleton_general(view, rules, &skeleton, &f.err), ERROR_NO);
	assert_non_null(strstr(f.err.message, "symbolic link"));
	skeleton_release(&skeleton);
	assert_int_equal(skeleton_general(view, star, &skeleton, &f.err), ERROR_NO);
	skeleton_release(&skeleton);
	view_free(view);
	fixture_release(&f);
}

static void key_of(struct fixture *f, const struct file *files, const char *plan,
		   char key[STORE_KEY_SIZE])
{
	AUTO_JSON struct json *rules = job("{\"inputs\":[\"in/**\"],\"outputs\":[\"out\"]}");
	struct view *view = tree_of(f, files);
	struct skeleton skeleton;

	assert_int_equal(skeleton_general(view, rules, &skeleton, &f->err), 0);
	skeleton_key(&skeleton, plan, key);
	skeleton_release(&skeleton);
	view_free(view);
}

static void skeleton_key_follows_inputs_and_plan_only(void **state)
{
	static const struct file base[] = {
	    {"in/a", "1", false}, {"b", "1", false}, {NULL, NULL, false}};
	static const struct file unrelated[] = {
	    {"in/a", "1", false}, {"b", "2", false}, {NULL, NULL, false}};
	static const struct file bytes[] = {{"in/a", "2", false}, {NULL, NULL, false}};
	static const struct file mode[] = {{"in/a", "1", true}, {NULL, NULL, false}};
	static const struct file name[] = {{"in/c", "1", false}, {NULL, NULL, false}};
	static const struct file more[] = {
	    {"in/a", "1", false}, {"in/b", "1", false}, {NULL, NULL, false}};
	static const struct file *const others[] = {bytes, mode, name, more};
	char first[STORE_KEY_SIZE], key[STORE_KEY_SIZE];
	struct fixture f;

	(void)state;
	fixture_init(&f);
	key_of(&f, base, "plan", first);
	key_of(&f, unrelated, "plan", key);
	assert_string_equal(first, key);
	key_of(&f, base, "other plan", key);
	assert_string_not_equal(first, key);
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		key_of(&f, others[i], "plan", key);
		assert_string_not_equal(first, key);
	}
	fixture_release(&f);
}

static void skeleton_write_makes_exactly_these_files(void **state)
{
	AUTO_JSON struct json *rules = job(HOSTS);
	char *where = mem_strdup("/tmp/skeleton-XXXXXX");
	struct skeleton skeleton;
	struct fixture f;
	struct stat st;
	struct view *view;
	int dir;

	(void)state;
	fixture_init(&f);
	view = tree_of(&f, project);
	assert_non_null(mkdtemp(where));
	dir = open(where, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(skeleton_npm(view, rules, &skeleton, &f.err), 0);
	assert_int_equal(skeleton_write(&skeleton, view, dir, &f.err), 0);
	assert_int_equal(fstatat(dir, "packages/m/t.js", &st, 0), 0);
	assert_int_equal(st.st_size, 0);
	assert_int_equal(fstatat(dir, "package-lock.json", &st, 0), 0);
	assert_int_equal(st.st_size, strlen(LOCK));
	assert_int_equal(fstatat(dir, "evil.sh", &st, 0), -1);
	assert_int_equal(fstatat(dir, "packages/m/index.js", &st, 0), -1);
	assert_true(skeleton_write(&skeleton, view, dir, &f.err) < 0); /* not a second time */
	close(dir);
	fd_remove_tree(AT_FDCWD, where);
	free(where);
	skeleton_release(&skeleton);
	view_free(view);
	fixture_release(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(skeleton_npm_takes_manifests_and_stubs_only),
	    cmocka_unit_test(skeleton_npm_incomplete_projects_are_refused),
	    cmocka_unit_test(skeleton_general_takes_what_the_patterns_name),
	    cmocka_unit_test(skeleton_general_links_are_refused),
	    cmocka_unit_test(skeleton_key_follows_inputs_and_plan_only),
	    cmocka_unit_test(skeleton_write_makes_exactly_these_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
