/*
 * A root directory of the process's own that holds the paths it was given and nothing else. For
 * the one row that runs programs which need unix sockets (ssh and its agent): Landlock does not
 * guard connecting to a socket by its path, and a user's session bus or a container daemon's
 * socket would be a way out of every other restriction. What is not there cannot be connected
 * to.
 *
 * Must not: be the barrier for reading and writing (Landlock is, after it).
 */
#ifndef SANDBOX_OWN_ROOT_H
#define SANDBOX_OWN_ROOT_H

#include <stddef.h>

struct error;
struct restrict_path;

/*
 * Makes a mount namespace with a new root of the paths (a missing or unreachable one is left
 * out; symbolic links on the way to them are made again), and /proc; read-only but for
 * RESTRICT_WRITE ones. Needs CAP_SYS_ADMIN in the process's user namespace. The working
 * directory becomes "/". 0 or ERROR_ISOLATION.
 */
int own_root_enter(const struct restrict_path *paths, size_t count, struct error *err);

#endif
