#include "record.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/database.h"

#define SAID_MAX ((size_t)1 << 20) /* bytes of one row of refusals */

struct record {
	sqlite3 *db;
};

struct record *record_open(const char *state_dir, struct error *err)
{
	struct record *record AUTO_RECORD = mem_calloc(1, sizeof(*record));

	record->db = database_open(state_dir, err);
	return record->db ? MEM_STEAL(record) : NULL;
}

void record_close(struct record *record)
{
	if (!record)
		return;
	sqlite3_close(record->db);
	free(record);
}

void record_close_ptr(struct record **record)
{
	record_close(*record);
}

struct json *record_get(struct record *record, const struct record_key *key, struct error *err)
{
	sqlite3_stmt *stmt AUTO_STMT =
	    database_query(record->db, err,
			   "SELECT seen, handled, run, outcome, inputs, attempts, reason, "
			   "reason_at, state, commit_id, ref, url, pull, proposed FROM "
			   "maintenance WHERE repository = ?1 AND task = ?2",
			   "tt", key->repository, key->task);
	struct json *row AUTO_JSON = js_object_new();
	int result;

	if (!stmt)
		return NULL;
	result = sqlite3_step(stmt);
	if (result != SQLITE_ROW && result != SQLITE_DONE) {
		database_fail(record->db, "read", err);
		return NULL;
	}
	for (int i = 0; result == SQLITE_ROW && i < sqlite3_column_count(stmt); i++) {
		const char *name = sqlite3_column_name(stmt, i);

		if (sqlite3_column_type(stmt, i) == SQLITE_INTEGER)
			js_set_int(row, name, sqlite3_column_int64(stmt, i));
		else if (sqlite3_column_type(stmt, i) == SQLITE_TEXT)
			js_set_str(row, name, (const char *)sqlite3_column_text(stmt, i));
	}
	return MEM_STEAL(row);
}

/* A change of one row. */
static int changed(int count, struct error *err)
{
	if (count < 0)
		return count;
	return count == 1
		   ? 0
		   : error_set(err, ERROR_FAILED, "database agent.db: the task's row is gone");
}

struct json *record_open_tasks(struct record *record, const char *repository, struct error *err)
{
	sqlite3_stmt *stmt AUTO_STMT = database_query(
	    record->db, err,
	    "SELECT task FROM maintenance WHERE repository = ?1 AND state = 'open'", "t",
	    repository);
	struct json *names AUTO_JSON = js_array_new();
	int result = SQLITE_DONE;

	while (stmt && (result = sqlite3_step(stmt)) == SQLITE_ROW)
		js_push_str(names, (const char *)sqlite3_column_text(stmt, 0));
	if (stmt && result == SQLITE_DONE)
		return MEM_STEAL(names);
	if (stmt)
		database_fail(record->db, "read", err);
	return NULL;
}

int record_see(struct record *record, const struct record_key *key, long long now,
	       struct error *err)
{
	int count = database_change(record->db, err,
				    "INSERT OR IGNORE INTO maintenance(repository, task, seen, "
				    "handled) VALUES(?1, ?2, ?3, ?3)",
				    "tti", key->repository, key->task, now);

	return count < 0 ? count : 0;
}

int record_skip(struct record *record, const struct record_key *key, long long now,
		const char *reason, bool handled, struct error *err)
{
	return changed(
	    database_change(record->db, err,
			    "UPDATE maintenance SET reason = ?3, reason_at = ?4, handled = "
			    "CASE WHEN ?5 THEN ?4 ELSE handled END "
			    "WHERE repository = ?1 AND task = ?2",
			    "tttii", key->repository, key->task, reason, now,
			    (long long)handled),
	    err);
}

/* ---- limits ---- */

/* One number; negative: an error kind. */
static long long count(struct record *record, struct error *err, const char *sql,
		       const char *repository, const char *task, long long since)
{
	sqlite3_stmt *stmt AUTO_STMT =
	    database_query(record->db, err, sql, "tti", repository, task, since);

	if (!stmt)
		return err->kind;
	if (sqlite3_step(stmt) != SQLITE_ROW)
		return database_fail(record->db, "read", err);
	return sqlite3_column_int64(stmt, 0);
}

#define OPEN_SQL                                                                               \
	"SELECT count(*) FROM maintenance WHERE repository = ?1 AND task <> ?2 AND "           \
	"(state = 'open' OR (outcome = 'running' AND reason_at > ?3))"
#define SINCE_SQL                                                                              \
	"SELECT count(*) FROM maintenance_runs WHERE repository = ?1 AND ?2 <> '' AND "        \
	"started > ?3"
#define TOKENS_SQL                                                                             \
	"SELECT coalesce(sum(c.input + c.output + c.reserved), 0) FROM calls c JOIN "          \
	"maintenance_runs m ON m.run = c.run WHERE c.day = date('now') AND ?1 <> '' AND ?2 "   \
	"<> '' "                                                                               \
	"AND ?3 = 0"

