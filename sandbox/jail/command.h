/*
 * Becoming the command, at the very end of every backend's set-up: as execvpe(3), so that a command is
 * found, or not, in the same way wherever it runs.
 */
#ifndef JAIL_COMMAND_H
#define JAIL_COMMAND_H

/* Signals and umask as a command expects them of who starts it. */
void command_reset(void);

struct jail_packet;
struct jail_run;

/* Sends the packet that says that everything holds, and becomes the run's command in its directory; where that cannot be, sends why
 * and exits. */
void command_become(const struct jail_run *run, struct jail_packet *packet)
    __attribute__((noreturn));

#endif
