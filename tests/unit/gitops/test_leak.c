/* Secrets in added lines. The secrets here are made up and put together at run time, so that no
 * scanner takes this file for a leak. */
#include "fixture.h"

#include "gitops/leak.h"

static size_t look(const char *old, const char *now, struct leak *leak)
{
	return leak_find(old, strlen(old), now, strlen(now), leak, 1);
}

static void known_tokens_are_found_and_masked(void **state)
{
	static const struct {
		const char *head, *tail, *what;
	} cases[] = {
	    {"ghp_", "16C7e42F292c6912E7710c838347Ae178B4a", "a GitHub token"},
	    {"AKIA", "IOSFODNN7Q4RTZPW", "an AWS access key id"},
	    {"glpat-", "Zy7kQw3_pL9-tR5vXn2b", "a GitLab token"},
	    {"xoxb-", "2048173645-9182736450-QwErTyUiOpAs", "a Slack token"},
	    {"sk_live_", "4eC39HqLyjWDarjtT1zdp7dc", "a Stripe key"},
	    {"sk-ant-", "api03-Qw3rTy7UiOpAsDfGhJkLzXcVbNm8", "an Anthropic key"},
	    {"AIza", "SyDaGmWKa4JsXZ-HjGw7ISLn_3namBGewQe", "a Google API key"},
	    {"npm_", "wJalrXUtnFEMI7K7MDENGbPxRfiCYzQ1k2m3", "an npm token"},
	    {"eyJ",
	     "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9",
	     "a JSON web token"},
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *text AUTO_FREE =
		    mem_printf("a\nx = f(\"%s%s\")\n", cases[i].head, cases[i].tail);
		struct leak leak = {0};

		assert_int_equal(look("a\n", text, &leak), 1);
		assert_string_equal(leak.what, cases[i].what);
		assert_int_equal(leak.line, 2);
		assert_null(strstr(leak.shown, cases[i].tail));
		/* what was there before is no news */
		assert_int_equal(look(text, text, &leak), 0);
	}
}

static void a_private_key_is_found(void **state)
{
	static const char *const kinds[] = {"",		"RSA ",	      "EC ",
					    "OPENSSH ", "ENCRYPTED ", "DSA "};
	(void)state;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		char *text AUTO_FREE =
		    mem_printf("-----BEGIN %sPRIVATE%sKEY-----\nMII\n", kinds[i], " ");
		struct leak leak = {0};

		assert_int_equal(look("", text, &leak), 1);
		assert_string_equal(leak.what, "a private key");
	}
}

/* Programs that read keys name the heading; what has a key behind it is one, wherever it stands. */
static void a_heading_alone_in_code_is_no_key(void **state)
{
	static const struct {
		const char *before, *behind;
		size_t want;
	} cases[] = {
	    {"if (strstr(p, \"", "\"))\n\treturn read_the_key_of_a_file(p, len, password);\n",
	     0},
	    {"BEGIN = b\"", "\"\nEND = b\"-----END OPENSSH PRIVATE_KEY-----\"\n", 0},
	    {"x = \"", "\"\n/* ======================================================== */\n",
	     0},
	    {"key = \"", "\\nMIIEpAIBAAKCAQEA7bq3vJ0kLw9xT2mZpQ4sYdUfGhRe5a6c8Vn1oB\\n\"\n", 1},
	    {"key = \"-----BEGIN CERTIFICATE-----\\nMIIB\\n",
	     "\\nMIIEpAIBAAKCAQEA7bq3vJ0kLw9xT2mZpQ4sYdUfGhRe5a6c8Vn1oB\\n\"\n", 1},
	    {"\t\"", "\\n\"\n\t\"MIIEpAIBAAKCAQEA7bq3vJ0kLw9xT2mZpQ4sYdUfGhRe5a6c8Vn1oB\\n\"\n",
	     1},
	    {"  ", "\n  MIIE\n", 1},
	    {"# ", "\n# MIIE\n", 1},
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *text AUTO_FREE = mem_printf("%s-----BEGIN RSA PRIVATE%sKEY-----%s",
						  cases[i].before, " ", cases[i].behind);
		struct leak leak = {0};

		if (look("", text, &leak) != cases[i].want)
			fail_msg("case %zu: %s", i, text);
	}
}

