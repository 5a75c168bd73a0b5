/* Which addresses may be connected to, in every spelling. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "pipeline/addr.h"
#include "pipeline/base/mem.h"

union any {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_un un;
};

static union any address(const char *text)
{
	union any addr;

	memset(&addr, 0, sizeof(addr));
	if (strchr(text, ':')) {
		addr.in6.sin6_family = AF_INET6;
		assert_int_equal(inet_pton(AF_INET6, text, &addr.in6.sin6_addr), 1);
	} else {
		addr.in.sin_family = AF_INET;
		assert_int_equal(inet_pton(AF_INET, text, &addr.in.sin_addr), 1);
	}
	return addr;
}

static void are(enum addr_class wanted, const char *const *texts, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		union any addr = address(texts[i]);

		if (addr_classify(&addr.any) != wanted)
			fail_msg("%s is %s", texts[i],
				 addr_class_text(addr_classify(&addr.any)));
	}
}
#define ARE(wanted, ...)                                                                       \
	are(wanted, (const char *const[]){__VA_ARGS__},                                        \
	    sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void classify_ipv4_ranges_and_their_borders(void **state)
{
	(void)state;
	ARE(ADDR_LOOPBACK, "127.0.0.1", "127.255.255.255");
	ARE(ADDR_PRIVATE, "10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255",
	    "192.168.0.0", "192.168.255.255");
	ARE(ADDR_LINK_LOCAL, "169.254.0.0", "169.254.169.254", "169.254.255.255");
	ARE(ADDR_SHARED, "100.64.0.0", "100.127.255.255");
	ARE(ADDR_MULTICAST, "224.0.0.1", "239.255.255.255", "255.255.255.255");
	ARE(ADDR_UNSPECIFIED, "0.0.0.0", "0.1.2.3");
	ARE(ADDR_RESERVED, "192.0.0.8", "192.0.2.1", "198.18.0.1", "198.19.255.255",
	    "198.51.100.1", "203.0.113.1", "240.0.0.1", "255.255.255.254", "192.88.99.1");
	ARE(ADDR_PUBLIC, "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0",
	    "126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255",
	    "172.32.0.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0",
	    "223.255.255.255", "1.1.1.1", "192.0.1.0", "192.0.3.0");
}

static void classify_ipv6_ranges_and_their_borders(void **state)
{
	(void)state;
	ARE(ADDR_LOOPBACK, "::1");
	ARE(ADDR_UNSPECIFIED, "::");
	ARE(ADDR_PRIVATE, "fc00::1", "fdff:ffff::1", "fec0::1", "feff::1");
	ARE(ADDR_LINK_LOCAL, "fe80::1", "febf::1");
	ARE(ADDR_MULTICAST, "ff02::1", "ff0e::1");
	ARE(ADDR_RESERVED, "2001:db8::1", "2001::1", "2001:1ff::1", "3fff::1", "3fff:fff::1",
	    "100::1", "64:ff9b:1::1", "5f00::1", "4000::1", "::2:3:4:5:6", "fe00::1");
	ARE(ADDR_PUBLIC, "2001:200::1", "2606:4700::1111", "2a00::1", "3ffe::1",
	    "3fff:1000::1");
}

static void classify_ipv4_inside_ipv6(void **state)
{
	(void)state;
	ARE(ADDR_LOOPBACK, "::ffff:127.0.0.1", "64:ff9b::127.0.0.1",
	    "2002:7f00:1::", "::127.0.0.1", "::ffff:0:127.0.0.1", "2a00::5efe:127.0.0.1",
	    "2a00::200:5efe:127.0.0.1");
	ARE(ADDR_PRIVATE, "::ffff:10.0.0.1", "64:ff9b::192.168.1.1", "2002:c0a8:101::1",
	    "::10.0.0.1", "2a00::5efe:10.0.0.1");
	ARE(ADDR_LINK_LOCAL, "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe");
	ARE(ADDR_SHARED, "::ffff:100.64.0.1");
	ARE(ADDR_UNSPECIFIED, "::ffff:0.0.0.0", "64:ff9b::");
	ARE(ADDR_MULTICAST, "::ffff:224.0.0.1");
	ARE(ADDR_PUBLIC, "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1",
	    "2a00::5efe:8.8.8.8");
	ARE(ADDR_RESERVED, "::8.8.8.8"); /* the deprecated form leads nowhere */
}

static void permitted_private_only_where_allowed(void **state)
{
	static const char *const inside[] = {
	    "127.0.0.1", "10.0.0.1", "169.254.1.1",	"100.64.0.1", "::1",
	    "fc00::1",	 "fe80::1",  "::ffff:10.0.0.1", "198.18.0.1"};
	static const char *const never[] = {"0.0.0.0", "224.0.0.1", "255.255.255.255",
					    "::",      "ff02::1",   "::ffff:0.0.0.0"};
	union any outside = address("8.8.8.8");

	(void)state;
	assert_true(addr_permitted(&outside.any, false));
	assert_true(addr_permitted(&outside.any, true));
	for (size_t i = 0; i < ARRAY_LEN(inside); i++) {
		union any addr = address(inside[i]);

		assert_false(addr_permitted(&addr.any, false));
		assert_true(addr_permitted(&addr.any, true));
	}
	for (size_t i = 0; i < ARRAY_LEN(never); i++) {
		union any addr = address(never[i]);

		assert_false(addr_permitted(&addr.any, false));
		assert_false(addr_permitted(&addr.any, true));
	}
}

static void other_families_are_refused(void **state)
{
	union any addr;

	(void)state;
	memset(&addr, 0, sizeof(addr));
	addr.un.sun_family = AF_UNIX;
	assert_int_equal(addr_classify(&addr.any), ADDR_UNKNOWN);
	assert_false(addr_permitted(&addr.any, true));
}

static void format_is_numeric(void **state)
{
	union any four = address("192.0.2.1"), six = address("2a00::1"), other;
	char text[64], small[5];

	(void)state;
	memset(&other, 0, sizeof(other));
	addr_format(text, sizeof(text), &four.any);
	assert_string_equal(text, "192.0.2.1");
	addr_format(text, sizeof(text), &six.any);
	assert_string_equal(text, "2a00::1");
	addr_format(text, sizeof(text), &other.any);
	assert_string_equal(text, "?");
	addr_format(small, sizeof(small), &four.any);
	assert_string_equal(small, "192.");
}

static void host_names_are_sane_or_not(void **state)
{
	static const char *const good[] = {"a", "host.example", "127.0.0.1", "::1", "a_b-c.d"};
	static const char *const bad[] = {"",  "-a",  "a b",   "a/b", "a\n",
					  "ü", "a;b", "[::1]", "a%b", "user@host"};
	char text[300];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_true(addr_host_is_sane(good[i]));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(addr_host_is_sane(bad[i]));
	memset(text, 'a', sizeof(text));
	text[253] = '\0';
	assert_true(addr_host_is_sane(text));
	text[253] = 'a';
	text[254] = '\0';
	assert_false(addr_host_is_sane(text));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(classify_ipv4_ranges_and_their_borders),
	    cmocka_unit_test(classify_ipv6_ranges_and_their_borders),
	    cmocka_unit_test(classify_ipv4_inside_ipv6),
	    cmocka_unit_test(permitted_private_only_where_allowed),
	    cmocka_unit_test(other_families_are_refused),
	    cmocka_unit_test(format_is_numeric),
	    cmocka_unit_test(host_names_are_sane_or_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
