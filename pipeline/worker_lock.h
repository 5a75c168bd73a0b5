/*
 * Whether a worker lives: each holds a lock on a file of its own, named as it is, in the state directory's workers/.
 * The kernel lets the lock go when the worker ends, however it ends; a number of a process would be reused.
 */
#ifndef PIPELINE_WORKER_LOCK_H
#define PIPELINE_WORKER_LOCK_H

#include <stdbool.h>

struct error;

#define WORKER_LOCK_MAX 48

/* Makes and locks one with a new name. The descriptor that holds it (the caller closes), or -1 with err. dirfd:
 * the directory. */
int worker_lock_make(int dirfd, char name[WORKER_LOCK_MAX], struct error *err);

/* Whether nobody holds the lock of that name; its file goes then. */
bool worker_lock_is_free(int dirfd, const char *name);

/* Removes the files that killed workers left. */
void worker_lock_sweep(int dirfd);

#endif
