/* Asking agent-dial: good answers, refusals, and answers that it would never give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/dial.h"

struct ends {
	int net, dial; /* the stage's and agent-dial's */
};

static int ends_make(void **state)
{
	struct ends *ends = mem_calloc(1, sizeof(*ends));
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	ends->net = pair[0];
	ends->dial = pair[1];
	*state = ends;
	return 0;
}

static int ends_close(void **state)
{
	struct ends *ends = *state;

	close(ends->net);
	if (ends->dial >= 0)
		close(ends->dial);
	free(ends);
	return 0;
}

static void answer(const struct ends *ends, const char *text, size_t len, const int *fds,
		   size_t count)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(8 * sizeof(int))];
	} control;
	struct iovec data = {.iov_base = mem_calloc(1, len + 1), .iov_len = len};
	struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};

	memcpy(data.iov_base, text, len); /* may hold NULs */
	memset(&control, 0, sizeof(control));
	if (count) {
		struct cmsghdr *c;

		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		c = CMSG_FIRSTHDR(&message);
		if (!c)
			return;
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(c), fds, count * sizeof(int));
	}
	assert_int_equal(sendmsg(ends->dial, &message, 0), (ssize_t)len);
	free(data.iov_base);
}

static size_t count_fds(void)
{
	size_t count = 0;

	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void connect_gives_the_socket(void **state)
{
	struct ends *ends = *state;
	struct error err;
	int pair[2], fd AUTO_FD = -1;
	char text[8] = "";

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	answer(ends, "ok", 2, &pair[0], 1);
	fd = dial_connect(ends->net, &err);
	assert_true(fd >= 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(recv(ends->dial, text, sizeof(text), 0), 1);
	assert_string_equal(text, "c");
	assert_int_equal(write(pair[1], "hi", 2), 2);
	assert_int_equal(read(fd, text, sizeof(text)), 2);
	close(pair[0]);
	close(pair[1]);
}

static void connect_refused_says_why(void **state)
{
	struct ends *ends = *state;
	struct error err;

	answer(ends, "no a.test (10.0.0.1) port 443: \x1b[31m a private address", 52, NULL, 0);
	assert_int_equal(dial_connect(ends->net, &err), -1);
	assert_int_equal(err.kind, ERROR_FAILED);
	assert_non_null(strstr(err.message, "a.test (10.0.0.1) port 443"));
	assert_null(strchr(err.message, '\x1b'));
}

static void connect_malformed_answers_are_refused(void **state)
{
	struct ends *ends = *state;
	static const struct {
		const char *text;
		size_t len, count;
	} cases[] = {{"ok", 2, 0},  {"ok ", 3, 1},  {"OK", 2, 1},
		     {"yes", 3, 1}, {"\0ok", 3, 1}, {"no", 2, 0}};
	int fds[] = {STDIN_FILENO};
	size_t before = count_fds();

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct error err = {.kind = ERROR_NONE};

		answer(ends, cases[i].text, cases[i].len, fds, cases[i].count);
		assert_int_equal(dial_connect(ends->net, &err), -1);
		assert_int_equal(err.kind, ERROR_FAILED);
	}
	assert_int_equal(count_fds(), before);
}

static void connect_more_descriptors_than_one_are_closed(void **state)
{
	struct ends *ends = *state;
	struct error err;
	int fds[] = {STDIN_FILENO, STDIN_FILENO, STDIN_FILENO,
		     STDIN_FILENO, STDIN_FILENO, STDIN_FILENO};
	size_t before = count_fds();

	answer(ends, "no thanks", 9, fds, 3);
	assert_int_equal(dial_connect(ends->net, &err), -1);
	answer(ends, "ok", 2, fds, 6); /* cut by the kernel: not to be trusted */
	assert_int_equal(dial_connect(ends->net, &err), -1);
	assert_int_equal(count_fds(), before);
}

static void connect_too_long_answer_is_refused(void **state)
{
	struct ends *ends = *state;
	struct error err;
	char text[3000];

	memset(text, 'x', sizeof(text));
	memcpy(text, "ok", 2);
	answer(ends, text, sizeof(text), NULL, 0);
	assert_int_equal(dial_connect(ends->net, &err), -1);
}

static void connect_without_agent_dial_is_an_error(void **state)
{
	struct ends *ends = *state;
	struct error err = {.kind = ERROR_NONE};

	close(ends->dial);
	ends->dial = -1;
	assert_int_equal(dial_connect(ends->net, &err), -1);
	assert_int_equal(err.kind, ERROR_FAILED);
	assert_int_equal(dial_connect(-1, &err), -1);
}

static void connect_agent_dial_ends_meanwhile(void **state)
{
	struct ends *ends = *state;
	struct error err = {.kind = ERROR_NONE};

	shutdown(ends->dial, SHUT_WR);
	assert_int_equal(dial_connect(ends->net, &err), -1);
	assert_non_null(strstr(err.message, "ended"));
}

#define WITH_ENDS(test) cmocka_unit_test_setup_teardown(test, ends_make, ends_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    WITH_ENDS(connect_gives_the_socket),
	    WITH_ENDS(connect_refused_says_why),
	    WITH_ENDS(connect_malformed_answers_are_refused),
	    WITH_ENDS(connect_more_descriptors_than_one_are_closed),
	    WITH_ENDS(connect_too_long_answer_is_refused),
	    WITH_ENDS(connect_without_agent_dial_is_an_error),
	    WITH_ENDS(connect_agent_dial_ends_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
