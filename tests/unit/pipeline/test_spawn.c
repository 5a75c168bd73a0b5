/*
 * Starting processes: what a child gets, what it does not, how failures are told, how it ends.
 * The test installs itself under the programs' names in a directory of its own and, started
 * under such a name, says what it sees.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/fds.h"
#include "pipeline/spawn.h"

#define HERE "SPAWN_TEST_DIR" /* environment of the test itself: where it is installed */

/* ---- as a child ---- */

static struct json *list_fds(void)
{
	struct json *list = js_array_new();

	for (int fd = 0; fd < 1024; fd++)
		if (fcntl(fd, F_GETFD) >= 0) {
			char text[16];

			snprintf(text, sizeof(text), "%d", fd);
			js_push_str(list, text);
		}
	return list;
}

static void add_status(struct json *facts)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[256];

	while (file && fgets(line, sizeof(line), file)) {
		char *colon = strchr(line, ':');

		if (!colon || strncmp(line, "Sig", 3) != 0)
			continue;
		*colon = '\0';
		js_set_str(facts, line, strtok_r(colon + 1, " \t\n", &colon));
	}
	if (file)
		fclose(file);
}

static void add_contents(struct json *facts, int fd, const char *key)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&text, 100);
	if (fd_pread_all(fd, &text) == 0)
		js_set_str(facts, key, text.data);
}

static int inspect(int argc, char **argv)
{
	struct json *facts AUTO_JSON = js_object_new(), *words = js_array_new(),
			   *env = js_array_new();
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	char cwd[256];
	mode_t mask = umask(0);
	int death = 0;

	prctl(PR_GET_PDEATHSIG, &death);
	js_set(facts, "fds", list_fds());
	for (int i = 0; i < argc; i++)
		js_push_str(words, argv[i]);
	for (char **p = environ; *p; p++)
		js_push_str(env, *p);
	js_set(facts, "argv", words);
	js_set(facts, "env", env);
	js_set_str(facts, "cwd", getcwd(cwd, sizeof(cwd)));
	js_set_int(facts, "umask", mask);
	js_set_int(facts, "death", death);
	js_set_int(facts, "uid", geteuid());
	js_set_bool(facts, "leader", getsid(0) == getpid());
	js_set_bool(facts, "sealed", pwrite(FD_JOB, "x", 1, 0) < 0 && errno == EPERM);
	add_status(facts);
	add_contents(facts, FD_JOB, "job");
	add_contents(facts, FD_OUT, "five");
	add_contents(facts, FD_CHANGES, "ten");
	strbuf_init(&text, STRBUF_MAX);
	js_format(facts, &text);
	return fd_write_all(fcntl(FD_CONTROL, F_GETFD) < 0 ? STDOUT_FILENO : FD_CONTROL,
			    text.data, text.len);
}

/* Holds FD_OUT together with a child of its own until somebody kills both. */
static int linger(void)
{
	if (fork() < 0)
		return 1;
	dprintf(STDERR_FILENO, "here\n");
	for (;;)
		pause();
}

/* ---- helpers ---- */

struct place {
	const char *dir;
};

static size_t count_fds(void)
{
	struct json *list AUTO_JSON = list_fds();

	return js_len(list);
}

static struct json *end_and_read(struct child *child, int from)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	struct json *facts;
	struct error err;
	siginfo_t info;

	strbuf_init(&text, 1 << 20);
	assert_int_equal(fd_read_all(from, &text), 0);
	assert_int_equal(waitid(P_PIDFD, (id_t)child->pidfd, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(info.si_code, CLD_EXITED);
	assert_int_equal(info.si_status, 0);
	facts = js_parse(text.data, text.len, 1 << 20, "facts", &err);
	assert_non_null(facts);
	return facts;
}

static void list_is(const struct json *list, const char *wanted)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&text, 10000);
	for (size_t i = 0; i < js_len(list); i++)
		strbuf_addf(&text, "%s%s", i ? " " : "", js_text(js_at(list, i)));
	assert_string_equal(text.data, wanted);
}

