/* agent-jail as it was started: see run.h. */
#ifndef JAIL_OUTER_H
#define JAIL_OUTER_H

#include <stdbool.h>
#include <sys/types.h>

#include "pipeline/base/strbuf.h"
#include "sandbox/jail/run.h"
#include "sandbox/jail/sweep.h"

struct outer {
	struct jail_run run;
	pid_t helper;
	struct strbuf go_text; /* what came on FD_GO so far */
	struct strbuf applied; /* records for in front of the facts */
	struct jail_go go;
	bool have_go;	       /* it was complete and is parsed */
	bool ready;	       /* the payload said MSG_READY */
	bool ended;	       /* the helper said MSG_ENDED: last */
	bool timed_out;	       /* we ended it at its deadline */
	bool idle;	       /* and not for the wall clock: the starter saw no output */
	bool reclaimed;	       /* spec.reclaim: it is done */
	bool starter_gone;     /* FD_GO closed */
	long long deadline_ms; /* CLOCK_MONOTONIC of whatever comes next; LLONG_MAX: none */
	long long started_ms;
	struct jail_packet end;	    /* MSG_ENDED of the helper */
	struct jail_packet inner;   /* MSG_ENDED of a sandbox's runner; message is 0 without */
	struct jail_packet not_run; /* message is 0 unless exec failed */
	struct sweep sweep;	    /* what holds a large scratch */
	char work[16];
};

/* Runs one jail from FD_SPEC to FD_FACTS. fault: name of the step that shall fail, in test
 * builds; NULL. Returns the exit status. */
int outer_main(const char *fault);

#endif
