/*
 * The ledger: tokens reserved and used (budgets a run and a day), and receipts of what was
 * pushed (which branches are ours). Two tables of the database (pipeline/database.h).
 */
#ifndef PIPELINE_LEDGER_H
#define PIPELINE_LEDGER_H

struct error;
struct json;
struct ledger;

struct ledger *ledger_open(const char *state_dir, struct error *err); /* NULL with err */
void ledger_close(struct ledger *ledger);
void ledger_close_ptr(struct ledger **ledger);
#define AUTO_LEDGER __attribute__((cleanup(ledger_close_ptr)))

/*
 * Sets tokens aside for one call of the run, atomically against all other runs. ERROR_FAILED
 * when used plus reserved plus tokens would pass the run's or the day's cap (UTC days): nothing
 * is reserved then, err says which cap. *reservation identifies it. A reservation that is never
 * settled (the process was killed during a call) stays counted in full: the provider may have
 * charged it.
 */
int ledger_reserve(struct ledger *ledger, const char *run, long long tokens, long long run_cap,
		   long long day_cap, long long *reservation, struct error *err);

/* Replaces a reservation by what the provider's usage says. 0 or an error kind. */
int ledger_settle(struct ledger *ledger, long long reservation, long long input,
		  long long output, struct error *err);

/* Tokens of a run: settled input and output, and what is still reserved. 0 or an error kind. */
int ledger_usage(struct ledger *ledger, const char *run, long long *input, long long *output,
		 long long *reserved, struct error *err);

/* Remembers that we made commit oid of an issue for ref at url (before it is pushed). */
int ledger_add_receipt(struct ledger *ledger, const char *run, const char *issue,
		       const char *url, const char *ref, const char *oid, struct error *err);
/* Array of the oids that we made of that issue for that ref at that url: a branch that another issue
 * made is not this one's to replace. New; NULL with err. */
struct json *ledger_receipts(struct ledger *ledger, const char *issue, const char *url,
			     const char *ref, struct error *err);

#endif
