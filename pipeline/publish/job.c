#include "job.h"

#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/text.h"
#include "pipeline/publish/ours.h"
#include "pipeline/publish/rules.h"

#define DEADLINE_MOST_S 86400

void publish_job_release(struct publish_job *job)
{
	remote_release(&job->remote);
	*job = (struct publish_job){.paths = NULL};
}

static int need_oid(const struct json *job, const char *key, const char **oid,
		    struct error *err)
{
	if (js_need_str(job, key, oid, err))
		return err->kind;
	if (!text_is_hex(*oid, 40))
		return error_set(err, ERROR_USAGE, "%s is not an object id of 40 digits", key);
	return 0;
}

/* What only a push needs. */
static int parse_commit(const struct json *job, struct publish_job *out, struct error *err)
{
	const struct json *author = js_get(job, "author");

	if (need_oid(job, "base_commit", &out->base_commit, err) ||
	    need_oid(job, "base_tree", &out->base_tree, err) ||
	    need_oid(job, "tree", &out->tree, err) ||
	    js_need_str(author, "name", &out->name, err) ||
	    js_need_str(author, "email", &out->email, err) ||
	    js_need_int(job, "time", 0, 1LL << 40, &out->time, err))
		return err->kind;
	if (js_is_string(js_get(job, "expect")) && need_oid(job, "expect", &out->expect, err))
		return err->kind;
	out->issue = js_str(job, "issue", NULL);
	if (out->issue && !text_is_hex(out->issue, OURS_ISSUE_DIGITS))
		return error_set(err, ERROR_USAGE, "issue is not a digest of %d digits",
				 OURS_ISSUE_DIGITS);
	out->sign = js_bool(job, "sign", false);
	out->attest = js_is_object(js_get(job, "attest")) ? js_get(job, "attest") : NULL;
	if (out->attest && !out->sign)
		return error_set(err, ERROR_USAGE, "an attestation without a signing key");
	return 0;
}

static int parse(const struct json *job, struct publish_job *out, struct error *err)
{
	static const char *const keys[] = {"paths",	  "remote",    "ref",	     "expect",
					   "base_commit", "base_tree", "tree",	     "author",
					   "time",	  "receipts",  "deadline_s", "sign",
					   "attest",	  "issue",     "ask",	     NULL};
	const struct json *remote = js_get(job, "remote");

	if (js_check_keys(job, keys, err))
		return err->kind;
	out->paths = js_get(job, "paths");
	out->receipts = js_get(job, "receipts");
	out->ca = js_str(out->paths, "ca", NULL);
	out->known_hosts = js_str(remote, "known_hosts", NULL);
	if (js_need_str(out->paths, "scratch", &out->scratch, err) ||
	    js_need_str(out->paths, "libexec", &out->libexec, err) ||
	    remote_from_json(remote, &out->remote, err) ||
	    js_need_str(job, "ref", &out->ref, err) || rules_check_ref(out->ref, err) ||
	    js_need_int(job, "deadline_s", 1, DEADLINE_MOST_S, &out->deadline_s, err))
		return err->kind;
	if (out->remote.kind == REMOTE_SSH && !out->remote.user)
		return error_set(err, ERROR_USAGE, "an ssh remote without a user");
	out->ask = js_bool(job, "ask", false);
	return out->ask ? 0 : parse_commit(job, out, err);
}

int publish_job_parse(const struct json *job, struct publish_job *parsed, struct error *err)
{
	*parsed = (struct publish_job){.paths = NULL};
	if (parse(job, parsed, err)) {
		publish_job_release(parsed);
		return error_wrap(err, "job");
	}
	return 0;
}
