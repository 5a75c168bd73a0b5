#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
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
#include "pipeline/base/text.h"
#include "pipeline/rundir.h"

static char dir[] = "/tmp/test-rundir-XXXXXX";
static char *state_dir;

static int begin(void **state)
{
	struct error err = {0};

	(void)state;
	strcpy(dir, "/tmp/test-rundir-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	setenv("AGENT_STATE_DIR", dir, 1);
	state_dir = rundir_state_dir(&err);
	return state_dir ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	free(state_dir);
	return fd_remove_tree(AT_FDCWD, dir);
}

static void open_by_prefix_and_newest(void **state)
{
	struct rundir first, second, found;
	struct error err = {0};

	(void)state;
	assert_int_equal(rundir_create(state_dir, &first, &err), 0);
	assert_int_equal(rundir_create(state_dir, &second, &err), 0);
	assert_int_equal(rundir_open(state_dir, first.id, false, &found, &err), 0);
	assert_string_equal(found.id, first.id);
	rundir_release(&found);
	assert_int_equal(rundir_open(state_dir, "2", false, &found, &err), ERROR_USAGE);
	assert_non_null(strstr(err.message, "more than one"));
	rundir_release(&found);
	assert_int_equal(rundir_open(state_dir, "../x", false, &found, &err), ERROR_USAGE);
	rundir_release(&found);
	assert_int_equal(rundir_open(state_dir, NULL, false, &found, &err), 0);
	rundir_release(&found);
	rundir_release(&first);
	rundir_release(&second);
}

static void open_locked_run_is_skipped(void **state)
{
	struct rundir run, again;
	struct error err = {0};

	(void)state;
	assert_int_equal(rundir_create(state_dir, &run, &err), 0);
	assert_int_equal(rundir_open(state_dir, run.id, true, &again, &err), ERROR_SKIPPED);
	rundir_release(&again);
	rundir_release(&run);
}

static void accept_makes_whole_and_read_only(void **state)
{
	struct rundir run;
	struct error err = {0};
	struct stat st;
	int fd;

	(void)state;
	assert_int_equal(rundir_create(state_dir, &run, &err), 0);
	fd = rundir_part(&run, "a.json", &err);
	assert_true(fd >= 0);
	assert_false(rundir_has(&run, "a.json"));
	assert_int_equal(rundir_accept(&run, "a.json", 10, false, &err),
			 ERROR_FAILED); /* empty */
	assert_int_equal(write(fd, "12345678901", 11), 11);
	assert_int_equal(rundir_accept(&run, "a.json", 10, false, &err),
			 ERROR_FAILED); /* too large */
	assert_int_equal(rundir_accept(&run, "a.json", 11, false, &err), 0);
	close(fd);
	assert_true(rundir_has(&run, "a.json"));
	assert_int_equal(fstatat(run.fd, "a.json", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0400);
	rundir_release(&run);
}

static void read_missing_is_no_error_malformed_is(void **state)
{
	struct rundir run;
	struct error err = {0};
	struct json *made AUTO_JSON = js_artefact_new("tree", 1), *found;

	(void)state;
	assert_int_equal(rundir_create(state_dir, &run, &err), 0);
	assert_null(rundir_read(&run, "none.json", "tree", 100, &err));
	assert_int_equal(err.kind, 0);
	assert_int_equal(rundir_write(&run, "t.json", made, &err), 0);
	found = rundir_read(&run, "t.json", "tree", 1000, &err);
	assert_non_null(found);
	js_free(found);
	assert_null(rundir_read(&run, "t.json", "verdict", 1000, &err));
	assert_int_equal(err.kind, ERROR_USAGE);
	rundir_release(&run);
}

static void remove_leaves_nothing(void **state)
{
	struct rundir run;
	struct error err = {0};
	char *path AUTO_FREE = NULL;

	(void)state;
	assert_int_equal(rundir_create_temporary(state_dir, &run, &err), 0);
	path = rundir_subdir(&run, "a", &err);
	assert_int_equal(rundir_remove(&run, &err), 0);
	assert_int_equal(access(path, F_OK), -1);
	rundir_release(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(open_by_prefix_and_newest, begin, end),
	    cmocka_unit_test_setup_teardown(open_locked_run_is_skipped, begin, end),
	    cmocka_unit_test_setup_teardown(accept_makes_whole_and_read_only, begin, end),
	    cmocka_unit_test_setup_teardown(read_missing_is_no_error_malformed_is, begin, end),
	    cmocka_unit_test_setup_teardown(remove_leaves_nothing, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
