/* What git prints: only the one line for our ref with a good flag is a success. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/publish/porcelain.h"

#define OID "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define REF "refs/heads/agent/x"
#define SPEC OID ":" REF
#define TO "To https://h/x\n"

static enum push_outcome outcome(const char *text, struct push_status *status)
{
	porcelain_parse(text, strlen(text), OID, REF, NULL, status);
	return status->outcome;
}

static void porcelain_each_status_is_told_apart(void **state)
{
	static const struct {
		const char *text;
		enum push_outcome outcome;
	} cases[] = {
	    {TO "*\t" SPEC "\t[new branch]\nDone\n", PUSH_NEW},
	    {TO "*\t" SPEC "\t[new branch]", PUSH_NEW},
	    {TO " \t" SPEC "\t1111111..2222222\nDone\n", PUSH_UPDATED},
	    {TO "+\t" SPEC "\t1111111...2222222 (forced update)\nDone\n", PUSH_UPDATED},
	    {TO "=\t" SPEC "\t[up to date]\nDone\n", PUSH_ALREADY},
	    {TO "!\t" SPEC "\t[rejected] (stale info)\n", PUSH_STALE},
	    {TO "!\t" SPEC "\t[remote rejected] (pre-receive hook declined)\n", PUSH_DECLINED},
	    {TO "!\t" SPEC "\t[remote rejected] (hook declined)\n", PUSH_DECLINED},
	    {TO "!\t" SPEC "\t[remote rejected] (failed to update ref)\n", PUSH_RACED},
	    {TO "!\t" SPEC
		"\t[remote rejected] (cannot lock ref 'x': is at y but expected z)\n",
	     PUSH_RACED},
	    {TO "!\t" SPEC "\t[remote rejected] (shallow update not allowed)\n", PUSH_SHALLOW},
	    {TO "!\t" SPEC "\t[remote rejected] (deny updating a hidden ref)\n", PUSH_DENIED},
	    {TO "!\t" SPEC "\t[remote rejected] (branch is currently checked out)\n",
	     PUSH_DENIED},
	    {TO "!\t" SPEC "\t[remote rejected] (unpacker error)\n", PUSH_REJECTED},
	    {TO "!\t" SPEC "\t[remote failure] (remote failed to report status)\n",
	     PUSH_REJECTED},
	    {"", PUSH_NO_LINE},
	    {TO "Done\n", PUSH_NO_LINE},
	    {"Everything up-to-date\n", PUSH_NO_LINE},
	    {TO "*\t" OID ":refs/heads/agent/xy\t[new branch]\nDone\n", PUSH_NO_LINE},
	    {TO "*\t" OID ":refs/heads/agent/\t[new branch]\nDone\n", PUSH_NO_LINE},
	    {TO "*\tb" SPEC "\t[new branch]\nDone\n", PUSH_NO_LINE},
	    {TO "*\t" SPEC "\nDone\n", PUSH_NO_LINE},
	    {TO "*\t" SPEC, PUSH_NO_LINE},
	    {TO "*\t", PUSH_NO_LINE},
	    {TO "*\t" SPEC "\t[new branch]\n!\t" SPEC "\t[rejected] (x)\n", PUSH_NO_LINE},
	    {TO "*\t" SPEC "\t[new branch]\n*\t" OID ":refs/heads/main\t[new branch]\n",
	     PUSH_NO_LINE},
	    {TO "-\t" SPEC "\t[deleted]\nDone\n", PUSH_NO_LINE},
	    {TO "?\t" SPEC "\t[new branch]\nDone\n", PUSH_NO_LINE},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct push_status status;

		if (outcome(cases[i].text, &status) != cases[i].outcome)
			fail_msg("%d for: %s", (int)status.outcome, cases[i].text);
	}
}

/* With a second ref in the same push: both or none. */
static void porcelain_takes_two_refs_together(void **state)
{
#define OTHER OID ":refs/agent/attest/x"
	static const struct {
		const char *text;
		enum push_outcome outcome;
	} cases[] = {
	    {TO "*\t" SPEC "\t[new branch]\n*\t" OTHER "\t[new reference]\nDone\n", PUSH_NEW},
	    {TO "*\t" OTHER "\t[new reference]\n*\t" SPEC "\t[new branch]\nDone\n", PUSH_NEW},
	    {TO "=\t" SPEC "\t[up to date]\n=\t" OTHER "\t[up to date]\nDone\n", PUSH_ALREADY},
	    {TO "*\t" SPEC "\t[new branch]\nDone\n", PUSH_NO_LINE},
	    {TO "*\t" OTHER "\t[new reference]\nDone\n", PUSH_NO_LINE},
	    {TO "*\t" SPEC "\t[new branch]\n!\t" OTHER "\t[remote rejected] (hook declined)\n",
	     PUSH_NO_LINE},
	    {TO "!\t" SPEC "\t[remote rejected] (atomic push failure)\n!\t" OTHER
		"\t[remote rejected] (hook declined)\n",
	     PUSH_DECLINED},
	    {TO "!\t" SPEC "\t[rejected] (stale info)\n!\t" OTHER
		"\t[rejected] (atomic push failed)\n",
	     PUSH_STALE},
	    {TO "!\t" SPEC "\t[rejected] (atomic push failed)\n!\t" OTHER
		"\t[rejected] (stale info)\n",
	     PUSH_REJECTED},
	    {TO "*\t" SPEC "\t[new branch]\n*\t" OTHER "\t[new reference]\n*\t" OTHER
		"\t[new reference]\n",
	     PUSH_NO_LINE},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct push_status status;

		porcelain_parse(cases[i].text, strlen(cases[i].text), OID, REF, OTHER, &status);
		if (status.outcome != cases[i].outcome)
			fail_msg("%d for: %s", (int)status.outcome, cases[i].text);
	}
}

