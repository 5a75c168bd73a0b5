/*
 * A provider is a wire format: it makes request bytes from a conversation and events from
 * response bytes. No input or output here, so recorded bytes test it whole.
 */
#ifndef MODEL_PROVIDER_H
#define MODEL_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>

#include "pipeline/model/reply.h"
#include "pipeline/model/sse.h"

struct json;
struct strbuf;
struct talk;

/* What a server turned out not to take; learnt from its refusals (provider_learn). */
enum provider_quirk {
	QUIRK_COMPLETION_TOKENS = 1, /* "max_completion_tokens" in place of "max_tokens" */
	QUIRK_NO_STREAM_OPTIONS = 2, /* no "stream_options" */
};

struct provider_request {
	const struct talk *talk;
	const struct json *tools; /* tools_schema(); NULL: none are offered */
	const char *model;
	long long max_output_tokens;
	unsigned quirks; /* enum provider_quirk */
};

struct provider {
	const char *name;	    /* as in the job: "anthropic", "openai" */
	const char *endpoint;	    /* behind the base path and its version */
	bool base_is_versioned;	    /* a base path that is not empty has the version already */
	const char *key_header;	    /* the key is put right behind it */
	const char *const *headers; /* further ones; NULL-terminated */
	/* The whole request body, appended. */
	void (*request)(const struct provider_request *request, struct strbuf *body);
	/* One event of the stream. 0, or -1 when it is not what the format says. */
	int (*event)(struct reply *reply, const char *name, const char *data, size_t len);
	/* A whole answer that came as one JSON document though a stream was asked for. 0 or -1;
	 * NULL: not taken. */
	int (*whole)(struct reply *reply, const char *data, size_t len);
};

extern const struct provider provider_anthropic, provider_openai;

/*
 * The path to call for a base URL's path, appended. Habits differ: OpenAI's base URLs end in
 * the version
 * ("/v1", "/api/v1"), Anthropic's do not; one that is there is never doubled.
 */
void provider_path(const struct provider *provider, const char *base, struct strbuf *out);

/* NULL when there is none of that name ("replay" is none: see replay.h). */
const struct provider *provider_find(const char *name);

/*
 * A server refused a request with this message: whether sending it in another form is worth a
 * try. Sets the quirk; false when it is set already or nothing fits.
 */
bool provider_learn(const struct provider *provider, unsigned *quirks, const char *message);

/* A response under way. */
struct provider_stream {
	const struct provider *provider;
	struct sse sse;
	struct strbuf whole; /* application/json: the document so far */
	bool is_json;
	bool garbage;  /* something came that the format does not know */
	size_t events; /* seen so far */
	struct reply reply;
};

void provider_stream_init(struct provider_stream *stream, const struct provider *provider,
			  bool is_json);
void provider_stream_release(struct provider_stream *stream);
#define AUTO_STREAM __attribute__((cleanup(provider_stream_release)))

/* Bytes in any pieces. 0; -1 when it makes no sense to go on (garbage, overfull, a fault came).
 */
int provider_stream_feed(struct provider_stream *stream, const char *bytes, size_t len);
/* The transport ended in order. The reply is usable when stream->reply.done and nothing else is
 * set. */
void provider_stream_end(struct provider_stream *stream);

#endif
