/* Where tasks come from: the operator's configuration, and the tree of a repository's trusted ref. */
#include "maintain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/sha256.h"
#include "pipeline/base/text.h"
#include "pipeline/fds.h"

#define ANSWER_MAX ((size_t)64 << 20)

void upkeep_place_release(struct upkeep_place *place)
{
	for (size_t i = 0; i < place->count; i++)
		task_release(&place->tasks[i]);
	free(place->tasks);
	repository_release(&place->repo);
}

static struct task *find_task(struct upkeep_place *place, const char *name)
{
	for (size_t i = 0; i < place->count; i++)
		if (strcmp(place->tasks[i].name, name) == 0)
			return &place->tasks[i];
	return NULL;
}

/* Takes it. */
static void add_task(struct upkeep_place *place, const struct task *task)
{
	place->tasks = mem_realloc(place->tasks, place->count + 1, sizeof(*place->tasks));
	place->tasks[place->count++] = *task;
}

/* ---- tasks that are refused ---- */

/*
 * What is wrong in one place, "" being the operator's configuration. The clock says it once: the record has what it said last of
 * each file or section, a digest of that and of the file. What is asked by hand is said.
 */
struct refusals {
	struct upkeep *upkeep;
	const char *where;
	struct json *before, *now; /* owned; NULL: by hand */
	bool news;
};

static void release_refusals(struct refusals *refusals)
{
	js_free(refusals->before);
	js_free(refusals->now);
}
#define AUTO_REFUSALS __attribute__((cleanup(release_refusals)))

static int begin_refusals(struct refusals *refusals, struct error *err)
{
	const struct options *options = refusals->upkeep->options;

	if (!options->due || options->dry_run || options->word_count)
		return 0;
	refusals->before = record_refusals(refusals->upkeep->record, refusals->where, err);
	refusals->now = js_object_new();
	return refusals->before ? 0 : err->kind;
}

static int end_refusals(const struct refusals *refusals, struct error *err)
{
	if (!refusals->news && js_len(refusals->now) == js_len(refusals->before))
		return 0;
	return record_set_refusals(refusals->upkeep->record, refusals->where, refusals->now,
				   err);
}

/* what: file or section; text: of the file, "" where there is none. */
static void refuse(struct refusals *refusals, const char *name, const char *what,
		   const char *text, const struct error *wrong)
{
	struct upkeep *upkeep = refusals->upkeep;
	char digest[65], *all AUTO_FREE = mem_printf("%s\n%s", wrong->message, text);

	if (!upkeep_want(upkeep, name))
		return; /* others were asked for */
	if (refusals->now) {
		sha256_hex(all, strlen(all), digest);
		js_set_str(refusals->now, what, digest);
		if (strcmp(js_str(refusals->before, what, ""), digest) == 0)
			return;
		refusals->news = true;
	}
	upkeep_complain(upkeep, wrong);
}

/* ---- the operator's ---- */

static bool is_for(const struct task *task, const struct upkeep_place *place)
{
	for (size_t i = 0; i < task->only.count; i++) {
		char *path AUTO_FREE = realpath(task->only.items[i], NULL);

		if (path && strcmp(path, place->path) == 0)
			return true;
	}
	return task->only.count == 0;
}

/* All keys of the task that the entry at index begins. */
static int read_configured(const struct config *config, size_t index, struct task *task,
			   struct error *err)
{
	const struct config_task *entry = config_task_at(config, index);
	const char *name = entry->name;

	if (task_init(task, name, entry->origin, false, err))
		return err->kind;
	for (; (entry = config_task_at(config, index)); index++)
		if (strcmp(entry->name, name) == 0 &&
		    task_set(task, entry->key, entry->value, entry->origin, err))
			return err->kind;
	return task_check(task, task->origin, err);
}

static bool is_first(const struct config *config, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (strcmp(config_task_at(config, i)->name,
			   config_task_at(config, index)->name) == 0)
			return false;
	return true;
}

/* What is wrong with one is said at the first place. */
static int add_configured(struct upkeep *upkeep, struct upkeep_place *place, struct error *err)
{
	struct refusals refusals AUTO_REFUSALS = {.upkeep = upkeep, .where = ""};
	const struct config *config = upkeep->options->config;
	bool first = !upkeep->configured;

	upkeep->configured = true;
	if (first && begin_refusals(&refusals, err))
		return err->kind;
	for (size_t i = 0; config_task_at(config, i); i++) {
		struct error wrong = {0};
		struct task task;

		if (!is_first(config, i))
			continue;
		if (read_configured(config, i, &task, &wrong) == 0 && is_for(&task, place)) {
			add_task(place, &task);
			continue;
		}
		if (wrong.kind && first) {
			const char *name = config_task_at(config, i)->name;
			char *section AUTO_FREE = mem_printf("maintain.%s", name);

			refuse(&refusals, name, section, "", &wrong);
		}
		task_release(&task);
	}
	return first ? end_refusals(&refusals, err) : 0;
}

/* ---- the repository's ---- */

