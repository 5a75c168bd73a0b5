/* The proxy's rules and request heads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/fetch/policy.h"

static int parse_job(const char *text, struct policy *policy)
{
	struct error err = {0};
	AUTO_JSON struct json *job = js_parse(text, strlen(text), 65536, "job", &err);

	assert_non_null(job);
	return policy_parse(job, policy, &err);
}

static const char *decide(const struct policy *policy, const char *text)
{
	struct authority at;
	const char *why = NULL;

	assert_int_equal(authority_parse(text, strlen(text), &at, &why), 0);
	return policy_find(policy, &at, &why) ? "yes" : why;
}

static void policy_find_matches_whole_host_and_port(void **state)
{
	struct policy policy;

	(void)state;
	assert_int_equal(
	    parse_job("{\"allow\":[{\"host\":\"Registry.example.\",\"port\":443},"
		      "{\"host\":\"2001:db8::1\",\"port\":8443,\"private_ok\":true}]}",
		      &policy),
	    0);
	assert_string_equal(decide(&policy, "registry.EXAMPLE:443"), "yes");
	assert_string_equal(decide(&policy, "[2001:db8:0::1]:8443"), "yes");
	assert_string_equal(decide(&policy, "registry.example:80"),
			    "the host is on the list, but not with this port");
	assert_string_equal(decide(&policy, "evilregistry.example:443"), "not on the list");
	assert_string_equal(decide(&policy, "registry.example.evil.example:443"),
			    "not on the list");
	assert_string_equal(decide(&policy, "sub.registry.example:443"), "not on the list");
	assert_string_equal(decide(&policy, "127.0.0.1:443"), "not on the list");
	policy_release(&policy);
}

static void policy_find_empty_list_denies_all(void **state)
{
	struct policy policy;

	(void)state;
	assert_int_equal(parse_job("{\"allow\":[]}", &policy), 0);
	assert_string_equal(decide(&policy, "registry.example:443"), "not on the list");
	policy_release(&policy);
}

static void policy_parse_malformed_jobs_are_refused(void **state)
{
	static const char *const jobs[] = {
	    "{}",
	    "{\"allow\":null}",
	    "{\"allow\":\"registry.example:443\"}",
	    "{\"allow\":[{\"host\":\"registry.example\"}]}",
	    "{\"allow\":[{\"host\":\"registry.example\",\"port\":0}]}",
	    "{\"allow\":[{\"host\":\"registry.example\",\"port\":\"443\"}]}",
	    "{\"allow\":[{\"host\":\"*\",\"port\":443}]}",
	    "{\"allow\":[{\"host\":\"\",\"port\":443}]}",
	    "{\"allow\":[{\"host\":\"a.example\",\"port\":443,\"methods\":[]}]}",
	    "{\"allow\":[],\"deny\":[]}",
	    "{\"allow\":[],\"limits\":{\"speed\":1}}",
	    "{\"allow\":[],\"limits\":{\"wall_ms\":0}}",
	    "{\"allow\":[],\"proxy\":{\"host\":\"p.example\"}}",
	};
	struct policy policy;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(jobs); i++)
		assert_int_equal(parse_job(jobs[i], &policy), ERROR_USAGE);
}

static const char *head_why;

static enum request_result parse_head(const char *data, size_t len, struct authority *at)
{
	size_t used = 0;
	enum request_result result;

	head_why = NULL;
	result = request_parse(data, len, at, &used, &head_why);
	if (result == REQUEST_CONNECT)
		assert_int_equal(used, len);
	if (result == REQUEST_REFUSED)
		assert_non_null(head_why);
	return result;
}

#define HEAD(literal) parse_head(literal, sizeof(literal) - 1, &at)

static void request_parse_connect_is_taken(void **state)
{
	struct authority at;

	(void)state;
	assert_int_equal(
	    HEAD("CONNECT registry.example:443 HTTP/1.1\r\nHost: registry.example:443\r\n\r\n"),
	    REQUEST_CONNECT);
	assert_string_equal(at.host, "registry.example");
	assert_int_equal(HEAD("CONNECT [::1]:443 HTTP/1.0\r\n\r\n"), REQUEST_CONNECT);
}

static void request_parse_every_prefix_wants_more(void **state)
{
	static const char head[] = "CONNECT registry.example:443 HTTP/1.1\r\nHost: x\r\n\r\n";
	struct authority at;

	(void)state;
	for (size_t len = 0; len < sizeof(head) - 1; len++)
		assert_int_equal(parse_head(head, len, &at), REQUEST_MORE);
}

static void request_parse_tricks_are_refused(void **state)
{
	struct authority at;

	(void)state;
	assert_int_equal(HEAD("CONNECT evil.example\0.registry.example:443 HTTP/1.1\r\n\r\n"),
			 REQUEST_REFUSED);
	assert_int_equal(
	    HEAD("CONNECT evil.example:443\rregistry.example:443 HTTP/1.1\r\n\r\n"),
	    REQUEST_REFUSED);
	assert_int_equal(HEAD("CONNECT registry.example:443 HTTP/1.1\n\n"), REQUEST_REFUSED);
	assert_int_equal(HEAD("CONNECT registry.example:443 HTTP/1.1\r\nX: y\nZ: w\r\n\r\n"),
			 REQUEST_REFUSED);
	assert_int_equal(HEAD("CONNECT registry.example:443  HTTP/1.1\r\n\r\n"),
			 REQUEST_REFUSED);
	assert_int_equal(HEAD("CONNECT registry.example:443 evil.example:443 HTTP/1.1\r\n\r\n"),
			 REQUEST_REFUSED);
	assert_int_equal(HEAD("CONNECT registry.example:443 HTTP/2.0\r\n\r\n"),
			 REQUEST_REFUSED);
	assert_int_equal(HEAD("CONNECT registry.example:443\r\n\r\n"), REQUEST_REFUSED);
	assert_int_equal(HEAD("connect registry.example:443 HTTP/1.1\r\n\r\n"),
			 REQUEST_REFUSED);
	assert_int_equal(HEAD("\r\nCONNECT registry.example:443 HTTP/1.1\r\n\r\n"),
			 REQUEST_REFUSED);
	assert_int_equal(
	    HEAD("CONNECT registry.example:443 HTTP/1.1\r\nContent-Length: 5\r\n\r\n"),
	    REQUEST_REFUSED);
	assert_int_equal(
	    HEAD("CONNECT registry.example:443 HTTP/1.1\r\nTransfer-encoding: chunked\r\n\r\n"),
	    REQUEST_REFUSED);
	assert_int_equal(HEAD("CONNECT user@registry.example:443 HTTP/1.1\r\n\r\n"),
			 REQUEST_REFUSED);
	assert_int_equal(HEAD("CONNECT https://registry.example:443 HTTP/1.1\r\n\r\n"),
			 REQUEST_REFUSED);
}

static void request_parse_plain_http_is_refused_by_name(void **state)
{
	struct authority at;

	(void)state;
	assert_int_equal(
	    HEAD("GET http://registry.example/x HTTP/1.1\r\nHost: registry.example\r\n\r\n"),
	    REQUEST_REFUSED);
	assert_string_equal(at.host, "registry.example");
	assert_int_equal(at.port, 80);
	assert_string_equal(head_why, "plain HTTP is not carried, use https");
	assert_int_equal(HEAD("GET / HTTP/1.1\r\nHost: registry.example\r\n\r\n"),
			 REQUEST_REFUSED);
	assert_string_equal(at.host, "");
}

static void request_parse_long_heads_are_refused(void **state)
{
	char head[REQUEST_MAX + 8];
	struct authority at;

	(void)state;
	memset(head, 'a', sizeof(head));
	assert_int_equal(parse_head(head, REQUEST_MAX - 1, &at), REQUEST_MORE);
	assert_int_equal(parse_head(head, REQUEST_MAX, &at), REQUEST_REFUSED);
	assert_int_equal(parse_head(head, sizeof(head), &at), REQUEST_REFUSED);
}

static void response_parse_tells_success_from_refusal(void **state)
{
	static const char yes[] = "HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n";
	static const char no[] = "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n";
	size_t used;
	int status;

	(void)state;
	assert_int_equal(response_parse(yes, sizeof(yes) - 1, &used, &status), 1);
	assert_int_equal(used, sizeof(yes) - 1);
	assert_int_equal(response_parse(yes, 20, &used, &status), 0);
	assert_int_equal(response_parse(no, sizeof(no) - 1, &used, &status), -1);
	assert_int_equal(status, 407);
	assert_int_equal(response_parse("SSH-2.0\r\n\r\n", 11, &used, &status), -1);
	assert_int_equal(response_parse("\r\n\r\n", 4, &used, &status), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(policy_find_matches_whole_host_and_port),
	    cmocka_unit_test(policy_find_empty_list_denies_all),
	    cmocka_unit_test(policy_parse_malformed_jobs_are_refused),
	    cmocka_unit_test(request_parse_connect_is_taken),
	    cmocka_unit_test(request_parse_every_prefix_wants_more),
	    cmocka_unit_test(request_parse_tricks_are_refused),
	    cmocka_unit_test(request_parse_plain_http_is_refused_by_name),
	    cmocka_unit_test(request_parse_long_heads_are_refused),
	    cmocka_unit_test(response_parse_tells_success_from_refusal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
