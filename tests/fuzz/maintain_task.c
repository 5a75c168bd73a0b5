/* Fuzz target: a maintenance task as a repository may have it, or (first byte odd) a schedule by itself. What is taken is whole and
 * within its limits, says where it is wrong when it is not, and a schedule always moves on. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/text.h"
#include "pipeline/maintain/schedule.h"
#include "pipeline/maintain/task.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
	if (!holds)
		abort();
}

static void try_times(const struct schedule *schedule)
{
	time_t at = 1774745000; /* a day before clocks are put forward in Europe */

	for (int i = 0; i < 3; i++) {
		time_t next = schedule_next(schedule, at);

		must(next > at);
		at = next;
	}
}

static void try_schedule(const char *text)
{
	struct schedule schedule;
	struct schedule_zone zone;
	struct error err = {0};

	if (schedule_parse(text, &schedule, &err)) {
		must(err.message[0]);
		return;
	}
	must(schedule_enter_zone("Europe/Berlin", &zone, &err) == 0);
	try_times(&schedule);
	schedule_leave_zone(&zone);
}

static void check_list(const struct task_list *list)
{
	must(list->count <= TASK_ITEMS_MAX);
	for (size_t i = 0; i < list->count; i++)
		must(list->items[i][0] && text_is_utf8(list->items[i], strlen(list->items[i])));
}

static void try_task(const char *text, size_t len)
{
	struct error err = {0};
	struct task task;
	char digest[65];

	if (task_parse(".agent/maintain/a.md", text, len, &task, &err)) {
		must(err.kind == ERROR_USAGE &&
		     strncmp(err.message, ".agent/maintain/a.md", 20) == 0);
		return;
	}
	must(task.repository && task.prompt && strlen(task.prompt) <= len);
	must(task.only.count == 0 && task.rounds >= 0 && task.tokens >= 0);
	check_list(&task.paths);
	check_list(&task.labels);
	task_digest(&task, digest);
	must(strlen(digest) == 64);
	if (task.schedule)
		try_times(&task.times);
	task_release(&task);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text AUTO_FREE = NULL;

	if (!size)
		return 0;
	text = mem_strndup((const char *)data + 1, size - 1);
	if (*data % 2)
		try_schedule(text);
	else
		try_task((const char *)data + 1, size - 1);
	return 0;
}
