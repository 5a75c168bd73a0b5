#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/ledger.h"
#include "pipeline/queue.h"

static char dir[] = "/tmp/test-queue-XXXXXX";
static const struct queue_rules rules = {
    .jobs = 4, .per_repository = 2, .attempts = 2, .wait_ms = 60000, .lease_ms = 60000};

static int make_dir(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/test-queue-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	(void)state;
	return fd_remove_tree(AT_FDCWD, dir);
}

static struct queue *worker(void)
{
	struct error err = {0};
	struct queue *queue = queue_open(dir, &err);

	assert_non_null(queue);
	assert_int_equal(queue_work(queue, &err), 0);
	return queue;
}

/* The new job's id, or the kind of error. */
static long long put(struct queue *queue, const char *repository, const char *issue,
		     const char *digest, long long priority)
{
	struct queue_new job = {.repository = repository,
				.identity = issue,
				.title = "Title",
				.digest = digest,
				.origin = "person",
				.request = "{}",
				.issue = "te\nxt",
				.issue_len = 5,
				.priority = priority};
	struct error err = {0};
	long long id = 0;
	int result = queue_add(queue, &job, &id, &err);

	return result ? result : id;
}

/* The id of the next job, 0 when there is none. */
static long long take(struct queue *queue)
{
	struct queue_job job;
	struct error err = {0};
	long long id;

	assert_in_range(queue_claim(queue, &rules, &job, &err), 0, 1);
	id = job.id;
	queue_job_release(&job);
	return id;
}

static void assert_state(struct queue *queue, long long id, const char *state)
{
	struct error err = {0};
	struct json *jobs AUTO_JSON = queue_list(queue, id, true, &err);

	assert_non_null(jobs);
	assert_string_equal(js_str(js_at(jobs, 0), "state", ""), state);
}

static long long number(struct queue *queue, long long id, const char *key)
{
	struct error err = {0};
	struct json *jobs AUTO_JSON = queue_list(queue, id, true, &err);

	return js_int(js_at(jobs, 0), key, -1);
}

static void text(struct queue *queue, long long id, const char *key, char *dst, size_t size)
{
	struct error err = {0};
	struct json *jobs AUTO_JSON = queue_list(queue, id, true, &err);

	snprintf(dst, size, "%s", js_str(js_at(jobs, 0), key, ""));
}

static void settle(struct queue *queue, long long id, enum queue_end end)
{
	struct error err = {0};

	assert_int_equal(queue_settle(queue, &rules, id, end, "why", &err), 0);
}

static void claim_gives_what_was_added(void **state)
{
	struct queue *queue AUTO_QUEUE = worker();
	struct error err = {0};
	struct queue_job job;

	(void)state;
	assert_true(put(queue, "/r", "i", "d", 0) > 0);
	assert_int_equal(queue_claim(queue, &rules, &job, &err), 1);
	assert_int_equal(job.issue_len, 5);
	assert_memory_equal(job.issue, "te\nxt", 5);
	assert_string_equal(job.request, "{}");
	assert_int_equal(job.attempts, 1);
	assert_true(strlen(job.run) > 15);
	assert_state(queue, job.id, "running");
	queue_job_release(&job);
	assert_int_equal(take(queue), 0);
}

static void claim_prefers_priority_then_age_within_limits(void **state)
{
	struct queue *queue AUTO_QUEUE = worker();
	long long first = put(queue, "/a", "1", "d", 0), second = put(queue, "/a", "2", "d", 0);
	long long third = put(queue, "/a", "3", "d", 0), high = put(queue, "/b", "1", "d", 7);
	long long low = put(queue, "/c", "1", "d", -7), last = put(queue, "/d", "1", "d", -8);

	(void)state;
	assert_int_equal(take(queue), high);
	assert_int_equal(take(queue), first);
	assert_int_equal(take(queue), second);
	assert_int_equal(take(queue), low); /* two of /a run: its third waits */
	assert_int_equal(take(queue), 0);   /* four run in all */
	settle(queue, first, QUEUE_DONE);
	assert_int_equal(take(queue), third);
	settle(queue, high, QUEUE_DONE);
	assert_int_equal(take(queue), last);
}

