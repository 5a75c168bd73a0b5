/* How large the file of a scratch on disk is made. That ext4 agrees is tried in tests/wall/jail-scratch.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sandbox/jail/disk.h"
#include "sandbox/jail_spec.h"

#define BLOCK 4096ULL

static void size_holds_all_and_little_more(void **state)
{
	static const struct jail_limits wanted[] = {
	    {.disk_bytes = 1, .inodes = 1},
	    {.disk_bytes = 1 << 20, .inodes = 300},
	    {.disk_bytes = 64 << 20, .inodes = 1000000},
	    {.disk_bytes = 4ULL << 30, .inodes = 1 << 20},
	    {.disk_bytes = (4ULL << 30) + 1, .inodes = (1 << 20) + 1},
	    {.disk_bytes = 1ULL << 40, .inodes = 1000},
	    {.disk_bytes = 1ULL << 50, .inodes = UINT32_MAX - 16}};

	(void)state;
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		const uint64_t least = wanted[i].disk_bytes + 256 * wanted[i].inodes;
		struct disk_size size;
		uint64_t groups;

		assert_int_equal(disk_size_of(&wanted[i], &size), 0);
		assert_true(size.bytes >= least &&
			    size.bytes <= least + least / 10 + (4 << 20));
		/* what mke2fs takes: eights of blocks, and no more than a block has bits; no smaller last group */
		assert_true(size.group_blocks % 8 == 0 && size.group_blocks >= 256 &&
			    size.group_blocks <= 8 * BLOCK);
		assert_true(size.bytes % (size.group_blocks * BLOCK) == 0);
		groups = size.bytes / (size.group_blocks * BLOCK);
		assert_true(groups * 8 * BLOCK >= wanted[i].inodes + 11);
	}
}

static void size_beyond_ext4_is_refused(void **state)
{
	const struct jail_limits bytes = {.disk_bytes = (1ULL << 50) + 1, .inodes = 1},
				 inodes = {.disk_bytes = 1, .inodes = UINT32_MAX},
				 wraps = {.disk_bytes = UINT64_MAX, .inodes = UINT64_MAX};
	struct disk_size size;

	(void)state;
	assert_int_equal(disk_size_of(&bytes, &size), -1);
	assert_int_equal(disk_size_of(&inodes, &size), -1);
	assert_int_equal(disk_size_of(&wraps, &size), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(size_holds_all_and_little_more),
	    cmocka_unit_test(size_beyond_ext4_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
