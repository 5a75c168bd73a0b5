/*
 * A maintenance task, as it is written: in the operator's configuration,
 *
 *	[maintain "deps"]
 *		schedule = weekly
 *		command = make update
 *		network = registries
 *		path = package-lock.json
 *
 * or as .agent/maintain/deps.md of a repository: front matter between two lines "---" with the same keys (the
 * part of YAML that lists and plain values need), then the prompt:
 *
 *	---
 *	schedule: "30 4 * * 1-5"
 *	timezone: Europe/Berlin
 *	paths: [src, docs/a.md]
 *	---
 *	Remove what nothing calls.
 *
 * Pure: no file is read here, no clock.
 */
#ifndef MAINTAIN_TASK_H
#define MAINTAIN_TASK_H

#include <stdbool.h>
#include <stddef.h>

#include "pipeline/maintain/schedule.h"

struct error;

#define TASK_NAME_MAX 50
#define TASK_ITEMS_MAX 100 /* of a list */

struct task_list {
	char **items; /* owned */
	size_t count;
};

struct task {
	char name[TASK_NAME_MAX + 1];
	char *origin;	 /* owned: where it is written, for people */
	bool repository; /* by the repository: it may only narrow */
	bool disabled;
	char *schedule; /* owned: as written; NULL: only by name */
	struct schedule times;
	char *timezone; /* owned; NULL: the machine's */
	long long jitter_s;
	char *prompt;		/* owned; of a command: what is said about it; may be "" then */
	char *command;		/* owned; NULL: the model does it */
	bool registries;	/* the command may reach the registries */
	char *network_at;	/* owned: "file:line" where network is set; NULL: nowhere */
	struct task_list paths; /* patterns that a change must match; none: any path */
	struct task_list labels; /* of its pull request */
	struct task_list only;	 /* operator's: repositories that it is for; none: all */
	long long rounds, tokens, turns, files, bytes, timeout_s; /* 0: not limited here */
};

void task_release(struct task *task);
/* A task without any key. name: of [a-z0-9_-]. 0, or ERROR_USAGE. */
int task_init(struct task *task, const char *name, const char *origin, bool repository,
	      struct error *err);

/* Sets a key, or adds to a list. where: "file:line", in front of what is wrong. 0 or ERROR_USAGE. */
int task_set(struct task *task, const char *key, const char *value, const char *where,
	     struct error *err);

/* Whether all is there that it needs; where: as for task_set, of what is not there. 0 or ERROR_USAGE. */
int task_check(const struct task *task, const char *where, struct error *err);

/* A file of a repository; path gives its name. 0 and a checked task to release, or ERROR_USAGE with file and line. */
int task_parse(const char *path, const char *text, size_t len, struct task *task,
	       struct error *err);

/* Digest of what decides what the task does: prompt, command, paths. */
void task_digest(const struct task *task, char digest[65]);

#endif