static int check_limits(struct record *record, const struct record_key *key, long long now,
			const struct record_limits *limits, char **reason, struct error *err)
{
	const struct {
		const char *sql, *what, *config;
		long long since, most;
	} checks[] = {
	    {OPEN_SQL, "proposals of this repository are open", "maintain.maxOpen", now - 86400,
	     limits->open},
	    {SINCE_SQL, "runs were begun within an hour", "maintain.perHour", now - 3600,
	     limits->hour},
	    {SINCE_SQL, "runs were begun within a day", "maintain.perDay", now - 86400,
	     limits->day},
	    {TOKENS_SQL, "tokens were used today", "maintain.dayTokens", 0, limits->day_tokens},
	};

	for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
		long long found;

		if (limits->free && checks[i].sql == checks[3].sql)
			continue;
		found = count(record, err, checks[i].sql, key->repository, key->task,
			      checks[i].since);
		if (found < 0)
			return (int)found;
		if (found < checks[i].most)
			continue;
		*reason = mem_printf("%lld %s (%s = %lld)", found, checks[i].what,
				     checks[i].config, checks[i].most);
		return 0;
	}
	return 1;
}

/* ---- runs ---- */

static int begin(struct record *record, const struct record_key *key, const char *run,
		 const char *inputs, long long now, const struct record_limits *limits,
		 char **reason, struct error *err)
{
	struct json *row AUTO_JSON = record_get(record, key, err);
	bool again = strcmp(js_str(row, "run", ""), run) == 0;
	int result = row ? 1 : err->kind;

	if (result == 1 && !again)
		result = check_limits(record, key, now, limits, reason, err);
	if (result != 1)
		return result;
	if (!again &&
	    database_change(record->db, err,
			    "INSERT INTO maintenance_runs(run, repository, task, started) "
			    "VALUES(?1, ?2, ?3, ?4)",
			    "ttti", run, key->repository, key->task, now) < 0)
		return err->kind;
	if (changed(database_change(
			record->db, err,
			"UPDATE maintenance SET run = ?3, outcome = 'running', inputs = ?4, "
			"attempts = CASE WHEN ?5 THEN attempts + 1 ELSE 1 END, reason = NULL, "
			"reason_at = ?6, handled = CASE WHEN ?5 THEN handled ELSE ?6 END "
			"WHERE repository = ?1 AND task = ?2",
			"ttttii", key->repository, key->task, run, inputs, (long long)again,
			now),
		    err))
		return err->kind;
	return 1;
}

int record_begin(struct record *record, const struct record_key *key, const char *run,
		 const char *inputs, long long now, const struct record_limits *limits,
		 char **reason, struct error *err)
{
	*reason = NULL;
	if (database_begin(record->db, err))
		return err->kind;
	return database_end(record->db,
			    begin(record, key, run, inputs, now, limits, reason, err), err);
}

int record_end(struct record *record, const struct record_key *key, const char *outcome,
	       const char *reason, long long now, bool handled, struct error *err)
{
	return changed(
	    database_change(record->db, err,
			    "UPDATE maintenance SET outcome = ?3, reason = ?4, reason_at = ?5, "
			    "handled = CASE WHEN ?6 THEN ?5 ELSE handled END "
			    "WHERE repository = ?1 AND task = ?2",
			    "ttttii", key->repository, key->task, outcome, reason, now,
			    (long long)handled),
	    err);
}

int record_propose(struct record *record, const struct record_key *key,
		   const struct record_proposal *proposal, struct error *err)
{
	return changed(
	    database_change(
		record->db, err,
		"UPDATE maintenance SET state = 'open', commit_id = ?3, ref = ?4, url = ?5, "
		"pull = ?6, proposed = ?7 WHERE repository = ?1 AND task = ?2",
		"tttttit", key->repository, key->task, proposal->commit, proposal->ref,
		proposal->url, proposal->pull, proposal->inputs),
	    err);
}

int record_resolve(struct record *record, const struct record_key *key, const char *state,
		   struct error *err)
{
	return changed(database_change(record->db, err,
				       "UPDATE maintenance SET state = ?3 WHERE repository = "
				       "?1 AND task = ?2",
				       "ttt", key->repository, key->task, state),
		       err);
}

/* ---- refusals ---- */

struct json *record_refusals(struct record *record, const char *repository, struct error *err)
{
	sqlite3_stmt *stmt AUTO_STMT = database_query(
	    record->db, err, "SELECT said FROM maintenance_refusals WHERE repository = ?1", "t",
	    repository);
	int result = stmt ? sqlite3_step(stmt) : SQLITE_ERROR;

	if (result == SQLITE_DONE)
		return js_object_new();
	if (result == SQLITE_ROW)
		return js_parse((const char *)sqlite3_column_text(stmt, 0),
				(size_t)sqlite3_column_bytes(stmt, 0), SAID_MAX,
				"database agent.db: refusals", err);
	if (stmt)
		database_fail(record->db, "read", err);
	return NULL;
}

int record_set_refusals(struct record *record, const char *repository, const struct json *said,
			struct error *err)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	int count;

	strbuf_init(&text, STRBUF_MAX);
	js_format(said, &text);
	count = database_change(record->db, err,
				js_len(said) ? "INSERT OR REPLACE INTO "
					       "maintenance_refusals(repository, said) "
					       "VALUES(?1, ?2)"
					     : "DELETE FROM maintenance_refusals WHERE "
					       "repository = ?1 AND ?2 <> ''",
				"tt", repository, text.data);
	return count < 0 ? count : 0;
}
