#include "ledger.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/database.h"

struct ledger {
	sqlite3 *db;
};

static int fail(struct ledger *ledger, struct error *err, const char *what)
{
	return database_fail(ledger->db, what, err);
}

struct ledger *ledger_open(const char *state_dir, struct error *err)
{
	struct ledger *ledger AUTO_LEDGER = mem_calloc(1, sizeof(*ledger));

	ledger->db = database_open(state_dir, err);
	return ledger->db ? MEM_STEAL(ledger) : NULL;
}

void ledger_close(struct ledger *ledger)
{
	if (!ledger)
		return;
	sqlite3_close(ledger->db);
	free(ledger);
}

void ledger_close_ptr(struct ledger **ledger)
{
	ledger_close(*ledger);
}

/* Sum over calls where the column equals the value (value NULL: today). */
static int sum(struct ledger *ledger, const char *sql, const char *value, long long out[3],
	       struct error *err)
{
	sqlite3_stmt *stmt AUTO_STMT = NULL;

	if (sqlite3_prepare_v2(ledger->db, sql, -1, &stmt, NULL) != SQLITE_OK ||
	    (value && sqlite3_bind_text(stmt, 1, value, -1, SQLITE_STATIC) != SQLITE_OK) ||
	    sqlite3_step(stmt) != SQLITE_ROW)
		return fail(ledger, err, "read");
	for (int i = 0; i < 3; i++)
		out[i] = sqlite3_column_int64(stmt, i);
	return 0;
}

#define SUMS                                                                                   \
	"SELECT coalesce(sum(input),0), coalesce(sum(output),0), coalesce(sum(reserved),0) "   \
	"FROM calls WHERE "

static int reserve(struct ledger *ledger, const char *run, long long tokens, long long run_cap,
		   long long day_cap, long long *reservation, struct error *err)
{
	sqlite3_stmt *stmt AUTO_STMT = NULL;
	long long of_run[3], of_day[3], run_sum, day_sum;

	if (sum(ledger, SUMS "run = ?1", run, of_run, err) ||
	    sum(ledger, SUMS "day = date('now')", NULL, of_day, err))
		return err->kind;
	run_sum = of_run[0] + of_run[1] + of_run[2];
	day_sum = of_day[0] + of_day[1] + of_day[2];
	if (tokens > run_cap - run_sum) {
		error_set(
		    err, ERROR_FAILED,
		    "the run has used or set aside %lld of the %lld tokens of budget.runTokens",
		    run_sum, run_cap);
		return error_next(err, "raise budget.runTokens and resume the run");
	}
	if (tokens > day_cap - day_sum) {
		error_set(err, ERROR_FAILED,
			  "today's runs have used or set aside %lld of the %lld tokens of "
			  "budget.dayTokens",
			  day_sum, day_cap);
		return error_next(err,
				  "raise budget.dayTokens, or resume the run tomorrow (UTC)");
	}
	if (sqlite3_prepare_v2(ledger->db, "INSERT INTO calls(run, reserved) VALUES(?1, ?2)",
			       -1, &stmt, NULL) != SQLITE_OK ||
	    sqlite3_bind_text(stmt, 1, run, -1, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_bind_int64(stmt, 2, tokens) != SQLITE_OK ||
	    sqlite3_step(stmt) != SQLITE_DONE)
		return fail(ledger, err, "write");
	*reservation = sqlite3_last_insert_rowid(ledger->db);
	return 0;
}

int ledger_reserve(struct ledger *ledger, const char *run, long long tokens, long long run_cap,
		   long long day_cap, long long *reservation, struct error *err)
{
	if (database_begin(ledger->db, err))
		return err->kind;
	return database_end(
	    ledger->db, reserve(ledger, run, tokens, run_cap, day_cap, reservation, err), err);
}

int ledger_settle(struct ledger *ledger, long long reservation, long long input,
		  long long output, struct error *err)
{
	sqlite3_stmt *stmt AUTO_STMT = NULL;

	if (sqlite3_prepare_v2(
		ledger->db,
		"UPDATE calls SET reserved = 0, input = ?2, output = ?3 WHERE id = ?1", -1,
		&stmt, NULL) != SQLITE_OK ||
	    sqlite3_bind_int64(stmt, 1, reservation) != SQLITE_OK ||
	    sqlite3_bind_int64(stmt, 2, input) != SQLITE_OK ||
	    sqlite3_bind_int64(stmt, 3, output) != SQLITE_OK ||
	    sqlite3_step(stmt) != SQLITE_DONE)
		return fail(ledger, err, "write");
	return 0;
}

int ledger_usage(struct ledger *ledger, const char *run, long long *input, long long *output,
		 long long *reserved, struct error *err)
{
	long long sums[3];

	if (sum(ledger, SUMS "run = ?1", run, sums, err))
		return err->kind;
	*input = sums[0];
	*output = sums[1];
	*reserved = sums[2];
	return 0;
}

int ledger_add_receipt(struct ledger *ledger, const char *run, const char *issue,
		       const char *url, const char *ref, const char *oid, struct error *err)
{
	sqlite3_stmt *stmt AUTO_STMT = NULL;
	const char *const values[] = {run, issue, url, ref, oid};

	if (sqlite3_prepare_v2(ledger->db,
			       "INSERT OR IGNORE INTO receipts(run, issue, url, ref, oid) "
			       "VALUES(?1,?2,?3,?4,?5)",
			       -1, &stmt, NULL) != SQLITE_OK)
		return fail(ledger, err, "write");
	for (int i = 0; i < 5; i++)
		if (sqlite3_bind_text(stmt, i + 1, values[i], -1, SQLITE_STATIC) != SQLITE_OK)
			return fail(ledger, err, "write");
	return sqlite3_step(stmt) == SQLITE_DONE ? 0 : fail(ledger, err, "write");
}

struct json *ledger_receipts(struct ledger *ledger, const char *issue, const char *url,
			     const char *ref, struct error *err)
{
	sqlite3_stmt *stmt AUTO_STMT = NULL;
	struct json *oids AUTO_JSON = js_array_new();
	int result;

	if (sqlite3_prepare_v2(ledger->db,
			       "SELECT oid FROM receipts WHERE url = ?1 AND ref = ?2 AND "
			       "issue = ?3",
			       -1, &stmt, NULL) != SQLITE_OK ||
	    sqlite3_bind_text(stmt, 1, url, -1, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_bind_text(stmt, 2, ref, -1, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_bind_text(stmt, 3, issue, -1, SQLITE_STATIC) != SQLITE_OK) {
		fail(ledger, err, "read");
		return NULL;
	}
	while ((result = sqlite3_step(stmt)) == SQLITE_ROW)
		js_push_str(oids, (const char *)sqlite3_column_text(stmt, 0));
	if (result != SQLITE_DONE) {
		fail(ledger, err, "read");
		return NULL;
	}
	return MEM_STEAL(oids);
}
