/*
 * The payload gives up everything: identity inside, nested namespaces, limits, capabilities,
 * no_new_privs, Landlock, seccomp; then looks whether it holds. Each call is 0 or -1
 * (step_fail).
 */
#ifndef JAIL_CONFINE_H
#define JAIL_CONFINE_H

#include <stdbool.h>

struct jail_run;

/* A second user namespace, without rights over the first one that owns the mounts. sys: the sys directory of the
 * jail's proc, beneath the mask. */
int confine_namespace(struct jail_run *run, int sys);

/* Its ids: uid and gid JAIL_ID. No further namespace can be made in it. */
int confine_ids(struct jail_run *run, int proc, int sys);

int confine_rlimits(struct jail_run *run);
int confine_capabilities(struct jail_run *run);
int confine_landlock(struct jail_run *run);

/* Last of all: only what the payload may call is possible from here on, and PID 1 has what it observes by. */
int confine_seccomp(struct jail_run *run);

/* Whether the whole self-test held before, so that its vital probes do: never in gVisor, whose kernel is new in
 * every start. */
bool confine_is_brief(const struct jail_run *run);

/* Fifteen probes of what must not be possible any more, and of what must, or the vital ones alone. last: the highest
 * of our descriptors, which are 0, 1, 2 and the sockets right above. */
int confine_self_test(struct jail_run *run, int last);

/* For the helper, which only waits and kills from here on. 0 or -1 with errno. */
int confine_helper(void);

/* For PID 1, which only waits for its pipe: no capability, no_new_privs, four system calls. 0
 * or -1 with errno. */
int confine_idle(void);

/* For a sweeper (jail/sweep.h), which closes descriptors and ends. 0 or -1 with errno. */
int confine_sweeper(void);

/* For PID 1 as observer: as confine_idle, with the calls that jail/observe.c makes. */
int confine_observer(void);

#endif
