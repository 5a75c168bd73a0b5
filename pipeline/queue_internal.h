/*
 * What queue.c (jobs of all kinds) and queue_tips.c (what task branches are known to ask) share; nobody
 * else includes it.
 */
#ifndef PIPELINE_QUEUE_INTERNAL_H
#define PIPELINE_QUEUE_INTERNAL_H

#include "pipeline/worker_lock.h"

struct error;
struct queue_new;
struct sqlite3;

struct queue {
	struct sqlite3 *db;
	char *wake;		     /* owned */
	int wake_fd;		     /* owned */
	int workers_fd;		     /* owned: the directory of lock files */
	int owner_fd;		     /* owned: our lock file, or -1 */
	char owner[WORKER_LOCK_MAX]; /* its name; "" when we are no worker */
};

/* The clock of the wall: a lease outlives a restart of the machine. When it is set, leases end early or late; the
 * lock on the run's directory still keeps a run to one process. */
long long queue_now_ms(void);

/* A worker that misses it looks by itself within a second. */
void queue_wake(struct queue *queue);

/* Within a transaction: whether the tip of a new job is news. 0; ERROR_SKIPPED when its branch is known to be there
 * (*id: by which job); ERROR_LATER when another job came after the one that job->after names. */
int queue_check_tip(struct queue *queue, const struct queue_new *job, long long *id,
		    struct error *err);

#endif
