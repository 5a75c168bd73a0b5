#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline/base/mem.h"
#include "sandbox/own_group.h"

static void has_word_takes_whole_words_only(void **state)
{
	(void)state;
	assert_true(own_group_has_word("cpu memory pids", "memory"));
	assert_true(own_group_has_word("cpu memory\n", "memory"));
	assert_true(own_group_has_word("memory", "memory"));
	assert_false(own_group_has_word("cpuset cpuacct", "cpu"));
	assert_false(own_group_has_word("", "cpu"));
	assert_false(own_group_has_word("mycpu", "cpu"));
	assert_true(own_group_has_word("cpuset cpu", "cpu"));
}

static void start_time_of_an_ended_process_is_none(void **state)
{
	pid_t pid;

	(void)state;
	assert_true(own_group_start_time(getpid()) > 0);
	pid = fork();
	if (pid == 0)
		_exit(0);
	assert_true(pid > 0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
	assert_true(own_group_start_time(pid) == 0); /* not reaped yet */
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(own_group_start_time(pid) == 0);
}

static void name_tells_process_and_start(void **state)
{
	char name[OWN_GROUP_NAME_MAX], wanted[OWN_GROUP_NAME_MAX];
	struct stat st;

	(void)state;
	own_group_name(name);
	assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
	snprintf(wanted, sizeof(wanted), "agent-%d-%llu-%lu", (int)getpid(),
		 own_group_start_time(getpid()), (unsigned long)st.st_ino);
	assert_string_equal(name, wanted);
}

/* Directories that are no groups: they are removed in the same way. */
static void sweep_removes_what_is_left_and_nothing_of_others(void **state)
{
	/* around the number of our pid namespace */
	static const struct {
		const char *before, *behind;
		bool old, left;
	} dirs[] = {{"agent-1-1-", "", false, true},	   {"agent-1-1-1", "", false, false},
		    {"agent-1-1-2", "", true, true},	   {"agent-1-", "", true, false},
		    {"agent-1-1-", ".scope", true, false}, {"agent-x-1-", "", true, false},
		    {"other-1-1-", "", true, false}};
	const struct timespec long_ago[2] = {{1000000, 0}, {1000000, 0}};
	char top[] = "/tmp/test-own-group-XXXXXX", names[ARRAY_LEN(dirs)][OWN_GROUP_NAME_MAX];
	char own[OWN_GROUP_NAME_MAX];
	struct stat st;
	int parent;

	(void)state;
	assert_non_null(mkdtemp(top));
	parent = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
	own_group_name(own);
	assert_int_equal(mkdirat(parent, own, 0755), 0);
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		snprintf(names[i], sizeof(names[i]), "%s%lu%s", dirs[i].before,
			 (unsigned long)st.st_ino, dirs[i].behind);
		assert_int_equal(mkdirat(parent, names[i], 0755), 0);
		if (dirs[i].old)
			assert_int_equal(utimensat(parent, names[i], long_ago, 0), 0);
	}
	own_group_sweep(parent);
	assert_int_equal(unlinkat(parent, own, AT_REMOVEDIR), 0);
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		assert_int_equal(unlinkat(parent, names[i], AT_REMOVEDIR),
				 dirs[i].left ? -1 : 0);
	close(parent);
	assert_int_equal(rmdir(top), 0);
}

static void open_of_an_unknown_controller_fails(void **state)
{
	struct own_group_tables tables AUTO_TABLES = OWN_GROUP_TABLES_NONE;
	char *path = NULL;

	(void)state;
	assert_int_equal(own_group_is_in(&tables, "nosuchcontroller"), 0);
	assert_int_equal(own_group_open(&tables, "nosuchcontroller", &path), -1);
	assert_int_equal(errno, ENOENT);
	assert_null(path);
}

/* In the root group of a hierarchy there is never a place to step aside to that is not given back. */
static void step_aside_that_fails_leaves_no_group(void **state)
{
	struct own_group_tables tables AUTO_TABLES = OWN_GROUP_TABLES_NONE;
	char name[OWN_GROUP_NAME_MAX];
	int own = own_group_open(&tables, NULL, NULL);

	(void)state;
	if (own < 0 || own_group_step_aside() == 0)
		return; /* no v2 here, or it is delegated: the test machine (tests/vm) tries that */
	own_group_name(name);
	assert_int_equal(faccessat(own, name, F_OK, 0), -1);
	close(own);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(has_word_takes_whole_words_only),
	    cmocka_unit_test(start_time_of_an_ended_process_is_none),
	    cmocka_unit_test(name_tells_process_and_start),
	    cmocka_unit_test(sweep_removes_what_is_left_and_nothing_of_others),
	    cmocka_unit_test(open_of_an_unknown_controller_fails),
	    cmocka_unit_test(step_aside_that_fails_leaves_no_group),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
