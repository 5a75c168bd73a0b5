/* The second child of the helper: gives up power in the root that the helper built, becomes the
 * command. */
#ifndef JAIL_PAYLOAD_H
#define JAIL_PAYLOAD_H

struct jail_run;
struct rootfs;

/* Never returns: executes the command, or tells outer why not and exits. built: owned, where the helper
 * writes a byte once the old root is gone. */
void payload_main(struct jail_run *run, const struct rootfs *fs, int built)
    __attribute__((noreturn));

#endif
