/*
 * What a worker does beside its jobs (work.c), each in a process of its own so that nothing keeps the worker waiting:
 * agent queue reconcile, at the start and now and then; and for each connection at queue.socket that has said what it wants
 * (pipeline/callers.h) an agent queue take, for one user no more than TAKERS_EACH at a time.
 */
#ifndef CMD_AGENT_WORK_HELP_H
#define CMD_AGENT_WORK_HELP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "pipeline/callers.h"
#include "pipeline/spawn.h"

struct config;
struct error;
struct pollfd;

#define HELPERS 17 /* the first reconciles, the others take */
#define TAKERS_EACH 4
#define HELP_FDS (HELPERS + 1 + CALLERS_MAX)

struct helper {
	struct child child; /* pid 0: free */
	uid_t uid;	    /* for whom it takes */
	long long kill_at;
};

struct help {
	const char *program;	  /* borrowed: agent */
	const char *const *pairs; /* borrowed, NULL-terminated: -c KEY=VALUE of the worker */
	const char *path;	  /* borrowed: queue.socket, or NULL */
	int lock_fd, listen_fd;	  /* owned: whoever has the lock listens; -1 */
	char *lock_path;	  /* owned */
	long long every_ms, reconcile_at;
	bool reconciled; /* once, or tried */
	struct helper helpers[HELPERS];
	struct callers callers;
};

int help_init(struct help *help, const char *program, const char *state,
	      const char *const *pairs, const struct config *config, struct error *err);
void help_release(struct help *help); /* ends those that still run */

/* Fills HELP_FDS of them. */
void help_poll(const struct help *help, struct pollfd *fds);
/* Serves what came, and what is due by the clock. stopping: nothing new is begun. 0 or an error kind. */
int help_serve(struct help *help, const struct pollfd *fds, bool stopping, struct error *err);
/*
 * As PID 1 of a container, or a subreaper, a worker is given what its jobs leave when they end (an agent-sweeper, what a killed
 * agent-jail had): it shall not keep their process ids. Ours, helpers and jobs, are reaped in their own turn; those behind
 * one of them, in the next.
 */
void help_reap_left(const struct help *help, const pid_t *jobs, size_t count);
/* Whether the first comparison is done, and nothing is at work. */
bool help_is_idle(const struct help *help);

#endif
