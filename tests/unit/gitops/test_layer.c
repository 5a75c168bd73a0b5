/* Base and apply layers: whole or not there, made once, and hostile trees refused. */
#include "fixture.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>

#include "gitops/layer.h"

struct scene {
	struct fixture f;
	char *store, *base; /* <store>/base */
};

static void scene_init(struct scene *s)
{
	fixture_init(&s->f);
	s->store = mem_printf("%s/store", s->f.dir);
	s->base = mem_printf("%s/base", s->store);
	assert_int_equal(mkdir(s->store, 0755), 0);
	assert_int_equal(mkdir(s->base, 0755), 0);
}

static void scene_release(struct scene *s)
{
	free(s->store);
	free(s->base);
	fixture_release(&s->f);
}

static int make(struct scene *s, const char *tree, const char *boot, bool *made)
{
	struct checkout checkout = {.repo = s->f.repo};

	return layer_base(&checkout, s->store, tree, boot, made, &s->f.err);
}

static void must_make(struct scene *s, const char *tree, const char *boot, bool wanted)
{
	bool made;

	if (make(s, tree, boot, &made) < 0)
		fail_msg("%s", s->f.err.message);
	assert_int_equal(made, wanted);
}

/* Names in a directory that begin with prefix. */
static size_t count_names(const char *path, const char *prefix)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	size_t count = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir)))
		count += strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
	closedir(dir);
	return count;
}

static void base_layer_is_made_once_and_depends_on_the_tree_alone(void **state)
{
	struct scene s;
	char tree[GITOPS_OID_SIZE];
	struct stat st;

	(void)state;
	scene_init(&s);
	fixture_tree(&s.f, tree, "a", "1\n", "d/e/f", "2\n", NULL);
	must_make(&s, tree, "boot1", true);
	must_make(&s, tree, "boot1", false);
	AUTO_FREE char *file = mem_printf("%s/%s/tree/d/e/f", s.base, tree);
	AUTO_FREE char *dir = mem_printf("%s/%s/tree/d", s.base, tree);
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_mtim.tv_sec, layer_base_time.tv_sec);
	assert_int_equal(st.st_mode & 0777, 0644);
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(st.st_mtim.tv_sec, layer_base_time.tv_sec);
	assert_int_equal(st.st_mode & 0777, 0755);
	/* another boot: its data may never have reached the disk */
	assert_int_equal(truncate(file, 0), 0);
	must_make(&s, tree, "boot2", true);
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_size, 2);
	must_make(&s, tree, "boot2", false);
	assert_int_equal(count_names(s.base, "."), 2); /* "." and "..": no leftover, no lock */
	scene_release(&s);
}

static void look_up_marks_the_layer_as_used(void **state)
{
	struct scene s;
	char tree[GITOPS_OID_SIZE];
	struct stat st;

	(void)state;
	scene_init(&s);
	fixture_tree(&s.f, tree, "a", "1\n", NULL);
	must_make(&s, tree, "b", true);
	AUTO_FREE char *layer = mem_printf("%s/%s", s.base, tree);
	const struct timespec old[2] = {{1000, 0}, {1000, 0}};
	assert_int_equal(utimensat(AT_FDCWD, layer, old, 0), 0);
	must_make(&s, tree, "b", false);
	assert_int_equal(stat(layer, &st), 0);
	assert_true(st.st_mtim.tv_sec > 1000);
	scene_release(&s);
}

/* A tree of some thousand files. */
static void big_tree(struct scene *s, char tree[GITOPS_OID_SIZE])
{
	struct view_limits limits = {.files = 10000, .bytes = 1 << 20, .file_bytes = 1000};
	struct view *view = view_new(s->f.repo, EMPTY_TREE, &limits, &s->f.err);

	for (int i = 0; i < 3000; i++) {
		char path[64];
		snprintf(path, sizeof(path), "d%d/f%d", i % 10, i);
		assert_int_equal(view_put(view, path, VIEW_FILE, "x", 1, &s->f.err), 0);
	}
	assert_int_equal(tree_write(view, tree, &s->f.err), 0);
	view_free(view);
}

static void die(void *data, const struct checkout_stats *stats)
{
	(void)data;
	(void)stats;
	raise(SIGKILL);
}

