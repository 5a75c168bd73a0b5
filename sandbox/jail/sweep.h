/*
 * The end of a jail whose command wrote much. The kernel takes some microseconds a file to free a scratch, and does
 * so before the last process that holds it has ended; the verdict need not wait for that. So when, and only when,
 * there is much to free, the helper sends outer descriptors of the scratch and of what is mounted on it, and outer
 * leaves them to a process that does nothing but close them: the sweeper.
 *
 * The sweeper is agent-jail executed anew, in nobody's control group of a jail, without environment, capability or any
 * other descriptor than those and its lock, under a filter that lets it close and end; ps shows it as SWEEP_TITLE. To
 * kill it frees the scratch just so: the kernel does it as it ends.
 *
 * There is one sweeper at a time for all jails of this program, and memory is left to it only where a job as large
 * as the one before would have room beside it. Otherwise outer frees the scratch itself before it tells the verdict.
 */
#ifndef JAIL_SWEEP_H
#define JAIL_SWEEP_H

#include <stdbool.h>
#include <stddef.h>

struct jail_run;
struct rootfs;

#define SWEEP_TITLE "agent-sweeper: frees what the command of an ended jail wrote"
#define SWEEP_MOST                                                                             \
	4 /* the scratch, two overlays on it; its file system where that is on disk */

struct sweep {
	int held[SWEEP_MOST]; /* owned: the first count */
	size_t count;
	int lock; /* owned: our program, locked for a sweeper; -1: there will be none */
};

void sweep_init(struct sweep *sweep);

/* The helper, when the command has ended: sends outer what holds a scratch that is large (MSG_SCRATCH). */
void sweep_offer(const struct jail_run *run, const struct rootfs *fs);

/* Outer: takes one of them over; one too many is closed. */
void sweep_take(struct sweep *sweep, int fd);

/* Outer, while the jail's control group is still known: whether there may be a sweeper. */
void sweep_decide(struct sweep *sweep, const struct jail_run *run);

/* Outer, when everything of the jail has ended: leaves the scratch to a sweeper, or frees it. */
void sweep_end(struct sweep *sweep);

/* agent-jail started as SWEEP_TITLE: the lock on descriptor 0, what is to be closed right above. */
void sweep_main(void) __attribute__((noreturn));

#endif
