/* Server-sent events in any pieces. */
#include "model_test.h"

#include "pipeline/model/sse.h"

static int note(void *arg, const char *name, const char *data, size_t len)
{
	assert_int_equal(strlen(data), len);
	strbuf_addf(arg, "%s=%s|", name, data);
	return 0;
}

/* The events of the bytes, for every place where they are cut in two. */
static void expect_events(const char *bytes, size_t len, const char *wanted)
{
	for (size_t cut = 0; cut <= len; cut++) {
		struct strbuf seen AUTO_STRBUF = STRBUF_NONE;
		struct sse sse;

		strbuf_init(&seen, STRBUF_MAX);
		sse_init(&sse, note, &seen);
		assert_int_equal(sse_feed(&sse, bytes, cut), 0);
		assert_int_equal(sse_feed(&sse, bytes + cut, len - cut), 0);
		assert_string_equal(seen.data, wanted);
		sse_release(&sse);
	}
}

#define EXPECT(bytes, wanted) expect_events(bytes, sizeof(bytes) - 1, wanted)

static void feed_events_are_the_same_for_every_cut(void **state)
{
	(void)state;
	EXPECT("event: a\ndata: 1\n\ndata: 2\n\n", "a=1|message=2|");
	EXPECT("event: a\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n", "a=1|message=2|");
	EXPECT("event: a\rdata: 1\r\rdata: 2\r\r", "a=1|message=2|");
	EXPECT("data: x\ndata: y\ndata\n\n", "message=x\ny\n|");
	EXPECT("data:no blank\n\ndata:  two blanks\n\n",
	       "message=no blank|message= two blanks|");
}

static void feed_passes_over_what_is_no_data(void **state)
{
	(void)state;
	EXPECT(": a comment\nid: 7\nretry: 3\nother: x\ndata: 1\n\n", "message=1|");
	EXPECT("event: lost\n\ndata: 1\n\n", "message=1|");
	EXPECT("\n\n\n", "");
	EXPECT("\xef\xbb\xbf"
	       "data: 1\n\n",
	       "message=1|");
	EXPECT("data: \xef\xbb\xbf\n\n", "message=\xef\xbb\xbf|");
}

static void feed_unfinished_event_is_not_given(void **state)
{
	struct strbuf seen AUTO_STRBUF = STRBUF_NONE;
	struct sse sse;

	(void)state;
	EXPECT("data: 1\n\ndata: 2\n", "message=1|");
	strbuf_init(&seen, STRBUF_MAX);
	sse_init(&sse, note, &seen);
	assert_int_equal(sse_feed(&sse, "data: 2\n", 8), 0);
	assert_string_equal(seen.data, "");
	assert_int_equal(sse_feed(&sse, "\n", 1), 0);
	assert_string_equal(seen.data, "message=2|");
	sse_release(&sse);
}

static void feed_endless_line_is_refused(void **state)
{
	static char block[65536];
	struct strbuf seen AUTO_STRBUF = STRBUF_NONE;
	struct sse sse;
	size_t fed = 0;
	int result = 0;

	(void)state;
	memset(block, 'x', sizeof(block));
	strbuf_init(&seen, STRBUF_MAX);
	sse_init(&sse, note, &seen);
	while (result == 0 && fed < 2 * (size_t)SSE_EVENT_MAX) {
		result = sse_feed(&sse, block, sizeof(block));
		fed += sizeof(block);
	}
	assert_int_equal(result, -1);
	assert_true(fed <= SSE_EVENT_MAX + 2 * sizeof(block));
	sse_release(&sse);
}

static void feed_endless_event_is_refused(void **state)
{
	static char line[65536];
	struct strbuf seen AUTO_STRBUF = STRBUF_NONE;
	struct sse sse;
	size_t fed = 0;
	int result = 0;

	(void)state;
	memset(line, 'x', sizeof(line));
	memcpy(line, "data: ", 6);
	line[sizeof(line) - 1] = '\n';
	strbuf_init(&seen, STRBUF_MAX);
	sse_init(&sse, note, &seen);
	while (result == 0 && fed < 2 * (size_t)SSE_EVENT_MAX) {
		result = sse_feed(&sse, line, sizeof(line));
		fed += sizeof(line);
	}
	assert_int_equal(result, -1);
	sse_release(&sse);
}

static int stop_at_two(void *arg, const char *name, const char *data, size_t len)
{
	(void)name;
	(void)len;
	++*(int *)arg;
	return strcmp(data, "2") == 0 ? 42 : 0;
}

static void feed_receiver_that_stops_is_obeyed(void **state)
{
	static const char bytes[] = "data: 1\n\ndata: 2\n\ndata: 3\n\n";
	struct sse sse;
	int count = 0;

	(void)state;
	sse_init(&sse, stop_at_two, &count);
	assert_int_equal(sse_feed(&sse, bytes, sizeof(bytes) - 1), 42);
	assert_int_equal(count, 2);
	sse_release(&sse);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(feed_events_are_the_same_for_every_cut),
	    cmocka_unit_test(feed_passes_over_what_is_no_data),
	    cmocka_unit_test(feed_unfinished_event_is_not_given),
	    cmocka_unit_test(feed_endless_line_is_refused),
	    cmocka_unit_test(feed_endless_event_is_refused),
	    cmocka_unit_test(feed_receiver_that_stops_is_obeyed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
