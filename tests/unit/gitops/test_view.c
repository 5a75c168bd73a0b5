/* Views: what is seen, what may be put, and that the repository is not touched. */
#include "fixture.h"

struct scene {
	struct fixture f;
	struct view *view;
};

static void scene_init(struct scene *s)
{
	char tree[GITOPS_OID_SIZE];

	fixture_init(&s->f);
	fixture_tree(&s->f, tree, "a.txt", "one\ntwo\nThree\n", "d/b.txt", "beta two\n",
		     "d/e/c.c", "int c;\n", "d.x", "dot\n", "z/only", "z\n", NULL);
	s->view = view_new(s->f.repo, tree, NULL, &s->f.err);
	assert_non_null(s->view);
}

static void scene_release(struct scene *s)
{
	view_free(s->view);
	fixture_release(&s->f);
}

/* The listing as "path path …", directories with a slash, changed ones with '*'. */
static void expect_list(struct scene *s, const char *under, bool recursive, const char *pattern,
			const char *wanted)
{
	struct view_listing listing;
	struct strbuf have;

	strbuf_init(&have, 100000);
	if (view_list(s->view, under, recursive, pattern, 1000, &listing, &s->f.err) < 0)
		fail_msg("%s", s->f.err.message);
	for (size_t i = 0; i < listing.len; i++)
		strbuf_addf(&have, "%s%s%s%s", i ? " " : "", listing.items[i].path,
			    listing.items[i].kind == VIEW_DIR ? "/" : "",
			    listing.items[i].changed ? "*" : "");
	assert_string_equal(have.data, wanted);
	strbuf_release(&have);
	view_listing_release(&listing);
}

static void put(struct scene *s, const char *path, const char *text)
{
	if (view_put(s->view, path, VIEW_FILE, text, strlen(text), &s->f.err) < 0)
		fail_msg("%s", s->f.err.message);
}

static void list_merges_base_and_changes(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s);
	expect_list(&s, "", false, NULL, "a.txt d.x d/ z/");
	expect_list(&s, "", true, NULL, "a.txt d.x d/b.txt d/e/c.c z/only");
	put(&s, "d/e/n.c", "x");
	put(&s, "new/deep/f", "x");
	put(&s, "a.txt", "x");
	assert_int_equal(view_remove(s.view, "z/only", &s.f.err), 0);
	assert_int_equal(view_remove(s.view, "d/b.txt", &s.f.err), 0);
	expect_list(&s, "", false, NULL, "a.txt* d.x d/ new/");
	expect_list(&s, "", true, NULL, "a.txt* d.x d/e/c.c d/e/n.c* new/deep/f*");
	expect_list(&s, "d", false, NULL, "d/e/");
	expect_list(&s, "", true, "*.c", "d/e/c.c d/e/n.c*");
	expect_list(&s, "", true, "d/**", "d/e/c.c d/e/n.c*");
	expect_list(&s, "a.txt", true, NULL, "a.txt*");
	struct view_listing listing;
	assert_int_equal(view_list(s.view, "z", false, NULL, 10, &listing, &s.f.err), ERROR_NO);
	assert_int_equal(view_list(s.view, "", true, NULL, 2, &listing, &s.f.err), 0);
	assert_true(listing.cut);
	assert_int_equal(listing.len, 2);
	view_listing_release(&listing);
	scene_release(&s);
}

