/* Layers from git: what is written, by how many, on what; hostile trees refused; damage found. */
#include "fixture.h"

#include <dirent.h>
#include <errno.h>
#include <sys/mman.h>

#include "gitops/layer.h"

struct scene {
	struct fixture f;
	char *out, *manifest;
};

static void scene_init(struct scene *s)
{
	fixture_init(&s->f);
	s->out = mem_printf("%s/out", s->f.dir);
	s->manifest = mem_printf("%s/manifest", s->f.dir);
}

static void scene_release(struct scene *s)
{
	free(s->out);
	free(s->manifest);
	fixture_release(&s->f);
}

/* Writes the tree (what differs from base) afresh, with a manifest. */
static int lay(struct scene *s, const char *base, const char *tree)
{
	struct checkout_manifest manifest = {.fd = -1};
	struct checkout checkout = {
	    .repo = s->f.repo, .mtime = layer_base_time, .manifest = &manifest, .quick = true};

	fd_remove_tree(AT_FDCWD, s->out);
	assert_int_equal(mkdir(s->out, 0755), 0);
	int out AUTO_FD = open(s->out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd AUTO_FD = open(s->manifest, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	manifest.fd = fd;
	return checkout_write(&checkout, base, tree, out, &s->f.err);
}

static void must_lay(struct scene *s, const char *base, const char *tree)
{
	if (lay(s, base, tree) < 0)
		fail_msg("%s", s->f.err.message);
}

static int verify(struct scene *s, size_t *records)
{
	int out AUTO_FD = open(s->out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd AUTO_FD = open(s->manifest, O_RDONLY | O_CLOEXEC);

	return layer_verify(out, fd, records, &s->f.err);
}

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

static void expect_kinds(const char *dir, const char *const (*wanted)[2], size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(kind_of(dir, wanted[i][0]), wanted[i][1]) != 0)
			fail_msg("%s is %s", wanted[i][0], kind_of(dir, wanted[i][0]));
}

static off_t size_of(const char *dir, const char *name)
{
	AUTO_FREE char *path = mem_printf("%s/%s", dir, name);
	struct stat st;

	return lstat(path, &st) < 0 ? -1 : st.st_size;
}

static void layer_depends_on_the_tree_alone(void **state)
{
	struct scene s;
	char tree[GITOPS_OID_SIZE];
	struct stat st;

	(void)state;
	scene_init(&s);
	fixture_tree(&s.f, tree, "a", "1\n", "d/e/f", "2\n", NULL);
	must_lay(&s, NULL, tree);
	const char *const names[] = {"", "/d", "/d/e", "/d/e/f", "/a"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		AUTO_FREE char *path = mem_printf("%s%s", s.out, names[i]);
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_mtim.tv_sec, layer_base_time.tv_sec);
		assert_int_equal(st.st_mode & 0777, S_ISDIR(st.st_mode) ? 0755 : 0644);
	}
	scene_release(&s);
}

/* A tree of some thousand files in directories of many sizes. */
static void big_tree(struct scene *s, char tree[GITOPS_OID_SIZE])
{
	struct view_limits limits = {.files = 10000, .bytes = 1 << 20, .file_bytes = 1000};
	struct view *view = view_new(s->f.repo, EMPTY_TREE, &limits, &s->f.err);

	for (int i = 0; i < 5000; i++) {
		char path[64];
		snprintf(path, sizeof(path), "d%d/e%d/f%d", i % 7, i % 93, i);
		assert_int_equal(view_put(view, path, VIEW_FILE, path, strlen(path), &s->f.err),
				 0);
	}
	assert_int_equal(tree_write(view, tree, &s->f.err), 0);
	view_free(view);
}

static int count_files(int dirfd)
{
	DIR *dir = fdopendir(dirfd);
	struct dirent *entry;
	int count = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		if (entry->d_type == DT_DIR)
			count += count_files(openat(dirfd, entry->d_name, O_RDONLY));
		else
			count++;
	}
	closedir(dir);
	return count;
}

