/* Lock files that name what no warm may fetch, and what the skeleton takes from good ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/text.h"
#include "pipeline/fetch/npm_lock.h"

static const char *const hosts[] = {"registry.example:443", "mirror.example:8443", NULL};

#define SHA "\"integrity\":\"sha512-AAAA\""
#define GOOD "\"version\":\"1.0.0\"," SHA

/* The lint's verdict on a lock with these entries of "packages"; err holds the rest. */
static int lint_as(const char *entries, const char *replaced, struct error *err)
{
	const struct npm_lint rules = {hosts, replaced};
	AUTO_FREE char *text =
	    mem_printf("{\"lockfileVersion\":3,\"packages\":{\"\":{\"name\":\"x\"}%s%s}}",
		       *entries ? "," : "", entries);
	AUTO_JSON struct json *lock = js_parse(text, strlen(text), 65536, "lock", err);

	assert_non_null(lock);
	return npm_lock_lint(lock, "package-lock.json", &rules, err);
}

static int lint(const char *entries)
{
	struct error err = {0};

	return lint_as(entries, NULL, &err);
}

static void npm_lock_lint_registry_packages_are_taken(void **state)
{
	(void)state;
	assert_int_equal(lint(""), 0);
	assert_int_equal(lint("\"node_modules/a\":{" GOOD "}"), 0);
	assert_int_equal(
	    lint("\"node_modules/@s/a\":{\"resolved\":\"https://registry.example/a.tgz\"," SHA
		 "}"),
	    0);
	assert_int_equal(lint("\"node_modules/a/node_modules/b\":{\"resolved\":\"https://"
			      "Mirror.example:8443/b.tgz\"," SHA "}"),
			 0);
	assert_int_equal(lint("\"node_modules/a\":{" GOOD
			      "},\"node_modules/a/node_modules/c\":{\"inBundle\":true}"),
			 0);
	assert_int_equal(lint("\"packages/a\":{\"version\":\"1.0.0\"},"
			      "\"node_modules/a\":{\"resolved\":\"packages/a\",\"link\":true}"),
			 0);
}

static void npm_lock_lint_other_sources_are_refused(void **state)
{
	static const char *const urls[] = {
	    "git+https://registry.example/a.git#0123",
	    "git+ssh://git@registry.example/a.git#0123",
	    "git://registry.example/a.git",
	    "github:owner/a",
	    "file:../a",
	    "file:a-1.0.0.tgz",
	    "ssh://registry.example/a",
	    "http://registry.example/a.tgz",
	    "https://evil.example/a.tgz",
	    "https://registry.example:8443/a.tgz",
	    "https://registry.example@evil.example/a.tgz",
	    "https://evil.example\\\\@registry.example/a.tgz",
	    "https://registry.example.evil.example/a.tgz",
	    "https://127.0.0.1/a.tgz",
	    "//registry.example/a.tgz",
	    "",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
		AUTO_FREE char *entry =
		    mem_printf("\"node_modules/a\":{\"resolved\":\"%s\"," SHA "}", urls[i]);

		if (lint(entry) != ERROR_NO)
			fail_msg("taken: %s", urls[i]);
	}
}

static void npm_lock_lint_names_the_offender_and_the_remedy(void **state)
{
	struct error err = {0};

	(void)state;
	assert_int_equal(
	    lint_as("\"node_modules/bad\":{\"resolved\":\"https://evil.example/a.tgz\"," SHA
		    "}",
		    NULL, &err),
	    ERROR_NO);
	assert_non_null(strstr(err.message, "node_modules/bad"));
	assert_non_null(strstr(err.message, "evil.example:443"));
	assert_non_null(strstr(err.next, "[fetch] host = evil.example:443"));
}

static void npm_lock_lint_replaced_host_is_as_good_as_listed(void **state)
{
	static const char entry[] =
	    "\"node_modules/a\":{\"resolved\":\"https://default.example/a.tgz\"," SHA "}";
	struct error err = {0};

	(void)state;
	assert_int_equal(lint_as(entry, NULL, &err), ERROR_NO);
	assert_int_equal(lint_as(entry, "other.example", &err), ERROR_NO);
	assert_int_equal(lint_as(entry, "default.example", &err), 0);
	assert_int_equal(lint_as(entry, "*", &err), 0);
}

static void npm_lock_lint_missing_integrity_is_refused(void **state)
{
	(void)state;
	assert_int_equal(lint("\"node_modules/a\":{\"version\":\"1.0.0\"}"), ERROR_NO);
	assert_int_equal(
	    lint("\"node_modules/a\":{\"resolved\":\"https://registry.example/a.tgz\"}"),
	    ERROR_NO);
	assert_int_equal(lint("\"node_modules/a\":{\"integrity\":\"md5-AAAA\"}"), ERROR_NO);
	assert_int_equal(lint("\"node_modules/a\":{\"integrity\":7}"), ERROR_NO);
}

