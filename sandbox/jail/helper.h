/* The first child of outer: makes the namespaces and the file system, bears PID 1 and the payload,
 * reads how the payload ended. See run.h. */
#ifndef JAIL_HELPER_H
#define JAIL_HELPER_H

struct jail_run;

/* Never returns: sends MSG_ENDED or MSG_FAILED to outer and exits. */
void helper_main(struct jail_run *run) __attribute__((noreturn));

#endif
