/* The first child of outer: makes the namespaces, bears PID 1 and the payload, reaps. See
 * run.h. */
#ifndef JAIL_HELPER_H
#define JAIL_HELPER_H

struct jail_run;

/* Never returns: sends MSG_ENDED or MSG_FAILED to outer and exits. */
void helper_main(struct jail_run *run) __attribute__((noreturn));

#endif
