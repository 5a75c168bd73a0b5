/*
 * Runs one child of agent-publish to its end: deadline, capped output, and meanwhile the bytes
 * between the child and the server (the relay of https and ssh, or the pump of a local remote).
 * When the child ends, or must end, its whole process group does.
 */
#ifndef PUBLISH_GITRUN_H
#define PUBLISH_GITRUN_H

#include <stdbool.h>

#include "pipeline/base/strbuf.h"
#include "pipeline/stages.h"

struct error;
struct pump;
struct relay;

#define GITRUN_OUT_MAX ((size_t)1 << 20)   /* standard output that is kept; more is a failure */
#define GITRUN_ERR_MAX ((size_t)256 << 10) /* standard error that is kept; more is drained */

struct gitrun {
	/* given */
	enum stage_id row;	 /* whose child: STAGE_PUBLISH when not said otherwise */
	const char *const *argv; /* borrowed; argv[0] is in the row's list of children */
	const char *const *env;	 /* borrowed */
	int stdin_fd;		 /* borrowed; -1: /dev/null */
	const int *keep;       /* borrowed: descriptors that stay open, ends with -1; or NULL */
	struct relay *relay;   /* borrowed; or NULL */
	struct pump *pump;     /* borrowed; or NULL */
	long long deadline_ms; /* CLOCK_MONOTONIC */
	int log_fd; /* borrowed: gets both outputs at the end, at most *log_left bytes; -1: none */
	size_t *log_left; /* borrowed: counted down */
	/* found */
	int status;   /* exit status, or -signal */
	bool expired; /* ended at the deadline */
	/* without the token of FD_SECRET, where that is kept open (unsay.h): */
	struct strbuf out;  /* standard output */
	struct strbuf errs; /* standard error, its first GITRUN_ERR_MAX bytes */
};

void gitrun_init(struct gitrun *run);
void gitrun_release(struct gitrun *run);

/* Starts and waits. 0 when the child has ended by itself (see status); ERROR_FAILED when it
 * could not be started or expired. */
int gitrun_wait(struct gitrun *run, struct error *err);

#endif
