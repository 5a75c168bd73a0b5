/* The job: every part is needed and checked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/publish/job.h"

static const char good[] =
    "{\"paths\":{\"repo\":\"/r\",\"objects\":\"/o\",\"scratch\":\"/s\",\"libexec\":\"/l\"},"
    "\"remote\":{\"kind\":\"ssh\",\"url\":\"ssh://g@h/"
    "x\",\"host\":\"h\",\"port\":22,\"user\":\"g\",\"path\":\"/x\","
    "\"known_hosts\":\"h k\"},\"ref\":\"refs/heads/agent/x\",\"expect\":null,"
    "\"base_commit\":\"1111111111111111111111111111111111111111\","
    "\"base_tree\":\"2222222222222222222222222222222222222222\","
    "\"tree\":\"3333333333333333333333333333333333333333\",\"author\":{\"name\":\"N\","
    "\"email\":\"e@x\"},"
    "\"time\":1700000000,\"receipts\":[],\"deadline_s\":60,\"sign\":false}";

static struct json *job_with(const char *key, const char *value)
{
	struct error err = {0};
	struct json *job = js_parse(good, strlen(good), sizeof(good), "job", &err);

	assert_non_null(job);
	if (!key)
		return job;
	js_unset(job, key);
	if (value) {
		char *text AUTO_FREE = mem_printf("[%s]", value);
		struct json *list AUTO_JSON = js_parse(text, strlen(text), 4096, "value", &err);

		js_set(job, key, js_copy(js_at(list, 0)));
	}
	return job;
}

static void job_good_is_taken_apart(void **state)
{
	struct json *object AUTO_JSON = job_with(NULL, NULL);
	struct publish_job job;
	struct error err = {0};

	(void)state;
	assert_int_equal(publish_job_parse(object, &job, &err), 0);
	assert_int_equal(job.remote.kind, REMOTE_SSH);
	assert_string_equal(job.known_hosts, "h k");
	assert_null(job.expect);
	assert_int_equal(job.deadline_s, 60);
	publish_job_release(&job);
	publish_job_release(&job);
}

static void job_bad_part_is_refused(void **state)
{
	static const struct {
		const char *key, *value;
	} cases[] = {
	    {"paths", NULL},
	    {"remote", NULL},
	    {"ref", NULL},
	    {"base_commit", NULL},
	    {"base_tree", NULL},
	    {"tree", NULL},
	    {"author", NULL},
	    {"time", NULL},
	    {"deadline_s", NULL},
	    {"attest", "{}"}, /* without a key to sign it */
	    {"extra", "1"},
	    {"ref", "\"refs/tags/x\""},
	    {"tree", "\"3\""},
	    {"expect", "\"x\""},
	    {"time", "-1"},
	    {"deadline_s", "0"},
	    {"deadline_s", "1e9"},
	    {"author", "{\"name\":\"x\"}"},
	    {"paths", "{\"scratch\":\"/s\"}"},
	    {"remote", "{\"kind\":\"ssh\",\"url\":\"ssh://h/"
		       "x\",\"host\":\"h\",\"port\":22,\"path\":\"/x\"}"},
	    {"remote", "{\"kind\":\"ssh\",\"url\":\"ssh://g@h/"
		       "x\",\"host\":\"i\",\"port\":22,\"path\":\"/x\"}"},
	    {"base_commit", "\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct json *object AUTO_JSON = job_with(cases[i].key, cases[i].value);
		struct publish_job job;
		struct error err = {0};

		if (publish_job_parse(object, &job, &err) != ERROR_USAGE)
			fail_msg("taken: %s = %s", cases[i].key,
				 cases[i].value ? cases[i].value : "absent");
		assert_null(job.remote.url);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(job_good_is_taken_apart),
	    cmocka_unit_test(job_bad_part_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
