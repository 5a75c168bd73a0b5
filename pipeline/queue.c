#include "queue.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/database.h"
#include "pipeline/queue_internal.h"

#define WAIT_MOST_MS (3600 * 1000LL)
#define BACK_MS 300 /* before a job that was given back is tried again */

long long queue_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* ---- opening ---- */

static int open_files(struct queue *queue, const char *state, struct error *err)
{
	char *workers AUTO_FREE = mem_printf("%s/workers", state);

	queue->wake = mem_printf("%s/queue.wake", state);
	queue->wake_fd = open(queue->wake, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (queue->wake_fd < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", queue->wake);
	if (fd_mkdir_all(workers) < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", workers);
	queue->workers_fd = open(workers, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (queue->workers_fd < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", workers);
	return 0;
}

struct queue *queue_open(const char *state_dir, struct error *err)
{
	struct queue *queue AUTO_QUEUE = mem_calloc(1, sizeof(*queue));

	queue->wake_fd = queue->workers_fd = queue->owner_fd = -1;
	queue->db = database_open(state_dir, err);
	/* Many short processes add a job each: whoever closes last would copy the log into the database, and wait
	 * for the disk, each time. Every thousandth page does. */
	if (queue->db)
		sqlite3_db_config(queue->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	/* FULL: a job that was accepted is there after a power cut, too. */
	if (!queue->db || database_exec(queue->db, "PRAGMA synchronous = FULL", err) ||
	    open_files(queue, state_dir, err))
		return NULL;
	return MEM_STEAL(queue);
}

void queue_close(struct queue *queue)
{
	if (!queue)
		return;
	if (queue->owner_fd >= 0)
		unlinkat(queue->workers_fd, queue->owner, 0);
	fd_close_ptr(&queue->owner_fd);
	fd_close_ptr(&queue->workers_fd);
	fd_close_ptr(&queue->wake_fd);
	sqlite3_close(queue->db);
	free(queue->wake);
	free(queue);
}

void queue_close_ptr(struct queue **queue)
{
	queue_close(*queue);
}

const char *queue_wake_path(const struct queue *queue)
{
	return queue->wake;
}

void queue_wake(struct queue *queue)
{
	futimens(queue->wake_fd, NULL);
}

/* ---- adding ---- */

struct live {
	long long id; /* 0: none */
	bool same;
};

static int find_live(struct queue *queue, const char *state, const struct queue_new *job,
		     struct live *live, struct error *err)
{
	sqlite3_stmt *stmt AUTO_STMT =
	    database_query(queue->db, err,
			   "SELECT id, digest = ?4 FROM jobs WHERE state = ?1 AND "
			   "repository = ?2 AND identity = ?3 AND stop IS NULL",
			   "tttt", state, job->repository, job->identity, job->digest);
	int result;

	if (!stmt)
		return err->kind;
	*live = (struct live){0};
	result = sqlite3_step(stmt);
	if (result == SQLITE_ROW) {
		live->id = sqlite3_column_int64(stmt, 0);
		live->same = sqlite3_column_int(stmt, 1);
	}
	return result == SQLITE_ROW || result == SQLITE_DONE
		   ? 0
		   : database_fail(queue->db, "read", err);
}

static int insert(struct queue *queue, const struct queue_new *job, long long *id,
		  struct error *err)
{
	long long now = queue_now_ms();

	if (database_change(
		queue->db, err,
		"INSERT INTO jobs(state, repository, identity, title, digest, origin, "
		"priority, due, added, ended, request, issue, tip, reason) "
		"VALUES(CASE WHEN ?11 IS NULL THEN 'queued' ELSE 'skipped' END,?1,?2,?3,?4,?5,"
		"?6,?7,?7,CASE WHEN ?11 IS NULL THEN NULL ELSE ?7 END,?8,?9,?10,?11)",
		"tttttiitbtt", job->repository, job->identity, job->title, job->digest,
		job->origin, job->priority, now, job->request, job->issue, job->issue_len,
		job->tip, job->skip) < 0)
		return err->kind;
	*id = sqlite3_last_insert_rowid(queue->db);
	return 0;
}

/* The waiting one gives way first, the index allows only one. */
static int add(struct queue *queue, const struct queue_new *job, long long *id,
	       struct error *err)
{
	struct live queued = {0}, running = {0};
	char *reason AUTO_FREE = NULL;

	if (job->tip && queue_check_tip(queue, job, id, err))
		return err->kind;
	if (job->skip)
		return insert(queue, job, id, err);
	if (find_live(queue, "queued", job, &queued, err) ||
	    find_live(queue, "running", job, &running, err))
		return err->kind;
	if (queued.same || (running.same && !queued.id)) {
		*id = queued.same ? queued.id : running.id;
		error_set(err, ERROR_SKIPPED, "job %lld is the same and %s", *id,
			  queued.same ? "queued" : "running");
		return error_next(err, "agent queue show %lld", *id);
	}
	if (queued.id &&
	    database_change(queue->db, err,
			    "UPDATE jobs SET state = 'superseded', ended = ?2 WHERE id = ?1",
			    "ii", queued.id, queue_now_ms()) < 0)
		return err->kind;
	if (insert(queue, job, id, err))
		return err->kind;
	reason = mem_printf("superseded by job %lld", *id);
	if (queued.id &&
	    database_change(queue->db, err, "UPDATE jobs SET reason = ?2 WHERE id = ?1", "it",
			    queued.id, reason) < 0)
		return err->kind;
	if (database_change(queue->db, err,
			    "UPDATE jobs SET state = 'superseded', reason = ?3 WHERE state = "
			    "'parked' AND repository = ?1 AND identity = ?2",
			    "ttt", job->repository, job->identity, reason) < 0)
		return err->kind;
	if (running.id &&
	    database_change(queue->db, err,
			    "UPDATE jobs SET stop = 'superseded', reason = ?2 WHERE id = ?1",
			    "it", running.id, reason) < 0)
		return err->kind;
	return 0;
}

int queue_add(struct queue *queue, const struct queue_new *job, long long *id,
	      struct error *err)
{
	int result;

	if (database_begin(queue->db, err))
		return err->kind;
	result = database_end(queue->db, add(queue, job, id, err), err);
	if (result == 0)
		queue_wake(queue);
	return result;
}

/* ---- looking ---- */

#define COLUMNS                                                                                \
	"id, state, repository, identity, title, origin, priority, attempts, due, added, "     \
	"started, ended, run, reason, stop"

static struct json *row_as_json(sqlite3_stmt *stmt)
{
	struct json *job = js_object_new();

	for (int i = 0; i < sqlite3_column_count(stmt); i++) {
		const char *name = sqlite3_column_name(stmt, i);

		if (sqlite3_column_type(stmt, i) == SQLITE_INTEGER)
			js_set_int(job, name, sqlite3_column_int64(stmt, i));
		else
			js_set_str(job, name, (const char *)sqlite3_column_text(stmt, i));
	}
	return job;
}

static int no_such_job(long long id, struct error *err)
{
	error_set(err, ERROR_USAGE, "there is no job %lld", id);
	return error_next(err, "agent queue list --all lists them");
}

struct json *queue_list(struct queue *queue, long long id, bool ended, struct error *err)
{
	const char *sql = id	  ? "SELECT " COLUMNS " FROM jobs WHERE id = ?1"
			  : ended ? "SELECT " COLUMNS " FROM jobs WHERE ?1 = 0 ORDER BY id"
				  : "SELECT " COLUMNS " FROM jobs WHERE ?1 = 0 AND state IN "
				    "('queued', 'running', 'parked') ORDER BY id";
	sqlite3_stmt *stmt AUTO_STMT = database_query(queue->db, err, sql, "i", id);
	struct json *jobs AUTO_JSON = js_array_new();
	int result;

	if (!stmt)
		return NULL;
	while ((result = sqlite3_step(stmt)) == SQLITE_ROW)
		js_push(jobs, row_as_json(stmt));
	if (result != SQLITE_DONE)
		database_fail(queue->db, "read", err);
	else if (id && !js_len(jobs))
		no_such_job(id, err);
	else
		return MEM_STEAL(jobs);
	return NULL;
}

/* ---- by people: cancel, retry ---- */

static int cancel(struct queue *queue, long long id, bool *running, struct error *err)
{
	struct json *jobs AUTO_JSON = queue_list(queue, id, true, err);
	const char *state = js_str(js_at(jobs, 0), "state", "");
	int changed;

	if (!jobs)
		return err->kind;
	*running = strcmp(state, "running") == 0;
	changed =
	    *running
		? database_change(queue->db, err,
				  "UPDATE jobs SET stop = 'cancelled', reason = 'cancelled' "
				  "WHERE id = ?1",
				  "i", id)
		: database_change(
		      queue->db, err,
		      "UPDATE jobs SET state = 'cancelled', ended = ?2, reason = 'cancelled' "
		      "WHERE id = ?1 AND state IN ('queued', 'parked')",
		      "ii", id, queue_now_ms());
	if (changed == 0) {
		error_set(err, ERROR_SKIPPED, "job %lld has ended: it is %s", id, state);
		return error_next(err, "agent queue show %lld tells what became of it", id);
	}
	return changed < 0 ? changed : 0;
}

int queue_cancel(struct queue *queue, long long id, bool *running, struct error *err)
{
	int result;

	if (database_begin(queue->db, err))
		return err->kind;
	result = database_end(queue->db, cancel(queue, id, running, err), err);
	if (result == 0)
		queue_wake(queue);
	return result;
}

static int retry(struct queue *queue, long long id, struct error *err)
{
	struct json *jobs AUTO_JSON = queue_list(queue, id, true, err);
	struct queue_new same = {.digest = ""};
	struct live queued = {0}, running = {0};
	const char *state;

	if (!jobs)
		return err->kind;
	state = js_str(js_at(jobs, 0), "state", "");
	if (!strcmp(state, "queued") || !strcmp(state, "running") || !strcmp(state, "done")) {
		error_set(err, ERROR_SKIPPED, "job %lld is %s", id, state);
		if (!strcmp(state, "done"))
			return error_next(err,
					  "agent queue show %lld tells what it made; agent "
					  "queue add makes a new job",
					  id);
		return error_next(
		    err,
		    !strcmp(state, "queued")
			? "agent work runs it; agent queue cancel %lld takes it out"
			: "agent queue cancel %lld ends it",
		    id);
	}
	same.repository = js_str(js_at(jobs, 0), "repository", "");
	same.identity = js_str(js_at(jobs, 0), "identity", "");
	if (find_live(queue, "queued", &same, &queued, err) ||
	    find_live(queue, "running", &same, &running, err))
		return err->kind;
	if (queued.id || running.id) {
		error_set(err, ERROR_SKIPPED, "job %lld of the same issue is %s",
			  queued.id ? queued.id : running.id, queued.id ? "queued" : "running");
		return error_next(err, "agent queue cancel %lld, then again",
				  queued.id ? queued.id : running.id);
	}
	return database_change(
	    queue->db, err,
	    "UPDATE jobs SET state = 'queued', attempts = 0, due = ?2, "
	    "ended = NULL, reason = NULL, stop = NULL, run = CASE WHEN state "
	    "IN ('refused', 'skipped') THEN NULL ELSE run END WHERE id = ?1",
	    "ii", id, queue_now_ms());
}

int queue_retry(struct queue *queue, long long id, struct error *err)
{
	int result;

	if (database_begin(queue->db, err))
		return err->kind;
	result = database_end(queue->db, retry(queue, id, err), err);
	if (result < 0)
		return result;
	queue_wake(queue);
	return 0;
}

int queue_work(struct queue *queue, struct error *err)
{
	worker_lock_sweep(queue->workers_fd);
	queue->owner_fd = worker_lock_make(queue->workers_fd, queue->owner, err);
	return queue->owner_fd < 0 ? err->kind : 0;
}

/* ---- claiming ---- */

void queue_job_release(struct queue_job *job)
{
	free(job->title);
	free(job->request);
	free(job->issue);
	memset(job, 0, sizeof(*job));
}

/* The id, 0 when there is none, or an error kind. */
static long long next_job(struct queue *queue, const struct queue_rules *rules,
			  struct error *err)
{
	sqlite3_stmt *stmt AUTO_STMT = database_query(
	    queue->db, err,
	    "SELECT id FROM jobs INDEXED BY jobs_next WHERE state = 'queued' AND due <= ?1 "
	    "AND (SELECT count(*) FROM jobs WHERE state = 'running') < ?2 "
	    "AND repository NOT IN (SELECT repository FROM jobs WHERE state = 'running' "
	    "GROUP BY repository HAVING count(*) >= ?3) "
	    "AND (repository, identity) NOT IN (SELECT repository, identity FROM jobs WHERE "
	    "state = 'running') ORDER BY priority DESC, id LIMIT 1",
	    "iii", queue_now_ms(), rules->jobs, rules->per_repository);
	int result;

	if (!stmt)
		return err->kind;
	result = sqlite3_step(stmt);
	if (result == SQLITE_ROW)
		return sqlite3_column_int64(stmt, 0);
	return result == SQLITE_DONE ? 0 : database_fail(queue->db, "read", err);
}

static int read_job(struct queue *queue, long long id, struct queue_job *job, struct error *err)
{
	sqlite3_stmt *stmt AUTO_STMT =
	    database_query(queue->db, err,
			   "SELECT attempts, run, title, request, issue FROM jobs "
			   "WHERE id = ?1",
			   "i", id);
	const void *issue;

	if (!stmt)
		return err->kind;
	if (sqlite3_step(stmt) != SQLITE_ROW)
		return database_fail(queue->db, "read", err);
	job->id = id;
	job->attempts = sqlite3_column_int64(stmt, 0);
	snprintf(job->run, sizeof(job->run), "%s", (const char *)sqlite3_column_text(stmt, 1));
	job->title = mem_strdup((const char *)sqlite3_column_text(stmt, 2));
	job->request = mem_strdup((const char *)sqlite3_column_text(stmt, 3));
	issue = sqlite3_column_blob(stmt, 4);
	job->issue_len = (size_t)sqlite3_column_bytes(stmt, 4);
	job->issue = mem_calloc(job->issue_len + 1, 1);
	if (job->issue_len)
		memcpy(job->issue, issue, job->issue_len);
	return 0;
}

static int claim(struct queue *queue, const struct queue_rules *rules, struct queue_job *job,
		 struct error *err)
{
	long long id = next_job(queue, rules, err), now = queue_now_ms();
	char run[RUNDIR_ID_MAX];

	if (id <= 0)
		return (int)id;
	if (rundir_new_id(run, err) ||
	    database_change(queue->db, err,
			    "UPDATE jobs SET state = 'running', owner = ?2, lease = ?3, "
			    "attempts = attempts + 1, started = ?4, reason = NULL, "
			    "run = coalesce(run, ?5) WHERE id = ?1",
			    "itiit", id, queue->owner, now + rules->lease_ms, now, run) < 0 ||
	    read_job(queue, id, job, err))
		return err->kind;
	return 1;
}

int queue_claim(struct queue *queue, const struct queue_rules *rules, struct queue_job *job,
		struct error *err)
{
	int result;

	memset(job, 0, sizeof(*job));
	if (database_begin(queue->db, err))
		return err->kind;
	result = database_end(queue->db, claim(queue, rules, job, err), err);
	if (result <= 0)
		queue_job_release(job);
	return result;
}

int queue_prolong(struct queue *queue, const struct queue_rules *rules, struct error *err)
{
	int changed = database_change(queue->db, err,
				      "UPDATE jobs SET lease = ?2 WHERE state = 'running' AND "
				      "owner = ?1",
				      "ti", queue->owner, queue_now_ms() + rules->lease_ms);

	return changed < 0 ? changed : 0;
}

int queue_asked(struct queue *queue, long long id, struct error *err)
{
	sqlite3_stmt *stmt AUTO_STMT = database_query(
	    queue->db, err,
	    "SELECT stop FROM jobs WHERE id = ?1 AND state = 'running' AND owner = ?2", "it",
	    id, queue->owner);
	const char *stop;
	int result;

	if (!stmt)
		return err->kind;
	result = sqlite3_step(stmt);
	if (result == SQLITE_DONE)
		return QUEUE_LOST;
	if (result != SQLITE_ROW)
		return database_fail(queue->db, "read", err);
	stop = (const char *)sqlite3_column_text(stmt, 0);
	if (!stop)
		return QUEUE_GO_ON;
	return strcmp(stop, "cancelled") == 0 ? QUEUE_CANCEL : QUEUE_STOP;
}

/* ---- the end of a claim ---- */

static long long wait_of(const struct queue_rules *rules, long long attempts)
{
	long long wait = rules->wait_ms;

	while (attempts-- > 1 && wait < WAIT_MOST_MS)
		wait *= 2;
	return wait < WAIT_MOST_MS ? wait : WAIT_MOST_MS;
}

static const char *state_of(enum queue_end end)
{
	switch (end) {
	case QUEUE_DONE:
		return "done";
	case QUEUE_REFUSED:
		return "refused";
	case QUEUE_SKIPPED:
		return "skipped";
	case QUEUE_PARKED:
		return "parked";
	case QUEUE_AGAIN:
	case QUEUE_BACK:
		break;
	}
	return "queued";
}

/* job: its row. A job that was asked to stop and did not come to its end is what it was asked to be; one whose
 * successor waits already gives way to it, as nothing else may wait beside that. */
static int settle(struct queue *queue, const struct queue_rules *rules, const struct json *job,
		  enum queue_end end, const char *reason, struct error *err)
{
	long long id = js_int(job, "id", 0), attempts = js_int(job, "attempts", 0);
	long long now = queue_now_ms(), due = now;
	const char *state, *stop = js_str(job, "stop", NULL);
	char *why AUTO_FREE = mem_strdup(reason);
	int changed;

	if (end == QUEUE_AGAIN && attempts >= rules->attempts) {
		end = QUEUE_PARKED;
		free(why);
		why = mem_printf("failed %lld time%s, the last: %s", attempts,
				 attempts == 1 ? "" : "s", reason);
	}
	if (end == QUEUE_AGAIN)
		due += wait_of(rules, attempts);
	else if (end == QUEUE_BACK)
		due += BACK_MS;
	state = state_of(end);
	if (stop && end != QUEUE_DONE) {
		state = stop;
		free(why);
		why = mem_strdup(js_str(job, "reason", stop));
	}
	changed = database_change(
	    queue->db, err,
	    "UPDATE jobs SET state = ?2, reason = ?3, due = ?4, owner = NULL, lease = NULL, "
	    "attempts = attempts - ?5, stop = NULL, "
	    "ended = CASE WHEN ?2 = 'queued' THEN NULL ELSE ?6 END WHERE id = ?1",
	    "ittiii", id, state, why, due, end == QUEUE_BACK ? 1LL : 0LL, now);
	return changed < 0 ? changed : 0;
}

static int settle_own(struct queue *queue, const struct queue_rules *rules, long long id,
		      enum queue_end end, const char *reason, struct error *err)
{
	int asked = queue_asked(queue, id, err);
	struct json *jobs AUTO_JSON = NULL;

	if (asked < 0 || asked == QUEUE_LOST)
		return asked < 0 ? asked : 0;
	jobs = queue_list(queue, id, true, err);
	return jobs ? settle(queue, rules, js_at(jobs, 0), end, reason, err) : err->kind;
}

int queue_settle(struct queue *queue, const struct queue_rules *rules, long long id,
		 enum queue_end end, const char *reason, struct error *err)
{
	int result;

	if (database_begin(queue->db, err))
		return err->kind;
	result = database_end(queue->db, settle_own(queue, rules, id, end, reason, err), err);
	if (result == 0)
		queue_wake(queue);
	return result;
}

/* ---- jobs without a worker ---- */

static struct json *running_of_others(struct queue *queue, struct error *err)
{
	sqlite3_stmt *stmt AUTO_STMT = database_query(
	    queue->db, err,
	    "SELECT " COLUMNS ", owner, lease FROM jobs WHERE state = 'running' AND owner IS "
	    "NOT ?1",
	    "t", queue->owner);
	struct json *jobs AUTO_JSON = js_array_new();
	int result;

	if (!stmt)
		return NULL;
	while ((result = sqlite3_step(stmt)) == SQLITE_ROW)
		js_push(jobs, row_as_json(stmt));
	if (result == SQLITE_DONE)
		return MEM_STEAL(jobs);
	database_fail(queue->db, "read", err);
	return NULL;
}

static int take_over(struct queue *queue, const struct queue_rules *rules, struct error *err)
{
	struct json *jobs AUTO_JSON = running_of_others(queue, err);
	struct queue_rules at_once = *rules;
	int taken = 0;

	at_once.wait_ms = 0; /* the job is not to blame, unless it is the last attempt */
	for (size_t i = 0; jobs && i < js_len(jobs); i++) {
		const struct json *job = js_at(jobs, i);
		const char *reason = "its worker was killed";

		if (!worker_lock_is_free(queue->workers_fd, js_str(job, "owner", ""))) {
			if (js_int(job, "lease", 0) > queue_now_ms())
				continue;
			reason = "its worker does not answer";
		}
		if (settle(queue, &at_once, job, QUEUE_AGAIN, reason, err))
			return err->kind;
		taken++;
	}
	return jobs ? taken : err->kind;
}

int queue_take_over(struct queue *queue, const struct queue_rules *rules, struct error *err)
{
	struct json *jobs AUTO_JSON = running_of_others(queue, err);

	/* Mostly there are none: no writer is kept waiting for that. */
	if (!jobs || !js_len(jobs))
		return jobs ? 0 : err->kind;
	if (database_begin(queue->db, err))
		return err->kind;
	return database_end(queue->db, take_over(queue, rules, err), err);
}

long long queue_next_ms(struct queue *queue)
{
	struct error ignored = {0};
	sqlite3_stmt *stmt AUTO_STMT =
	    database_query(queue->db, &ignored,
			   "SELECT min(due) FROM jobs WHERE state = 'queued' AND due > ?1", "i",
			   queue_now_ms());
	long long left;

	if (!stmt || sqlite3_step(stmt) != SQLITE_ROW ||
	    sqlite3_column_type(stmt, 0) == SQLITE_NULL)
		return -1;
	left = sqlite3_column_int64(stmt, 0) - queue_now_ms();
	return left > 0 ? left : 0;
}
