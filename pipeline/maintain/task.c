#include "task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gitops/glob.h"
#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/sha256.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

#define VALUE_MAX 4096
#define PROMPT_MAX ((size_t)64 << 10)

static void release_list(struct task_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i]);
	free(list->items);
	*list = (struct task_list){.count = 0};
}

void task_release(struct task *task)
{
	free(task->origin);
	free(task->schedule);
	free(task->timezone);
	free(task->prompt);
	free(task->command);
	free(task->network_at);
	release_list(&task->paths);
	release_list(&task->labels);
	release_list(&task->only);
	*task = (struct task){.origin = NULL};
}

int task_init(struct task *task, const char *name, const char *origin, bool repository,
	      struct error *err)
{
	char shown[200];

	*task = (struct task){.repository = repository};
	if (!name[0] || strlen(name) > TASK_NAME_MAX ||
	    name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-")] || name[0] == '-') {
		text_escape(shown, sizeof(shown), name, strlen(name));
		error_set(err, ERROR_USAGE, "%s: %s is no name of a task", origin, shown);
		return error_next(
		    err, "at most %d letters a to z, digits, - and _, as in fix-format",
		    TASK_NAME_MAX);
	}
	memcpy(task->name, name, strlen(name) + 1);
	task->origin = mem_strdup(origin);
	return 0;
}

/* ---- keys ---- */

static int bad(struct error *err, const char *where, const char *key, const char *value,
	       const char *why)
{
	char shown[200];

	text_escape(shown, sizeof(shown), value, strlen(value));
	return error_set(err, ERROR_USAGE, "%s: %s: %s: %s", where, key, shown, why);
}

static int set_text(char **field, const char *key, const char *value, const char *where,
		    struct error *err)
{
	if (*field)
		return bad(err, where, key, value, "it is given twice");
	if (!value[0])
		return bad(err, where, key, value, "it is empty");
	*field = mem_strdup(value);
	return 0;
}

static int add_item(struct task_list *list, const char *key, const char *value,
		    const char *where, struct error *err)
{
	if (!value[0])
		return bad(err, where, key, value, "it is empty");
	if (list->count >= TASK_ITEMS_MAX)
		return bad(err, where, key, value, "too many of them");
	list->items = mem_realloc(list->items, list->count + 1, sizeof(*list->items));
	list->items[list->count++] = mem_strdup(value);
	return 0;
}

static int add_path(struct task *task, const char *key, const char *value, const char *where,
		    struct error *err)
{
	struct glob *glob = glob_new(value, strlen(value), false, err);

	if (!glob)
		return error_wrap(err, "%s: %s", where, key);
	glob_free(glob);
	return add_item(&task->paths, key, value, where, err);
}

/* GitLab joins them by commas; no forge has longer ones. */
static int add_label(struct task *task, const char *key, const char *value, const char *where,
		     struct error *err)
{
	if (strlen(value) > 50 || strchr(value, ','))
		return bad(err, where, key, value, "at most 50 bytes, no comma");
	return add_item(&task->labels, key, value, where, err);
}

static int set_schedule(struct task *task, const char *value, const char *where,
			struct error *err)
{
	if (set_text(&task->schedule, "schedule", value, where, err))
		return err->kind;
	if (schedule_parse(value, &task->times, err))
		return error_wrap(err, "%s", where);
	return 0;
}

static int set_zone(struct task *task, const char *value, const char *where, struct error *err)
{
	struct schedule_zone zone;

	if (set_text(&task->timezone, "timezone", value, where, err))
		return err->kind;
	if (schedule_enter_zone(value, &zone, err))
		return error_wrap(err, "%s", where);
	schedule_leave_zone(&zone);
	return 0;
}

static int set_span(long long *field, const char *key, const char *value, const char *where,
		    struct error *err)
{
	if (schedule_parse_span(value, field) < 0 || *field < 1)
		return bad(err, where, key, value,
			   "not a time from 1s to 7d (s, m, h, d may follow)");
	return 0;
}

