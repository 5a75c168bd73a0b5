/* A child that has been taken over: what it may say, and what the supervisor makes of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/events.h"
#include "pipeline/journal.h"
#include "pipeline/supervise.h"

static struct journal journal = {.events_fd = -1, .quiet = true};
static struct supervisor sup;

static int begin(void **state)
{
	struct error err = {0};

	(void)state;
	signal(SIGINT, SIG_DFL); /* whoever started the tests may have it ignored */
	return supervise_init(&sup, &journal, &err);
}

static int end(void **state)
{
	(void)state;
	supervise_release(&sup);
	return 0;
}

/* Starts a child that sends text and then exits with status (status < 0: sleeps for ever). */
static void start(struct supervised *sv, const char *text, size_t len, int status,
		  unsigned wall_s)
{
	struct child child = {.stderr_fd = -1};
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	child.pid = fork();
	if (child.pid == 0) {
		signal(SIGPIPE, SIG_IGN);
		fd_write_all(pair[1], text, len);
		while (status < 0)
			pause();
		_exit(status);
	}
	close(pair[1]);
	child.control = pair[0];
	child.pidfd = (int)syscall(SYS_pidfd_open, child.pid, 0);
	assert_true(child.pidfd >= 0);
	supervise_adopt(&sup, sv, "child", &child, wall_s);
}

static int run(const char *text, int status, struct error *err)
{
	struct supervised sv;
	int result;

	memset(err, 0, sizeof(*err));
	start(&sv, text, strlen(text), status, 20);
	result = supervise_wait(&sup, &sv, err);
	supervise_end(&sup, &sv);
	return result;
}

static void wait_error_event_becomes_the_error(void **state)
{
	struct error err;

	(void)state;
	assert_int_equal(
	    run("{\"event\":\"error\",\"kind\":-4,\"message\":\"no\\u001b[31m\",\"next\":\"do "
		"it\"}\n",
		1, &err),
	    ERROR_NO);
	assert_string_equal(err.message, "no\\x1b[31m");
	assert_string_equal(err.next, "do it");
}

/* The exit status decides the kind; a child cannot claim another. */
static void wait_status_without_event_is_explained(void **state)
{
	struct error err;

	(void)state;
	assert_int_equal(run("", 75, &err), ERROR_LATER);
	assert_int_equal(run("", 200, &err), ERROR_FAILED);
	assert_int_equal(run("", 0, &err), 0);
}

static void wait_hostile_events_end_the_child(void **state)
{
	static const char *const hostile[] = {
	    "garbage\n",
	    "{\"event\":5}\n",
	    "[]\n",
	    "{\"event\":\"unknown\"}\n",
	    "{\"event\":\"result\",\"event\":\"error\"}\n",
	    "{\"event\":\"progress\",\"text\":\"\xff\"}\n",
	};
	struct error err;

	(void)state;
	for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
		assert_int_equal(run(hostile[i], -1, &err), ERROR_FAILED);
		assert_non_null(strstr(err.message, "malformed"));
	}
}

static void wait_endless_line_ends_the_child(void **state)
{
	static char text[EVENT_LINE_MAX * 2];
	struct supervised sv;
	struct error err = {0};

	(void)state;
	memset(text, 'x', sizeof(text));
	start(&sv, text, sizeof(text), -1, 20);
	assert_int_equal(supervise_wait(&sup, &sv, &err), ERROR_FAILED);
	assert_non_null(strstr(err.message, "too long"));
	supervise_end(&sup, &sv);
}

static void wait_deadline_kills(void **state)
{
	struct supervised sv;
	struct error err = {0};

	(void)state;
	start(&sv, "", 0, -1, 1);
	assert_int_equal(supervise_wait(&sup, &sv, &err), ERROR_FAILED);
	assert_non_null(strstr(err.message, "not done within 1 s"));
	supervise_end(&sup, &sv);
}

static void wait_interrupt_kills_all(void **state)
{
	struct supervised first, second;
	struct error err = {0};

	(void)state;
	start(&first, "", 0, -1, 0);
	start(&second, "", 0, -1, 0);
	kill(getpid(), SIGINT);
	assert_int_equal(supervise_wait(&sup, &first, &err), ERROR_INTERRUPTED);
	assert_int_equal(supervise_wait(&sup, &second, &err), ERROR_INTERRUPTED);
	supervise_end(&sup, &second);
	supervise_end(&sup, &first);
}

static void wait_result_is_kept_with_the_last_bytes(void **state)
{
	static const char text[] = "{\"event\":\"result\",\"dirty\":true,\"changed\":3}\n";
	struct supervised sv;
	struct error err = {0};

	(void)state;
	start(&sv, text, sizeof(text) - 1, 0, 20);
	assert_int_equal(supervise_wait(&sup, &sv, &err), 0);
	assert_int_equal(js_int(sv.result, "changed", 0), 3);
	supervise_end(&sup, &sv);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(wait_error_event_becomes_the_error, begin, end),
	    cmocka_unit_test_setup_teardown(wait_status_without_event_is_explained, begin, end),
	    cmocka_unit_test_setup_teardown(wait_hostile_events_end_the_child, begin, end),
	    cmocka_unit_test_setup_teardown(wait_endless_line_ends_the_child, begin, end),
	    cmocka_unit_test_setup_teardown(wait_deadline_kills, begin, end),
	    cmocka_unit_test_setup_teardown(wait_interrupt_kills_all, begin, end),
	    cmocka_unit_test_setup_teardown(wait_result_is_kept_with_the_last_bytes, begin,
					    end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
