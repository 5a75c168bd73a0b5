/* Lines to the supervisor and its answers, on FD_CONTROL. */
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
#include "pipeline/base/text.h"
#include "pipeline/events.h"
#include "pipeline/exitcode.h"
#include "pipeline/fds.h"

/* Our end, far above the numbers that mean something. */
static int open_control(void)
{
	int pair[2], ours;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	ours = fcntl(pair[0], F_DUPFD_CLOEXEC, 100);
	if (pair[0] != FD_CONTROL)
		close(pair[0]);
	if (pair[1] != FD_CONTROL) {
		assert_int_equal(dup2(pair[1], FD_CONTROL), FD_CONTROL);
		close(pair[1]);
	}
	return ours;
}

static int control_make(void **state)
{
	int *fd = mem_calloc(1, sizeof(*fd));

	*fd = open_control();
	*state = fd;
	return 0;
}

static int control_close(void **state)
{
	int *fd = *state;

	close(*fd);
	close(FD_CONTROL);
	free(fd);
	return 0;
}

static struct json *next_line(int fd, size_t *len)
{
	struct strbuf line AUTO_STRBUF = STRBUF_NONE;
	struct error err;
	struct json *event;
	char c;

	strbuf_init(&line, 1 << 20);
	while (read(fd, &c, 1) == 1 && c != '\n')
		strbuf_addc(&line, c);
	*len = line.len + 1;
	event = js_parse(line.data, line.len, 1 << 20, "line", &err);
	assert_non_null(event);
	return event;
}

static void progress_is_a_line(void **state)
{
	int *fd = *state;
	size_t len;
	struct json *event AUTO_JSON = NULL;

	event_progress("reading %d files\nof \"it\" \x80", 3);
	event = next_line(*fd, &len);
	assert_string_equal(js_str(event, "event", ""), "progress");
	assert_string_equal(js_str(event, "text", ""),
			    "reading 3 files\nof \"it\" \xef\xbf\xbd");
}

static void send_sets_the_event_and_keeps_the_rest(void **state)
{
	int *fd = *state;
	size_t len;
	struct json *fields = js_object_new(), *event AUTO_JSON = NULL;

	js_set_int(fields, "input", 7);
	js_set_str(fields, "event", "forged");
	event_send("usage", fields);
	event = next_line(*fd, &len);
	assert_string_equal(js_str(event, "event", ""), "usage");
	assert_int_equal(js_int(event, "input", 0), 7);
}

static void error_tells_kind_message_and_next(void **state)
{
	int *fd = *state;
	size_t len;
	struct error err;
	struct json *event AUTO_JSON = NULL;

	error_set(&err, ERROR_LATER, "busy");
	error_next(&err, "wait");
	event_error(&err);
	event = next_line(*fd, &len);
	assert_string_equal(js_str(event, "event", ""), "error");
	assert_int_equal(js_int(event, "kind", 0), ERROR_LATER);
	assert_string_equal(js_str(event, "message", ""), "busy");
	assert_string_equal(js_str(event, "next", ""), "wait");
}

/* text: what a member repeats; each form must come out as one whole line within the limit. */
static void long_line_of(int fd, const char *text, size_t times, size_t members)
{
	struct strbuf big AUTO_STRBUF = STRBUF_NONE;
	struct json *fields = js_object_new(), *event AUTO_JSON = NULL;
	size_t len;

	strbuf_init(&big, STRBUF_MAX);
	for (size_t i = 0; i < times; i++)
		strbuf_adds(&big, text);
	for (size_t i = 0; i < members; i++) {
		char key[32];

		snprintf(key, sizeof(key), "m%zu", i);
		js_set_strn(fields, key, big.data, big.len);
	}
	js_set_int(fields, "number", 42);
	event_send("result", fields);
	event = next_line(fd, &len);
	assert_true(len <= EVENT_LINE_MAX);
	assert_string_equal(js_str(event, "event", ""), "result");
	if (js_bool(event, "cut", false))
		return;
	assert_int_equal(js_int(event, "number", 0), 42);
	assert_non_null(strstr(js_str(event, "m0", ""), "…"));
}