static void killed_maker_leaves_nothing_that_is_believed(void **state)
{
	struct scene s;
	char tree[GITOPS_OID_SIZE];
	int status;

	(void)state;
	scene_init(&s);
	big_tree(&s, tree);
	pid_t pid = fork();
	if (pid == 0) {
		struct checkout checkout = {.repo = s.f.repo, .progress = die};
		layer_base(&checkout, s.store, tree, "b", NULL, &s.f.err);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(count_names(s.base, ".tmp-"), 1);
	assert_int_equal(count_names(s.base, tree), 0);
	must_make(&s, tree, "b", true);		       /* the lock died with its holder */
	assert_int_equal(count_names(s.base, "."), 2); /* "." and "..": no leftover, no lock */
	scene_release(&s);
}

static void several_at_once_make_it_once(void **state)
{
	struct scene s;
	char tree[GITOPS_OID_SIZE];
	int makers = 0;

	(void)state;
	scene_init(&s);
	big_tree(&s, tree);
	for (int i = 0; i < 5; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			bool made = false;
			repo_close(s.f.repo);
			fixture_open(&s.f);
			_exit(make(&s, tree, "b", &made) < 0 ? 9 : made);
		}
	}
	for (int i = 0; i < 5; i++) {
		int status;
		assert_true(wait(&status) > 0);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
		makers += WEXITSTATUS(status);
	}
	assert_int_equal(makers, 1);
	assert_int_equal(count_names(s.base, "."), 2); /* "." and "..": no leftover, no lock */
	scene_release(&s);
}

/* Trees that git mktree makes and no checkout may follow. */
static void hostile_trees_are_refused_and_leave_nothing(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s);
	AUTO_FREE char *blob = GIT(&s.f, "../../../outside", "hash-object", "-w", "--stdin");
	AUTO_FREE char *plain = mem_printf("100644 blob %s\tf\n", blob);
	AUTO_FREE char *sub = GIT(&s.f, plain, "mktree");
	const char *const names[] = {".git", "..", ".", ".GIT", "git~1", ".git "};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		AUTO_FREE char *text = mem_printf("100644 blob %s\t%s\n", blob, names[i]);
		AUTO_FREE char *tree = GIT(&s.f, text, "mktree");
		if (make(&s, tree, "b", NULL) != ERROR_NO)
			fail_msg("'%s' was checked out", names[i]);
	}
	/* a link and a directory of one name: files would go through the link */
	AUTO_FREE char *twice = mem_printf("120000 blob %s\td\n040000 tree %s\td\n", blob, sub);
	AUTO_FREE char *double_tree = GIT(&s.f, twice, "mktree");
	assert_int_equal(make(&s, double_tree, "b", NULL), ERROR_NO);
	AUTO_FREE char *outside = mem_printf("%s/outside", s.f.dir);
	assert_int_equal(access(outside, F_OK), -1);
	/* too deep */
	AUTO_FREE char *deep = mem_strdup(sub);
	for (int i = 0; i < 120; i++) {
		AUTO_FREE char *text = mem_printf("040000 tree %s\td\n", deep);
		char *next = GIT(&s.f, text, "mktree");
		free(deep);
		deep = next;
	}
	assert_int_equal(make(&s, deep, "b", NULL), ERROR_NO);
	assert_non_null(strstr(s.f.err.message, "nested"));
	/* missing content, an object of another kind */
	AUTO_FREE char *missing =
	    GIT(&s.f, "100644 blob 1111111111111111111111111111111111111111\tf\n", "mktree",
		"--missing");
	assert_int_equal(make(&s, missing, "b", NULL), ERROR_FAILED);
	assert_int_equal(make(&s, blob, "b", NULL), ERROR_FAILED);
	assert_int_equal(make(&s, "../x", "b", NULL), ERROR_USAGE);
	assert_int_equal(count_names(s.base, "."), 2); /* "." and "..": no leftover, no lock */
	scene_release(&s);
}