static void porcelain_summary_is_escaped(void **state)
{
	struct push_status status;

	(void)state;
	outcome("!\t" SPEC "\t[remote rejected] (\033[31mhook declined)\n", &status);
	assert_string_equal(status.summary, "[remote rejected] (\\x1b[31mhook declined)");
}

static void ls_remote_takes_only_the_very_name(void **state)
{
	char tip[65];
	struct error err = {0};
	const char *good = OID "\trefs/x/" REF "\n" OID "\t" REF "\n",
		   *other = OID "\trefs/x/" REF "\n";

	(void)state;
	assert_int_equal(porcelain_ls_remote("", 0, REF, tip, &err), 0);
	assert_int_equal(porcelain_ls_remote(good, strlen(good), REF, tip, &err), 1);
	assert_string_equal(tip, OID);
	assert_int_equal(porcelain_ls_remote(other, strlen(other), REF, tip, &err), 0);
}

static void ls_remote_malformed_is_refused(void **state)
{
	static const char *const cases[] = {"\n",
					    "x\n",
					    OID,
					    OID "\n",
					    OID "\t" REF,
					    OID " " REF "\n",
					    "a\t" REF "\n",
					    OID "A\t" REF "\n",
					    "\t" REF "\n",
					    OID "\t" REF "\ngarbage\n",
					    OID "\n\t" REF "\n"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char tip[65];
		struct error err = {0};

		if (porcelain_ls_remote(cases[i], strlen(cases[i]), REF, tip, &err) !=
		    ERROR_FAILED)
			fail_msg("taken: %s", cases[i]);
	}
}

static void server_text_is_taken_out_of_the_rest(void **state)
{
	static const char text[] = "warning: x\nremote: hello   \nremote:\nremote:  "
				   "two\033[K\r\nfatal: y\n"
				   "error: remote unpack failed: no room\nremote: end";
	AUTO_STRBUF struct strbuf out = STRBUF_NONE;

	(void)state;
	strbuf_init(&out, 1024);
	porcelain_server_text(text, sizeof(text) - 1, &out);
	assert_string_equal(out.data, "hello\n\n two\033[K\nunpack failed: no room\nend\n");
}

static void expect_diagnosis(const char *url, const char *text, const char *words,
			     const char *next)
{
	struct remote remote;
	struct error err = {0};

	assert_int_equal(remote_parse(url, "/", &remote, &err), 0);
	assert_true(porcelain_diagnose(&remote, text, strlen(text), &err) < 0);
	if (!strstr(err.message, words) || !strstr(err.next, next))
		fail_msg("%s | %s", err.message, err.next);
	remote_release(&remote);
}

static void diagnosis_names_the_cause(void **state)
{
	(void)state;
	expect_diagnosis("https://h/x", "fatal: Authentication failed for 'https://h/x/'\n",
			 "refused the credential", "publish.token");
	expect_diagnosis(
	    "https://h/x",
	    "fatal: unable to access 'https://h/x/': SSL certificate problem: unable to get "
	    "local issuer certificate\n",
	    "certificate", "publish.ca");
	expect_diagnosis(
	    "https://h/x",
	    "fatal: unable to access 'https://h/x/': The requested URL returned error: 302\n",
	    "redirect", "URL");
	expect_diagnosis(
	    "ssh://u@h:9/x",
	    "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\r\nHost key verification "
	    "failed.\nfatal: Could not read from remote repository.\n",
	    "has changed", "[h]:9");
	expect_diagnosis(
	    "ssh://u@h/x",
	    "No ED25519 host key is known for h and you have requested strict checking.\n",
	    "no host key", "line for h ");
	expect_diagnosis("/x", "fatal: the remote end hung up unexpectedly\n",
			 "hung up unexpectedly", "");
	expect_diagnosis("/x", "", "without saying why", "");
}

static void diagnosis_is_not_steered_by_the_server(void **state)
{
	(void)state;
	expect_diagnosis(
	    "https://h/x",
	    "remote: Authentication failed\nfatal: the remote end hung up unexpectedly\n",
	    "hung up unexpectedly", "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(porcelain_each_status_is_told_apart),
	    cmocka_unit_test(porcelain_takes_two_refs_together),
	    cmocka_unit_test(porcelain_summary_is_escaped),
	    cmocka_unit_test(ls_remote_takes_only_the_very_name),
	    cmocka_unit_test(ls_remote_malformed_is_refused),
	    cmocka_unit_test(server_text_is_taken_out_of_the_rest),
	    cmocka_unit_test(diagnosis_names_the_cause),
	    cmocka_unit_test(diagnosis_is_not_steered_by_the_server),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
