/*
 * Records of what the payload was given (sandbox/jail_applied.h), while and after it is given.
 * They lie in memory that outer and payload share; the payload loses it by its exec. Nothing is
 * done unless the spec says audit.
 */
#ifndef JAIL_APPLIED_H
#define JAIL_APPLIED_H

#include <stdbool.h>

struct jail_run;
struct strbuf;

/* Outer, before it starts the helper. 0 or -1 (step_fail). */
int applied_open(struct jail_run *run);

/* The runner of a sandbox, which cannot share memory with outer: collects into its own, behind what is
 * there so far, and applied_collect puts it into outer's (run->applied_file). 0 or -1 (step_fail). */
int applied_open_inside(struct jail_run *run);

/* Adds "KIND VALUE"; what does not fit is left out and the list marked as cut. */
void applied_add(struct jail_run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Payload, with everything in force, before its exec: what the kernel says of this process. 0 or
 * -1 (step_fail). */
int applied_collect(struct jail_run *run);

/* The process that becomes a sandbox, right before that: what the host's kernel says of it, and the words
 * that it is started with. 0 or -1 (step_fail). */
int applied_collect_host(struct jail_run *run, const char *const *argv);

/* Outer, once the payload is ready: takes the records, and adds its own. */
void applied_take(struct jail_run *run, struct strbuf *out);

#endif
