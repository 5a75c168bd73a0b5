/* Ranges of subordinate ids: which line counts, and which id of a range a jail gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pipeline/base/mem.h"
#include "sandbox/subuid.h"

static void a_line_of_the_user_counts(void **state)
{
	static const struct {
		const char *text, *name;
		unsigned long first, count; /* 0: none */
	} rows[] = {
	    {"a:100000:65536\n", "a", 100000, 65536},
	    {"a:100000:65536", "a", 100000, 65536},
	    {"1001:100000:65536\n", NULL, 100000, 65536},
	    {"b:1:2\n1001:5:6\n", "a", 5, 6},
	    {"a:5:6\na:500:100\na:7:8\n", "a", 500, 100}, /* the widest */
	    {"a:4294967294:1\n", "a", 4294967294UL, 1},
	    {"", "a", 0, 0},
	    {"\n\n:\n::\n:::", "a", 0, 0},
	    {"ab:1:2\n10011:1:2\n100:1:2\n", "a", 0, 0},
	    {"a", "a", 0, 0},
	    {"a:\n1:2", "a", 0, 0},
	    {"a:5\na:5:\na::5\na:5:6:7\na: 5:6\na:-5:6\na:5:6 \na:0x5:6\n", "a", 0, 0},
	    {"a:0:10\na:5:0\n", "a", 0, 0},
	    {"a:4294967295:1\na:4294967290:6\na:99999999999999999999:1\na:1:"
	     "99999999999999999999\n",
	     "a", 0, 0},
	    {"a:1000:2\na:1001:1\na:1:4000000000\n", "a", 0, 0}, /* holds the user's own */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct subuid_range range = {7, 7};
		bool found = subuid_from_text(rows[i].text, rows[i].name, 1001, 1001, &range);

		assert_int_equal(found, rows[i].count > 0);
		assert_int_equal(range.count, rows[i].count);
		if (found)
			assert_int_equal(range.first, rows[i].first);
	}
}

static void an_id_lies_in_the_upper_half(void **state)
{
	static const struct subuid_range ranges[] = {
	    {100000, 65536}, {5, 1}, {5, 2}, {5, 3}, {4294967294UL, 1}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(ranges); i++)
		for (unsigned long number = 1; number < 5000000; number += 4999) {
			unsigned long id = subuid_choose(&ranges[i], number);

			assert_true(id >= ranges[i].first + ranges[i].count / 2);
			assert_true(id - ranges[i].first < ranges[i].count);
		}
	assert_int_not_equal(subuid_choose(&ranges[0], 77), subuid_choose(&ranges[0], 78));
}

/* As in images that run containers themselves: all that there is but root and the user. */
static void nobody_is_not_chosen(void **state)
{
	const struct subuid_range wide = {1001, 64535}, nothing_else = {65534, 2};

	(void)state;
	for (unsigned long number = 0; number < wide.count; number++) {
		unsigned long id = subuid_choose(&wide, number);

		assert_true(id >= wide.first && id < 65534);
	}
	assert_true(subuid_choose(&nothing_else, 0) >= 65534);
}

static void a_range_of_gids_is_without_the_gid(void **state)
{
	static const char text[] = "a:4000:3000\na:1000:2\n";
	struct subuid_range range;

	(void)state;
	assert_true(subuid_from_text(text, "a", 1001, 5000, &range));
	assert_int_equal(range.first, 1000);
	assert_true(subuid_from_text(text, "a", 1001, 1001, &range));
	assert_int_equal(range.first, 4000);
}

static void ids_with_a_name_are_known(void **state)
{
	static const char passwd[] =
	    "root:x:0:0::/:/bin/"
	    "sh\nfoo:x:133000:7:::\n#c:x:1\nbroken:133001\n:x:5:\nb:133002:x:\n"
	    "last:x:133004:7";

	(void)state;
	assert_true(subuid_is_named(passwd, 0));
	assert_true(subuid_is_named(passwd, 133000));
	assert_true(subuid_is_named(passwd, 133004));
	assert_false(subuid_is_named(passwd, 13300));
	assert_false(subuid_is_named(passwd, 7));
	assert_false(subuid_is_named(passwd, 5));
	assert_false(subuid_is_named(passwd, 133001));
	assert_false(subuid_is_named(passwd, 133002));
	assert_false(subuid_is_named("", 0));
}

static void what_is_missing_is_named(void **state)
{
	struct subuid ids;
	const char *why = NULL, *next = NULL;

	(void)state;
	if (subuid_find(&ids, &why, &next))
		return; /* whoever runs this has a range */
	assert_non_null(why);
	assert_non_null(next);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_line_of_the_user_counts),
	    cmocka_unit_test(an_id_lies_in_the_upper_half),
	    cmocka_unit_test(nobody_is_not_chosen),
	    cmocka_unit_test(a_range_of_gids_is_without_the_gid),
	    cmocka_unit_test(ids_with_a_name_are_known),
	    cmocka_unit_test(what_is_missing_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
