#include "call.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/events.h"
#include "pipeline/model/budget.h"
#include "pipeline/model/fault.h"
#include "pipeline/http/http.h"
#include "pipeline/model/job.h"
#include "pipeline/model/provider.h"
#include "pipeline/scrub.h"

#define PROGRESS_MS 2000

/* One try. */
struct attempt {
	struct caller *caller;
	struct provider_stream stream;
	bool begun;	 /* headers of a 2xx came */
	bool wrong_type; /* neither an event stream nor JSON */
	size_t turn;
	long long shown_ms; /* when progress was last told */
};

static void attempt_release(struct attempt *attempt)
{
	provider_stream_release(&attempt->stream);
}
#define AUTO_ATTEMPT __attribute__((cleanup(attempt_release)))

/* ---- receiving ---- */

static int begin(void *arg, const struct http_result *result)
{
	struct attempt *attempt = arg;
	bool is_json = strcmp(result->content_type, "application/json") == 0;

	attempt->begun = true;
	if (!is_json && strcmp(result->content_type, "text/event-stream") != 0) {
		attempt->wrong_type = true;
		return -1;
	}
	provider_stream_release(&attempt->stream);
	provider_stream_init(&attempt->stream, attempt->caller->provider, is_json);
	return 0;
}

static int receive(void *arg, const char *bytes, size_t len)
{
	struct attempt *attempt = arg;
	long long now = fd_now_ms();
	int result = provider_stream_feed(&attempt->stream, bytes, len);

	if (now - attempt->shown_ms >= PROGRESS_MS && attempt->stream.reply.bytes) {
		attempt->shown_ms = now;
		event_progress("turn %zu: the model writes, %zu characters so far",
			       attempt->turn, attempt->stream.reply.bytes);
	}
	return result;
}

/* ---- what came of it ---- */

static void judge_transport(const struct attempt *attempt, const struct http_result *http,
			    struct fault *fault)
{
	static const enum fault_kind kinds[] = {
	    [HTTP_DONE] = FAULT_CUT,	    [HTTP_STOPPED] = FAULT_GARBAGE,
	    [HTTP_CONNECT] = FAULT_CONNECT, [HTTP_TLS] = FAULT_TLS,
	    [HTTP_CUT] = FAULT_CUT,	    [HTTP_SILENCE] = FAULT_SILENCE,
	    [HTTP_DEADLINE] = FAULT_SLOW,   [HTTP_TOO_BIG] = FAULT_TOO_BIG,
	    [HTTP_LOCAL] = FAULT_LOCAL,	    [HTTP_ALIEN] = FAULT_GARBAGE,
	};
	const struct model_limits *limits = &attempt->caller->job->limits;
	char text[600];

	snprintf(text, sizeof(text), "%s", http->why);
	if (http->end == HTTP_DONE)
		snprintf(text, sizeof(text),
			 http->bytes ? "the stream ended within the answer"
				     : "the answer was empty");
	else if (http->end == HTTP_SILENCE)
		snprintf(text, sizeof(text), "silent for %lld ms", limits->idle_ms);
	else if (http->end == HTTP_DEADLINE)
		snprintf(text, sizeof(text), "not done within %lld ms", limits->call_ms);
	else if (http->end == HTTP_TOO_BIG)
		snprintf(text, sizeof(text), "more than %lld bytes, or headers without end",
			 limits->response_bytes);
	fault_of_kind(fault, kinds[http->end], text, attempt->caller->scrub);
}

static void judge_redirect(const struct http_result *http, const struct scrub *scrub,
			   struct fault *fault)
{
	char text[600];

	snprintf(text, sizeof(text), "it sends us to %s",
		 http->location[0] ? http->location : "another address");
	fault_of_kind(fault, FAULT_REDIRECT, text, scrub);
	fault->status = http->status;
}

/* FAULT_NONE when the answer can be used. */
static void judge(struct attempt *attempt, const struct http_result *http, struct fault *fault)
{
	const struct scrub *scrub = attempt->caller->scrub;
	struct reply *reply = &attempt->stream.reply;
	char text[128];

	memset(fault, 0, sizeof(*fault));
	if (http->end == HTTP_DONE && http->status >= 300 && http->status < 400) {
		judge_redirect(http, scrub, fault);
	} else if (http->end == HTTP_DONE && http->status &&
		   (http->status < 200 || http->status > 299)) {
		fault_of_status(fault, http->status, http->error_body.data,
				http->error_body.len, http->retry_after_s, scrub);
	} else if (attempt->wrong_type) {
		snprintf(text, sizeof(text), "its content type is \"%s\"", http->content_type);
		fault_of_kind(fault, FAULT_ADDRESS, text, scrub);
		fault->status = http->status;
	} else if (reply->fault_type[0]) {
		fault_of_stream(fault, reply->fault_type, reply->fault_message, scrub);
	} else if (reply->overfull) {
		fault_of_kind(fault, FAULT_TOO_BIG,
			      "more text or blocks than one answer may have", scrub);
	} else if (attempt->stream.garbage) {
		fault_of_kind(fault, FAULT_GARBAGE, "malformed event", scrub);
	} else if (reply->stop == STOP_NONE) {
		/* what broke off behind the stop reason lacks nothing but its end */
		judge_transport(attempt, http, fault);
		if (http->end == HTTP_DONE && http->bytes && !attempt->stream.events)
			fault_of_kind(fault, FAULT_GARBAGE, "there is no event in it", scrub);
	}
}

/* ---- one try ---- */

