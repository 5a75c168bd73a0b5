#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/config.h"

static int add(struct config *config, enum config_scope scope, const char *text,
	       struct error *err)
{
	memset(err, 0, sizeof(*err));
	return config_add_text(config, scope, "file", text, strlen(text), err);
}

static void parse_quotes_and_comments_kept(void **state)
{
	struct config *config AUTO_CONFIG = config_new();
	struct error err;

	(void)state;
	assert_int_equal(
	    add(config, CONFIG_USER,
		"# c\n[test] ; c\n\tcommand = \"make # not a comment\" check \\\n  -k ; end\n"
		"[PUBLISH]\nUser=A \\\"B\\\"\\t\n",
		&err),
	    0);
	assert_string_equal(config_get(config, "test.command"),
			    "make # not a comment check   -k");
	assert_string_equal(config_get(config, "publish.user"), "A \"B\"\t");
}

static void parse_malformed_names_the_line(void **state)
{
	static const char *const bad[] = {"[test\ncommand = x\n",    "\ncommand = x\n",
					  "[test]\n1x = y\n",	     "[test]\ncommand = \"x\n",
					  "[test]\ncommand = \\q\n", "[test]\ncommand x\n",
					  "[test \"a\n]\n",	     "[]\n"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct config *config AUTO_CONFIG = config_new();
		struct error err;

		assert_int_equal(add(config, CONFIG_USER, bad[i], &err), ERROR_USAGE);
		assert_non_null(strstr(err.message, "file:"));
		assert_true(strlen(err.next) > 0);
	}
}

static void add_repository_may_not_widen(void **state)
{
	static const char *const keys[] = {
	    "[fetch]\nhost = x:1",     "[jail]\npath = /x",
	    "[model]\nname = x",       "[model]\nkey = env:X",
	    "[publish]\nremote = x",   "[publish]\ntoken = env:X",
	    "[budget]\nrunTokens = 1", "[jail]\nlimits = degraded-ok",
	    "[author]\nname = x",      "[http]\nca = /x",
	    "[jail]\nlayers = copy",   "[fetch]\nprivate = x:1"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		struct config *config AUTO_CONFIG = config_new();
		struct error err;

		assert_int_equal(add(config, CONFIG_REPOSITORY, keys[i], &err), ERROR_USAGE);
		assert_non_null(strstr(err.message, "file:2: a repository may not set "));
		assert_non_null(strstr(err.next, "operator"));
	}
}

static void number_repository_only_narrows(void **state)
{
	struct config *config AUTO_CONFIG = config_new();
	struct error err;

	(void)state;
	assert_int_equal(add(config, CONFIG_REPOSITORY,
			     "[jail]\nmemory = 64g\nprocesses = 10\n[test]\ntimeout = 2h\n"
			     "[run]\nrounds = 50\n",
			     &err),
			 0);
	assert_int_equal(config_number(config, "jail.memory"), 4LL << 30);
	assert_int_equal(config_number(config, "jail.processes"), 10);
	assert_int_equal(config_number(config, "test.timeout"), 600);
	assert_int_equal(config_number(config, "run.rounds"), 3);
	assert_int_equal(config_add_pair(config, "jail.processes=5", &err), 0);
	assert_int_equal(config_number(config, "jail.processes"), 5);
	assert_int_equal(config_add_pair(config, "test.timeout=3h", &err), 0);
	assert_int_equal(config_number(config, "test.timeout"), 7200);
}

