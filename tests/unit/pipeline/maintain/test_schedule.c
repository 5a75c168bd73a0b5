/* Schedules: the words of crontab(5), and clocks that are changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/maintain/schedule.h"

/* "2026-03-29 02:30" as if it were UTC. */
static time_t utc(const char *text)
{
	struct tm tm = {0};

	assert_int_equal(sscanf(text, "%d-%d-%d %d:%d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
				&tm.tm_hour, &tm.tm_min),
			 5);
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	return timegm(&tm);
}

/* The next times after a time (UTC), each as UTC. */
static void expect(const char *zone, const char *text, const char *after,
		   const char *const *wanted)
{
	struct schedule schedule;
	struct schedule_zone entered;
	struct error err = {0};
	time_t at = utc(after);

	assert_int_equal(schedule_parse(text, &schedule, &err), 0);
	assert_int_equal(schedule_enter_zone(zone, &entered, &err), 0);
	for (size_t i = 0; wanted[i]; i++) {
		char shown[40];
		struct tm tm;

		at = schedule_next(&schedule, at);
		gmtime_r(&at, &tm);
		strftime(shown, sizeof(shown), "%Y-%m-%d %H:%M", &tm);
		assert_string_equal(shown, wanted[i]);
	}
	schedule_leave_zone(&entered);
}

#define EXPECT(zone, text, after, ...)                                                         \
	expect(zone, text, after, (const char *const[]){__VA_ARGS__, NULL})

static void parse_words_of_crontab_as_cron_does(void **state)
{
	(void)state;
	EXPECT("UTC", "30 4 * * *", "2026-11-30 00:00", "2026-11-30 04:30", "2026-12-01 04:30");
	EXPECT("UTC", "*/20 9-10 * * *", "2026-11-30 09:20", "2026-11-30 09:40",
	       "2026-11-30 10:00");
	EXPECT("UTC", "0 0 1,15 * *", "2026-11-30 00:00", "2026-12-01 00:00",
	       "2026-12-15 00:00");
	EXPECT("UTC", "5 4 * * mon-fri", "2026-12-04 04:05", "2026-12-07 04:05");
	EXPECT("UTC", "5 4 * * 7", "2026-12-04 04:05", "2026-12-06 04:05");
	EXPECT("UTC", "0 0 29 feb *", "2026-01-01 00:00", "2028-02-29 00:00",
	       "2032-02-29 00:00");
	EXPECT("UTC", "7/20 0 * * *", "2026-01-01 00:00", "2026-01-01 00:07",
	       "2026-01-01 00:27");
	/* the 13th, or a Friday */
	EXPECT("UTC", "0 0 13 * 5", "2026-12-01 00:00", "2026-12-04 00:00", "2026-12-11 00:00",
	       "2026-12-13 00:00");
	/* with a star in front it is and, as there */
	EXPECT("UTC", "0 0 */2 * 5", "2026-12-01 00:00", "2026-12-11 00:00");
	EXPECT("UTC", "daily", "2026-11-30 00:00", "2026-12-01 00:00");
	EXPECT("UTC", "@weekly", "2026-11-30 00:00", "2026-12-06 00:00");
	EXPECT("UTC", "Hourly", "2026-11-30 00:30", "2026-11-30 01:00");
	EXPECT("UTC", "monthly", "2026-11-30 00:30", "2026-12-01 00:00");
	EXPECT("UTC", "yearly", "2026-11-30 00:30", "2027-01-01 00:00");
	EXPECT("Europe/Berlin", "every 6h", "2026-11-30 00:00", "2026-11-30 06:00",
	       "2026-11-30 12:00");
	EXPECT("UTC", "every 1d", "2026-11-30 13:00", "2026-12-01 00:00");
}

static void parse_malformed_refused(void **state)
{
	static const char *const bad[] = {"",
					  " ",
					  "* * * *",
					  "* * * * * *",
					  "60 * * * *",
					  "* 24 * * *",
					  "* * 0 * *",
					  "* * 32 * *",
					  "* * * 13 *",
					  "* * * * 8",
					  "a * * * *",
					  "1- * * * *",
					  "5-1 * * * *",
					  "*/0 * * * *",
					  "*/x * * * *",
					  ", * * * *",
					  "1, * * * *",
					  "1,,2 * * * *",
					  "-1 * * * *",
					  "1 2 3 foo *",
					  "0 0 30 2 *",
					  "0 0 31 4,6 *",
					  "dayly",
					  "every 6",
					  "every 0h",
					  "every 8d",
					  "every 30s",
					  "every h",
					  "every 6h x",
					  "every ",
					  "999 * * * *",
					  "* * * * mo"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct schedule schedule;
		struct error err = {0};

		if (schedule_parse(bad[i], &schedule, &err) != ERROR_USAGE)
			fail_msg("taken: %s", bad[i]);
		assert_true(err.message[0]);
	}
}

