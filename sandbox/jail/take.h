/* The helper as file server of what the command changed, once everything in the jail has ended: see
 * sandbox/jail_take.h. By then it has no capability, and its root is the jail's. */
#ifndef JAIL_TAKE_SERVE_H
#define JAIL_TAKE_SERVE_H

#include <stdbool.h>

/* Serves the directory until the client has closed its end, at most JAIL_TAKE_MS. complete: it is all of the
 * work tree. Files and directories that the command made unreadable are made readable; nothing else is
 * changed. */
void take_serve(int upper, bool complete, int sock);

#endif
