/* The second child of the helper: gives up power in the root that the helper built, becomes the
 * command. */
#ifndef JAIL_PAYLOAD_H
#define JAIL_PAYLOAD_H

struct jail_run;
struct rootfs;

/*
 * Never returns: executes the command, or tells outer why not and exits. It is born while the helper still
 * builds the root, and run->root_sock is its end to the helper.
 */
void payload_main(struct jail_run *run, struct rootfs *fs) __attribute__((noreturn));

/*
 * For the backend, in this order; each is 0 or -1 (step_fail). The payload says that the root may be changed:
 * while it is, no user namespace can be made. It waits until the new root is the root, with what the helper
 * knows of it. It waits, before anything foreign runs or the root is looked at, until the old one is gone.
 */
int payload_let_root_change(struct jail_run *run);
int payload_await_root(struct jail_run *run, struct rootfs *fs);
int payload_await_end_of_old(struct jail_run *run);

#endif
