/*
 * A place for the jails' control groups. Called once by agent, before it starts anything: so all that comes after
 * lies in one group, whose part for the jails agent-jail finds (sandbox/jail/cgroup.h).
 *
 * Where cgroup v2 is delegated to us there is nothing to do, except to step aside when we sit in the delegated group
 * itself: the kernel gives no controllers to the children of a group that has processes. Where it is not, the user's
 * systemd is asked to put this process into a new scope with Delegate=yes. That is what `systemd-run --user --scope -p
 * Delegate=yes` asks for before it executes the program; asked for from within, it needs no second execution, so
 * no secret crosses one, and environment, terminal and process id stay as they are.
 */
#ifndef PIPELINE_SCOPE_H
#define PIPELINE_SCOPE_H

struct error;

/*
 * 0: there is a place in cgroup v2 (perhaps in a scope now, whose name is "agent-….scope"). Else a kind,
 * and err says why there is none: agent-jail then takes v1 controllers, or refuses. Takes at most 10 s, when systemd does
 * not answer; leaves no process.
 */
int scope_enter(struct error *err);

#endif
