#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/url.h"

static void parse_usable_taken_apart(void **state)
{
	static const struct {
		const char *text, *host, *path;
		bool tls;
		int port;
	} good[] = {{"https://Example.COM", "example.com", "", true, 443},
		    {"https://example.com:8443/v1/", "example.com", "/v1", true, 8443},
		    {"http://127.0.0.1:8080/v1", "127.0.0.1", "/v1", false, 8080},
		    {"http://localhost", "localhost", "", false, 80},
		    {"http://[::1]:9", "::1", "", false, 9}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct error err = {0};
		struct url url;

		assert_int_equal(url_parse(good[i].text, &url, &err), 0);
		assert_string_equal(url.host, good[i].host);
		assert_string_equal(url.path, good[i].path);
		assert_int_equal(url.tls, good[i].tls);
		assert_int_equal(url.port, good[i].port);
	}
}

static void parse_unusable_refused(void **state)
{
	static const char *const bad[] = {
	    "",
	    "example.com",
	    "ftp://example.com",
	    "http://example.com", /* plain http past loopback */
	    "http://10.0.0.1:1",
	    "http://localhost.evil.example", /* no loopback name */
	    "http://127.0.0.1.evil.example",
	    "https://user:pw@example.com",
	    "https://example.com@evil.example",
	    "https://example.com:0",
	    "https://example.com:65536",
	    "https://example.com:",
	    "https://example.com:12x",
	    "https://example.com/?q",
	    "https://example.com/#f",
	    "https://-x",
	    "https://ex ample.com",
	    "https://example.com/a b",
	    "https://[::1",
	    "https://[zz]"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct error err = {0};
		struct url url;

		assert_int_equal(url_parse(bad[i], &url, &err), ERROR_USAGE);
		assert_true(err.message[0] && err.next[0]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(parse_usable_taken_apart),
					   cmocka_unit_test(parse_unusable_refused)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
