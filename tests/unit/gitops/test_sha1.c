/* SHA-1: the vectors of FIPS 180-4, in pieces of every size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gitops/sha1.h"

static void expect(const void *data, size_t len, size_t piece, const char *wanted)
{
	struct sha1 sha;
	unsigned char sum[SHA1_SIZE];
	char hex[2 * SHA1_SIZE + 1];

	sha1_init(&sha);
	for (size_t at = 0; at < len; at += piece)
		sha1_add(&sha, (const char *)data + at, len - at < piece ? len - at : piece);
	sha1_end(&sha, sum);
	for (size_t i = 0; i < SHA1_SIZE; i++)
		snprintf(hex + 2 * i, 3, "%02x", sum[i]);
	assert_string_equal(hex, wanted);
}

static void known_messages_have_known_sums(void **state)
{
	static const char two[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
	static char million[1000000];

	(void)state;
	memset(million, 'a', sizeof(million));
	expect("", 0, 1, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
	expect("abc", 3, 3, "a9993e364706816aba3e25717850c26c9cd0d89d");
	for (size_t piece = 1; piece < sizeof(two); piece++)
		expect(two, sizeof(two) - 1, piece, "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
	for (size_t piece = 63; piece < 130; piece++)
		expect(million, sizeof(million), piece,
		       "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(known_messages_have_known_sums)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
