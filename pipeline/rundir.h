/*
 * The run directory: everything a run has and leaves (DESIGN section 3). Its files are the
 * run's state: a step whose file is there is done, which is what makes a run resumable after
 * SIGKILL at any point. Files appear whole or not at all and are read-only from then on.
 */
#ifndef PIPELINE_RUNDIR_H
#define PIPELINE_RUNDIR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct error;
struct json;

#define RUNDIR_ID_MAX 40

struct rundir {
	char *state; /* owned: absolute state directory */
	char *path;  /* owned: absolute run directory */
	char id[RUNDIR_ID_MAX];
	int fd;	     /* owned: the directory */
	int lock_fd; /* owned: exclusive lock while a supervisor works on the run, or -1 */
};

/* The state directory: $AGENT_STATE_DIR, $XDG_STATE_HOME/agent, ~/.local/state/agent. Made if
 * missing (0700), with runs/ and store/. Owned by the caller; NULL with err. */
char *rundir_state_dir(struct error *err);

/* A new run with a new id, locked. 0 or an error kind. */
int rundir_create(const char *state, struct rundir *run, struct error *err);

/* The id of a run that begins now. 0 or an error kind. */
int rundir_new_id(char id[RUNDIR_ID_MAX], struct error *err);
/* The run of that id (of rundir_new_id), made if it is not there yet; locked, ERROR_SKIPPED when another
 * process works on it. 0 or an error kind. */
int rundir_enter(const char *state, const char *id, struct rundir *run, struct error *err);

/* A directory of the same kind for work that is no run (agent jail), below tmp/ of the state:
 * removed by rundir_remove, or by agent gc. Locked. 0 or an error kind. */
int rundir_create_temporary(const char *state, struct rundir *run, struct error *err);
/* Removes the directory of a locked or temporary run. 0 or an error kind. */
int rundir_remove(struct rundir *run, struct error *err);

/* An existing run by id, unique prefix, or NULL for the newest. lock: take it (ERROR_SKIPPED
 * when another process works on it). 0 or an error kind. */
int rundir_open(const char *state, const char *id, bool lock, struct rundir *run,
		struct error *err);
void rundir_release(struct rundir *run);

/* Ids of all runs, oldest first; text_free_words frees. Never NULL. */
char **rundir_list(const char *state);

/*
 * The one run at a time that key stands for (a repository and an issue): *fd is the lock, which
 * ends with it, the caller's. ERROR_SKIPPED, naming the run that has it, when another process does.
 */
int rundir_lock_key(const struct rundir *run, const char *key, int *fd, struct error *err);

bool rundir_has(const struct rundir *run, const char *name);

/* Makes a directory of the run (mode 0700; existing is fine) and gives its absolute path
 * (caller frees). NULL with err. */
char *rundir_subdir(const struct rundir *run, const char *name, struct error *err);

/* An artefact: NULL without err set when missing; NULL with err when malformed or of another
 * kind. */
struct json *rundir_read(const struct rundir *run, const char *name, const char *kind,
			 size_t max_bytes, struct error *err);
/* Pretty-printed, whole or not at all. */
int rundir_write(const struct rundir *run, const char *name, const struct json *object,
		 struct error *err);

/* Opens NAME.part for a stage to write (truncated; caller closes). -1 with err. */
int rundir_part(const struct rundir *run, const char *name, struct error *err);
/* Checks size (at most max_bytes, not empty unless may_be_empty), makes it durable and
 * read-only, renames. */
int rundir_accept(const struct rundir *run, const char *name, size_t max_bytes,
		  bool may_be_empty, struct error *err);
/* A finished file for reading (caller closes). -1 with err. */
int rundir_file(const struct rundir *run, const char *name, struct error *err);

/* Started by root: gives a tree below the run directory (or an absolute path) to a uid, without
 * following links. Nothing otherwise. */
int rundir_give(const char *path, uid_t uid, struct error *err);

#endif