static void several_processes_share_one_layer(void **state)
{
	struct scene s;
	char tree[GITOPS_OID_SIZE];
	struct stat st;

	(void)state;
	scene_init(&s);
	big_tree(&s, tree);
	struct checkout_board *board =
	    mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_int_equal(mkdir(s.out, 0755), 0);
	for (int i = 0; i < 5; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			int out = open(s.out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			repo_close(s.f.repo);
			fixture_open(&s.f);
			struct checkout checkout = {
			    .repo = s.f.repo, .mtime = layer_base_time, .board = board};
			_exit(checkout_write(&checkout, NULL, tree, out, &s.f.err) < 0);
		}
	}
	for (int i = 0; i < 5; i++) {
		int status;
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	assert_int_equal(board->files, 5000);
	assert_int_equal(count_files(open(s.out, O_RDONLY)), 5000);
	AUTO_FREE char *dir = mem_printf("%s/d3/e10", s.out);
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(st.st_mtim.tv_sec, layer_base_time.tv_sec);
	scene_release(&s);
}

/* Trees that git mktree makes and no checkout may follow. */
static void hostile_trees_are_refused(void **state)
{
	struct scene s;
	size_t n;

	(void)state;
	scene_init(&s);
	struct checkout checkout = {.repo = s.f.repo};
	AUTO_FREE char *blob = GIT(&s.f, "../../../outside", "hash-object", "-w", "--stdin");
	AUTO_FREE char *plain = mem_printf("100644 blob %s\tf\n", blob);
	AUTO_FREE char *sub = GIT(&s.f, plain, "mktree");
	const char *const names[] = {".git", "..", ".", ".GIT", "git~1", ".git "};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		AUTO_FREE char *text = mem_printf("100644 blob %s\t%s\n", blob, names[i]);
		AUTO_FREE char *tree = GIT(&s.f, text, "mktree");
		AUTO_FREE char *below = mem_printf("040000 tree %s\td\n", tree);
		AUTO_FREE char *deep = GIT(&s.f, below, "mktree");
		if (lay(&s, NULL, tree) != ERROR_NO || lay(&s, sub, deep) != ERROR_NO ||
		    lay(&s, tree, sub) != ERROR_NO)
			fail_msg("'%s' was checked out", names[i]);
		assert_int_equal(checkout_measure(&checkout, NULL, deep, 10, &n, &s.f.err),
				 ERROR_NO);
	}
	/* a link and a directory of one name: files would go through the link */
	AUTO_FREE char *twice = mem_printf("120000 blob %s\td\n040000 tree %s\td\n", blob, sub);
	AUTO_FREE char *double_tree = GIT(&s.f, twice, "mktree");
	assert_int_equal(lay(&s, NULL, double_tree), ERROR_NO);
	AUTO_FREE char *outside = mem_printf("%s/outside", s.f.dir);
	assert_int_equal(access(outside, F_OK), -1);
	AUTO_FREE char *deep = mem_strdup(sub);
	for (int i = 0; i < 120; i++) {
		AUTO_FREE char *text = mem_printf("040000 tree %s\td\n", deep);
		char *next = GIT(&s.f, text, "mktree");
		free(deep);
		deep = next;
	}
	assert_int_equal(lay(&s, NULL, deep), ERROR_NO);
	assert_non_null(strstr(s.f.err.message, "nested"));
	/* missing content, an object of another kind */
	AUTO_FREE char *missing =
	    GIT(&s.f, "100644 blob 1111111111111111111111111111111111111111\tf\n", "mktree",
		"--missing");
	assert_int_equal(lay(&s, NULL, missing), ERROR_FAILED);
	assert_int_equal(lay(&s, NULL, blob), ERROR_FAILED);
	assert_int_equal(lay(&s, NULL, "../x"), ERROR_USAGE);
	scene_release(&s);
}

