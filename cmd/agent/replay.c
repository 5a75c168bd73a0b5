/* agent replay RUN: the recorded conversation again, without a model, and whether it makes the
 * very trees that the run made; of a run that a command made, its recorded change. */
#include "agent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

#define COPY_MAX ((size_t)256 << 20)

/* The tree that a round made; NULL when it made none. Owned by the caller. */
static char *tree_of(const struct rundir *dir, int round)
{
	char *name AUTO_FREE = round_file(round, "tree.json");
	struct error ignored = {0};
	struct json *tree AUTO_JSON = rundir_read(dir, name, "tree", TREE_MAX, &ignored);

	return tree ? mem_strdup(js_str(tree, "tree", "")) : NULL;
}

static int copy_file(const struct rundir *from, const struct rundir *to, const char *name,
		     struct error *err)
{
	struct strbuf bytes AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&bytes, COPY_MAX);
	if (fd_read_file(from->fd, name, &bytes, err))
		return err->kind;
	return fd_replace_file(to->fd, name, bytes.data, bytes.len, 0600, err);
}

/* The last round with a conversation: it holds those before it too. */
static int last_round(const struct rundir *dir)
{
	int last = 0;

	for (int round = 1; round <= RUN_ROUNDS_MAX; round++) {
		char *name AUTO_FREE = round_file(round, "conversation.jsonl");

		if (rundir_has(dir, name))
			last = round;
	}
	return last;
}

/* A temporary run with the request, issue and base of the old one. */
static int open_again(struct run *run, const struct rundir *old, int last,
		      struct options *options, struct error *err)
{
	static const char *const files[] = {"request.json", "issue.md", "base.json"};
	char *talk AUTO_FREE = round_file(last, "conversation.jsonl");
	char *model AUTO_FREE = mem_printf("model.name=replay:%s/%s", old->path, talk);

	if (rundir_create_temporary(old->state, &run->dir, err))
		return err->kind;
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		if (copy_file(old, &run->dir, files[i], err))
			return err->kind;
	js_push_str(options->pairs, model);
	if (run_open(run, options, err))
		return err->kind;
	run->journal.quiet = !options->json;
	return step_base(run, err);
}

/* One round: 1 when its tree is the recorded one (or neither has one), 0, or an error kind. */
static int replay_round(struct run *run, const struct rundir *old, int round, struct error *err)
{
	char *name AUTO_FREE = mem_printf("round-%d", round), *dir AUTO_FREE = NULL;
	char *was AUTO_FREE = tree_of(old, round), *now AUTO_FREE = NULL;
	bool same;
	int result;

	dir = rundir_subdir(&run->dir, name, err);
	if (!dir)
		return err->kind;
	if (run_change_command(run)) {
		char *changes AUTO_FREE = round_file(round, "changes.json");

		result = copy_file(old, &run->dir, changes, err);
	} else {
		result = step_model(run, round, "", err);
	}
	if (result == 0)
		result = step_edit(run, round, err);
	if (result && result != ERROR_NO)
		return result;
	now = tree_of(&run->dir, round);
	same = was && now ? strcmp(was, now) == 0 : !was && !now;
	if (same && now)
		printf("round %d  same tree %s\n", round, now);
	else if (same)
		printf("round %d  no tree, as recorded: %s\n", round, err->message);
	else
		printf("round %d  tree %s, recorded %s\n", round, now ? now : "none",
		       was ? was : "none");
	*err = (struct error){.kind = ERROR_NONE};
	return same;
}

/* A command is not run again: what it would do today is not what it did. What it changed is recorded, and makes the
 * tree. */
static int replay_command(struct run *run, const struct rundir *old, struct options *options,
			  struct error *err)
{
	int same;

	if (!rundir_has(old, "round-1/changes.json"))
		return error_set(err, ERROR_USAGE,
				 "run %s has no change: its command failed, and a command is "
				 "not run again",
				 old->id);
	if (open_again(run, old, 1, options, err))
		return err->kind;
	same = replay_round(run, old, 1, err);
	if (same < 0)
		return same;
	printf("the command was not run again: what it changed is as recorded\n");
	return same ? 0 : error_set(err, ERROR_NO, "it made another tree than recorded");
}

static int replay(struct run *run, const struct rundir *old, struct options *options,
		  struct error *err)
{
	int last = last_round(old), differing = 0, result;

	if (rundir_has(old, "round-1/command.log"))
		return replay_command(run, old, options, err);
	if (!last)
		return error_set(err, ERROR_USAGE,
				 "run %s has no conversation: no model was asked", old->id);
	result = open_again(run, old, last, options, err);
	for (int round = 1; result == 0 && round <= last; round++) {
		int same = replay_round(run, old, round, err);

		if (same < 0)
			return same;
		differing += !same;
	}
	if (result == 0 && differing)
		return error_set(err, ERROR_NO,
				 "%d of %d rounds made another tree than recorded", differing,
				 last);
	return result;
}

int cmd_replay(struct options *options, struct error *err)
{
	struct run run = {.key_fd = -1,
			  .dir = {.fd = -1, .lock_fd = -1},
			  .sup = {.signal_fd = -1},
			  .journal = {.events_fd = -1}};
	struct rundir old = {.fd = -1, .lock_fd = -1};
	char *state AUTO_FREE = rundir_state_dir(err);
	struct error ignored = {0};
	int result;

	if (options->word_count > 1)
		return error_set(err, ERROR_USAGE, "agent replay takes one run");
	if (!state)
		return err->kind;
	result = rundir_open(state, options->word_count ? options->words[0] : NULL, false, &old,
			     err);
	if (result == 0)
		result = replay(&run, &old, options, err);
	if (run.dir.fd >= 0)
		rundir_remove(&run.dir, &ignored);
	run_release(&run);
	rundir_release(&old);
	return result;
}
