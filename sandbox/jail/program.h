/*
 * A program of the system that outer runs, and waits for with a deadline: newuidmap and newgidmap (jail/range.h),
 * mke2fs (jail/disk.h). It gets no standard input and no environment but what is named, and what it says about a
 * failure is told. These are the jail's row of the stage table ("may run"), beside the command itself.
 */
#ifndef JAIL_PROGRAM_H
#define JAIL_PROGRAM_H

struct jail_run;

#define PROGRAM_GIVEN 3 /* where it finds the descriptor that it is given */

/*
 * give: a descriptor for it, and it gets no capability and no way to gain rights; -1: none, and it keeps both, as a
 * set-uid program must. 0 when it ended with status 0, else -1 (step_fail).
 */
int program_run(struct jail_run *run, const char *path, const char *const *argv,
		const char *const *env, int give);

#endif
