/* The records in front of the exit facts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sandbox/jail_applied.h"

static void records_end_where_the_facts_begin(void **state)
{
	static const char both[] = "applied=env A=b\0applied=cut \0jail_facts=1\0";
	const char *at = both;
	size_t left = sizeof(both) - 1;

	(void)state;
	assert_int_equal(jail_applied_size(both, sizeof(both) - 1), 29);
	assert_string_equal(jail_applied_next(&at, &left), "env A=b");
	assert_string_equal(jail_applied_next(&at, &left), "cut ");
	assert_null(jail_applied_next(&at, &left));
	assert_string_equal(at, "jail_facts=1");
	assert_int_equal(left, 13);
}

static void what_is_no_record_is_left_alone(void **state)
{
	static const char *const texts[] = {"",
					    "a",
					    "applied",
					    "applied=",
					    "applied=cut without an end",
					    "jail_facts=1",
					    "Applied=x"};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_int_equal(jail_applied_size(texts[i], strlen(texts[i])), 0);
	/* whole ones in front of one that is cut */
	assert_int_equal(jail_applied_size("applied=a b\0applied=c", 21), 12);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(records_end_where_the_facts_begin),
	    cmocka_unit_test(what_is_no_record_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
