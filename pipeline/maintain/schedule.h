/*
 * When a task is due. The words are those of crontab(5): five fields (minute, hour, day of the month, month, day of
 * the week; lists, ranges, steps, names of months and days), or hourly, daily, weekly, monthly, yearly with or without
 * the @; and "every N" with m, h or d behind it, counted from 1970-01-01 00:00 UTC. Day of the month and day of the
 * week, when both are given, hold by either, as there.
 *
 * Where clocks are changed, as cron(8) has it: what would have been in the hour that is left out is due when the clock
 * has jumped; what is at fixed hours happens once in the hour that comes twice; what happens every hour follows the
 * hours as they pass.
 *
 * The time zone is the C library's: local times are those of the zone that schedule_enter_zone chose.
 */
#ifndef MAINTAIN_SCHEDULE_H
#define MAINTAIN_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct error;

struct schedule {
	uint64_t minutes;	   /* bit N: minute N */
	uint32_t hours, days;	   /* bit N: hour N, day N of the month */
	uint16_t months;	   /* bit N: month N, from 1 */
	uint8_t weekdays;	   /* bit N: 0 is Sunday */
	bool any_hour;		   /* the hour field begins with a star */
	bool any_day, any_weekday; /* so do these */
	long long every_s;	   /* "every N": nothing else counts then; 0: it does not */
};

/* 0, or ERROR_USAGE with what is wrong; also when no such day ever comes (30 February). Pure. */
int schedule_parse(const char *text, struct schedule *schedule, struct error *err);

/* The first time after a time, in seconds since 1970, in the zone that is entered. after: from 1970 on. */
time_t schedule_next(const struct schedule *schedule, time_t after);

/* "30s", "90", "15m", "2h", "1d" in seconds, at most a week. 0 or -1. Pure. */
int schedule_parse_span(const char *text, long long *seconds);

/* Where in its jitter a task of a repository lies, always the same: 0 to jitter_s. Pure. */
long long schedule_jitter(const char *repository, const char *task, long long jitter_s);

/*
 * Local times are those of a zone of the system's database (tzset(3)) until schedule_leave_zone; NULL or "" is the machine's own. Only
 * one at a time: it is the process's. ERROR_USAGE when there is no such zone.
 */
struct schedule_zone {
	char *before; /* owned: TZ as it was, or NULL */
	bool entered;
};
int schedule_enter_zone(const char *name, struct schedule_zone *zone, struct error *err);
void schedule_leave_zone(struct schedule_zone *zone);

#endif
