/* What is remembered of tasks: runs, limits, proposals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/ledger.h"
#include "pipeline/maintain/record.h"

static char dir[] = "/tmp/test-record-XXXXXX";
static const struct record_key one = {"/srv/a.git", "one"}, two = {"/srv/a.git", "two"},
			       other = {"/srv/b.git", "one"};
static const struct record_limits wide = {
    .open = 10, .hour = 10, .day = 10, .day_tokens = 1000};

static int make_dir(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/test-record-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	(void)state;
	return fd_remove_tree(AT_FDCWD, dir);
}

static struct record *open_seen(void)
{
	struct error err = {0};
	struct record *record = record_open(dir, &err);

	assert_non_null(record);
	assert_int_equal(record_see(record, &one, 100, &err), 0);
	assert_int_equal(record_see(record, &two, 100, &err), 0);
	assert_int_equal(record_see(record, &other, 100, &err), 0);
	return record;
}

static void begin(struct record *record, const struct record_key *key, const char *run,
		  long long now, const struct record_limits *limits, const char *why)
{
	struct error err = {0};
	char *reason AUTO_FREE = NULL;
	int result = record_begin(record, key, run, "digest", now, limits, &reason, &err);

	assert_int_equal(result, why ? 0 : 1);
	if (why && !strstr(reason, why))
		fail_msg("%s is not in: %s", why, reason);
}

static void see_keeps_the_first_time(void **state)
{
	struct record *record AUTO_RECORD = open_seen();
	struct error err = {0};
	struct json *row AUTO_JSON = NULL, *none AUTO_JSON = NULL;

	(void)state;
	assert_int_equal(record_see(record, &one, 200, &err), 0);
	row = record_get(record, &one, &err);
	assert_int_equal(js_int(row, "seen", 0), 100);
	assert_int_equal(js_int(row, "handled", 0), 100);
	none = record_get(record, &(struct record_key){"/srv/c.git", "one"}, &err);
	assert_int_equal(js_len(none), 0);
}

static void begin_again_counts_attempts_and_no_limit(void **state)
{
	struct record *record AUTO_RECORD = open_seen();
	const struct record_limits narrow = {
	    .open = 10, .hour = 1, .day = 10, .day_tokens = 10};
	struct error err = {0};
	struct json *row AUTO_JSON = NULL;

	(void)state;
	begin(record, &one, "r1", 1000, &narrow, NULL);
	begin(record, &one, "r1", 1010, &narrow, NULL);
	begin(record, &two, "r2", 1020, &narrow, "maintain.perHour = 1");
	begin(record, &other, "r3", 1020, &narrow, NULL);
	begin(record, &two, "r2", 1000 + 3601, &narrow, NULL);
	row = record_get(record, &one, &err);
	assert_int_equal(js_int(row, "attempts", 0), 2);
	assert_string_equal(js_str(row, "outcome", ""), "running");
	assert_int_equal(js_int(row, "handled", 0), 1000);
}

static void begin_open_proposals_and_days_limited(void **state)
{
	struct record *record AUTO_RECORD = open_seen();
	const struct record_limits single = {
	    .open = 1, .hour = 10, .day = 10, .day_tokens = 10};
	const struct record_limits day = {.open = 10, .hour = 10, .day = 1, .day_tokens = 10};
	const struct record_proposal proposal = {
	    .commit = "c", .ref = "refs/heads/x", .url = "u", .inputs = "i", .pull = 7};
	struct error err = {0};
	struct json *row AUTO_JSON = NULL;

	(void)state;
	begin(record, &one, "r1", 1000, &single, NULL);
	begin(record, &two, "r2", 1000, &single, "maintain.maxOpen = 1");
	assert_int_equal(record_propose(record, &one, &proposal, &err), 0);
	assert_int_equal(record_end(record, &one, "published", "pushed", 1001, true, &err), 0);
	begin(record, &two, "r2", 1000, &single, "maintain.maxOpen = 1");
	assert_int_equal(record_resolve(record, &one, "merged", &err), 0);
	begin(record, &two, "r2", 1000 + 7200, &day, "maintain.perDay = 1");
	begin(record, &two, "r2", 1000 + 7200, &single, NULL);
	row = record_get(record, &one, &err);
	assert_string_equal(js_str(row, "state", ""), "merged");
	assert_int_equal(js_int(row, "pull", 0), 7);
	assert_int_equal(js_int(row, "handled", 0), 1001);
}

static void begin_tokens_of_the_day_limited(void **state)
{
	struct record *record AUTO_RECORD = open_seen();
	struct error err = {0};
	struct ledger *ledger AUTO_LEDGER = ledger_open(dir, &err);
	struct record_limits free_of_charge = wide;
	long long reservation;

	(void)state;
	begin(record, &one, "r1", 1000, &wide, NULL);
	assert_int_equal(ledger_reserve(ledger, "r1", 1000, 5000, 5000, &reservation, &err), 0);
	assert_int_equal(
	    ledger_reserve(ledger, "by hand", 1000, 5000, 5000, &reservation, &err), 0);
	begin(record, &two, "r2", 1001, &wide, "1000 tokens were used today");
	free_of_charge.free = true;
	begin(record, &two, "r2", 1001, &free_of_charge, NULL);
}

static void skip_keeps_the_reason(void **state)
{
	struct record *record AUTO_RECORD = open_seen();
	struct error err = {0};
	struct json *row AUTO_JSON = NULL, *then AUTO_JSON = NULL;

	(void)state;
	assert_int_equal(record_skip(record, &one, 500, "a limit", false, &err), 0);
	row = record_get(record, &one, &err);
	assert_int_equal(js_int(row, "handled", 0), 100);
	assert_string_equal(js_str(row, "reason", ""), "a limit");
	assert_int_equal(record_skip(record, &one, 600, "closed", true, &err), 0);
	then = record_get(record, &one, &err);
	assert_int_equal(js_int(then, "handled", 0), 600);
	assert_int_equal(
	    record_skip(record, &(struct record_key){"x", "y"}, 1, "z", true, &err),
	    ERROR_FAILED);
}

static void refusals_are_kept_a_repository(void **state)
{
	struct error err = {0};
	struct record *record AUTO_RECORD = record_open(dir, &err);
	struct json *said AUTO_JSON = js_object_new(), *none AUTO_JSON = NULL;
	struct json *first AUTO_JSON = NULL, *other_one AUTO_JSON = NULL,
			   *gone AUTO_JSON = NULL;

	(void)state;
	none = record_refusals(record, "/srv/a.git", &err);
	assert_int_equal(js_len(none), 0);
	js_set_str(said, ".agent/maintain/\xc3\xbc.md", "d1");
	assert_int_equal(record_set_refusals(record, "/srv/a.git", said, &err), 0);
	js_set_str(said, "b.md", "d2");
	assert_int_equal(record_set_refusals(record, "/srv/a.git", said, &err), 0);
	first = record_refusals(record, "/srv/a.git", &err);
	assert_int_equal(js_len(first), 2);
	assert_string_equal(js_str(first, ".agent/maintain/\xc3\xbc.md", ""), "d1");
	other_one = record_refusals(record, "/srv/b.git", &err);
	assert_int_equal(js_len(other_one), 0);
	js_unset(said, "b.md");
	js_unset(said, ".agent/maintain/\xc3\xbc.md");
	assert_int_equal(record_set_refusals(record, "/srv/a.git", said, &err), 0);
	gone = record_refusals(record, "/srv/a.git", &err);
	assert_int_equal(js_len(gone), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(see_keeps_the_first_time),
	    TEST(begin_again_counts_attempts_and_no_limit),
	    TEST(begin_open_proposals_and_days_limited),
	    TEST(begin_tokens_of_the_day_limited),
	    TEST(skip_keeps_the_reason),
	    TEST(refusals_are_kept_a_repository),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
