#include "database.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdlib.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"

#define BUSY_MS 10000

/* What leads from each version to the next: the whole history, so that any database comes up to date. Never
 * changed once released. */
static const char *const migrations[] = {
    "CREATE TABLE calls(id INTEGER PRIMARY KEY, run TEXT NOT NULL, day TEXT NOT NULL DEFAULT "
    "(date('now')), reserved INTEGER NOT NULL, input INTEGER NOT NULL DEFAULT 0,"
    " output INTEGER NOT NULL DEFAULT 0);"
    "CREATE INDEX calls_run ON calls(run); CREATE INDEX calls_day ON calls(day);"
    "CREATE TABLE receipts(url TEXT NOT NULL, ref TEXT NOT NULL, oid TEXT NOT NULL, "
    "issue TEXT NOT NULL, run TEXT NOT NULL, at TEXT NOT NULL DEFAULT (datetime('now')), "
    "PRIMARY KEY(url, ref, oid));"
    "PRAGMA user_version = 1;",

    /* Times are milliseconds since 1970. The two unique indices are the promise that a repository's issue
     * waits once and runs once. What is long comes last: the rest of a row is read without it. */
    "CREATE TABLE jobs(id INTEGER PRIMARY KEY AUTOINCREMENT, state TEXT NOT NULL, "
    "repository TEXT NOT NULL, identity TEXT NOT NULL, title TEXT NOT NULL, "
    "digest TEXT NOT NULL, origin TEXT NOT NULL, priority INTEGER NOT NULL, "
    "attempts INTEGER NOT NULL DEFAULT 0, due INTEGER NOT NULL, added INTEGER NOT NULL, "
    "started INTEGER, ended INTEGER, owner TEXT, lease INTEGER, stop TEXT, run TEXT, "
    "reason TEXT, request TEXT NOT NULL, issue BLOB NOT NULL);"
    "CREATE UNIQUE INDEX jobs_waits ON jobs(repository, identity) WHERE state = 'queued';"
    "CREATE UNIQUE INDEX jobs_runs ON jobs(repository, identity) WHERE state = 'running';"
    "CREATE INDEX jobs_next ON jobs(priority DESC, id, due, repository, identity) "
    "WHERE state = 'queued';"
    "CREATE INDEX jobs_due ON jobs(due) WHERE state = 'queued';"
    "CREATE INDEX jobs_parked ON jobs(repository, identity) WHERE state = 'parked';"
    "CREATE INDEX jobs_run ON jobs(run);"
    "PRAGMA user_version = 2;",

    /* tip: the commit of a task branch that a job is for; '' when the branch is gone. The index answers what is known
     * of each branch without a look at the rows. repositories: those whose task branches are compared with it. */
    "ALTER TABLE jobs ADD COLUMN tip TEXT;"
    "CREATE INDEX jobs_tips ON jobs(repository, identity, id, tip, state) WHERE tip IS NOT "
    "NULL;"
    "CREATE TABLE repositories(path TEXT PRIMARY KEY) WITHOUT ROWID;"
    "PRAGMA user_version = 3;",

    /* Times are seconds since 1970. The columns' meaning: pipeline/maintain/record.h. */
    "CREATE TABLE maintenance(repository TEXT NOT NULL, task TEXT NOT NULL, "
    "seen INTEGER NOT NULL, handled INTEGER NOT NULL, run TEXT, outcome TEXT, inputs TEXT, "
    "attempts INTEGER NOT NULL DEFAULT 0, reason TEXT, reason_at INTEGER, state TEXT, "
    "commit_id TEXT, ref TEXT, url TEXT, pull INTEGER, proposed TEXT, "
    "PRIMARY KEY(repository, task));"
    "CREATE TABLE maintenance_runs(run TEXT PRIMARY KEY, repository TEXT NOT NULL, "
    "task TEXT NOT NULL, started INTEGER NOT NULL);"
    "CREATE INDEX maintenance_runs_started ON maintenance_runs(repository, started);"
    "PRAGMA user_version = 4;",

    "CREATE TABLE maintenance_refusals(repository TEXT PRIMARY KEY, said TEXT NOT NULL) "
    "WITHOUT ROWID;"
    "PRAGMA user_version = 5;",
};

int database_fail(struct sqlite3 *db, const char *what, struct error *err)
{
	int code = sqlite3_errcode(db), system = sqlite3_system_errno(db);

	/* SQLite calls the want of room for its shared memory an I/O error. */
	if (code == SQLITE_FULL ||
	    (code == SQLITE_IOERR && (system == ENOSPC || system == EDQUOT))) {
		error_set(err, ERROR_FAILED, "database agent.db: %s: the disk is full", what);
		return error_next(err, "make room on the disk of the state directory");
	}
	if (code == SQLITE_BUSY || code == SQLITE_LOCKED) {
		error_set(err, ERROR_LATER,
			  "database agent.db: %s: another process has held it for %d s", what,
			  BUSY_MS / 1000);
		return error_next(err,
				  "try again; fuser agent.db in the state directory tells who");
	}
	error_set(err, ERROR_FAILED, "database agent.db: %s: %s", what, sqlite3_errmsg(db));
	if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
		return error_next(err,
				  "stop agent work and put a copy back, or move agent.db and "
				  "agent.db-wal away and let "
				  "agent queue reconcile --repo REPO find task branches again");
	return error_next(err, "check free space and permissions of the state directory");
}