struct json *upkeep_ask(const struct upkeep *upkeep, const struct upkeep_place *place,
			bool read, const struct task *seen, const char *commit,
			const struct json *changes, struct error *err)
{
	struct json *job AUTO_JSON = js_object_new(), *patterns = js_array_new();
	struct json *made = js_array_new(), *all = js_array_new(), *answer AUTO_JSON = NULL;
	struct journal journal = {.quiet = true, .events_fd = -1};
	struct supervised stage = {0};
	struct supervisor sup;
	int out AUTO_FD = memfd_create("tasks", MFD_CLOEXEC), result;

	js_set(job, "paths", repository_paths(&place->repo));
	js_set_str(job, "rev", config_get(upkeep->options->config, "maintain.ref"));
	js_set_bool(job, "read", read);
	for (size_t i = 0; seen && i < seen->paths.count; i++)
		js_push_str(patterns, seen->paths.items[i]);
	js_set(job, "seen", all);
	js_set(job, "made", made);
	if (seen)
		js_push(all, patterns);
	else
		js_free(patterns);
	if (commit) {
		struct json *one = js_object_new();

		js_set_str(one, "commit", commit);
		if (changes)
			js_set(one, "changes", js_copy(changes));
		js_push(made, one);
	}
	if (out < 0) {
		error_set(err, ERROR_FAILED, "memfd_create");
		return NULL;
	}
	result = supervise_init(&sup, &journal, err);
	if (result == 0)
		result =
		    supervise_start(&sup, &stage, STAGE_TASKS, job,
				    (struct spawn_fd[]){{FD_OUT, out}}, 1, 0, NULL, NULL, err);
	if (result == 0)
		result = supervise_wait(&sup, &stage, err);
	supervise_end(&sup, &stage);
	supervise_release(&sup);
	if (result)
		return NULL;
	answer = js_read_fd(out, ANSWER_MAX, "the tasks", err);
	return answer && js_check_kind(answer, "tasks", 1, err) == 0 ? MEM_STEAL(answer) : NULL;
}

static int refuse_network(const struct task *task, struct error *err)
{
	error_set(err, ERROR_USAGE,
		  "%s: network: registries is not allowed to tasks of repositories",
		  task->network_at);
	return error_next(err, "the operator may: maintain.network = registries");
}

/* shown: its path. */
static int add_file(const struct upkeep *upkeep, struct upkeep_place *place,
		    const struct json *file, const char *shown, struct error *err)
{
	const char *text = js_str(file, "text", ""), *why = js_str(file, "why", NULL);
	const char *network = config_get(upkeep->options->config, "maintain.network");
	const struct task *other;
	struct task task;

	if (why)
		return error_set(err, ERROR_USAGE, "%s: %s", shown, why);
	if (task_parse(shown, text, js_text_len(js_get(file, "text")), &task, err))
		return err->kind;
	other = find_task(place, task.name);
	if (other) {
		error_set(err, ERROR_USAGE, "%s: task %s is the operator's: %s", shown,
			  task.name, other->origin);
		task_release(&task);
		return error_next(err, "give one of the two another name");
	}
	if (task.registries && strcmp(network, "registries") != 0) {
		refuse_network(&task, err);
		task_release(&task);
		return err->kind;
	}
	add_task(place, &task);
	return 0;
}

static int add_own(struct upkeep *upkeep, struct upkeep_place *place, struct error *err)
{
	struct json *answer AUTO_JSON = upkeep_ask(upkeep, place, true, NULL, NULL, NULL, err);
	struct refusals refusals AUTO_REFUSALS = {.upkeep = upkeep, .where = place->path};
	const struct json *files = js_get(answer, "files");

	if (!answer || begin_refusals(&refusals, err))
		return err->kind;
	for (size_t i = 0; i < js_len(files); i++) {
		const struct json *file = js_at(files, i);
		const char *path = js_str(file, "path", ""), *base = strrchr(path, '/');
		char *name AUTO_FREE = mem_strdup(base ? base + 1 : path);
		struct error wrong = {0};
		char shown[300];

		text_escape(shown, sizeof(shown), path, strlen(path));
		if (add_file(upkeep, place, file, shown, &wrong) == 0)
			continue;
		if (strlen(name) > 3)
			name[strlen(name) - 3] = '\0'; /* .md */
		refuse(&refusals, name, path, js_str(file, "text", ""), &wrong);
	}
	return end_refusals(&refusals, err);
}

static bool own_count(const struct upkeep *upkeep)
{
	return strcmp(config_get(upkeep->options->config, "maintain.fromRepository"), "yes") ==
	       0;
}

const char *upkeep_not_counted(const struct upkeep *upkeep)
{
	return own_count(upkeep)
		   ? "; those in a repository's .agent/maintain/ count once they are "
		     "committed (maintain.ref)"
		   : "; those in a repository's .agent/maintain/ count with "
		     "maintain.fromRepository = yes";
}

int upkeep_gather(struct upkeep *upkeep, struct upkeep_place *place, struct error *err)
{
	int result = add_configured(upkeep, place, err);

	if (result == 0 && own_count(upkeep))
		result = add_own(upkeep, place, err);
	upkeep->tasks += place->count;
	return result;
}

int upkeep_inputs(const struct upkeep *upkeep, const struct upkeep_place *place,
		  const struct task *task, char digest[65], struct error *err)
{
	struct json *answer AUTO_JSON = upkeep_ask(upkeep, place, false, task, NULL, NULL, err);
	const char *seen = js_text(js_at(js_get(answer, "seen"), 0));
	char own[65], *all AUTO_FREE = NULL;

	if (!answer)
		return err->kind;
	if (!seen)
		return error_set(err, ERROR_FAILED, "agent-apply tasks told no digest");
	task_digest(task, own);
	all = mem_printf("%s\n%s\n", own, seen);
	sha256_hex(all, strlen(all), digest);
	return 0;
}