/* What a stage would refuse, perhaps when the model is paid, is refused here, by the key's name. */
static void number_out_of_its_range_is_refused(void **state)
{
	static const char *const bad[][2] = {
	    {"run.rounds=51", "from 1 to 50"},
	    {"apply.maxBytes=257m", "from 1 to 256m"},
	    {"jail.output=1025m", "from 1 to 1g"},
	    {"publish.timeout=25h", "from 1 to 86400 seconds"},
	    {"test.timeout=300h", "from 1 to 1000000 seconds"},
	    {"model.maxOutputTokens=15", "from 16 to 10000000"},
	    {"jail.memory=4", "from 16m up"},
	    {"queue.jobs=257", "from 1 to 256"},
	    {"test.env=X", "not of the form NAME=VALUE"},
	    {"fetch.env==X", "not of the form NAME=VALUE"},
	    {"author.email=a>b", "not allowed"}};
	static const char *const good[] = {"run.rounds=50", "apply.maxBytes=256m",
					   "publish.timeout=24h", "jail.memory=16m",
					   "store.max=4000000g"};
	struct config *config AUTO_CONFIG = config_new();
	struct error err = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(config_add_pair(config, bad[i][0], &err), ERROR_USAGE);
		assert_non_null(strstr(err.message, bad[i][1]));
		assert_memory_equal(err.message + strlen("-c: "), bad[i][0],
				    strcspn(bad[i][0], "="));
	}
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_int_equal(config_add_pair(config, good[i], &err), 0);
	/* of a repository more is no more, but less than can be is told */
	assert_int_equal(add(config, CONFIG_REPOSITORY, "[run]\nrounds = 99\n", &err), 0);
	assert_int_equal(config_number(config, "run.rounds"), 50);
	assert_int_equal(add(config, CONFIG_REPOSITORY, "[jail]\nmemory = 4\n", &err),
			 ERROR_USAGE);
	assert_non_null(strstr(err.message, "file:2: jail.memory = 4"));
}

static void get_command_line_wins_over_files(void **state)
{
	struct config *config AUTO_CONFIG = config_new();
	struct error err;

	(void)state;
	assert_int_equal(config_add_pair(config, "test.command=c", &err), 0);
	assert_int_equal(add(config, CONFIG_USER, "[test]\ncommand = u", &err), 0);
	assert_int_equal(add(config, CONFIG_SYSTEM, "[test]\ncommand = s", &err), 0);
	assert_int_equal(add(config, CONFIG_REPOSITORY, "[test]\ncommand = r", &err), 0);
	assert_string_equal(config_get(config, "test.command"), "c");
	assert_string_equal(config_origin(config, "test.command"), "-c");
}

static void add_unknown_key_is_an_error(void **state)
{
	struct config *config AUTO_CONFIG = config_new();
	struct error err = {0};

	(void)state;
	assert_int_equal(add(config, CONFIG_USER, "[test]\ncomand = x", &err), ERROR_USAGE);
	assert_string_equal(err.message, "file:2: unknown key test.comand");
	assert_int_equal(add(config, CONFIG_USER, "[include]\npath = /x", &err), ERROR_USAGE);
	assert_int_equal(add(config, CONFIG_USER, "[test \"x\"]\ncommand = x", &err),
			 ERROR_USAGE);
	assert_int_equal(config_add_pair(config, "nothing", &err), ERROR_USAGE);
}

static void add_pasted_secret_is_not_repeated(void **state)
{
	struct config *config AUTO_CONFIG = config_new();
	struct error err = {0};

	(void)state;
	assert_int_equal(config_add_pair(config, "model.key=sk-planted-value", &err),
			 ERROR_USAGE);
	assert_null(strstr(err.message, "planted"));
	assert_null(strstr(err.next, "planted"));
}

static void add_url_with_a_credential_is_refused_unseen(void **state)
{
	static const char *const bad[] = {"publish.remote=https://me:planted@host/x.git",
					  "publish.remote=https://planted@host/x.git",
					  "publish.remote=ssh://git:planted@host/x.git",
					  "model.baseUrl=https://me:planted@host"};
	struct config *config AUTO_CONFIG = config_new();
	struct error err = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(config_add_pair(config, bad[i], &err), ERROR_USAGE);
		assert_null(strstr(err.message, "planted"));
	}
	assert_int_equal(config_add_pair(config, "publish.remote=ssh://git@host/x.git", &err),
			 0);
	assert_int_equal(config_add_pair(config, "publish.remote=git@host:x.git", &err), 0);
	assert_int_equal(config_add_pair(config, "publish.remote=https://host/a@b", &err), 0);
}

static void add_file_others_may_write_is_refused(void **state)
{
	char path[] = "/tmp/test-config-XXXXXX";
	struct config *config AUTO_CONFIG = config_new();
	struct error err = {0};
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "[test]\ncommand = x\n", 19), 19);
	assert_int_equal(fchmod(fd, 0666), 0);
	assert_int_equal(config_add_file(config, CONFIG_USER, path, &err), ERROR_USAGE);
	assert_int_equal(fchmod(fd, 0600), 0);
	memset(&err, 0, sizeof(err));
	assert_int_equal(config_add_file(config, CONFIG_USER, path, &err), 0);
	close(fd);
	unlink(path);
	assert_int_equal(config_add_file(config, CONFIG_USER, path, &err),
			 0); /* missing: fine */
}