int database_exec(struct sqlite3 *db, const char *sql, struct error *err)
{
	if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
		return database_fail(db, "write", err);
	return 0;
}

int database_begin(struct sqlite3 *db, struct error *err)
{
	return database_exec(db, "BEGIN IMMEDIATE", err);
}

int database_end(struct sqlite3 *db, int result, struct error *err)
{
	if (result >= 0 && database_exec(db, "COMMIT", err) == 0)
		return result;
	sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
	return result < 0 ? result : ERROR_FAILED;
}

void database_finalize_ptr(struct sqlite3_stmt **stmt)
{
	sqlite3_finalize(*stmt);
}

static int bind_values(struct sqlite3_stmt *stmt, const char *types, va_list args)
{
	int result = SQLITE_OK;

	for (int i = 1; types[i - 1] && result == SQLITE_OK; i++) {
		const void *data;

		switch (types[i - 1]) {
		case 't':
			result = sqlite3_bind_text(stmt, i, va_arg(args, const char *), -1,
						   SQLITE_STATIC);
			break;
		case 'i':
			result = sqlite3_bind_int64(stmt, i, va_arg(args, long long));
			break;
		case 'b':
			data = va_arg(args, const void *);
			result = sqlite3_bind_blob64(stmt, i, data, va_arg(args, size_t),
						     SQLITE_STATIC);
			break;
		default:
			abort(); /* a letter in our own code that nobody knows */
		}
	}
	return result;
}

static struct sqlite3_stmt *query(struct sqlite3 *db, struct error *err, const char *sql,
				  const char *types, va_list args)
{
	sqlite3_stmt *stmt AUTO_STMT = NULL;

	if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK ||
	    bind_values(stmt, types, args) != SQLITE_OK) {
		database_fail(db, "read", err);
		return NULL;
	}
	return MEM_STEAL(stmt);
}

struct sqlite3_stmt *database_query(struct sqlite3 *db, struct error *err, const char *sql,
				    const char *types, ...)
{
	sqlite3_stmt *stmt;
	va_list args;

	va_start(args, types);
	stmt = query(db, err, sql, types, args);
	va_end(args);
	return stmt;
}

int database_change(struct sqlite3 *db, struct error *err, const char *sql, const char *types,
		    ...)
{
	sqlite3_stmt *stmt AUTO_STMT = NULL;
	va_list args;

	va_start(args, types);
	stmt = query(db, err, sql, types, args);
	va_end(args);
	if (!stmt)
		return err ? err->kind : ERROR_FAILED;
	if (sqlite3_step(stmt) != SQLITE_DONE)
		return database_fail(db, "write", err);
	return sqlite3_changes(db);
}

static long long version_of(sqlite3 *db)
{
	sqlite3_stmt *stmt AUTO_STMT = NULL;

	if (sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &stmt, NULL) != SQLITE_OK ||
	    sqlite3_step(stmt) != SQLITE_ROW)
		return -1;
	return sqlite3_column_int64(stmt, 0);
}

static int migrate(sqlite3 *db, struct error *err)
{
	const long long newest = ARRAY_LEN(migrations);
	long long version;
	int result = 0;

	if (database_exec(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;", err))
		return err->kind;
	version = version_of(db);
	if (version == newest)
		return 0;
	if (version < 0)
		return database_fail(db, "read", err);
	if (version > newest) {
		error_set(err, ERROR_FAILED,
			  "database agent.db was made by a newer version of agent (schema "
			  "%lld, this one knows %lld)",
			  version, newest);
		return error_next(err, "use that version, or another AGENT_STATE_DIR");
	}
	if (database_begin(db, err))
		return err->kind;
	/* Another process may have done it while we waited for the lock: asked again. */
	for (version = version_of(db); result == 0 && version >= 0 && version < newest;
	     version++)
		result = database_exec(db, migrations[version], err);
	return database_end(db, result, err);
}

struct sqlite3 *database_open(const char *state_dir, struct error *err)
{
	char *path AUTO_FREE = mem_printf("%s/agent.db", state_dir);
	/* Issues and options are in it; SQLite itself would make it readable by all. One that is there is not
	 * opened here: to close it would take the locks of this process's other connections along. */
	int made AUTO_FD = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	sqlite3 *db = NULL;

	fd_close_ptr(&made);
	made = -1;
	if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) !=
	    SQLITE_OK) {
		database_fail(db, "open", err);
	} else {
		sqlite3_busy_timeout(db, BUSY_MS);
		if (migrate(db, err) == 0)
			return db;
	}
	sqlite3_close(db);
	return NULL;
}
