/* How a command that the jail lacks is found on the host, and read off hostile output. */
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

#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "sandbox/jail_find.h"

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

static void found_command_names_the_toolchain(void **state)
{
	static const struct {
		const char *file, *name, *found;
	} cases[] = {
	    {".nvm/versions/node/v18.1.0/bin/node", "node", ".nvm/versions/node/v18.1.0"},
	    {".pyenv/versions/3.12.1/bin/python3.12", "python3.12", ".pyenv/versions/3.12.1"},
	    {".rustup/toolchains/stable-x/bin/rustc", "rustc", ".rustup/toolchains/stable-x"},
	    {".sdkman/candidates/gradle/8.5/bin/gradle", "gradle",
	     ".sdkman/candidates/gradle/8.5"},
	    {"go/bin/mytool", "mytool", "go/bin/mytool"},
	    {".local/bin/poetry", "poetry", ".local/bin/poetry"},
	    {".cargo/bin/cargo-nextest", "cargo-nextest", ".cargo/bin/cargo-nextest"},
	};
	const char *home = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *line AUTO_FREE = NULL, *found AUTO_FREE = NULL, *wanted AUTO_FREE = NULL;
		char *wanted_line AUTO_FREE = NULL;

		make_program(home, cases[i].file);
		found = jail_find_command(home, NULL, cases[i].name, &line);
		wanted = mem_printf("%s/%s", home, cases[i].found);
		wanted_line = mem_printf("[jail] path = %s", wanted);
		assert_non_null(found);
		assert_string_equal(found, wanted);
		assert_string_equal(line, wanted_line);
	}
}

static void newest_version_is_chosen(void **state)
{
	const char *home = *state;
	char *found AUTO_FREE = NULL;

	make_program(home, ".nvm/versions/node/v18.1.0/bin/node");
	make_program(home, ".nvm/versions/node/v20.2.0/bin/node");
	found = jail_find_command(home, NULL, "node", NULL);
	assert_non_null(strstr(found, "v20.2.0"));
}

static void strange_names_are_not_looked_for(void **state)
{
	const char *home = *state;
	static const char *const names[] = {"",	 "../x", "/bin/sh", "*",
					    "?", "[a]",	 "a/b",	    "nosuchcommand-x"};

	make_program(home, ".local/bin/real");
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		assert_null(jail_find_command(home, NULL, names[i], NULL));
	assert_null(jail_find_command(NULL, NULL, "real", NULL));
}

static char *find_in_path(const char *home, const char *dir, const char *name)
{
	char *path AUTO_FREE = mem_printf("relative:/usr/bin:%s/%s:", home, dir);

	return jail_find_command(home, path, name, NULL);
}

static void expect_found(const char *home, const char *dir, const char *name,
			 const char *wanted)
{
	char *found AUTO_FREE = find_in_path(home, dir, name);
	char *full AUTO_FREE = mem_printf("%s/%s", home, wanted);

	assert_non_null(found);
	assert_string_equal(found, full);
}

static void command_of_the_path_names_its_toolchain_or_the_file_alone(void **state)
{
	const char *home = *state;
	char *link AUTO_FREE = mem_printf("%s/.local/bin/tool", home);
	char *proxy AUTO_FREE = mem_printf("%s/shims/cargo", home);

	make_program(home, "sdk/x/bin/tool");
	make_program(home, "sdk/x/lib/library");
	expect_found(home, "sdk/x/bin", "tool", "sdk/x");
	make_program(home, "plain/bin/single");
	expect_found(home, "plain/bin", "single", "plain/bin/single");
	make_program(home, "bin/own");
	make_program(home, "lib/library");
	expect_found(home, "bin", "own", "bin/own"); /* never the home itself */
	make_program(home, ".local/bin/other");
	make_program(home, ".local/lib/x");
	expect_found(home, ".local/bin", "other", ".local/bin/other");
	assert_int_equal(symlink("../../sdk/x/bin/tool", link), 0);
	expect_found(home, ".local/bin", "tool", "sdk/x");
	make_program(home, "shims/rustup");
	assert_int_equal(symlink("rustup", proxy), 0);
	expect_found(home, "shims", "cargo", "shims/cargo");
	assert_null(jail_find_command(home, "/usr/bin:/bin", "env", NULL));
}

