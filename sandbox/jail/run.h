/*
 * One run of agent-jail: what its three processes share, and the named steps of the set-up.
 *
 *	outer    agent-jail itself, as it was started: reads the spec and the go, owns the cgroup,
 *	         the deadline and the facts; never enters the jail's namespaces
 *	helper   its child: payload's uid, makes the namespaces and the file system, sits outside
 *	         of the pid namespace, reads the payload's real siginfo, kills everything
 *	idle     first child of the helper: PID 1 of the jail. Makes proc and the network, then
 *	         looks on at what is tried in it (observe.h); ends when the helper is gone
 *	payload  second child of the helper: gives up power, runs the command
 *
 * Creating a network namespace and opening the mounts take as long as all the rest, so these
 * three are done at the same time by idle, outer and the helper; and the payload is born before the root
 * is built, for what it gives up that has nothing to do with it.
 *
 * Every step of the set-up has a name; when one fails the payload is not started and the facts
 * name it. A step that is a layer of isolation is listed in the facts once it holds.
 */
#ifndef JAIL_RUN_H
#define JAIL_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/jail/ids.h"
#include "sandbox/jail_spec.h"
#include "sandbox/own_group.h"

struct observe_table;

/* In build order. LAYER: listed in the facts when it holds. */
/* clang-format off */
#define JAIL_STEPS(STEP, LAYER) \
	STEP(start) STEP(spec) STEP(runtime) STEP(identity) STEP(image) STEP(disk) LAYER(cgroup) STEP(sources) STEP(table) STEP(helper) \
	LAYER(uid) LAYER(keyring) LAYER(userns) STEP(subuid) LAYER(mountns) LAYER(pidns) LAYER(ipcns) LAYER(utsns) \
	LAYER(netns) STEP(loopback) STEP(egress) STEP(resolver) LAYER(init) \
	LAYER(proc) STEP(staging) LAYER(root) STEP(etc) LAYER(dev) STEP(scratch) STEP(parts) \
	STEP(mounts) STEP(go) STEP(layers) LAYER(work) LAYER(home) LAYER(pivot) \
	STEP(payload) LAYER(session) STEP(attach) \
	LAYER(gvisor) LAYER(cgroupns) LAYER(ids) LAYER(nesting) LAYER(rlimits) STEP(stdio) LAYER(caps) LAYER(nnp) \
	LAYER(landlock) LAYER(seccomp) STEP(observe) LAYER(selftest)
/* clang-format on */

#define JAIL_STEP_ENUM(name) STEP_##name,
enum jail_step { JAIL_STEPS(JAIL_STEP_ENUM, JAIL_STEP_ENUM) STEP_COUNT };
#undef JAIL_STEP_ENUM

/* Ids inside: what id(1) says. */
#define JAIL_ID 1000

struct jail_failure {
	enum jail_step step;
	int err;	/* errno, 0 when there is none */
	char what[400]; /* call or thing */
};

/* A source of the spec's mounts, opened before the payload builds. */
struct jail_source {
	int tree;     /* owned: detached mount, -1 when link or skipped */
	int give;     /* owned: the directory, to be given to an id of the user's range; -1 */
	bool is_file; /* the mount point is a file */
	char *link;   /* owned: the source is this symbolic link, to be made again inside */
};

enum cgroup_kind { CGROUP_NONE, CGROUP_V1, CGROUP_V2 };

#define CGROUP_DIRS 3

struct jail_cgroup {
	enum cgroup_kind kind;
	bool in_scope;		  /* v2: below a scope that agent entered */
	bool has_cpu;		  /* v2: processors are limited */
	char name[64];		  /* of our directory: own_group_name */
	int parents[CGROUP_DIRS]; /* owned: v1: memory, pids, cpu (-1: no such limit); v2: [0]
				     the delegated directory */
	int dirs[CGROUP_DIRS];	  /* owned: our directories; v2: [0] ours, [1] "job" */
	int attach[CGROUP_DIRS];  /* owned: v1: their "tasks", written by the payload about
				     itself */
	int ctl;		  /* owned: v2: "ctl", where the helper is born */
	struct own_group_tables tables; /* owned: of /proc, as read until the group is made */
};

struct jail_applied;

