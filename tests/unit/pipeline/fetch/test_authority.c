/* "host:port" in every spelling that has fooled a proxy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "pipeline/base/mem.h"
#include "pipeline/fetch/authority.h"

/* Length-carrying, for NUL bytes. */
#define REFUSED(literal) assert_true(parse(literal, sizeof(literal) - 1) == NULL)

static struct authority parsed;

/* "host:port" as formatted, or NULL when refused. */
static const char *parse(const char *text, size_t len)
{
	static char out[280];
	const char *why = NULL;

	if (authority_parse(text, len, &parsed, &why) < 0) {
		assert_non_null(why);
		return NULL;
	}
	authority_format(&parsed, out, sizeof(out));
	return out;
}

static void taken(const char *text, const char *wanted)
{
	assert_string_equal(parse(text, strlen(text)), wanted);
}

static void authority_parse_names_are_canonical(void **state)
{
	(void)state;
	taken("registry.example:443", "registry.example:443");
	taken("Registry.EXAMPLE:443", "registry.example:443");
	taken("registry.example.:443", "registry.example:443");
	taken("a_b.x-y.example:1", "a_b.x-y.example:1");
	taken("localhost:65535", "localhost:65535");
	taken("xn--bcher-kva.example:443", "xn--bcher-kva.example:443");
	assert_false(parsed.literal);
}

static void authority_parse_addresses_have_one_spelling(void **state)
{
	(void)state;
	taken("192.0.2.7:443", "192.0.2.7:443");
	assert_true(parsed.literal);
	taken("[2001:DB8:0:0::1]:443", "[2001:db8::1]:443");
	assert_true(parsed.v6);
	REFUSED("127.1:443");
	REFUSED("2130706433:443");
	REFUSED("0x7f000001:443");
	REFUSED("0x7f.1:443");
	REFUSED("017700000001:443");
	REFUSED("127.0.0.01:443");
	REFUSED("1.2.3.4.5:443");
	REFUSED("foo.0x1:443");
	REFUSED("[fe80::1%25eth0]:443");
	REFUSED("[::1]443");
	REFUSED("[::1");
	REFUSED("[]:443");
	REFUSED("::1:443");
}

static void authority_parse_tricks_are_refused(void **state)
{
	(void)state;
	REFUSED("");
	REFUSED(":443");
	REFUSED("registry.example");
	REFUSED("registry.example:");
	REFUSED("evil.example\0.registry.example:443");
	REFUSED("registry.example\0:443");
	REFUSED("user@registry.example:443");
	REFUSED("user:pass@registry.example:443");
	REFUSED("registry.example:443@evil.example:443");
	REFUSED("registry.example:443:80");
	REFUSED("registry.example :443");
	REFUSED(" registry.example:443");
	REFUSED("registry.example:443 ");
	REFUSED("registry.example\r\n:443");
	REFUSED("registry.example:443\r\nX: y");
	REFUSED("registry%2eexample:443");
	REFUSED("registry.example\\@evil.example:443");
	REFUSED("registry.example/:443");
	REFUSED("registry..example:443");
	REFUSED(".registry.example:443");
	REFUSED("registry.example..:443");
	REFUSED("-registry.example:443");
	REFUSED("registry-.example:443");
	REFUSED("b\xc3\xbc"
		"cher.example:443");
	REFUSED("*.example:443");
}

static void authority_parse_ports_are_whole_numbers(void **state)
{
	(void)state;
	REFUSED("a.example:0");
	REFUSED("a.example:65536");
	REFUSED("a.example:99999999999");
	REFUSED("a.example:+443");
	REFUSED("a.example:-1");
	REFUSED("a.example:0443");
	REFUSED("a.example:4 43");
	REFUSED("a.example:443x");
	REFUSED("a.example:0x1bb");
}

static void authority_parse_lengths_are_bounded(void **state)
{
	char text[400];

	(void)state;
	memset(text, 'a', sizeof(text));
	memcpy(text + 63, ".b:1", 5);
	assert_non_null(parse(text, strlen(text)));
	memset(text, 'a', sizeof(text));
	memcpy(text + 64, ".b:1", 5);
	assert_null(parse(text, strlen(text)));
	for (size_t i = 0; i < 253; i++)
		text[i] = i % 2 ? '.' : 'a';
	memcpy(text + 253, ":1", 3);
	assert_non_null(parse(text, strlen(text)));
	for (size_t i = 0; i < 255; i++)
		text[i] = i % 2 ? '.' : 'a';
	memcpy(text + 255, ":1", 3);
	assert_null(parse(text, strlen(text)));
}

static void authority_of_url_takes_host_and_port(void **state)
{
	struct authority at;
	const char *why;
	char text[280];
	bool tls;

	(void)state;
	assert_int_equal(authority_of_url("https://Registry.example/npm/", &at, &tls, &why), 0);
	authority_format(&at, text, sizeof(text));
	assert_string_equal(text, "registry.example:443");
	assert_true(tls);
	assert_int_equal(authority_of_url("http://[::1]:4873", &at, &tls, &why), 0);
	authority_format(&at, text, sizeof(text));
	assert_string_equal(text, "[::1]:4873");
	assert_false(tls);
	assert_int_equal(authority_of_url("https://[2001:db8::1]/x", &at, &tls, &why), 0);
	assert_int_equal(at.port, 443);
	assert_int_equal(
	    authority_of_url("https://user:pass@registry.example/", &at, &tls, &why), -1);
	assert_int_equal(authority_of_url("https://a.example?@evil.example", &at, &tls, &why),
			 0);
	assert_string_equal(at.host, "a.example");
	assert_int_equal(authority_of_url("https://a.example\\@evil.example/", &at, &tls, &why),
			 -1);
	assert_int_equal(authority_of_url("ftp://a.example/", &at, &tls, &why), -1);
	assert_int_equal(authority_of_url("https://", &at, &tls, &why), -1);
	assert_int_equal(authority_of_url("file:///etc/passwd", &at, &tls, &why), -1);
}

static void authority_equal_compares_host_port_and_kind(void **state)
{
	struct authority a, b;
	const char *why;

	(void)state;
	assert_int_equal(authority_parse("a.example:443", 13, &a, &why), 0);
	assert_int_equal(authority_parse("A.example.:443", 14, &b, &why), 0);
	assert_true(authority_equal(&a, &b));
	b.port = 80;
	assert_false(authority_equal(&a, &b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(authority_parse_names_are_canonical),
	    cmocka_unit_test(authority_parse_addresses_have_one_spelling),
	    cmocka_unit_test(authority_parse_tricks_are_refused),
	    cmocka_unit_test(authority_parse_ports_are_whole_numbers),
	    cmocka_unit_test(authority_parse_lengths_are_bounded),
	    cmocka_unit_test(authority_of_url_takes_host_and_port),
	    cmocka_unit_test(authority_equal_compares_host_port_and_kind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
