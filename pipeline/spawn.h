/*
 * The one place that starts processes of ours: fork, descriptors at their fixed numbers,
 * everything else closed, an environment made from the row, exec of the file beside our own
 * executable.
 */
#ifndef PIPELINE_SPAWN_H
#define PIPELINE_SPAWN_H

#include <stddef.h>
#include <sys/types.h>

#include "pipeline/stages.h"

struct error;

struct spawn_fd {
	int number; /* enum stage_fd; must be in the row */
	int fd;	    /* borrowed: stays open in the caller */
};

struct child {
	pid_t pid;
	int pidfd;     /* owned; readable when the process has ended */
	int control;   /* owned: our end of FD_CONTROL, or -1 for agent-jail */
	int stderr_fd; /* owned: read end of its descriptor 2 */
};

/*
 * Starts the row's program. job_json (or NULL) becomes FD_JOB. FD_CONTROL and descriptor 2 are
 * made here. The child is its own session and dies with us (PR_SET_PDEATHSIG). 0 or an error
 * kind.
 */
int spawn_stage(enum stage_id id, const char *job_json, size_t job_len,
		const struct spawn_fd *fds, size_t fd_count, struct child *child,
		struct error *err);

/* SIGKILLs if still running, reaps, closes. */
void spawn_release(struct child *child);

/*
 * Starts a program that is not ours outside of any stage: `git receive-pack` for a local
 * remote. argv and env are complete (NULL-terminated); fds 0, 1, 2 as given. uid: run as that
 * user when we are root and it differs
 * ((uid_t)-1: as we are). Own session. 0 or an error kind.
 */
int spawn_outside(const char *const *argv, const char *const *env, int stdin_fd, int stdout_fd,
		  int stderr_fd, uid_t uid, struct child *child, struct error *err);

/* The same for one that goes on when we have ended, and that nobody waits for: a worker that a hook starts. */
int spawn_lasting(const char *const *argv, const char *const *env, const int stdio[3],
		  struct error *err);

/*
 * Starts a program that the row lists among its children (agent-publish: git, ssh-agent,
 * ssh-add) from within that row, whose restrictions it inherits. argv[0] is a name of the list,
 * looked up in the PATH of env; argv and env are complete (NULL-terminated). stdio: what
 * becomes 0, 1, 2. keep: numbers of the row's descriptors that stay open, ends with -1; NULL:
 * none. Own session; dies with us. 0 or an error kind.
 */
int spawn_listed(enum stage_id id, const char *const *argv, const char *const *env,
		 const int stdio[3], const int *keep, struct child *child, struct error *err);

/* The path of a program: name itself when it has a slash, else looked up in the PATH of env
 * (absolute entries only). The caller frees; NULL with err. */
char *spawn_find(const char *name, const char *const *env, struct error *err);

/* Directory of our executables: that of /proc/self/exe, or its ../libexec/agent when agent-jail
 * lies there. Static storage; NULL with err. */
const char *spawn_program_dir(struct error *err);

#endif
