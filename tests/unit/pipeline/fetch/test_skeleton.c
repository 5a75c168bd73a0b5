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

static const struct skeleton_file *find(const struct skeleton *skeleton, const char *path)
{
	for (size_t i = 0; i < skeleton->count; i++)
		if (strcmp(skeleton->files[i].path, path) == 0)
			return &skeleton->files[i];
	return NULL;
}

static bool has(const struct skeleton *skeleton, const char *path)
{
	return find(skeleton, path) != NULL;
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
	if (skeleton_npm(&(struct skeleton_trees){view, view}, rules, &skeleton, &f.err))
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

		assert_true(skeleton_npm(&(struct skeleton_trees){view, view}, rules, &skeleton,
					 &f.err) < 0);
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
	assert_int_equal(
	    skeleton_general(&(struct skeleton_trees){view, view}, good, &skeleton, &f.err), 0);
	assert_int_equal(skeleton.count, 3);
	assert_string_equal(skeleton.files[0].path, "a/go.mod");
	assert_true(skeleton.files[0].executable);
	assert_string_equal(skeleton.outputs[0], "~/go");
	skeleton_release(&skeleton);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(skeleton_general(&(struct skeleton_trees){view, view}, bad[i],
						  &skeleton, &f.err),
				 ERROR_NO);
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
	assert_int_equal(
	    skeleton_general(&(struct skeleton_trees){view, view}, rules, &skeleton, &f.err),
	    ERROR_NO);
	assert_non_null(strstr(f.err.message, "symbolic link"));
	skeleton_release(&skeleton);
	assert_int_equal(
	    skeleton_general(&(struct skeleton_trees){view, view}, star, &skeleton, &f.err),
	    ERROR_NO);
	skeleton_release(&skeleton);
	view_free(view);
	fixture_release(&f);
}

/* The blob that a file of these bytes is. */
static void assert_bytes(const struct skeleton *skeleton, const char *path, const char *bytes)
{
	const struct skeleton_file *file = find(skeleton, path);
	char oid[GITOPS_OID_SIZE];

	if (!file)
		fail_msg("%s is not there", path);
	repo_hash_blob(bytes, strlen(bytes), oid);
	assert_string_equal(file->oid, oid);
}

static const struct file trusted_tree[] = {{"Cargo.toml", "old", false},
					   {"a.toml", "old", false},
					   {".cargo/config.toml", "good", false},
					   {".npmrc", "good", false},
					   {"pip.conf", "good", false},
					   {"run", "#!/bin/sh\n", false},
					   {"tool", "good", true},
					   {"same.sh", "#!/bin/sh\n", true},
					   {"gone.toml", "old", false},
					   {"requirements.txt", "old", true},
					   {"setup.py", "#!/usr/bin/python3\n", true},
					   {"step.py", "good", false},
					   {"other.py", "old", false},
					   {"Makefile", "good", false},
					   {NULL, NULL, false}};
static const struct file pushed_tree[] = {{"Cargo.toml", "new", false},
					  {"a.toml", "#", false},
					  {".cargo/config.toml", "evil", false},
					  {"sub/.cargo/config.toml", "evil", false},
					  {"Pip.Conf", "evil", false},
					  {"rust-toolchain.toml", "evil", false},
					  {"run", "no longer a script", false},
					  {"tool", "no longer a program", false},
					  {"same.sh", "#!/bin/sh\n", true},
					  {"script", "#!/bin/sh\n", false},
					  {"new", "program", true},
					  {"requirements.txt", "new", true},
					  {"setup.py", "#!/usr/bin/python3\nnew", true},
					  {"step.py", "evil", false},
					  {"other.py", "new", false},
					  {"Makefile", "evil", false},
					  {NULL, NULL, false}};

static void skeleton_general_pushed_tool_configuration_has_no_say(void **state)
{
	static const char *const not_base[] = {".cargo/config.toml",
					       "Pip.Conf",
					       "new",
					       ".npmrc",
					       "script",
					       "run",
					       "rust-toolchain.toml",
					       "tool",
					       "pip.conf",
					       "sub/.cargo/config.toml",
					       "step.py",
					       "Makefile"};
	AUTO_JSON struct json *rules =
	    job("{\"inputs\":[\"Cargo.toml\",\"**\"],\"outputs\":[\"out\"]}");
	AUTO_JSON struct json *words = job("[\"python3\",\"./step.py\",\"requirements.txt\"]");
	struct skeleton skeleton;
	struct fixture f;
	struct view *pushed, *trusted;
	const struct skeleton_file *file;
	size_t told = 0;

	(void)state;
	fixture_init(&f);
	pushed = tree_of(&f, pushed_tree);
	trusted = tree_of(&f, trusted_tree);
	assert_int_equal(skeleton_general(&(struct skeleton_trees){pushed, trusted, words},
					  rules, &skeleton, &f.err),
			 0);
	assert_bytes(&skeleton, "Cargo.toml", "new");
	assert_bytes(&skeleton, "a.toml", "#");
	assert_bytes(&skeleton, ".cargo/config.toml", "good");
	assert_bytes(&skeleton, ".npmrc", "good");
	assert_bytes(&skeleton, "pip.conf", "good");
	assert_bytes(&skeleton, "run", "#!/bin/sh\n");
	assert_bytes(&skeleton, "tool", "good");
	file = find(&skeleton, "tool");
	assert_true(file && file->executable);
	assert_bytes(&skeleton, "same.sh", "#!/bin/sh\n");
	assert_bytes(&skeleton, "requirements.txt", "new");
	assert_bytes(&skeleton, "setup.py", "#!/usr/bin/python3\nnew");
	assert_bytes(&skeleton, "step.py", "good");
	assert_bytes(&skeleton, "other.py", "new");
	assert_bytes(&skeleton, "Makefile", "good");
	assert_int_equal(skeleton.count, 13);
	while (skeleton.not_base[told])
		told++;
	assert_int_equal(told, ARRAY_LEN(not_base));
	for (size_t i = 0; i < ARRAY_LEN(not_base); i++) {
		bool found = false;

		for (size_t j = 0; j < told; j++)
			found |= strcmp(skeleton.not_base[j], not_base[i]) == 0;
		if (!found)
			fail_msg("%s is not told", not_base[i]);
	}
	skeleton_release(&skeleton);
	/* the same tree, by hand: all of it counts */
	assert_int_equal(skeleton_general(&(struct skeleton_trees){pushed, pushed}, rules,
					  &skeleton, &f.err),
			 0);
	assert_bytes(&skeleton, ".cargo/config.toml", "evil");
	assert_null(skeleton.not_base);
	skeleton_release(&skeleton);
	view_free(pushed);
	view_free(trusted);
	fixture_release(&f);
}

