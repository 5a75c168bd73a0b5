/*
 * The life of a stage: the test runs itself again under a row's name, with descriptors as the
 * supervisor arranges them, and looks at status, words and events. What a stage may do is
 * tests/wall/stages.py's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/events.h"
#include "pipeline/exitcode.h"
#include "pipeline/fds.h"
#include "pipeline/stage.h"

/* ---- as a stage ---- */

static int run(struct stage *stage, struct error *err)
{
	const char *what = js_str(stage->job, "do", "");
	struct json *facts = js_object_new();

	js_set_str(facts, "row", stage->row->name);
	js_set_str(facts, "repo", stage_path(stage, "repo"));
	js_set_str(facts, "none", stage_path(stage, "none"));
	js_set_bool(facts, "passwd",
		    access("/etc/passwd", F_OK) == 0 && open("/etc/passwd", O_RDONLY) >= 0);
	event_send("result", facts);
	if (strcmp(what, "refuse") == 0) {
		error_set(err, ERROR_NO, "refused");
		return error_next(err, "ask otherwise");
	}
	if (strcmp(what, "silent") == 0)
		return ERROR_LATER;
	if (strcmp(what, "abort") == 0)
		abort();
	return 0;
}

static int prestart(struct stage *stage, struct error *err)
{
	if (js_bool(stage->job, "no-jail", false))
		return error_set(err, ERROR_FAILED, "no jail today");
	/* still with power */
	return access("/proc/self/status", R_OK) == 0 &&
		       open("/proc/self/status", O_RDONLY | O_CLOEXEC) >= 0
		   ? 0
		   : ERROR_FAILED;
}

/* ---- helpers ---- */

struct outcome {
	int status;
	char words[2000];    /* descriptor 2 */
	struct json *events; /* owned */
};

static void outcome_release(struct outcome *outcome)
{
	js_free(outcome->events);
}
#define AUTO_OUTCOME __attribute__((cleanup(outcome_release)))

static void exec_stage(char *const *argv, int control, int job, int words)
{
	static char lang[] = "LANG=C.UTF-8", zone[] = "TZ=UTC";
	char *const env[] = {lang, zone, NULL};
	int null = open("/dev/null", O_RDWR), high[3];

	high[0] = fcntl(control, F_DUPFD, 100);
	high[1] = fcntl(job, F_DUPFD, 100);
	high[2] = fcntl(words, F_DUPFD, 100);
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	dup2(high[2], STDERR_FILENO);
	dup2(high[0], FD_CONTROL);
	dup2(high[1], FD_JOB);
	close_range(FD_JOB + 1, ~0u, 0);
	execve("/proc/self/exe", argv, env);
	_exit(99);
}

static void read_events(struct outcome *outcome, int fd)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	struct error err;
	char *line, *end;

	strbuf_init(&text, 1 << 20);
	assert_int_equal(fd_read_all(fd, &text), 0);
	outcome->events = js_array_new();
	for (line = text.data; (end = strchr(line, '\n')); line = end + 1)
		js_push(outcome->events,
			js_parse(line, (size_t)(end - line), 1 << 16, "event", &err));
}

static struct outcome stage_with(const char *program, const char *mode, const char *job)
{
	struct outcome outcome;
	char *const argv[] = {mem_strdup(program), mode ? mem_strdup(mode) : NULL, NULL};
	int control[2], words[2], status,
	    job_fd AUTO_FD = fd_memfd_sealed("job", job, strlen(job));
	ssize_t n;
	pid_t pid;