#define CHILD_NONE                                                                             \
	{                                                                                      \
		0, -1, -1, -1                                                                  \
	}
#define AUTO_CHILD __attribute__((cleanup(spawn_release)))

/* ---- stages ---- */

static void stage_gets_exactly_what_its_row_lists(void **state)
{
	struct child child AUTO_CHILD = CHILD_NONE;
	struct error err;
	struct json *facts AUTO_JSON = NULL;
	sigset_t blocked, old;
	int extra = open("/dev/null", O_RDONLY); /* not close-on-exec: must not get through */

	(void)state;
	setenv("ANTHROPIC_API_KEY", "planted", 1);
	sigfillset(&blocked);
	sigprocmask(SIG_BLOCK, &blocked, &old);
	signal(SIGPIPE, SIG_IGN);
	umask(077);
	assert_int_equal(spawn_stage(STAGE_BASE, "{\"a\":1}", 7, NULL, 0, &child, &err), 0);
	umask(022);
	signal(SIGPIPE, SIG_DFL);
	sigprocmask(SIG_SETMASK, &old, NULL);
	close(extra);
	unsetenv("ANTHROPIC_API_KEY");
	facts = end_and_read(&child, child.control);
	list_is(js_get(facts, "fds"), "0 1 2 3 4");
	list_is(js_get(facts, "argv"), "agent-apply base");
	list_is(js_get(facts, "env"), "LANG=C.UTF-8 TZ=UTC");
	assert_string_equal(js_str(facts, "cwd", ""), "/");
	assert_int_equal(js_int(facts, "umask", 0), 022);
	assert_int_equal(js_int(facts, "death", 0), SIGKILL);
	assert_true(js_bool(facts, "leader", false));
	assert_string_equal(js_str(facts, "job", ""), "{\"a\":1}");
	assert_true(js_bool(facts, "sealed", false));
	assert_string_equal(js_str(facts, "SigBlk", ""), "0000000000000000");
	assert_string_equal(js_str(facts, "SigIgn", ""), "0000000000000000");
}

static void stage_descriptors_may_cross(void **state)
{
	struct child child AUTO_CHILD = CHILD_NONE;
	struct json *facts AUTO_JSON = NULL;
	struct error err;
	int five = fd_memfd_sealed("five", "for five", 8),
	    ten = fd_memfd_sealed("ten", "for ten", 7);

	(void)state;
	/* the source of one stands where the other must go, and the job's number is taken as
	 * well */
	assert_int_equal(dup2(five, 110), 110);
	assert_int_equal(dup2(ten, 105), 105);
	assert_int_equal(dup2(110, FD_CHANGES), FD_CHANGES);
	assert_int_equal(dup2(105, FD_OUT), FD_OUT);
	assert_int_equal(
	    spawn_stage(STAGE_MODEL, "{}", 2,
			(struct spawn_fd[]){{FD_OUT, FD_CHANGES}, {FD_CHANGES, FD_OUT}}, 2,
			&child, &err),
	    0);
	close(FD_CHANGES);
	close(FD_OUT);
	close(105);
	close(110);
	if (five != FD_OUT && five != FD_CHANGES)
		close(five);
	if (ten != FD_OUT && ten != FD_CHANGES)
		close(ten);
	facts = end_and_read(&child, child.control);
	list_is(js_get(facts, "fds"), "0 1 2 3 4 5 10");
	assert_string_equal(js_str(facts, "five", ""), "for five");
	assert_string_equal(js_str(facts, "ten", ""), "for ten");
}