static void skeleton_general_pushed_names_of_one_input(void **state)
{
	static const struct {
		const char *input;
		int kind;
		size_t count;
	} cases[] = {
	    {".npmrc", 0, 1},		/* taken away by the push */
	    {"script", 0, 0},		/* put there by it */
	    {"gone.toml", ERROR_NO, 0}, /* a manifest that it took away */
	    {"gone.*", ERROR_NO, 0},	/* the same, by a pattern */
	    {".np*", 0, 1},		/* a setting that it took away */
	    {".cargo", ERROR_NO, 0},	/* a directory */
	    {"none", ERROR_NO, 0},
	};
	struct skeleton skeleton;
	struct fixture f;
	struct view *pushed, *trusted;

	(void)state;
	fixture_init(&f);
	pushed = tree_of(&f, pushed_tree);
	trusted = tree_of(&f, trusted_tree);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO_FREE char *text =
		    mem_printf("{\"inputs\":[\"%s\"],\"outputs\":[]}", cases[i].input);
		AUTO_JSON struct json *rules = job(text);
		int kind = skeleton_general(&(struct skeleton_trees){pushed, trusted}, rules,
					    &skeleton, &f.err);

		if (kind != cases[i].kind || (!kind && skeleton.count != cases[i].count))
			fail_msg("%s: %d, %zu files", cases[i].input, kind, skeleton.count);
		skeleton_release(&skeleton);
	}
	view_free(pushed);
	view_free(trusted);
	fixture_release(&f);
}

static void skeleton_npm_pushed_settings_have_no_say(void **state)
{
	static const struct file without[] = {{"package.json", "{}", false},
					      {"package-lock.json", LOCK, false},
					      {"packages/m/package.json", "{}", false},
					      {NULL, NULL, false}};
	AUTO_JSON struct json *rules = job(HOSTS);
	struct skeleton skeleton;
	struct fixture f;
	const struct skeleton_file *file;
	struct view *with, *none;

	(void)state;
	fixture_init(&f);
	with = tree_of(&f, project);
	none = tree_of(&f, without);
	assert_int_equal(
	    skeleton_npm(&(struct skeleton_trees){with, none}, rules, &skeleton, &f.err), 0);
	assert_false(has(&skeleton, ".npmrc"));
	assert_string_equal(skeleton.not_base[0], ".npmrc");
	assert_null(skeleton.not_base[1]);
	skeleton_release(&skeleton);
	assert_int_equal(
	    skeleton_npm(&(struct skeleton_trees){none, with}, rules, &skeleton, &f.err), 0);
	file = find(&skeleton, ".npmrc");
	assert_true(file && file->text && strcmp(file->text, "legacy-peer-deps=true\n") == 0);
	assert_string_equal(skeleton.not_base[0], ".npmrc");
	skeleton_release(&skeleton);
	view_free(with);
	view_free(none);
	fixture_release(&f);
}

static void key_of(struct fixture *f, const struct file *files, const char *plan,
		   char key[STORE_KEY_SIZE])
{
	AUTO_JSON struct json *rules = job("{\"inputs\":[\"in/**\"],\"outputs\":[\"out\"]}");
	struct view *view = tree_of(f, files);
	struct skeleton skeleton;

	assert_int_equal(
	    skeleton_general(&(struct skeleton_trees){view, view}, rules, &skeleton, &f->err),
	    0);
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
	assert_int_equal(
	    skeleton_npm(&(struct skeleton_trees){view, view}, rules, &skeleton, &f.err), 0);
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
	    cmocka_unit_test(skeleton_general_pushed_tool_configuration_has_no_say),
	    cmocka_unit_test(skeleton_general_pushed_names_of_one_input),
	    cmocka_unit_test(skeleton_npm_pushed_settings_have_no_say),
	    cmocka_unit_test(skeleton_key_follows_inputs_and_plan_only),
	    cmocka_unit_test(skeleton_write_makes_exactly_these_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
