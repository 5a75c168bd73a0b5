/* The store of base layers: whole or not there, leased, stacked, made by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/layerstore.h"

struct place {
	char state[64];
	char *base;
	struct error err;
};

static void place_init(struct place *p)
{
	memset(p, 0, sizeof(*p));
	strcpy(p->state, "/tmp/layerstore-XXXXXX");
	assert_non_null(mkdtemp(p->state));
	p->base = mem_printf("%s/store/base", p->state);
	AUTO_FREE char *tmp = mem_printf("%s/tmp", p->state);
	assert_int_equal(fd_mkdir_all(p->base), 0);
	assert_int_equal(fd_mkdir_all(tmp), 0);
}

static void place_release(struct place *p)
{
	fd_remove_tree(AT_FDCWD, p->state);
	free(p->base);
}

/* forty digits */
static const char *id(unsigned n)
{
	static char ids[16][LAYERSTORE_ID_SIZE];

	snprintf(ids[n % 16], LAYERSTORE_ID_SIZE, "%040u", n);
	return ids[n % 16];
}

static void make(struct place *p, unsigned n, unsigned parent, long long depth)
{
	struct layer_sealed sealed = {.files = n, .depth = depth};
	char *path AUTO_FREE = layerstore_begin(p->state, id(n), getuid(), &p->err);

	assert_non_null(path);
	memcpy(sealed.tree, id(n), LAYERSTORE_ID_SIZE);
	if (parent)
		memcpy(sealed.parent, id(parent), LAYERSTORE_ID_SIZE);
	if (layerstore_seal(p->state, path, &sealed, &p->err))
		fail_msg("%s", p->err.message);
}

static int open_count(struct place *p, unsigned n)
{
	struct layer_stack stack;
	int rc = layerstore_open(p->state, id(n), &stack, &p->err);
	int count = rc == 0 ? (int)stack.count : rc;

	layer_stack_release(&stack);
	return count;
}

static void layer_is_there_once_sealed(void **state)
{
	struct place p;

	(void)state;
	place_init(&p);
	assert_int_equal(open_count(&p, 1), ERROR_SKIPPED);
	char *path AUTO_FREE = layerstore_begin(p.state, id(1), getuid(), &p.err);
	assert_non_null(path);
	assert_int_equal(open_count(&p, 1), ERROR_SKIPPED);
	make(&p, 1, 0, 0); /* a later maker; what the first left is out of the way */
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(open_count(&p, 1), 1);
	struct layer_stack stack;
	assert_int_equal(layerstore_open(p.state, id(1), &stack, &p.err), 0);
	assert_int_equal(stack.layers[0].files, 1);
	layer_stack_release(&stack);
	assert_int_equal(layerstore_open(p.state, "../x", &stack, &p.err), ERROR_USAGE);
	place_release(&p);
}

static void stack_needs_all_of_its_layers(void **state)
{
	struct place p;
	struct layer_stack stack;

	(void)state;
	place_init(&p);
	make(&p, 1, 0, 0);
	make(&p, 2, 1, 1);
	make(&p, 3, 2, 2);
	assert_int_equal(layerstore_open(p.state, id(3), &stack, &p.err), 0);
	assert_int_equal(stack.count, 3);
	assert_string_equal(stack.layers[0].tree, id(3));
	assert_string_equal(stack.layers[2].tree, id(1));
	layer_stack_release(&stack);
	AUTO_FREE char *middle = mem_printf("%s/%s", p.base, id(2));
	fd_remove_tree(AT_FDCWD, middle);
	assert_int_equal(open_count(&p, 3), ERROR_SKIPPED);
	assert_int_equal(open_count(&p, 1), 1);
	/* one that names itself, and one that is too deep */
	make(&p, 4, 4, 0);
	assert_int_equal(open_count(&p, 4), ERROR_SKIPPED);
	make(&p, 5, 1, LAYERSTORE_DEPTH);
	assert_int_equal(open_count(&p, 5), ERROR_SKIPPED);
	place_release(&p);
}

static void layer_of_another_boot_needs_to_be_durable(void **state)
{
	struct place p;

	(void)state;
	place_init(&p);
	make(&p, 1, 0, 0);
	AUTO_FREE char *dir = mem_printf("%s/%s", p.base, id(1));
	AUTO_FREE char *file = mem_printf("%s/sealed", dir);
	AUTO_FREE char *mark = mem_printf("%s/durable", dir);
	assert_int_equal(layerstore_flush(p.state, &p.err), 0);
	assert_int_equal(access(mark, F_OK), 0);
	AUTO_FREE char *text =
	    mem_printf("tree %s\nparent -\ndepth 0\nboot other\nfiles 1\n", id(1));
	assert_int_equal(unlink(file), 0);
	int fd AUTO_FD = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
	assert_int_equal(open_count(&p, 1), 1);
	assert_int_equal(unlink(mark), 0);
	assert_int_equal(open_count(&p, 1), ERROR_SKIPPED);
	/* it is not marked as durable now, and its place is taken by a new one */
	assert_int_equal(layerstore_flush(p.state, &p.err), 0);
	assert_int_equal(access(mark, F_OK), -1);
	make(&p, 1, 0, 0);
	assert_int_equal(open_count(&p, 1), 1);
	place_release(&p);
}