static void stage_wrong_descriptors_are_refused(void **state)
{
	static const struct {
		struct spawn_fd fds[2];
		const char *words;
	} cases[] = {
	    {{{FD_OUT, 0}, {FD_SECRET, 0}}, "descriptor 6 is not in the row"},
	    {{{FD_OUT, 0}, {FD_OUT, 1}}, "given twice"},
	    {{{FD_OUT, 0}, {FD_JOB, 1}}, "given twice"},
	    {{{FD_CONTROL, 0}, {FD_OUT, 1}}, "given twice"},
	    {{{FD_OUT, -1}, {FD_OUT, 1}}, "not open"},
	    {{{2, 0}, {FD_OUT, 1}}, "not in the row"},
	    {{{1000, 0}, {FD_OUT, 1}}, "not in the row"},
	    {{{-1, 0}, {FD_OUT, 1}}, "not in the row"},
	};
	size_t before = count_fds();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct child child AUTO_CHILD = CHILD_NONE;
		struct error err = {.kind = ERROR_NONE};

		assert_int_equal(
		    spawn_stage(STAGE_BASE, "{}", 2, cases[i].fds, 2, &child, &err),
		    ERROR_FAILED);
		assert_non_null(strstr(err.message, cases[i].words));
		assert_int_equal(child.pid, 0);
	}
	assert_int_equal(count_fds(), before);
}

static void stage_closed_descriptor_is_an_error(void **state)
{
	struct child child AUTO_CHILD = CHILD_NONE;
	struct error err;

	(void)state;
	assert_int_equal(spawn_stage(STAGE_BASE, "{}", 2, (struct spawn_fd[]){{FD_OUT, 900}}, 1,
				     &child, &err),
			 ERROR_FAILED);
	assert_non_null(strstr(err.message, "descriptors"));
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void stage_missing_program_says_what_to_do(void **state)
{
	struct child child AUTO_CHILD = CHILD_NONE;
	struct error err;
	size_t before = count_fds();

	(void)state;
	assert_int_equal(spawn_stage(STAGE_PUBLISH, "{}", 2, NULL, 0, &child, &err),
			 ERROR_FAILED);
	assert_non_null(strstr(err.message, "agent-publish"));
	assert_true(err.next[0]);
	assert_int_equal(count_fds(), before);
}

static void stage_failed_exec_is_reported(void **state)
{
	struct child child AUTO_CHILD = CHILD_NONE;
	struct error err;
	size_t before = count_fds();

	(void)state;
	assert_int_equal(spawn_stage(STAGE_TEST, "{}", 2, NULL, 0, &child, &err), ERROR_FAILED);
	assert_non_null(strstr(err.message, "exec: Permission denied"));
	assert_int_equal(count_fds(), before);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nothing left to reap */
	assert_int_equal(errno, ECHILD);
}

static void jail_row_gets_no_control_and_no_job(void **state)
{
	struct child child AUTO_CHILD = CHILD_NONE;
	struct error err;

	(void)state;
	assert_int_equal(spawn_stage(STAGE_JAIL, "{}", 2, NULL, 0, &child, &err), ERROR_FAILED);
	assert_int_equal(spawn_stage(STAGE_JAIL, NULL, 0, NULL, 0, &child, &err), 0);
	assert_int_equal(child.control, -1);
}

/* ---- ends ---- */

static bool at_end(int fd)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	char c;

	return poll(&wait, 1, 20000) == 1 && read(fd, &c, 1) == 0;
}

static void release_ends_the_child_and_its_children(void **state)
{
	struct child child = CHILD_NONE;
	struct error err;
	int held[2];
	char text[5];

	(void)state;
	assert_int_equal(pipe2(held, O_CLOEXEC), 0);
	assert_int_equal(spawn_stage(STAGE_EDIT, "{}", 2,
				     (struct spawn_fd[]){{FD_OUT, held[1]}}, 1, &child, &err),
			 0);
	close(held[1]);
	assert_int_equal(read(child.stderr_fd, text, sizeof(text)), 5);
	spawn_release(&child);
	assert_true(at_end(held[0]));
	close(held[0]);
	assert_int_equal(child.pid, 0);
	assert_int_equal(child.pidfd, -1);
	assert_int_equal(child.control, -1);
	spawn_release(&child);
}

