/* Trees, patches and commits: what is recorded makes the same objects again, here and in
 * git. */
#include "fixture.h"

#include "gitops/commit.h"
#include "gitops/diff.h"
#include "pipeline/base/json.h"

#define EDIT_FILES                                                                             \
	"a.txt", "1\n2\n3\n4\n5\n6\n7\n8\n", "d/gone", "bye\n", "d/sub/x", "x\n", "swap",      \
	    "a file\n", "dir/one", "1\n", "dir/two", "2\n", "no newline", "last",              \
	    "q\"uote.txt", "q\n", "run.sh", "#!/bin/sh\n", "empty", "", "bin", "text\n",       \
	    "\xC3\xA9.txt", "e\n"

struct scene {
	struct fixture f;
	struct view *view;
	struct view_change *changes;
	size_t count;
	char base[GITOPS_OID_SIZE], tree[GITOPS_OID_SIZE];
};

static void put(struct scene *s, const char *path, enum view_kind kind, const char *data,
		size_t len)
{
	if (view_put(s->view, path, kind, data, len, &s->f.err) < 0)
		fail_msg("%s", s->f.err.message);
}

static void drop(struct scene *s, const char *path)
{
	if (view_remove(s->view, path, &s->f.err) < 0)
		fail_msg("%s", s->f.err.message);
}

/* A change with everything in it. */
static void scene_init(struct scene *s)
{
	memset(s, 0, sizeof(*s));
	fixture_init(&s->f);
	fixture_tree(&s->f, s->base, EDIT_FILES, NULL);
	s->view = view_new(s->f.repo, s->base, NULL, &s->f.err);
	put(s, "a.txt", VIEW_FILE, "1\n2\nthree\n4\n5\n6\n7\n8", 19);
	drop(s, "d/gone");
	drop(s, "swap");
	put(s, "swap/in", VIEW_FILE, "now a directory\n", 16);
	drop(s, "dir/one");
	drop(s, "dir/two");
	put(s, "dir", VIEW_FILE, "now a file\n", 11);
	put(s, "no newline", VIEW_FILE, "last\nmore", 9);
	put(s, "q\"uote.txt", VIEW_FILE, "quoted\n", 7);
	put(s, "run.sh", VIEW_EXEC, "#!/bin/sh\n", 10);
	put(s, "empty", VIEW_FILE, "no more\n", 8);
	put(s, "bin", VIEW_FILE, "a\0b\1\2\3", 6);
	put(s, "newbin", VIEW_EXEC, "\0\0\0", 3);
	put(s, "newempty", VIEW_FILE, "", 0);
	put(s, "\xC3\xA9.txt", VIEW_FILE, "ee\n", 3);
	put(s, "crlf", VIEW_FILE, "x\r\ny\r\n", 6);
	assert_int_equal(view_changes(s->view, &s->changes, &s->count, &s->f.err), 0);
	if (tree_write(s->view, s->tree, &s->f.err) < 0)
		fail_msg("%s", s->f.err.message);
}

static void scene_release(struct scene *s)
{
	free(s->changes);
	view_free(s->view);
	fixture_release(&s->f);
}

static void show_objects_to_git(struct scene *s)
{
	AUTO_FREE char *path = mem_printf("%s/objects/info/alternates", s->f.gitdir);
	AUTO_FREE char *line = mem_printf("%s\n", s->f.objects);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_int_equal(fd_write_all(fd, line, strlen(line)), 0);
	close(fd);
}

