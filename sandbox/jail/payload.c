#include "payload.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "sandbox/jail/backend.h"
#include "sandbox/jail/cgroup.h"
#include "sandbox/jail/net.h"
#include "sandbox/jail/parts.h"
#include "sandbox/jail/rootfs.h"
#include "sandbox/jail/run.h"

static void __attribute__((noreturn)) give_up(struct jail_run *run)
{
	struct jail_packet packet = {
	    .message = MSG_FAILED, .failure = run->failure, .done = run->done};

	packet_send(run->payload_sock, &packet, -1);
	_exit(1);
}

/*
 * The go from outer: the bytes that the starter sent, checked already, and with a uid of our
 * own the layers' mounts. *fds is an array of *count owned descriptors. 0 or -1.
 */
static int receive_go(struct jail_run *run, struct jail_go *go, int fds[PARTS_MAX],
		      size_t *count)
{
	char *text AUTO_FREE = mem_calloc(JAIL_SPEC_MAX, 1);
	struct error err = {0};
	long len = parts_receive_raw(run->payload_sock, text, JAIL_SPEC_MAX, fds, count);

	if (len == 0)
		_exit(0); /* outer is gone, or there will be no go */
	if (len < 0 || jail_go_parse(text, (size_t)len, go, &err) < 0)
		return step_fail(run, "the go cannot be read %s", err.message);
	return 0;
}

/* What outer made meanwhile; and into the control group, before anything of the payload's own
 * runs. */
static int receive_parts(struct jail_run *run)
{
	if (step_enter(run, STEP_attach) < 0 || parts_receive(run) < 0)
		return step_fail(run, "parts");
	if (cgroup_attach_self(run) < 0)
		return step_fail(run, "the payload cannot be put into its control group");
	step_done(run);
	return 0;
}

static int build(struct jail_run *run, struct rootfs *fs, char work[16])
{
	struct jail_packet prepared = {.message = MSG_PREPARED};
	struct jail_go go;
	int layers[PARTS_MAX];
	size_t count;

	if (rootfs_prepare(run, fs) < 0 || receive_parts(run) < 0 || rootfs_fill(run, fs) < 0 ||
	    net_join(run) < 0)
		return -1;
	if (step_enter(run, STEP_go) < 0 || packet_send(run->payload_sock, &prepared, -1) < 0 ||
	    receive_go(run, &go, layers, &count) < 0)
		return step_fail(run, "go");
	if (run->separate && !count)
		run->spec.copy_layers = true; /* outer could not map their owners */
	else if (run->separate && count != go.layer_count + go.home_count)
		return step_fail(run, "the go lacks layers");
	step_done(run);
	return rootfs_lay_out(run, fs, &go, run->separate ? layers : NULL, work);
}

void payload_main(struct jail_run *run)
{
	struct rootfs fs;
	char work[16];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (step_enter(run, STEP_session) < 0 || setsid() < 0) {
		step_fail(run, "setsid");
		give_up(run);
	}
	step_done(run);
	if (build(run, &fs, work) == 0)
		backend_of(&run->spec)->enter(run, &fs, work);
	give_up(run);
}
