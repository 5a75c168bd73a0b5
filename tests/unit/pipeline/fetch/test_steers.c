/* What says how a package manager works, and what is only fetched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pipeline/base/mem.h"
#include "pipeline/fetch/steers.h"

static void steers_by_name_configuration_is_known(void **state)
{
	static const char *const paths[] = {
	    ".npmrc",
	    "packages/a/.npmrc",
	    ".yarnrc.yml",
	    ".yarn/releases/y.cjs",
	    ".pnpmfile.cjs",
	    ".cargo/config",
	    ".cargo/config.toml",
	    "a/b/.cargo/x",
	    ".mvn/extensions.xml",
	    ".mvn/jvm.config",
	    "settings.xml",
	    "ci/settings.xml",
	    "pip.conf",
	    "PIP.CONF",
	    "uv.toml",
	    "bunfig.toml",
	    ".gitconfig",
	    "gradle/wrapper/gradle-wrapper.properties",
	    "gradlew",
	    "gradlew.bat",
	    "mvnw",
	    "gradle.properties",
	    "NuGet.Config",
	    "Directory.Build.props",
	    "rust-toolchain",
	    "rust-toolchain.toml",
	    "go.env",
	    "auth.json",
	    ".netrc",
	    ".config/pip/pip.conf",
	    "...",
	    "Makefile",
	    "sub/deps.mk",
	    "fetch.sh",
	    "build.xml",
	    "noxfile.py",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		if (steers_by_name(paths[i]) != STEERS_YES)
			fail_msg("%s", paths[i]);
}

static void steers_by_name_manifests_are_not(void **state)
{
	static const char *const paths[] = {"package.json",   "package-lock.json",
					    "Cargo.toml",     "a/Cargo.lock",
					    "go.mod",	      "go.sum",
					    "pom.xml",	      "build.gradle.kts",
					    "pyproject.toml", "requirements.txt",
					    "a.b/setup.py",   "Gemfile.lock",
					    "setup.cfg",      "x.csproj",
					    "Gemfile"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		if (steers_by_name(paths[i]) != STEERS_NO)
			fail_msg("%s", paths[i]);
}

static void steers_by_name_others_when_they_are_programs(void **state)
{
	static const char *const paths[] = {"src/lib.rs", "npmrc.md", "a.npmrc",
					    "tools/fetch.py", "tool"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		if (steers_by_name(paths[i]) != STEERS_PROGRAM)
			fail_msg("%s", paths[i]);
}

static void steers_is_word_knows_a_path(void **state)
{
	(void)state;
	assert_true(steers_is_word("a/b.py", "a/b.py", "/work"));
	assert_true(steers_is_word("./a/b.py", "a/b.py", "/work"));
	assert_true(steers_is_word("/work/a/b.py", "a/b.py", "/work"));
	assert_true(steers_is_word("/work/./a/b.py", "a/b.py", "/work"));
	assert_false(steers_is_word("/workshop/a/b.py", "a/b.py", "/work"));
	assert_false(steers_is_word("b.py", "a/b.py", "/work"));
	assert_false(steers_is_word("/a/b.py", "a/b.py", "/work"));
	assert_false(steers_is_word("", "a", "/work"));
}

static void steers_by_bytes_scripts_are_known(void **state)
{
	(void)state;
	assert_true(steers_by_bytes("#!/bin/sh\n", 10));
	assert_true(steers_by_bytes("#!", 2));
	assert_false(steers_by_bytes("#", 1));
	assert_false(steers_by_bytes("", 0));
	assert_false(steers_by_bytes("# !", 3));
	assert_false(steers_by_bytes(" #!", 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(steers_by_name_configuration_is_known),
	    cmocka_unit_test(steers_by_name_manifests_are_not),
	    cmocka_unit_test(steers_by_name_others_when_they_are_programs),
	    cmocka_unit_test(steers_is_word_knows_a_path),
	    cmocka_unit_test(steers_by_bytes_scripts_are_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
