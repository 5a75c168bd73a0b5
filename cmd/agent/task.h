/*
 * Task branches and the queue: the one way by which what a branch asks becomes a job (task.c), for whoever has seen
 * one: post-receive of a push (hook_post.c), and whoever compares all branches with the record (reconcile.c).
 */
#ifndef CMD_AGENT_TASK_H
#define CMD_AGENT_TASK_H

#include <stddef.h>

#include "pipeline/discover.h"
#include "pipeline/hookrules.h"

struct error;
struct json;
struct options;
struct queue;
struct supervisor;

#define TASK_ASKS_MAX 1000 /* of one push, or of one message to a worker */
#define TASK_IDENTITY "ref:"
#define TASK_REF_MAX 1000 /* bytes of a ref's name; git's own limit is the file system's */

/* Where tasks are: a repository and its rules. */
struct task_site {
	struct repository repo;
	struct hook_rules rules;
};

/* path: of the git directory itself, or of a work tree. 0 or an error kind; task_site_release also after a failure. */
int task_site_open(const char *path, struct task_site *site, struct error *err);
void task_site_release(struct task_site *site);

/* A branch that was seen. Strings are borrowed. */
struct task_ask {
	const char *ref;
	const char *tip; /* what it was seen to be; "": it was seen to be gone */
	const char *
	    option; /* what a push option says the issue is, or NULL; what is kept counts more */
	const char *skip;   /* why this push asks for nothing, or NULL */
	const char *pusher; /* their name, or NULL */
};

/* One line about a branch for whoever asked; text is escaped by who shows it. */
typedef void task_tell_fn(void *arg, const char *ref, const char *text);

/*
 * Brings the record up to date with the branches: a job for each that has become news, none twice; one that is gone
 * cancels its job; one that is not any more what it was seen to be is left to whoever moved it. origin: "hook", "cron".
 * quiet: nothing is told of what was known. 0 or an error kind; what was done until then stays done.
 */
int task_take(struct task_site *site, struct queue *queue, struct supervisor *sup,
	      const struct options *options, const struct task_ask *asks, size_t count,
	      const char *origin, bool quiet, task_tell_fn *tell, void *arg, struct error *err);

/* Branches, and whether the record knows them: asks for task_take, in an array that the caller frees with the json that
 * they borrow from (*facts). 0 or an error kind. */
int task_news(struct task_site *site, struct queue *queue, struct supervisor *sup,
	      const struct options *options, struct task_ask **asks, size_t *count,
	      struct json **facts, struct error *err);

/* Keeps in the repository what agent-apply pushed has read of a task (with its text), so that it is not read twice, and
 * that a push option is not lost with a post-receive that never runs. pre-receive calls it once the push is let in;
 * task_take uses it and takes it away. 0 or an error kind. */
int task_keep(const struct repository *repo, const char *ref, const char *tip,
	      const struct json *facts, struct error *err);
#define TASK_KEEP_MAX 32 /* tasks of one push that are kept: each may have a MiB */

/*
 * Asks agent-apply pushed about updates: job has them, and what else of gitops/pushed.h the caller asks; where they are, the rules and
 * the policy are added. What it tells, of each update in order; new. NULL with err.
 */
struct json *task_ask_pushed(const struct repository *repo, const char *config_ref,
			     struct supervisor *sup, struct json *job,
			     const struct options *options, struct error *err);

#endif