static int set_word(bool *field, const char *key, const char *value, const char *no,
		    const char *yes, const char *where, struct error *err)
{
	char *why AUTO_FREE = mem_printf("must be %s or %s", no, yes);

	if (strcmp(value, no) != 0 && strcmp(value, yes) != 0)
		return bad(err, where, key, value, why);
	*field = strcmp(value, yes) == 0;
	return 0;
}

static int set_number(struct task *task, const char *key, const char *value, const char *where,
		      bool *known, struct error *err)
{
	const struct {
		const char *name;
		long long *field;
	} numbers[] = {{"rounds", &task->rounds},
		       {"tokens", &task->tokens},
		       {"turns", &task->turns},
		       {"files", &task->files},
		       {"bytes", &task->bytes}};

	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		if (strcmp(numbers[i].name, key) != 0)
			continue;
		*known = true;
		if (text_parse_size(value, 1LL << 50, numbers[i].field) < 0 ||
		    *numbers[i].field < 1)
			return bad(err, where, key, value,
				   "not a whole number from 1 (k, m, g may follow)");
	}
	return 0;
}

static int unknown(const char *key, const char *where, struct error *err)
{
	char shown[100];

	text_escape(shown, sizeof(shown), key, strlen(key));
	error_set(err, ERROR_USAGE, "%s: %s is no key of a task", where, shown);
	return error_next(err, "schedule, timezone, jitter, prompt, command, network, paths, "
			       "labels, rounds, tokens, turns, files, bytes, timeout, enabled");
}

int task_set(struct task *task, const char *key, const char *value, const char *where,
	     struct error *err)
{
	bool known = false, enabled;

	if (strlen(value) > (strcmp(key, "prompt") == 0 ? PROMPT_MAX : VALUE_MAX) ||
	    !text_is_utf8(value, strlen(value)))
		return error_set(err, ERROR_USAGE, "%s: %s: too long, or no UTF-8", where, key);
	if (set_number(task, key, value, where, &known, err) || known)
		return err->kind;
	if (strcmp(key, "schedule") == 0)
		return set_schedule(task, value, where, err);
	if (strcmp(key, "timezone") == 0)
		return set_zone(task, value, where, err);
	if (strcmp(key, "jitter") == 0)
		return set_span(&task->jitter_s, key, value, where, err);
	if (strcmp(key, "timeout") == 0)
		return set_span(&task->timeout_s, key, value, where, err);
	if (strcmp(key, "prompt") == 0)
		return set_text(&task->prompt, key, value, where, err);
	if (strcmp(key, "command") == 0)
		return set_text(&task->command, key, value, where, err);
	if (strcmp(key, "network") == 0) {
		free(task->network_at);
		task->network_at = mem_strdup(where);
		return set_word(&task->registries, key, value, "none", "registries", where,
				err);
	}
	if (strcmp(key, "path") == 0 || strcmp(key, "paths") == 0)
		return add_path(task, key, value, where, err);
	if (strcmp(key, "label") == 0 || strcmp(key, "labels") == 0)
		return add_label(task, key, value, where, err);
	if (strcmp(key, "enabled") == 0) {
		if (set_word(&enabled, key, value, "no", "yes", where, err) == 0)
			task->disabled = !enabled;
		return err->kind;
	}
	if (strcmp(key, "repository") == 0 && !task->repository)
		return add_item(&task->only, key, value, where, err);
	return unknown(key, where, err);
}

int task_check(const struct task *task, const char *where, struct error *err)
{
	const char *prompt = task->prompt ? task->prompt : "";

	if (!task->command && !prompt[strspn(prompt, " \t\r\n")]) {
		error_set(err, ERROR_USAGE, "%s: task %s has nothing to do", where, task->name);
		return error_next(err,
				  task->repository
				      ? "write the prompt below the front matter, or a command"
				      : "set prompt or command");
	}
	if (task->registries && !task->command)
		return error_set(err, ERROR_USAGE,
				 "%s: task %s: network is for commands; a model has none",
				 task->network_at, task->name);
	return 0;
}

/* ---- front matter ---- */

struct matter {
	struct task *task;
	const char *path, *p, *end;
	int line;
	char key[32]; /* whose list follows; "": none */
	char where[400];
};

