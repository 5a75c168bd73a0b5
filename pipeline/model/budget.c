#include "budget.h"

#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/events.h"
#include "pipeline/model/conversation.h"
#include "pipeline/model/reply.h"
#include "pipeline/scrub.h"

/* The last answer that the server itself counted; NULL when there is none by this model. */
static const struct json *last_measure(const struct talk *talk, const char *model)
{
	for (size_t i = talk_len(talk); i > 0; i--) {
		const struct json *line = talk_at(talk, i - 1), *usage = js_get(line, "usage");

		if (strcmp(line_role(line), "assistant") != 0 || !js_is_object(usage))
			continue;
		if (js_bool(usage, "estimated", false) ||
		    !usage_count(usage, "request_bytes") ||
		    strcmp(js_str(line, "model", ""), model) != 0)
			return NULL;
		return usage;
	}
	return NULL;
}

long long budget_bound(const struct talk *talk, const char *model, size_t request_bytes,
		       long long max_output_tokens)
{
	const struct json *usage = last_measure(talk, model);
	long long bytes = (long long)request_bytes, counted, before;

	if (!usage)
		return bytes + BUDGET_OVERHEAD + max_output_tokens;
	before = usage_count(usage, "request_bytes");
	counted = usage_count(usage, "input") + usage_count(usage, "cache_read") +
		  usage_count(usage, "cache_write");
	if (before > bytes || counted == 0)
		return bytes + BUDGET_OVERHEAD + max_output_tokens;
	return counted + (bytes - before) + BUDGET_OVERHEAD + max_output_tokens;
}

int budget_reserve(long long tokens, struct error *err)
{
	struct json *answer AUTO_JSON = NULL, *ask = js_object_new();

	js_set_int(ask, "tokens", tokens);
	event_send("reserve", ask);
	answer = event_answer(err);
	if (!answer)
		return error_wrap(err, "budget");
	if (js_bool(answer, "granted", false))
		return 0;
	error_set(err, ERROR_FAILED, "budget: the next call may take %lld tokens: %s", tokens,
		  js_str(answer, "why", "not granted"));
	return error_next(err, "raise the cap under [budget], then: agent resume");
}

static long long by_size(size_t bytes)
{
	return (long long)(bytes / 3) + 1;
}

void budget_settle(struct usage *usage, const struct budget_sizes *sizes, bool began,
		   const struct scrub *scrub)
{
	struct json *event = js_object_new();
	long long written = by_size(sizes->reply_bytes);

	if (!usage->known && began) {
		/* a stream that was cut may have named its input already */
		if (usage->input + usage->cache_read + usage->cache_write == 0)
			usage->input = by_size(sizes->request_bytes);
		if (written > sizes->max_output_tokens)
			written = sizes->max_output_tokens;
		if (usage->output < written)
			usage->output = written;
	}
	usage_to_json(usage, event);
	if (!began)
		js_unset(event, "estimated");
	if (!js_get(event, "raw"))
		js_set(event, "raw", js_object_new());
	event_send("usage", scrub_json(scrub, event));
}