static void patch_makes_the_same_tree_with_git_apply(void **state)
{
	struct scene s;
	struct strbuf patch;
	struct diff_stat stat;

	(void)state;
	scene_init(&s);
	strbuf_init(&patch, STRBUF_MAX);
	if (diff_format(s.view, s.changes, s.count, &patch, &stat, &s.f.err) < 0)
		fail_msg("%s", s.f.err.message);
	assert_int_equal(stat.files, s.count);
	show_objects_to_git(&s);
	AUTO_FREE char *patch_file = mem_printf("%s/patch", s.f.dir);
	int fd = open(patch_file, O_WRONLY | O_CREAT, 0600);
	assert_int_equal(fd_write_all(fd, patch.data, patch.len), 0);
	close(fd);
	free(GIT(&s.f, NULL, "read-tree", s.base));
	free(GIT(&s.f, NULL, "apply", "--cached", patch_file));
	AUTO_FREE char *applied = GIT(&s.f, NULL, "write-tree");
	assert_string_equal(applied, s.tree);
	/* and it is, byte for byte, git's own diff */
	AUTO_FREE char *own =
	    GIT(&s.f, NULL, "-c", "core.quotePath=false", "-c", "core.compression=6",
		"diff-tree", "-r", "-p", "--full-index", "--binary", "--no-renames",
		"--diff-algorithm=myers", s.base, s.tree);
	AUTO_FREE char *own_file = mem_printf("%s/own", s.f.dir);
	fd = open(own_file, O_WRONLY | O_CREAT, 0600);
	assert_int_equal(fd_write_all(fd, own, strlen(own)), 0);
	assert_int_equal(fd_write_all(fd, "\n", 1), 0);
	close(fd);
	free(run_program(s.f.dir, (const char *const[]){"diff", "-u", "own", "patch", NULL},
			 NULL));
	strbuf_release(&patch);
	scene_release(&s);
}

static void recorded_changes_make_the_tree_again(void **state)
{
	struct scene s;
	char commit[GITOPS_OID_SIZE], again[GITOPS_OID_SIZE];
	struct commit_spec spec = {.name = "Agent",
				   .email = "agent@example.org",
				   .time = 1700000000,
				   .message = "T\n\nbody\n"};

	(void)state;
	scene_init(&s);
	spec.tree = s.base;
	show_objects_to_git(&s);
	AUTO_FREE char *base_commit = GIT(&s.f, "base\n", "commit-tree", s.base);
	struct json *changes = tree_changes_to_json(s.changes, s.count);
	if (commit_check_tree(s.f.repo, base_commit, s.base, changes, s.tree, &s.f.err) < 0)
		fail_msg("%s", s.f.err.message);
	/* another tree, another base, a doctored record: none passes */
	assert_int_equal(
	    commit_check_tree(s.f.repo, base_commit, s.base, changes, s.base, &s.f.err),
	    ERROR_FAILED);
	assert_int_equal(
	    commit_check_tree(s.f.repo, base_commit, s.tree, changes, s.tree, &s.f.err),
	    ERROR_FAILED);
	struct json *doctored = js_copy(changes);
	js_set_str(js_at(doctored, 0), "new_oid", "1111111111111111111111111111111111111111");
	assert_int_equal(
	    commit_check_tree(s.f.repo, base_commit, s.base, doctored, s.tree, &s.f.err),
	    ERROR_FAILED);
	js_free(doctored);
	doctored = js_copy(changes);
	js_set_str(js_at(doctored, 0), "path", ".git/hooks/x");
	assert_int_equal(
	    commit_check_tree(s.f.repo, base_commit, s.base, doctored, s.tree, &s.f.err),
	    ERROR_FAILED);
	assert_non_null(strstr(s.f.err.message, "refused"));
	js_set_str(js_at(doctored, 0), "path", "zzz");
	assert_int_equal(
	    commit_check_tree(s.f.repo, base_commit, s.base, doctored, s.tree, &s.f.err),
	    ERROR_FAILED);
	js_free(doctored);
	doctored = js_copy(changes);
	js_set_str(js_at(doctored, 0), "new_mode", "120000");
	assert_int_equal(
	    commit_check_tree(s.f.repo, base_commit, s.base, doctored, s.tree, &s.f.err),
	    ERROR_FAILED);
	js_free(doctored);
	/* a commit of it */
	spec.tree = s.tree;
	spec.parent = base_commit;
	if (commit_make(s.f.repo, &spec, commit, &s.f.err) < 0)
		fail_msg("%s", s.f.err.message);
	assert_int_equal(commit_make(s.f.repo, &spec, again, &s.f.err), 0);
	assert_string_equal(commit, again);
	assert_int_equal(commit_check(s.f.repo, commit, s.tree, base_commit, &s.f.err), 0);
	assert_int_equal(commit_check(s.f.repo, commit, s.base, base_commit, &s.f.err),
			 ERROR_FAILED);
	assert_int_equal(commit_check(s.f.repo, commit, s.tree, commit, &s.f.err),
			 ERROR_FAILED);
	assert_int_equal(commit_check(s.f.repo, base_commit, s.base, base_commit, &s.f.err),
			 ERROR_FAILED);
	AUTO_FREE char *shown = GIT(&s.f, NULL, "cat-file", "commit", commit);
	AUTO_FREE char *wanted =
	    mem_printf("tree %s\nparent %s\nauthor Agent <agent@example.org> 1700000000 +0000\n"
		       "committer Agent <agent@example.org> 1700000000 +0000\n\nT\n\nbody",
		       s.tree, base_commit);
	assert_string_equal(shown, wanted);
	AUTO_FREE char *fsck = GIT(&s.f, NULL, "fsck", "--strict", "--no-dangling", commit);
	assert_string_equal(fsck, "");
	js_free(changes);
	scene_release(&s);
}