static void search_finds_lines_in_base_and_changes(void **state)
{
	struct scene s;
	struct view_hits hits;
	struct view_query query = {.text = "two", .under = "", .max_hits = 10};

	(void)state;
	scene_init(&s);
	put(&s, "n.txt", "x\r\nno\r\nTWO two\r\n");
	assert_int_equal(view_search(s.view, &query, &hits, &s.f.err), 0);
	assert_int_equal(hits.len, 3);
	assert_string_equal(hits.items[0].path, "a.txt");
	assert_int_equal(hits.items[0].line, 2);
	assert_string_equal(hits.items[2].path, "n.txt");
	assert_int_equal(hits.items[2].line, 3);
	assert_string_equal(hits.items[2].text, "TWO two");
	view_hits_release(&hits);
	query.text = "THREE";
	query.ignore_case = true;
	assert_int_equal(view_search(s.view, &query, &hits, &s.f.err), 0);
	assert_int_equal(hits.len, 1);
	assert_string_equal(hits.items[0].text, "Three");
	view_hits_release(&hits);
	query.text = "^(one|int) ?[a-z]*;?$";
	query.ignore_case = false;
	query.regex = true;
	assert_int_equal(view_search(s.view, &query, &hits, &s.f.err), 0);
	assert_int_equal(hits.len, 2);
	view_hits_release(&hits);
	query.max_hits = 1;
	assert_int_equal(view_search(s.view, &query, &hits, &s.f.err), 0);
	assert_int_equal(hits.len, 1);
	assert_non_null(hits.cut);
	view_hits_release(&hits);
	query.text = "(";
	assert_int_equal(view_search(s.view, &query, &hits, &s.f.err), ERROR_NO);
	scene_release(&s);
}

/* A tree with a link, a submodule and an executable, by git. */
static void odd_tree(struct fixture *f, char tree[GITOPS_OID_SIZE])
{
	AUTO_FREE char *blob =
	    GIT(f, "target/../../etc/passwd", "hash-object", "-w", "--stdin");
	AUTO_FREE char *input = mem_printf("120000 blob %s\tlink\n160000 commit "
					   "1111111111111111111111111111111111111111\tsub\n"
					   "100755 blob %s\trun\n",
					   blob, blob);
	AUTO_FREE char *made = GIT(f, input, "mktree", "--missing");

	memcpy(tree, made, GITOPS_OID_SIZE);
}

static void links_and_submodules_are_shown_not_followed(void **state)
{
	struct fixture f;
	struct view_stat st;
	char tree[GITOPS_OID_SIZE];

	(void)state;
	fixture_init(&f);
	odd_tree(&f, tree);
	AUTO_VIEW struct view *view = view_new(f.repo, tree, NULL, &f.err);
	assert_int_equal(view_stat(view, "link", &st, &f.err), 0);
	assert_int_equal(st.kind, VIEW_LINK);
	char *target = fixture_read(view, "link", NULL);
	assert_string_equal(target, "target/../../etc/passwd");
	free(target);
	assert_int_equal(view_stat(view, "link/x", &st, &f.err), ERROR_NO);
	assert_int_equal(view_stat(view, "sub", &st, &f.err), 0);
	assert_int_equal(st.kind, VIEW_SUBMODULE);
	assert_int_equal(view_put(view, "link", VIEW_FILE, "x", 1, &f.err), ERROR_NO);
	assert_int_equal(view_put(view, "link/x", VIEW_FILE, "x", 1, &f.err), ERROR_NO);
	assert_non_null(strstr(f.err.message, "symbolic link"));
	assert_int_equal(view_put(view, "sub/x", VIEW_FILE, "x", 1, &f.err), ERROR_NO);
	assert_int_equal(view_put(view, "new", VIEW_LINK, "x", 1, &f.err), ERROR_NO);
	assert_int_equal(view_remove(view, "link", &f.err), ERROR_NO);
	assert_int_equal(view_remove(view, "sub", &f.err), ERROR_NO);
	assert_int_equal(view_rename(view, "link", "l2", &f.err), ERROR_NO);
	assert_int_equal(view_rename(view, "run", "bin/run", &f.err), 0);
	assert_int_equal(view_stat(view, "bin/run", &st, &f.err), 0);
	assert_int_equal(st.kind, VIEW_EXEC);
	view_free(MEM_STEAL(view));
	fixture_release(&f);
}

static void put_refuses_names_that_differ_in_case_alone(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s);
	assert_int_equal(view_put(s.view, "A.TXT", VIEW_FILE, "x", 1, &s.f.err), ERROR_NO);
	assert_int_equal(view_put(s.view, "D/new", VIEW_FILE, "x", 1, &s.f.err), ERROR_NO);
	put(&s, "n/x", "1");
	assert_int_equal(view_put(s.view, "N/y", VIEW_FILE, "x", 1, &s.f.err), ERROR_NO);
	assert_int_equal(view_put(s.view, "n/X", VIEW_FILE, "x", 1, &s.f.err), ERROR_NO);
	put(&s, "n/y", "1");
	assert_int_equal(view_remove(s.view, "a.txt", &s.f.err), 0);
	put(&s, "A.TXT", "x");
	scene_release(&s);
}

