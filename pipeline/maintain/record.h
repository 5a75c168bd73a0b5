/*
 * What is remembered of maintenance tasks: three tables of the database (pipeline/database.h). A row a repository and task says
 * when it was seen and dealt with, its last run, and what became of what it proposed; a row a run counts for the limits; a row a repository has which
 * files were refused. Times are seconds
 * since 1970. Killed at any instant, a run that was begun is found here and gone on with.
 */
#ifndef MAINTAIN_RECORD_H
#define MAINTAIN_RECORD_H

#include <stdbool.h>

struct error;
struct json;
struct record;

struct record *record_open(const char *state_dir, struct error *err); /* NULL with err */
void record_close(struct record *record);
void record_close_ptr(struct record **record);
#define AUTO_RECORD __attribute__((cleanup(record_close_ptr)))

/* One task of one repository. Borrowed. */
struct record_key {
	const char *repository, *task;
};

/*
 * Its row as an object: seen, handled (when its schedule was dealt with last), run, outcome ("running", "published", "nothing",
 * "refused", "failed"), inputs (digest of what the run saw), attempts, reason and reason_at (why it was last skipped, or what its run said), and
 * of what it proposed: state ("open", "merged", "closed"), commit_id, ref, url, pull, proposed (inputs). An empty object when there is none.
 * New; NULL with err.
 */
struct json *record_get(struct record *record, const struct record_key *key, struct error *err);

/* Names of the repository's tasks whose proposals are open, as far as is known. New array; NULL with err. */
struct json *record_open_tasks(struct record *record, const char *repository,
			       struct error *err);

/* Makes the row when there is none: its schedule counts from now. 0 or ERROR_FAILED. */
int record_see(struct record *record, const struct record_key *key, long long now,
	       struct error *err);

/* Why it did nothing. handled: this occurrence is dealt with. 0 or ERROR_FAILED. */
int record_skip(struct record *record, const struct record_key *key, long long now,
		const char *reason, bool handled, struct error *err);

struct record_limits {
	long long
	    open; /* proposals of a repository that are open, runs of a day under way included */
	long long hour, day;  /* runs of a repository begun within that time */
	long long day_tokens; /* of all maintenance runs of this day (UTC) */
	bool free;	      /* the task costs no tokens: that limit does not hold */
};

/*
 * Begins a run (attempts 1), or goes on with the one that the row names when it is the same id. All limits are looked at in the
 * same transaction. 1; 0 and *reason (owned by the caller) when one holds; or ERROR_FAILED.
 */
int record_begin(struct record *record, const struct record_key *key, const char *run,
		 const char *inputs, long long now, const struct record_limits *limits,
		 char **reason, struct error *err);

/* The end of a run. handled: this occurrence is dealt with. 0 or ERROR_FAILED. */
int record_end(struct record *record, const struct record_key *key, const char *outcome,
	       const char *reason, long long now, bool handled, struct error *err);

struct record_proposal {
	const char *commit, *ref, *url, *inputs;
	long long pull; /* 0: none */
};
/* What a run has proposed: it is open. 0 or ERROR_FAILED. */
int record_propose(struct record *record, const struct record_key *key,
		   const struct record_proposal *proposal, struct error *err);
/* What became of it. 0 or ERROR_FAILED. */
int record_resolve(struct record *record, const struct record_key *key, const char *state,
		   struct error *err);

/* What was last said of tasks that are refused: record_set_refusals's object; {} when nothing was. New; NULL with err. */
struct json *record_refusals(struct record *record, const char *repository, struct error *err);
/* said: {FILE OR SECTION: DIGEST…}, all of the repository ("": the operator's configuration). 0 or ERROR_FAILED. */
int record_set_refusals(struct record *record, const char *repository, const struct json *said,
			struct error *err);

#endif
