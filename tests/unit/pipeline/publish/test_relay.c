/* The proxy that knows one request, and the bytes that pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/publish/pump.h"
#include "pipeline/publish/relay.h"

static int parse(const char *text, size_t *used)
{
	return relay_parse_connect(text, strlen(text), "h.example:443", used);
}

static void connect_is_taken_for_our_host_only(void **state)
{
	static const char *const good[] = {
	    "CONNECT h.example:443 HTTP/1.1\r\n\r\n",
	    "CONNECT h.example:443 HTTP/1.0\r\nHost: evil:80\r\n\r\n",
	    "CONNECT H.Example:443 HTTP/1.1\r\nX: y\r\n\r\nTLS"};
	static const char *const bad[] = {"GET http://h.example:443/ HTTP/1.1\r\n\r\n",
					  "CONNECT h.example:80 HTTP/1.1\r\n\r\n",
					  "CONNECT evil:443 HTTP/1.1\r\n\r\n",
					  "CONNECT h.example:4430 HTTP/1.1\r\n\r\n",
					  "CONNECT xh.example:443 HTTP/1.1\r\n\r\n",
					  "CONNECT h.example:443  HTTP/1.1\r\n\r\n",
					  "CONNECT h.example:443 HTTP/1.1 \r\n\r\n",
					  "CONNECT h.example:443 HTTP/2.0\r\n\r\n",
					  "CONNECT h.example:443\r\n\r\n",
					  "CONNECT h.example:443@evil:443 HTTP/1.1\r\n\r\n",
					  "connect h.example:443 HTTP/1.1\r\n\r\n",
					  "\r\n\r\n",
					  "X"};
	size_t used;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		assert_int_equal(parse(good[i], &used), 1);
		assert_int_equal(used, strstr(good[i], "\r\n\r\n") + 4 - good[i]);
		for (size_t len = 0; len < used; len++)
			assert_int_equal(
			    relay_parse_connect(good[i], len, "h.example:443", &used), 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (parse(bad[i], &used) != -1)
			fail_msg("taken: %s", bad[i]);
}

static void connect_header_without_end_is_refused(void **state)
{
	char text[RELAY_HEADER_MAX];
	size_t used;

	(void)state;
	memset(text, 'a', sizeof(text));
	memcpy(text, "CONNECT h.example:443 HTTP/1.1\r\n", 32);
	assert_int_equal(relay_parse_connect(text, sizeof(text) - 1, "h.example:443", &used),
			 0);
	assert_int_equal(relay_parse_connect(text, sizeof(text), "h.example:443", &used), -1);
	text[50] = '\0';
	assert_int_equal(relay_parse_connect(text, 60, "h.example:443", &used), -1);
}

static void make_pair(int pair[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
}

static bool turn(struct pump *pump)
{
	struct pollfd fds[PUMP_POLLFDS];

	pump_fill(pump, fds);
	poll(fds, PUMP_POLLFDS, 1000);
	return pump_move(pump, fds);
}

static void pump_passes_first_bytes_then_the_rest_then_the_end(void **state)
{
	char text[64];
	int a[2], b[2];
	struct pump pump;

	(void)state;
	make_pair(a);
	make_pair(b);
	pump_init(&pump, a[1], b[1], "first ", 6);
	assert_int_equal(write(a[0], "second", 6), 6);
	assert_true(turn(&pump));
	assert_true(turn(&pump));
	assert_true(turn(&pump));
	assert_int_equal(read(b[0], text, sizeof(text)), 12);
	assert_memory_equal(text, "first second", 12);
	assert_int_equal(write(b[0], "back", 4), 4);
	assert_true(turn(&pump));
	assert_int_equal(read(a[0], text, sizeof(text)), 4);
	/* one way ends, the other goes on */
	shutdown(a[0], SHUT_WR);
	assert_true(turn(&pump));
	assert_int_equal(read(b[0], text, sizeof(text)), 0);
	assert_int_equal(write(b[0], "more", 4), 4);
	assert_true(turn(&pump));
	assert_int_equal(read(a[0], text, sizeof(text)), 4);
	close(b[0]);
	assert_false(turn(&pump));
	pump_release(&pump);
	pump_release(&pump);
	close(a[0]);
}

