/* Steps, and packets between the jail's processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "sandbox/jail/backend.h"
#include "sandbox/jail/parts.h"
#include "sandbox/jail/run.h"

static void first_failure_is_kept(void **state)
{
	struct jail_run run;

	(void)state;
	run_init(&run);
	assert_int_equal(step_enter(&run, STEP_netns), 0);
	errno = EPERM;
	assert_int_equal(step_fail(&run, "first %d", 1), -1);
	run.step = STEP_pivot;
	errno = EIO;
	assert_int_equal(step_fail(&run, "second"), -1);
	assert_int_equal(run.failure.step, STEP_netns);
	assert_int_equal(run.failure.err, EPERM);
	assert_string_equal(run.failure.what, "first 1");
}

static void a_missing_layer_is_named(void **state)
{
	struct jail_run run;

	(void)state;
	for (int backend = 0; backend < JAIL_BACKEND_COUNT; backend++) {
		run_init(&run);
		run.spec.backend = (enum jail_backend)backend;
		run.done = ~0ULL;
		assert_int_equal(backend_check_layers(&run), 0);
		run.done &= ~(1ULL << STEP_seccomp);
		assert_int_equal(backend_check_layers(&run), -1);
		assert_int_equal(run.failure.step, STEP_seccomp);
		assert_non_null(strstr(run.failure.what, "mandatory"));
	}
}

static void layers_fit_their_fact_in_build_order(void **state)
{
	struct jail_run run;
	struct jail_facts facts;

	(void)state;
	run_init(&run);
	run.done = ~0ULL;
	step_layers(&run, facts.layers, sizeof(facts.layers));
	assert_true(strlen(facts.layers) + 1 < sizeof(facts.layers));
	assert_non_null(strstr(facts.layers, "landlock seccomp selftest"));
	assert_null(strstr(facts.layers, "spec"));
	run.done = 0;
	step_layers(&run, facts.layers, sizeof(facts.layers));
	assert_string_equal(facts.layers, "");
}

static void a_full_scratch_is_no_limit_of_namespaces(void **state)
{
	struct jail_facts facts;

	(void)state;
	for (enum jail_step step = STEP_staging; step <= STEP_pivot; step++) {
		const struct jail_failure failure = {.step = step, .err = ENOSPC};
		bool inside = step >= STEP_root && step < STEP_pivot;

		step_remedy(&failure, facts.next, sizeof(facts.next));
		assert_int_equal(strstr(facts.next, "raise jail.inodes") != NULL, inside);
	}
}

static void every_layer_of_namespaces_has_a_remedy(void **state)
{
	static const enum jail_step steps[] = {
	    STEP_userns,   STEP_mountns, STEP_pidns, STEP_netns,    STEP_ipcns,	 STEP_utsns,
	    STEP_cgroupns, STEP_cgroup,	 STEP_proc,  STEP_landlock, STEP_seccomp};

	(void)state;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		struct jail_failure failure = {.step = steps[i], .err = EPERM};
		struct jail_facts facts;

		step_remedy(&failure, facts.next, sizeof(facts.next));
		assert_true(strlen(facts.next) > 20);
		assert_true(strlen(facts.next) + 1 < sizeof(facts.next));
	}
}

static void packet_of_a_dead_peer_is_read(void **state)
{
	struct jail_packet packet = {.message = MSG_FAILED,
				     .failure = {.step = STEP_dev, .what = "why"}},
			   got;
	int pair[2], fd;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	/* the peer ends without having read what we sent: the kernel tells that first */
	assert_int_equal(packet_send(pair[0], &packet, -1), 0);
	assert_int_equal(packet_send(pair[1], &packet, pair[1]), 0);
	close(pair[1]);
	assert_int_equal(packet_receive(pair[0], &got, &fd), 1);
	assert_int_equal(got.failure.step, STEP_dev);
	assert_string_equal(got.failure.what, "why");
	assert_true(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	close(fd);
	assert_int_equal(packet_receive(pair[0], &got, &fd), 0);
	close(pair[0]);
}