static void npm_lock_lint_links_out_of_the_tree_are_refused(void **state)
{
	(void)state;
	assert_int_equal(lint("\"node_modules/a\":{\"resolved\":\"../a\",\"link\":true}"),
			 ERROR_NO);
	assert_int_equal(lint("\"node_modules/a\":{\"resolved\":\"/etc\",\"link\":true}"),
			 ERROR_NO);
	assert_int_equal(lint("\"node_modules/a\":{\"resolved\":\"packages/a\",\"link\":true}"),
			 ERROR_NO);
	assert_int_equal(lint("\"node_modules/a\":{\"link\":true}"), ERROR_NO);
	assert_int_equal(lint("\"../a\":{\"version\":\"1.0.0\"}"), ERROR_USAGE);
	assert_int_equal(lint("\"packages/../../a\":{\"version\":\"1.0.0\"}"), ERROR_USAGE);
	assert_int_equal(lint("\"/a\":{\"version\":\"1.0.0\"}"), ERROR_USAGE);
	assert_int_equal(lint("\"node_modules/../../a\":{" GOOD "}"), ERROR_USAGE);
	assert_int_equal(lint("\".git/hooks\":{\"version\":\"1.0.0\"}"), ERROR_USAGE);
	assert_int_equal(lint("\"packages/a\":null"), ERROR_USAGE);
}

static void npm_lock_lint_old_versions_are_refused(void **state)
{
	static const char *const locks[] = {"{}",
					    "{\"lockfileVersion\":1,\"dependencies\":{}}",
					    "{\"lockfileVersion\":3}",
					    "{\"lockfileVersion\":4,\"packages\":{}}",
					    "{\"lockfileVersion\":\"3\",\"packages\":{}}",
					    "[]"};
	const struct npm_lint rules = {hosts, NULL};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(locks); i++) {
		struct error err = {0};
		AUTO_JSON struct json *lock =
		    js_parse(locks[i], strlen(locks[i]), 65536, "lock", &err);

		assert_int_equal(npm_lock_lint(lock, "package-lock.json", &rules, &err),
				 ERROR_USAGE);
		assert_non_null(strstr(err.next, "npm install --package-lock-only"));
	}
}

static void npm_lock_lists_members_and_required(void **state)
{
	static const char text[] =
	    "{\"lockfileVersion\":3,\"packages\":{\"\":{},\"packages/a\":{},\"node_modules/"
	    "a\":{\"link\":true},"
	    "\"node_modules/b\":{},\"node_modules/o\":{\"optional\":true},\"node_modules/"
	    "d\":{\"devOptional\":true},"
	    "\"packages/a/node_modules/b\":{},\"node_modules/b/node_modules/"
	    "c\":{\"inBundle\":true}}}";
	struct error err = {0};
	AUTO_JSON struct json *lock = js_parse(text, strlen(text), 65536, "lock", &err);
	char **members = npm_lock_members(lock), **required = npm_lock_required(lock);

	(void)state;
	assert_string_equal(members[0], "packages/a");
	assert_null(members[1]);
	assert_string_equal(required[0], "node_modules/b");
	assert_string_equal(required[1], "node_modules/d");
	assert_string_equal(required[2], "packages/a/node_modules/b");
	assert_null(required[3]);
	text_free_words(members);
	text_free_words(required);
}

static void npm_lock_bins_stay_inside(void **state)
{
	static const char text[] =
	    "{\"bin\":{\"a\":\"./cli.js\",\"b\":\"../../x\",\"c\":\"lib/c.js\",\"d\":7}}";
	struct error err = {0};
	AUTO_JSON struct json *manifest =
	    js_parse(text, strlen(text), 65536, "package.json", &err);
	char **bins = npm_lock_bins(manifest);

	(void)state;
	assert_string_equal(bins[0], "cli.js");
	assert_string_equal(bins[1], "lib/c.js");
	assert_null(bins[2]);
	text_free_words(bins);
}

static void npm_lock_settings_keeps_only_how_to_read_a_lock(void **state)
{
	static const char npmrc[] = "legacy-peer-deps = true\r\n"
				    "registry=https://evil.example/\n"
				    "git=./evil.sh\n"
				    "//evil.example/:_authToken=${NPM_TOKEN}\n"
				    "install-strategy=nested\n"
				    "install-strategy=../x\n"
				    "script-shell=./evil.sh\n"
				    "engine-strict=${X}\n"
				    "node-options=--require ./evil.js\n"
				    "strict-peer-deps=true";
	AUTO_FREE char *kept = npm_lock_settings(npmrc, sizeof(npmrc) - 1);
	AUTO_FREE char *nul = npm_lock_settings("engine-strict=true\0x\n", 21);

	(void)state;
	assert_string_equal(
	    kept, "legacy-peer-deps=true\ninstall-strategy=nested\nstrict-peer-deps=true\n");
	assert_string_equal(nul, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(npm_lock_lint_registry_packages_are_taken),
	    cmocka_unit_test(npm_lock_lint_other_sources_are_refused),
	    cmocka_unit_test(npm_lock_lint_names_the_offender_and_the_remedy),
	    cmocka_unit_test(npm_lock_lint_replaced_host_is_as_good_as_listed),
	    cmocka_unit_test(npm_lock_lint_missing_integrity_is_refused),
	    cmocka_unit_test(npm_lock_lint_links_out_of_the_tree_are_refused),
	    cmocka_unit_test(npm_lock_lint_old_versions_are_refused),
	    cmocka_unit_test(npm_lock_lists_members_and_required),
	    cmocka_unit_test(npm_lock_bins_stay_inside),
	    cmocka_unit_test(npm_lock_settings_keeps_only_how_to_read_a_lock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
