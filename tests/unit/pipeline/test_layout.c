/* What a dependency layer has, and what its links only lead to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/layout.h"

#define KEY "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static char store[64];

static int make_store(void **state)
{
	AUTO_FREE char *modules = NULL, *work = NULL, *package = NULL;

	(void)state;
	strcpy(store, "/tmp/layout-XXXXXX");
	if (!mkdtemp(store))
		return -1;
	work = mem_printf("%s/deps/" KEY "/work", store);
	modules = mem_printf("%s/node_modules/real", work);
	package = mem_printf("%s/packages/mine", store);
	if (fd_mkdir_all(modules) || fd_mkdir_all(package))
		return -1;
	AUTO_FD int dir = open(work, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* a workspace's package, all of the machine, out of the layer and into it again */
	return symlinkat("../../../../packages/mine", dir, "node_modules/mine") ||
		       symlinkat("/", dir, "slash") || symlinkat("..", dir, "up") ||
		       symlinkat("node_modules", dir, "same") ||
		       symlinkat("/nonexistent/place", dir, "broken")
		   ? -1
		   : 0;
}

static int remove_store(void **state)
{
	(void)state;
	fd_remove_tree(AT_FDCWD, store);
	return 0;
}

static int asked(const char *key, const char *path)
{
	const struct layout layout = {.store = store, .deps = key};
	struct error err = {0};

	return layout_is_dependency(&layout, path, &err);
}

static void what_the_layer_has_is_a_dependency(void **state)
{
	(void)state;
	assert_int_equal(asked(KEY, "node_modules"), 1);
	assert_int_equal(asked(KEY, "node_modules/real"), 1);
	assert_int_equal(asked(KEY, "node_modules/mine"), 1);
	assert_int_equal(asked(KEY, "slash"), 1);
	assert_int_equal(asked(KEY, "broken"), 1);
	assert_int_equal(asked(KEY, "src"), 0);
	assert_int_equal(asked(NULL, "node_modules"), 0);
}

static void what_a_link_leads_to_is_not_the_layers(void **state)
{
	(void)state;
	assert_int_equal(asked(KEY, "slash/etc"), 0);
	assert_int_equal(asked(KEY, "slash/etc/passwd"), 0);
	assert_int_equal(asked(KEY, "up/work"), 0);
	assert_int_equal(asked(KEY, "same/real"), 0);
	assert_int_equal(asked(KEY, "broken/on"), 0);
	assert_int_equal(asked(KEY, "node_modules/mine/../../slash"), 0);
}

static void names_that_are_too_long_are_nowhere(void **state)
{
	AUTO_FREE char *name = mem_calloc(5001, 1);

	(void)state;
	memset(name, 'a', 300);
	assert_int_equal(asked(KEY, name), 0);
	memset(name, 'a', 5000);
	assert_int_equal(asked(KEY, name), 0);
}

static void a_layer_that_cannot_be_looked_into_is_an_error(void **state)
{
	AUTO_FREE char *work = mem_printf("%s/deps/" KEY "/work", store);

	(void)state;
	if (geteuid() == 0)
		assert_int_equal(seteuid(65534), 0);
	else
		assert_int_equal(chmod(work, 0), 0);
	assert_true(asked(KEY, "node_modules") < 0);
	if (getuid() == 0)
		assert_int_equal(seteuid(0), 0);
	else
		assert_int_equal(chmod(work, 0700), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_the_layer_has_is_a_dependency),
	    cmocka_unit_test(what_a_link_leads_to_is_not_the_layers),
	    cmocka_unit_test(names_that_are_too_long_are_nowhere),
	    cmocka_unit_test(a_layer_that_cannot_be_looked_into_is_an_error),
	};

	return cmocka_run_group_tests(tests, make_store, remove_store);
}
