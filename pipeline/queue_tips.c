/* What task branches are known to ask: queue.h, "task branches". */
#include "queue.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/database.h"
#include "pipeline/queue_internal.h"

struct json *queue_tips(struct queue *queue, const char *repository, const char *identity,
			struct error *err)
{
	/* SQLite takes the other columns from the row that has the maximum. Two statements: with one for both, the index would
	 * be read from end to end for one branch. */
	const char *sql =
	    identity ? "SELECT identity, max(id), tip, state FROM jobs WHERE tip IS NOT NULL "
		       "AND repository = ?1 AND identity = ?2 GROUP BY identity"
		     : "SELECT identity, max(id), tip, state FROM jobs WHERE tip IS NOT NULL "
		       "AND repository = ?1 AND ?2 IS NULL GROUP BY identity";
	sqlite3_stmt *stmt AUTO_STMT =
	    database_query(queue->db, err, sql, "tt", repository, identity);
	struct json *tips AUTO_JSON = js_object_new();
	int result;

	if (!stmt)
		return NULL;
	while ((result = sqlite3_step(stmt)) == SQLITE_ROW) {
		struct json *tip = js_object_new();

		js_set_int(tip, "id", sqlite3_column_int64(stmt, 1));
		js_set_str(tip, "tip", (const char *)sqlite3_column_text(stmt, 2));
		js_set_str(tip, "state", (const char *)sqlite3_column_text(stmt, 3));
		js_set(tips, (const char *)sqlite3_column_text(stmt, 0), tip);
	}
	if (result == SQLITE_DONE)
		return MEM_STEAL(tips);
	database_fail(queue->db, "read", err);
	return NULL;
}

static int changed_meanwhile(const char *identity, struct error *err)
{
	return error_set(err, ERROR_LATER, "%s has changed meanwhile", identity);
}

int queue_check_tip(struct queue *queue, const struct queue_new *job, long long *id,
		    struct error *err)
{
	struct json *tips AUTO_JSON = queue_tips(queue, job->repository, job->identity, err);
	const struct json *last = js_get(tips, job->identity);

	if (!tips)
		return err->kind;
	if (strcmp(js_str(last, "tip", ""), job->tip) == 0) {
		*id = js_int(last, "id", 0);
		return error_set(err, ERROR_SKIPPED, "job %lld is for this commit, and %s", *id,
				 js_str(last, "state", ""));
	}
	return js_int(last, "id", 0) == job->after ? 0 : changed_meanwhile(job->identity, err);
}

static int forget(struct queue *queue, const char *repository, const char *identity,
		  long long after, long long *id, struct error *err)
{
	static const char why[] = "its branch was deleted";
	struct json *tips AUTO_JSON = queue_tips(queue, repository, identity, err);
	sqlite3_stmt *stmt AUTO_STMT = NULL;
	int result;

	if (!tips)
		return err->kind;
	if (js_int(js_get(tips, identity), "id", 0) != after)
		return changed_meanwhile(identity, err);
	stmt = database_query(queue->db, err,
			      "SELECT id FROM jobs WHERE tip IS NOT NULL AND "
			      "repository = ?1 AND identity = ?2 AND state IN ('queued', "
			      "'running', 'parked') ORDER BY id DESC",
			      "tt", repository, identity);
	if (!stmt)
		return err->kind;
	result = sqlite3_step(stmt);
	if (result != SQLITE_ROW && result != SQLITE_DONE)
		return database_fail(queue->db, "read", err);
	*id = result == SQLITE_ROW ? sqlite3_column_int64(stmt, 0) : 0;
	if (database_change(
		queue->db, err,
		"UPDATE jobs SET state = 'cancelled', ended = ?3, reason = ?4 WHERE tip IS NOT "
		"NULL AND repository = ?1 AND identity = ?2 AND state IN ('queued', 'parked')",
		"ttit", repository, identity, queue_now_ms(), why) < 0 ||
	    database_change(queue->db, err,
			    "UPDATE jobs SET stop = 'cancelled', reason = ?3 WHERE "
			    "repository = ?1 AND identity = ?2 AND state = 'running'",
			    "ttt", repository, identity, why) < 0 ||
	    database_change(queue->db, err, "UPDATE jobs SET tip = '' WHERE id = ?1", "i",
			    after) < 0)
		return err->kind;
	return 0;
}

int queue_forget(struct queue *queue, const char *repository, const char *identity,
		 long long after, long long *id, struct error *err)
{
	int result;

	*id = 0;
	if (database_begin(queue->db, err))
		return err->kind;
	result =
	    database_end(queue->db, forget(queue, repository, identity, after, id, err), err);
	if (result == 0)
		queue_wake(queue);
	return result;
}

/* ---- repositories ---- */

int queue_watch(struct queue *queue, const char *repository, bool watch, struct error *err)
{
	int changed =
	    database_change(queue->db, err,
			    watch ? "INSERT OR IGNORE INTO repositories(path) VALUES(?1)"
				  : "DELETE FROM repositories WHERE path = ?1",
			    "t", repository);

	return changed < 0 ? changed : 0;
}

struct json *queue_watched(struct queue *queue, struct error *err)
{
	sqlite3_stmt *stmt AUTO_STMT =
	    database_query(queue->db, err, "SELECT path FROM repositories ORDER BY path", "");
	struct json *paths AUTO_JSON = js_array_new();
	int result;

	if (!stmt)
		return NULL;
	while ((result = sqlite3_step(stmt)) == SQLITE_ROW)
		js_push_str(paths, (const char *)sqlite3_column_text(stmt, 0));
	if (result == SQLITE_DONE)
		return MEM_STEAL(paths);
	database_fail(queue->db, "read", err);
	return NULL;
}
