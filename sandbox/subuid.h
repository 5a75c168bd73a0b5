/*
 * Whether a user has ids to give to a jail's payload: a range of subordinate uids and one of gids (subuid(5),
 * subgid(5)), and the set-uid programs that map them (newuidmap(1), newgidmap(1)). Files are read, name services
 * are not asked: static programs use this.
 */
#ifndef SANDBOX_SUBUID_H
#define SANDBOX_SUBUID_H

#include <stdbool.h>
#include <sys/types.h>

struct subuid_range {
	unsigned long first, count;
};

struct subuid {
	struct subuid_range uids, gids;
};

#define SUBUID_NEWUIDMAP "/usr/bin/newuidmap"
#define SUBUID_NEWGIDMAP "/usr/bin/newgidmap"

/* The ranges of the user that we are. False: what is missing is in *why, and what to do in *next: both
 * static texts. Root needs none and has none here. */
bool subuid_find(struct subuid *ids, const char **why, const char **next);

/* The widest range of a user in the text of such a file, without own, the user's uid or gid; name may be NULL.
 * False: it has none. Pure. */
bool subuid_from_text(const char *text, const char *name, uid_t uid, unsigned long own,
		      struct subuid_range *range);

/* An id of the range for the jail with this number (its process id): of the upper half, since containers
 * of the same user take theirs from below; not one of the two that stand for nobody in particular, where the
 * range has another (a container's may reach from 1 to 65535). Pure. */
unsigned long subuid_choose(const struct subuid_range *range, unsigned long number);

/* Whether a text as of passwd(5) or group(5) gives a name to the id. Pure. */
bool subuid_is_named(const char *text, unsigned long id);

#endif
