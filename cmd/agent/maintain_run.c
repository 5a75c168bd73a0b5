/* A task's run, and what became of what it proposed. */
#include "maintain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

#define TEXT_MAX ((size_t)1 << 19)

static struct run new_run(void)
{
	return (struct run){.key_fd = -1,
			    .deps_lock = -1,
			    .dir = {.fd = -1, .lock_fd = -1},
			    .sup = {.signal_fd = -1},
			    .journal = {.events_fd = -1}};
}

/* ---- what is asked ---- */

/* The command line's pairs. What a mirror's tasks make goes to where it comes from; a bare repository that has no remote is where
 * results go itself. New. */
static struct json *pairs_of(const struct upkeep *upkeep, const struct upkeep_place *place)
{
	const struct config *config = upkeep->options->config;
	struct json *pairs = js_copy(upkeep->options->pairs);
	struct error none = {0};
	const char *url;
	char *remote AUTO_FREE = NULL, *itself AUTO_FREE = NULL;

	if (place->repo.work_dir ||
	    strcmp(config_origin(config, "publish.remote"), "default") != 0)
		return pairs;
	remote =
	    repository_remote_url(&place->repo, config_get(config, "publish.remote"), &none);
	if (remote)
		return pairs;
	url = mirror_url(config, upkeep->state, place->repo.git_dir);
	itself = mem_printf("publish.remote=%s", url ? url : place->repo.git_dir);
	js_push_str(pairs, itself);
	return pairs;
}

static void put_text(const struct task *task, struct strbuf *text)
{
	const char *prompt = task->prompt ? task->prompt : "";

	strbuf_init(text, TEXT_MAX);
	if (prompt[strspn(prompt, " \t\r\n")])
		strbuf_adds(text, prompt);
	else
		strbuf_addf(text, "Run %s", task->command);
	if (!task->paths.count || task->command)
		return;
	strbuf_adds(text,
		    "\n\nOnly files that match one of these patterns may be changed; a change "
		    "of any other file is refused:\n\n");
	for (size_t i = 0; i < task->paths.count; i++)
		strbuf_addf(text, "- %s\n", task->paths.items[i]);
}

static struct json *list_as_json(const struct task_list *list)
{
	struct json *array = js_array_new();

	for (size_t i = 0; i < list->count; i++)
		js_push_str(array, list->items[i]);
	return array;
}

/* What the run's request says of the task: pipeline stages take it from there. */
static struct json *task_as_json(const struct task *task, const char *inputs)
{
	const struct {
		const char *key;
		long long most;
	} limits[] = {{"run.rounds", task->rounds},	   {"budget.runTokens", task->tokens},
		      {"model.turns", task->turns},	   {"apply.maxFiles", task->files},
		      {"apply.maxBytes", task->bytes},	   {"test.timeout", task->timeout_s},
		      {"command.timeout", task->timeout_s}};
	struct json *json = js_object_new(), *narrow = js_object_new();

	js_set_str(json, "name", task->name);
	js_set_str(json, "origin", task->origin);
	js_set_str(json, "inputs", inputs);
	if (task->paths.count)
		js_set(json, "paths", list_as_json(&task->paths));
	if (task->labels.count)
		js_set(json, "labels", list_as_json(&task->labels));
	for (size_t i = 0; i < ARRAY_LEN(limits); i++)
		if (limits[i].most)
			js_set_int(narrow, limits[i].key, limits[i].most);
	js_set(json, "limits", narrow);
	return json;
}

static struct json *make_request(const struct upkeep *upkeep, const struct upkeep_place *place,
				 const struct task *task, const char *inputs,
				 struct strbuf *text, struct error *err)
{
	const char *rev = config_get(upkeep->options->config, "maintain.ref");
	struct json *request AUTO_JSON = NULL, *pairs;
	struct options asked = *upkeep->options;

