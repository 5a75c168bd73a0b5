/*
 * The backend "gvisor": the payload runs on the kernel that runsc has in user space. All that a native
 * jail is made of is there as well, around runsc: its user is the payload's, its namespaces, control
 * group, clock and layers are the same, and it sees nothing of the host but the root that was built for
 * the payload, a proc of the jail and its own descriptor. So what runsc is or leaves goes with the jail,
 * whoever dies. Own OCI bundle, run with an enumerated command line, an empty environment and three
 * descriptors; never `runsc do`.
 *
 * Inside, PID 1 is agent-jail again (runner.h): it tells the payload's real end, which the exit status
 * of runsc cannot.
 */
#ifndef JAIL_GVISOR_H
#define JAIL_GVISOR_H

#include <stdint.h>

struct jail_run;
struct jail_spec;
struct rootfs;
struct strbuf;

/* Outer: opens runsc (of the spec, or of a fixed list) and what else the payload will need of the host.
 * 0 or -1 (step_fail). */
int gvisor_find(struct jail_run *run);

/* The helper: puts the payload's root into one for runsc, and makes that the root. 0 or -1
 * (step_fail). */
int gvisor_root(struct jail_run *run, struct rootfs *fs);

/* The payload: becomes runsc. Returns only on failure (step_fail). */
void gvisor_enter(struct jail_run *run, struct rootfs *fs);

/* Host processes and threads that the sandbox needs for so many of the payload's. */
uint64_t gvisor_processes(uint64_t wanted);

/* The bundle's config.json. Pure. 0, -1: a name that JSON cannot carry (not UTF-8). */
int gvisor_config(const struct jail_spec *spec, struct strbuf *out);

/* Places in the root that runsc is started in. */
#define GVISOR_ROOT "/jail" /* the payload's root */
#define GVISOR_RUNNER                                                                          \
	"/.agent-jail" /* in the payload's root, where no mount is: this program */

#endif