static void try_once(struct attempt *attempt, const struct strbuf *body, long long deadline_ms,
		     struct fault *fault)
{
	struct caller *caller = attempt->caller;
	struct http_result http AUTO_HTTP_RESULT = {0};
	struct strbuf path AUTO_STRBUF = STRBUF_NONE;
	struct http_request request = {
	    .headers = caller->provider->headers,
	    .key_header = caller->provider->key_header,
	    .key = caller->key,
	    .body = body->data,
	    .len = body->len,
	    .deadline_ms = deadline_ms,
	    .begin = begin,
	    .data = receive,
	    .arg = attempt,
	};
	struct budget_sizes sizes = {.request_bytes = body->len,
				     .max_output_tokens =
					 caller->job->limits.max_output_tokens};
	bool began;

	strbuf_init(&path, STRBUF_MAX);
	provider_path(caller->provider, caller->job->path, &path);
	request.path = path.data;
	http_send(caller->http, &request, &http);
	provider_stream_end(&attempt->stream);
	judge(attempt, &http, fault);
	/* silence behind a request that was read may have been charged as well */
	began = fault->kind == FAULT_NONE || fault_costs(fault->kind) ||
		(attempt->begun && !attempt->wrong_type);
	sizes.reply_bytes = attempt->stream.reply.bytes;
	budget_settle(&attempt->stream.reply.usage, &sizes, began, caller->scrub);
}

static unsigned random16(void)
{
	uint16_t value = 0;

	if (getrandom(&value, sizeof(value), GRND_NONBLOCK) != (ssize_t)sizeof(value))
		return 0x8000;
	return value;
}

static void pause_ms(long long ms)
{
	long long until = fd_now_ms() + ms, left;

	while ((left = until - fd_now_ms()) > 0)
		poll(NULL, 0, left > 1000 ? 1000 : (int)left);
}

/* Whether to try again, after the wait. tries: made so far. */
static bool wait_for_retry(const struct caller *caller, const struct fault *fault,
			   unsigned tries, long long until_ms)
{
	long long wait =
	    fault_wait_ms(fault, tries + 1, caller->job->limits.backoff_ms, random16());
	char brief[128];

	if (tries >= fault_tries(fault->kind) || fd_now_ms() + wait >= until_ms)
		return false;
	fault_brief(fault, brief, sizeof(brief));
	event_progress("%s: trying again in %lld.%lld s (%u of %u)", brief, wait / 1000,
		       wait % 1000 / 100, tries + 1, fault_tries(fault->kind));
	pause_ms(wait);
	return true;
}

static int give_up(const struct caller *caller, const struct fault *fault, unsigned tries,
		   struct error *err)
{
	struct fault_context context = {
	    .provider = caller->provider->name,
	    .model = caller->job->model,
	    .host = caller->job->host,
	    .has_key = caller->key != NULL,
	    .tries = tries,
	};

	return fault_error(fault, &context, err);
}

static struct json *finished_line(struct attempt *attempt, size_t request_bytes)
{
	struct caller *caller = attempt->caller;
	struct json *usage = js_object_new();
	struct json *line = reply_to_line(&attempt->stream.reply, caller->provider->name,
					  caller->job->round, attempt->turn);

	usage_to_json(&attempt->stream.reply.usage, usage);
	js_set_int(usage, "request_bytes", (long long)request_bytes);
	js_set_str(line, "model", caller->model);
	js_set(line, "usage", usage);
	return line;
}

static void make_body(const struct caller *caller, const struct talk *talk, struct strbuf *body)
{
	struct provider_request request = {
	    .talk = talk,
	    .tools = caller->tools,
	    .model = caller->job->model,
	    .max_output_tokens = caller->job->limits.max_output_tokens,
	    .quirks = caller->quirks,
	};

	caller->provider->request(&request, body);
}

/* One try with what is known of the server. 0 (look at fault), or an error of ours. */
static int reserve_and_try(struct caller *caller, const struct talk *talk, size_t turn,
			   long long until_ms, struct fault *fault, struct json **line,
			   struct error *err)
{
	const struct model_limits *limits = &caller->job->limits;
	struct attempt attempt AUTO_ATTEMPT = {
	    .caller = caller, .turn = turn, .shown_ms = fd_now_ms()};
	struct strbuf body AUTO_STRBUF = STRBUF_NONE;
	int result;

	strbuf_init(&body, STRBUF_MAX);
	provider_stream_init(&attempt.stream, caller->provider, false);
	make_body(caller, talk, &body);
	if (body.full)
		return error_set(err, ERROR_FAILED, "the conversation is too large to send");
	result = budget_reserve(
	    budget_bound(talk, caller->model, body.len, limits->max_output_tokens), err);
	if (result < 0)
		return result;
	try_once(&attempt, &body, until_ms - fd_now_ms(), fault);
	if (fault->kind == FAULT_NONE)
		*line = finished_line(&attempt, body.len);
	return 0;
}

int call_model(struct caller *caller, const struct talk *talk, size_t turn, struct json **line,
	       struct error *err)
{
	long long until = fd_now_ms() + caller->job->limits.call_ms;

	for (unsigned tries = 1;; tries++) {
		struct fault fault = {.kind = FAULT_NONE};
		int result = reserve_and_try(caller, talk, turn, until, &fault, line, err);

		if (result < 0 || fault.kind == FAULT_NONE)
			return result;
		if (fault.kind == FAULT_REQUEST &&
		    provider_learn(caller->provider, &caller->quirks, fault.detail))
			continue;
		caller->toolless = fault.kind == FAULT_TOOLS;
		if (!wait_for_retry(caller, &fault, tries, until))
			return give_up(caller, &fault, tries, err);
	}
}
