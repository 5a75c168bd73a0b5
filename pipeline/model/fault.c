#include "fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/scrub.h"

#define BODY_MAX 65536
#define WAIT_MOST_MS 60000

/* ---- the table ---- */

static const struct {
	const char *what; /* behind "anthropic at HOST: " */
	const char *next;
	unsigned tries;
	int error;
	bool costs;
} rules[FAULT_COUNT] = {
    [FAULT_KEY] = {"the model key was refused",
		   "check the key: [model] key, or the variable that "
		   "holds it",
		   1, ERROR_FAILED, false},
    [FAULT_QUOTA] = {"the account's quota is exhausted",
		     "add credit or raise the spending limit at "
		     "the provider, then: agent resume",
		     1, ERROR_FAILED, false},
    [FAULT_MODEL] = {"unknown model", "name one that the provider has: --model PROVIDER:NAME",
		     1, ERROR_USAGE, false},
    [FAULT_TOOLS] = {"no tool calls with model", "choose one that does: --model PROVIDER:NAME",
		     1, ERROR_USAGE, false},
    [FAULT_TOO_LONG] = {"the conversation does not fit the model's context window",
			"choose a model with "
			"a larger one, or make the issue smaller",
			1, ERROR_FAILED, false},
    [FAULT_REQUEST] = {"the request was refused", "the run is saved; agent resume tries again",
		       1, ERROR_FAILED, false},
    [FAULT_ADDRESS] = {"nothing there answers to this provider's requests",
		       "check [model] baseUrl", 1, ERROR_USAGE, false},
    [FAULT_REDIRECT] = {"redirects are not followed",
			"if that is the right place, set it as [model] "
			"baseUrl",
			1, ERROR_FAILED, false},
    [FAULT_RATE] = {"too many requests", "try later: agent resume", 8, ERROR_LATER, false},
    [FAULT_BUSY] = {"the provider is overloaded or broken", "try later: agent resume", 5,
		    ERROR_LATER, false},
    [FAULT_CONNECT] = {"no connection",
		       "check the network and [model] baseUrl, then: agent resume", 3,
		       ERROR_FAILED, false},
    [FAULT_TLS] = {"no trusted connection",
		   "if the server's certificate is from an authority of your own, "
		   "name its bundle: [http] ca",
		   1, ERROR_FAILED, false},
    [FAULT_CUT] = {"the answer broke off", "the run is saved; agent resume tries again", 4,
		   ERROR_FAILED, true},
    [FAULT_GARBAGE] = {"the answer is not what this provider's format says",
		       "check that [model] name and "
		       "baseUrl fit together",
		       2, ERROR_FAILED, true},
    [FAULT_SILENCE] = {"no answer",
		       "the run is saved; agent resume tries again ([model] idleTimeout)", 2,
		       ERROR_FAILED, true},
    [FAULT_SLOW] = {"the call took too long", "raise [model] callTimeout, then: agent resume",
		    1, ERROR_FAILED, true},
    [FAULT_TOO_BIG] = {"the answer is larger than allowed",
		       "the run is saved; agent resume tries again", 1, ERROR_FAILED, true},
    [FAULT_LOCAL] = {"the call could not be made", "the run is saved; agent resume tries again",
		     1, ERROR_FAILED, false},
};

unsigned fault_tries(enum fault_kind kind)
{
	return rules[kind].tries;
}

bool fault_costs(enum fault_kind kind)
{
	return rules[kind].costs;
}

long long fault_wait_ms(const struct fault *fault, unsigned next, long long base_ms,
			unsigned random)
{
	long long wait = base_ms;

	if (fault->retry_after_s >= 0)
		return (long long)fault->retry_after_s * 1000;
	for (unsigned i = 2; i < next && wait < WAIT_MOST_MS; i++)
		wait *= 2;
	if (wait > WAIT_MOST_MS)
		wait = WAIT_MOST_MS;
	return wait - wait / 2 * (long long)(random & 0xffff) / 0x10000;
}

