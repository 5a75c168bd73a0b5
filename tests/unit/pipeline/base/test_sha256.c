/* SHA-256: the vectors of FIPS 180-4's examples, and every split of a message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "pipeline/base/mem.h"
#include "pipeline/base/sha256.h"
#include "pipeline/base/text.h"

static void sha256_known_vectors(void **state)
{
	static const char *const vectors[][2] = {
	    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
	    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
	    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
	     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
	    {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqk"
	     "lmnopqr"
	     "lmnopqrsmnopqrstnopqrstu",
	     "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
	};
	char hex[65];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
		sha256_hex(vectors[i][0], strlen(vectors[i][0]), hex);
		assert_string_equal(hex, vectors[i][1]);
	}
}

static void sha256_million_a(void **state)
{
	struct sha256 hash;
	unsigned char digest[32];
	char block[1000], hex[65];

	(void)state;
	memset(block, 'a', sizeof(block));
	sha256_init(&hash);
	for (int i = 0; i < 1000; i++)
		sha256_add(&hash, block, sizeof(block));
	sha256_done(&hash, digest);
	text_hex(hex, digest, sizeof(digest));
	assert_string_equal(hex,
			    "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void sha256_split_anywhere_is_the_same(void **state)
{
	char text[200], whole[65], parts[65];

	(void)state;
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)(i * 7);
	for (size_t len = 0; len <= sizeof(text); len += 11) {
		sha256_hex(text, len, whole);
		for (size_t at = 0; at <= len; at++) {
			struct sha256 hash;
			unsigned char digest[32];

			sha256_init(&hash);
			sha256_add(&hash, text, at);
			sha256_add(&hash, text + at, len - at);
			sha256_done(&hash, digest);
			text_hex(parts, digest, sizeof(digest));
			assert_string_equal(parts, whole);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sha256_known_vectors),
	    cmocka_unit_test(sha256_million_a),
	    cmocka_unit_test(sha256_split_anywhere_is_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
