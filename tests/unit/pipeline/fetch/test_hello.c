/* TLS hellos, whole, cut, in pieces and forged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "pipeline/base/mem.h"
#include "pipeline/fetch/hello.h"

struct bytes {
	unsigned char data[HELLO_MAX + 64];
	size_t len;
};

static void put(struct bytes *out, const void *data, size_t len)
{
	memcpy(out->data + out->len, data, len);
	out->len += len;
}

static void put_number(struct bytes *out, unsigned value, int size)
{
	for (int i = size - 1; i >= 0; i--)
		out->data[out->len++] = (unsigned char)(value >> (8 * i));
}

/* One extension. */
static void put_extension(struct bytes *out, unsigned type, const void *data, size_t len)
{
	put_number(out, type, 2);
	put_number(out, (unsigned)len, 2);
	put(out, data, len);
}

static void put_name(struct bytes *out, const char *name, size_t len)
{
	struct bytes ext = {.len = 0};

	put_number(&ext, (unsigned)len + 3, 2);
	put_number(&ext, 0, 1);
	put_number(&ext, (unsigned)len, 2);
	put(&ext, name, len);
	put_extension(out, 0, ext.data, ext.len);
}

/* A handshake message with these extensions. */
static void make_message(struct bytes *out, const struct bytes *exts)
{
	struct bytes body = {.len = 0};

	put_number(&body, 0x0303, 2);
	for (int i = 0; i < 32; i++)
		put_number(&body, (unsigned)i, 1);
	put_number(&body, 0, 1);
	put(&body, "\0\2\x13\1", 4);
	put(&body, "\1\0", 2);
	put_number(&body, (unsigned)exts->len, 2);
	put(&body, exts->data, exts->len);
	put_number(out, 1, 1);
	put_number(out, (unsigned)body.len, 3);
	put(out, body.data, body.len);
}

/* The message in records of at most size bytes. */
static void make_records(struct bytes *out, const struct bytes *message, size_t size)
{
	for (size_t at = 0; at < message->len; at += size) {
		size_t part = message->len - at < size ? message->len - at : size;

		put_number(out, 22, 1);
		put_number(out, 0x0301, 2);
		put_number(out, (unsigned)part, 2);
		put(out, message->data + at, part);
	}
}

static void make_hello(struct bytes *out, const struct bytes *exts)
{
	struct bytes message = {.len = 0};

	make_message(&message, exts);
	make_records(out, &message, 16384);
}

static enum hello_result parse(const struct bytes *in, char name[256])
{
	const char *why = NULL;
	enum hello_result result = hello_parse(in->data, in->len, name, &why);

	if (result == HELLO_REFUSED)
		assert_non_null(why);
	return result;
}

static void hello_parse_whole_names_the_host(void **state)
{
	struct bytes exts = {.len = 0}, hello = {.len = 0};
	char name[256];

	(void)state;
	put_extension(&exts, 43, "\2\3\4", 3);
	put_name(&exts, "registry.example", 16);
	put_extension(&exts, 16, "\0\3\2h2", 5);
	make_hello(&hello, &exts);
	assert_int_equal(parse(&hello, name), HELLO_NAMED);
	assert_string_equal(name, "registry.example");
	put(&hello, "trailing early data", 19);
	assert_int_equal(parse(&hello, name), HELLO_NAMED);
}

static void hello_parse_every_prefix_wants_more(void **state)
{
	struct bytes exts = {.len = 0}, hello = {.len = 0};
	char name[256];
	size_t whole;

	(void)state;
	put_name(&exts, "registry.example", 16);
	make_hello(&hello, &exts);
	whole = hello.len;
	for (hello.len = 0; hello.len < whole; hello.len++)
		assert_int_equal(parse(&hello, name), HELLO_MORE);
}

static void hello_parse_many_records_are_one_message(void **state)
{
	struct bytes exts = {.len = 0}, message = {.len = 0};
	char name[256];

	(void)state;
	put_name(&exts, "registry.example", 16);
	make_message(&message, &exts);
	for (size_t size = 1; size < message.len; size += 7) {
		struct bytes hello = {.len = 0};
		size_t whole;

		make_records(&hello, &message, size);
		whole = hello.len;
		assert_int_equal(parse(&hello, name), HELLO_NAMED);
		assert_string_equal(name, "registry.example");
		hello.len = whole - 1;
		assert_int_equal(parse(&hello, name), HELLO_MORE);
	}
}

static void hello_parse_without_a_name_is_told(void **state)
{
	struct bytes exts = {.len = 0}, hello = {.len = 0};
	char name[256];

	(void)state;
	put_extension(&exts, 43, "\2\3\4", 3);
	make_hello(&hello, &exts);
	assert_int_equal(parse(&hello, name), HELLO_UNNAMED);
}