static void changes_are_minimal_and_the_tree_is_git_s(void **state)
{
	struct scene s;
	struct view_change *changes;
	size_t count;
	char tree[GITOPS_OID_SIZE];

	(void)state;
	scene_init(&s);
	put(&s, "a.txt", "changed\n");
	put(&s, "d.x", "tmp\n");
	put(&s, "d.x", "dot\n"); /* back to what it was */
	put(&s, "gone", "x");
	assert_int_equal(view_remove(s.view, "gone", &s.f.err), 0);
	assert_int_equal(view_remove(s.view, "d/b.txt", &s.f.err), 0);
	assert_int_equal(view_remove(s.view, "d/e/c.c", &s.f.err), 0);
	put(&s, "d", "a file now\n");
	assert_int_equal(view_remove(s.view, "z/only", &s.f.err), 0);
	assert_int_equal(view_changes(s.view, &changes, &count, &s.f.err), 0);
	assert_int_equal(count, 5);
	free(changes);
	if (tree_write(s.view, tree, &s.f.err) < 0)
		fail_msg("%s", s.f.err.message);
	/* the same by git */
	AUTO_FREE char *a = GIT(&s.f, "changed\n", "hash-object", "-w", "--stdin");
	AUTO_FREE char *d = GIT(&s.f, "a file now\n", "hash-object", "-w", "--stdin");
	AUTO_FREE char *x = GIT(&s.f, "dot\n", "hash-object", "-w", "--stdin");
	AUTO_FREE char *input = mem_printf(
	    "100644 blob %s\ta.txt\n100644 blob %s\td.x\n100644 blob %s\td\n", a, x, d);
	AUTO_FREE char *wanted = GIT(&s.f, input, "mktree");
	assert_string_equal(tree, wanted);
	scene_release(&s);
}

static void file_becomes_directory_and_all_is_deleted(void **state)
{
	struct scene s;
	char tree[GITOPS_OID_SIZE];
	static const char *const all[] = {"a.txt", "d/b.txt", "d/e/c.c", "d.x", "z/only"};

	(void)state;
	scene_init(&s);
	assert_int_equal(view_remove(s.view, "a.txt", &s.f.err), 0);
	put(&s, "a.txt/x/y", "1");
	if (tree_write(s.view, tree, &s.f.err) < 0)
		fail_msg("%s", s.f.err.message);
	assert_int_equal(view_remove(s.view, "a.txt/x/y", &s.f.err), 0);
	for (size_t i = 1; i < ARRAY_LEN(all); i++)
		assert_int_equal(view_remove(s.view, all[i], &s.f.err), 0);
	if (tree_write(s.view, tree, &s.f.err) < 0)
		fail_msg("%s", s.f.err.message);
	assert_string_equal(tree, EMPTY_TREE);
	scene_release(&s);
}

/* Law L8: objects go to the quarantine, and not even a time stamp of the repository
 * changes. */
static void writing_leaves_the_repository_alone(void **state)
{
	struct fixture f;
	char tree[GITOPS_OID_SIZE], oid[GITOPS_OID_SIZE];
	struct stat before, after;

	(void)state;
	fixture_init(&f);
	AUTO_FREE char *blob = GIT(&f, "same\n", "hash-object", "-w", "--stdin");
	AUTO_FREE char *path = mem_printf("%s/objects/%.2s/%s", f.gitdir, blob, blob + 2);
	struct timespec old[2] = {{1000000000, 0}, {1000000000, 0}};
	assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
	assert_int_equal(stat(path, &before), 0);
	assert_int_equal(repo_write_blob(f.repo, "same\n", 5, oid, &f.err), 0);
	assert_string_equal(oid, blob);
	fixture_tree(&f, tree, "same", "same\n", "other", "other\n", NULL);
	assert_int_equal(stat(path, &after), 0);
	assert_int_equal(before.st_mtim.tv_sec, after.st_mtim.tv_sec);
	AUTO_FREE char *same = mem_printf("%s/%.2s/%s", f.objects, blob, blob + 2);
	assert_int_equal(access(same, F_OK), -1);
	AUTO_FREE char *made = mem_printf("%s/%.2s/%s", f.objects, tree, tree + 2);
	assert_int_equal(access(made, F_OK), 0);
	AUTO_FREE char *counted = GIT(&f, NULL, "count-objects");
	assert_memory_equal(counted, "1 objects", 9);
	fixture_release(&f);
}

