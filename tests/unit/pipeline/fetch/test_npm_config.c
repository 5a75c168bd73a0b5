/* The operator's npm: what is kept of its answer, and whose npm is asked. A script stands in
 * for npm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/fetch/npm_config.h"

static char *top; /* temporary directory */

static int make_top(void **state)
{
	(void)state;
	top = mem_strdup("/tmp/npm-config-XXXXXX");
	return mkdtemp(top) ? 0 : -1;
}

static int remove_top(void **state)
{
	(void)state;
	fd_remove_tree(AT_FDCWD, top);
	free(top);
	return 0;
}

static char *at(const char *name)
{
	return mem_printf("%s/%s", top, name);
}

static void put(const char *name, const char *text, mode_t mode)
{
	AUTO_FREE char *path = at(name);
	AUTO_FREE char *parent = mem_strndup(path, (size_t)(strrchr(path, '/') - path));
	AUTO_FD int fd = -1;

	assert_int_equal(fd_mkdir_all(parent), 0);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, mode), 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

static struct json *select_from(const char *answer, const char *listing)
{
	struct error err = {0};
	AUTO_JSON struct json *parsed = js_parse(answer, strlen(answer), 65536, "answer", &err);
	static const char bare[] = "{\"registry\":\"https://default.example/\"}";
	AUTO_JSON struct json *bare_json = js_parse(bare, strlen(bare), 65536, "bare", &err);

	return npm_config_select(parsed, listing, bare_json, &err);
}

static void npm_config_select_keeps_what_counts(void **state)
{
	AUTO_JSON struct json *kept = select_from(
	    "{\"registry\":\"https://registry.example/npm/\",\"@corp:registry\":\"https://"
	    "corp.example/\","
	    "\"cafile\":\"/etc/ca.pem\",\"noproxy\":[\"a.example\",\"b.example\"],"
	    "\"replace-registry-host\":\"npmjs\",\"editor\":\"vi\",\"@x:other\":\"y\"}",
	    "; \"user\" config\n\n//corp.example/:_authToken = (protected)\nregistry = "
	    "\"x\"\n; a = (protected)\n");

	(void)state;
	assert_string_equal(js_str(kept, "registry", ""), "https://registry.example/npm/");
	assert_string_equal(js_str(kept, "builtin", ""), "https://default.example/");
	assert_string_equal(js_str(js_get(kept, "scopes"), "@corp", ""),
			    "https://corp.example/");
	assert_int_equal(js_len(js_get(kept, "scopes")), 1);
	assert_string_equal(js_str(kept, "noproxy", ""), "a.example,b.example");
	assert_int_equal(js_len(js_get(kept, "protected")), 1);
	assert_string_equal(js_text(js_at(js_get(kept, "protected"), 0)),
			    "//corp.example/:_authToken");
	assert_null(js_get(kept, "editor"));
}

static void npm_config_select_keeps_no_password(void **state)
{
	AUTO_JSON struct json *kept =
	    select_from("{\"registry\":\"https://user:sekrit@registry.example/\","
			"\"https-proxy\":\"http://"
			"user:sekrit@proxy.example:3128\",\"proxy\":\"user:sekrit@p.example\","
			"\"@corp:registry\":\"https://sekrit@corp.example/a@b\"}",
			"");
	AUTO_STRBUF struct strbuf text = STRBUF_NONE;

	(void)state;
	strbuf_init(&text, 65536);
	js_format(kept, &text);
	assert_null(strstr(text.data, "sekrit"));
	assert_non_null(strstr(text.data, "https://@registry.example/"));
}

static void npm_config_token_key_matches_host_and_path(void **state)
{
	char a[] = "//corp.example/npm/:_authToken", b[] = "//other.example/:_auth";
	char *keys[] = {a, b, NULL};
	struct npm_config config = {.protected_keys = keys};

	(void)state;
	assert_string_equal(npm_config_token_key(&config, "https://corp.example/npm/"), a);
	assert_string_equal(npm_config_token_key(&config, "https://other.example"), b);
	assert_null(npm_config_token_key(&config, "https://corp.example/"));
	assert_null(npm_config_token_key(&config, "https://corp.example.evil.example/npm/"));
}

static void npm_find_program_avoids_the_work_tree(void **state)
{
	AUTO_FREE char *tree = at("tree"), *good = at("good/npm"), *link = at("link");
	AUTO_FREE char *path = mem_printf(
	    ".:relative:%s/tree/node_modules/.bin:%s/link:%s/none:%s/good", top, top, top, top);
	AUTO_FREE char *target = at("tree/node_modules/.bin");
	AUTO_FREE char *found = NULL, *any = NULL;

	(void)state;
	put("tree/node_modules/.bin/npm", "#!/bin/sh\n", 0755);
	put("good/npm", "#!/bin/sh\n", 0755);
	put("none/npm", "not executable", 0644);
	assert_int_equal(symlink(target, link), 0);
	found = npm_find_program(path, "npm", tree);
	assert_string_equal(found, good);
	any = npm_find_program(path, "npm", NULL);
	assert_string_not_equal(any, good);
	assert_null(npm_find_program("", "npm", NULL));
	assert_null(npm_find_program(NULL, "npm", NULL));
}

