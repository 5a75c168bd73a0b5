/*
 * agent maintain: runs tasks that are due. A task's run is an ordinary run whose issue is maintain:NAME, so that branch,
 * receipts, locks and pull request are those of any run. What was begun is in the database before its run's directory is made: a killed
 * one is gone on with by the next agent maintain. For cron: quiet unless something happened.
 */
#include "maintain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/text.h"

void upkeep_note(struct upkeep *upkeep, int kind)
{
	static const int order[] = {0,		 ERROR_NO,     ERROR_USAGE,
				    ERROR_LATER, ERROR_FAILED, ERROR_ISOLATION};
	size_t worst = 0, now = 0;

	for (size_t i = 0; i < ARRAY_LEN(order); i++) {
		if (order[i] == upkeep->worst)
			worst = i;
		if (order[i] == kind)
			now = i;
	}
	if (now > worst)
		upkeep->worst = kind;
}

void upkeep_complain(struct upkeep *upkeep, const struct error *err)
{
	upkeep_note(upkeep, err->kind);
	print_error(err);
}

/* ---- one task ---- */

/* When it is due next, by its schedule and what was dealt with last; -1: never by a schedule. */
static long long next_due(const struct upkeep_place *place, const struct task *task,
			  const struct json *row, long long now)
{
	long long jitter = schedule_jitter(place->path, task->name, task->jitter_s);
	long long from = js_int(row, "handled", now) - jitter, next;
	struct schedule_zone zone;
	struct error ignored = {0};

	if (!task->schedule || schedule_enter_zone(task->timezone, &zone, &ignored))
		return -1;
	next = schedule_next(&task->times, (time_t)(from > 0 ? from : 0));
	schedule_leave_zone(&zone);
	return next < 0 ? -1 : next + jitter;
}

/* What is known of a task, on the way to a decision. */
struct chore {
	struct upkeep *upkeep;
	const struct upkeep_place *place;
	const struct task *task;
	struct record_key key;
	struct json *row;  /* owned */
	char inputs[65];   /* "": not asked yet */
	char reason[1024]; /* why it is not run */
	struct decide_facts facts;
	bool named; /* on the command line: a skip is said */
};

static int begin_chore(struct chore *chore, struct error *err)
{
	const struct options *options = chore->upkeep->options;
	long long now = time(NULL);

	chore->key = (struct record_key){chore->place->path, chore->task->name};
	chore->row = record_get(chore->upkeep->record, &chore->key, err);
	if (!chore->row)
		return err->kind;
	chore->facts = (struct decide_facts){
	    .by_clock = options->due,
	    .again = options->again,
	    .disabled = chore->task->disabled,
	    .now = now,
	    .due = next_due(chore->place, chore->task, chore->row, now),
	    .outcome = outcome_parse(js_str(chore->row, "outcome", "")),
	    .attempts = js_int(chore->row, "attempts", 0),
	    .proposal = proposal_parse(js_str(chore->row, "state", "")),
	    .branch = js_str(chore->row, "ref", ""),
	    .outside = chore->task->registries,
	};
	if (strncmp(chore->facts.branch, "refs/heads/", 11) == 0)
		chore->facts.branch += 11;
	return 0;
}

/* What only the repository and the remote can tell; asked for those whose time has come. */
static int look_closer(struct chore *chore, struct error *err)
{
	struct decide_facts *facts = &chore->facts;

	if (upkeep_inputs(chore->upkeep, chore->place, chore->task, chore->inputs, err))
		return err->kind;
	if (facts->proposal == PROPOSAL_OPEN &&
	    upkeep_resolve(chore->upkeep, chore->place, chore->task->name, chore->row,
			   &facts->proposal, err))
		return err->kind;
	facts->same_as_run = strcmp(js_str(chore->row, "inputs", ""), chore->inputs) == 0;
	facts->same_as_proposal =
	    strcmp(js_str(chore->row, "proposed", ""), chore->inputs) == 0;
	return 0;
}

static enum decision decide_chore(struct chore *chore, struct error *err)
{
	enum decision decision = decide(&chore->facts, chore->reason, sizeof(chore->reason));

	if (decision == DECIDE_WAIT || chore->facts.disabled)
		return decision;
	if (look_closer(chore, err))
		return decision;
	return decide(&chore->facts, chore->reason, sizeof(chore->reason));
}

/* A line for the cron mail, or for whoever waits. */
static void say(const struct chore *chore, const char *what, const char *text)
{
	char shown[1024];

	text_escape(shown, sizeof(shown), text, strlen(text));
	if (!chore->upkeep->options->json)
		printf("%s: %s%s\n", chore->task->name, what, shown);
	fflush(stdout);
}

static void say_skip(const struct chore *chore)
{
	if (!chore->upkeep->options->due)
		say(chore, "skipped: ", chore->reason);
}

