/* Layers: whole or not at all, and nothing in them that a jail could use against us. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/fetch/store.h"

#define KEY "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define TREE "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

struct place {
	char *state;
	int deps, tmp, lock;
};

static int setup(void **state)
{
	struct place *place = mem_calloc(1, sizeof(*place));
	struct error err = {0};
	AUTO_FREE char *deps = NULL;

	place->state = mem_strdup("/tmp/store-XXXXXX");
	if (!mkdtemp(place->state) || store_prepare(place->state, geteuid(), &err))
		return -1;
	deps = mem_printf("%s/store/deps", place->state);
	place->deps = open(deps, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	place->lock = store_begin(place->state, "run1", geteuid(), &err);
	place->tmp = openat(place->deps, ".tmp-run1", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = place;
	return place->lock < 0 || place->tmp < 0 || mkdirat(place->tmp, "seal", 0755) < 0 ||
		       mkdirat(place->tmp, "seal/work", 0755) < 0 ||
		       mkdirat(place->tmp, "seal/home", 0755) < 0
		   ? -1
		   : 0;
}

static int teardown(void **state)
{
	struct place *place = *state;

	fd_remove_tree(AT_FDCWD, place->state);
	close(place->deps);
	close(place->tmp);
	if (place->lock >= 0)
		close(place->lock);
	free(place->state);
	free(place);
	return 0;
}

static void put(int dir, const char *path, const char *text, mode_t mode)
{
	AUTO_FD int fd = openat(dir, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
	assert_int_equal(fchmod(fd, mode), 0);
}

static int manifest(struct place *place, struct seal *seal, struct error *err)
{
	AUTO_FD int dir = openat(place->tmp, "seal", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	seal->max_files = 1000;
	seal->max_bytes = 1 << 20;
	return store_manifest(dir, seal, err);
}

static mode_t mode_of(int dir, const char *path)
{
	struct stat st;

	assert_int_equal(fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW), 0);
	return st.st_mode & 07777;
}

static void store_manifest_lists_and_tames_modes(void **state)
{
	struct place *place = *state;
	struct seal seal = {0}, again = {0};
	struct error err = {0};
	AUTO_STRBUF struct strbuf text = STRBUF_NONE;

	put(place->tmp, "seal/work/b", "bytes", 06777);
	put(place->tmp, "seal/work/a", "", 0444);
	mkdirat(place->tmp, "seal/home/d", 0755);
	assert_int_equal(fchmodat(place->tmp, "seal/home/d", 03777, 0), 0);
	assert_int_equal(symlinkat("../../../etc/passwd", place->tmp, "seal/home/d/link"), 0);
	assert_int_equal(manifest(place, &seal, &err), 0);
	assert_int_equal(seal.files, 4);
	assert_int_equal(seal.bytes, 5);
	assert_int_equal(mode_of(place->tmp, "seal/work/b"), 0755);
	assert_int_equal(mode_of(place->tmp, "seal/home/d"), 0755);
	strbuf_init(&text, 65536);
	assert_int_equal(fd_read_file(place->tmp, "seal/manifest", &text, &err), 0);
	assert_non_null(strstr(text.data, "040755 0 - home/d\n120000 19 "));
	assert_non_null(
	    strstr(text.data,
		   "100444 0 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 "
		   "work/a\n100755 5 "));
	assert_int_equal(manifest(place, &again, &err), 0);
	assert_string_equal(seal.digest, again.digest);
}

static void store_manifest_digest_follows_bytes_and_modes(void **state)
{
	struct place *place = *state;
	struct seal one = {0}, two = {0}, three = {0};
	struct error err = {0};

	put(place->tmp, "seal/work/a", "bytes", 0644);
	assert_int_equal(manifest(place, &one, &err), 0);
	put(place->tmp, "seal/work/a", "bytez", 0644);
	assert_int_equal(manifest(place, &two, &err), 0);
	put(place->tmp, "seal/work/a", "bytes", 0755);
	assert_int_equal(manifest(place, &three, &err), 0);
	assert_string_not_equal(one.digest, two.digest);
	assert_string_not_equal(one.digest, three.digest);
}

static void store_manifest_other_kinds_are_refused(void **state)
{
	struct place *place = *state;
	struct seal seal = {0};
	struct error err = {0};

	assert_int_equal(mkfifoat(place->tmp, "seal/work/pipe", 0644), 0);
	assert_int_equal(manifest(place, &seal, &err), ERROR_NO);
	assert_non_null(strstr(err.message, "work/pipe"));
	assert_int_equal(unlinkat(place->tmp, "seal/work/pipe", 0), 0);
	put(place->tmp, "seal/work/new\nline", "", 0644);
	assert_int_equal(manifest(place, &seal, &err), ERROR_NO);
	assert_int_equal(unlinkat(place->tmp, "seal/work/new\nline", 0), 0);
	assert_int_equal(manifest(place, &seal, &err), 0);
}

static void store_manifest_overlay_attributes_are_refused(void **state)
{
	struct place *place = *state;
	struct seal seal = {0};
	struct error err = {0};
	AUTO_FREE char *path = mem_printf("%s/store/deps/.tmp-run1/seal/work", place->state);

	if (setxattr(path, "user.other", "y", 1, 0) < 0)
		skip(); /* the file system has no user attributes */
	assert_int_equal(manifest(place, &seal, &err), 0);
	mkdirat(place->tmp, "seal/work/d", 0755);
	AUTO_FREE char *below = mem_printf("%s/d", path);
	assert_int_equal(setxattr(below, "user.overlay.opaque", "y", 1, 0), 0);
	assert_int_equal(manifest(place, &seal, &err), ERROR_NO);
}