static void release_after_a_reap_signals_nobody(void **state)
{
	struct child child = CHILD_NONE;
	struct error err;
	siginfo_t info;

	(void)state;
	assert_int_equal(spawn_stage(STAGE_BASE, "{}", 2, NULL, 0, &child, &err), 0);
	assert_int_equal(waitid(P_PIDFD, (id_t)child.pidfd, &info, WEXITED), 0);
	child.pid = getpid(); /* as if the number had been given out again */
	spawn_release(&child);
	assert_int_equal(child.pid, 0);
}

static void child_ends_with_its_parent(void **state)
{
	int held[2];
	pid_t middle;

	(void)state;
	assert_int_equal(pipe2(held, O_CLOEXEC), 0);
	middle = fork();
	if (middle == 0) {
		struct child child = CHILD_NONE;
		struct error err;

		if (spawn_stage(STAGE_STATUS, "{}", 2, NULL, 0, &child, &err) < 0)
			_exit(1);
		close(held[0]);
		/* its stderr is held open by it and by nobody else */
		fcntl(held[1], F_SETFL, O_NONBLOCK);
		if (dprintf(held[1], "%d\n", child.pid) < 0)
			_exit(1);
		raise(SIGKILL);
	}
	close(held[1]);
	char text[32] = "";
	assert_true(read(held[0], text, sizeof(text) - 1) > 0);
	assert_int_equal(waitpid(middle, NULL, 0), middle);
	close(held[0]);
	for (int i = 0; i < 2000 && kill((pid_t)strtol(text, NULL, 10), 0) == 0; i++)
		poll(NULL, 0, 10);
	assert_int_equal(kill((pid_t)strtol(text, NULL, 10), 0), -1);
}

/* ---- programs outside ---- */

static struct json *outside(const char *const *argv, const char *const *env, uid_t uid)
{
	struct child child AUTO_CHILD = CHILD_NONE;
	struct error err;
	int out[2], null AUTO_FD = open("/dev/null", O_RDWR | O_CLOEXEC), end AUTO_FD = -1;

	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	end = out[0];
	if (spawn_outside(argv, env, null, out[1], null, uid, &child, &err) < 0)
		fail_msg("%s", err.message);
	close(out[1]);
	assert_int_equal(child.control, -1);
	return end_and_read(&child, end);
}

static void outside_has_the_given_environment_alone(void **state)
{
	struct place *place = *state;
	char *path AUTO_FREE = mem_printf("PATH=relative::/nonexistent:%s", place->dir);
	struct json *facts AUTO_JSON =
	    outside((const char *const[]){"inspect", "x y", NULL},
		    (const char *const[]){path, "A=b", NULL}, (uid_t)-1);

	list_is(js_get(facts, "fds"), "0 1 2");
	list_is(js_get(facts, "argv"), "inspect x y");
	assert_int_equal(js_len(js_get(facts, "env")), 2);
	assert_true(js_bool(facts, "leader", false));
	assert_int_equal(js_int(facts, "death", 0), SIGTERM);
}

static void outside_runs_scripts(void **state)
{
	struct place *place = *state;
	char *path AUTO_FREE = mem_printf("%s/script", place->dir);
	struct json *facts AUTO_JSON =
	    outside((const char *const[]){path, NULL}, (const char *const[]){NULL}, (uid_t)-1);

	assert_true(js_bool(facts, "script", false));
}

static void outside_missing_program_is_said(void **state)
{
	static const char *const names[] = {"no-such-program", "/nonexistent/program",
					    "script"};
	static const char *const env[] = {"PATH=/nonexistent::.", NULL};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct child child AUTO_CHILD = CHILD_NONE;
		struct error err;
		const char *const argv[] = {names[i], NULL};

		assert_int_equal(spawn_outside(argv, env, 0, 1, 2, (uid_t)-1, &child, &err),
				 ERROR_FAILED);
		assert_non_null(strstr(err.message, names[i]));
	}
}

static void outside_as_root_takes_the_user(void **state)
{
	struct place *place = *state;
	char *path AUTO_FREE = mem_printf("%s/inspect", place->dir);

	struct json *facts AUTO_JSON =
	    outside((const char *const[]){path, NULL}, (const char *const[]){NULL}, 4321);
	assert_int_equal(js_int(facts, "uid", 0), 4321);
	assert_int_equal(js_int(facts, "death", 0), SIGTERM);
}