static int skip_chore(struct chore *chore, bool handled, struct error *err)
{
	upkeep_tell(chore->upkeep, chore->place, chore->task, chore->row, chore->facts.due,
		    "skipped", chore->reason);
	say_skip(chore);
	if (chore->upkeep->options->dry_run)
		return 0;
	return record_skip(chore->upkeep->record, &chore->key, chore->facts.now, chore->reason,
			   handled && chore->facts.by_clock, err);
}

static int run_chore(struct chore *chore, bool resume, struct error *err)
{
	const char *run = resume ? js_str(chore->row, "run", NULL) : NULL;
	char *words AUTO_FREE = NULL, *reason AUTO_FREE = NULL;
	const struct options *options = chore->upkeep->options;
	int result;

	if (options->dry_run) {
		chore->upkeep->ran++;
		upkeep_tell(chore->upkeep, chore->place, chore->task, chore->row,
			    chore->facts.due, "would run", "");
		say(chore, "would ", resume ? "go on with its run" : "run");
		return 0;
	}
	result = upkeep_run(chore->upkeep, chore->place, chore->task, run, chore->inputs,
			    &words, &reason, err);
	if (result == 0 && !words) {
		/* a limit: it stays due */
		snprintf(chore->reason, sizeof(chore->reason), "%s", reason ? reason : "");
		return skip_chore(chore, false, err);
	}
	if (words) {
		js_free(chore->row);
		chore->row = record_get(chore->upkeep->record, &chore->key, err);
		if (chore->row &&
		    outcome_parse(js_str(chore->row, "outcome", "")) != OUTCOME_NOTHING)
			chore->upkeep->ran++;
		upkeep_tell(chore->upkeep, chore->place, chore->task, chore->row,
			    chore->facts.due, "ran", words);
		if (words[0])
			say(chore, "", words);
	}
	return result;
}

/* Decides and runs under a lock that holds other agent maintain off this task. */
static int do_chore(struct chore *chore, struct error *err)
{
	enum decision decision;

	if (begin_chore(chore, err) ||
	    (!chore->upkeep->options->dry_run &&
	     record_see(chore->upkeep->record, &chore->key, chore->facts.now, err)))
		return err->kind;
	decision = decide_chore(chore, err);
	if (err->kind)
		return err->kind;
	switch (decision) {
	case DECIDE_WAIT:
		upkeep_tell(chore->upkeep, chore->place, chore->task, chore->row,
			    chore->facts.due, "waits", "");
		return 0;
	case DECIDE_SKIP:
		return skip_chore(chore, true, err);
	case DECIDE_RUN:
	case DECIDE_RESUME:
		break;
	}
	return run_chore(chore, decision == DECIDE_RESUME, err);
}

static int lock_chore(const struct chore *chore, int *fd, struct error *err)
{
	char *key AUTO_FREE =
	    mem_printf("maintain\n%s\n%s", chore->place->path, chore->task->name);
	const struct rundir place = {.state = chore->upkeep->state, .id = ""};

	return rundir_lock_key(&place, key, fd, err);
}

static int visit_task(struct upkeep *upkeep, const struct upkeep_place *place,
		      const struct task *task, struct error *err)
{
	struct chore chore = {.upkeep = upkeep, .place = place, .task = task};
	int lock AUTO_FD = -1, result = lock_chore(&chore, &lock, err);

	if (result == ERROR_SKIPPED) {
		*err = (struct error){0};
		snprintf(chore.reason, sizeof(chore.reason),
			 "another agent maintain works on it");
		say_skip(&chore);
		return 0;
	}
	if (result == 0)
		result = do_chore(&chore, err);
	js_free(chore.row);
	if (result == 0 || result == ERROR_INTERRUPTED)
		return result;
	/* one task's trouble is not the others' */
	error_wrap(err, "%s", task->name);
	upkeep_complain(upkeep, err);
	*err = (struct error){0};
	return 0;
}

/* ---- all of them ---- */

bool upkeep_want(struct upkeep *upkeep, const char *name)
{
	const struct options *options = upkeep->options;
	bool wanted = options->word_count == 0;

	for (size_t i = 0; i < options->word_count; i++) {
		if (strcmp(options->words[i], name) != 0)
			continue;
		wanted = true;
		if (upkeep->found)
			upkeep->found[i] = true;
	}
	return wanted;
}

static int list_task(struct upkeep *upkeep, const struct upkeep_place *place,
		     const struct task *task, struct error *err)
{
	const struct record_key key = {place->path, task->name};
	struct json *row AUTO_JSON = record_get(upkeep->record, &key, err);

	if (!row)
		return err->kind;
	upkeep_tell(upkeep, place, task, row,
		    task->disabled ? -1 : next_due(place, task, row, time(NULL)),
		    js_str(row, "outcome", ""), js_str(row, "reason", ""));
	return 0;
}

/* One task of a place; arg is the visitor's. 0 or an error kind that ends the visits. */
typedef int visit_fn(struct upkeep *upkeep, const struct upkeep_place *place,
		     const struct task *task, void *arg, struct error *err);

static int visit_place(struct upkeep *upkeep, const char *dir, visit_fn *visit, void *arg,
		       struct error *err)
{
	struct upkeep_place place = {.path = NULL};
	int result = repository_find(dir, &place.repo, err);