	asked.change_command = task->command;
	asked.change_network =
	    !task->command ? NULL : (task->registries ? "registries" : "none");
	put_text(task, text);
	if (text->full) {
		error_set(err, ERROR_USAGE, "%s: its prompt is too long", task->origin);
		return NULL;
	}
	if (request_make_task(&asked, &place->repo, task->name, rev, text, &request, err))
		return NULL;
	pairs = pairs_of(upkeep, place);
	/* The operator's task says so, or maintain.network let the repository's. */
	if (task->registries)
		js_push_str(pairs, "command.network=registries");
	js_set(request, "pairs", pairs);
	js_set(request, "maintenance", task_as_json(task, inputs));
	/* Nobody watches what a clock begins (DESIGN section 3, Uids). */
	if (upkeep->options->due)
		js_set_bool(request, "separate_uid", true);
	return MEM_STEAL(request);
}

/* ---- what became of a proposal ---- */

/* The paths that it changed; NULL when its run is gone. New. */
static struct json *read_changes(const struct upkeep *upkeep, const struct json *row)
{
	struct rundir dir = {.fd = -1, .lock_fd = -1};
	struct error ignored = {0};
	struct json *report AUTO_JSON = NULL, *tree AUTO_JSON = NULL;
	const char *run = js_str(row, "run", NULL);

	if (run && rundir_open(upkeep->state, run, false, &dir, &ignored) == 0) {
		report = rundir_read(&dir, "report.json", "report", VERDICT_MAX, &ignored);
		char *name AUTO_FREE =
		    round_file((int)js_int(report, "green_round", 0), "tree.json");

		tree = rundir_read(&dir, name, "tree", TREE_MAX, &ignored);
	}
	rundir_release(&dir);
	return tree && js_get(tree, "changes") ? js_copy(js_get(tree, "changes")) : NULL;
}

static int ask_merged(const struct upkeep *upkeep, const struct upkeep_place *place,
		      const struct json *row, bool *merged, struct error *err)
{
	struct json *changes AUTO_JSON = read_changes(upkeep, row);
	struct json *answer AUTO_JSON =
	    upkeep_ask(upkeep, place, false, NULL, js_str(row, "commit_id", ""), changes, err);

	if (!answer)
		return err->kind;
	*merged = js_bool(js_at(js_get(answer, "made"), 0), "merged", false);
	return 0;
}

/* A run that only looks: its directory is temporary. */
static int open_look(struct run *run, const struct upkeep *upkeep,
		     const struct upkeep_place *place, const struct json *row,
		     struct error *err)
{
	struct json *request AUTO_JSON = js_artefact_new("request", 1);
	struct options quiet = *upkeep->options;

	if (rundir_create_temporary(upkeep->state, &run->dir, err))
		return err->kind;
	js_set_str(request, "repository", place->path);
	js_set_str(request, "ref", js_str(row, "ref", ""));
	js_set(request, "pairs", pairs_of(upkeep, place));
	quiet.json = false;
	if (rundir_write(&run->dir, "request.json", request, err) || run_open(run, &quiet, err))
		return err->kind;
	run->journal.quiet = true;
	return run_check_remote(run, err);
}

static int look(struct run *run, const struct upkeep *upkeep, const struct upkeep_place *place,
		const struct json *row, const char **state, struct error *err)
{
	long long pull = js_int(row, "pull", 0);
	char tip[65], fate[16] = "";
	bool merged = false;

	/* pushed to another place than now: there it is nobody's business any more */
	if (strcmp(run->remote_url, js_str(row, "url", "")) != 0) {
		*state = "elsewhere";
		return 0;
	}
	if (step_tip(run, tip, err) || (pull && step_look(run, pull, fate, err)))
		return err->kind;
	if (strcmp(fate, "merged") != 0 && ask_merged(upkeep, place, row, &merged, err))
		return err->kind;
	if (merged || strcmp(fate, "merged") == 0)
		*state = "merged";
	else if (!tip[0] || strcmp(fate, "closed") == 0)
		*state = "closed";
	else
		*state = "open"; /* also when somebody else's commits are on it */
	return 0;
}

