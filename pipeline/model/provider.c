#include "provider.h"

#include <string.h>

#include "pipeline/base/mem.h"

static const struct provider *const providers[] = {&provider_anthropic, &provider_openai};

const struct provider *provider_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(providers); i++)
		if (strcmp(providers[i]->name, name) == 0)
			return providers[i];
	return NULL;
}

void provider_path(const struct provider *provider, const char *base, struct strbuf *out)
{
	static const char version[] = "/v1";
	size_t len = strlen(base), tail = sizeof(version) - 1;
	bool there = len >= tail && strcmp(base + len - tail, version) == 0;

	strbuf_adds(out, base);
	if (!there && !(provider->base_is_versioned && len))
		strbuf_adds(out, version);
	strbuf_adds(out, provider->endpoint);
}

bool provider_learn(const struct provider *provider, unsigned *quirks, const char *message)
{
	static const struct {
		const char *word; /* occurs in the refusal */
		enum provider_quirk quirk;
	} lessons[] = {
	    /* OpenAI: "Unsupported parameter: 'max_tokens' … Use 'max_completion_tokens'
	       instead." */
	    {"max_completion_tokens", QUIRK_COMPLETION_TOKENS},
	    /* strict servers: "extra inputs are not permitted: stream_options" */
	    {"stream_options", QUIRK_NO_STREAM_OPTIONS},
	};

	if (provider != &provider_openai)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(lessons); i++) {
		if (!strstr(message, lessons[i].word) || (*quirks & lessons[i].quirk))
			continue;
		*quirks |= lessons[i].quirk;
		return true;
	}
	return false;
}

static int take_event(void *arg, const char *name, const char *data, size_t len)
{
	struct provider_stream *stream = arg;

	stream->events++;
	if (stream->provider->event(&stream->reply, name, data, len) < 0) {
		stream->garbage = true;
		return 1;
	}
	return stream->reply.overfull || stream->reply.fault_type[0] ? 1 : 0;
}

void provider_stream_init(struct provider_stream *stream, const struct provider *provider,
			  bool is_json)
{
	memset(stream, 0, sizeof(*stream));
	stream->provider = provider;
	stream->is_json = is_json;
	sse_init(&stream->sse, take_event, stream);
	strbuf_init(&stream->whole, REPLY_BYTES_MAX);
	reply_init(&stream->reply);
}

void provider_stream_release(struct provider_stream *stream)
{
	sse_release(&stream->sse);
	strbuf_release(&stream->whole);
	reply_release(&stream->reply);
}

int provider_stream_feed(struct provider_stream *stream, const char *bytes, size_t len)
{
	int result;

	if (stream->garbage || stream->reply.overfull || stream->reply.fault_type[0])
		return -1;
	if (stream->is_json) {
		if (strbuf_add(&stream->whole, bytes, len) == 0)
			return 0;
		stream->reply.overfull = true;
		return -1;
	}
	result = sse_feed(&stream->sse, bytes, len);
	if (result < 0)
		stream->reply.overfull = true;
	return result ? -1 : 0;
}

void provider_stream_end(struct provider_stream *stream)
{
	if (!stream->is_json || stream->reply.overfull)
		return;
	if (!stream->provider->whole ||
	    stream->provider->whole(&stream->reply, stream->whole.data, stream->whole.len) < 0)
		stream->garbage = true;
}