	if (result == 0) {
		place.path = place.repo.work_dir ? place.repo.work_dir : place.repo.git_dir;
		result = upkeep_gather(upkeep, &place, err);
	}
	if (result && result != ERROR_INTERRUPTED) {
		upkeep_complain(upkeep, err);
		upkeep->unread = true;
		*err = (struct error){0};
		result = 0;
	}
	for (size_t i = 0; result == 0 && i < place.count; i++)
		result = visit(upkeep, &place, &place.tasks[i], arg, err);
	upkeep_place_release(&place);
	return result;
}

static int visit_places(struct upkeep *upkeep, visit_fn *visit, void *arg, struct error *err)
{
	const struct config *config = upkeep->options->config;
	enum config_scope most = CONFIG_DEFAULT;
	const char *dir;
	int result = 0;

	/* those of the command line, if there are any, in place of the configured ones */
	for (size_t i = 0; config_item(config, "maintain.repo", i); i++)
		if (config_item_scope(config, "maintain.repo", i) == CONFIG_COMMAND)
			most = CONFIG_COMMAND;
	if (!config_item(config, "maintain.repo", 0))
		result = visit_place(upkeep, NULL, visit, arg, err);
	for (size_t i = 0; result == 0 && (dir = config_item(config, "maintain.repo", i)); i++)
		if (config_item_scope(config, "maintain.repo", i) >= most)
			result = visit_place(upkeep, dir, visit, arg, err);
	return result;
}

static int visit_wanted(struct upkeep *upkeep, const struct upkeep_place *place,
			const struct task *task, void *arg, struct error *err)
{
	(void)arg;
	if (!upkeep_want(upkeep, task->name))
		return 0;
	return upkeep->options->list ? list_task(upkeep, place, task, err)
				     : visit_task(upkeep, place, task, err);
}

/* Of a name on the command line that no place had. */
static void complain_of_unknown(struct upkeep *upkeep, const char *name)
{
	const struct config_task *entry;
	struct error unknown = {0};

	for (size_t i = 0; (entry = config_task_at(upkeep->options->config, i)); i++)
		if (strcmp(entry->name, name) == 0)
			break;
	if (entry) {
		error_set(&unknown, ERROR_USAGE, "%s: task %s is for other repositories",
			  entry->origin, name);
		error_next(&unknown, "add this one as maintain.%s.repository", name);
	} else {
		error_set(&unknown, ERROR_USAGE, "there is no task %s", name);
		error_next(&unknown, "agent maintain --list tells them%s",
			   upkeep_not_counted(upkeep));
	}
	upkeep_complain(upkeep, &unknown);
}

static int visit_all(struct upkeep *upkeep, struct error *err)
{
	bool *found AUTO_FREE = mem_calloc(upkeep->options->word_count + 1, sizeof(*found));
	int result;

	upkeep->found = found;
	result = visit_places(upkeep, visit_wanted, NULL, err);
	for (size_t i = 0; result == 0 && i < upkeep->options->word_count; i++)
		if (!found[i] && !upkeep->unread)
			complain_of_unknown(upkeep, upkeep->options->words[i]);
	upkeep->found = NULL;
	return result;
}

struct names_arg {
	void (*tell)(void *arg, const char *name);
	void *arg;
};

static int visit_name(struct upkeep *upkeep, const struct upkeep_place *place,
		      const struct task *task, void *arg, struct error *err)
{
	const struct names_arg *names = arg;

	(void)upkeep;
	(void)place;
	(void)err;
	names->tell(names->arg, task->name);
	return 0;
}

int maintain_names(struct options *options, void (*tell)(void *arg, const char *name),
		   void *arg, struct error *err)
{
	struct upkeep upkeep = {.options = options};
	struct names_arg names = {tell, arg};
	int result = visit_places(&upkeep, visit_name, &names, err);

	return result ? result : upkeep.worst; /* which has been said already */
}

int cmd_maintain(struct options *options, struct error *err)
{
	struct upkeep upkeep = {.options = options, .told = js_array_new()};
	int result;

	if (options->list && (options->due || options->dry_run || options->again))
		return error_set(err, ERROR_USAGE,
				 "--list only looks: it takes no --due, --dry-run or --again");
	upkeep.state = rundir_state_dir(err);
	upkeep.record = upkeep.state ? record_open(upkeep.state, err) : NULL;
	result = upkeep.record ? visit_all(&upkeep, err) : err->kind;
	/* a person who asked for all and has none; the clock asks in vain all day */
	if (result == 0 && (options->list || options->json ||
			    (!options->due && !upkeep.tasks && !upkeep.worst)))
		result = upkeep_print(&upkeep, err);
	record_close(upkeep.record);
	js_free(upkeep.told);
	free(upkeep.state);
	if (result)
		return result;
	/* by the clock, nothing to do is all well */
	if (!upkeep.worst && !options->due && !options->list && !upkeep.ran)
		return ERROR_SKIPPED;
	return upkeep.worst; /* which has been said already */
}
