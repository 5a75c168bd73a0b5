/*
 * A payload with an id of its user's subordinate range (sandbox/subuid.h), started by that user. Outer maps two
 * ids into the helper's user namespace, by newuidmap(1) and newgidmap(1): the payload's, as root there, and the
 * user's own. By the second the helper reads what is the user's while it builds; the payload's own namespace has
 * the first alone, so the way to the user's id is closed to it.
 *
 * A file system of the host cannot be shown under other ids by a user, so layers are copied, and a directory that
 * the payload may write is given to it, file by file, and given back at the end: also by whoever finds one that a
 * killed agent-jail left (range_reclaim).
 */
#ifndef JAIL_RANGE_H
#define JAIL_RANGE_H

struct jail_run;

/* The helper, in its new user namespace: has outer map it. Still the user. 0 or -1 (step_fail). */
int range_enter(struct jail_run *run);

/* Outer: maps the helper and answers it. 0 or -1 (step_fail). */
int range_serve(struct jail_run *run, int helper);

/* The helper: becomes the payload's id, for good. 0 or -1 (step_fail). */
int range_become(struct jail_run *run);

/* The helper, before that: gives what is below a directory to the payload. 0 or -1 with errno. */
int range_give(int dir);

/*
 * Outer: gives what is below a directory of the user's back to them, from whatever id of their range, so that they
 * can read and remove it; set-id bits go. Nobody may be at work there. 0 or -1 (step_fail).
 */
int range_reclaim(struct jail_run *run, const char *path);

/* The same for all that the jail could write, at its end. */
int range_take_back(struct jail_run *run);

#endif