/* Writes down how it was started and answers as npm does. */
#define FAKE_NPM                                                                               \
	"#!/bin/sh\n"                                                                          \
	"echo run >> %s/runs; pwd > %s/cwd; /usr/bin/env > %s/env\n"                           \
	"case \"$*\" in *--json*) echo "                                                       \
	"'{\"registry\":\"https://registry.example/\",\"npm-version\":\"9.9.9\","              \
	"\"userconfig\":\"%s/npmrc\"}' ;; *) echo '//registry.example/:_authToken = "          \
	"(protected)' ;; esac\n"

static size_t lines_of(const char *name)
{
	AUTO_FREE char *path = at(name);
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	AUTO_STRBUF struct strbuf data = STRBUF_NONE;
	size_t lines = 0;

	strbuf_init(&data, 65536);
	if (fd < 0 || fd_read_all(fd, &data) < 0)
		return 0;
	for (size_t i = 0; i < data.len; i++)
		lines += data.data[i] == '\n';
	return lines;
}

static bool file_has(const char *name, const char *text)
{
	AUTO_FREE char *path = at(name);
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	AUTO_STRBUF struct strbuf data = STRBUF_NONE;

	strbuf_init(&data, 65536);
	return fd >= 0 && fd_read_all(fd, &data) == 0 && strstr(data.data, text);
}

static void npm_config_load_asks_once_and_keeps_the_answer(void **state)
{
	AUTO_FREE char *script = mem_printf(FAKE_NPM, top, top, top, top);
	AUTO_FREE char *path = mem_printf("PATH=%s/bin:/usr/bin:/bin", top);
	AUTO_FREE char *home = mem_printf("HOME=%s", top), *cache = at("cache");
	char setting[] = "npm_config_fund=false", token[] = "NPM_CONFIG__AUTHTOKEN=sekrit";
	char secret[] = "AWS_SECRET=sekrit";
	char *env[] = {path, home, setting, token, secret, NULL};
	const struct npm_source source = {env, NULL, cache};
	struct npm_config config;
	struct error err = {0};

	(void)state;
	put("bin/npm", script, 0755);
	put("bin/node", "#!/bin/sh\n", 0755);
	put("npmrc", "a=b\n", 0600);
	assert_int_equal(fd_mkdir_all(cache), 0);
	if (npm_config_load(&source, &config, &err))
		fail_msg("%s", err.message);
	assert_string_equal(config.registry, "https://registry.example/");
	assert_string_equal(npm_config_token_key(&config, config.registry),
			    "//registry.example/:_authToken");
	npm_config_release(&config);
	assert_int_equal(lines_of("runs"), 3);
	assert_true(file_has("cwd", "/\n"));
	assert_true(file_has("env", "npm_config_fund=false"));
	assert_false(file_has("env", "sekrit"));

	assert_int_equal(npm_config_load(&source, &config, &err), 0);
	npm_config_release(&config);
	assert_int_equal(lines_of("runs"), 3);

	put("npmrc", "changed=yes\n", 0600);
	assert_int_equal(npm_config_load(&source, &config, &err), 0);
	npm_config_release(&config);
	assert_int_equal(lines_of("runs"), 6);
}

static void npm_config_load_without_npm_says_so(void **state)
{
	AUTO_FREE char *path = mem_printf("PATH=%s/empty", top), *cache = at("cache");
	char *env[] = {path, NULL};
	const struct npm_source source = {env, NULL, cache};
	struct npm_config config;
	struct error err = {0};

	(void)state;
	assert_int_equal(npm_config_load(&source, &config, &err), ERROR_USAGE);
	assert_non_null(strstr(err.message, "no npm in PATH"));
	assert_non_null(strstr(err.next, "recipe = none"));
}

static void npm_config_load_failing_npm_is_an_error(void **state)
{
	AUTO_FREE char *path = mem_printf("PATH=%s/badbin:/usr/bin:/bin", top),
		       *cache = at("cache2");
	char *env[] = {path, NULL};
	const struct npm_source source = {env, NULL, cache};
	struct npm_config config;
	struct error err = {0};

	(void)state;
	put("badbin/node", "#!/bin/sh\n", 0755);
	assert_int_equal(fd_mkdir_all(cache), 0);
	put("badbin/npm", "#!/bin/sh\nexit 3\n", 0755);
	assert_int_equal(npm_config_load(&source, &config, &err), ERROR_FAILED);
	put("badbin/npm", "#!/bin/sh\necho '{}'\n", 0755);
	assert_int_equal(npm_config_load(&source, &config, &err), ERROR_USAGE);
	put("badbin/npm", "#!/bin/sh\necho 'not json'\n", 0755);
	assert_int_equal(npm_config_load(&source, &config, &err), ERROR_USAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(npm_config_select_keeps_what_counts),
	    cmocka_unit_test(npm_config_select_keeps_no_password),
	    cmocka_unit_test(npm_config_token_key_matches_host_and_path),
	    cmocka_unit_test(npm_find_program_avoids_the_work_tree),
	    cmocka_unit_test(npm_config_load_asks_once_and_keeps_the_answer),
	    cmocka_unit_test(npm_config_load_without_npm_says_so),
	    cmocka_unit_test(npm_config_load_failing_npm_is_an_error),
	};

	return cmocka_run_group_tests(tests, make_top, remove_top);
}