static int refuse(struct matter *matter, struct error *err, const char *why)
{
	error_set(err, ERROR_USAGE, "%s: %s", matter->where, why);
	return error_next(err, "the front matter is lines \"key: value\" between two lines "
			       "\"---\": agent(1), MAINTENANCE");
}

/* The next line without its end, in a copy; NULL at the end of the text. */
static char *take_line(struct matter *matter)
{
	const char *eol;
	char *line;
	size_t len;

	if (matter->p >= matter->end)
		return NULL;
	eol = memchr(matter->p, '\n', (size_t)(matter->end - matter->p));
	len = (size_t)((eol ? eol : matter->end) - matter->p);
	line = mem_strndup(matter->p, len);
	if (len && line[len - 1] == '\r')
		line[len - 1] = '\0';
	matter->p = eol ? eol + 1 : matter->end;
	matter->line++;
	snprintf(matter->where, sizeof(matter->where), "%s:%d", matter->path, matter->line);
	return line;
}

/*
 * A plain or quoted value at *text, up to one of stops; *text moves to what is behind it and blanks. Owned by the caller;
 * NULL when a quote is not closed.
 */
static char *take_scalar(const char **text, const char *stops)
{
	struct strbuf value AUTO_STRBUF = STRBUF_NONE;
	const char *p = *text + strspn(*text, " \t");
	char quote = *p == '"' || *p == '\'' ? *p : '\0';

	strbuf_init(&value, STRBUF_MAX);
	if (quote) {
		for (p++; *p && *p != quote; p++) {
			if (quote == '"' && *p == '\\' && (p[1] == '"' || p[1] == '\\'))
				p++;
			strbuf_addc(&value, *p);
		}
		if (!*p)
			return NULL;
		p++;
	} else {
		size_t len = strcspn(p, stops), keep;

		for (size_t i = 1; i < len; i++)
			if (p[i] == '#' && (p[i - 1] == ' ' || p[i - 1] == '\t'))
				len = i;
		for (keep = len; keep && (p[keep - 1] == ' ' || p[keep - 1] == '\t');)
			keep--;
		strbuf_add(&value, p, keep);
		p += len;
	}
	*text = p + strspn(p, " \t");
	return mem_strndup(value.data ? value.data : "", value.len);
}

/* Whether nothing but a comment is left. */
static bool is_over(const char *text)
{
	text += strspn(text, " \t");
	return !*text || *text == '#';
}

static bool is_list(const char *key)
{
	return strcmp(key, "path") == 0 || strcmp(key, "paths") == 0 ||
	       strcmp(key, "label") == 0 || strcmp(key, "labels") == 0;
}

/* [a, "b"] */
static int take_flow(struct matter *matter, const char *text, struct error *err)
{
	for (text++; text[strspn(text, " \t")] != ']'; text++) {
		char *item AUTO_FREE = take_scalar(&text, ",]");

		if (!item || (*text != ',' && *text != ']'))
			return refuse(matter, err, "a list that is not closed");
		if (task_set(matter->task, matter->key, item, matter->where, err))
			return err->kind;
		if (*text == ']')
			break;
	}
	text += strspn(text, " \t");
	matter->key[0] = '\0';
	return is_over(text + 1) ? 0 : refuse(matter, err, "something behind a list");
}

/* - item */
static int take_item(struct matter *matter, const char *text, struct error *err)
{
	char *item AUTO_FREE = NULL;

	if (!matter->key[0])
		return refuse(matter, err, "an item that is in no list");
	item = take_scalar(&text, "");
	if (!item || !is_over(text))
		return refuse(matter, err, "a quote that is not closed");
	return task_set(matter->task, matter->key, item, matter->where, err);
}

