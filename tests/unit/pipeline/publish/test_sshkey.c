/* What kind of key a text is. The keys were made for this test and open nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/publish/sshkey.h"

#define BEGIN "-----BEGIN OPENSSH PRIVATE KEY-----\n"
#define END "-----END OPENSSH PRIVATE KEY-----\n"
/* "openssh-key-v1\0", 4, "none", 4, "none"; and with aes256-ctr, bcrypt */
#define PLAIN "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW\n"
#define LOCKED "b3BlbnNzaC1rZXktdjEAAAAACmFlczI1Ni1jdHIAAAAGYmNyeXB0AAAAGAAAABDh5d6XPj\n"

static int check(const char *text, struct error *err)
{
	*err = (struct error){0};
	return sshkey_check(text, strlen(text), &sshkey_push, err);
}

static void sshkey_private_keys_are_taken(void **state)
{
	static const char *const cases[] = {
	    BEGIN PLAIN END,
	    "\n\r\n" BEGIN PLAIN END,
	    "-----BEGIN OPENSSH PRIVATE KEY-----\r\n" PLAIN END,
	    "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n",
	    "-----BEGIN EC PRIVATE KEY-----\nMHcC\n",
	    "-----BEGIN PRIVATE KEY-----\nMIGH\n",
	};
	struct error err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (check(cases[i], &err))
			fail_msg("%zu: %s", i, err.message);
}

static void sshkey_others_are_refused_by_name(void **state)
{
	static const struct {
		const char *text, *word;
	} cases[] = {
	    {BEGIN LOCKED END, "passphrase"},
	    {"-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIF\n", "passphrase"},
	    {"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: "
	     "AES-128-CBC,00\n",
	     "passphrase"},
	    {"ssh-ed25519 AAAAC3Nza me@h\n", "public"},
	    {"ecdsa-sha2-nistp256 AAAA\n", "public"},
	    {"sk-ssh-ed25519@openssh.com AAAA\n", "public"},
	    {"PuTTY-User-Key-File-3: ssh-ed25519\n", "PuTTY"},
	    {"s3cret-token", "not an SSH private key"},
	    {"", "not an SSH private key"},
	    {"-----BEGIN CERTIFICATE-----\nMIIE\n", "not an SSH private key"},
	    {BEGIN, "damaged"},
	    {BEGIN "s3cret", "damaged"},
	    {BEGIN "!!!!nNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAA\n" END, "damaged"},
	};
	struct error err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		if (check(cases[i].text, &err) != ERROR_USAGE ||
		    !strstr(err.message, cases[i].word))
			fail_msg("%zu: %s", i, err.message);
		assert_true(err.next[0]);
		assert_null(strstr(err.message, "s3cret"));
	}
}

static void sshkey_any_prefix_of_a_key_is_safe(void **state)
{
	static const char text[] = BEGIN PLAIN END;
	struct error err;

	(void)state;
	for (size_t len = 0; len < sizeof(text); len++) {
		char *copy AUTO_FREE = mem_strndup(text, len);

		err = (struct error){0};
		sshkey_check(copy, len, &sshkey_push, &err);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sshkey_private_keys_are_taken),
	    cmocka_unit_test(sshkey_others_are_refused_by_name),
	    cmocka_unit_test(sshkey_any_prefix_of_a_key_is_safe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
