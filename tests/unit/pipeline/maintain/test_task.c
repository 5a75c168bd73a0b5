/* Tasks as they are written: front matter, keys, what is malformed and where. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/maintain/task.h"

static void parse_front_matter_and_prompt(void **state)
{
	static const char text[] = "---\n"
				   "# nightly\n"
				   "schedule: 30 4 * * 1-5   # early\n"
				   "timezone: 'Europe/Berlin'\n"
				   "jitter: 30m\n"
				   "paths: [src, \"docs/a#b.md\", 'x y']\n"
				   "labels:\n"
				   "  - maintenance\n"
				   "- \"a \\\"quoted\\\" one\"\n"
				   "rounds: 2\n"
				   "tokens: 200k\n"
				   "timeout: 5m\n"
				   "---\n"
				   "# Remove dead code\n"
				   "---\n"
				   "What nothing calls.\n";
	struct task task;
	struct error err = {0};

	(void)state;
	assert_int_equal(
	    task_parse(".agent/maintain/dead-code.md", text, strlen(text), &task, &err), 0);
	assert_string_equal(task.name, "dead-code");
	assert_string_equal(task.schedule, "30 4 * * 1-5");
	assert_string_equal(task.timezone, "Europe/Berlin");
	assert_true(task.jitter_s == 1800 && task.rounds == 2 && task.tokens == 200 * 1024 &&
		    task.timeout_s == 300 && task.repository && !task.disabled);
	assert_int_equal(task.paths.count, 3);
	assert_string_equal(task.paths.items[0], "src");
	assert_string_equal(task.paths.items[1], "docs/a#b.md");
	assert_string_equal(task.paths.items[2], "x y");
	assert_int_equal(task.labels.count, 2);
	assert_string_equal(task.labels.items[1], "a \"quoted\" one");
	assert_string_equal(task.prompt, "# Remove dead code\n---\nWhat nothing calls.\n");
	task_release(&task);
}

static void parse_line_ends_of_windows_and_a_mark(void **state)
{
	static const char text[] = "\xef\xbb\xbf---\r\nschedule: daily\r\ncommand: make fmt\r\n"
				   "network: registries\r\n---\r\n";
	struct task task;
	struct error err = {0};

	(void)state;
	assert_int_equal(task_parse("fmt.md", text, strlen(text), &task, &err), 0);
	assert_string_equal(task.schedule, "daily");
	assert_string_equal(task.command, "make fmt");
	assert_true(task.registries);
	task_release(&task);
}

static void parse_malformed_refused_with_file_and_line(void **state)
{
	static const struct {
		const char *text, *where, *why;
	} bad[] = {
	    {"", "a.md:1", "does not begin"},
	    {"hello\n", "a.md:1", "does not begin"},
	    {"---\nschedule: daily\n", "a.md:2", "no second"},
	    {"---\nschedule: dayly\n---\nx\n", "a.md:2", "five fields"},
	    {"---\n\nshedule: daily\n---\nx\n", "a.md:3", "no key"},
	    {"---\nschedule daily\n---\nx\n", "a.md:2", "neither"},
	    {"---\nschedule:daily\n---\nx\n", "a.md:2", "neither"},
	    {"---\n  schedule: daily\n---\nx\n", "a.md:2", "indented"},
	    {"---\n- x\n---\nx\n", "a.md:2", "in no list"},
	    {"---\npaths: [a, b\n---\nx\n", "a.md:2", "not closed"},
	    {"---\npaths: [a] b\n---\nx\n", "a.md:2", "behind a list"},
	    {"---\npaths: [a]\n- b\n---\nx\n", "a.md:3", "in no list"},
	    {"---\npaths: ['a]\n---\nx\n", "a.md:2", "not closed"},
	    {"---\npaths:\n- [\n---\nx\n", "a.md:3", "paths"},
	    {"---\nschedule: \"daily\n---\nx\n", "a.md:2", "not closed"},
	    {"---\nschedule: daily\nschedule: daily\n---\nx\n", "a.md:3", "twice"},
	    {"---\nschedule:\n---\nx\n", "a.md:2", "empty"},
	    {"---\nrounds: 0\n---\nx\n", "a.md:2", "whole number"},
	    {"---\nrounds: many\n---\nx\n", "a.md:2", "whole number"},
	    {"---\nrounds: [1]\n---\nx\n", "a.md:2", "quote it"},
	    {"---\nrounds: {a: b}\n---\nx\n", "a.md:2", "quote it"},
	    {"---\ntimezone: Europe/Atlantis\n---\nx\n", "a.md:2", "no such time zone"},
	    {"---\nnetwork: all\n---\nx\n", "a.md:2", "must be none or registries"},
	    {"---\nnetwork: registries\n---\nx\n", "a.md", "for commands"},
	    {"---\nenabled: maybe\n---\nx\n", "a.md:2", "must be no or yes"},
	    {"---\nlabels: [\"a,b\"]\n---\nx\n", "a.md:2", "no comma"},
	    {"---\nprompt: x\n---\nx\n", "a.md:2", "follows the front matter"},
	    {"---\nrepository: /etc\n---\nx\n", "a.md:2", "no key"},
	    {"---\nschedule: daily\n---\n \n\t\n", "a.md:3", "nothing to do"},
	    {"---\n\nnetwork: registries\n---\nx\n", "a.md:3", "network is for commands"},
	    {"---\nschedule: \xff\n---\nx\n", "a.md", "UTF-8"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct task task;
		struct error err = {0};
		size_t len = strlen(bad[i].where);

		if (task_parse("a.md", bad[i].text, strlen(bad[i].text), &task, &err) !=
		    ERROR_USAGE)
			fail_msg("taken: %s", bad[i].text);
		if (strncmp(err.message, bad[i].where, len) != 0 ||
		    !strstr(err.message, bad[i].why))
			fail_msg("%s: %s", bad[i].text, err.message);
	}
}

static void name_malformed_refused(void **state)
{
	static const char *const bad[] = {"", "A", "a b", "-a", "a/b", "a.b", "\x1b[31m", "ü"};
	struct task task;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct error err = {0};

		assert_int_equal(task_init(&task, bad[i], "here", false, &err), ERROR_USAGE);
		assert_null(strchr(err.message, '\x1b'));
		task_release(&task);
	}
}

static void set_keys_of_the_operator(void **state)
{
	struct task task;
	struct error err = {0};

	(void)state;
	assert_int_equal(task_init(&task, "deps", "f:1", false, &err), 0);
	assert_int_equal(task_check(&task, "f:9", &err), ERROR_USAGE);
	memset(&err, 0, sizeof(err));
	assert_int_equal(task_set(&task, "prompt", "Do it", "f:2", &err), 0);
	assert_int_equal(task_set(&task, "path", "a", "f:3", &err), 0);
	assert_int_equal(task_set(&task, "path", "b", "f:4", &err), 0);
	assert_int_equal(task_set(&task, "repository", "/srv/x.git", "f:5", &err), 0);
	assert_int_equal(task_set(&task, "enabled", "no", "f:6", &err), 0);
	assert_int_equal(task_check(&task, "f:9", &err), 0);
	assert_true(task.disabled && task.paths.count == 2 && task.only.count == 1);
	assert_int_equal(task_set(&task, "path", "[", "f:7", &err), ERROR_USAGE);
	assert_non_null(strstr(err.message, "f:7"));
	task_release(&task);
}

static void digest_tells_what_matters(void **state)
{
	struct task task;
	struct error err = {0};
	char one[65], two[65];

	(void)state;
	task_init(&task, "deps", "f:1", false, &err);
	task_set(&task, "prompt", "Do it", "f:2", &err);
	task_digest(&task, one);
	task_set(&task, "schedule", "daily", "f:3", &err);
	task_set(&task, "label", "x", "f:3", &err);
	task_digest(&task, two);
	assert_string_equal(one, two);
	task_set(&task, "path", "a", "f:3", &err);
	task_digest(&task, two);
	assert_string_not_equal(one, two);
	task_release(&task);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(parse_front_matter_and_prompt),
	    cmocka_unit_test(parse_line_ends_of_windows_and_a_mark),
	    cmocka_unit_test(parse_malformed_refused_with_file_and_line),
	    cmocka_unit_test(name_malformed_refused),
	    cmocka_unit_test(set_keys_of_the_operator),
	    cmocka_unit_test(digest_tells_what_matters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