static void program_dir_is_where_we_are(void **state)
{
	struct place *place = *state;
	struct error err;

	assert_string_equal(spawn_program_dir(&err), place->dir);
}

/* ---- main ---- */

static int copy_self(const char *dir, const char *name, mode_t mode)
{
	char *path AUTO_FREE = mem_printf("%s/%s", dir, name);
	int in AUTO_FD = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int out AUTO_FD = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	struct stat st;

	if (in < 0 || out < 0 || fstat(in, &st) < 0)
		return -1;
	for (off_t left = st.st_size; left > 0;) {
		ssize_t n = copy_file_range(in, NULL, out, NULL, (size_t)left, 0);

		if (n <= 0)
			return -1;
		left -= n;
	}
	return fchmod(out, mode);
}

static int install(const char *program)
{
	static const char *const names[] = {"agent-apply", "agent-jail", "agent-model",
					    "inspect", "test_spawn"};
	char dir[] = "/tmp/spawn-XXXXXX";
	char *const argv[] = {mem_strdup(program), NULL};
	int fd AUTO_FD = -1;

	if (!mkdtemp(dir) || chmod(dir, 0755) < 0)
		return 1;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (copy_self(dir, names[i], 0755) < 0)
			return 1;
	if (copy_self(dir, "agent-test", 0644) < 0 || setenv(HERE, dir, 1) < 0 ||
	    chdir(dir) < 0)
		return 1;
	fd = open("script", O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	if (fd < 0 || dprintf(fd, "#!/bin/sh\necho '{\"script\":true}'\n") < 0)
		return 1;
	close(fd_steal(&fd));
	execv("test_spawn", argv);
	return 1;
}

static int test_all(const char *dir)
{
	struct place place = {.dir = dir};
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_prestate(stage_gets_exactly_what_its_row_lists, &place),
	    cmocka_unit_test_prestate(stage_descriptors_may_cross, &place),
	    cmocka_unit_test_prestate(stage_wrong_descriptors_are_refused, &place),
	    cmocka_unit_test_prestate(stage_closed_descriptor_is_an_error, &place),
	    cmocka_unit_test_prestate(stage_missing_program_says_what_to_do, &place),
	    cmocka_unit_test_prestate(stage_failed_exec_is_reported, &place),
	    cmocka_unit_test_prestate(jail_row_gets_no_control_and_no_job, &place),
	    cmocka_unit_test_prestate(release_ends_the_child_and_its_children, &place),
	    cmocka_unit_test_prestate(release_after_a_reap_signals_nobody, &place),
	    cmocka_unit_test_prestate(child_ends_with_its_parent, &place),
	    cmocka_unit_test_prestate(outside_has_the_given_environment_alone, &place),
	    cmocka_unit_test_prestate(outside_runs_scripts, &place),
	    cmocka_unit_test_prestate(outside_missing_program_is_said, &place),
	    cmocka_unit_test_prestate(program_dir_is_where_we_are, &place),
	    cmocka_unit_test_prestate(outside_as_root_takes_the_user, &place),
	};
	size_t count = ARRAY_LEN(tests) - (geteuid() != 0);
	int failed;

	if (count < ARRAY_LEN(tests))
		puts("# outside_as_root_takes_the_user: needs root, not tried");

	failed = _cmocka_run_group_tests("spawn", tests, count, NULL, NULL);
	return fd_remove_tree(AT_FDCWD, dir) < 0 ? 1 : failed;
}

int main(int argc, char **argv)
{
	const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0];
	const char *dir = getenv(HERE);

	if (strcmp(name, "agent-apply") == 0 && argc == 2 && strcmp(argv[1], "base") != 0)
		return linger();
	if (strcmp(name, "agent-jail") == 0)
		return 0;
	if (strncmp(name, "agent-", 6) == 0 || strcmp(name, "inspect") == 0)
		return inspect(argc, argv);
	return dir ? test_all(dir) : install(argv[0]);
}