static void add_same_again_skipped_newer_supersedes(void **state)
{
	struct queue *queue AUTO_QUEUE = worker();
	struct error err = {0};
	char why[64];
	long long old = put(queue, "/r", "i", "one", 0), middle, new;

	(void)state;
	assert_int_equal(put(queue, "/r", "i", "one", 0), ERROR_SKIPPED);
	assert_true(put(queue, "/r2", "i", "one", 0) > 0);
	middle = put(queue, "/r", "i", "two", 9);
	assert_state(queue, old, "superseded");
	text(queue, old, "reason", why, sizeof(why));
	assert_non_null(strstr(why, "superseded by job"));
	assert_int_equal(take(queue), middle);
	assert_int_equal(put(queue, "/r", "i", "two", 0), ERROR_SKIPPED);
	assert_int_equal(queue_asked(queue, middle, &err), QUEUE_GO_ON);
	new = put(queue, "/r", "i", "three", 9);
	assert_int_equal(queue_asked(queue, middle, &err), QUEUE_STOP);
	take(queue); /* that of /r2: an issue runs once at a time */
	assert_state(queue, new, "queued");
	settle(queue, middle, QUEUE_BACK);
	assert_state(queue, middle, "superseded");
	assert_int_equal(take(queue), new);
	/* asked to stop, but it had come to its end */
	put(queue, "/r", "i", "four", 0);
	settle(queue, new, QUEUE_DONE);
	assert_state(queue, new, "done");
}

static void failures_wait_then_park_retry_goes_on_with_the_run(void **state)
{
	struct queue *queue AUTO_QUEUE = worker();
	struct queue_rules quick = rules;
	struct error err = {0};
	struct queue_job job;
	long long id = put(queue, "/r", "i", "d", 0), other;
	char run[64], now[64];

	(void)state;
	assert_int_equal(take(queue), id);
	text(queue, id, "run", run, sizeof(run));
	settle(queue, id, QUEUE_AGAIN);
	assert_state(queue, id, "queued");
	assert_int_equal(take(queue), 0);
	assert_in_range(queue_next_ms(queue), 50000, 60000);
	/* given back without an attempt, and soon */
	assert_int_equal(queue_cancel(queue, id, &(bool){false}, &err), 0);
	assert_int_equal(queue_retry(queue, id, &err), 0);
	assert_int_equal(take(queue), id);
	settle(queue, id, QUEUE_BACK);
	assert_int_equal(number(queue, id, "attempts"), 0);
	assert_in_range(queue_next_ms(queue), 0, 1000);
	quick.attempts = 1;
	while (queue_claim(queue, &quick, &job, &err) == 0)
		usleep(20000);
	queue_job_release(&job);
	assert_int_equal(queue_settle(queue, &quick, id, QUEUE_AGAIN, "boom", &err), 0);
	assert_state(queue, id, "parked");
	text(queue, id, "reason", now, sizeof(now));
	assert_string_equal(now, "failed 1 time, the last: boom");
	assert_int_equal(queue_retry(queue, id, &err), 0);
	text(queue, id, "run", now, sizeof(now));
	assert_string_equal(now, run);
	assert_int_equal(take(queue), id);
	settle(queue, id, QUEUE_PARKED);
	/* a newer one replaces a parked one, and then that is not tried again beside it */
	other = put(queue, "/r", "i", "new", 0);
	assert_state(queue, id, "superseded");
	assert_int_equal(queue_retry(queue, id, &err), ERROR_SKIPPED);
	assert_int_equal(take(queue), other);
	assert_int_equal(queue_retry(queue, id, &err), ERROR_SKIPPED);
	settle(queue, other, QUEUE_REFUSED);
	assert_int_equal(queue_retry(queue, other, &err), 0);
	text(queue, other, "run", now, sizeof(now));
	assert_string_equal(now, "");
}

