/*
 * The job of agent-model, as the supervisor writes it (FD_JOB), checked and with defaults
 * filled in.
 *
 *	{"paths":{"repo","common"?,"alternates"?,"ca"?},
 *	 "provider":{"kind":"anthropic"|"openai"|"replay","model":NAME,"host","port":N,"tls":bool,"path":"/v1"},
 *	 "base_commit":OID,"base_tree":OID,"round":N,"rounds":N,"title":TEXT,"feedback":TEXT|null,
 *	 "limits":{"max_output_tokens":N,"idle_ms":N,"call_ms":N,"response_bytes":N,"turns":N,"backoff_ms":N,
 *	           "files":N,"bytes":N},
 *	 "test_command":TEXT,"edits":"auto"|"tools"|"text"?}
 *
 * Every limit may be left out. call_ms is for one answer with all its tries and waits.
 */
#ifndef MODEL_JOB_H
#define MODEL_JOB_H

#include <stdbool.h>
#include <stddef.h>

struct error;
struct json;

struct model_limits {
	long long max_output_tokens; /* of one answer */
	long long idle_ms;	     /* longest silence of the provider */
	long long call_ms;	     /* longest wait for one answer */
	long long response_bytes;    /* largest answer, on the wire */
	long long turns;	     /* most answers a round */
	long long backoff_ms;	     /* first wait before a call is tried again */
	long long files, bytes; /* that the change may touch and write; 0: the view's own */
};

enum model_edits {
	EDITS_AUTO,  /* by tools; as text where the provider says that the model has none */
	EDITS_TOOLS, /* by tool calls */
	EDITS_TEXT,  /* by what it writes (pipeline/model/text_turn.h) */
};

/* Strings are borrowed from the JSON. */
struct model_job {
	const struct json *paths;
	const char *kind; /* "replay" or a provider's name */
	const char
	    *model; /* as the provider knows it; for replay what is recorded as the model */
	const char *host, *path;
	int port;
	bool tls;
	const char *base_commit, *base_tree;
	long long round, rounds; /* from 1 */
	const char *title;
	const char *feedback;	  /* NULL in round 1 */
	const char *test_command; /* NULL: not told */
	enum model_edits edits;
	struct model_limits limits;
};

/* 0, or ERROR_USAGE naming the member. */
int model_job_parse(const struct json *json, struct model_job *job, struct error *err);

#endif