static void commit_parts_cannot_inject_headers(void **state)
{
	static const char oid[] = "1111111111111111111111111111111111111111";
	const struct commit_spec good = {.tree = oid,
					 .parent = oid,
					 .name = "A \xC3\xA9",
					 .email = "a@b",
					 .time = 1,
					 .message = "m\n"};
	struct commit_spec bad[12];
	struct strbuf out;
	struct error err = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		bad[i] = good;
	bad[0].name = "a\nparent 1";
	bad[1].email = "a@b>\nx <c";
	bad[2].name = "a <b";
	bad[3].name = "";
	bad[4].message = "no newline";
	bad[5].message = "\xFF\n";
	bad[6].tree = "123";
	bad[7].parent = "HEAD";
	bad[8].time = -1;
	bad[9].name = " a";
	bad[10].name = "a\xE2\x80\xAE";
	bad[11].message = "";
	strbuf_init(&out, 10000);
	assert_int_equal(commit_format(&good, &out, &err), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (commit_format(&bad[i], &out, &err) != ERROR_USAGE)
			fail_msg("case %zu was taken", i);
	strbuf_release(&out);
}

static void signature_goes_into_the_header(void **state)
{
	struct strbuf plain, out;
	struct error err = {0};

	(void)state;
	strbuf_init(&plain, 10000);
	strbuf_init(&out, 10000);
	strbuf_adds(&plain, "tree 1\nauthor x\n\nT\n\nbody\n");
	assert_int_equal(commit_add_signature(&plain, "-----BEGIN\nab\n-----END\n", &out, &err),
			 0);
	assert_string_equal(
	    out.data, "tree 1\nauthor x\ngpgsig -----BEGIN\n ab\n -----END\n\nT\n\nbody\n");
	assert_int_equal(commit_add_signature(&plain, "", &out, &err), ERROR_USAGE);
	strbuf_reset(&plain);
	strbuf_adds(&plain, "no end");
	assert_int_equal(commit_add_signature(&plain, "x", &out, &err), ERROR_USAGE);
	strbuf_release(&plain);
	strbuf_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(patch_makes_the_same_tree_with_git_apply),
	    cmocka_unit_test(recorded_changes_make_the_tree_again),
	    cmocka_unit_test(commit_parts_cannot_inject_headers),
	    cmocka_unit_test(signature_goes_into_the_header),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
