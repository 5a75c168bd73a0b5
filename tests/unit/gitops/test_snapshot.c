/* Throw-away repositories: git itself finds them whole, clean, and nothing else in them. */
#include "fixture.h"

#include "gitops/checkout.h"
#include "gitops/snapshot.h"

#define IN(scene, ...)                                                                         \
	run_program((scene)->work, (const char *const[]){"git", __VA_ARGS__, NULL}, NULL)

struct scene {
	struct fixture f;
	char *work;
};

static void scene_init(struct scene *s)
{
	fixture_init(&s->f);
	s->work = mem_printf("%s/work", s->f.dir);
	assert_int_equal(mkdir(s->work, 0755), 0);
}

static void scene_release(struct scene *s)
{
	free(s->work);
	fixture_release(&s->f);
}

/* Checks the tree out and puts a snapshot beside it; its result. */
static int make(struct scene *s, const char *tree)
{
	struct checkout checkout = {.repo = s->f.repo, .mtime = {1000000000, 0}};
	int dir AUTO_FD = open(s->work, O_RDONLY | O_DIRECTORY);
	const struct snapshot snapshot = {s->f.repo, tree, 1700000000, &dir, 1};
	AUTO_FREE char *from = mem_printf("%s/git/.git", s->f.dir);
	AUTO_FREE char *to = mem_printf("%s/.git", s->work);
	int rc;

	assert_true(dir >= 0);
	if (checkout_write(&checkout, NULL, tree, dir, &s->f.err) < 0)
		fail_msg("%s", s->f.err.message);
	rc = snapshot_make(&snapshot, s->f.dir, "git", &s->f.err);
	if (rc == 0)
		assert_int_equal(rename(from, to), 0);
	return rc;
}

static void must_make(struct scene *s, const char *tree)
{
	if (make(s, tree) < 0)
		fail_msg("%s", s->f.err.message);
}

static void check(struct scene *s, const char *wanted, char *got)
{
	(void)s;
	assert_string_equal(got, wanted);
	free(got);
}

static void tree_is_one_clean_commit_with_a_tag(void **state)
{
	struct scene s;
	char tree[GITOPS_OID_SIZE];

	(void)state;
	scene_init(&s);
	fixture_tree(&s.f, tree, "a", "1\n", "a-b", "2\n", "a.c", "", "a0/x", "3\n", "d/e/f",
		     "1\n", "d/e.x", "4\n", "z", "1\n", NULL);
	must_make(&s, tree);
	check(&s, "", IN(&s, "diff-files")); /* looks at the index alone */
	check(&s, "", IN(&s, "status", "--porcelain"));
	check(&s, "", IN(&s, "fsck", "--full", "--strict"));
	check(&s, tree, IN(&s, "write-tree"));
	check(&s, tree, IN(&s, "rev-parse", "HEAD^{tree}"));
	check(&s, "v0.0.0", IN(&s, "describe"));
	check(&s, "1", IN(&s, "rev-list", "--count", "--all"));
	check(&s, "a\na-b\na.c\na0/x\nd/e.x\nd/e/f\nz", IN(&s, "ls-files"));
	check(&s, "1700000000", IN(&s, "log", "-1", "--format=%ct"));
	check(&s, "", IN(&s, "remote"));
	scene_release(&s);
}

static void only_the_objects_of_the_tree_are_there(void **state)
{
	struct scene s;
	char first[GITOPS_OID_SIZE], tree[GITOPS_OID_SIZE];

	(void)state;
	scene_init(&s);
	fixture_tree(&s.f, first, "gone", "history\n", NULL);
	fixture_tree(&s.f, tree, "x", "1\n", "y", "1\n", NULL);
	must_make(&s, tree);
	AUTO_FREE char *all =
	    IN(&s, "cat-file", "--batch-all-objects", "--batch-check=%(objecttype)");
	size_t lines = 1;

	for (const char *p = all; *p; p++)
		lines += *p == '\n';
	assert_int_equal(lines, 4); /* commit, tag, tree, and one blob for both files */
	scene_release(&s);
}

static void sizes_around_a_stored_block_survive(void **state)
{
	static const size_t sizes[] = {0,     1,     15,    16,	    2047,  2048,
				       65534, 65535, 65536, 131070, 300000};
	struct scene s;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		AUTO_FREE char *text = mem_calloc(sizes[i] + 1, 1);
		char tree[GITOPS_OID_SIZE];

		scene_init(&s);
		for (size_t k = 0; k < sizes[i]; k++)
			text[k] = (char)('a' + k % 23);
		fixture_tree(&s.f, tree, "f", text, NULL);
		must_make(&s, tree);
		check(&s, "", IN(&s, "fsck", "--full", "--strict"));
		AUTO_FREE char *blob = IN(&s, "cat-file", "blob", "HEAD:f");
		assert_string_equal(blob, text);
		scene_release(&s);
	}
}

static void filters_of_a_hostile_tree_stay_text(void **state)
{
	struct scene s;
	char tree[GITOPS_OID_SIZE];

	(void)state;
	scene_init(&s);
	fixture_tree(&s.f, tree, ".gitattributes", "* filter=evil text eol=crlf\n",
		     "hooks/post-checkout", "#!/bin/sh\n", "x", "a\n", NULL);
	must_make(&s, tree);
	check(&s, "", IN(&s, "status", "--porcelain"));
	check(&s, "", IN(&s, "diff-files"));
	scene_release(&s);
}

static void nested_beyond_the_limit_is_refused(void **state)
{
	struct scene s;
	char tree[GITOPS_OID_SIZE];

	(void)state;
	scene_init(&s);
	fixture_tree(&s.f, tree, "x", "1\n", NULL);
	for (int i = 0; i < 100; i++) {
		AUTO_FREE char *line = mem_printf("040000 tree %s\td\n", tree);
		AUTO_FREE char *outer = GIT(&s.f, line, "mktree", "--missing");
		strcpy(tree, outer);
	}
	const struct snapshot snapshot = {s.f.repo, tree, 0, NULL, 0};
	assert_int_equal(snapshot_make(&snapshot, s.f.dir, "git", &s.f.err), ERROR_NO);
	assert_string_equal(s.f.err.next, "set [test] git = none");
	scene_release(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(tree_is_one_clean_commit_with_a_tag),
	    cmocka_unit_test(only_the_objects_of_the_tree_are_there),
	    cmocka_unit_test(sizes_around_a_stored_block_survive),
	    cmocka_unit_test(filters_of_a_hostile_tree_stay_text),
	    cmocka_unit_test(nested_beyond_the_limit_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
