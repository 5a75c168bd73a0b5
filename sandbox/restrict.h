/*
 * A process of ours gives up power for good: the one call behind every row of the stage table.
 * Fails closed: a layer that cannot be had is ERROR_ISOLATION, naming layer, reason and remedy.
 */
#ifndef SANDBOX_RESTRICT_H
#define SANDBOX_RESTRICT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct error;

enum restrict_filter { RESTRICT_QUIET, RESTRICT_PUMP, RESTRICT_LAUNCHER };

enum restrict_access { RESTRICT_READ, RESTRICT_WRITE, RESTRICT_EXECUTE };

struct restrict_path {
	const char *path; /* absolute; a missing one is skipped */
	enum restrict_access access;
	bool
	    unlinked; /* a real path: one that leads through a symbolic link by now is refused */
};

struct restrict_policy {
	enum restrict_filter filter;
	bool new_net;	  /* move into an empty network namespace */
	bool loopback_up; /* and bring its loopback up */
	bool user_entry;  /* where /etc/passwd does not have the uid: put a file with just that
			     entry over it, in a  mount namespace of the process's own */
	bool own_root;	/* see nothing but the paths (sandbox/own_root.h): for rows that may use
			   unix sockets */
	uid_t uid;	/* when started by root: run as this uid and gid */
	bool keep_read; /* when started by root: keep CAP_DAC_READ_SEARCH (ambient, for children
			   too) */
	const struct restrict_path *paths; /* Landlock: everything else is out of reach */
	size_t path_count;
	unsigned data_mib, file_mib, nofile; /* RLIMIT_DATA, FSIZE (MiB; 0: none), NOFILE */
};

/* Order: non-dumpable, rlimits, network namespace, uid, capabilities, no_new_privs, Landlock,
 * seccomp. */
int restrict_self(const struct restrict_policy *policy, struct error *err);

#endif
