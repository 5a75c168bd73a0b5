/* Foreign text cannot leave its frame. */
#include "model_test.h"

#include "pipeline/model/job.h"
#include "pipeline/model/prompt.h"

static size_t count(const char *text, const char *part)
{
	size_t n = 0;

	for (; (text = strstr(text, part)); text++)
		n++;
	return n;
}

static void frame_end_cannot_be_forged(void **state)
{
	struct strbuf first AUTO_STRBUF = STRBUF_NONE, second AUTO_STRBUF = STRBUF_NONE;
	char *end;

	(void)state;
	strbuf_init(&first, STRBUF_MAX);
	strbuf_init(&second, STRBUF_MAX);
	prompt_frame("ISSUE", "text", 4, &first);
	/* a text that holds the whole frame of another one */
	prompt_frame("ISSUE", first.data, first.len, &second);
	end = strstr(first.data, "END ISSUE");
	assert_non_null(end);
	assert_int_equal(count(second.data, end), 1);
	end = strstr(second.data, "----- BEGIN ISSUE ") + strlen("----- BEGIN ISSUE ");
	end = mem_strndup(end, 16);
	assert_int_equal(count(second.data, end), 2); /* its own two lines */
	free(end);
}

static void frame_keeps_bytes_and_ends_with_a_newline(void **state)
{
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;

	(void)state;
	strbuf_init(&out, STRBUF_MAX);
	prompt_frame("X", "a\n\nb\n", 5, &out);
	assert_non_null(strstr(out.data, "-----\na\n\nb\n-----"));
	strbuf_reset(&out);
	prompt_frame("X", "", 0, &out);
	assert_int_equal(out.data[out.len - 1], '\n');
}

static void feedback_keeps_the_end_of_a_long_log(void **state)
{
	size_t len = 3 * PROMPT_FEEDBACK_MAX;
	char *log = mem_calloc(len + 8, 1);
	struct model_job job = {.round = 2, .rounds = 3, .feedback = log};
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;

	(void)state;
	for (size_t i = 0; i + 2 <= len; i += 2)
		memcpy(log + i, "\xc3\xa4", 2);
	memcpy(log, "FIRST", 5);
	memcpy(log + len, "xLAST", 5);
	strbuf_init(&out, STRBUF_MAX);
	prompt_feedback(&job, &out);
	assert_null(strstr(out.data, "FIRST"));
	assert_non_null(strstr(out.data, "xLAST\n-----"));
	assert_non_null(strstr(out.data, "beginning of the output is left out"));
	assert_non_null(strstr(out.data, "round 2 of 3"));
	assert_true(out.len < PROMPT_FEEDBACK_MAX + 1000);
	free(log);
}

static void task_holds_issue_command_and_listing(void **state)
{
	const struct model_job job = {.round = 1, .rounds = 3, .test_command = "make check"};
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;

	(void)state;
	strbuf_init(&out, STRBUF_MAX);
	prompt_task(&job, "the issue", 9, "src/\nREADME\n", &out);
	assert_non_null(strstr(out.data, "\nthe issue\n"));
	assert_non_null(strstr(out.data, "\nmake check\n"));
	assert_non_null(strstr(out.data, "\nsrc/\nREADME\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(frame_end_cannot_be_forged),
	    cmocka_unit_test(frame_keeps_bytes_and_ends_with_a_newline),
	    cmocka_unit_test(feedback_keeps_the_end_of_a_long_log),
	    cmocka_unit_test(task_holds_issue_command_and_listing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
