#include "payload.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "sandbox/jail/backend.h"
#include "sandbox/jail/cgroup.h"
#include "sandbox/jail/net.h"
#include "sandbox/jail/rootfs.h"
#include "sandbox/jail/run.h"

static void __attribute__((noreturn)) give_up(struct jail_run *run)
{
	struct jail_packet packet = {
	    .message = MSG_FAILED, .failure = run->failure, .done = run->done};

	packet_send(run->payload_sock, &packet, -1);
	_exit(1);
}

/* Into the control group and into the network that PID 1 made, before anything of the payload's own
 * runs. */
static int move_in(struct jail_run *run)
{
	if (step_enter(run, STEP_session) < 0 || setsid() < 0 || chdir("/") < 0)
		return step_fail(run, "setsid");
	step_done(run);
	if (step_enter(run, STEP_attach) < 0 || cgroup_attach_self(run) < 0)
		return step_fail(run, "the payload cannot be put into its control group");
	step_done(run);
	return net_join(run);
}

int payload_let_root_change(struct jail_run *run)
{
	struct jail_packet packet = {.message = MSG_PREPARED};

	run->step = STEP_pivot;
	if (packet_send(run->root_sock, &packet, -1) < 0)
		_exit(1); /* the helper failed and has told outer why */
	return 0;
}

static int hear_helper(struct jail_run *run, struct jail_packet *packet)
{
	int got;

	run->step = STEP_pivot;
	got = packet_receive(run->root_sock, packet, NULL);
	if (got == 0)
		_exit(1); /* the helper failed and has told outer why */
	if (got < 0)
		return step_fail(run, "the helper cannot be heard");
	run->done |= packet->done;
	return 0;
}

int payload_await_root(struct jail_run *run, struct rootfs *fs)
{
	struct jail_packet packet;

	if (hear_helper(run, &packet) < 0)
		return -1;
	memcpy(fs->work, packet.work, sizeof(fs->work));
	if (packet.note[0])
		memcpy(run->note, packet.note, sizeof(run->note));
	return 0;
}

int payload_await_end_of_old(struct jail_run *run)
{
	struct jail_packet packet;

	if (hear_helper(run, &packet) < 0)
		return -1;
	close(run->root_sock);
	run->root_sock = -1;
	return 0;
}

void payload_main(struct jail_run *run, struct rootfs *fs)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (move_in(run) == 0)
		backend_of(&run->spec)->enter(run, fs);
	give_up(run);
}
