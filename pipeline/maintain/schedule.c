#include "schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/sha256.h"
#include "pipeline/base/text.h"

#define DAY_S 86400
#define YEARS_MOST 9 /* from one 29 February to the next at most 8 */
#define ZONES "/usr/share/zoneinfo"

/* ---- words ---- */

struct field {
	const char *name;
	int least, most;
	const char *const *names; /* of the values from least on; NULL: none */
	int name_count;
};

static const char *const months[] = {"jan", "feb", "mar", "apr", "may", "jun",
				     "jul", "aug", "sep", "oct", "nov", "dec"};
static const char *const days[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};

static const struct field fields[] = {
    {"minute", 0, 59, NULL, 0},
    {"hour", 0, 23, NULL, 0},
    {"day of the month", 1, 31, NULL, 0},
    {"month", 1, 12, months, ARRAY_LEN(months)},
    {"day of the week", 0, 7, days, ARRAY_LEN(days)},
};

static long long number_of(const char *text, size_t digits)
{
	long long value = 0;

	for (size_t i = 0; i < digits; i++)
		value = value * 10 + (text[i] - '0');
	return value;
}

/* A value at *p, which moves behind it; -1 when there is none. */
static int take_value(const struct field *field, const char **p)
{
	size_t digits = strspn(*p, "0123456789");
	int value;

	for (int i = 0; i < field->name_count; i++)
		if (strncasecmp(*p, field->names[i], 3) == 0) {
			*p += 3;
			return field->least + i;
		}
	if (digits < 1 || digits > 2)
		return -1;
	value = (int)number_of(*p, digits);
	*p += digits;
	return value >= field->least && value <= field->most ? value : -1;
}

/* "*", "a", "a-b", each with "/n" behind it (a lone value with a step goes to the end). 0 or -1. */
static int take_range(const struct field *field, const char **p, uint64_t *bits)
{
	int from = field->least, to = field->most, step = 1;
	bool lone = false;

	if (**p == '*') {
		++*p;
	} else {
		from = take_value(field, p);
		lone = **p != '-';
		to = from;
		if (!lone) {
			++*p;
			to = take_value(field, p);
		}
	}
	if (from < 0 || to < from)
		return -1;
	if (**p == '/') {
		size_t digits = strspn(++*p, "0123456789");

		step = digits && digits <= 2 ? (int)number_of(*p, digits) : 0;
		*p += digits;
		if (step < 1)
			return -1;
		if (lone)
			to = field->most;
	}
	for (int value = from; value <= to; value += step)
		*bits |= 1ULL << value;
	return 0;
}

static int parse_field(const struct field *field, const char *text, uint64_t *bits,
		       struct error *err)
{
	const char *p = text;
	bool good;

	*bits = 0;
	while ((good = take_range(field, &p, bits) == 0) && *p == ',')
		p++;
	if (good && !*p)
		return 0;
	error_set(err, ERROR_USAGE, "schedule: %s: not a %s", text, field->name);
	return error_next(err, "as crontab(5) has it: *, 5, 1-5, 1,15, */10, names of months "
			       "and days by three letters");
}

