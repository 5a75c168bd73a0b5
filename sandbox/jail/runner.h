/*
 * PID 1 of a gvisor sandbox: this program, started by runsc. Bears the payload, gives it up to what a
 * native payload has, and reports on the socket of the payload: MSG_READY and MSG_NOT_RUN by the child
 * that becomes the command, MSG_ENDED by PID 1, with the child's real siginfo.
 *
 * The payload cannot speak in its name: the socket is closed for it at exec, and PID 1 has by then given
 * up all power, is of another user and not dumpable, so that it can neither be signalled nor traced.
 */
#ifndef JAIL_RUNNER_H
#define JAIL_RUNNER_H

#include "sandbox/jail/run.h"

#define RUNNER_WORD "--in-gvisor" /* the argument that means: be the runner */

/* Descriptors of the runner, as the three that runsc takes along. */
#define RUNNER_JOB 0	/* socket: struct runner_job with descriptors */
#define RUNNER_REPORT 1 /* socket to outer */

/* One message. Its descriptors: the spec (memory file), then those of stdio that are 'f',
 * then the records of applied.h where they are asked for. */
struct runner_job {
	struct jail_packet ready; /* MSG_READY as it shall be sent: what holds outside */
	enum cgroup_kind cgroup;
	char fault[24]; /* name of the step that shall fail: test builds only */
	bool audit;	/* the last descriptor is where applied.h puts its records */
	char stdio[3];	/* 'n': the sandbox's own /dev/null, 'f': the next descriptor */
};

/* Never returns. */
void runner_main(void) __attribute__((noreturn));

#endif