static void packet_of_another_size_is_refused(void **state)
{
	struct jail_packet got;
	int pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(send(pair[1], "short", 5, 0), 5);
	assert_int_equal(packet_receive(pair[0], &got, NULL), -1);
	assert_int_equal(errno, EPROTO);
	close(pair[0]);
	close(pair[1]);
}

/* All kinds of parts, through a socket and back. */
static void parts_arrive_as_they_were(void **state)
{
	struct jail_run outer, payload;
	struct jail_source sources[4];
	char link[] = "usr/bin";
	int pair[2];

	(void)state;
	run_init(&outer);
	run_init(&payload);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	outer.payload_sock = pair[0];
	payload.payload_sock = pair[1];
	memset(sources, 0, sizeof(sources));
	sources[0].tree = open("/", O_PATH | O_CLOEXEC);
	sources[1].tree = -1;
	sources[1].link = link;
	sources[2].tree = -1;
	sources[3].tree = open("/dev/null", O_PATH | O_CLOEXEC);
	sources[3].is_file = true;
	outer.sources = sources;
	for (int i = 0; i < 4; i++) {
		jail_spec_add_mount(&outer.spec, JAIL_BIND_RO, true, "/x", "/x");
		jail_spec_add_mount(&payload.spec, JAIL_BIND_RO, true, "/x", "/x");
	}
	outer.separate = payload.separate = true;
	outer.cgroup.attach[0] = open("/", O_PATH | O_CLOEXEC);
	outer.cgroup.attach[1] = open("/", O_PATH | O_CLOEXEC);
	outer.work_tree = open("/", O_PATH | O_CLOEXEC);
	assert_int_equal(parts_send(&outer), 0);
	assert_int_equal(parts_receive(&payload), 0);
	assert_int_equal(payload.cgroup.kind, CGROUP_V1);
	assert_true(payload.cgroup.attach[0] >= 0 && payload.cgroup.attach[1] >= 0);
	assert_true(payload.work_tree >= 0);
	assert_true(payload.sources[0].tree >= 0 && !payload.sources[0].is_file);
	assert_string_equal(payload.sources[1].link, "usr/bin");
	assert_true(payload.sources[2].tree < 0 && !payload.sources[2].link);
	assert_true(payload.sources[3].tree >= 0 && payload.sources[3].is_file);
	close_range(3, ~0U, 0);
	free(payload.sources[1].link);
	free(payload.sources);
	jail_spec_release(&outer.spec);
	jail_spec_release(&payload.spec);
}

static void malformed_parts_are_refused(void **state)
{
	static const struct {
		const char *text;
		size_t len;
	} bad[] = {{"c.", 2}, {"w.", 2}, {"d.", 2}, {"-.", 2}, {"x.", 2}, {"", 1}, {"ccc.", 4}};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct jail_run payload;
		int pair[2];

		run_init(&payload);
		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair),
				 0);
		payload.payload_sock = pair[1];
		assert_int_equal(parts_send_raw(pair[0], bad[i].text, bad[i].len, NULL, 0), 0);
		assert_int_equal(parts_receive(&payload), -1);
		close(pair[0]);
		close(pair[1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(first_failure_is_kept),
	    cmocka_unit_test(a_missing_layer_is_named),
	    cmocka_unit_test(layers_fit_their_fact_in_build_order),
	    cmocka_unit_test(a_full_scratch_is_no_limit_of_namespaces),
	    cmocka_unit_test(every_layer_of_namespaces_has_a_remedy),
	    cmocka_unit_test(packet_of_a_dead_peer_is_read),
	    cmocka_unit_test(packet_of_another_size_is_refused),
	    cmocka_unit_test(parts_arrive_as_they_were),
	    cmocka_unit_test(malformed_parts_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