/* ---- telling apart ---- */

static bool says(const char *text, const char *const *words)
{
	for (; *words; words++)
		if (strcasestr(text, *words))
			return true;
	return false;
}

static bool means_model(const char *type, const char *message)
{
	static const char *const types[] = {"model_not_found", NULL};
	static const char *const words[] = {
	    "not found",     "does not exist", "not a valid model", "no such model",
	    "unknown model", "invalid model",  "model_not_found",   NULL};

	if (says(type, types))
		return true;
	/* Anthropic: type not_found_error, message "model: NAME" */
	if (strcmp(type, "not_found_error") == 0 && strncmp(message, "model", 5) == 0)
		return true;
	return strcasestr(message, "model") && says(message, words);
}

static bool means_quota(const char *type, const char *message, long retry_after_s)
{
	static const char *const types[] = {"insufficient_quota", "billing",
					    "insufficient_credit", NULL};
	static const char *const words[] = {
	    "credit balance", "insufficient credits", "spend limit", "spending limit",
	    "usage limits",   "insufficient balance", NULL};
	static const char *const vague[] = {"exceeded your current quota", NULL};

	/* the vague words are also said of a limit a minute: then with a time to wait */
	return says(type, types) || says(message, words) ||
	       (retry_after_s < 0 && says(message, vague));
}

static enum fault_kind kind_of_refusal(int status, const char *type, const char *message)
{
	static const char *const tools[] = {"does not support tools",
					    "support tool use",
					    "does not support function",
					    "tool use is not supported",
					    "tools are not supported",
					    "tool choice requires",
					    NULL};
	static const char *const too_long[] = {"prompt is too long", "context length",
					       "context window",     "context_length_exceeded",
					       "context size",	     "request_too_large",
					       "too many tokens",    "context limit",
					       "input is too long",  NULL};
	static const char *const key[] = {"api key not valid", "invalid api key",
					  "invalid_api_key", "invalid x-api-key", NULL};

	if (means_quota(type, message, 0))
		return FAULT_QUOTA;
	if (says(message, tools))
		return FAULT_TOOLS;
	if (status == 413 || says(type, too_long) || says(message, too_long))
		return FAULT_TOO_LONG;
	if (means_model(type, message))
		return FAULT_MODEL;
	if (says(type, key) || says(message, key))
		return FAULT_KEY;
	if (status == 404 || status == 405)
		return FAULT_ADDRESS;
	return FAULT_REQUEST;
}

static enum fault_kind kind_of(int status, const char *type, const char *message,
			       long retry_after_s)
{
	if (status == 401 || status == 403)
		return FAULT_KEY;
	if (status == 402)
		return FAULT_QUOTA;
	if (status == 429)
		return means_quota(type, message, retry_after_s) ? FAULT_QUOTA : FAULT_RATE;
	if (status >= 300 && status < 400)
		return FAULT_REDIRECT;
	if (status >= 500 || status == 408 || status == 409 || status == 425)
		return FAULT_BUSY;
	return kind_of_refusal(status, type, message);
}

static void set_detail(struct fault *fault, const char *text, const struct scrub *scrub)
{
	struct strbuf clean AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&clean, BODY_MAX);
	scrub_text(scrub, text, strlen(text), &clean);
	text_escape(fault->detail, sizeof(fault->detail), clean.data, clean.len);
}

/* The error object of a body: {"error":{…}}, {"error":"text"}, {"message"}, {"detail"}. */
static void read_body(struct json *root, const char **type, const char **message)
{
	const struct json *fault = js_get(root, "error");

	if (js_is_array(root))
		fault = js_get(js_at(root, 0), "error");
	if (js_is_string(fault)) {
		*message = js_text(fault);
		return;
	}
	if (!js_is_object(fault))
		fault = root;
	*type = js_str(fault, "code", js_str(fault, "type", ""));
	*message = js_str(fault, "message", js_str(fault, "detail", ""));
	if (!(*message)[0] && js_is_object(fault))
		*message = js_str(fault, "error", "");
}

