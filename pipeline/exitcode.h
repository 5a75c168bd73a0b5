/*
 * The exit statuses of every program of this project: the only definition. `agent jail` is the
 * exception: it behaves as env(1) does (the command's own status, EXIT_ISOLATION for ours, 126,
 * 127, 128+n).
 */
#ifndef PIPELINE_EXITCODE_H
#define PIPELINE_EXITCODE_H

enum exitcode {
	EXIT_DONE = 0,	      /* done */
	EXIT_NO = 1,	      /* a clean "no": tests red, policy refused */
	EXIT_USAGE = 2,	      /* usage, or bad input */
	EXIT_SKIPPED = 3,     /* nothing to do, already running */
	EXIT_FAILED = 4,      /* failed outside the change; the run is saved */
	EXIT_LATER = 75,      /* temporary failure, try later (EX_TEMPFAIL of sysexits.h) */
	EXIT_ISOLATION = 125, /* isolation not available: nothing untrusted was started */
	EXIT_INTERRUPTED = 130,
};

#endif
