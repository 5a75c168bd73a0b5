/*
 * The attestation of a commit: an in-toto Statement v1 with the test-result predicate
 * (in-toto/attestation spec/v1/statement.md, spec/predicates/test-result.md) in a DSSE envelope
 * (secure-systems-lab/dsse, protocol.md and envelope.md), signed with an SSH key. Pure.
 *
 * It lies in the file "attestation.json" of a commit without a parent, under the create-only ref
 * refs/agent/attest/COMMIT: a ref for each commit, so that runs that race have nothing to merge.
 */
#ifndef PUBLISH_ATTEST_H
#define PUBLISH_ATTEST_H

#include <stddef.h>

struct error;
struct json;
struct strbuf;

#define ATTEST_REF "refs/agent/attest/"
#define ATTEST_FILE "attestation.json"
#define ATTEST_PAYLOAD_TYPE "application/vnd.in-toto+json"
#define ATTEST_MAX ((size_t)4 << 20) /* bytes of an envelope that is read */

/*
 * The statement's bytes (ASCII JSON), appended to out. about: what the supervisor knows of the
 * run (step_publish.c); tree and verdict: tree.json and verdict.json.
 */
void attest_statement(const char *commit, const struct json *tree, const struct json *verdict,
		      const struct json *about, struct strbuf *out);

/* What is signed: the pre-authentication encoding of type and payload, appended to out. */
void attest_pae(const char *payload, size_t len, struct strbuf *out);

/* The envelope: payload, and one signature as the blob within its armour; keyid is a
 * fingerprint. New. */
struct json *attest_envelope(const char *payload, size_t len, const char *keyid,
			     const char *signature, size_t signature_len);

/*
 * Takes an envelope apart: the payload's bytes and the first signature's blob are appended. 0;
 * ERROR_NO with what is malformed.
 */
int attest_open(const struct json *envelope, struct strbuf *payload, struct strbuf *signature,
		struct error *err);

#endif