static void output_tells_what_is_missing(void **state)
{
	static const struct {
		const char *output, *name;
	} cases[] = {
	    {"sh: 1: cargo: not found\n", "cargo"},
	    {"/bin/sh: 3: g++-12: not found", "g++-12"},
	    {"ok\nbash: line 1: uv: command not found\n\n", "uv"},
	    {"./run.sh: line 7: python3.12: command not found\nfailed\n", "python3.12"},
	    {"zsh:1: command not found: node\n", "node"},
	    {"make: pytest: No such file or directory\nmake: *** [Makefile:2: test] Error "
	     "127\n",
	     "pytest"},
	    {"make[2]: go: No such file or directory\r\n", "go"},
	    {"/usr/bin/env: \xe2\x80\x98node\xe2\x80\x99: No such file or directory\n", "node"},
	    {"env: 'ruby': No such file or directory\n", "ruby"},
	    {"sh: 1: \x1b[31mx: not found", NULL},
	    {"sh: 1: ../../etc/passwd: not found", NULL},
	    {"sh: 1: -rf: not found", NULL},
	    {"sh: 1: a b: not found", NULL},
	    {"cat: x: No such file or directory", NULL},
	    {"404: not found: x", NULL},
	    {": not found", NULL},
	    {"command not found: ", NULL},
	    {"sh: 1: "
	     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	     ": "
	     "not found",
	     NULL},
	    {"", NULL},
	    {"\n\n\n", NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char name[JAIL_FIND_NAME] = "";
		enum jail_lack lack =
		    jail_find_lack(cases[i].output, strlen(cases[i].output), name);

		assert_int_equal(lack, cases[i].name ? JAIL_LACK_PROGRAM : JAIL_LACK_NONE);
		if (cases[i].name)
			assert_string_equal(name, cases[i].name);
	}
}

static void only_the_end_of_the_output_counts(void **state)
{
	char name[JAIL_FIND_NAME];
	char *text = mem_calloc(20001, 1);

	(void)state;
	memset(text, 'x', 20000);
	memcpy(text, "sh: 1: cargo: not found\n", 24);
	assert_int_equal(jail_find_lack(text, 20000, name), JAIL_LACK_NONE);
	memset(text, '\n', 20000);
	memcpy(text, "sh: 1: cargo: not found\n", 24);
	assert_int_equal(jail_find_lack(text, 8000, name), JAIL_LACK_PROGRAM);
	memset(text, 0, 20000);
	assert_int_equal(jail_find_lack(text, 20000, name), JAIL_LACK_NONE);
	free(text);
}

static void advice_is_given_where_there_is_a_remedy(void **state)
{
	static const char git[] =
	    "fatal: not a git repository (or any of the parent directories): .git\n";
	static const char none[] = "sh: 1: nosuchprogram: not found\n";
	static const char some[] = "sh: 1: single: not found\n";
	const char *home = *state;
	char *path AUTO_FREE = mem_printf("%s/plain/bin", home);
	char *wanted AUTO_FREE =
	    mem_printf("single lies in %s/single, which the jail does not see; to admit it: "
		       "[jail] path = %s/single",
		       path, path);
	char *advice AUTO_FREE = NULL, *for_git AUTO_FREE = NULL;

	make_program(home, "plain/bin/single");
	advice = jail_find_advice(some, strlen(some), home, path, false);
	assert_non_null(advice);
	assert_string_equal(advice, wanted);
	assert_null(jail_find_advice(none, strlen(none), home, path, false));
	assert_null(jail_find_advice(git, strlen(git), home, path, true));
	for_git = jail_find_advice(git, strlen(git), home, path, false);
	assert_non_null(strstr(for_git, "[test] git = snapshot"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(found_command_names_the_toolchain, make_home,
					    remove_home),
	    cmocka_unit_test_setup_teardown(newest_version_is_chosen, make_home, remove_home),
	    cmocka_unit_test_setup_teardown(strange_names_are_not_looked_for, make_home,
					    remove_home),
	    cmocka_unit_test_setup_teardown(
		command_of_the_path_names_its_toolchain_or_the_file_alone, make_home,
		remove_home),
	    cmocka_unit_test(output_tells_what_is_missing),
	    cmocka_unit_test(only_the_end_of_the_output_counts),
	    cmocka_unit_test_setup_teardown(advice_is_given_where_there_is_a_remedy, make_home,
					    remove_home),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
