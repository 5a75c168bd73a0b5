/*
 * Whether a work tree has changes that no commit holds. Only for a note to the user: the
 * pipeline starts from the base commit and neither uses nor touches them.
 */
#ifndef GITOPS_STATUS_H
#define GITOPS_STATUS_H

#include <stddef.h>

struct error;

struct status_facts {
	size_t changed;	  /* paths that differ, untracked ones (that the repository does not
			     ignore) included */
	size_t untracked; /* of these */
};

/*
 * Looks without writing anything, not even the index's time stamps. gitdir and workdir
 * absolute. 0, or ERROR_FAILED when it cannot be told (an index or configuration that the
 * library does not read, a commit of more than 4,000,000 files).
 */
int status_read(const char *gitdir, const char *workdir, struct status_facts *facts,
		struct error *err);

#endif