static void hello_parse_encrypted_names_are_refused(void **state)
{
	static const unsigned types[] = {0xfe0d, 0xffce};
	char name[256];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		struct bytes exts = {.len = 0}, hello = {.len = 0};

		put_name(&exts, "registry.example", 16);
		put_extension(&exts, types[i], "x", 1);
		make_hello(&hello, &exts);
		assert_int_equal(parse(&hello, name), HELLO_REFUSED);
	}
}

static void hello_parse_forged_names_are_refused(void **state)
{
	char name[256];
	struct bytes two = {.len = 0}, nul = {.len = 0}, empty = {.len = 0}, type = {.len = 0};
	struct bytes list = {.len = 0};
	struct bytes *all[] = {&two, &nul, &empty, &type, &list};

	(void)state;
	put_name(&two, "registry.example", 16);
	put_name(&two, "evil.example", 12);
	put_name(&nul, "evil.example\0.registry.example", 30);
	put_name(&empty, "", 0);
	put_extension(&type, 0, "\0\4\1\0\1x", 6);
	put_extension(&list, 0, "\0\10\0\0\1a\0\0\1b", 10); /* two entries in one extension */
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct bytes hello = {.len = 0};

		make_hello(&hello, all[i]);
		assert_int_equal(parse(&hello, name), HELLO_REFUSED);
	}
}

static void hello_parse_other_protocols_are_refused(void **state)
{
	static const char *const firsts[] = {"GET / HTTP/1.1\r\n\r\n", "SSH-2.0-x\r\n",
					     "\x80\x2e\1\0\2",	       "\x17\3\3\0\1x",
					     "\x16\2\0\0\1x",	       "\x16\3\1\0\4\2\0\0\0",
					     "PRI * HTTP/2.0\r\n"};
	char name[256];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(firsts); i++) {
		struct bytes in = {.len = 0};

		put(&in, firsts[i], strlen(firsts[i]) < 6 ? 6 : strlen(firsts[i]));
		assert_int_equal(parse(&in, name), HELLO_REFUSED);
	}
	struct bytes one = {.data = "G", .len = 1};
	assert_int_equal(parse(&one, name), HELLO_REFUSED);
	struct bytes zero = {.data = {22, 3, 1, 0, 0}, .len = 5};
	assert_int_equal(parse(&zero, name), HELLO_REFUSED);
}

static void hello_parse_lengths_that_lie_are_refused(void **state)
{
	struct bytes exts = {.len = 0}, hello = {.len = 0};
	char name[256];

	(void)state;
	put_name(&exts, "registry.example", 16);
	make_hello(&hello, &exts);
	/* the extensions' length, one byte short and one too long */
	size_t at = 5 + 4 + 2 + 32 + 1 + 4 + 2 + 1;
	hello.data[at]--;
	assert_int_equal(parse(&hello, name), HELLO_REFUSED);
	hello.data[at] = (unsigned char)(hello.data[at] + 2);
	assert_int_equal(parse(&hello, name), HELLO_REFUSED);
	/* a message of 16 MB never ends */
	hello.data[6] = 0xff;
	assert_int_equal(parse(&hello, name), HELLO_REFUSED);
}

static void hello_parse_endless_hello_is_refused(void **state)
{
	struct bytes in = {.len = 0};
	char name[256];

	(void)state;
	/* records of one byte each: type 1, length 0x004000, then zeros */
	for (int i = 0; in.len + 6 < HELLO_MAX; i++) {
		put(&in, "\x16\3\1\0\1", 5);
		put_number(&in, i == 0 ? 1 : i == 2 ? 0x40 : 0, 1);
	}
	assert_int_equal(parse(&in, name), HELLO_MORE);
	in.len = HELLO_MAX;
	assert_int_equal(parse(&in, name), HELLO_REFUSED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(hello_parse_whole_names_the_host),
	    cmocka_unit_test(hello_parse_every_prefix_wants_more),
	    cmocka_unit_test(hello_parse_many_records_are_one_message),
	    cmocka_unit_test(hello_parse_without_a_name_is_told),
	    cmocka_unit_test(hello_parse_encrypted_names_are_refused),
	    cmocka_unit_test(hello_parse_forged_names_are_refused),
	    cmocka_unit_test(hello_parse_other_protocols_are_refused),
	    cmocka_unit_test(hello_parse_lengths_that_lie_are_refused),
	    cmocka_unit_test(hello_parse_endless_hello_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