int upkeep_resolve(struct upkeep *upkeep, const struct upkeep_place *place, const char *task,
		   const struct json *row, enum proposal *proposal, struct error *err)
{
	const struct record_key key = {place->path, task};
	struct run run = new_run();
	const char *state = "open";
	struct error ignored = {0};
	int result = open_look(&run, upkeep, place, row, err);

	if (result == 0)
		result = look(&run, upkeep, place, row, &state, err);
	supervise_release(&run.sup);
	if (run.dir.path)
		rundir_remove(&run.dir, &ignored);
	run_release(&run);
	if (result)
		return error_wrap(err, "what became of %s", js_str(row, "ref", ""));
	*proposal = proposal_parse(state);
	if (upkeep->options->dry_run || *proposal == PROPOSAL_OPEN)
		return 0;
	return record_resolve(upkeep->record, &key, state, err);
}

/* ---- the run ---- */

/* The run's directory, as agent run makes it, or as a killed one left it. */
static int enter(struct run *run, const struct upkeep *upkeep, const char *id,
		 const struct json *request, const struct strbuf *text, struct error *err)
{
	struct json *copy AUTO_JSON = js_copy(request);
	int result = rundir_enter(upkeep->state, id, &run->dir, err);

	if (result == 0 && !rundir_has(&run->dir, "request.json"))
		result = request_store(&run->dir, copy, text->data, text->len, err);
	return result;
}

/* What happened, for the summary. Owned by the caller. */
static char *describe(const struct run *run, const struct error *err)
{
	struct error ignored = {0};
	struct json *pull AUTO_JSON = rundir_read(&run->dir, "publish/forge-pull.json",
						  "forge-pull", VERDICT_MAX, &ignored);
	struct json *receipt AUTO_JSON =
	    rundir_read(&run->dir, "publish/receipt.json", "receipt", VERDICT_MAX, &ignored);
	const char *url = js_str(pull, "url", "");

	if (err->kind)
		return mem_printf("%s (agent show %s)", err->message, run->dir.id);
	return mem_printf("pushed %s at %.12s%s%s", run_branch(run),
			  js_str(receipt, "commit", ""), url[0] ? ", " : "", url);
}

static const char *outcome_of(const struct run *run, const struct error *err)
{
	switch (err->kind) {
	case ERROR_NONE:
		return "published";
	case ERROR_SKIPPED:
		return "nothing";
	case ERROR_NO:
		return strncmp(err->message, "no change", 9) == 0 ||
			       strstr(err->message, "the model made no change")
			   ? "nothing"
			   : "refused";
	case ERROR_USAGE:
		/* the next run has what the task and the repository say by then, unless a model was paid */
		return run_change_command(run) || !rundir_has(&run->dir, "round-1") ? "refused"
										    : "failed";
	default:
		return "failed";
	}
}

static int record_pushed(struct upkeep *upkeep, const struct record_key *key,
			 const struct run *run, const char *inputs, struct error *err)
{
	struct error ignored = {0};
	struct json *receipt AUTO_JSON =
	    rundir_read(&run->dir, "publish/receipt.json", "receipt", VERDICT_MAX, &ignored);
	struct json *pull AUTO_JSON = rundir_read(&run->dir, "publish/forge-pull.json",
						  "forge-pull", VERDICT_MAX, &ignored);
	const struct record_proposal proposal = {.commit = js_str(receipt, "commit", ""),
						 .ref = js_str(receipt, "ref", ""),
						 .url = js_str(receipt, "url", ""),
						 .inputs = inputs,
						 .pull = js_int(pull, "number", 0)};

	return receipt ? record_propose(upkeep->record, key, &proposal, err) : 0;
}

/* Writes down how it ended; ended is what run_go said. */
static int settle(struct upkeep *upkeep, const struct record_key *key, const struct run *run,
		  const char *inputs, const struct error *ended, char **words,
		  struct error *err)
{
	const char *outcome = outcome_of(run, ended);
	char *text AUTO_FREE = describe(run, ended);
	bool nothing = strcmp(outcome, "nothing") == 0;

	if (!nothing)
		upkeep_note(upkeep, ended->kind);
	if (record_pushed(upkeep, key, run, inputs, err) ||
	    record_end(upkeep->record, key, outcome, text, time(NULL),
		       strcmp(outcome, "failed") != 0, err))
		return err->kind;
	/* with a clock, nothing to do is nothing to say */
	*words = nothing && upkeep->options->due ? mem_strdup("") : MEM_STEAL(text);
	return 0;
}

