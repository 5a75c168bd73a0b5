/* Who the payload is outside: a uid that nothing else uses, where we may choose. */
#ifndef JAIL_IDENTITY_H
#define JAIL_IDENTITY_H

#include <stdbool.h>
#include <sys/types.h>

struct jail_run;
struct subuid_range;

/* A payload's uid is this plus the pid of its agent-jail: STAGE_UID_BASE of pipeline/stages.h +
 * 4096 (a unit test compares). */
#define JAIL_UID_BASE 1879052288UL

/* Chooses run->uid, gid, separate and ranged. 0 or -1 (step_fail). */
int identity_choose(struct jail_run *run);

/* Ids for the payload from a uid_map's or gid_map's text (user_namespaces(7)): the wanted one alone
 * if it is mapped, else the widest range without id 0. False when only id 0 is mapped. Pure.
 */
bool identity_from_map(const char *map, unsigned long wanted, struct subuid_range *range);

#endif
