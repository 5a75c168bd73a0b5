/*
 * What a jail was given, as agent-jail found it: records "applied=KIND VALUE\0" that precede the
 * exit facts on FD_FACTS when the spec says audit. Collected inside the jail by its own set-up as
 * its last deed before exec (sandbox/jail/applied.c), so they say what was applied and not what
 * was meant. pipeline/audit.h makes them into JSON. Pure.
 *
 * Kinds: backend NAME; scratch memory|disk; arg WORD; cwd PATH; env NAME=VALUE; mount LINE (proc_pid_mountinfo(5)); fd NUMBER ACCESS
 * TARGET; device PATH c|b MAJOR:MINOR MODE; link PATH TARGET; status LINE (proc_pid_status(5));
 * map uid|gid INSIDE OUTSIDE COUNT; outside UID GID; securebits HEX; ns NAME ID; interface NAME;
 * listen ADDRESS; limit NAME SOFT HARD (getrlimit(2), "unlimited"); cgroup FILE VALUE; landlock abi
 * N | fs HEX | net HEX | scoped HEX | rule HEX PATH; seccomp SHA-256 of the program; cut (not all
 * had room: the list is not whole); host KIND VALUE: the same of what the payload's sandbox is to the
 * host, where it has a kernel of its own: arg, mount, fd, status, map, securebits, ns, limit.
 */
#ifndef SANDBOX_JAIL_APPLIED_H
#define SANDBOX_JAIL_APPLIED_H

#include <stddef.h>

/* Bytes of the records together: they must fit a socket's buffer, since the reader may come late. */
#define JAIL_APPLIED_MAX (96 << 10)

#define JAIL_APPLIED_HOST "host"

/* Bytes at the start of data that are whole applied records: the facts begin behind them. */
size_t jail_applied_size(const char *data, size_t len);

/* The next record's "KIND VALUE" at *data, of *len bytes, both moved behind it; NULL at the end.
 * Borrowed. */
const char *jail_applied_next(const char **data, size_t *len);

#endif