static void next_clock_put_forward_runs_after_the_jump(void **state)
{
	(void)state;
	/* Berlin, 29 March 2026: 02:00 becomes 03:00 at 01:00 UTC */
	EXPECT("Europe/Berlin", "30 2 * * *", "2026-03-28 12:00", "2026-03-29 01:00",
	       "2026-03-30 00:30");
	EXPECT("Europe/Berlin", "0,15,30 2 * * *", "2026-03-29 00:00", "2026-03-29 01:00",
	       "2026-03-30 00:00");
	EXPECT("Europe/Berlin", "30 * * * *", "2026-03-29 00:00", "2026-03-29 00:30",
	       "2026-03-29 01:00", "2026-03-29 01:30");
	/* Lord Howe Island: half an hour */
	EXPECT("Australia/Lord_Howe", "15 2 * * *", "2026-10-02 20:00", "2026-10-03 15:30",
	       "2026-10-04 15:15");
	/* a whole day that is left out: Samoa, 30 December 2011 */
	EXPECT("Pacific/Apia", "0 12 30 12 *", "2011-12-01 00:00", "2011-12-30 10:00");
	/* midnight that is left out: Cairo, 24 April 2026 */
	EXPECT("Africa/Cairo", "0 0 * * *", "2026-04-23 00:00", "2026-04-23 22:00",
	       "2026-04-24 21:00");
}

static void next_clock_put_back_runs_once_at_fixed_hours(void **state)
{
	(void)state;
	/* Berlin, 25 October 2026: 03:00 becomes 02:00 at 01:00 UTC */
	EXPECT("Europe/Berlin", "30 2 * * *", "2026-10-24 12:00", "2026-10-25 00:30",
	       "2026-10-26 01:30");
	/* every hour: each as it passes */
	EXPECT("Europe/Berlin", "30 * * * *", "2026-10-24 23:45", "2026-10-25 00:30",
	       "2026-10-25 01:30", "2026-10-25 02:30");
	EXPECT("America/New_York", "30 1 * * *", "2026-10-31 12:00", "2026-11-01 05:30",
	       "2026-11-02 06:30");
}

/* Whatever the schedule and the zone: later than before, and never by minutes that the schedule does not have but at a jump. */
static void next_any_schedule_moves_on(void **state)
{
	static const char *const zones[] = {"UTC", "Europe/Berlin", "America/St_Johns",
					    "Australia/Lord_Howe", "Pacific/Apia"};
	static const char *const texts[] = {"30 2 * * *", "*/15 * * * *", "0 0 * * *",
					    "59 23 31 12 *", "15 1-3 * 3,10 0"};

	(void)state;
	for (size_t z = 0; z < ARRAY_LEN(zones); z++)
		for (size_t t = 0; t < ARRAY_LEN(texts); t++) {
			struct schedule schedule;
			struct schedule_zone entered;
			struct error err = {0};
			time_t at = utc("2026-01-01 00:00");

			assert_int_equal(schedule_parse(texts[t], &schedule, &err), 0);
			assert_int_equal(schedule_enter_zone(zones[z], &entered, &err), 0);
			for (int i = 0; i < 60; i++) {
				time_t next = schedule_next(&schedule, at);

				assert_true(next > at);
				/* nothing lies between */
				assert_true(schedule_next(&schedule, next - 1) == next);
				at = next + (i % 7) * 86400;
			}
			schedule_leave_zone(&entered);
		}
}

static void zone_unknown_refused_and_former_restored(void **state)
{
	static const char *const bad[] = {"Europe/Atlantis", "../../etc/passwd",
					  "/etc/localtime",  "Europe",
					  "CET-1CEST",	     "Europe//Berlin"};
	struct schedule_zone zone;
	struct error err = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		memset(&err, 0, sizeof(err));
		assert_int_equal(schedule_enter_zone(bad[i], &zone, &err), ERROR_USAGE);
		schedule_leave_zone(&zone);
	}
	setenv("TZ", "Asia/Tokyo", 1);
	assert_int_equal(schedule_enter_zone("UTC", &zone, &err), 0);
	assert_string_equal(getenv("TZ"), "UTC");
	schedule_leave_zone(&zone);
	assert_string_equal(getenv("TZ"), "Asia/Tokyo");
	unsetenv("TZ");
	assert_int_equal(schedule_enter_zone("UTC", &zone, &err), 0);
	schedule_leave_zone(&zone);
	assert_null(getenv("TZ"));
}

static void jitter_is_the_same_and_within(void **state)
{
	long long one = schedule_jitter("/srv/a.git", "deps", 3600);
	size_t different = 0;

	(void)state;
	assert_true(one >= 0 && one <= 3600);
	assert_true(one == schedule_jitter("/srv/a.git", "deps", 3600));
	assert_true(schedule_jitter("/srv/a.git", "deps", 0) == 0);
	for (int i = 0; i < 20; i++) {
		char name[16];

		snprintf(name, sizeof(name), "t%d", i);
		different += schedule_jitter("/srv/a.git", name, 3600) != one;
	}
	assert_true(different > 15);
}

static void span_parsed(void **state)
{
	static const char *const bad[] = {"", "h", "1w", "1 h", "-1", "8d", "1h30m", "9999999"};
	long long seconds;

	(void)state;
	assert_int_equal(schedule_parse_span("90", &seconds), 0);
	assert_true(seconds == 90);
	assert_int_equal(schedule_parse_span("7d", &seconds), 0);
	assert_true(seconds == 604800);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(schedule_parse_span(bad[i], &seconds), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(parse_words_of_crontab_as_cron_does),
	    cmocka_unit_test(parse_malformed_refused),
	    cmocka_unit_test(next_clock_put_forward_runs_after_the_jump),
	    cmocka_unit_test(next_clock_put_back_runs_once_at_fixed_hours),
	    cmocka_unit_test(next_any_schedule_moves_on),
	    cmocka_unit_test(zone_unknown_refused_and_former_restored),
	    cmocka_unit_test(jitter_is_the_same_and_within),
	    cmocka_unit_test(span_parsed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
