/*
 * The helper's part of the set-up: it builds the payload's file system, of what outer opened
 * and of the layers that the go names, and makes it the root of the mount namespace. It has no
 * part in what the payload gives up afterwards.
 */
#ifndef JAIL_BUILD_H
#define JAIL_BUILD_H

struct jail_run;
struct rootfs;

/*
 * Everything up to the new root; waits for outer's parts and for the go, and ends the process
 * when outer is gone or says that there will be none. The old root still lies on top:
 * rootfs_let_go. 0 or -1 (step_fail).
 */
int build_root(struct jail_run *run, struct rootfs *fs);

#endif
