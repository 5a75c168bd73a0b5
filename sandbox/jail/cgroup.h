/*
 * The jail's control group: caps on memory, processes and, when asked for, processors; the kernel's own count
 * of kills. In this order: a delegated cgroup v2 subtree (that of a scope that agent entered among them,
 * pipeline/scope.h), writable v1 controllers below our own groups, none (only where the spec says degraded_ok). Run by outer alone; never mounted inside. Sources:
 * cgroups(7), Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
 */
#ifndef JAIL_CGROUP_H
#define JAIL_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

struct jail_run;

/* Finds where a group can be made; a v2 group is made at once, since the helper is born in it.
 * 0 or -1 (step_fail). */
int cgroup_find(struct jail_run *run);

/* Makes a v1 group. 0 or -1 (step_fail). */
int cgroup_make(struct jail_run *run);

/* Removes groups that dead runs left. */
void cgroup_sweep(const struct jail_run *run);

/* In the payload, v1: moves the calling process in. 0 or -1 with errno. */
int cgroup_attach_self(const struct jail_run *run);

/* Processes of the group that the kernel killed for memory; the most memory it used (0:
 * unknown). */
void cgroup_measure(const struct jail_run *run, uint64_t *oom_count, uint64_t *peak_bytes);

/* Whether a process or thread was refused because the group had all it may have. */
bool cgroup_was_full(const struct jail_run *run);

/* Whether the groups above would bear one more job of so many bytes of memory beside what they have now. True where
 * there is no group. */
bool cgroup_has_room(const struct jail_run *run, uint64_t bytes);

/* Outer: what the group's limits read as now, as applied records. */
void cgroup_apply_records(struct jail_run *run);

/* Removes the group and closes, if it is empty already. */
void cgroup_close_empty(struct jail_run *run);

/* Removes the group, which must be empty, and closes. */
void cgroup_close(struct jail_run *run);

/* "cgroup2", "systemd" (v2, in a scope that agent entered), "cgroup1", "degraded" */
const char *cgroup_text(const struct jail_run *run);

#endif
