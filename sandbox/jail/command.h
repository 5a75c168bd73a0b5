/*
 * Becoming the command, at the very end of every backend's set-up: as execvpe(3), so that a command is
 * found, or not, in the same way wherever it runs.
 */
#ifndef JAIL_COMMAND_H
#define JAIL_COMMAND_H

/* Signals and umask as a command expects them of who starts it. */
void command_reset(void);

/* With the PATH of env. Returns only on failure: the errno. */
int command_execute(char **argv, char **env);

#endif
