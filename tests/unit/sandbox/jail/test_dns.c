/* The resolver's one answer, and the name that is told of a question. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sandbox/jail/dns.h"

static const uint8_t head[] = {0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0};

/* head with the bytes behind it. */
static size_t ask(const char *bytes, size_t len, uint8_t answer[DNS_QUERY_MAX],
		  struct dns_question *question)
{
	uint8_t query[DNS_QUERY_MAX];

	memcpy(query, head, sizeof(head));
	memcpy(query + sizeof(head), bytes, len);
	return dns_answer(query, sizeof(head) + len, answer, question);
}

static void name_does_not_exist_and_is_told(void **state)
{
	static const char bytes[] = "\7eXaMple\3com\0\0\34\0\1";
	uint8_t answer[DNS_QUERY_MAX];
	struct dns_question question;

	(void)state;
	assert_int_equal(ask(bytes, sizeof(bytes) - 1, answer, &question),
			 12 + sizeof(bytes) - 1);
	assert_string_equal(question.name, "example.com");
	assert_int_equal(question.type, DNS_TYPE_AAAA);
	assert_memory_equal(answer, "\xab\xcd\x81\x83\0\1\0\0\0\0\0\0", 12);
	assert_memory_equal(answer + 12, bytes,
			    sizeof(bytes) - 1); /* as it was asked, in its case */
}

/* What follows the question (EDNS) is neither looked at nor sent back. */
static void rest_is_ignored(void **state)
{
	static const char bytes[] = "\1a\0\0\1\0\1\0\0\51\4\xd0\0\0\0\0\0";
	uint8_t answer[DNS_QUERY_MAX];
	struct dns_question question;

	(void)state;
	assert_int_equal(ask(bytes, sizeof(bytes) - 1, answer, &question), 12 + 7);
	assert_string_equal(question.name, "a");
}

static void name_is_text(void **state)
{
	static const char bytes[] = "\6A_-\0. \1\xff\0\0\1\0\1";
	uint8_t answer[DNS_QUERY_MAX];
	struct dns_question question;

	(void)state;
	assert_int_not_equal(ask(bytes, sizeof(bytes) - 1, answer, &question), 0);
	assert_string_equal(question.name, "a_-\\000\\046\\032.\\255");
}

/* A name of the greatest length, each of its bytes escaped, is cut between two of them. */
static void long_name_is_cut(void **state)
{
	char bytes[255 + 4];
	uint8_t answer[DNS_QUERY_MAX];
	struct dns_question question;

	(void)state;
	memset(bytes, 0xff, sizeof(bytes));
	bytes[0] = bytes[64] = bytes[128] = 63;
	bytes[192] = 61;
	memcpy(bytes + 254, "\0\0\1\0\1", 5);
	assert_int_equal(ask(bytes, sizeof(bytes), answer, &question), 12 + sizeof(bytes));
	assert_int_equal(strlen(question.name), 63 * 4 + 1); /* the first label, and its dot */
}

static void malformed_is_a_format_error(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
	} bad[] = {
	    {"", 0},
	    {"\1a\0\0\1\0", 6},
	    {"\1a", 2},
	    {"\1", 1},
	    {"\300\14\0\1\0\1", 6},
	    {"\100aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\0\0\1\0\1",
	     70},
	    {"\77abc\0\0\1\0\1", 9}};
	uint8_t answer[DNS_QUERY_MAX];
	struct dns_question question;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(ask(bad[i].bytes, bad[i].len, answer, &question), 12);
		assert_int_equal(answer[3] & 15, 1);
		assert_int_equal(answer[5], 0);
		assert_string_equal(question.name, "");
	}
}

static void what_is_no_query_is_not_answered(void **state)
{
	uint8_t query[DNS_QUERY_MAX + 1] = {0}, answer[DNS_QUERY_MAX];
	struct dns_question question;

	(void)state;
	for (size_t len = 0; len < 12; len++)
		assert_int_equal(dns_answer(query, len, answer, &question), 0);
	assert_int_equal(dns_answer(query, sizeof(query), answer, &question), 0);
	query[2] = 0x80;
	assert_int_equal(dns_answer(query, 40, answer, &question), 0);
	query[2] = 0x28; /* an update: RFC 2136 */
	assert_int_equal(dns_answer(query, 40, answer, &question), 12);
	assert_int_equal(answer[3] & 15, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(name_does_not_exist_and_is_told),
	    cmocka_unit_test(rest_is_ignored),
	    cmocka_unit_test(name_is_text),
	    cmocka_unit_test(long_name_is_cut),
	    cmocka_unit_test(malformed_is_a_format_error),
	    cmocka_unit_test(what_is_no_query_is_not_answered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
