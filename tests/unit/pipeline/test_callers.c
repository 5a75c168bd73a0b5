/* Who is served of those that call, and who is hung up on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline/base/fdio.h"
#include "pipeline/callers.h"

#define CALLS 200

static struct callers callers;
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static int listener, calls[CALLS];

static int begin(void **state)
{
	(void)state;
	strcpy(address.sun_path, "/tmp/callers-XXXXXX");
	if (!mkdtemp(address.sun_path))
		return -1;
	strcat(address.sun_path, "/socket");
	callers_init(&callers);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	memset(calls, -1, sizeof(calls));
	return bind(listener, (struct sockaddr *)&address, sizeof(address)) ||
	       listen(listener, 16);
}

static int end(void **state)
{
	(void)state;
	callers_release(&callers);
	for (size_t i = 0; i < CALLS; i++)
		fd_close_ptr(&calls[i]);
	fd_close_ptr(&listener);
	unlink(address.sun_path);
	*strrchr(address.sun_path, '/') = '\0';
	return rmdir(address.sun_path);
}

static int call(size_t i, long long now)
{
	calls[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(calls[i], (struct sockaddr *)&address, sizeof(address)), 0);
	callers_accept(&callers, listener, now);
	return calls[i];
}

static void look(long long now)
{
	struct pollfd fds[CALLERS_MAX];

	callers_poll(&callers, fds);
	assert_true(poll(fds, CALLERS_MAX, 0) >= 0);
	callers_look(&callers, fds, now);
}

/* The one that is served says so to its other end. */
static bool serves(int fd)
{
	uid_t uid = 77777;
	int served AUTO_FD = callers_next(&callers, NULL, NULL, &uid);
	char byte;

	if (served < 0)
		return false;
	assert_int_equal(uid, geteuid());
	assert_int_equal(write(served, "", 1), 1);
	return recv(fd, &byte, 1, MSG_DONTWAIT) == 1;
}

static bool is_open(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_DONTWAIT) < 0;
}

static void who_has_said_all_is_served_before_who_says_nothing(void **state)
{
	(void)state;
	for (size_t i = 0; i < 50; i++)
		assert_int_equal(write(call(i, 0), "half", i % 2), i % 2);
	look(1);
	assert_false(serves(calls[0]));
	assert_int_equal(write(call(50, 1), "all", 3), 3);
	look(2);
	assert_false(serves(calls[50]));
	shutdown(calls[50], SHUT_WR);
	shutdown(calls[10], SHUT_WR);
	look(3);
	assert_true(serves(calls[10])); /* it came first */
	assert_true(serves(calls[50]));
	assert_false(serves(calls[50]));
	assert_true(is_open(calls[0]));
}

static void a_long_message_is_ready_before_its_end(void **state)
{
	static char much[60000];

	(void)state;
	assert_int_equal(write(call(0, 0), much, sizeof(much)), sizeof(much));
	look(1);
	assert_true(serves(calls[0]));
}

static void who_says_nothing_is_hung_up_on(void **state)
{
	(void)state;
	call(0, 0);
	shutdown(call(1, 0), SHUT_WR);
	call(2, 10);
	look(CALLERS_PATIENCE_MS);
	assert_false(is_open(calls[0]));
	assert_true(is_open(calls[1])); /* it waits for us */
	assert_true(is_open(calls[2]));
	look(CALLERS_READY_MS);
	assert_false(is_open(calls[1]));
	assert_false(is_open(calls[2]));
}

static void the_oldest_idle_one_goes_for_a_new_one(void **state)
{
	size_t open = 0;

	(void)state;
	shutdown(call(0, 0), SHUT_WR);
	look(0);
	for (size_t i = 1; i < CALLS; i++)
		call(i, (long long)i);
	for (size_t i = 0; i < CALLS; i++)
		open += is_open(calls[i]);
	assert_int_equal(open, CALLERS_MAX);
	assert_true(is_open(calls[0]));
	assert_false(is_open(calls[1]));
	assert_true(is_open(calls[CALLS - 1]));
}

/* Some are root's, some another's. */
static void who_calls_without_end_loses_their_own(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		skip();
		return;
	}
	call(0, 0);
	assert_int_equal(chown(address.sun_path, 65534, 65534), 0);
	*strrchr(address.sun_path, '/') = '\0';
	assert_int_equal(chown(address.sun_path, 65534, 65534), 0);
	address.sun_path[strlen(address.sun_path)] = '/';
	assert_int_equal(seteuid(65534), 0);
	for (size_t i = 1; i < CALLS; i++)
		call(i, (long long)i);
	assert_int_equal(seteuid(0), 0);
	assert_true(is_open(calls[0]));
	assert_false(is_open(calls[1]));
	call(1, 1000);
	assert_true(is_open(calls[0]));
}

static bool is_nobody(const void *arg, uid_t uid)
{
	(void)arg;
	return uid == 65534;
}

static void a_user_who_has_enough_waits(void **state)
{
	uid_t uid;

	(void)state;
	shutdown(call(0, 0), SHUT_WR);
	look(1);
	assert_int_equal(callers_next(&callers, is_nobody, NULL, &uid), -1);
	assert_true(serves(calls[0]));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(who_has_said_all_is_served_before_who_says_nothing),
	    CASE(a_long_message_is_ready_before_its_end),
	    CASE(who_says_nothing_is_hung_up_on),
	    CASE(the_oldest_idle_one_goes_for_a_new_one),
	    CASE(who_calls_without_end_loses_their_own),
	    CASE(a_user_who_has_enough_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
