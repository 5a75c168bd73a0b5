/* Which uid a payload gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pipeline/base/mem.h"
#include "pipeline/stages.h"
#include "sandbox/jail/identity.h"
#include "sandbox/subuid.h"

static void base_is_the_stage_tables(void **state)
{
	(void)state;
	assert_int_equal(JAIL_UID_BASE, STAGE_UID_BASE + 4096);
}

static void ids_are_those_of_the_map(void **state)
{
	static const struct {
		const char *map;
		unsigned long wanted, first, count; /* count 0: none */
	} cases[] = {
	    {"         0          0 4294967295\n", 1879052300, 1879052300, 1},
	    {"0 100000 65536\n", 1879052300, 1, 65535},
	    {"0 1000 1\n", 1879052300, 0, 0},
	    {"0 1000 1\n1 100000 65536\n", 1879052300, 1, 65536},
	    {"1000 1000 1\n", 1879052300, 1000, 1},
	    {"0 0 100\n", 50, 50, 1},
	    {"", 5, 0, 0},
	    {"nonsense\n", 5, 0, 0},
	    {"0 0 0\n", 5, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct subuid_range range = {7, 7};

		assert_int_equal(identity_from_map(cases[i].map, cases[i].wanted, &range),
				 cases[i].count != 0);
		assert_int_equal(range.first, cases[i].first);
		assert_int_equal(range.count, cases[i].count);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(base_is_the_stage_tables),
	    cmocka_unit_test(ids_are_those_of_the_map),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