static void narrow_lowers_any_limit_and_raises_none(void **state)
{
	struct config *config AUTO_CONFIG = config_new();
	struct error err = {0};

	(void)state;
	assert_int_equal(add(config, CONFIG_USER, "[run]\nrounds = 4\n", &err), 0);
	assert_int_equal(config_narrow(config, "run.rounds", "9", "task", &err), 0);
	assert_int_equal(config_number(config, "run.rounds"), 4);
	assert_int_equal(config_narrow(config, "run.rounds", "2", "task", &err), 0);
	assert_int_equal(config_add_pair(config, "run.rounds=3", &err), 0);
	assert_int_equal(config_number(config, "run.rounds"), 2);
	/* one that no repository may set */
	assert_int_equal(config_narrow(config, "budget.runTokens", "1000", "task", &err), 0);
	assert_int_equal(config_number(config, "budget.runTokens"), 1000);
	assert_int_equal(config_narrow(config, "test.command", "x", "task", &err), ERROR_USAGE);
	memset(&err, 0, sizeof(err));
	assert_int_equal(config_narrow(config, "run.rounds", "0", "task", &err), ERROR_USAGE);
}

static void tasks_are_kept_for_the_operator_alone(void **state)
{
	struct config *config AUTO_CONFIG = config_new();
	struct error err = {0};

	(void)state;
	assert_int_equal(add(config, CONFIG_USER,
			     "[maintain \"fmt\"]\n\tcommand = make fmt\n\tpath = a\n", &err),
			 0);
	assert_int_equal(config_add_pair(config, "maintain.fmt.rounds=2", &err), 0);
	assert_string_equal(config_task_at(config, 0)->name, "fmt");
	assert_string_equal(config_task_at(config, 1)->key, "path");
	assert_string_equal(config_task_at(config, 1)->origin, "file:3");
	assert_string_equal(config_task_at(config, 2)->value, "2");
	assert_null(config_task_at(config, 3));
	assert_int_equal(
	    add(config, CONFIG_REPOSITORY, "[maintain \"x\"]\n\tcommand = evil\n", &err),
	    ERROR_USAGE);
	assert_non_null(strstr(err.message, "a repository may not set maintain.x.command"));
	assert_int_equal(
	    add(config, CONFIG_REPOSITORY, "[maintain]\n\tfromRepository = yes\n", &err),
	    ERROR_USAGE);
}

static void item_lists_all_in_order(void **state)
{
	struct config *config AUTO_CONFIG = config_new();
	struct error err;

	(void)state;
	assert_int_equal(add(config, CONFIG_USER, "[test]\nenv = A=1\nenv = B=2\n", &err), 0);
	assert_int_equal(add(config, CONFIG_REPOSITORY, "[test]\nenv = C=3\n", &err), 0);
	assert_string_equal(config_item(config, "test.env", 0), "C=3");
	assert_string_equal(config_item(config, "test.env", 1), "A=1");
	assert_string_equal(config_item(config, "test.env", 2), "B=2");
	assert_null(config_item(config, "test.env", 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(parse_quotes_and_comments_kept),
	    cmocka_unit_test(parse_malformed_names_the_line),
	    cmocka_unit_test(add_repository_may_not_widen),
	    cmocka_unit_test(number_repository_only_narrows),
	    cmocka_unit_test(number_out_of_its_range_is_refused),
	    cmocka_unit_test(get_command_line_wins_over_files),
	    cmocka_unit_test(add_unknown_key_is_an_error),
	    cmocka_unit_test(add_pasted_secret_is_not_repeated),
	    cmocka_unit_test(add_url_with_a_credential_is_refused_unseen),
	    cmocka_unit_test(add_file_others_may_write_is_refused),
	    cmocka_unit_test(narrow_lowers_any_limit_and_raises_none),
	    cmocka_unit_test(tasks_are_kept_for_the_operator_alone),
	    cmocka_unit_test(item_lists_all_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
