#include "attest.h"

#include <stdbool.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

static struct json *digest_of(const char *algorithm, const char *value)
{
	struct json *digest = js_object_new();

	js_set_str(digest, algorithm, value);
	return digest;
}

static struct json *subject(const char *name, const char *algorithm, const char *oid)
{
	struct json *entry = js_object_new();

	js_set_str(entry, "name", name);
	js_set(entry, "digest", digest_of(algorithm, oid));
	return entry;
}

/* A resource descriptor of the configuration that the test ran with. */
static struct json *resource(const char *name, const char *sha256)
{
	struct json *entry = js_object_new();

	js_set_str(entry, "name", name);
	if (sha256)
		js_set(entry, "digest", digest_of("sha256", sha256));
	return entry;
}

static struct json *configuration(const struct json *about)
{
	struct json *list = js_array_new(), *command = resource("test command", NULL);
	struct json *words = js_object_new();

	js_set_str(words, "command", js_str(about, "test_command", ""));
	js_set(command, "annotations", words);
	js_push(list, command);
	if (js_str(about, "deps", NULL))
		js_push(list, resource("dependency layer", js_str(about, "deps", "")));
	return list;
}

/* What our verifier re-derives or shows; consumers ignore fields that they do not know. */
static struct json *run_facts(const struct json *tree, const struct json *verdict,
			      const struct json *about)
{
	static const char *const copied[] = {"run",	"issue",   "model", "prompt",
					     "command", "created", "round", "tool"};
	static const char *const of_verdict[] = {"outcome", "value",	 "layers", "isolation",
						 "backend", "uid",	 "limits", "work",
						 "scratch", "elapsed_ms"};
	struct json *facts = js_object_new();

	for (size_t i = 0; i < ARRAY_LEN(copied); i++)
		if (js_get(about, copied[i]))
			js_set(facts, copied[i], js_copy(js_get(about, copied[i])));
	js_set_str(facts, "base_commit", js_str(tree, "base_commit", ""));
	js_set_str(facts, "base_tree", js_str(tree, "base_tree", ""));
	js_set(facts, "patch", digest_of("sha256", js_str(tree, "patch_sha256", "")));
	js_set_int(facts, "needs_review",
		   (long long)js_len(js_get(js_get(tree, "policy"), "review")));
	js_set_int(facts, "tests_say_less",
		   (long long)js_len(js_get(js_get(tree, "policy"), "tests")));
	struct json *jail = js_object_new();
	for (size_t i = 0; i < ARRAY_LEN(of_verdict); i++)
		if (js_get(verdict, of_verdict[i]))
			js_set(jail, of_verdict[i], js_copy(js_get(verdict, of_verdict[i])));
	js_set(facts, "jail", jail);
	return facts;
}

void attest_statement(const char *commit, const struct json *tree, const struct json *verdict,
		      const struct json *about, struct strbuf *out)
{
	struct json *statement AUTO_JSON = js_object_new(), *predicate = js_object_new();
	struct json *subjects = js_array_new(), *passed = js_array_new();

	js_set_str(statement, "_type", "https://in-toto.io/Statement/v1");
	js_push(subjects, subject("commit", "gitCommit", commit));
	js_push(subjects, subject("tree", "gitTree", js_str(tree, "tree", "")));
	js_set(statement, "subject", subjects);
	js_set_str(statement, "predicateType",
		   "https://in-toto.io/attestation/test-result/v0.1");
	js_set_str(predicate, "result", js_bool(verdict, "green", false) ? "PASSED" : "FAILED");
	js_set(predicate, "configuration", configuration(about));
	js_push_str(passed, "test command");
	js_set(predicate, "passedTests", passed);
	js_set(predicate, "agent", run_facts(tree, verdict, about));
	js_set(statement, "predicate", predicate);
	js_format_ascii(statement, out);
}

void attest_pae(const char *payload, size_t len, struct strbuf *out)
{
	strbuf_addf(out, "DSSEv1 %zu %s %zu ", strlen(ATTEST_PAYLOAD_TYPE), ATTEST_PAYLOAD_TYPE,
		    len);
	strbuf_add(out, payload, len);
}

struct json *attest_envelope(const char *payload, size_t len, const char *keyid,
			     const char *signature, size_t signature_len)
{
	struct json *envelope = js_object_new(), *list = js_array_new(), *one = js_object_new();
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&text, STRBUF_MAX);
	text_base64(&text, payload, len);
	js_set_str(envelope, "payload", text.data);
	js_set_str(envelope, "payloadType", ATTEST_PAYLOAD_TYPE);
	strbuf_reset(&text);
	text_base64(&text, signature, signature_len);
	js_set_str(one, "keyid", keyid);
	js_set_str(one, "sig", text.data);
	js_push(list, one);
	js_set(envelope, "signatures", list);
	return envelope;
}

static int unbase64(const char *text, struct strbuf *out)
{
	return text && text_unbase64(out, text, strlen(text)) == 0 && !out->full ? 0 : -1;
}

int attest_open(const struct json *envelope, struct strbuf *payload, struct strbuf *signature,
		struct error *err)
{
	const struct json *first = js_at(js_get(envelope, "signatures"), 0);

	if (strcmp(js_str(envelope, "payloadType", ""), ATTEST_PAYLOAD_TYPE) != 0)
		return error_set(err, ERROR_NO,
				 "the envelope's payload is no in-toto statement");
	if (unbase64(js_str(envelope, "payload", NULL), payload) < 0)
		return error_set(err, ERROR_NO, "the envelope's payload is damaged");
	if (js_len(js_get(envelope, "signatures")) != 1 ||
	    unbase64(js_str(first, "sig", NULL), signature) < 0 || !signature->len)
		return error_set(err, ERROR_NO, "the envelope does not have one signature");
	return 0;
}
