/*
 * agent maintain: what its files share. maintain.c goes through repositories and tasks, maintain_tasks.c gathers the tasks,
 * maintain_run.c runs one and looks what became of what one proposed, maintain_list.c shows them.
 */
#ifndef CMD_AGENT_MAINTAIN_H
#define CMD_AGENT_MAINTAIN_H

#include <stdbool.h>
#include <stddef.h>

#include "agent.h"
#include "pipeline/maintain/decide.h"
#include "pipeline/maintain/record.h"
#include "pipeline/maintain/task.h"

struct json;

/* A repository and its tasks. */
struct upkeep_place {
	struct repository repo;
	const char *path;   /* borrowed from repo: what its records and runs are kept under */
	struct task *tasks; /* owned */
	size_t count;
};

struct upkeep {
	struct options *options;
	char *state; /* owned */
	struct record *record;
	struct json *told; /* owned: an object a task, for --json and --list */
	int worst;	   /* the error kind that it ends with; 0: all went well */
	size_t ran;	   /* had something to do, or would have */
	size_t tasks;	   /* that were found, asked for or not */
	bool *found;	   /* borrowed: the words of the command line that name a task */
	bool configured;   /* the operator's tasks have been looked at */
	bool unread;	   /* of some place it is not known which tasks it has */
};

/* Whether a task of that name is asked for; it has been found then. */
bool upkeep_want(struct upkeep *upkeep, const char *name);

/* What to add where tasks are missed that a repository may well have; "": nothing. */
const char *upkeep_not_counted(const struct upkeep *upkeep);

/* Something ended with that kind of error: the worst of them is the command's. */
void upkeep_note(struct upkeep *upkeep, int kind);

/* One line on standard error about a task or repository that cannot be used; the others go on. */
void upkeep_complain(struct upkeep *upkeep, const struct error *err);

/* The operator's tasks for the place and, when they are allowed, its own; of others that were asked for it is said what is wrong, by
 * the clock once. 0 or an error kind. */
int upkeep_gather(struct upkeep *upkeep, struct upkeep_place *place, struct error *err);
void upkeep_place_release(struct upkeep_place *place);

/*
 * Asks agent-apply tasks: read, the patterns of one task (NULL: not asked), a commit that it made with its changes (NULL: not asked). The
 * answer (gitops/tasks.h), new, or NULL with err.
 */
struct json *upkeep_ask(const struct upkeep *upkeep, const struct upkeep_place *place,
			bool read, const struct task *seen, const char *commit,
			const struct json *changes, struct error *err);

/* Digest of all that decides what a task does: what it is and what it sees. 0 or an error kind. */
int upkeep_inputs(const struct upkeep *upkeep, const struct upkeep_place *place,
		  const struct task *task, char digest[65], struct error *err);

/* Looks what became of an open proposal, and records it: *proposal. 0 or an error kind. */
int upkeep_resolve(struct upkeep *upkeep, const struct upkeep_place *place, const char *task,
		   const struct json *row, enum proposal *proposal, struct error *err);

/*
 * A new run of the task, or (resume) the one of its row, to its end. *words: what became of it, new; NULL when a limit kept it from beginning:
 * then *reason, new. 0 when the run came to an end of any kind, ERROR_INTERRUPTED, or another error kind of the machinery.
 */
int upkeep_run(struct upkeep *upkeep, const struct upkeep_place *place, const struct task *task,
	       const char *resume, const char *inputs, char **words, char **reason,
	       struct error *err);

/* Adds what --list and --json show of a task. */
void upkeep_tell(struct upkeep *upkeep, const struct upkeep_place *place,
		 const struct task *task, const struct json *row, long long due,
		 const char *what, const char *why);
/* Prints what was told: as JSON, or for people. 0 or ERROR_FAILED. */
int upkeep_print(struct upkeep *upkeep, struct error *err);

#endif