void fault_of_status(struct fault *fault, int status, const char *body, size_t len,
		     long retry_after_s, const struct scrub *scrub)
{
	struct error why = {0};
	struct json *root AUTO_JSON = js_parse(body, len, BODY_MAX, "body", &why);
	const char *type = "", *message = "";

	memset(fault, 0, sizeof(*fault));
	if (root)
		read_body(root, &type, &message);
	fault->status = status;
	fault->retry_after_s = retry_after_s;
	fault->kind = kind_of(status, type, message, retry_after_s);
	set_detail(fault, message[0] ? message : type, scrub);
}

void fault_of_stream(struct fault *fault, const char *type, const char *message,
		     const struct scrub *scrub)
{
	static const struct {
		const char *type;
		int status;
	} types[] = {
	    {"overloaded_error", 529},	   {"api_error", 500},
	    {"timeout_error", 504},	   {"server_error", 500},
	    {"internal_error", 500},	   {"rate_limit_error", 429},
	    {"rate_limit_exceeded", 429},  {"insufficient_quota", 429},
	    {"authentication_error", 401}, {"permission_error", 403},
	    {"billing_error", 402},	   {"not_found_error", 404},
	    {"request_too_large", 413},	   {"invalid_request_error", 400},
	};
	int status = (int)strtol(type, NULL, 10);

	memset(fault, 0, sizeof(*fault));
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (strcmp(types[i].type, type) == 0)
			status = types[i].status;
	/* a server that begins an answer and then fails in its own words is broken, not
	 * refusing */
	fault->status = status >= 400 && status < 600 ? status : 500;
	fault->retry_after_s = -1;
	fault->kind = kind_of(fault->status, type, message, -1);
	set_detail(fault, message[0] ? message : type, scrub);
}

void fault_of_kind(struct fault *fault, enum fault_kind kind, const char *detail,
		   const struct scrub *scrub)
{
	memset(fault, 0, sizeof(*fault));
	fault->kind = kind;
	fault->retry_after_s = -1;
	set_detail(fault, detail, scrub);
}

/* ---- saying it ---- */

void fault_brief(const struct fault *fault, char *text, size_t size)
{
	if (fault->status)
		snprintf(text, size, "%s (%d)", rules[fault->kind].what, fault->status);
	else
		snprintf(text, size, "%s", rules[fault->kind].what);
}

int fault_error(const struct fault *fault, const struct fault_context *context,
		struct error *err)
{
	static const char *const output_limit[] = {"max_tokens", "max_completion_tokens",
						   "output tokens", NULL};
	char status[16] = "", tries[32] = "", wait[64] = "", named[256] = "";
	bool names_model = fault->kind == FAULT_MODEL || fault->kind == FAULT_TOOLS;

	if (fault->status)
		snprintf(status, sizeof(status), " (%d)", fault->status);
	if (context->tries > 1)
		snprintf(tries, sizeof(tries), ", %u tries", context->tries);
	if (fault->retry_after_s > 0)
		snprintf(wait, sizeof(wait), "; it asks to wait %ld s", fault->retry_after_s);
	if (names_model) {
		char shown[200];

		text_escape(shown, sizeof(shown), context->model, strlen(context->model));
		snprintf(named, sizeof(named), " \"%s\"", shown);
	}
	error_set(err, (enum error_kind)rules[fault->kind].error, "%s at %s: %s%s%s%s%s%s%s",
		  context->provider, context->host, rules[fault->kind].what, named, status,
		  tries, wait, fault->detail[0] ? ": " : "", fault->detail);
	if (fault->kind == FAULT_KEY && !context->has_key)
		return error_next(
		    err, "no key was given: set [model] key, or the variable that holds "
			 "it");
	if (fault->kind == FAULT_REQUEST && says(fault->detail, output_limit))
		return error_next(err, "lower [model] maxOutputTokens, then: agent resume");
	return error_next(err, "%s", rules[fault->kind].next);
}