static void a_random_value_behind_a_telling_name_is_found(void **state)
{
	static const char *const lines[] = {
	    "password = \"%s\"",	  "DB_PASSWORD=%s",
	    "\"api_key\": \"%s\",",	  "apiKey: '%s'",
	    "const clientSecret = `%s`;", "export AUTH_TOKEN=%s",
	    "config['secret'] = '%s'",	  ":token => \"%s\"",
	    "private_key := \"%s\"",
	};
	(void)state;

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		char *pattern AUTO_FREE = mem_strdup(lines[i]);
		char *place = strstr(pattern, "%s");
		*place = '\0';
		char *text AUTO_FREE =
		    mem_printf("%s%s%s\n", pattern, "8fK2mQ9xW4rT7yLpZ3vB", place + 2);
		struct leak leak = {0};

		if (look("", text, &leak) != 1)
			fail_msg("not found: %s", text);
		assert_string_equal(leak.what, "a password or key");
		assert_null(strstr(leak.shown, "mQ9xW4rT7yLpZ3vB"));
	}
}

static void ordinary_lines_are_left_alone(void **state)
{
	static const char *const lines[] = {
	    "password = os.environ[\"DB_PASSWORD\"]",
	    "password = getpass.getpass(prompt='Password: ')",
	    "token = request.headers.get('Authorization')",
	    "api_key = \"YOUR_API_KEY_GOES_HERE_1234\"",
	    "secret: ${{ secrets.DEPLOY_TOKEN_2024 }}",
	    "\"integrity\": \"sha512-Qw3rTy7UiOpAsDfGhJkLzXcVb==\",",
	    "checksum = \"5f4dcc3b5aa765d61d8327deb882cf99aabbccdd00112233\"",
	    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
	    "const tokens = tokenize(source).filter(isKeyword2).map(toNode3);",
	    "the password is checked by verify_password_hash_v2 in auth.c",
	    "password_hash = \"$2b$12$KIXQ1Qe7bD5f8Yw3mN0pUuVtR4sX6zA9cE2gH\"",
	    "public_key = \"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJqwe\"",
	    "key_id = \"K8fK2mQ9xW4rT7yLpZ3vB\"",
	    "sk-learn-is-a-library-for-machine-learning",
	    "AKIAIOSFODNN7EXAMPLE",
	    "x = \"ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"",
	    "password = \"correct horse battery staple\"",
	    "token: string;",
	    "curve_secret_key_len = crypto_sign_curve25519_BYTES",
	    "secret_key = nacl_bindings_ed25519_SEEDBYTES32;",
	};
	struct leak leak = {0};
	(void)state;

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		if (look("", lines[i], &leak))
			fail_msg("taken for %s: %s", leak.what, lines[i]);
}

static void hostile_lines_take_no_long_time(void **state)
{
	struct leak found[4];
	size_t len = (size_t)1 << 20;
	char *text AUTO_FREE = mem_calloc(len + 1, 1);
	static const char *const fills[] = {"token=",
					    "eyJ-",
					    "ghp_",
					    "password: \"",
					    "-----BEGIN ",
					    "a=",
					    "-----BEGIN PRIVATE KEY",
					    "AAAAAAAAAAAA"};
	(void)state;

	for (size_t i = 0; i < sizeof(fills) / sizeof(*fills); i++) {
		size_t size = strlen(fills[i]);

		for (size_t at = 0; at < len; at++)
			text[at] = fills[i][at % size];
		long long begun = fd_now_ms();
		leak_find("", 0, text, len, found, 4);
		assert_true(fd_now_ms() - begun < 60000); /* quadratic would be hours */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(known_tokens_are_found_and_masked),
	    cmocka_unit_test(a_private_key_is_found),
	    cmocka_unit_test(a_heading_alone_in_code_is_no_key),
	    cmocka_unit_test(a_random_value_behind_a_telling_name_is_found),
	    cmocka_unit_test(ordinary_lines_are_left_alone),
	    cmocka_unit_test(hostile_lines_take_no_long_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