struct jail_run {
	struct jail_spec spec;
	enum jail_step step;	     /* the one under way */
	uint64_t done;		     /* bit a step */
	struct jail_failure failure; /* the first one */
	bool separate; /* the payload has a uid of its own, since root started us */
	bool ranged;   /* it has one of the range of the user who did (jail/range.h) */
	uid_t uid;     /* payload's, as outer sees it */
	gid_t gid;
	int ids
	    [IDS_PLACES]; /* owned: locks on them, kept until this process's end (ids.h), or -1 */
	struct jail_cgroup cgroup;
	struct jail_source *sources; /* owned: one a mount of the spec; NULL until opened */
	int work_give;		     /* owned: as give of a source, for spec.work_dir, or -1 */
	int work_tree;		     /* owned: detached mount of spec.work_dir, or -1 */
	int disk;	  /* owned: with spec.on_disk the scratch, a detached mount, or -1 */
	int disk_root;	  /* owned: outer: its root directory, or -1 */
	int payload_sock; /* this process's end of outer <-> payload, or -1 */
	int helper_sock;  /* this process's end of outer <-> helper, or -1 */
	int runtime;	  /* owned: gvisor: runsc, O_PATH, or -1 */
	int self;	  /* owned: gvisor: our own program, or -1 */
	int said;	  /* owned: gvisor: what runsc says, a memory file, or -1 */
	int net_sock;	  /* this process's end of PID 1 <-> helper, then payload, or -1 */
	int root_sock;	  /* this process's end of helper <-> payload, or -1 */
	int listener;	  /* owned: payload: of its filter, until PID 1 has it, or -1 */
	bool told_to_observe;		/* by the spec, whatever the backend can */
	struct observe_table *observed; /* shared by all; NULL: not observed */
	int map_ns; /* owned: user namespace with the map of the owner asked for last, or -1 */
	uid_t map_uid; /* that owner */
	gid_t map_gid;
	struct jail_applied
	    *applied;	   /* shared with the payload (applied.h); NULL: nobody asked */
	int applied_file;  /* owned: gvisor: its memory as a file, or -1 */
	const char *fault; /* name of the step that shall fail: test builds only */
	char note[256];	   /* for facts.detail of a run that was not set up as asked in full */
};

void run_init(struct jail_run *run);
const char *step_name(enum jail_step step);

/* Begins a step. 0, or -1 with errno when the test build was told to let it fail. */
int step_enter(struct jail_run *run, enum jail_step step);
/* Records that the step under way failed with errno; keeps an earlier failure. Returns -1. */
int step_fail(struct jail_run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void step_done(struct jail_run *run);

/* The names of the layers that hold, blank-separated. */
void step_layers(const struct jail_run *run, char *out, size_t size);
/* What the user can do about a failure; "" when there is nothing to say. Reads the host's
 * /proc. */
void step_remedy(const struct jail_failure *failure, char *out, size_t size);

/* Between outer, helper and payload: one packet a message (SOCK_SEQPACKET). */
enum jail_message {
	MSG_FAILED = 1, /* helper, payload: failure */
	MSG_PREPARED, /* helper: waits for the go; PID 1 to helper: its proc, to payload: its network; between
			   helper and payload: see payload.h */
	MSG_COPY,    /* helper: asks outer to copy the layers; carries the directory; which: "w"
		       or "h" */
	MSG_COPIED,  /* outer: done */
	MSG_READY,   /* payload: everything holds, exec comes next */
	MSG_NOT_RUN, /* payload: exec failed; err in failure */
	MSG_ENDED, /* helper: the payload has ended, and the rest is killed; status. The runner of
			a sandbox: how the payload ended in there */
	MSG_LISTENER, /* payload to PID 1: carries the listener of its filter */
	MSG_COMMAND,  /* payload to PID 1: the command begins; PID 1: seen */
	MSG_MAP,     /* helper: its user namespace is there and wants ids of the user's range */
	MSG_MAPPED,  /* outer: it has them */
	MSG_SCRATCH, /* helper, before MSG_ENDED: carries what holds a large scratch (sweep.h) */
};

struct jail_packet {
	enum jail_message message;
	struct jail_failure failure;
	uint64_t done;
	int code;	   /* MSG_ENDED: si_code of the payload */
	int status;	   /* MSG_ENDED: si_status */
	uint64_t cpu_ms;   /* MSG_ENDED: user and system time of the payload */
	bool too_much;	   /* MSG_ENDED: the runner ended it for memory */
	uint64_t leftover; /* MSG_ENDED */
	long long now_ms;  /* MSG_READY, MSG_ENDED: CLOCK_MONOTONIC of the event */
	char work[16];	   /* MSG_READY: overlay, copy, bind, empty */
	char which;	   /* MSG_COPY */
	uint64_t seen;	   /* MSG_COMMAND: calls that were observed */
	char note[256];	   /* MSG_READY */
};

/* 0, or -1 with errno. fd: a descriptor to carry, or -1. */
int packet_send(int sock, const struct jail_packet *packet, int fd);
/* 1, 0 when the peer is gone, -1 with errno. *fd (NULL: none is taken) is owned by the caller,
 * -1 when none came. */
int packet_receive(int sock, struct jail_packet *packet, int *fd);

#endif
