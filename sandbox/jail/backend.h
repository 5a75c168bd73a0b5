/*
 * What differs between backends. All of them share outer, helper, PID 1, the namespaces, the control
 * group, the file system with its layers and its sized scratch, the go, the clock and the facts; a
 * backend only says how the command is put into what was built, and what must hold before it may be.
 */
#ifndef JAIL_BACKEND_H
#define JAIL_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

struct jail_run;
struct jail_spec;
struct rootfs;

struct backend {
	/* Outer, before anything is made: what the machine must have. 0 or -1 (step_fail). NULL: nothing. */
	int (*find)(struct jail_run *run);
	/* The helper, once the file system is laid out: makes it the root. What lies on top of it then goes
	 * by rootfs_let_go. 0 or -1 (step_fail). */
	int (*root)(struct jail_run *run, struct rootfs *fs);
	/* The payload, in that root: confines itself, sends MSG_READY and becomes the command, or what
	 * runs it. Returns only on failure (step_fail). */
	void (*enter)(struct jail_run *run, struct rootfs *fs);
	/* Processes and threads of the host that so many of the payload's take. NULL: as many. */
	uint64_t (*processes)(uint64_t wanted);
	/* The payload is on a kernel of its own: that has its own clock, and tells the payload's end
	 * (MSG_ENDED on the payload's socket), which the helper cannot see. */
	bool far;
	bool observes; /* what it runs is seen by jail/observe.h: if not, the facts say so */
	/* Bit a step: what must be done before the command is run, and MSG_READY must name, or it is a failed
	 * set-up. */
	uint64_t layers;
};

const struct backend *backend_of(const struct jail_spec *spec);

/* Whether all of the backend's layers are done, whatever the steps on the way thought of it. 0 or -1
 * (step_fail). */
int backend_check_layers(struct jail_run *run);

void native_enter(struct jail_run *run, struct rootfs *fs);

#endif