static int go(struct upkeep *upkeep, const struct record_key *key, struct run *run,
	      const char *inputs, char **words, struct error *err)
{
	struct options quiet = *upkeep->options;
	struct error ended = {0};
	int lock AUTO_FD = -1;
	bool locked = false;

	quiet.json = false;
	if (run_open(run, &quiet, &ended) == 0) {
		run->journal.quiet = upkeep->options->due || upkeep->options->json;
		locked = run_lock_issue(run, false, &lock, &ended) == 0;
		if (locked)
			run_go(run, false, &ended);
	}
	if (ended.kind == ERROR_INTERRUPTED || (ended.kind == ERROR_SKIPPED && !locked)) {
		*err = ended; /* it is gone on with the next time */
		return err->kind;
	}
	return settle(upkeep, key, run, inputs, &ended, words, err);
}

/* What is known to be open may be so no more: other tasks, and those that are gone, are looked at when there seem to be too many. */
static int look_again(struct upkeep *upkeep, const struct upkeep_place *place,
		      struct error *err)
{
	struct json *names AUTO_JSON = record_open_tasks(upkeep->record, place->path, err);

	for (size_t i = 0; names && i < js_len(names); i++) {
		const struct record_key key = {place->path, js_text(js_at(names, i))};
		struct json *row AUTO_JSON = record_get(upkeep->record, &key, err);
		enum proposal ignored;

		if (!row || upkeep_resolve(upkeep, place, key.task, row, &ignored, err))
			return err->kind;
	}
	return names ? 0 : err->kind;
}

static int begin(struct upkeep *upkeep, const struct upkeep_place *place,
		 const struct record_key *key, const char *id, const char *inputs,
		 bool free_of_tokens, char **reason, struct error *err)
{
	const struct config *config = upkeep->options->config;
	const struct record_limits limits = {.open = config_number(config, "maintain.maxOpen"),
					     .hour = config_number(config, "maintain.perHour"),
					     .day = config_number(config, "maintain.perDay"),
					     .day_tokens =
						 config_number(config, "maintain.dayTokens"),
					     .free = free_of_tokens};
	char *first AUTO_FREE = NULL;
	int result =
	    record_begin(upkeep->record, key, id, inputs, time(NULL), &limits, &first, err);

	if (result)
		return result;
	if (look_again(upkeep, place, err))
		return err->kind;
	return record_begin(upkeep->record, key, id, inputs, time(NULL), &limits, reason, err);
}

/* What a run that is gone on with has seen, which may have changed since. Owned by the caller. */
static char *inputs_of(const struct upkeep *upkeep, const char *resume, const char *now)
{
	struct rundir dir = {.fd = -1, .lock_fd = -1};
	struct error ignored = {0};
	struct json *request AUTO_JSON = NULL;

	if (resume && rundir_open(upkeep->state, resume, false, &dir, &ignored) == 0)
		request = rundir_read(&dir, "request.json", "request", REQUEST_MAX, &ignored);
	rundir_release(&dir);
	return mem_strdup(js_str(js_get(request, "maintenance"), "inputs", now));
}

int upkeep_run(struct upkeep *upkeep, const struct upkeep_place *place, const struct task *task,
	       const char *resume, const char *now, char **words, char **reason,
	       struct error *err)
{
	const struct record_key key = {place->path, task->name};
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	char *inputs AUTO_FREE = inputs_of(upkeep, resume, now);
	struct json *request AUTO_JSON = make_request(upkeep, place, task, inputs, &text, err);
	struct run run = new_run();
	char id[RUNDIR_ID_MAX];
	int result = request ? 0 : err->kind;

	if (result == 0 && resume)
		snprintf(id, sizeof(id), "%s", resume);
	else if (result == 0)
		result = rundir_new_id(id, err);
	if (result == 0)
		result =
		    begin(upkeep, place, &key, id, inputs, task->command != NULL, reason, err);
	if (result != 1)
		return result;
	result = enter(&run, upkeep, id, request, &text, err);
	if (result == 0)
		result = go(upkeep, &key, &run, inputs, words, err);
	run_release(&run);
	return result;
}
