/* Errors as values: messages are escaped and cut, contexts go in front, each kind has one
 * status. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/text.h"
#include "pipeline/exitcode.h"

static void error_set_foreign_text_is_escaped(void **state)
{
	struct error err = {.kind = ERROR_NONE, .next = "old"};

	(void)state;
	assert_int_equal(error_set(&err, ERROR_USAGE, "bad name %s", "a\x1b[31m\nb"),
			 ERROR_USAGE);
	assert_int_equal(err.kind, ERROR_USAGE);
	assert_string_equal(err.message, "bad name a\\x1b[31m\\nb");
	assert_string_equal(err.next, "");
}

static void error_set_long_text_is_cut_whole(void **state)
{
	struct error err;
	char text[8000];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	error_set(&err, ERROR_NO, "%s", text);
	assert_true(strlen(err.message) < sizeof(err.message));
	assert_true(strlen(err.message) > 1000);
	assert_true(text_is_utf8(err.message, strlen(err.message)));
	error_next(&err, "%s", text);
	assert_true(strlen(err.next) < sizeof(err.next));
}

static void error_set_no_place_gives_kind(void **state)
{
	(void)state;
	assert_int_equal(error_set(NULL, ERROR_LATER, "x"), ERROR_LATER);
	assert_int_equal(error_errno(NULL, ERROR_LATER, ENOENT, "x"), ERROR_LATER);
	assert_true(error_wrap(NULL, "x") < 0);
	assert_true(error_next(NULL, "x") < 0);
}

static void error_errno_reason_is_behind(void **state)
{
	struct error err;

	(void)state;
	assert_int_equal(error_errno(&err, ERROR_FAILED, ENOENT, "open %d", 3), ERROR_FAILED);
	assert_string_equal(err.message, "open 3: No such file or directory");
}

static void error_errno_full_message_stays_in_place(void **state)
{
	struct error err;
	char text[4000];

	(void)state;
	memset(text, 'y', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	error_errno(&err, ERROR_FAILED, ENOENT, "%s", text);
	assert_true(strlen(err.message) < sizeof(err.message));
}

static void error_wrap_context_is_in_front(void **state)
{
	struct error err;

	(void)state;
	error_set(&err, ERROR_FAILED, "no space");
	error_next(&err, "free some");
	assert_int_equal(error_wrap(&err, "write %s", "a\tb"), ERROR_FAILED);
	assert_string_equal(err.message, "write a\\tb: no space");
	assert_string_equal(err.next, "free some");
}

static void error_wrap_many_times_stays_whole(void **state)
{
	struct error err;

	(void)state;
	error_set(&err, ERROR_FAILED, "ä");
	for (int i = 0; i < 1000; i++)
		error_wrap(&err, "läyer %d", i);
	assert_true(strlen(err.message) < sizeof(err.message));
	assert_true(text_is_utf8(err.message, strlen(err.message)));
}

static void error_status_is_one_to_one(void **state)
{
	static const int kinds[] = {ERROR_NO,	      ERROR_USAGE, ERROR_SKIPPED,
				    ERROR_FAILED,     ERROR_LATER, ERROR_ISOLATION,
				    ERROR_INTERRUPTED};

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		assert_int_equal(error_kind_of_status(error_exit_status(kinds[i])), kinds[i]);
	assert_int_equal(error_exit_status(ERROR_NONE), EXIT_DONE);
	assert_int_equal(error_exit_status(-99), EXIT_FAILED);
	assert_int_equal(error_kind_of_status(77), ERROR_FAILED);
}

static void errno_of_a_full_disk_says_to_make_room(void **state)
{
	struct error err = {0};

	(void)state;
	error_errno(&err, ERROR_FAILED, ENOSPC, "file");
	assert_string_equal(err.message, "file: No space left on device");
	assert_non_null(strstr(err.next, "make room"));
	error_errno(&err, ERROR_FAILED, EDQUOT, "file");
	assert_non_null(strstr(err.next, "make room"));
	error_errno(&err, ERROR_FAILED, EIO, "file");
	assert_string_equal(err.next, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(errno_of_a_full_disk_says_to_make_room),
	    cmocka_unit_test(error_set_foreign_text_is_escaped),
	    cmocka_unit_test(error_set_long_text_is_cut_whole),
	    cmocka_unit_test(error_set_no_place_gives_kind),
	    cmocka_unit_test(error_errno_reason_is_behind),
	    cmocka_unit_test(error_errno_full_message_stays_in_place),
	    cmocka_unit_test(error_wrap_context_is_in_front),
	    cmocka_unit_test(error_wrap_many_times_stays_whole),
	    cmocka_unit_test(error_status_is_one_to_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
