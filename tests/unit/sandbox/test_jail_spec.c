/* The records between supervisor, starter and agent-jail: what is written is read back, and
 * nothing else is taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "sandbox/jail_spec.h"

static void fill(struct jail_spec *spec)
{
	jail_spec_init(spec);
	jail_spec_add_arg(spec, "sh");
	jail_spec_add_arg(spec, "");
	jail_spec_add_arg(spec, "a=b\n\xff");
	jail_spec_add_env(spec, "PATH", "/usr/bin");
	jail_spec_add_env(spec, "EMPTY", "");
	spec->cwd = mem_strdup("/work");
	spec->store = mem_strdup("/var/lib/agent/store");
	spec->scratch = mem_strdup("/var/lib/agent/runs/1");
	jail_spec_add_mount(spec, JAIL_BIND_RO, true, "/usr", "/usr");
	jail_spec_add_mount(spec, JAIL_BIND_STORE, false, "/a b", "/c=d");
	jail_spec_add_mount(spec, JAIL_BIND_RW, false, "/out", "/out");
	spec->limits.wall_ms = UINT64_MAX;
	spec->limits.degraded_ok = true;
	spec->limits.cpus = 3;
	spec->egress = true;
	spec->separate_uid = spec->subuid = spec->reclaim = spec->on_disk = true;
}

static void spec_round_trip_keeps_all(void **state)
{
	struct jail_spec spec, back;
	struct strbuf text AUTO_STRBUF = STRBUF_NONE, again AUTO_STRBUF = STRBUF_NONE;
	struct error err = {0};

	(void)state;
	fill(&spec);
	strbuf_init(&text, JAIL_SPEC_MAX);
	strbuf_init(&again, JAIL_SPEC_MAX);
	jail_spec_format(&spec, &text);
	assert_int_equal(jail_spec_parse(text.data, text.len, &back, &err), 0);
	jail_spec_format(&back, &again);
	assert_int_equal(text.len, again.len);
	assert_memory_equal(text.data, again.data, text.len);
	assert_string_equal(back.argv[2], "a=b\n\xff");
	assert_null(back.argv[3]);
	assert_string_equal(back.env[1], "EMPTY=");
	assert_true(back.mounts[0].optional);
	assert_int_equal(back.mounts[2].how, JAIL_BIND_RW);
	assert_true(back.limits.wall_ms == UINT64_MAX && back.limits.cpus == 3);
	assert_true(back.limits.degraded_ok && back.egress && !back.work_rw);
	assert_true(back.separate_uid && back.subuid && back.reclaim && back.on_disk &&
		    !back.audit);
	jail_spec_release(&spec);
	jail_spec_release(&back);
}

/* A complete spec in which one record is replaced: "key=" by the one given, or left out. */
static int parse_with(const char *key, const char *record)
{
	struct jail_spec spec, back;
	struct strbuf text AUTO_STRBUF = STRBUF_NONE, changed AUTO_STRBUF = STRBUF_NONE;
	struct error err = {0};
	int result;

	fill(&spec);
	strbuf_init(&text, JAIL_SPEC_MAX);
	strbuf_init(&changed, JAIL_SPEC_MAX);
	jail_spec_format(&spec, &text);
	for (size_t at = 0; at < text.len; at += strlen(text.data + at) + 1) {
		if (strncmp(text.data + at, key, strlen(key)) != 0)
			strbuf_add(&changed, text.data + at, strlen(text.data + at) + 1);
		else if (record)
			strbuf_add(&changed, record, strlen(record) + 1);
	}
	result = jail_spec_parse(changed.data, changed.len, &back, &err);
	if (result == 0)
		jail_spec_release(&back);
	else
		assert_true(err.kind == ERROR_USAGE && err.message[0]);
	jail_spec_release(&spec);
	return result;
}