static void links_and_submodules_are_laid_out(void **state)
{
	struct scene s;
	char target[64] = "";
	struct stat st;

	(void)state;
	scene_init(&s);
	AUTO_FREE char *blob = GIT(&s.f, "/etc/passwd", "hash-object", "-w", "--stdin");
	AUTO_FREE char *text =
	    mem_printf("120000 blob %s\tlink\n160000 commit "
		       "1111111111111111111111111111111111111111\tsub\n100755 blob %s\trun\n",
		       blob, blob);
	AUTO_FREE char *tree = GIT(&s.f, text, "mktree", "--missing");
	must_make(&s, tree, "b", true);
	AUTO_FREE char *link = mem_printf("%s/%s/tree/link", s.base, tree),
		       *sub = mem_printf("%s/%s/tree/sub", s.base, tree);
	AUTO_FREE char *run = mem_printf("%s/%s/tree/run", s.base, tree);
	assert_true(readlink(link, target, sizeof(target) - 1) > 0);
	assert_string_equal(target, "/etc/passwd");
	assert_int_equal(lstat(sub, &st), 0);
	assert_true(S_ISDIR(st.st_mode));
	assert_int_equal(lstat(run, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0755);
	scene_release(&s);
}

/* ---- apply layers ---- */

static const char *kind_of(const char *dir, const char *name)
{
	AUTO_FREE char *path = mem_printf("%s/%s", dir, name);
	struct stat st;

	if (lstat(path, &st) < 0)
		return "none";
	if (S_ISCHR(st.st_mode))
		return st.st_rdev == 0 ? "whiteout" : "device";
	return S_ISDIR(st.st_mode) ? "dir" : "file";
}

static void apply_layer_holds_what_differs(void **state)
{
	struct scene s;
	char base[GITOPS_OID_SIZE], tree[GITOPS_OID_SIZE];
	bool whole;

	(void)state;
	scene_init(&s);
	fixture_tree(&s.f, base, "same/x", "1", "keep", "1", "d/gone", "1", "d/stays", "1",
		     "all/a", "1", "all/b/c", "1", "file", "1", "dir/x", "1", "edit/deep/er",
		     "1", NULL);
	fixture_tree(&s.f, tree, "same/x", "1", "keep", "1", "d/stays", "1", "file/now/dir",
		     "2", "dir", "2", "edit/deep/er", "2", "new/er", "2", NULL);
	struct checkout checkout = {.repo = s.f.repo};
	for (int again = 0; again < 2; again++) /* what an earlier try left is gone */
		if (layer_apply(&checkout, base, tree, s.f.dir, "layer", &whole, &s.f.err) < 0)
			fail_msg("%s", s.f.err.message);
	assert_false(whole);
	AUTO_FREE char *layer = mem_printf("%s/layer", s.f.dir);
	const char *const wanted[][2] = {{"same", "none"},	   {"keep", "none"},
					 {"d/gone", "whiteout"},   {"d/stays", "none"},
					 {"all", "whiteout"},	   {"file", "dir"},
					 {"file/now/dir", "file"}, {"dir", "file"},
					 {"edit/deep/er", "file"}, {"new/er", "file"}};
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
		if (strcmp(kind_of(layer, wanted[i][0]), wanted[i][1]) != 0)
			fail_msg("%s is %s", wanted[i][0], kind_of(layer, wanted[i][0]));
	scene_release(&s);
}

static void changed_attributes_ask_for_a_whole_checkout(void **state)
{
	struct scene s;
	char base[GITOPS_OID_SIZE], tree[GITOPS_OID_SIZE];
	bool whole;

	(void)state;
	scene_init(&s);
	struct checkout checkout = {.repo = s.f.repo};
	fixture_tree(&s.f, base, "a", "1\n", "d/.gitattributes", "* eol=crlf\n", "d/x", "1\n",
		     NULL);
	fixture_tree(&s.f, tree, "a", "1\n", "d/x", "1\n", NULL);
	assert_int_equal(layer_apply(&checkout, base, tree, s.f.dir, "layer", &whole, &s.f.err),
			 0);
	assert_true(whole);
	AUTO_FREE char *layer = mem_printf("%s/layer", s.f.dir);
	assert_int_equal(access(layer, F_OK), -1);
	fixture_tree(&s.f, tree, "a", "1\n", "d/.gitattributes", "* eol=lf\n", "d/x", "1\n",
		     NULL);
	assert_int_equal(layer_apply(&checkout, base, tree, s.f.dir, "layer", &whole, &s.f.err),
			 0);
	assert_true(whole);
	/* a new directory's own attributes concern nothing else */
	fixture_tree(&s.f, tree, "a", "1\n", "d/.gitattributes", "* eol=crlf\n", "d/x", "1\n",
		     "n/.gitattributes", "* eol=crlf\n", "n/x", "1\n", NULL);
	assert_int_equal(layer_apply(&checkout, base, tree, s.f.dir, "layer", &whole, &s.f.err),
			 0);
	assert_false(whole);
	AUTO_FREE char *file = mem_printf("%s/n/x", layer);
	struct stat st;
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_size, 3);
	scene_release(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(base_layer_is_made_once_and_depends_on_the_tree_alone),
	    cmocka_unit_test(look_up_marks_the_layer_as_used),
	    cmocka_unit_test(killed_maker_leaves_nothing_that_is_believed),
	    cmocka_unit_test(several_at_once_make_it_once),
	    cmocka_unit_test(hostile_trees_are_refused_and_leave_nothing),
	    cmocka_unit_test(links_and_submodules_are_laid_out),
	    cmocka_unit_test(apply_layer_holds_what_differs),
	    cmocka_unit_test(changed_attributes_ask_for_a_whole_checkout),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
