#include "replay.h"

#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/model/conversation.h"
#include "pipeline/model/reply.h"

static struct json *find_answer(const struct talk *recording, size_t skip)
{
	for (size_t i = 0; i < talk_len(recording); i++)
		if (strcmp(line_role(talk_at(recording, i)), "assistant") == 0 && skip-- == 0)
			return talk_at(recording, i);
	return NULL;
}

int replay_next(const struct talk *recording, const struct talk *talk, long long round,
		const char *model, struct json **line, struct error *err)
{
	size_t played = talk_count(talk, "assistant");
	const struct json *from = find_answer(recording, played);
	struct usage nothing = {.known = true};
	struct json *usage;
	const char *stop;

	if (!from) {
		error_set(err, ERROR_FAILED,
			  "replay: the recording ends after %zu answers and the model has not "
			  "submitted in round %lld",
			  talk_count(recording, "assistant"), round);
		return error_next(err,
				  "record more, or play it against the commit it was made for");
	}
	stop = js_str(from, "stop", line_calls(from) ? "tools" : "end");
	usage = js_object_new();
	usage_to_json(&nothing, usage);
	*line = line_new("assistant", round);
	js_set_str(*line, "stop", reply_stop_text(reply_stop_of(stop)));
	js_set(*line, "content", js_copy(line_content(from)));
	js_set_str(*line, "model", model);
	js_set(*line, "usage", usage);
	return 0;
}
