/*
 * An entry in the user database for a uid that has none. ssh(1) does not start for a uid that
 * the database does not know, and a row's made-up uid is such a one; so is, to a program under
 * Landlock, a user who comes from a directory service.
 */
#ifndef SANDBOX_USER_ENTRY_H
#define SANDBOX_USER_ENTRY_H

#include <sys/types.h>

struct error;

/*
 * Does nothing where /etc/passwd has the uid. Else moves this process into a mount namespace of
 * its own and puts a file with the one line for uid and gid (name "agent", home /nonexistent)
 * over /etc/passwd there, read-only. Needs CAP_SYS_ADMIN in the user namespace. 0 or
 * ERROR_ISOLATION.
 */
int user_entry_make(uid_t uid, gid_t gid, struct error *err);

#endif
