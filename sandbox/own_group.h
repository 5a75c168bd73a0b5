/*
 * The control group that this process is in, and what can be made below it: reading the tables of /proc, small
 * files of a group, names of ours. Shared by agent, which sees to it that there is a place, and agent-jail, which
 * makes the jail's group there. Sources: cgroups(7), Documentation/admin-guide/cgroup-v2.rst. Starts nothing.
 */
#ifndef SANDBOX_OWN_GROUP_H
#define SANDBOX_OWN_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "pipeline/base/strbuf.h"

/* Every group of ours has a name "agent-<pid>-<start time>-<pid namespace>", so that one whose process is gone can be told. */
#define OWN_GROUP_PREFIX "agent-"
#define OWN_GROUP_NAME_MAX 64

/* The tables of /proc, each read once, when first needed. */
struct own_group_tables {
	struct strbuf groups; /* owned: /proc/self/cgroup */
	struct strbuf mounts; /* owned: /proc/self/mountinfo; long, so not read in vain */
};

#define OWN_GROUP_TABLES_NONE                                                                  \
	{                                                                                      \
		STRBUF_NONE, STRBUF_NONE                                                       \
	}
#define AUTO_TABLES __attribute__((cleanup(own_group_tables_release)))
void own_group_tables_release(struct own_group_tables *tables);

/* Whether there is a hierarchy of a v1 controller (NULL: of v2). 1, 0, -1 with errno. */
int own_group_is_in(struct own_group_tables *tables, const char *controller);
/* Whether memory and pids are version 1's here: 1, 0, -1 with errno. */
int own_group_is_v1(struct own_group_tables *tables);

/*
 * Opens our group in the hierarchy of a v1 controller, NULL: in that of v2. Descriptor of the directory, or -1
 * with errno (ENOENT: there is no such hierarchy). path (may be NULL): its path in the hierarchy, a new string.
 */
int own_group_open(struct own_group_tables *tables, const char *controller, char **path);

/* Small files of a group. 0 or -1 with errno. */
int own_group_read(int dir, const char *name, struct strbuf *out);
int own_group_write(int dir, const char *name, const char *text);

/* Whether a blank-separated list has the word. */
bool own_group_has_word(const char *list, const char *word);

/* Start time of a process in clock ticks since boot (proc_pid_stat(5), field 22); 0 when it has ended. */
unsigned long long own_group_start_time(pid_t pid);
/* The name for a group of this process. */
void own_group_name(char name[OWN_GROUP_NAME_MAX]);

/*
 * Where a v2 group with memory and process limits can be made: the parent of our group or, when it holds no process,
 * our group itself. Switches these controllers on there. Descriptor, or -1.
 * scope (may be NULL): whether it is a scope that systemd made for us (pipeline/scope.h).
 */
int own_group_find_place(struct own_group_tables *tables, bool *scope);

/*
 * Removes the groups of ours below parent whose process is gone (killed). Of those that come from another pid namespace
 * none is until it is a day old: its process cannot be seen. One that still has processes cannot be removed: nothing is
 * killed here.
 */
void own_group_sweep(int parent);

/* Whether systemd says that our v2 group is delegated (Delegate= of systemd.resource-control(5), its mark on the
 * directory): then groups belong below it, whatever else could be written. */
bool own_group_is_delegated(void);

/*
 * For a process that sits, alone, in a group that is delegated to it: moves it into a new group below, so that others can
 * be made beside it, and switches the controllers on. 0, or -1 with errno: as before.
 */
int own_group_step_aside(void);

/* What the names of those scopes are made of: "agent-<pid>-<start time>-<pid namespace>.scope" */
#define OWN_GROUP_SCOPE ".scope"

#endif