static void oversized_and_missing_objects_are_refused(void **state)
{
	struct fixture f;
	struct view_limits limits = {.files = 10, .bytes = 1000, .file_bytes = 10};
	struct strbuf buf;
	char tree[GITOPS_OID_SIZE];

	(void)state;
	fixture_init(&f);
	fixture_tree(&f, tree, "big", "0123456789abcdef", NULL);
	AUTO_VIEW struct view *view = view_new(f.repo, tree, &limits, &f.err);
	strbuf_init(&buf, 1000);
	assert_int_equal(view_read(view, "big", &buf, &f.err), ERROR_NO);
	assert_non_null(strstr(f.err.message, "too big"));
	view_free(MEM_STEAL(view));
	AUTO_FREE char *made =
	    GIT(&f, "100644 blob 1111111111111111111111111111111111111111\tgone\n", "mktree",
		"--missing");
	view = view_new(f.repo, made, NULL, &f.err);
	assert_int_equal(view_read(view, "gone", &buf, &f.err), ERROR_FAILED);
	assert_non_null(strstr(f.err.message, "missing object"));
	view_free(MEM_STEAL(view));
	assert_null(view_new(f.repo, "1111111111111111111111111111111111111111", NULL, &f.err));
	assert_null(view_new(f.repo, "zz", NULL, &f.err));
	strbuf_release(&buf);
	fixture_release(&f);
}

static void tree_bombs_and_deep_trees_end(void **state)
{
	struct fixture f;
	struct view_listing listing;
	struct view_hits hits;
	struct view_query query = {.text = "nowhere", .max_hits = 10, .max_ms = 300};

	(void)state;
	fixture_init(&f);
	AUTO_FREE char *blob = GIT(&f, "x", "hash-object", "-w", "--stdin");
	AUTO_FREE char *tree = mem_printf("100644 blob %s\tf\n", blob);
	for (int level = 0; level < 12; level++) { /* 10 to the power of 12 paths */
		char *made = GIT(&f, tree, "mktree");
		struct strbuf next;
		strbuf_init(&next, 100000);
		for (int i = 0; i < 10; i++)
			strbuf_addf(&next, "040000 tree %s\td%d\n", made, i);
		free(made);
		free(tree);
		tree = strbuf_steal(&next);
	}
	AUTO_FREE char *bomb = GIT(&f, tree, "mktree");
	AUTO_VIEW struct view *view = view_new(f.repo, bomb, NULL, &f.err);
	assert_int_equal(view_list(view, "", true, "*.none", 10, &listing, &f.err), 0);
	assert_true(listing.cut);
	view_listing_release(&listing);
	assert_int_equal(view_search(view, &query, &hits, &f.err), 0);
	assert_non_null(hits.cut);
	view_hits_release(&hits);
	view_free(MEM_STEAL(view));
	fixture_release(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(list_merges_base_and_changes),
	    cmocka_unit_test(search_finds_lines_in_base_and_changes),
	    cmocka_unit_test(links_and_submodules_are_shown_not_followed),
	    cmocka_unit_test(put_refuses_names_that_differ_in_case_alone),
	    cmocka_unit_test(changes_are_minimal_and_the_tree_is_git_s),
	    cmocka_unit_test(file_becomes_directory_and_all_is_deleted),
	    cmocka_unit_test(writing_leaves_the_repository_alone),
	    cmocka_unit_test(oversized_and_missing_objects_are_refused),
	    cmocka_unit_test(tree_bombs_and_deep_trees_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