static void cancel_queued_ends_running_asked(void **state)
{
	struct queue *queue AUTO_QUEUE = worker();
	struct error err = {0};
	long long id = put(queue, "/r", "i", "d", 0),
		  running_id = put(queue, "/r", "j", "d", 1);
	bool running = true;

	(void)state;
	assert_int_equal(take(queue), running_id);
	assert_int_equal(queue_cancel(queue, id, &running, &err), 0);
	assert_false(running);
	assert_state(queue, id, "cancelled");
	assert_int_equal(queue_cancel(queue, id, &running, &err), ERROR_SKIPPED);
	assert_int_equal(queue_cancel(queue, running_id, &running, &err), 0);
	assert_true(running);
	assert_int_equal(queue_asked(queue, running_id, &err), QUEUE_CANCEL);
	settle(queue, running_id, QUEUE_BACK);
	assert_state(queue, running_id, "cancelled");
	assert_int_equal(queue_cancel(queue, 4711, &running, &err), ERROR_USAGE);
}

static void take_over_of_a_killed_worker_at_once(void **state)
{
	struct queue *queue AUTO_QUEUE = worker();
	struct error err = {0};
	long long id = put(queue, "/r", "i", "d", 0);
	int ends[2], status;
	pid_t pid;
	char c;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		struct queue *own = worker();

		if (take(own) == id)
			(void)!write(ends[1], "x", 1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(ends[0], &c, 1), 1);
	assert_int_equal(queue_take_over(queue, &rules, &err), 0); /* it lives */
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	assert_int_equal(queue_take_over(queue, &rules, &err), 1);
	assert_int_equal(take(queue), id);
	assert_int_equal(number(queue, id, "attempts"), 2);
	close(ends[0]);
	close(ends[1]);
}

static void lease_passed_or_lost_settles_nothing(void **state)
{
	struct queue *queue AUTO_QUEUE = worker();
	struct queue *other AUTO_QUEUE = worker();
	struct queue_rules brief = rules;
	struct error err = {0};
	struct queue_job job;
	long long id = put(queue, "/r", "i", "d", 0);

	(void)state;
	brief.lease_ms = 0;
	assert_int_equal(queue_claim(queue, &brief, &job, &err), 1);
	queue_job_release(&job);
	assert_int_equal(queue_prolong(queue, &rules, &err), 0);
	assert_int_equal(queue_take_over(other, &rules, &err), 0);
	assert_int_equal(queue_prolong(queue, &brief, &err), 0);
	assert_int_equal(queue_take_over(other, &rules, &err), 1);
	assert_int_equal(queue_asked(queue, id, &err), QUEUE_LOST);
	assert_int_equal(take(other), id);
	settle(queue, id, QUEUE_PARKED);
	assert_state(queue, id, "running");
	settle(other, id, QUEUE_DONE);
	assert_state(queue, id, "done");
}

/* Eight workers at once, forty jobs: each is claimed once. */
static void claims_at_once_never_double(void **state)
{
	struct queue *queue AUTO_QUEUE = worker();
	const struct queue_rules wide = {
	    .jobs = 100, .per_repository = 100, .attempts = 5, .wait_ms = 1, .lease_ms = 60000};
	struct error err = {0};
	int sum = 0;

	(void)state;
	for (int i = 0; i < 40; i++) {
		char issue[16];

		snprintf(issue, sizeof(issue), "%d", i);
		assert_true(put(queue, "/r", issue, "d", 0) > 0);
	}
	for (int i = 0; i < 8; i++)
		if (fork() == 0) {
			struct queue *own = worker();
			struct queue_job job;
			int count = 0;

			while (queue_claim(own, &wide, &job, &err) == 1) {
				if (queue_settle(own, &wide, job.id, QUEUE_DONE, "", &err))
					_exit(100);
				queue_job_release(&job);
				count++;
			}
			_exit(err.kind ? 101 : count);
		}
	for (int i = 0; i < 8; i++) {
		int status;

		assert_true(wait(&status) > 0 && WIFEXITED(status));
		assert_in_range(WEXITSTATUS(status), 0, 40);
		sum += WEXITSTATUS(status);
	}
	assert_int_equal(sum, 40);
}