static void links_submodules_and_lfs_pointers_are_laid_out(void **state)
{
	struct scene s;
	char target[64] = "";
	struct stat st;

	(void)state;
	scene_init(&s);
	AUTO_FREE char *blob = GIT(&s.f, "/etc/passwd", "hash-object", "-w", "--stdin");
	AUTO_FREE char *pointer =
	    GIT(&s.f, "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n",
		"hash-object", "-w", "--stdin");
	AUTO_FREE char *text =
	    mem_printf("120000 blob %s\tlink\n160000 commit "
		       "1111111111111111111111111111111111111111\tsub\n100755 blob %s\trun\n"
		       "100644 blob %s\tbig.bin\n",
		       blob, blob, pointer);
	AUTO_FREE char *tree = GIT(&s.f, text, "mktree", "--missing");
	struct checkout checkout = {.repo = s.f.repo};
	assert_int_equal(mkdir(s.out, 0755), 0);
	int out AUTO_FD = open(s.out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(checkout_write(&checkout, NULL, tree, out, &s.f.err), 0);
	assert_int_equal(checkout.stats.lfs_pointers, 1);
	assert_int_equal(checkout.stats.submodules, 1);
	assert_true(readlinkat(out, "link", target, sizeof(target) - 1) > 0);
	assert_string_equal(target, "/etc/passwd");
	assert_int_equal(fstatat(out, "sub", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISDIR(st.st_mode));
	assert_int_equal(fstatat(out, "run", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_mode & 0777, 0755);
	scene_release(&s);
}

/* ---- what differs ---- */

static void difference_holds_what_differs(void **state)
{
	struct scene s;
	char base[GITOPS_OID_SIZE], tree[GITOPS_OID_SIZE];

	(void)state;
	scene_init(&s);
	fixture_tree(&s.f, base, "same/x", "1", "keep", "1", "d/gone", "1", "d/stays", "1",
		     "all/a", "1", "all/b/c", "1", "file", "1", "dir/x", "1", "edit/deep/er",
		     "1", NULL);
	fixture_tree(&s.f, tree, "same/x", "1", "keep", "1", "d/stays", "1", "file/now/dir",
		     "2", "dir", "2", "edit/deep/er", "2", "new/er", "2", NULL);
	const char *const wanted[][2] = {{"same", "none"},	   {"keep", "none"},
					 {"d/gone", "whiteout"},   {"d/stays", "none"},
					 {"all", "whiteout"},	   {"file", "dir"},
					 {"file/now/dir", "file"}, {"dir", "file"},
					 {"edit/deep/er", "file"}, {"new/er", "file"}};
	struct checkout checkout = {.repo = s.f.repo};
	for (int again = 0; again < 2; again++) /* what an earlier try left is gone */
		if (layer_apply(&checkout, base, tree, s.f.dir, "layer", &s.f.err) < 0)
			fail_msg("%s", s.f.err.message);
	AUTO_FREE char *layer = mem_printf("%s/layer", s.f.dir);
	expect_kinds(layer, wanted, ARRAY_LEN(wanted));
	must_lay(&s, base, tree);
	expect_kinds(s.out, wanted, ARRAY_LEN(wanted));
	scene_release(&s);
}

static void submodule_in_the_place_of_a_directory_hides_its_files(void **state)
{
	struct scene s;
	char base[GITOPS_OID_SIZE];

	(void)state;
	scene_init(&s);
	fixture_tree(&s.f, base, "d/a", "1", "d/b/c", "1", "e", "1", NULL);
	AUTO_FREE char *tree =
	    GIT(&s.f, "160000 commit 1111111111111111111111111111111111111111\td\n", "mktree",
		"--missing");
	must_lay(&s, base, tree);
	const char *const wanted[][2] = {
	    {"d", "dir"}, {"d/a", "whiteout"}, {"d/b", "whiteout"}, {"e", "whiteout"}};
	expect_kinds(s.out, wanted, ARRAY_LEN(wanted));
	scene_release(&s);
}

static void changed_attributes_write_the_files_that_they_convert(void **state)
{
	struct scene s;
	char base[GITOPS_OID_SIZE], tree[GITOPS_OID_SIZE];

	(void)state;
	scene_init(&s);
	fixture_tree(&s.f, base, "a", "1\n", "d/.gitattributes", "*.txt eol=crlf\n", "d/x.txt",
		     "1\n", "d/x.c", "1\n", "d/e/y.txt", "1\n", "f/z.txt", "1\n", NULL);
	/* taken away */
	fixture_tree(&s.f, tree, "a", "1\n", "d/x.txt", "1\n", "d/x.c", "1\n", "d/e/y.txt",
		     "1\n", "f/z.txt", "1\n", NULL);
	must_lay(&s, base, tree);
	assert_string_equal(kind_of(s.out, "d/.gitattributes"), "whiteout");
	assert_int_equal(size_of(s.out, "d/x.txt"), 2);
	assert_int_equal(size_of(s.out, "d/e/y.txt"), 2);
	assert_string_equal(kind_of(s.out, "d/x.c"), "none");
	assert_string_equal(kind_of(s.out, "f"), "none");
	/* and the other way: added */
	must_lay(&s, tree, base);
	assert_int_equal(size_of(s.out, "d/x.txt"), 3);
	assert_int_equal(size_of(s.out, "d/e/y.txt"), 3);
	assert_string_equal(kind_of(s.out, "d/x.c"), "none");
	/* changed, to the same effect for some */
	fixture_tree(&s.f, tree, "a", "1\n", "d/.gitattributes", "* eol=crlf\n", "d/x.txt",
		     "1\n", "d/x.c", "1\n", "d/e/y.txt", "1\n", "f/z.txt", "1\n", NULL);
	must_lay(&s, base, tree);
	assert_int_equal(size_of(s.out, "d/x.c"), 3);
	assert_string_equal(kind_of(s.out, "d/x.txt"), "none");
	assert_string_equal(kind_of(s.out, "d/e"), "none");
	scene_release(&s);
}

static void choose_takes_the_nearest_tree(void **state)
{
	struct scene s;
	char big[GITOPS_OID_SIZE], near[GITOPS_OID_SIZE], far[GITOPS_OID_SIZE];
	char tree[GITOPS_OID_SIZE];
	size_t best, changed;

	(void)state;
	scene_init(&s);
	big_tree(&s, big);
	struct view_limits limits = {.files = 10000, .bytes = 1 << 20, .file_bytes = 1000};
	struct view *view = view_new(s.f.repo, big, &limits, &s.f.err);
	for (int i = 0; i < 3; i++) {
		char path[64];
		snprintf(path, sizeof(path), "new%d", i);
		assert_int_equal(view_put(view, path, VIEW_FILE, "x", 1, &s.f.err), 0);
		assert_int_equal(tree_write(view,
					    i == 0   ? far
					    : i == 1 ? near
						     : tree,
					    &s.f.err),
				 0);
	}
	view_free(view);
	struct checkout checkout = {.repo = s.f.repo};
	const char *const trees[] = {"1111111111111111111111111111111111111111", far, near,
				     big};
	assert_int_equal(layer_choose(&checkout, tree, trees, 4, &best, &changed, &s.f.err), 0);
	assert_int_equal(best, 2);
	assert_int_equal(changed, 1);
	/* nothing near: the whole tree */
	fixture_tree(&s.f, tree, "one", "1", NULL);
	assert_int_equal(layer_choose(&checkout, tree, trees, 4, &best, &changed, &s.f.err), 0);
	assert_int_equal(best, 4);
	assert_int_equal(changed, 1);
	scene_release(&s);
}

/* ---- damage ---- */

static void damage_is_found(void **state)
{
	struct scene s;
	char base[GITOPS_OID_SIZE], tree[GITOPS_OID_SIZE];
	size_t records;

	(void)state;
	scene_init(&s);
	fixture_tree(&s.f, base, "gone", "1", NULL);
	fixture_tree(&s.f, tree, ".gitattributes", "*.txt eol=crlf\n", "a.txt", "one\n", "d/b",
		     "two\n", "empty", "", NULL);
	must_lay(&s, base, tree);
	assert_int_equal(verify(&s, &records), 0);
	assert_int_equal(records, 5);
	AUTO_FREE char *file = mem_printf("%s/d/b", s.out),
		       *text = mem_printf("%s/a.txt", s.out),
		       *white = mem_printf("%s/gone", s.out);
	const struct timespec times[2] = {layer_base_time, layer_base_time};
	/* other bytes of the same length, at the same time */
	int fd = open(file, O_WRONLY);
	assert_int_equal(pwrite(fd, "T", 1, 0), 1);
	assert_int_equal(futimens(fd, times), 0);
	assert_int_equal(verify(&s, &records), ERROR_NO);
	assert_non_null(strstr(s.f.err.message, "d/b"));
	assert_int_equal(pwrite(fd, "t", 1, 0), 1);
	assert_int_equal(verify(&s, &records), ERROR_NO); /* it was written to */
	assert_int_equal(futimens(fd, times), 0);
	close(fd);
	assert_int_equal(verify(&s, &records), 0);
	assert_int_equal(chmod(text, 0755), 0);
	assert_int_equal(verify(&s, &records), ERROR_NO);
	assert_int_equal(chmod(text, 0644), 0);
	assert_int_equal(verify(&s, &records), 0);
	assert_int_equal(unlink(white), 0);
	assert_int_equal(verify(&s, &records), ERROR_NO);
	/* and in the manifest itself */
	assert_int_equal(truncate(s.manifest, 10), 0);
	assert_int_equal(verify(&s, &records), ERROR_NO);
	scene_release(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(layer_depends_on_the_tree_alone),
	    cmocka_unit_test(several_processes_share_one_layer),
	    cmocka_unit_test(hostile_trees_are_refused),
	    cmocka_unit_test(links_submodules_and_lfs_pointers_are_laid_out),
	    cmocka_unit_test(difference_holds_what_differs),
	    cmocka_unit_test(submodule_in_the_place_of_a_directory_hides_its_files),
	    cmocka_unit_test(changed_attributes_write_the_files_that_they_convert),
	    cmocka_unit_test(choose_takes_the_nearest_tree),
	    cmocka_unit_test(damage_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
