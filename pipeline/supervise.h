/*
 * Watching over the processes of a run: their events (hostile: capped, validated), last words,
 * deadlines, ends, and the user's interrupt. Several may be alive at once (a model and its
 * agent-dial); the caller waits for one of them and all are served meanwhile.
 */
#ifndef PIPELINE_SUPERVISE_H
#define PIPELINE_SUPERVISE_H

#include <stdbool.h>
#include <stddef.h>

#include "pipeline/base/error.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/spawn.h"

struct journal;
struct json;
struct supervisor;

/*
 * Called for each event of a child but progress, error and result. The answer, if any, is sent
 * to the child and freed. event is borrowed.
 */
typedef struct json *supervise_event_fn(void *arg, const char *event, struct json *fields);

struct supervised {
	const struct stage_row *row; /* NULL for a program outside of the table */
	const char *name;
	struct child child;
	supervise_event_fn *on_event; /* may be NULL */
	void *arg;
	bool shown;	       /* its progress is the line on the terminal */
	long long deadline_ms; /* CLOCK_MONOTONIC; 0: none */
	unsigned wall_s;       /* what the deadline was made of, for the message */
	long long hard_ms;     /* when a polite end becomes SIGKILL; 0: none is under way */
	bool ended, expired;
	int status;	       /* exit status, or -signal */
	struct error error;    /* from its error event */
	struct json *result;   /* owned: from its result event */
	struct strbuf control; /* bytes of an unfinished line */
	struct strbuf words;   /* last words on descriptor 2, capped */
};

#define SUPERVISE_MAX 12

struct supervisor {
	struct journal *journal;		    /* borrowed */
	struct supervised *children[SUPERVISE_MAX]; /* borrowed */
	size_t count;
	int signal_fd;	 /* owned: SIGINT, SIGTERM, SIGHUP */
	int interrupted; /* the signal, or 0 */
};

/* Blocks the signals and reads them from a descriptor from now on. 0 or an error kind. */
int supervise_init(struct supervisor *sup, struct journal *journal, struct error *err);
void supervise_release(struct supervisor *sup); /* ends whoever is left */

/* Starts a row. job may be NULL. wall_s: its deadline (0: the row's own; none there: none).
 * 0 or an error kind. On success sv belongs to the supervisor until supervise_end. */
int supervise_start(struct supervisor *sup, struct supervised *sv, enum stage_id id,
		    const struct json *job, const struct spawn_fd *fds, size_t fd_count,
		    unsigned wall_s, supervise_event_fn *on_event, void *arg,
		    struct error *err);

/* Takes over a child that spawn_outside started. */
void supervise_adopt(struct supervisor *sup, struct supervised *sv, const char *name,
		     const struct child *child, unsigned wall_s);

/*
 * Waits until sv has ended, serving all others. 0 when it exited with 0; else the error kind
 * with its own error message, or what happened (killed by its filter, deadline, signal, last
 * words). ERROR_INTERRUPTED after a signal: every child has been killed by then.
 */
int supervise_wait(struct supervisor *sup, struct supervised *sv, struct error *err);

/* Serves the children for up to ms milliseconds or until fd is readable (or at its end). 1 when
 * readable, 0 at the time limit, ERROR_INTERRUPTED. */
int supervise_until_readable(struct supervisor *sup, int fd, int ms, struct error *err);

/* Kills it if it still runs, reaps, releases what it holds. sv may be zeroed. */
void supervise_end(struct supervisor *sup, struct supervised *sv);

#endif
