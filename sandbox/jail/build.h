/*
 * The helper's part of the set-up: it builds the payload's file system, of what outer opened
 * and of the layers that the go names, and makes it the root of the mount namespace. It has no
 * part in what the payload gives up afterwards.
 */
#ifndef JAIL_BUILD_H
#define JAIL_BUILD_H

struct jail_run;
struct rootfs;

/* Until there is what the payload needs for its first steps: outer's parts and the jail's proc. 0 or -1
 * (step_fail). */
int build_begin(struct jail_run *run, struct rootfs *fs);

/* The rest of the new root; waits for the go, and ends the process when outer is gone or says that there will
 * be none. 0 or -1 (step_fail). */
int build_root(struct jail_run *run, struct rootfs *fs);

#endif