/* Whether some day is in the schedule: 29 February is, 30 February is not. */
static bool day_ever_comes(const struct schedule *schedule)
{
	static const int lengths[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

	if (!schedule->any_weekday)
		return true;
	for (int month = 1; month <= 12; month++)
		for (int day = 1; day <= lengths[month - 1]; day++)
			if ((schedule->months >> month & 1) && (schedule->days >> day & 1))
				return true;
	return false;
}

/* text is taken apart; shown is what was written. */
static int parse_fields(char *text, const char *shown, struct schedule *schedule,
			struct error *err)
{
	char *words[ARRAY_LEN(fields) + 1], *rest = text, *word;
	uint64_t bits[ARRAY_LEN(fields)];
	size_t count = 0;

	while ((word = strsep(&rest, " \t")) && count < ARRAY_LEN(words))
		if (word[0])
			words[count++] = word;
	if (count != ARRAY_LEN(fields)) {
		error_set(err, ERROR_USAGE,
			  "schedule: %.60s: not five fields, nor a word that stands for them",
			  shown);
		return error_next(err, "as in \"30 4 * * 1-5\" (crontab(5)), daily, weekly, "
				       "every 6h");
	}
	for (size_t i = 0; i < count; i++)
		if (parse_field(&fields[i], words[i], &bits[i], err))
			return err->kind;
	*schedule = (struct schedule){.minutes = bits[0],
				      .hours = (uint32_t)bits[1],
				      .days = (uint32_t)bits[2],
				      .months = (uint16_t)bits[3],
				      .weekdays = (uint8_t)((bits[4] & 0x7f) | bits[4] >> 7),
				      .any_hour = words[1][0] == '*',
				      .any_day = words[2][0] == '*',
				      .any_weekday = words[4][0] == '*'};
	if (day_ever_comes(schedule))
		return 0;
	return error_set(err, ERROR_USAGE, "schedule: %.60s: no such day ever comes", shown);
}

static int parse_every(const char *text, struct schedule *schedule, struct error *err)
{
	long long seconds;

	text += strspn(text, " \t");
	if (schedule_parse_span(text, &seconds) < 0 || seconds < 60 || seconds % 60 ||
	    !strchr("mhd", text[strlen(text) - 1])) {
		error_set(err, ERROR_USAGE, "schedule: every %s: not minutes, hours or days",
			  text);
		return error_next(err, "from 1m to 7d, as in: every 6h");
	}
	*schedule = (struct schedule){.every_s = seconds};
	return 0;
}

int schedule_parse(const char *text, struct schedule *schedule, struct error *err)
{
	static const struct {
		const char *word, *fields;
	} known[] = {{"hourly", "0 * * * *"},	{"daily", "0 0 * * *"},
		     {"midnight", "0 0 * * *"}, {"weekly", "0 0 * * 0"},
		     {"monthly", "0 0 1 * *"},	{"yearly", "0 0 1 1 *"},
		     {"annually", "0 0 1 1 *"}};
	const char *word = text + (text[0] == '@');
	char *copy AUTO_FREE = NULL;

	if (strlen(text) > 200)
		return error_set(err, ERROR_USAGE, "schedule: longer than 200 bytes");
	if (strncasecmp(word, "every ", 6) == 0)
		return parse_every(word + 6, schedule, err);
	for (size_t i = 0; i < ARRAY_LEN(known) && !copy; i++)
		if (strcasecmp(word, known[i].word) == 0)
			copy = mem_strdup(known[i].fields);
	if (!copy)
		copy = mem_strdup(text);
	return parse_fields(copy, text, schedule, err);
}

int schedule_parse_span(const char *text, long long *seconds)
{
	static const struct {
		char letter;
		long long seconds;
	} units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', DAY_S}};
	size_t digits = strspn(text, "0123456789");
	long long unit = text[digits] ? 0 : 1;

	for (size_t i = 0; i < ARRAY_LEN(units); i++)
		if (text[digits] == units[i].letter && !text[digits + 1])
			unit = units[i].seconds;
	if (!unit || digits < 1 || digits > 6)
		return -1;
	*seconds = number_of(text, digits) * unit;
	return *seconds <= 7LL * DAY_S ? 0 : -1;
}

long long schedule_jitter(const char *repository, const char *task, long long jitter_s)
{
	char *key AUTO_FREE = mem_printf("%s\n%s", repository, task);
	unsigned long long number;
	char digest[65];

	if (jitter_s <= 0)
		return 0;
	sha256_hex(key, strlen(key), digest);
	digest[15] = '\0';
	number = strtoull(digest, NULL, 16);
	return (long long)(number % (unsigned long long)(jitter_s + 1));
}

/* ---- local times ---- */

static long offset_at(time_t t)
{
	struct tm local;

	return localtime_r(&t, &local) ? local.tm_gmtoff : 0;
}

/* The first second at which the clock has another offset than at low; between the two there is one change. */
static time_t find_jump(time_t low, time_t high)
{
	long before = offset_at(low);

	while (high - low > 1) {
		time_t middle = low + (high - low) / 2;

		if (offset_at(middle) == before)
			low = middle;
		else
			high = middle;
	}
	return high;
}

/*
 * When a clock on the wall shows wall (seconds since 1970 as if it were UTC): 0, 1 or 2 times, the earlier first. When it never
 * does, since it jumps over it: the jump.
 */
static int instants(time_t wall, time_t at[2])
{
	long before = offset_at(wall - DAY_S), after = offset_at(wall + DAY_S);
	time_t one = wall - before, two = wall - after;
	int count = 0;

	if (offset_at(one) == before)
		at[count++] = one;
	if (before != after && offset_at(two) == after)
		at[count++] = two;
	if (count == 0)
		at[count++] = find_jump(wall - DAY_S, wall + DAY_S);
	if (count == 2 && at[1] < at[0]) {
		time_t swap = at[0];

		at[0] = at[1];
		at[1] = swap;
	}
	return count;
}

static bool day_matches(const struct schedule *schedule, const struct tm *day)
{
	bool by_day = schedule->days >> day->tm_mday & 1;
	bool by_weekday = schedule->weekdays >> day->tm_wday & 1;

	if (!(schedule->months >> (day->tm_mon + 1) & 1))
		return false;
	if (!schedule->any_day && !schedule->any_weekday)
		return by_day || by_weekday;
	return by_day && by_weekday;
}

/* The first time of a day (its midnight as on the wall) that is after a time; -1 when there is none. */
static time_t next_of_day(const struct schedule *schedule, time_t midnight, time_t after)
{
	time_t best = -1;

	for (int minute = 0; minute < 24 * 60; minute++) {
		time_t at[2], wall = midnight + 60L * minute;
		int count;

		if (!(schedule->hours >> (minute / 60) & 1) ||
		    !(schedule->minutes >> (minute % 60) & 1))
			continue;
		count = instants(wall, at);
		if (count == 2 && !schedule->any_hour)
			count = 1;
		for (int i = 0; i < count; i++)
			if (at[i] > after && (best < 0 || at[i] < best))
				best = at[i];
		/* later on the wall is not earlier by more than the clock is ever put back */
		if (best >= 0 && wall - offset_at(best) > best + DAY_S / 8)
			break;
	}
	return best;
}

time_t schedule_next(const struct schedule *schedule, time_t after)
{
	struct tm local, day;
	time_t midnight;

	if (schedule->every_s)
		return (after / schedule->every_s + 1) * schedule->every_s;
	if (!localtime_r(&after, &local))
		return -1;
	local.tm_hour = local.tm_min = local.tm_sec = 0;
	midnight = timegm(&local) - DAY_S; /* yesterday's may lie in a jump over midnight */
	for (int i = 0; i < YEARS_MOST * 366; i++, midnight += DAY_S) {
		time_t found;

		if (!gmtime_r(&midnight, &day) || !day_matches(schedule, &day))
			continue;
		found = next_of_day(schedule, midnight, after);
		if (found >= 0)
			return found;
	}
	return -1;
}

/* ---- the zone ---- */

static bool is_zone(const char *name)
{
	static const char letters[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/";
	char *path AUTO_FREE = NULL;
	struct stat st;

	if (!name[0] || strlen(name) > 100 || name[strspn(name, letters)] || name[0] == '/' ||
	    strstr(name, "//"))
		return false;
	path = mem_printf(ZONES "/%s", name);
	return strcmp(name, "UTC") == 0 || (stat(path, &st) == 0 && S_ISREG(st.st_mode));
}

static void set_zone(const char *value)
{
	if (value)
		setenv("TZ", value, 1);
	else
		unsetenv("TZ");
	tzset();
}

int schedule_enter_zone(const char *name, struct schedule_zone *zone, struct error *err)
{
	const char *before = getenv("TZ");

	*zone = (struct schedule_zone){.entered = false};
	if (!name || !name[0])
		return 0;
	if (!is_zone(name)) {
		error_set(err, ERROR_USAGE, "timezone: %s: there is no such time zone here",
			  name);
		return error_next(err, "a name below " ZONES
				       ", as in Europe/Berlin or UTC (package tzdata)");
	}
	zone->before = before ? mem_strdup(before) : NULL;
	zone->entered = true;
	set_zone(name);
	return 0;
}

void schedule_leave_zone(struct schedule_zone *zone)
{
	if (zone->entered)
		set_zone(zone->before);
	free(zone->before);
	*zone = (struct schedule_zone){.entered = false};
}