/* What an earlier version has made: its rows stay, the jobs' table comes. */
/* ---- task branches ---- */

static const char branch[] = "ref:refs/heads/task/x";

/* As a hook adds: the new job's id, or the kind of error; *same: the job that ERROR_SKIPPED names. */
static long long push_tip(struct queue *queue, const char *tip, long long after,
			  const char *skip, long long *same)
{
	struct queue_new job = {.repository = "/r",
				.identity = branch,
				.title = "Title",
				.digest = tip,
				.origin = "hook",
				.request = "{}",
				.issue = "",
				.tip = tip,
				.after = after,
				.skip = skip};
	struct error err = {0};
	long long id = 0;
	int result = queue_add(queue, &job, &id, &err);

	if (same)
		*same = id;
	return result ? result : id;
}

static void expect_last(struct queue *queue, long long id, const char *tip, const char *state)
{
	struct error err = {0};
	struct json *tips AUTO_JSON = queue_tips(queue, "/r", NULL, &err);
	const struct json *last = js_get(tips, branch);

	assert_int_equal(js_int(last, "id", 0), id);
	assert_string_equal(js_str(last, "tip", "?"), tip);
	assert_string_equal(js_str(last, "state", "?"), state);
	js_free_ptr(&tips);
	tips = queue_tips(queue, "/r", branch, &err);
	assert_int_equal(js_int(js_get(tips, branch), "id", 0), id);
	assert_int_equal(js_len(tips), 1);
	js_free_ptr(&tips);
	tips = queue_tips(queue, "/r", "ref:refs/heads/task/other", &err);
	assert_int_equal(js_len(tips), 0);
}

static void tip_seen_once_makes_one_job(void **state)
{
	struct queue *queue AUTO_QUEUE = worker();
	long long first, second, third, same;

	(void)state;
	first = push_tip(queue, "aa", 0, NULL, NULL);
	assert_true(first > 0);
	assert_int_equal(push_tip(queue, "aa", 0, NULL, &same), ERROR_SKIPPED);
	assert_int_equal(same, first);
	assert_int_equal(push_tip(queue, "aa", first, NULL, &same), ERROR_SKIPPED);
	/* whoever read the branch before the last job was added adds nothing */
	assert_int_equal(push_tip(queue, "bb", 0, NULL, NULL), ERROR_LATER);
	second = push_tip(queue, "bb", first, NULL, NULL);
	assert_true(second > first);
	expect_last(queue, second, "bb", "queued");
	/* back to a commit that was there before: a new state of the branch */
	third = push_tip(queue, "aa", second, NULL, NULL);
	assert_true(third > second);
	expect_last(queue, third, "aa", "queued");
	assert_int_equal(take(queue), third);
	assert_int_equal(take(queue), 0);
}

static void tip_that_asks_nothing_is_kept_and_stops_nobody(void **state)
{
	struct queue *queue AUTO_QUEUE = worker();
	struct error err = {0};
	long long first = push_tip(queue, "aa", 0, NULL, NULL), second;

	(void)state;
	assert_int_equal(take(queue), first);
	second = push_tip(queue, "bb", first, "pushed by an agent", NULL);
	assert_true(second > first);
	expect_last(queue, second, "bb", "skipped");
	assert_int_equal(queue_asked(queue, first, &err), QUEUE_GO_ON);
	assert_int_equal(push_tip(queue, "bb", first, NULL, NULL), ERROR_SKIPPED);
}

