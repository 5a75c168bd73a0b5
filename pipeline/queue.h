/*
 * The queue: what is to be run, and what became of it. One table of the database (pipeline/database.h), which says
 * by its indices that an issue of a repository waits at most once and runs at most once.
 *
 *	queued ──claim──► running ──settle──► done, refused, skipped, parked
 *	   ▲ │                │ └─ fails for now, its worker stops or is gone ─► queued (later, at most so often)
 *	   │ └─ cancel, a newer one of the issue ─► cancelled, superseded ◄─┘
 *	   └── retry, by a person
 *
 * A job has the id of its run from its first claim on, before the run's directory is there: whoever has the job goes
 * on with that run, which its directory's lock keeps to one process. A claim is a lease: it ends at a time
 * unless the worker prolongs it, and at once when the worker is gone, which its lock file in workers/ shows. Who
 * lost a lease can settle nothing any more. Killed at any instant, the queue is in one of these states.
 */
#ifndef PIPELINE_QUEUE_H
#define PIPELINE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

#include "pipeline/rundir.h"

struct error;
struct json;
struct queue;

struct queue_rules {
	long long jobs;		  /* most that run at once on this machine */
	long long per_repository; /* of them of one repository */
	long long attempts;	  /* then a job that fails is parked */
	long long
	    wait_ms; /* before the second attempt; twice as long before each further one, to 1 h */
	long long lease_ms;
};

struct queue *queue_open(const char *state_dir, struct error *err); /* NULL with err */
void queue_close(struct queue *queue);
void queue_close_ptr(struct queue **queue);
#define AUTO_QUEUE __attribute__((cleanup(queue_close_ptr)))

/* Touched with each change that a worker should see at once. Borrowed. */
const char *queue_wake_path(const struct queue *queue);

/* ---- for people, hooks, cron ---- */

struct queue_new {
	const char *repository, *identity; /* what makes two jobs jobs of the same issue */
	const char *title;
	const char *digest;  /* of all that is asked: two jobs with the same are the same */
	const char *origin;  /* "person", "hook", "cron" */
	const char *request; /* request.json of the run, as text, its id empty */
	const char *issue;
	size_t issue_len;
	long long priority; /* higher is earlier */
	/* Of a task branch (pipeline/queue.h, "task branches"); NULL: the job is of none. */
	const char *tip; /* the commit that asks for it */
	long long
	    after; /* the job that queue_tips told of it before the branch was read; 0: none */
	const char *
	    skip; /* it asks for nothing: why not; kept as a job that is skipped. NULL: it does */
};

/* Durable when it returns 0; *id is the job's. A queued or parked one of the issue becomes superseded, a
 * running one is asked to stop at its next stage. ERROR_SKIPPED when the same is queued or running (*id: that one). */
int queue_add(struct queue *queue, const struct queue_new *job, long long *id,
	      struct error *err);

/*
 * Task branches. What each asks is known by the commit that its last job was for. Whoever compares a branch with this
 * reads what is known first (queue_tips), then the branch, and adds with the number of the job that was the last: where
 * another came meanwhile, nothing is added (ERROR_LATER), and the comparison begins again. So hooks and reconcilers may
 * work at once, be killed, or come late, and each state of a branch that was seen makes one job: ERROR_SKIPPED tells the one
 * that is there. Rows are never taken out, or a branch would be news again.
 */

/* Object of identity -> {"id","tip","state"} of each branch's last job; tip "": the branch was deleted. identity: only
 * that one, NULL: all. New; NULL with err. */
struct json *queue_tips(struct queue *queue, const char *repository, const char *identity,
			struct error *err);

/* The branch is gone: a job that waits or is parked is cancelled, one that runs is asked to end. *id: which, 0 when there
 * is none. after: as above. 0, ERROR_LATER or another error kind. */
int queue_forget(struct queue *queue, const char *repository, const char *identity,
		 long long after, long long *id, struct error *err);

/* Repositories whose branches are to be compared: adds, takes out, lists (new array of paths; NULL with err). */
int queue_watch(struct queue *queue, const char *repository, bool watch, struct error *err);
struct json *queue_watched(struct queue *queue, struct error *err);

/* Jobs as an array of objects, oldest first: id, state, repository, identity, title, origin, priority, attempts, due,
 * added, started, ended (ms since 1970, or null), run, reason (or null), stop. id: only that one (0: all). ended: with
 * those that came to an end. New; NULL with err, ERROR_USAGE when there is no job of that id. */
struct json *queue_list(struct queue *queue, long long id, bool ended, struct error *err);

/* A queued job is cancelled; a running one is asked to end (*running). ERROR_SKIPPED when it has ended. */
int queue_cancel(struct queue *queue, long long id, bool *running, struct error *err);

/* An ended job waits again, with all attempts before it; it goes on with its run, or begins a new one where that came
 * to a verdict. ERROR_SKIPPED when it has not ended, was done, or another of its issue is alive. */
int queue_retry(struct queue *queue, long long id, struct error *err);

/* ---- for workers ---- */

struct queue_job {
	long long id;
	long long attempts; /* with this one */
	char run[RUNDIR_ID_MAX];
	char *title, *request, *issue; /* owned */
	size_t issue_len;
};
void queue_job_release(struct queue_job *job);

/* Makes this process a worker with a name and lock file of its own, until queue_close. 0 or an error kind. */
int queue_work(struct queue *queue, struct error *err);

/* The next job that may run, leased. 1; 0 when there is none now; or an error kind. */
int queue_claim(struct queue *queue, const struct queue_rules *rules, struct queue_job *job,
		struct error *err);

/* Prolongs all leases of this worker. 0 or an error kind. */
int queue_prolong(struct queue *queue, const struct queue_rules *rules, struct error *err);

enum queue_stop {
	QUEUE_GO_ON,
	QUEUE_STOP,   /* at the next stage: a newer job waits */
	QUEUE_CANCEL, /* at once */
	QUEUE_LOST,   /* the lease is another's */
};
/* What was asked for a job of this worker; an error kind when that cannot be known. */
int queue_asked(struct queue *queue, long long id, struct error *err);

enum queue_end {
	QUEUE_DONE,
	QUEUE_REFUSED, /* a clean "no" */
	QUEUE_SKIPPED, /* nothing to do */
	QUEUE_PARKED,  /* needs a person */
	QUEUE_AGAIN,   /* failed for now: later, or parked when it was the last attempt */
	QUEUE_BACK,    /* was stopped, or could not begin: soon, and no attempt */
};
/* Gives a job back. reason: for people. 0 (also when the lease was lost: then nothing is changed), or an error
 * kind. */
int queue_settle(struct queue *queue, const struct queue_rules *rules, long long id,
		 enum queue_end end, const char *reason, struct error *err);

/* Jobs whose workers are gone, or let their lease pass, wait again, or are parked after the last attempt. How
 * many, or an error kind. */
int queue_take_over(struct queue *queue, const struct queue_rules *rules, struct error *err);

/* Milliseconds until the next job that waits for its time; -1 when there is none. */
long long queue_next_ms(struct queue *queue);

#endif
