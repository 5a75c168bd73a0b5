/* What http.c refuses before it calls anybody. Transfers: tests/e2e/model-*.py. */
#include "tests/unit/pipeline/model/model_test.h"

#include "pipeline/http/http.h"

static int open_kind(const char *host, int port, bool tls, struct error *err)
{
	const struct http_options options = {.host = host,
					     .port = port,
					     .tls = tls,
					     .ca = "",
					     .net_fd = -1,
					     .idle_ms = 1000,
					     .response_bytes = 1000};
	struct http *http AUTO_HTTP = http_new(&options, err);

	return http ? 0 : err->kind;
}

static void new_plain_http_is_for_loopback_only(void **state)
{
	struct error err = {0};

	(void)state;
	assert_int_equal(open_kind("127.0.0.1", 80, false, &err), 0);
	assert_int_equal(open_kind("::1", 80, false, &err), 0);
	assert_int_equal(open_kind("localhost", 80, false, &err), 0);
	assert_int_equal(open_kind("api.example", 80, false, &err), ERROR_USAGE);
	assert_non_null(strstr(err.message, "plain HTTP to api.example is not allowed"));
	assert_int_equal(open_kind("10.0.0.1", 80, false, &err), ERROR_USAGE);
	assert_int_equal(open_kind("127.0.0.1.example", 80, false, &err), ERROR_USAGE);
	assert_int_equal(open_kind("localhost.example", 80, false, &err), ERROR_USAGE);
	assert_int_equal(open_kind("api.example", 443, true, &err), 0);
}

static void new_odd_host_is_refused(void **state)
{
	static const char *const hosts[] = {
	    "", "a/b", "a b", "user@host", "host:80\r\nX: y", "h\xc3\xb6st", "a?b", "[::1]"};
	struct error err = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(hosts); i++)
		assert_int_equal(open_kind(hosts[i], 443, true, &err), ERROR_USAGE);
	assert_int_equal(open_kind("a", 0, true, &err), ERROR_USAGE);
	assert_int_equal(open_kind("a", 65536, true, &err), ERROR_USAGE);
}

static int never(void *arg, const char *bytes, size_t len)
{
	(void)arg;
	(void)bytes;
	(void)len;
	fail_msg("bytes from nowhere");
	return -1;
}

/* Without agent-dial there is no connection, and with an odd path not even a try. */
static void post_without_dial_is_no_connection(void **state)
{
	static const char *const headers[] = {NULL};
	const struct http_options options = {.host = "127.0.0.1",
					     .port = 9,
					     .net_fd = -1,
					     .idle_ms = 1000,
					     .response_bytes = 1000};
	struct error err = {0};
	struct http *http AUTO_HTTP = http_new(&options, &err);
	struct http_request request = {.path = "/v1",
				       .headers = headers,
				       .key_header = "k: ",
				       .body = "{}",
				       .len = 2,
				       .deadline_ms = 1000,
				       .data = never};
	struct http_result result;

	(void)state;
	http_send(http, &request, &result);
	assert_int_equal(result.end, HTTP_CONNECT);
	assert_string_not_equal(result.why, "");
	http_result_release(&result);
	request.path = "/v1\r\nX: y";
	http_send(http, &request, &result);
	assert_int_equal(result.end, HTTP_LOCAL);
	http_result_release(&result);
}

static void header_values_are_visible_ascii(void **state)
{
	(void)state;
	assert_true(http_is_header_value("sk-ant_api03.Ab+/=", 18));
	assert_true(http_is_header_value("", 0));
	assert_false(http_is_header_value("a\nb", 3));
	assert_false(http_is_header_value("a\0b", 3));
	assert_false(http_is_header_value("\xc3\xa4", 2));
	assert_false(http_is_header_value("a\x7f", 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(new_plain_http_is_for_loopback_only),
	    cmocka_unit_test(new_odd_host_is_refused),
	    cmocka_unit_test(post_without_dial_is_no_connection),
	    cmocka_unit_test(header_values_are_visible_ascii),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
