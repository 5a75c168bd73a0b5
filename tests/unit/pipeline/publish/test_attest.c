/* The forms of attestations and signatures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gitops/commit.h"
#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/publish/attest.h"
#include "pipeline/publish/sshsig.h"

/* The example of the DSSE protocol, with our type. */
static void pae_counts_bytes(void **state)
{
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;
	(void)state;

	strbuf_init(&out, STRBUF_MAX);
	attest_pae("hello world", 11, &out);
	assert_string_equal(out.data, "DSSEv1 28 application/vnd.in-toto+json 11 hello world");
}

static void an_envelope_comes_back(void **state)
{
	struct strbuf payload AUTO_STRBUF = STRBUF_NONE, signature AUTO_STRBUF = STRBUF_NONE;
	AUTO_JSON struct json *envelope =
	    attest_envelope("{\"a\":1}", 7, "SHA256:x", "\0sig\xff", 5);
	struct error err = {0};
	(void)state;

	strbuf_init(&payload, STRBUF_MAX);
	strbuf_init(&signature, STRBUF_MAX);
	assert_int_equal(attest_open(envelope, &payload, &signature, &err), 0);
	assert_string_equal(payload.data, "{\"a\":1}");
	assert_int_equal(signature.len, 5);
	assert_memory_equal(signature.data, "\0sig\xff", 5);
}

static void malformed_envelopes_are_refused(void **state)
{
	static const char *const bad[] = {
	    "{}",
	    "[]",
	    "{\"payloadType\":\"application/vnd.in-toto+json\"}",
	    "{\"payloadType\":\"application/vnd.in-toto+json\",\"payload\":\"e30=\"}",
	    "{\"payloadType\":\"application/"
	    "vnd.in-toto+json\",\"payload\":\"e30=\",\"signatures\":[]}",
	    "{\"payloadType\":\"application/"
	    "vnd.in-toto+json\",\"payload\":\"e30=\",\"signatures\":[{}]}",
	    "{\"payloadType\":\"application/"
	    "vnd.in-toto+json\",\"payload\":\"e30=\",\"signatures\":[{\"sig\":"
	    "\"\"}]}",
	    "{\"payloadType\":\"application/"
	    "vnd.in-toto+json\",\"payload\":\"?\",\"signatures\":[{\"sig\":\"e30=\"}]}",
	    "{\"payloadType\":\"x\",\"payload\":\"e30=\",\"signatures\":[{\"sig\":\"e30=\"}]}",
	    "{\"payloadType\":7,\"payload\":7,\"signatures\":{\"sig\":\"e30=\"}}",
	};
	(void)state;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct error err = {0};
		struct strbuf payload AUTO_STRBUF = STRBUF_NONE,
				      signature AUTO_STRBUF = STRBUF_NONE;
		AUTO_JSON struct json *envelope =
		    js_parse(bad[i], strlen(bad[i]), 65536, "envelope", &err);

		assert_non_null(envelope);
		strbuf_init(&payload, STRBUF_MAX);
		strbuf_init(&signature, STRBUF_MAX);
		if (attest_open(envelope, &payload, &signature, &err) != ERROR_NO)
			fail_msg("accepted: %s", bad[i]);
	}
}

static void armour_comes_back(void **state)
{
	(void)state;
	for (size_t len = 1; len < 400; len += 13) {
		struct strbuf armour AUTO_STRBUF = STRBUF_NONE, back AUTO_STRBUF = STRBUF_NONE;
		char blob[400];

		for (size_t i = 0; i < len; i++)
			blob[i] = (char)(i * 7);
		strbuf_init(&armour, STRBUF_MAX);
		strbuf_init(&back, STRBUF_MAX);
		sshsig_armour(blob, len, &armour);
		assert_int_equal(sshsig_unarmour(armour.data, armour.len, &back), 0);
		assert_int_equal(back.len, len);
		assert_memory_equal(back.data, blob, len);
		assert_int_equal(sshsig_unarmour(armour.data, armour.len - 12, &back), -1);
		assert_int_equal(sshsig_unarmour(armour.data + 1, armour.len - 1, &back), -1);
	}
}

static void a_fingerprint_is_openssh_s(void **state)
{
	/* ssh-keygen -lf says so */
	static const char line[] =
	    "ssh-ed25519 "
	    "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl x\n";
	char print[64];
	(void)state;

	assert_int_equal(sshsig_fingerprint(line, strlen(line), print), 0);
	assert_string_equal(print, "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU");
	assert_int_equal(sshsig_fingerprint("x", 1, print), -1);
	assert_int_equal(sshsig_fingerprint("x ???", 5, print), -1);
	assert_int_equal(sshsig_fingerprint("", 0, print), -1);
}

static void a_signature_is_taken_out_of_a_commit(void **state)
{
	static const char plain_text[] =
	    "tree 0\nauthor a <a> 1 +0000\ncommitter a <a> 77 +0000\n\nm\ngpgsig x\n";
	struct strbuf plain AUTO_STRBUF = STRBUF_NONE, whole AUTO_STRBUF = STRBUF_NONE;
	struct strbuf again AUTO_STRBUF = STRBUF_NONE, signature AUTO_STRBUF = STRBUF_NONE;
	struct error err = {0};
	(void)state;

	strbuf_init(&plain, STRBUF_MAX);
	strbuf_init(&whole, STRBUF_MAX);
	strbuf_init(&again, STRBUF_MAX);
	strbuf_init(&signature, STRBUF_MAX);
	strbuf_adds(&plain, plain_text);
	assert_int_equal(commit_add_signature(&plain, "one\ntwo\n", &whole, &err), 0);
	assert_int_equal(
	    commit_split_signature(whole.data, whole.len, &again, &signature, &err), 0);
	assert_string_equal(again.data, plain_text);
	assert_string_equal(signature.data, "one\ntwo\n");
	assert_int_equal(commit_time(whole.data, whole.len), 77);
}

static void one_parent_is_found(void **state)
{
#define P "1111111111111111111111111111111111111111"
	static const struct {
		const char *bytes;
		int rc;
	} cases[] = {
	    {"tree 0\nparent " P "\nauthor a <a> 1 +0000\n\nparent x\n", 0},
	    {"tree 0\nparent " P "\nparent " P "\nauthor a <a> 1 +0000\n\n", -1},
	    {"tree 0\nauthor a <a> 1 +0000\n\nparent " P "\n", -1},
	    {"tree 0\nparent 11\n\n", -1},
	    {"", -1},
	    {"parent " P, 0},
	};
	char parent[GITOPS_OID_SIZE];
	(void)state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (commit_one_parent(cases[i].bytes, strlen(cases[i].bytes), parent) !=
		    cases[i].rc)
			fail_msg("case %zu", i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(pae_counts_bytes),
	    cmocka_unit_test(an_envelope_comes_back),
	    cmocka_unit_test(malformed_envelopes_are_refused),
	    cmocka_unit_test(armour_comes_back),
	    cmocka_unit_test(a_fingerprint_is_openssh_s),
	    cmocka_unit_test(a_signature_is_taken_out_of_a_commit),
	    cmocka_unit_test(one_parent_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
