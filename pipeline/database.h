/*
 * The database of a state directory: agent.db, SQLite in WAL mode, its schema versioned (PRAGMA user_version)
 * and brought up to date at opening. Four files know its tables: ledger.c (calls, receipts), queue.c (jobs), queue_tips.c (what
 * branches ask, repositories) and maintain/record.c (maintenance); these five are the only owners of sqlite3.h. It lies on a local
 * disk: WAL does not work over a network.
 */
#ifndef PIPELINE_DATABASE_H
#define PIPELINE_DATABASE_H

#include <stddef.h>

struct error;
struct sqlite3;
struct sqlite3_stmt;

/* Opens, makes or migrates it. Waits up to 10 s for other writers, here and in every statement. NULL with err;
 * sqlite3_close closes. */
struct sqlite3 *database_open(const char *state_dir, struct error *err);

/* ERROR_FAILED with what SQLite says, or ERROR_LATER when others hold it; what: "read", "write". */
int database_fail(struct sqlite3 *db, const char *what, struct error *err);

/* Statements without results. 0 or what database_fail says. */
int database_exec(struct sqlite3 *db, const char *sql, struct error *err);

/* BEGIN IMMEDIATE: nobody else writes until the end. */
int database_begin(struct sqlite3 *db, struct error *err);
/* COMMIT when result is not negative and ROLLBACK otherwise; result, or ERROR_FAILED. */
int database_end(struct sqlite3 *db, int result, struct error *err);

/*
 * A statement with its values ?1, ?2 … bound: a letter of types each, 't' text (NULL: null), 'i' long long,
 * 'b' bytes and their length (const void *, size_t). The values are borrowed until it is finalized
 * (AUTO_STMT). NULL with err.
 */
struct sqlite3_stmt *database_query(struct sqlite3 *db, struct error *err, const char *sql,
				    const char *types, ...);
void database_finalize_ptr(struct sqlite3_stmt **stmt);
#define AUTO_STMT __attribute__((cleanup(database_finalize_ptr)))

/* Runs a statement without rows; as database_query. The number of rows that it changed, or ERROR_FAILED. */
int database_change(struct sqlite3 *db, struct error *err, const char *sql, const char *types,
		    ...);

#endif