static int take_pair(struct matter *matter, const char *line, struct error *err)
{
	size_t len = strspn(line, "abcdefghijklmnopqrstuvwxyz-");
	const char *text = line + len + 1;
	char *value AUTO_FREE = NULL;

	if (!len || len >= sizeof(matter->key) || line[len] != ':' ||
	    (*text && *text != ' ' && *text != '\t'))
		return refuse(matter, err, "neither \"key: value\" nor \"- item\"");
	memcpy(matter->key, line, len);
	matter->key[len] = '\0';
	text += strspn(text, " \t");
	if (strcmp(matter->key, "prompt") == 0)
		return refuse(matter, err, "the prompt is what follows the front matter");
	if (*text == '[' && is_list(matter->key))
		return take_flow(matter, text, err);
	if (is_over(text) && is_list(matter->key))
		return 0; /* its items follow */
	if (*text && strchr("[{|>&*!%@`", *text) && strcmp(matter->key, "schedule") != 0)
		return refuse(matter, err, "this kind of value is not read here: quote it");
	value = take_scalar(&text, "");
	if (!value || !is_over(text))
		return refuse(matter, err, "a quote that is not closed, or text behind one");
	if (task_set(matter->task, matter->key, value, matter->where, err))
		return err->kind;
	if (!is_list(matter->key))
		matter->key[0] = '\0';
	return 0;
}

/* Up to the second "---". */
static int take_matter(struct matter *matter, struct error *err)
{
	char *first AUTO_FREE = take_line(matter);

	if (!first || strcmp(first, "---") != 0)
		return refuse(matter, err,
			      "it does not begin with front matter, a line \"---\"");
	for (;;) {
		char *line AUTO_FREE = take_line(matter);
		const char *text = line ? line + strspn(line, " \t") : NULL;
		int result = 0;

		if (!line)
			return refuse(matter, err, "the front matter has no second \"---\"");
		if (strcmp(line, "---") == 0)
			return 0;
		if (!*text || *text == '#')
			continue;
		if (text[0] == '-' && (text[1] == ' ' || !text[1]))
			result = take_item(matter, text + 1, err);
		else if (text != line)
			result = refuse(matter, err, "an indented line that is no item");
		else
			result = take_pair(matter, line, err);
		if (result)
			return result;
	}
}

static int parse(struct matter *matter, struct error *err)
{
	if (memchr(matter->p, '\0', (size_t)(matter->end - matter->p)) ||
	    !text_is_utf8(matter->p, (size_t)(matter->end - matter->p)))
		return error_set(err, ERROR_USAGE, "%s is no text in UTF-8", matter->path);
	if (matter->end - matter->p >= 3 && memcmp(matter->p, "\xef\xbb\xbf", 3) == 0)
		matter->p += 3;
	if (take_matter(matter, err))
		return err->kind;
	if ((size_t)(matter->end - matter->p) > PROMPT_MAX)
		return error_set(err, ERROR_USAGE, "%s: its prompt is longer than 64 KiB",
				 matter->where);
	matter->task->prompt = mem_strndup(matter->p, (size_t)(matter->end - matter->p));
	return task_check(matter->task, matter->where, err);
}

int task_parse(const char *path, const char *text, size_t len, struct task *task,
	       struct error *err)
{
	struct matter matter = {.task = task, .path = path, .p = text, .end = text + len};
	const char *base = strrchr(path, '/');
	char *name AUTO_FREE = mem_strdup(base ? base + 1 : path);
	size_t stem = strlen(name);

	snprintf(matter.where, sizeof(matter.where), "%s:1", path);
	if (stem > 3 && strcmp(name + stem - 3, ".md") == 0)
		name[stem - 3] = '\0';
	if (task_init(task, name, path, true, err) || parse(&matter, err)) {
		task_release(task);
		return err->kind;
	}
	return 0;
}

/* ---- digest ---- */

static void add_part(struct strbuf *out, const char *name, const char *value)
{
	strbuf_addf(out, "%s %zu\n", name, strlen(value));
	strbuf_adds(out, value);
}

void task_digest(const struct task *task, char digest[65])
{
	struct strbuf all AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&all, STRBUF_MAX);
	add_part(&all, "prompt", task->prompt ? task->prompt : "");
	add_part(&all, "command", task->command ? task->command : "");
	add_part(&all, "network", task->registries ? "registries" : "none");
	for (size_t i = 0; i < task->paths.count; i++)
		add_part(&all, "path", task->paths.items[i]);
	sha256_hex(all.data, all.len, digest);
}