static void branch_gone_cancels_and_is_news_again(void **state)
{
	struct queue *queue AUTO_QUEUE = worker();
	struct error err = {0};
	long long first = push_tip(queue, "aa", 0, NULL, NULL), second, cancelled;

	(void)state;
	assert_int_equal(queue_forget(queue, "/r", branch, 0, &cancelled, &err), ERROR_LATER);
	assert_int_equal(queue_forget(queue, "/r", branch, first, &cancelled, &err), 0);
	assert_int_equal(cancelled, first);
	expect_last(queue, first, "", "cancelled");
	assert_int_equal(take(queue), 0);
	/* who read the branch before all of that adds nothing */
	assert_int_equal(push_tip(queue, "aa", 0, NULL, NULL), ERROR_LATER);
	second = push_tip(queue, "aa", first, NULL, NULL);
	assert_true(second > first);
	assert_int_equal(take(queue), second);
	assert_int_equal(queue_forget(queue, "/r", branch, second, &cancelled, &err), 0);
	assert_int_equal(cancelled, second);
	assert_int_equal(queue_asked(queue, second, &err), QUEUE_CANCEL);
	assert_int_equal(
	    queue_forget(queue, "/r", "ref:refs/heads/task/y", 0, &cancelled, &err), 0);
	assert_int_equal(cancelled, 0);
}

static void watched_repositories_are_kept_once(void **state)
{
	struct queue *queue AUTO_QUEUE = worker();
	struct error err = {0};
	struct json *paths AUTO_JSON = NULL;

	(void)state;
	assert_int_equal(queue_watch(queue, "/b", true, &err), 0);
	assert_int_equal(queue_watch(queue, "/a", true, &err), 0);
	assert_int_equal(queue_watch(queue, "/b", true, &err), 0);
	assert_int_equal(queue_watch(queue, "/a", false, &err), 0);
	paths = queue_watched(queue, &err);
	assert_int_equal(js_len(paths), 1);
	assert_string_equal(js_text(js_at(paths, 0)), "/b");
}

static void open_first_schema_migrated(void **state)
{
	char *path AUTO_FREE = mem_printf("%s/agent.db", dir);
	struct error err = {0};
	struct queue *queue AUTO_QUEUE = NULL;
	struct ledger *ledger AUTO_LEDGER = NULL;
	long long input, output, reserved;
	sqlite3 *db;

	(void)state;
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(
	    sqlite3_exec(db,
			 "CREATE TABLE calls(id INTEGER PRIMARY KEY, run TEXT NOT NULL, day "
			 "TEXT NOT NULL "
			 "DEFAULT (date('now')), reserved INTEGER NOT NULL, input INTEGER NOT "
			 "NULL DEFAULT "
			 "0, output INTEGER NOT NULL DEFAULT 0);"
			 "CREATE TABLE receipts(url TEXT NOT NULL, ref TEXT NOT NULL, oid TEXT "
			 "NOT NULL, "
			 "issue TEXT NOT NULL, run TEXT NOT NULL, at TEXT NOT NULL DEFAULT "
			 "(datetime('now')), PRIMARY KEY(url, ref, oid));"
			 "INSERT INTO calls(run, reserved, input) VALUES('r', 0, 42);"
			 "PRAGMA user_version = 1;",
			 NULL, NULL, NULL),
	    SQLITE_OK);
	sqlite3_close(db);
	queue = worker();
	assert_true(put(queue, "/r", "i", "d", 0) > 0);
	ledger = ledger_open(dir, &err);
	assert_non_null(ledger);
	assert_int_equal(ledger_usage(ledger, "r", &input, &output, &reserved, &err), 0);
	assert_int_equal(input, 42);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)
	const struct CMUnitTest tests[] = {
	    TEST(claim_gives_what_was_added),
	    TEST(claim_prefers_priority_then_age_within_limits),
	    TEST(add_same_again_skipped_newer_supersedes),
	    TEST(failures_wait_then_park_retry_goes_on_with_the_run),
	    TEST(cancel_queued_ends_running_asked),
	    TEST(take_over_of_a_killed_worker_at_once),
	    TEST(lease_passed_or_lost_settles_nothing),
	    TEST(claims_at_once_never_double),
	    TEST(tip_seen_once_makes_one_job),
	    TEST(tip_that_asks_nothing_is_kept_and_stops_nobody),
	    TEST(branch_gone_cancels_and_is_news_again),
	    TEST(watched_repositories_are_kept_once),
	    TEST(open_first_schema_migrated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
