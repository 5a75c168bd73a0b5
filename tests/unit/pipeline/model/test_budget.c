/* The bound before a call. */
#include "model_test.h"

#include "pipeline/model/budget.h"

#define USER "{'role':'user','round':1,'content':[]}"
#define ANSWER(model, usage)                                                                   \
	"{'role':'assistant','round':1,'content':[],'model':'" model "','usage':{" usage "}}"
#define COUNTED "'input':100,'cache_read':20,'cache_write':3,'output':50,'request_bytes':6000"

static void expect_bound(const char *const *lines, size_t bytes, long long wanted)
{
	struct talk *talk AUTO_TALK = talk_of(lines);

	assert_int_equal(budget_bound(talk, "p:m", bytes, 1000),
			 wanted + BUDGET_OVERHEAD + 1000);
}

static void bound_without_measure_is_a_token_a_byte(void **state)
{
	(void)state;
	expect_bound((const char *const[]){USER, NULL}, 5000, 5000);
}

static void bound_counts_only_what_was_added(void **state)
{
	(void)state;
	expect_bound((const char *const[]){USER, ANSWER("p:m", COUNTED), USER, NULL}, 6500,
		     100 + 20 + 3 + 500);
}

static void bound_trusts_no_estimate_other_model_or_shrunk_request(void **state)
{
	(void)state;
	expect_bound(
	    (const char *const[]){USER, ANSWER("p:m", COUNTED ",'estimated':true"), NULL}, 6500,
	    6500);
	expect_bound((const char *const[]){USER, ANSWER("p:other", COUNTED), NULL}, 6500, 6500);
	expect_bound((const char *const[]){USER, ANSWER("p:m", COUNTED), NULL}, 5000, 5000);
	expect_bound(
	    (const char *const[]){USER, ANSWER("p:m", "'input':0,'request_bytes':10"), NULL},
	    6500, 6500);
	expect_bound((const char *const[]){USER, ANSWER("p:m", "'input':5"), NULL}, 6500, 6500);
	/* a recorded answer has no usage: the one before it measures nothing that came since */
	expect_bound((const char *const[]){USER, ANSWER("p:m", COUNTED),
					   ANSWER("p:other", COUNTED), NULL},
		     6500, 6500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bound_without_measure_is_a_token_a_byte),
	    cmocka_unit_test(bound_counts_only_what_was_added),
	    cmocka_unit_test(bound_trusts_no_estimate_other_model_or_shrunk_request),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
