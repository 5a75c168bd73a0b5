/*
 * Starts rows of the stage table as the supervisor does, for tests. Reads lines
 *
 *	{"row":"agent-apply base","job":{…},"fds":{"8":5},"hold":true}
 *
 * and prints one line for each: {"status":N or null,"signal":N or
 * null,"events":[…],"stderr":"…","pid":N, "error":"…"}. fds: number in the stage: descriptor of
 * ours. With hold it prints as soon as the first event is there, waits for one more line of
 * input, then ends the child.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/fds.h"
#include "pipeline/spawn.h"

static void add_events(struct json *answer, char *lines)
{
	struct json *list = js_array_new();
	char *line = lines, *end;
	struct error err;

	for (; (end = strchr(line, '\n')); line = end + 1) {
		struct json *event =
		    js_parse(line, (size_t)(end - line), 1 << 20, "event", &err);

		js_push(list, event ? event : js_string_new(line, (size_t)(end - line)));
	}
	if (*line)
		js_push_str(list, line);
	js_set(answer, "events", list);
}

static void print(const struct json *answer)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&text, STRBUF_MAX);
	js_format(answer, &text);
	puts(text.data);
	fflush(stdout);
}

static void read_first_event(int fd, struct strbuf *lines)
{
	char c;

	while (read(fd, &c, 1) == 1) {
		strbuf_addc(lines, c);
		if (c == '\n')
			return;
	}
}

static void watch(struct child *child, bool hold, struct json *answer)
{
	struct strbuf lines AUTO_STRBUF = STRBUF_NONE, words AUTO_STRBUF = STRBUF_NONE;
	siginfo_t info;

	strbuf_init(&lines, 1 << 20);
	strbuf_init(&words, 1 << 16);
	js_set_int(answer, "pid", child->pid);
	if (hold) {
		char next[64];

		read_first_event(child->control, &lines);
		add_events(answer, lines.data);
		print(answer);
		if (!fgets(next, sizeof(next), stdin))
			exit(1);
		return;
	}
	if (child->control >= 0)
		fd_read_all(child->control, &lines);
	fd_read_all(child->stderr_fd, &words);
	if (waitid(P_PIDFD, (id_t)child->pidfd, &info, WEXITED | WNOWAIT) < 0)
		exit(1);
	if (info.si_code == CLD_EXITED)
		js_set_int(answer, "status", info.si_status);
	else
		js_set_int(answer, "signal", info.si_status);
	add_events(answer, lines.data);
	js_set_strn(answer, "stderr", words.data, words.len);
}

static enum stage_id row_of(const char *name)
{
	for (int i = 0; i < STAGE_COUNT; i++)
		if (strcmp(stage_row((enum stage_id)i)->name, name) == 0)
			return (enum stage_id)i;
	fprintf(stderr, "driver: no row %s\n", name);
	exit(2);
}

static size_t read_fds(struct json *map, struct spawn_fd *fds)
{
	struct json *value;
	const char *key;
	void *iter = NULL;
	size_t count = 0;

	while ((key = js_next(map, &iter, &value)) && count < FD_LAST)
		fds[count++] = (struct spawn_fd){.number = (int)strtol(key, NULL, 10),
						 .fd = (int)js_number(value, -1)};
	return count;
}

static void serve(const struct json *order)
{
	struct child child __attribute__((cleanup(spawn_release))) = {0, -1, -1, -1};
	struct json *answer AUTO_JSON = js_object_new();
	struct strbuf job AUTO_STRBUF = STRBUF_NONE;
	struct spawn_fd fds[FD_LAST];
	size_t count = read_fds(js_get(order, "fds"), fds);
	struct json *given = js_get(order, "job");
	bool hold = js_bool(order, "hold", false);
	struct error err;

	strbuf_init(&job, STRBUF_MAX);
	if (given)
		js_format(given, &job);
	if (spawn_stage(row_of(js_str(order, "row", "?")), given ? job.data : NULL, job.len,
			fds, count, &child, &err) < 0)
		js_set_str(answer, "error", err.message);
	else
		watch(&child, hold, answer);
	if (!hold)
		print(answer);
}

int main(void)
{
	char *line = NULL;
	size_t size = 0;
	ssize_t len;
	struct error err;

	while ((len = getline(&line, &size, stdin)) > 0) {
		struct json *order AUTO_JSON =
		    js_parse(line, (size_t)len, 1 << 20, "order", &err);

		if (!order) {
			fprintf(stderr, "driver: %s\n", err.message);
			return 2;
		}
		serve(order);
	}
	free(line);
	return 0;
}