static void long_texts_are_cut_not_broken(void **state)
{
	int *fd = *state;

	long_line_of(*fd, "x", EVENT_LINE_MAX, 1);
	long_line_of(*fd, "ä€", 100000, 3);
	long_line_of(*fd, "\x01", 100000, 1); /* six bytes each in JSON */
	long_line_of(*fd, "y", 2000, 400);
	long_line_of(*fd, "z", 10000, 1000); /* too many members even when cut */
}

static void long_lists_are_left_out(void **state)
{
	int *fd = *state;
	size_t len;
	struct json *fields = js_object_new(), *list = js_array_new(), *event AUTO_JSON = NULL;

	for (int i = 0; i < 20000; i++)
		js_push_str(list, "entry");
	js_set(fields, "list", list);
	event_send("result", fields);
	event = next_line(*fd, &len);
	assert_true(js_bool(event, "cut", false));
}

static void answer_is_one_line_at_a_time(void **state)
{
	int *fd = *state;
	struct error err;
	struct json *one AUTO_JSON = NULL, *two AUTO_JSON = NULL;

	assert_int_equal(fd_write_all(*fd, "{\"granted\":true}\n{\"granted\":false}\n", 35), 0);
	one = event_answer(&err);
	two = event_answer(&err);
	assert_true(js_bool(one, "granted", false));
	assert_false(js_bool(two, "granted", true));
}

static void answer_malformed_is_an_error(void **state)
{
	int *fd = *state;
	struct error err = {.kind = ERROR_NONE};

	assert_int_equal(fd_write_all(*fd, "{\"granted\":\n", 12), 0);
	assert_null(event_answer(&err));
	assert_int_not_equal(err.kind, ERROR_NONE);
}

static void answer_too_long_is_an_error(void **state)
{
	int *fd = *state;
	struct error err = {.kind = ERROR_NONE};
	char *text AUTO_FREE = mem_calloc(EVENT_LINE_MAX + 2, 1);
	pid_t pid;

	memset(text, ' ', EVENT_LINE_MAX + 1);
	pid = fork();
	if (pid == 0)
		_exit(fd_write_all(*fd, text, EVENT_LINE_MAX + 1) == 0 ? 0 : 1);
	assert_null(event_answer(&err));
	assert_non_null(strstr(err.message, "longer"));
	waitpid(pid, NULL, 0);
}

static void answer_supervisor_gone_is_an_error(void **state)
{
	int *fd = *state;
	struct error err = {.kind = ERROR_NONE};

	assert_int_equal(fd_write_all(*fd, "{\"cut", 5), 0);
	shutdown(*fd, SHUT_WR);
	assert_null(event_answer(&err));
	assert_int_equal(err.kind, ERROR_FAILED);
}

static void progress_without_a_supervisor_is_silent(void **state)
{
	(void)state;
	close(FD_CONTROL);
	event_progress("nobody hears this");
}

/* What nobody can record must not go on: in a child, because it ends the process. */
static void send_without_a_supervisor_ends_the_process(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

		dup2(null, STDERR_FILENO);
		close(FD_CONTROL);
		event_send("result", js_object_new());
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), EXIT_FAILED);
}

static void send_to_a_closed_supervisor_ends_without_a_signal(void **state)
{
	int *fd = *state, status;
	pid_t pid = fork();

	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

		dup2(null, STDERR_FILENO);
		shutdown(*fd, SHUT_RDWR);
		event_send("result", js_object_new());
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), EXIT_FAILED);
}

#define WITH_CONTROL(test) cmocka_unit_test_setup_teardown(test, control_make, control_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    WITH_CONTROL(progress_is_a_line),
	    WITH_CONTROL(send_sets_the_event_and_keeps_the_rest),
	    WITH_CONTROL(error_tells_kind_message_and_next),
	    WITH_CONTROL(long_texts_are_cut_not_broken),
	    WITH_CONTROL(long_lists_are_left_out),
	    WITH_CONTROL(answer_is_one_line_at_a_time),
	    WITH_CONTROL(answer_malformed_is_an_error),
	    WITH_CONTROL(answer_too_long_is_an_error),
	    WITH_CONTROL(answer_supervisor_gone_is_an_error),
	    cmocka_unit_test(progress_without_a_supervisor_is_silent),
	    cmocka_unit_test(send_without_a_supervisor_ends_the_process),
	    WITH_CONTROL(send_to_a_closed_supervisor_ends_without_a_signal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
