/* What a jail holds by default, and what the operator adds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "sandbox/jail_manifest.h"
#include "sandbox/jail_spec.h"

static int make_home(void **state)
{
	char name[] = "/tmp/manifest-XXXXXX";

	if (!mkdtemp(name))
		return -1;
	*state = mem_strdup(name);
	return 0;
}

static int remove_home(void **state)
{
	int result = fd_remove_tree(AT_FDCWD, *state);

	free(*state);
	return result;
}

static void make_program(const char *home, const char *path)
{
	char *full AUTO_FREE = mem_printf("%s/%s", home, path);
	char *dir AUTO_FREE = mem_strdup(full);
	int fd AUTO_FD = -1;

	*strrchr(dir, '/') = '\0';
	assert_int_equal(fd_mkdir_all(dir), 0);
	fd = open(full, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	assert_true(fd >= 0);
}

static void default_lists_no_private_place(void **state)
{
	static const char *const never[] = {
	    "/run", "/var", "/root", "/home",	 "/opt",	"/proc",       "/sys",
	    "/dev", "/tmp", "/etc",  "/etc/ssl", "/etc/shadow", "/etc/passwd", "/boot"};
	struct jail_spec spec;

	(void)state;
	jail_spec_init(&spec);
	jail_manifest_default(&spec);
	assert_true(spec.mount_count > 5);
	for (size_t i = 0; i < spec.mount_count; i++) {
		assert_int_equal(spec.mounts[i].how, JAIL_BIND_RO);
		assert_true(spec.mounts[i].optional);
		assert_string_equal(spec.mounts[i].source, spec.mounts[i].target);
		for (size_t k = 0; k < ARRAY_LEN(never); k++)
			assert_string_not_equal(spec.mounts[i].source, never[k]);
		assert_null(strstr(spec.mounts[i].source, "private"));
	}
	for (size_t i = 0; spec.env[i]; i++)
		assert_null(strstr(spec.env[i], "LD_"));
	jail_spec_release(&spec);
}

static void added_path_comes_first_in_path(void **state)
{
	char *real AUTO_FREE = NULL, *alias AUTO_FREE = NULL, *wanted AUTO_FREE = NULL;
	const char *home = *state;
	struct jail_spec spec;
	struct error err = {0};
	size_t before;

	make_program(home, "tool/1.0/bin/t");
	real = mem_printf("%s/tool/1.0", home);
	alias = mem_printf("%s/tool/current", home);
	assert_int_equal(symlink("1.0", alias), 0);
	jail_spec_init(&spec);
	jail_manifest_default(&spec);
	before = spec.mount_count;
	assert_int_equal(jail_manifest_add_path(&spec, alias, &err), 0);
	assert_int_equal(spec.mount_count, before + 2);
	assert_string_equal(spec.mounts[before].source, real);
	assert_false(spec.mounts[before].optional);
	assert_string_equal(spec.mounts[before + 1].source, alias);
	wanted = mem_printf("PATH=%s/bin:", real);
	assert_memory_equal(spec.env[0], wanted, strlen(wanted));
	assert_int_equal(jail_manifest_add_path(&spec, "relative", &err), ERROR_USAGE);
	assert_int_equal(jail_manifest_add_path(&spec, "/nosuch/thing", &err), ERROR_USAGE);
	assert_int_equal(jail_manifest_add_path(&spec, "/", &err), ERROR_USAGE);
	assert_int_equal(jail_manifest_add_path(&spec, "/usr/..", &err), ERROR_USAGE);
	jail_spec_release(&spec);
}

static void programs_of_an_admitted_path_are_found(void **state)
{
	static const struct {
		const char *admit, *first;
	} cases[] = {
	    {"tools/bin", "tools/bin"}, {"tools/bin/t", "tools/bin"}, {"tools", "tools/bin"}};
	const char *home = *state;

	make_program(home, "tools/bin/t");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *admit AUTO_FREE = mem_printf("%s/%s", home, cases[i].admit);
		char *wanted AUTO_FREE = mem_printf("PATH=%s/%s:/usr", home, cases[i].first);
		struct jail_spec spec;
		struct error err = {0};

		jail_spec_init(&spec);
		jail_manifest_default(&spec);
		assert_int_equal(jail_manifest_add_path(&spec, admit, &err), 0);
		assert_memory_equal(spec.env[0], wanted, strlen(wanted));
		jail_spec_release(&spec);
	}
}

static void later_value_of_a_name_replaces_the_default(void **state)
{
	struct jail_spec spec;
	size_t count = 0, found = 0;

	(void)state;
	jail_spec_init(&spec);
	jail_manifest_default(&spec);
	while (spec.env[count])
		count++;
	jail_spec_add_env(&spec, "TZ", "Asia/Tokyo");
	jail_spec_add_env(&spec, "T", "1");
	jail_spec_remove_env(&spec, "COLUMNS");
	jail_spec_remove_env(&spec, "NOSUCH");
	for (size_t i = 0; spec.env[i]; i++) {
		found += strcmp(spec.env[i], "TZ=Asia/Tokyo") == 0;
		assert_string_not_equal(spec.env[i], "TZ=UTC");
		assert_true(strncmp(spec.env[i], "COLUMNS=", 8) != 0);
		count--;
	}
	assert_int_equal(found, 1);
	assert_int_equal(count, 0);
	jail_spec_release(&spec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(default_lists_no_private_place),
	    cmocka_unit_test(later_value_of_a_name_replaces_the_default),
	    cmocka_unit_test_setup_teardown(programs_of_an_admitted_path_are_found, make_home,
					    remove_home),
	    cmocka_unit_test_setup_teardown(added_path_comes_first_in_path, make_home,
					    remove_home),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
