/* The second child of the helper: builds the file system, gives up power, becomes the command.
 */
#ifndef JAIL_PAYLOAD_H
#define JAIL_PAYLOAD_H

struct jail_run;

/* Never returns: executes the command, or tells outer why not and exits. */
void payload_main(struct jail_run *run) __attribute__((noreturn));

#endif
