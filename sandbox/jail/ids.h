/*
 * Ids that no two jails have at a time. Of the ids of a range one is claimed by a lock on the byte of that number, in a file
 * that this user's agent-jails share. The kernel lets go of it when agent-jail ends, however that comes. The file is in every
 * one of a few directories that can be had, and the byte is locked in all of them, so that two jails of which one has
 * a directory more than the other (a log-in, a unit's PrivateTmp) still meet.
 */
#ifndef JAIL_IDS_H
#define JAIL_IDS_H

#include <stdbool.h>

struct jail_run;
struct subuid_range;

#define IDS_PLACES 3

/* Claims an id of the upper half of a range that is no user's in passwd(5), or, for gids, no group's in group(5) while this
 * process lasts: the jail's own ones end right behind it. 0; -1 (step_fail): all are taken, or nowhere is a place for the file. */
int ids_claim(struct jail_run *run, bool group, const struct subuid_range *range,
	      unsigned long *id);

#endif