	memset(&outcome, 0, sizeof(outcome));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control), 0);
	assert_int_equal(pipe2(words, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0)
		exec_stage(argv, control[1], job_fd, words[1]);
	close(control[1]);
	close(words[1]);
	read_events(&outcome, control[0]);
	n = read(words[0], outcome.words, sizeof(outcome.words) - 1);
	assert_true(n >= 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
	close(control[0]);
	close(words[0]);
	free(argv[0]);
	free(argv[1]);
	return outcome;
}

static struct json *event_named(const struct outcome *outcome, const char *name)
{
	for (size_t i = 0; i < js_len(outcome->events); i++)
		if (strcmp(js_str(js_at(outcome->events, i), "event", ""), name) == 0)
			return js_at(outcome->events, i);
	return NULL;
}

/* ---- tests ---- */

static void stage_runs_by_its_row(void **state)
{
	struct outcome outcome AUTO_OUTCOME =
	    stage_with("/somewhere/agent-apply", "base",
		       "{\"paths\":{\"repo\":\"/tmp\",\"list\":[\"/x\"]}}");
	const struct json *result = event_named(&outcome, "result");

	(void)state;
	assert_int_equal(outcome.status, EXIT_DONE);
	assert_string_equal(outcome.words, "");
	assert_string_equal(js_str(result, "row", ""), "agent-apply base");
	assert_string_equal(js_str(result, "repo", ""), "/tmp");
	assert_true(js_is_null(js_get(result, "none")));
	assert_false(js_bool(result, "passwd", true));
	assert_null(event_named(&outcome, "error"));
}

static void stage_error_is_told_three_ways(void **state)
{
	struct outcome outcome AUTO_OUTCOME =
	    stage_with("agent-apply", "base", "{\"do\":\"refuse\"}");
	const struct json *error = event_named(&outcome, "error");

	(void)state;
	assert_int_equal(outcome.status, EXIT_NO);
	assert_string_equal(js_str(error, "message", ""), "refused");
	assert_string_equal(js_str(error, "next", ""), "ask otherwise");
	assert_int_equal(js_int(error, "kind", 0), ERROR_NO);
	assert_string_equal(outcome.words, "agent-apply base: refused; ask otherwise\n");
}

static void stage_error_without_words_keeps_its_kind(void **state)
{
	struct outcome outcome AUTO_OUTCOME =
	    stage_with("agent-apply", "base", "{\"do\":\"silent\"}");

	(void)state;
	assert_int_equal(outcome.status, EXIT_LATER);
	assert_int_equal(js_int(event_named(&outcome, "error"), "kind", 0), ERROR_LATER);
}

static void stage_abort_is_a_signal(void **state)
{
	struct outcome outcome AUTO_OUTCOME =
	    stage_with("agent-apply", "base", "{\"do\":\"abort\"}");

	(void)state;
	assert_int_equal(outcome.status, -SIGABRT);
}

static void stage_bad_job_is_125_before_it_ran(void **state)
{
	static const char *const jobs[] = {"",
					   "{",
					   "[]",
					   "{\"paths\":{\"repo\":\"relative\"}}",
					   "{\"paths\":{\"repo\":\"/\"}}",
					   "{\"paths\":{\"repo\":{}}}",
					   "{\"paths\":{\"repo\":[[\"/x\"]]}}"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(jobs); i++) {
		struct outcome outcome AUTO_OUTCOME =
		    stage_with("agent-apply", "base", jobs[i]);

		assert_int_equal(outcome.status, EXIT_ISOLATION);
		assert_int_equal(js_int(event_named(&outcome, "error"), "kind", 0),
				 ERROR_ISOLATION);
		assert_null(event_named(&outcome, "result"));
		assert_true(outcome.words[0]);
	}
}

static void stage_failed_prestart_is_125(void **state)
{
	struct outcome outcome AUTO_OUTCOME =
	    stage_with("agent-test", NULL, "{\"no-jail\":true}");
	struct outcome fine AUTO_OUTCOME = stage_with("agent-test", NULL, "{}");

	(void)state;
	assert_int_equal(outcome.status, EXIT_ISOLATION);
	assert_non_null(strstr(outcome.words, "no jail today"));
	assert_null(event_named(&outcome, "result"));
	assert_int_equal(fine.status, EXIT_DONE);
}

static void stage_unknown_words_are_125(void **state)
{
	static const char *const words[][2] = {{"agent-apply", NULL}, {"agent-apply", "push"},
					       {"agent-model", "x"},  {"agent", NULL},
					       {"agent-jail", NULL},  {"agent-", NULL},
					       {"agent-apply", ""},   {"agent-apply/", "base"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		struct outcome outcome AUTO_OUTCOME =
		    stage_with(words[i][0], words[i][1], "{}");

		assert_int_equal(outcome.status, EXIT_ISOLATION);
		assert_true(outcome.words[0]);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(stage_runs_by_its_row),
	    cmocka_unit_test(stage_error_is_told_three_ways),
	    cmocka_unit_test(stage_error_without_words_keeps_its_kind),
	    cmocka_unit_test(stage_abort_is_a_signal),
	    cmocka_unit_test(stage_bad_job_is_125_before_it_ran),
	    cmocka_unit_test(stage_failed_prestart_is_125),
	    cmocka_unit_test(stage_unknown_words_are_125),
	};

	if (!strstr(argv[0], "test_stage"))
		return stage_main(argc, argv, prestart, run);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
