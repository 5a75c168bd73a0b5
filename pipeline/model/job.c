#include "job.h"

#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/text.h"

static int parse_limits(const struct json *json, struct model_limits *limits, struct error *err)
{
	const struct {
		const char *name;
		long long *where;
		long long fallback, least, most;
	} table[] = {
	    {"max_output_tokens", &limits->max_output_tokens, 16384, 16, 10000000},
	    {"idle_ms", &limits->idle_ms, 120000, 100, 86400000},
	    {"call_ms", &limits->call_ms, 900000, 100, 86400000},
	    {"response_bytes", &limits->response_bytes, 32 << 20, 1024, 1 << 30},
	    {"turns", &limits->turns, 80, 1, 10000},
	    {"backoff_ms", &limits->backoff_ms, 1000, 1, 60000},
	    {"files", &limits->files, 0, 0, 1000000},
	    {"bytes", &limits->bytes, 0, 0, 1LL << 40},
	};

	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		*table[i].where = table[i].fallback;
		if (!js_get(json, table[i].name))
			continue;
		if (js_need_int(json, table[i].name, table[i].least, table[i].most,
				table[i].where, err) < 0)
			return error_wrap(err, "limits");
	}
	return 0;
}

static int parse_provider(const struct json *json, struct model_job *job, struct error *err)
{
	long long port = 0;
	int result = js_need_str(json, "kind", &job->kind, err);

	if (result == 0)
		result = js_need_str(json, "model", &job->model, err);
	if (result == 0 && strcmp(job->kind, "replay") != 0) {
		result = js_need_str(json, "host", &job->host, err);
		if (result == 0)
			result = js_need_int(json, "port", 1, 65535, &port, err);
	}
	if (result < 0)
		return error_wrap(err, "provider");
	job->port = (int)port;
	job->path = js_str(json, "path", "");
	job->tls = js_bool(json, "tls", true);
	return 0;
}

static int parse_edits(const char *name, enum model_edits *edits, struct error *err)
{
	static const char *const names[] = {
	    [EDITS_AUTO] = "auto", [EDITS_TOOLS] = "tools", [EDITS_TEXT] = "text"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(name, names[i]) == 0) {
			*edits = (enum model_edits)i;
			return 0;
		}
	return error_set(err, ERROR_USAGE, "\"edits\" is none of auto, tools, text");
}

static int need_oid(const struct json *json, const char *key, const char **oid,
		    struct error *err)
{
	int result = js_need_str(json, key, oid, err);

	if (result == 0 && !text_is_hex(*oid, 40))
		return error_set(err, ERROR_USAGE, "\"%s\" is no object id", key);
	return result;
}

static int parse(const struct json *json, struct model_job *job, struct error *err)
{
	int result = 0;

	job->paths = js_get(json, "paths");
	job->title = js_str(json, "title", "");
	job->feedback = js_str(json, "feedback", NULL);
	job->test_command = js_str(json, "test_command", NULL);
	if (!js_is_object(job->paths))
		result = error_set(err, ERROR_USAGE, "\"paths\" is missing");
	if (result == 0)
		result = parse_provider(js_get(json, "provider"), job, err);
	if (result == 0)
		result = need_oid(json, "base_commit", &job->base_commit, err);
	if (result == 0)
		result = need_oid(json, "base_tree", &job->base_tree, err);
	if (result == 0)
		result = js_need_int(json, "round", 1, 1000, &job->round, err);
	if (result == 0)
		result = js_need_int(json, "rounds", job->round, 1000, &job->rounds, err);
	if (result == 0)
		result = parse_limits(js_get(json, "limits"), &job->limits, err);
	if (result == 0)
		result = parse_edits(js_str(json, "edits", "auto"), &job->edits, err);
	if (result == 0 && job->round > 1 && !job->feedback)
		result = error_set(err, ERROR_USAGE, "\"feedback\" is missing in round %lld",
				   job->round);
	return result;
}

int model_job_parse(const struct json *json, struct model_job *job, struct error *err)
{
	int result;

	memset(job, 0, sizeof(*job));
	result = parse(json, job, err);
	return result < 0 ? error_wrap(err, "job") : 0;
}
