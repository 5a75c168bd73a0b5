/*
 * The life of a stage process: check what was inherited against the row, give up power, read the job,
 * work, report. Every program but agent and agent-jail has a main of one line:
 *
 *	int main(int argc, char **argv) { return stage_main(argc, argv, NULL, run); }
 *
 * Order: (1) row by program name and argv[1]; environment and descriptors are exactly the row's, or
 * exit 125; (2) prestart, for the rows that start agent-jail; (3) stage_restrict: non-dumpable,
 * no_new_privs, own uid when started by root, network namespace, Landlock, rlimits, seccomp;
 * (4) run. Any failure of 1 to 3 ends the process with 125 before it looked at input.
 */
#ifndef PIPELINE_STAGE_H
#define PIPELINE_STAGE_H

#include "pipeline/stages.h"

struct error;
struct json;

struct stage {
	const struct stage_row *row;
	struct json *job; /* borrowed: the parsed FD_JOB; "paths": {name: absolute path} and the
			     row's own */
};

typedef int stage_run_fn(struct stage *stage, struct error *err); /* 0 or an error kind */
typedef int stage_prestart_fn(struct stage *stage,
			      struct error *err); /* still with power; no input read */

/* Returns the exit status; on an error it has sent an "error" event. */
int stage_main(int argc, char **argv, stage_prestart_fn *prestart, stage_run_fn *run);

/* A path of the job's "paths", or NULL. Borrowed. */
const char *stage_path(const struct stage *stage, const char *name);

#endif
