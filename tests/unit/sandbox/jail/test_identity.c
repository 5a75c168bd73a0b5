/* Which uid a payload gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pipeline/base/mem.h"
#include "pipeline/stages.h"
#include "sandbox/jail/identity.h"

static void base_is_the_stage_tables(void **state)
{
	(void)state;
	assert_int_equal(JAIL_UID_BASE, STAGE_UID_BASE + 4096);
}

static void id_is_chosen_from_the_map(void **state)
{
	static const struct {
		const char *map;
		unsigned long wanted, id; /* id 0: none */
	} cases[] = {
	    {"         0          0 4294967295\n", 1879052300, 1879052300},
	    {"0 100000 65536\n", 1879052300, 65535},
	    {"0 1000 1\n", 1879052300, 0},
	    {"0 1000 1\n1 100000 65536\n", 1879052300, 65536},
	    {"1000 1000 1\n", 1879052300, 1000},
	    {"0 0 100\n", 50, 50},
	    {"", 5, 0},
	    {"nonsense\n", 5, 0},
	    {"0 0 0\n", 5, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		unsigned long id = 77;

		assert_int_equal(identity_from_map(cases[i].map, cases[i].wanted, &id),
				 cases[i].id != 0);
		assert_int_equal(id, cases[i].id);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(base_is_the_stage_tables),
	    cmocka_unit_test(id_is_chosen_from_the_map),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
