/* What the tests of the model stage share. */
#ifndef TESTS_MODEL_TEST_H
#define TESTS_MODEL_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/model/conversation.h"
#include "pipeline/model/provider.h"

/* The text with ' for ", so that JSON stands readable in C; the caller frees. */
static inline char *quoted(const char *text)
{
	char *copy = mem_strdup(text);

	for (char *p = copy; *p; p++)
		if (*p == '\'')
			*p = '"';
	return copy;
}

static inline struct json *parse(const char *text)
{
	char *copy AUTO_FREE = quoted(text);
	struct error err = {0};
	struct json *json = js_parse(copy, strlen(copy), 1 << 20, "test", &err);

	if (!json)
		fail_msg("%s: %s", err.message, text);
	return json;
}

static inline void expect_json(const struct json *have, const char *wanted)
{
	struct json *want AUTO_JSON = parse(wanted);
	struct strbuf a AUTO_STRBUF = STRBUF_NONE, b AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&a, STRBUF_MAX);
	strbuf_init(&b, STRBUF_MAX);
	js_format(have, &a);
	js_format(want, &b);
	assert_string_equal(a.data, b.data);
}

/* A conversation of these lines (NULL-terminated), in memory. */
static inline struct talk *talk_of(const char *const *lines)
{
	struct talk *talk = talk_new();
	struct error err = {0};

	for (; *lines; lines++)
		assert_int_equal(talk_append(talk, parse(*lines), &err), 0);
	return talk;
}

/* The request that a provider makes of a conversation. */
static inline struct json *request_of(const struct provider *provider, const char *const *lines,
				      unsigned quirks)
{
	struct talk *talk AUTO_TALK = talk_of(lines);
	struct json *tools AUTO_JSON =
	    parse("[{'name':'look','description':'Look.','parameters':{'type':'object'}}]");
	struct provider_request request = {.talk = talk,
					   .tools = tools,
					   .model = "m",
					   .max_output_tokens = 99,
					   .quirks = quirks};
	struct strbuf body AUTO_STRBUF = STRBUF_NONE;
	struct error err = {0};
	struct json *json;

	strbuf_init(&body, STRBUF_MAX);
	provider->request(&request, &body);
	json = js_parse(body.data, body.len, STRBUF_MAX, "request", &err);
	assert_non_null(json);
	return json;
}

/* The assistant line of a stream that comes in two pieces, cut at the offset. */
static inline struct json *line_of(const struct provider *provider, const char *bytes,
				   size_t len, size_t cut, bool whole)
{
	struct provider_stream stream AUTO_STREAM = {.provider = NULL};
	struct json *line;

	provider_stream_init(&stream, provider, whole);
	assert_int_equal(provider_stream_feed(&stream, bytes, cut), 0);
	assert_int_equal(provider_stream_feed(&stream, bytes + cut, len - cut), 0);
	provider_stream_end(&stream);
	assert_false(stream.garbage);
	assert_false(stream.reply.overfull);
	assert_string_equal(stream.reply.fault_type, "");
	line = reply_to_line(&stream.reply, provider->name, 1, 1);
	usage_to_json(&stream.reply.usage, line);
	return line;
}

/* Every cut of the stream gives the same line. */
static inline void expect_line(const struct provider *provider, const char *stream,
			       const char *wanted)
{
	char *bytes AUTO_FREE = quoted(stream);
	size_t len = strlen(bytes);

	for (size_t cut = 0; cut <= len; cut++) {
		struct json *line AUTO_JSON = line_of(provider, bytes, len, cut, false);

		expect_json(line, wanted);
	}
}

/* Byte by byte: what becomes of a stream that is no answer. */
static inline void feed_slowly(struct provider_stream *stream, const struct provider *provider,
			       const char *text)
{
	char *bytes AUTO_FREE = quoted(text);

	provider_stream_init(stream, provider, false);
	for (const char *p = bytes; *p; p++)
		if (provider_stream_feed(stream, p, 1) < 0)
			break;
	provider_stream_end(stream);
}

#endif