static void spec_malformed_is_refused(void **state)
{
	static const struct {
		const char *key, *record;
	} bad[] = {
	    {"jail_spec=", NULL},
	    {"jail_spec=", "jail_spec=2"},
	    {"arg=", NULL},
	    {"backend=", NULL},
	    {"backend=", "backend="},
	    {"backend=", "backend=none"},
	    {"cwd=", "backend=native"},
	    {"cwd=", NULL},
	    {"cwd=", "cwd=work"},
	    {"cwd=", "cwd=/a/../b"},
	    {"cwd=", "cwd=/a//b"},
	    {"cwd=", "cwd=/a/"},
	    {"cwd=", "cwd=/./a"},
	    {"cwd=", "cwd="},
	    {"store=", "store=store"},
	    {"wall_ms=", NULL},
	    {"wall_ms=", "wall_ms=0"},
	    {"wall_ms=", "wall_ms=-1"},
	    {"wall_ms=", "wall_ms=1x"},
	    {"wall_ms=", "wall_ms= 1"},
	    {"wall_ms=", "wall_ms=01"},
	    {"wall_ms=", "wall_ms="},
	    {"wall_ms=", "wall_ms=99999999999999999999"},
	    {"memory_bytes=", "memory_bytes=0"},
	    {"processes=", NULL},
	    {"degraded_ok=", NULL},
	    {"degraded_ok=", "degraded_ok=yes"},
	    {"egress=", "egress=2"},
	    {"mount=ro?", "mount=ro?x"},
	    {"mount=ro?", "mount=bind"},
	    {"mount=ro?", "mount="},
	    {"source=/usr", NULL},
	    {"target=/usr", NULL},
	    {"target=/usr", "target=/"},
	    {"target=/usr", "target=/../x"},
	    {"source=/usr", "source=usr"},
	    {"env=EMPTY", "env=EMPTY"},
	    {"env=EMPTY", "env==x"},
	    {"copy_layers=", "unknown=1"},
	    {"copy_layers=", "copy_layers"},
	    {"copy_layers=", "=1"},
	    {"copy_layers=", "egress=1"},
	    {"work_rw=", "work_rw=1"},
	    {"scratch=", "cwd=/twice"},
	};

	(void)state;
	assert_int_equal(parse_with("nothing", NULL), 0);
	assert_int_equal(parse_with("store=", NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (parse_with(bad[i].key, bad[i].record) == 0)
			fail_msg("taken: %s -> %s", bad[i].key,
				 bad[i].record ? bad[i].record : "nothing");
}

/* Each prefix of a spec, of a go and of facts is refused: nothing that was cut is taken as
 * whole. */
static void cut_records_are_refused(void **state)
{
	struct jail_spec spec, back;
	struct jail_go go, go_back;
	struct jail_facts facts = {.outcome = JAIL_EXITED, .uid = "shared"}, facts_back;
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	struct error err = {0};

	(void)state;
	strbuf_init(&text, JAIL_SPEC_MAX);
	fill(&spec);
	jail_spec_format(&spec, &text);
	for (size_t len = 0; len < text.len; len++)
		assert_int_equal(jail_spec_parse(text.data, len, &back, &err), ERROR_USAGE);
	jail_spec_release(&spec);
	strbuf_reset(&text);
	jail_go_init(&go);
	jail_go_add(&go, "run/layer");
	jail_go_add_home(&go, "deps/k/home");
	jail_go_format(&go, &text);
	for (size_t len = 0; len < text.len; len++)
		assert_int_equal(jail_go_parse(text.data, len, &go_back, &err), ERROR_USAGE);
	jail_go_release(&go);
	strbuf_reset(&text);
	jail_facts_format(&facts, &text);
	for (size_t len = 0; len < text.len; len++)
		assert_int_equal(jail_facts_parse(text.data, len, &facts_back, &err),
				 ERROR_USAGE);
	strbuf_addc(&text, 'x');
	assert_int_equal(jail_facts_parse(text.data, text.len, &facts_back, &err), ERROR_USAGE);
}

static void go_round_trip_keeps_order(void **state)
{
	struct jail_go go, back;
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	struct error err = {0};

	(void)state;
	strbuf_init(&text, JAIL_SPEC_MAX);
	jail_go_init(&go);
	jail_go_add(&go, "run/layer");
	jail_go_add(&go, "base/0a/tree");
	jail_go_add_home(&go, "deps/k/home");
	jail_go_format(&go, &text);
	assert_int_equal(jail_go_parse(text.data, text.len, &back, &err), 0);
	assert_int_equal(back.layer_count, 2);
	assert_int_equal(back.home_count, 1);
	assert_string_equal(back.layers[0], "run/layer");
	assert_string_equal(back.layers[1], "base/0a/tree");
	assert_string_equal(back.home_layers[0], "deps/k/home");
	jail_go_release(&go);
	jail_go_release(&back);
}

static void go_names_out_of_the_store_are_refused(void **state)
{
	static const char *const bad[] = {
	    "",	  "/",	 "/etc", ".",	 "..",	"a/..", "../a", "a/../b", "a//b",    "a/",
	    "/a", "a b", "a\nb", "a\\b", "a:b", "a,b",	"./a",	"a/.",	  "\xc3\xa4"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct jail_go go, back;
		struct strbuf text AUTO_STRBUF = STRBUF_NONE;
		struct error err = {0};

		strbuf_init(&text, JAIL_SPEC_MAX);
		jail_go_init(&go);
		jail_go_add(&go, bad[i]);
		jail_go_format(&go, &text);
		if (jail_go_parse(text.data, text.len, &back, &err) == 0)
			fail_msg("taken: %s", bad[i]);
		jail_go_release(&go);
	}
}

static void facts_round_trip_keeps_all(void **state)
{
	struct jail_facts facts = {.outcome = JAIL_OOM,
				   .value = -9,
				   .elapsed_ms = 12,
				   .memory_peak_bytes = UINT64_MAX,
				   .oom_count = 2,
				   .leftover = 3,
				   .uid = "separate",
				   .limits = "cgroup2",
				   .work = "overlay",
				   .backend = "native",
				   .scratch = "disk",
				   .layers = "userns netns",
				   .detail = "a\nb=c",
				   .next = "do this"},
			  back;
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	struct error err = {0};

	(void)state;
	strbuf_init(&text, JAIL_SPEC_MAX);
	for (int outcome = JAIL_EXITED; outcome <= JAIL_INTERNAL; outcome++) {
		strbuf_reset(&text);
		facts.outcome = (enum jail_outcome)outcome;
		jail_facts_format(&facts, &text);
		assert_int_equal(jail_facts_parse(text.data, text.len, &back, &err), 0);
		assert_int_equal(back.outcome, outcome);
		assert_int_equal(back.value, -9);
		assert_true(back.memory_peak_bytes == UINT64_MAX);
		assert_string_equal(back.detail, "a\nb=c");
		assert_string_equal(back.next, "do this");
		assert_string_equal(back.backend, "native");
		assert_string_equal(back.scratch, "disk");
	}
	assert_string_equal(jail_outcome_text((enum jail_outcome)77), "?");
}

static void add_egress(struct jail_facts *facts, const char *proto, const char *host,
		       unsigned port, const char *program)
{
	struct jail_egress *egress = &facts->egress[facts->egress_count++];

	snprintf(egress->proto, sizeof(egress->proto), "%s", proto);
	snprintf(egress->host, sizeof(egress->host), "%s", host);
	snprintf(egress->program, sizeof(egress->program), "%s", program);
	egress->port = port;
	egress->count = facts->egress_count;
}

static void facts_of_egress_come_back_as_they_were(void **state)
{
	struct jail_facts facts = {.outcome = JAIL_EXITED,
				   .observe = JAIL_OBSERVE_ON,
				   .egress_more = 7,
				   .listeners = 1},
			  back;
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	struct error err = {0};

	(void)state;
	strbuf_init(&text, JAIL_SPEC_MAX);
	add_egress(&facts, "tcp", "2001:db8::1", 65535, "a b (/c d)=e");
	while (facts.egress_count < JAIL_EGRESS_MAX)
		add_egress(&facts, "dns", "a.example", 0, "/usr/bin/x");
	jail_facts_format(&facts, &text);
	assert_true(text.len < 65536); /* the pipe that they go through */
	assert_int_equal(jail_facts_parse(text.data, text.len, &back, &err), 0);
	assert_int_equal(back.observe, JAIL_OBSERVE_ON);
	assert_int_equal(back.egress_count, JAIL_EGRESS_MAX);
	assert_int_equal(back.egress_more, 7);
	assert_int_equal(back.listeners, 1);
	assert_memory_equal(back.egress, facts.egress, sizeof(facts.egress));
}

/* "observe=on" and what follows of good facts, with one more record behind it. */
static int parse_with_egress(const char *record, int times)
{
	struct jail_facts facts = {.outcome = JAIL_EXITED, .observe = JAIL_OBSERVE_ON}, back;
	struct strbuf text AUTO_STRBUF = STRBUF_NONE, longer AUTO_STRBUF = STRBUF_NONE;
	struct error err = {0};

	strbuf_init(&text, JAIL_SPEC_MAX);
	strbuf_init(&longer, JAIL_SPEC_MAX);
	jail_facts_format(&facts, &text);
	for (size_t at = 0; at < text.len; at += strlen(text.data + at) + 1) {
		strbuf_add(&longer, text.data + at, strlen(text.data + at) + 1);
		if (strcmp(text.data + at, "observe=on") == 0)
			for (int i = 0; i < times; i++)
				strbuf_add(&longer, record, strlen(record) + 1);
	}
	return jail_facts_parse(longer.data, longer.len, &back, &err);
}

static void malformed_egress_is_refused(void **state)
{
	static const char *const bad[] = {"egress=",
					  "egress=tcp",
					  "egress=tcp 1 2 3",
					  "egress=tcp 1 2 h ",
					  "egress= 1 2 h p",
					  "egress=tcp -1 2 h p",
					  "egress=tcp 1 65536 h p",
					  "egress=tcp x 2 h p",
					  "egress=tcp 1  h p",
					  "egress=tcptcptcp 1 2 h p",
					  "egress=tcp 01 2 h p",
					  "egress=tcp 99999999999999999999999 2 h p",
					  "egres=tcp 1 2 h p"};

	(void)state;
	assert_int_equal(parse_with_egress("egress=tcp 1 2 h p", 1), 0);
	assert_int_equal(parse_with_egress("egress=tcp 1 2 h p", JAIL_EGRESS_MAX), 0);
	assert_int_equal(parse_with_egress("egress=tcp 1 2 h p", JAIL_EGRESS_MAX + 1),
			 ERROR_USAGE);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (parse_with_egress(bad[i], 1) == 0)
			fail_msg("taken: %s", bad[i]);
}

static void facts_too_long_a_text_is_refused(void **state)
{
	struct jail_facts facts = {.outcome = JAIL_EXITED}, back;
	struct strbuf text AUTO_STRBUF = STRBUF_NONE, longer AUTO_STRBUF = STRBUF_NONE;
	struct error err = {0};

	(void)state;
	strbuf_init(&text, JAIL_SPEC_MAX);
	strbuf_init(&longer, JAIL_SPEC_MAX);
	jail_facts_format(&facts, &text);
	for (size_t at = 0; at < text.len; at += strlen(text.data + at) + 1) {
		if (strcmp(text.data + at, "uid=") == 0)
			strbuf_adds(&longer, "uid=0123456789012345");
		else
			strbuf_adds(&longer, text.data + at);
		strbuf_addc(&longer, '\0');
	}
	assert_int_equal(jail_facts_parse(longer.data, longer.len, &back, &err), ERROR_USAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(spec_round_trip_keeps_all),
	    cmocka_unit_test(spec_malformed_is_refused),
	    cmocka_unit_test(cut_records_are_refused),
	    cmocka_unit_test(go_round_trip_keeps_order),
	    cmocka_unit_test(go_names_out_of_the_store_are_refused),
	    cmocka_unit_test(facts_round_trip_keeps_all),
	    cmocka_unit_test(facts_of_egress_come_back_as_they_were),
	    cmocka_unit_test(malformed_egress_is_refused),
	    cmocka_unit_test(facts_too_long_a_text_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
