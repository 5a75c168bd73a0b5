/* askpass answers only about our host, ssh gets only our options and only git's commands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/publish/helper.h"

static void askpass_answers_only_the_two_questions(void **state)
{
	static const struct {
		const char *prompt;
		enum askpass_question question;
	} cases[] = {
	    {"Username for 'https://h:8': ", ASKPASS_USERNAME},
	    {"Password for 'https://me@h:8': ", ASKPASS_PASSWORD},
	    {"Username for 'https://h': ", ASKPASS_OTHER},
	    {"Username for 'https://evil': ", ASKPASS_OTHER},
	    {"Username for 'http://h:8': ", ASKPASS_OTHER},
	    {"Username for 'https://h:8/path': ", ASKPASS_OTHER},
	    {"Username for 'https://h:8':", ASKPASS_OTHER},
	    {"Password for 'https://h:8': ", ASKPASS_OTHER},
	    {"Password for 'https://you@h:8': ", ASKPASS_OTHER},
	    {"Password for 'https://me@evil': ", ASKPASS_OTHER},
	    {"Password for 'https://me@h:8@evil': ", ASKPASS_OTHER},
	    {"Password for 'https://me@h:8': x", ASKPASS_OTHER},
	    {"Password for proxy 'http://me@h:8': ", ASKPASS_OTHER},
	    {"Enter passphrase for key: ", ASKPASS_OTHER},
	    {"", ASKPASS_OTHER},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (askpass_match(cases[i].prompt, "https://h:8", "me") != cases[i].question)
			fail_msg("wrong answer to: %s", cases[i].prompt);
}

static void askpass_user_is_compared_raw_and_encoded(void **state)
{
	const char *user = "me@firm.org";

	(void)state;
	assert_int_equal(
	    askpass_match("Password for 'https://me@firm.org@h': ", "https://h", user),
	    ASKPASS_PASSWORD);
	assert_int_equal(
	    askpass_match("Password for 'https://me%40firm.org@h': ", "https://h", user),
	    ASKPASS_PASSWORD);
	assert_int_equal(askpass_match("Password for 'https://me@h': ", "https://h", user),
			 ASKPASS_OTHER);
}

static void askpass_secret_is_taken_apart(void **state)
{
	static const struct {
		const char *secret, *named, *user, *token;
	} cases[] = {
	    {"tok", "", "x-access-token", "tok"}, {"tok", "me", "me", "tok"},
	    {"me:tok", "", "me", "tok"},	  {"me:tok", "me", "me", "tok"},
	    {"to:ken", "me", "me", "to:ken"},	  {"me:to:ken", "", "me", "to:ken"},
	    {"m:tok", "me", "me", "m:tok"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *token = NULL;
		size_t len = 0;
		struct error err = {0};
		char *user AUTO_FREE = askpass_split(cases[i].secret, strlen(cases[i].secret),
						     cases[i].named, &token, &len, &err);

		assert_non_null(user);
		assert_string_equal(user, cases[i].user);
		assert_int_equal(len, strlen(cases[i].token));
		assert_memory_equal(token, cases[i].token, len);
	}
}

static void askpass_malformed_secret_is_refused_and_not_shown(void **state)
{
	static const struct {
		const char *secret;
		size_t len;
	} cases[] = {{"", 0},	       {":", 1},	 {"u:", 2},	   {":s3cret", 7},
		     {"s3cret\nx", 8}, {"s3cret\rx", 8}, {"s3cret\0x", 8}, {"a\nb:s3cret", 10}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *token = NULL;
		size_t len = 0;
		struct error err = {0};
		char *user AUTO_FREE =
		    askpass_split(cases[i].secret, cases[i].len, "", &token, &len, &err);

		if (user || err.kind != ERROR_USAGE)
			fail_msg("taken: %zu", i);
		assert_null(strstr(err.message, "s3cret"));
	}
}

static void ssh_commands_other_than_gits_are_refused(void **state)
{
	static const char *const good[] = {"git-receive-pack '/x.git'", "git-upload-pack 'a b'",
					   "git-receive-pack ''", "git-receive-pack 'it'\\''s'",
					   "git-receive-pack 'wow'\\!''"};
	static const char *const bad[] = {"",
					  "id",
					  "git-receive-pack",
					  "git-receive-pack /x",
					  "git-receive-pack '/x",
					  "git-receive-pack '",
					  "git-receive-pack '/x'; id",
					  "git-receive-pack '/x' 'y'",
					  "git-receive-pack '/x'$(id)''",
					  " git-receive-pack '/x'",
					  "git-receive-pack '/x'\\'';id'x",
					  "git-receive-pack2 '/x'",
					  "git-upload-archive '/x'",
					  "git-receive-pack 'a'\\'"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		if (!ssh_command_is_gits(good[i]))
			fail_msg("refused: %s", good[i]);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (ssh_command_is_gits(bad[i]))
			fail_msg("taken: %s", bad[i]);
}

static bool has_option(const char *const *argv, const char *option)
{
	for (; *argv; argv++)
		if (strcmp(*argv, "-o") == 0 && argv[1] && strcmp(argv[1], option) == 0)
			return true;
	return false;
}

static void ssh_arguments_believe_only_our_known_hosts(void **state)
{
	static const char *const options[] = {"BatchMode=yes",
					      "CheckHostIP=no",
					      "StrictHostKeyChecking=yes",
					      "UserKnownHostsFile=known_hosts",
					      "GlobalKnownHostsFile=/dev/null",
					      "VerifyHostKeyDNS=no",
					      "UpdateHostKeys=no",
					      "IdentityFile=none",
					      "IdentityAgent=agent.sock",
					      "PreferredAuthentications=publickey",
					      "PasswordAuthentication=no",
					      "ProxyCommand=none",
					      "PermitLocalCommand=no",
					      "ForwardAgent=no",
					      "ControlMaster=no",
					      "HostKeyAlias=[h]:9",
					      "Port=4711"};
	const char **argv AUTO_FREE =
	    ssh_arguments("Port=4711", "HostKeyAlias=[h]:9", "-user", "git-receive-pack 'x'");
	size_t count = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(options); i++)
		if (!has_option(argv, options[i]))
			fail_msg("missing: %s", options[i]);
	while (argv[count])
		count++;
	assert_string_equal(argv[0], "ssh");
	assert_string_equal(argv[1], "-F");
	assert_string_equal(argv[2], "none");
	assert_string_equal(argv[count - 5], "-l");
	assert_string_equal(argv[count - 3], "--");
	assert_string_equal(argv[count - 2], "127.0.0.1");
	assert_string_equal(argv[count - 1], "git-receive-pack 'x'");
}

static void helper_without_its_variable_is_none(void **state)
{
	char name[] = "agent-publish";
	char *argv[] = {name, NULL};
	int status = -1;

	(void)state;
	unsetenv(HELPER_ENV);
	assert_false(helper_main(1, argv, &status));
	setenv(HELPER_ENV, "nonsense", 1);
	assert_true(helper_main(1, argv, &status));
	assert_int_not_equal(status, 0);
	unsetenv(HELPER_ENV);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(askpass_answers_only_the_two_questions),
	    cmocka_unit_test(askpass_user_is_compared_raw_and_encoded),
	    cmocka_unit_test(askpass_secret_is_taken_apart),
	    cmocka_unit_test(askpass_malformed_secret_is_refused_and_not_shown),
	    cmocka_unit_test(ssh_commands_other_than_gits_are_refused),
	    cmocka_unit_test(ssh_arguments_believe_only_our_known_hosts),
	    cmocka_unit_test(helper_without_its_variable_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
