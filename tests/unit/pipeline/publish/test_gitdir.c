/* The git directory that git push runs with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/publish/gitdir.h"

#define OID "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

struct place {
	char path[64];
	int fd;
};

static int set_up(void **state)
{
	struct place *place = mem_calloc(1, sizeof(*place));
	static const char template[] = "/tmp/agent-gitdir-XXXXXX";

	memcpy(place->path, template, sizeof(template));
	assert_non_null(mkdtemp(place->path));
	place->fd = open(place->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	mkdirat(place->fd, "repo", 0700);
	*state = place;
	return 0;
}

static int tear_down(void **state)
{
	struct place *place = *state;

	fd_remove_tree(AT_FDCWD, place->path);
	close(place->fd);
	free(place);
	return 0;
}

static struct json *paths_of(const struct place *place)
{
	struct json *paths = js_object_new();
	char *repo AUTO_FREE = mem_printf("%s/repo", place->path);

	js_set_str(paths, "repo", repo);
	js_set_str(paths, "objects", "/quarantine");
	return paths;
}

static void put(const struct place *place, const char *name, const char *text)
{
	int fd = openat(place->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
	close(fd);
}

static void expect_file(const struct place *place, const char *name, const char *wanted)
{
	AUTO_STRBUF struct strbuf text = STRBUF_NONE;
	struct error err = {0};

	strbuf_init(&text, 4096);
	assert_int_equal(fd_read_file(place->fd, name, &text, &err), 0);
	assert_string_equal(text.data, wanted);
}

static void gitdir_is_ours_alone(void **state)
{
	const struct place *place = *state;
	struct json *paths AUTO_JSON = paths_of(place), *more = js_array_new();
	struct error err = {0};
	char *alternates AUTO_FREE =
	    mem_printf("/quarantine\n%s/repo/objects\n/other/objects\n", place->path);

	js_push_str(more, "/other/objects");
	js_set(paths, "alternates", more);
	assert_int_equal(gitdir_make(place->fd, paths, &err), 0);
	expect_file(place, "git/objects/info/alternates", alternates);
	expect_file(place, "git/config",
		    "[core]\n\trepositoryformatversion = 0\n\tbare = true\n");
	expect_file(place, "git/HEAD", "ref: refs/heads/unborn\n");
	assert_int_equal(faccessat(place->fd, "git/shallow", F_OK, 0), -1);
}

static void gitdir_is_made_afresh(void **state)
{
	const struct place *place = *state;
	struct json *paths AUTO_JSON = paths_of(place);
	struct error err = {0};

	mkdirat(place->fd, "git", 0700);
	mkdirat(place->fd, "git/hooks", 0700);
	put(place, "git/hooks/pre-push", "#!/bin/sh\n");
	put(place, "git/config", "[core]\n\tsshCommand = id\n");
	assert_int_equal(gitdir_make(place->fd, paths, &err), 0);
	assert_int_equal(faccessat(place->fd, "git/hooks", F_OK, 0), -1);
	expect_file(place, "git/config",
		    "[core]\n\trepositoryformatversion = 0\n\tbare = true\n");
}

static void gitdir_link_in_its_place_is_not_followed(void **state)
{
	const struct place *place = *state;
	struct json *paths AUTO_JSON = paths_of(place);
	struct error err = {0};

	mkdirat(place->fd, "victim", 0700);
	put(place, "victim/kept", "x");
	assert_int_equal(symlinkat("victim", place->fd, "git"), 0);
	assert_int_equal(gitdir_make(place->fd, paths, &err), 0);
	expect_file(place, "victim/kept", "x");
	assert_int_equal(faccessat(place->fd, "victim/config", F_OK, 0), -1);
}

static void gitdir_shallow_list_is_copied_from_the_common_dir(void **state)
{
	const struct place *place = *state;
	struct json *paths AUTO_JSON = paths_of(place);
	struct error err = {0};
	char *common AUTO_FREE = mem_printf("%s/common", place->path);

	mkdirat(place->fd, "common", 0700);
	put(place, "common/shallow", OID "\n" OID "\n");
	put(place, "repo/shallow", "not looked at\n");
	js_set_str(paths, "common", common);
	assert_int_equal(gitdir_make(place->fd, paths, &err), 0);
	expect_file(place, "git/shallow", OID "\n" OID "\n");
}

static void gitdir_malformed_shallow_list_is_refused(void **state)
{
	static const char *const cases[] = {"x\n", OID "x\n",  OID " \n",
					    "\n",  OID "\n\n", "../x\n"};
	const struct place *place = *state;
	struct json *paths AUTO_JSON = paths_of(place);

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct error err = {0};

		put(place, "repo/shallow", cases[i]);
		assert_int_equal(gitdir_make(place->fd, paths, &err), ERROR_USAGE);
	}
	unlinkat(place->fd, "repo/shallow", 0);
	mkfifoat(place->fd, "repo/shallow", 0600);
	struct error err = {0};
	assert_int_equal(gitdir_make(place->fd, paths, &err), ERROR_USAGE);
}

static void gitdir_path_with_a_line_break_is_refused(void **state)
{
	const struct place *place = *state;
	struct json *paths AUTO_JSON = paths_of(place);
	struct error err = {0};

	js_set_str(paths, "objects", "/a\n/b");
	assert_int_equal(gitdir_make(place->fd, paths, &err), ERROR_USAGE);
	js_set_str(paths, "objects", "relative");
	assert_int_equal(gitdir_make(place->fd, paths, &err), ERROR_USAGE);
	js_unset(paths, "objects");
	js_unset(paths, "repo");
	js_unset(paths, "common");
	assert_int_equal(gitdir_make(place->fd, paths, &err), ERROR_USAGE);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(gitdir_is_ours_alone),
	    TEST(gitdir_is_made_afresh),
	    TEST(gitdir_link_in_its_place_is_not_followed),
	    TEST(gitdir_shallow_list_is_copied_from_the_common_dir),
	    TEST(gitdir_malformed_shallow_list_is_refused),
	    TEST(gitdir_path_with_a_line_break_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