static void pump_large_first_part_goes_out_whole(void **state)
{
	size_t len = (size_t)4 << 20, got = 0;
	char *data AUTO_FREE = mem_calloc(len, 1), chunk[65536];
	int a[2], b[2];
	struct pump pump;

	(void)state;
	for (size_t i = 0; i < len; i++)
		data[i] = (char)(i * 7 + i / 251);
	make_pair(a);
	make_pair(b);
	pump_init(&pump, a[1], b[1], data, len);
	while (got < len) {
		ssize_t n;

		assert_true(turn(&pump));
		while ((n = recv(b[0], chunk, sizeof(chunk), MSG_DONTWAIT)) > 0) {
			assert_memory_equal(chunk, data + got, (size_t)n);
			got += (size_t)n;
		}
	}
	assert_int_equal(got, len);
	pump_release(&pump);
	close(a[0]);
	close(b[0]);
}

static void pump_gone_target_ends_the_source(void **state)
{
	int a[2], b[2], turns = 0;
	struct pump pump;

	(void)state;
	make_pair(a);
	make_pair(b);
	pump_init(&pump, a[1], b[1], "", 0);
	close(b[0]);
	assert_int_equal(write(a[0], "x", 1), 1);
	while (turn(&pump))
		assert_true(++turns < 10);
	pump_release(&pump);
	close(a[0]);
}

static int dial_in(const struct relay *relay)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = htons((uint16_t)relay_port(relay)),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static void serve(struct relay *relay)
{
	struct pollfd fds[RELAY_POLLFDS];

	relay_fill(relay, fds);
	if (poll(fds, RELAY_POLLFDS, 1000) > 0)
		relay_serve(relay, fds);
}

/* What a client gets for its request when agent-dial is gone. */
static void ask(struct relay *relay, const char *request, char *answer, size_t size)
{
	int fd = dial_in(relay);
	ssize_t n;

	serve(relay);
	assert_int_equal(write(fd, request, strlen(request)), strlen(request));
	serve(relay);
	n = read(fd, answer, size - 1);
	answer[n > 0 ? n : 0] = '\0';
	close(fd);
}

static void relay_answers_others_with_403(void **state)
{
	struct relay *relay = NULL;
	struct error err = {0};
	char answer[256];
	int net[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, net), 0);
	close(net[1]);
	assert_int_equal(relay_open(RELAY_CONNECT, "h:443", net[0], &relay, &err), 0);
	ask(relay, "CONNECT evil:443 HTTP/1.1\r\n\r\n", answer, sizeof(answer));
	assert_non_null(strstr(answer, "403"));
	assert_int_equal(relay_error(relay)->kind, ERROR_NONE);
	ask(relay, "CONNECT h:443 HTTP/1.1\r\n\r\n", answer, sizeof(answer));
	assert_non_null(strstr(answer, "502"));
	assert_int_equal(relay_error(relay)->kind, ERROR_FAILED);
	relay_free(relay);
	close(net[0]);
}

static void relay_crowd_of_clients_is_bounded(void **state)
{
	struct relay *relay = NULL;
	struct error err = {0};
	int clients[RELAY_CONNECTIONS + 4], net[2];
	char byte;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, net), 0);
	assert_int_equal(relay_open(RELAY_CONNECT, "h:443", net[0], &relay, &err), 0);
	for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
		clients[i] = dial_in(relay);
		serve(relay);
	}
	/* one too many is closed, not kept waiting */
	assert_int_equal(read(clients[RELAY_CONNECTIONS], &byte, 1), 0);
	for (size_t i = 0; i < ARRAY_LEN(clients); i++)
		close(clients[i]);
	relay_free(relay);
	close(net[0]);
	close(net[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(connect_is_taken_for_our_host_only),
	    cmocka_unit_test(connect_header_without_end_is_refused),
	    cmocka_unit_test(pump_passes_first_bytes_then_the_rest_then_the_end),
	    cmocka_unit_test(pump_large_first_part_goes_out_whole),
	    cmocka_unit_test(pump_gone_target_ends_the_source),
	    cmocka_unit_test(relay_answers_others_with_403),
	    cmocka_unit_test(relay_crowd_of_clients_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
