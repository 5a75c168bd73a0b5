/* What agent maintain shows of tasks: --list, --json. */
#include "maintain.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

void upkeep_tell(struct upkeep *upkeep, const struct upkeep_place *place,
		 const struct task *task, const struct json *row, long long due,
		 const char *what, const char *why)
{
	static const char *const kept[] = {"run", "outcome", "state", "ref", "url"};
	struct json *told = js_object_new();

	js_set_str(told, "repository", place->path);
	js_set_str(told, "task", task->name);
	js_set_str(told, "from", task->origin);
	js_set_str(told, "kind", task->command ? "command" : "prompt");
	js_set_bool(told, "enabled", !task->disabled);
	js_set_str(told, "schedule", task->schedule);
	if (due >= 0)
		js_set_int(told, "due", due);
	js_set_str(told, "what", what);
	js_set_str(told, "why", why);
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		js_set_str(told, kept[i], js_str(row, kept[i], NULL));
	if (js_int(row, "pull", 0))
		js_set_int(told, "pull", js_int(row, "pull", 0));
	js_push(upkeep->told, told);
}

static void put_text(struct strbuf *out, const char *before, const char *text,
		     const char *after)
{
	char shown[1024];

	text_escape(shown, sizeof(shown), text, strlen(text));
	strbuf_addf(out, "%s%s%s", before, shown, after);
}

static void put_due(struct strbuf *out, const struct json *told)
{
	long long due = js_int(told, "due", -1);
	char stamp[40] = "by name only";
	time_t at = (time_t)due;
	struct tm local;

	if (!js_bool(told, "enabled", true))
		snprintf(stamp, sizeof(stamp), "off");
	else if (due >= 0 && due <= time(NULL))
		snprintf(stamp, sizeof(stamp), "due");
	else if (due >= 0 && localtime_r(&at, &local))
		strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M %z", &local);
	strbuf_addf(out, "  %-22s", stamp);
}

static void put_row(struct strbuf *out, const struct json *told)
{
	const char *state = js_str(told, "state", ""), *why = js_str(told, "why", "");
	const char *outcome = js_str(told, "outcome", ""), *ref = js_str(told, "ref", "");

	strbuf_addf(out, "  %-20s  %-7s", js_str(told, "task", ""), js_str(told, "kind", ""));
	put_due(out, told);
	strbuf_addf(out, "  %s", outcome[0] ? outcome : "never run");
	if (state[0]) {
		put_text(out, ", ", strncmp(ref, "refs/heads/", 11) == 0 ? ref + 11 : ref, " ");
		strbuf_addf(out, "is %s", state);
	}
	strbuf_addc(out, '\n');
	if (why[0])
		put_text(out, "      ", why, "\n");
}

int upkeep_print(struct upkeep *upkeep, struct error *err)
{
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;
	const char *place = "";

	strbuf_init(&out, STRBUF_MAX);
	strbuf_adds(&out, "");
	if (upkeep->options->json) {
		js_format_ascii(upkeep->told, &out);
		strbuf_addc(&out, '\n');
	} else if (!js_len(upkeep->told)) {
		strbuf_addf(&out, "no tasks%s\n", upkeep_not_counted(upkeep));
	}
	for (size_t i = 0; !upkeep->options->json && i < js_len(upkeep->told); i++) {
		const struct json *told = js_at(upkeep->told, i);

		if (strcmp(place, js_str(told, "repository", "")) != 0)
			put_text(&out, "", js_str(told, "repository", ""), "\n");
		place = js_str(told, "repository", "");
		put_row(&out, told);
	}
	if (fd_write_all(STDOUT_FILENO, out.data, out.len) < 0)
		return error_errno(err, ERROR_FAILED, errno, "standard output");
	return 0;
}
