/* A proxy's address, who is reached without it, and its answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/proxy.h"

static void address_is_taken_apart_or_refused(void **state)
{
	static const struct {
		const char *text, *host;
		int port;
	} good[] = {{"http://proxy:3128", "proxy", 3128},
		    {"http://proxy:3128/", "proxy", 3128},
		    {"HTTP://proxy", "proxy", PROXY_PORT_DEFAULT},
		    {"proxy:8080", "proxy", 8080},
		    {"10.1.2.3", "10.1.2.3", PROXY_PORT_DEFAULT},
		    {"http://[fd00::1]:3128", "fd00::1", 3128},
		    {"[fd00::1]", "fd00::1", PROXY_PORT_DEFAULT}};
	static const char *const bad[] = {"",
					  "http://",
					  "http://:3128",
					  "http://proxy:",
					  "http://proxy:0",
					  "http://proxy:65536",
					  "http://proxy:12x",
					  "http://proxy:3128/x",
					  "https://proxy:1",
					  "socks5://proxy:1",
					  "socks5h://proxy:1",
					  "http://u:p@proxy:1",
					  "u@proxy:1",
					  "http://a b:1",
					  "http://a\nb:1",
					  "http://[fd00::1:1",
					  "http://[::1]x:1",
					  "http://a\r\nHost: x"};
	struct error err = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct proxy proxy;

		if (proxy_parse(good[i].text, &proxy, &err) ||
		    strcmp(proxy.host, good[i].host) != 0 || proxy.port != good[i].port)
			fail_msg("not taken: %s", good[i].text);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct proxy proxy;
		struct error why = {0};

		if (proxy_parse(bad[i], &proxy, &why) != ERROR_USAGE)
			fail_msg("taken: %s", bad[i]);
		if (strstr(why.message, "u:p"))
			fail_msg("shown: %s", why.message);
	}
}

static void exemptions_are_hosts_domains_and_networks(void **state)
{
	static const struct {
		const char *list, *host;
		int port;
		bool exempt;
	} cases[] = {
	    {"*", "git.example.org", 443, true},
	    {"git.example.org", "git.example.org", 443, true},
	    {"example.org", "git.example.org", 443, true},
	    {".example.org", "git.example.org", 443, true},
	    {".example.org", "example.org", 443, true},
	    {"EXAMPLE.org", "git.example.ORG", 443, true},
	    {"ample.org", "git.example.org", 443, false},
	    {"git.example.org.evil", "git.example.org", 443, false},
	    {"x,  example.org ,y", "git.example.org", 443, true},
	    {"x y\texample.org", "git.example.org", 443, true},
	    {"example.org:443", "git.example.org", 443, true},
	    {"example.org:8443", "git.example.org", 443, false},
	    {"localhost,127.0.0.1", "127.0.0.1", 443, true},
	    {"127.0.0.1", "1.127.0.0.1", 443, true},
	    {"10.0.0.0/8", "10.200.1.1", 443, true},
	    {"10.0.0.0/8", "11.0.0.1", 443, false},
	    {"10.0.0.0/8", "git.example.org", 443, false},
	    {"10.0.0.0/33", "10.0.0.1", 443, false},
	    {"10.0.0.0/", "10.0.0.1", 443, false},
	    {"0.0.0.0/0", "10.0.0.1", 443, true},
	    {"fd00::/8", "fd12::1", 443, true},
	    {"fd00::/8", "fe80::1", 443, false},
	    {"[fd12::1]:443", "fd12::1", 443, true},
	    {"fd12::1", "fd12::1", 443, true},
	    {"", "git.example.org", 443, false},
	    {",,,", "git.example.org", 443, false},
	    {".", "git.example.org", 443, false},
	    {"org", "org", 443, true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (proxy_exempts(cases[i].list, cases[i].host, cases[i].port) !=
		    cases[i].exempt)
			fail_msg("case %zu: %s, %s", i, cases[i].list, cases[i].host);
}

static void request_has_the_credential_or_is_refused(void **state)
{
	static const char *const bad[] = {"", "user", "user:a\nb", "user:a\r\nX: y", "u:\x7f"};
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;
	struct error err = {0};

	(void)state;
	strbuf_init(&out, 8192);
	assert_int_equal(proxy_format_request("h", 443, NULL, 0, &out, &err), 0);
	assert_string_equal(out.data, "CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n");
	out.len = 0;
	assert_int_equal(proxy_format_request("fd00::1", 1, "user:pass", 9, &out, &err), 0);
	assert_string_equal(out.data, "CONNECT [fd00::1]:1 HTTP/1.1\r\nHost: [fd00::1]:1\r\n"
				      "Proxy-Authorization: Basic dXNlcjpwYXNz\r\n\r\n");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (proxy_format_request("h", 1, bad[i], strlen(bad[i]), &out, &err) !=
		    ERROR_USAGE)
			fail_msg("taken: case %zu", i);
	assert_null(strstr(err.message, "user:a"));
}

static void answer_is_read_the_same_in_pieces(void **state)
{
	static const struct {
		const char *text;
		int state;
		size_t used;
		const char *why;
	} cases[] = {
	    {"HTTP/1.1 200 OK\r\n\r\n", 1, 19, NULL},
	    {"HTTP/1.0 200\r\nA: b\r\n\r\nSSH-2.0", 1, 22, NULL},
	    {"HTTP/1.1 204 x\r\n\r\n", 1, 18, NULL},
	    {"HTTP/1.1 407 Auth\r\n\r\n", -1, 0, "http.proxyCredential"},
	    {"HTTP/1.1 403 No\033[2J\r\n\r\n", -1, 0, "\\x1b[2J"},
	    {"HTTP/1.1 100 Continue\r\n\r\n", -1, 0, "refuses"},
	    {"HTTP/1.1 2OO OK\r\n\r\n", -1, 0, "refuses"},
	    {"HTTP/1.1\r\n\r\n", -1, 0, "refuses"},
	    {"HTTP/1.\r\n\r\n", -1, 0, "refuses"},
	    {"HTTP/1.1 -20 OK\r\n\r\n", -1, 0, "refuses"},
	    {"HTTP/2 200\r\n\r\n", -1, 0, "does not speak"},
	    {"SSH-2.0-x\r\n", -1, 0, "does not speak"},
	    {"HTTP/1.1 200 OK\r\n", 0, 0, NULL},
	    {"", 0, 0, NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size_t used = 0, size = strlen(cases[i].text);
		char why[256] = "";
		int result = 0;

		for (size_t len = 0; len <= size && !result; len++)
			result = proxy_parse_answer(cases[i].text, len, false, &used, why);
		if (result != cases[i].state || used != cases[i].used)
			fail_msg("case %zu: %d, %zu used, %s", i, result, used, why);
		if (cases[i].why && !strstr(why, cases[i].why))
			fail_msg("case %zu: %s", i, why);
	}
}

static void answer_without_end_is_refused(void **state)
{
	char *text AUTO_FREE = mem_calloc(PROXY_ANSWER_MAX + 1, 1);
	char why[256] = "";
	size_t used;

	(void)state;
	memset(text, 'a', PROXY_ANSWER_MAX);
	memcpy(text, "HTTP/1.1 200 OK\r\n", 17);
	assert_int_equal(proxy_parse_answer(text, PROXY_ANSWER_MAX - 1, true, &used, why), 0);
	assert_int_equal(proxy_parse_answer(text, PROXY_ANSWER_MAX, true, &used, why), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(address_is_taken_apart_or_refused),
	    cmocka_unit_test(exemptions_are_hosts_domains_and_networks),
	    cmocka_unit_test(request_has_the_credential_or_is_refused),
	    cmocka_unit_test(answer_is_read_the_same_in_pieces),
	    cmocka_unit_test(answer_without_end_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
