#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/ledger.h"

static char dir[] = "/tmp/test-ledger-XXXXXX";

static int make_dir(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/test-ledger-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	(void)state;
	return fd_remove_tree(AT_FDCWD, dir);
}

static void reserve_past_the_run_cap_refused(void **state)
{
	struct error err = {0};
	struct ledger *ledger AUTO_LEDGER = ledger_open(dir, &err);
	long long id, input, output, reserved;

	(void)state;
	assert_non_null(ledger);
	assert_int_equal(ledger_reserve(ledger, "r1", 600, 1000, 5000, &id, &err), 0);
	assert_int_equal(ledger_reserve(ledger, "r1", 401, 1000, 5000, &id, &err),
			 ERROR_FAILED);
	assert_non_null(strstr(err.message, "budget"));
	assert_non_null(strstr(err.next, "budget.runTokens"));
	assert_int_equal(ledger_reserve(ledger, "r1", 400, 1000, 5000, &id, &err), 0);
	assert_int_equal(ledger_settle(ledger, id, 10, 5, &err), 0);
	assert_int_equal(ledger_usage(ledger, "r1", &input, &output, &reserved, &err), 0);
	assert_int_equal(input, 10);
	assert_int_equal(output, 5);
	assert_int_equal(reserved, 600);
}

static void reserve_past_the_day_cap_refused_over_all_runs(void **state)
{
	struct error err = {0};
	struct ledger *ledger AUTO_LEDGER = ledger_open(dir, &err);
	long long id;

	(void)state;
	assert_int_equal(ledger_reserve(ledger, "a", 900, 10000, 1000, &id, &err), 0);
	assert_int_equal(ledger_settle(ledger, id, 800, 50, &err), 0);
	assert_int_equal(ledger_reserve(ledger, "b", 151, 10000, 1000, &id, &err),
			 ERROR_FAILED);
	assert_non_null(strstr(err.next, "budget.dayTokens"));
	assert_int_equal(ledger_reserve(ledger, "b", 150, 10000, 1000, &id, &err), 0);
	/* no overflow tricks */
	assert_int_equal(
	    ledger_reserve(ledger, "b", 0x7fffffffffffffffLL, 10000, 1000, &id, &err),
	    ERROR_FAILED);
}

/* Eight processes want 30 of 100 tokens each: three get them. */
static void reserve_at_once_never_passes_the_cap(void **state)
{
	struct error err = {0};
	int granted = 0;

	(void)state;
	ledger_close(ledger_open(dir, &err));
	for (int i = 0; i < 8; i++) {
		if (fork() == 0) {
			struct ledger *own = ledger_open(dir, &err);
			long long id;

			_exit(own && ledger_reserve(own, "x", 30, 100, 1000, &id, &err) == 0
				  ? 7
				  : 0);
		}
	}
	for (int i = 0; i < 8; i++) {
		int status;

		assert_true(wait(&status) > 0);
		granted += WIFEXITED(status) && WEXITSTATUS(status) == 7;
	}
	assert_int_equal(granted, 3);
}

static void receipts_only_of_that_issue_and_ref(void **state)
{
	struct error err = {0};
	struct ledger *ledger AUTO_LEDGER = ledger_open(dir, &err);
	struct json *oids AUTO_JSON = NULL;

	(void)state;
	assert_int_equal(ledger_add_receipt(ledger, "r", "i", "u", "refs/heads/a", "1", &err),
			 0);
	assert_int_equal(ledger_add_receipt(ledger, "r", "i", "u", "refs/heads/a", "1", &err),
			 0);
	assert_int_equal(ledger_add_receipt(ledger, "r", "i", "u", "refs/heads/b", "2", &err),
			 0);
	assert_int_equal(ledger_add_receipt(ledger, "r", "i", "v", "refs/heads/a", "3", &err),
			 0);
	assert_int_equal(ledger_add_receipt(ledger, "r", "j", "u", "refs/heads/a", "4", &err),
			 0);
	oids = ledger_receipts(ledger, "i", "u", "refs/heads/a", &err);
	assert_int_equal(js_len(oids), 1);
	assert_string_equal(js_text(js_at(oids, 0)), "1");
}

static void open_newer_schema_refused(void **state)
{
	struct error err = {0};
	char *path AUTO_FREE = mem_printf("%s/agent.db", dir);
	int fd;
	unsigned char version[4] = {0, 0, 0, 9};

	(void)state;
	ledger_close(ledger_open(dir, &err));
	/* user_version: big-endian at offset 60 of the database header (sqlite.org/fileformat2)
	 */
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, version, 4, 60), 4);
	close(fd);
	assert_null(ledger_open(dir, &err));
	assert_non_null(strstr(err.message, "newer"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(reserve_past_the_run_cap_refused, make_dir,
					    remove_dir),
	    cmocka_unit_test_setup_teardown(reserve_past_the_day_cap_refused_over_all_runs,
					    make_dir, remove_dir),
	    cmocka_unit_test_setup_teardown(reserve_at_once_never_passes_the_cap, make_dir,
					    remove_dir),
	    cmocka_unit_test_setup_teardown(receipts_only_of_that_issue_and_ref, make_dir,
					    remove_dir),
	    cmocka_unit_test_setup_teardown(open_newer_schema_refused, make_dir, remove_dir),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