static void damaged_seal_is_no_seal(void **state)
{
	struct place p;
	static const char *const bad[] = {"", "tree\n", "tree 1\nboot x\n", "\n\n\n",
					  "depth -1\n"};

	(void)state;
	place_init(&p);
	make(&p, 1, 0, 0);
	AUTO_FREE char *file = mem_printf("%s/%s/sealed", p.base, id(1));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(unlink(file), 0);
		int fd AUTO_FD = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
		assert_int_equal(fd_write_all(fd, bad[i], strlen(bad[i])), 0);
		assert_int_equal(open_count(&p, 1), ERROR_SKIPPED);
	}
	assert_int_equal(unlink(file), 0);
	assert_int_equal(mkfifo(file, 0600), 0);
	assert_int_equal(open_count(&p, 1), ERROR_SKIPPED);
	place_release(&p);
}

static void lease_keeps_a_layer_and_all_below_it(void **state)
{
	struct place p;
	struct layer_stack stack;

	(void)state;
	place_init(&p);
	make(&p, 1, 0, 0);
	make(&p, 2, 1, 1);
	int base AUTO_FD = open(p.base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(layerstore_open(p.state, id(2), &stack, &p.err), 0);
	assert_int_equal(layerstore_lock_to_remove(base, id(1)), -1);
	assert_int_equal(layerstore_lock_to_remove(base, id(2)), -1);
	assert_int_equal(open_count(&p, 2), 2); /* leases are shared */
	layer_stack_release(&stack);
	int lock AUTO_FD = layerstore_lock_to_remove(base, id(1));
	assert_true(lock >= 0);
	assert_int_equal(open_count(&p, 2), ERROR_SKIPPED);
	assert_int_equal(layerstore_lock_to_use(base, id(3)), -1);
	place_release(&p);
}

static void use_marks_the_lowest_last(void **state)
{
	struct place p;
	struct stat upper, lower;

	(void)state;
	place_init(&p);
	make(&p, 1, 0, 0);
	make(&p, 2, 1, 1);
	int base AUTO_FD = open(p.base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct timespec old[2] = {{1000, 0}, {1000, 0}};
	assert_int_equal(utimensat(base, id(1), old, 0), 0);
	assert_int_equal(utimensat(base, id(2), old, 0), 0);
	assert_int_equal(open_count(&p, 2), 2);
	assert_int_equal(fstatat(base, id(2), &upper, 0), 0);
	assert_int_equal(fstatat(base, id(1), &lower, 0), 0);
	assert_true(upper.st_mtim.tv_sec > 1000);
	assert_true(lower.st_mtim.tv_sec > upper.st_mtim.tv_sec ||
		    (lower.st_mtim.tv_sec == upper.st_mtim.tv_sec &&
		     lower.st_mtim.tv_nsec >= upper.st_mtim.tv_nsec));
	place_release(&p);
}

static void candidates_are_the_latest_that_can_carry_one_more(void **state)
{
	struct place p;
	struct layer_stack stacks[3];

	(void)state;
	place_init(&p);
	int base AUTO_FD = open(p.base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (unsigned i = 1; i <= LAYERSTORE_DEPTH; i++) {
		const struct timespec at[2] = {{1000 + i, 0}, {1000 + i, 0}};
		make(&p, i, i - 1, i - 1);
		assert_int_equal(utimensat(base, id(i), at, 0), 0);
	}
	size_t count = layerstore_candidates(p.state, stacks, 3);
	assert_int_equal(count, 3);
	assert_string_equal(stacks[0].layers[0].tree, id(LAYERSTORE_DEPTH - 1));
	assert_int_equal(stacks[0].count, LAYERSTORE_DEPTH - 1);
	assert_string_equal(stacks[2].layers[0].tree, id(LAYERSTORE_DEPTH - 3));
	for (size_t i = 0; i < count; i++)
		layer_stack_release(&stacks[i]);
	place_release(&p);
}

static void one_makes_a_layer(void **state)
{
	struct place p;
	int lock = -1, other = -1;

	(void)state;
	place_init(&p);
	assert_int_equal(layerstore_lock(p.state, id(1), &lock, &p.err), 0);
	assert_int_equal(layerstore_lock(p.state, id(1), &other, &p.err), ERROR_LATER);
	assert_int_equal(layerstore_lock(p.state, id(2), &other, &p.err), 0);
	layerstore_unlock(p.state, id(2), &other);
	layerstore_unlock(p.state, id(1), &lock);
	assert_int_equal(layerstore_lock(p.state, id(1), &lock, &p.err), 0);
	layerstore_unlock(p.state, id(1), &lock);
	int base AUTO_FD = open(p.base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_FREE char *file = mem_printf(".lock-%s", id(1));
	assert_int_equal(faccessat(base, file, F_OK, 0), -1);
	place_release(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(layer_is_there_once_sealed),
	    cmocka_unit_test(stack_needs_all_of_its_layers),
	    cmocka_unit_test(layer_of_another_boot_needs_to_be_durable),
	    cmocka_unit_test(damaged_seal_is_no_seal),
	    cmocka_unit_test(lease_keeps_a_layer_and_all_below_it),
	    cmocka_unit_test(use_marks_the_lowest_last),
	    cmocka_unit_test(candidates_are_the_latest_that_can_carry_one_more),
	    cmocka_unit_test(one_makes_a_layer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