static void store_manifest_caps_are_kept(void **state)
{
	struct place *place = *state;
	AUTO_FD int dir = openat(place->tmp, "seal", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct seal files = {.max_files = 1, .max_bytes = 100},
		    bytes = {.max_files = 9, .max_bytes = 4};
	struct error err = {0};

	put(place->tmp, "seal/work/a", "12345", 0644);
	assert_int_equal(store_manifest(dir, &bytes, &err), ERROR_NO);
	put(place->tmp, "seal/work/b", "", 0644);
	assert_int_equal(store_manifest(dir, &files, &err), ERROR_NO);
}

static void store_take_moves_what_is_inside_only(void **state)
{
	struct place *place = *state;
	AUTO_FD int from = openat(place->tmp, "work", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD int to = openat(place->tmp, "seal/work", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct error err = {0};

	mkdirat(from, "a", 0755);
	mkdirat(from, "a/b", 0755);
	put(from, "a/b/file", "x", 0644);
	assert_int_equal(fchmodat(from, "a/b", 0555, 0), 0);
	assert_int_equal(store_take(from, to, "a/b", &err), 0);
	assert_int_equal(faccessat(to, "a/b/file", R_OK, 0), 0);
	assert_int_equal(store_take(from, to, "a/missing", &err), ERROR_NO);
	assert_int_equal(symlinkat("/etc", from, "link"), 0);
	assert_int_equal(store_take(from, to, "link", &err), ERROR_NO);
	assert_int_equal(store_take(from, to, "link/ssl", &err), ERROR_NO);
	assert_int_equal(mkfifoat(from, "pipe", 0644), 0);
	assert_int_equal(store_take(from, to, "pipe", &err), ERROR_NO);
}

static void seal_now(struct place *place, bool *won)
{
	struct seal seal = {0};
	struct error err = {0};

	assert_int_equal(manifest(place, &seal, &err), 0);
	assert_int_equal(store_seal(place->deps, place->tmp, KEY, won, &err), 0);
}

static void store_seal_second_warm_of_a_key_loses(void **state)
{
	struct place *place = *state;
	char key[STORE_KEY_SIZE];
	struct error err = {0};
	bool won;

	assert_int_equal(store_lookup(place->state, TREE, "plan", key), ERROR_SKIPPED);
	assert_false(store_has(place->deps, KEY));
	seal_now(place, &won);
	assert_true(won);
	assert_true(store_has(place->deps, KEY));
	mkdirat(place->tmp, "seal", 0755);
	mkdirat(place->tmp, "seal/work", 0755);
	mkdirat(place->tmp, "seal/home", 0755);
	put(place->tmp, "seal/work/other", "x", 0644);
	seal_now(place, &won);
	assert_false(won);
	assert_int_equal(faccessat(place->deps, KEY "/work/other", F_OK, 0), -1);
	store_tree_name(TREE, "plan", key);
	assert_int_equal(store_remember(place->deps, place->tmp, key, KEY, &err), 0);
	assert_int_equal(store_lookup(place->state, TREE, "plan", key), 0);
	assert_string_equal(key, KEY);
	assert_int_equal(store_lookup(place->state, TREE, "other plan", key), ERROR_SKIPPED);
	assert_int_equal(fd_remove_tree(place->deps, KEY), 0);
	assert_int_equal(store_lookup(place->state, TREE, "plan", key), ERROR_SKIPPED);
}

static void store_sweep_leaves_living_warms_alone(void **state)
{
	struct place *place = *state;
	AUTO_FREE char *dead = mem_printf("%s/store/deps/.tmp-dead", place->state);

	assert_int_equal(fd_mkdir_all(dead), 0);
	/* what a warm left: a directory that its owner may not write */
	AUTO_FREE char *file = mem_printf("%s/file", dead);
	put(AT_FDCWD, file, "x", 0444);
	assert_int_equal(chmod(dead, 0555), 0);
	assert_int_equal(store_sweep(place->state, NULL, NULL), 1);
	assert_int_equal(faccessat(place->deps, ".tmp-run1", F_OK, 0), 0);
	close(place->lock);
	place->lock = -1;
	assert_int_equal(store_sweep(place->state, NULL, NULL), 1);
	assert_int_equal(faccessat(place->deps, ".tmp-run1", F_OK, 0), -1);
}

static void store_end_removes_and_unlocks(void **state)
{
	struct place *place = *state;

	store_end(place->state, "run1", &place->lock, NULL, NULL);
	assert_int_equal(place->lock, -1);
	assert_int_equal(faccessat(place->deps, ".tmp-run1", F_OK, 0), -1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(store_manifest_lists_and_tames_modes),
	    TEST(store_manifest_digest_follows_bytes_and_modes),
	    TEST(store_manifest_other_kinds_are_refused),
	    TEST(store_manifest_overlay_attributes_are_refused),
	    TEST(store_manifest_caps_are_kept),
	    TEST(store_take_moves_what_is_inside_only),
	    TEST(store_seal_second_warm_of_a_key_loses),
	    TEST(store_sweep_leaves_living_warms_alone),
	    TEST(store_end_removes_and_unlocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
