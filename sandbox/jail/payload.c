#include "payload.h"

#include <errno.h>
#include <signal.h>
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

/* The helper writes a byte once the old root is gone: what lies over the root is a changed root to the
 * kernel, and then there is no user namespace for us. */
static int wait_for_root(struct jail_run *run, int built)
{
	char byte;
	ssize_t n;

	run->step = STEP_pivot;
	do
		n = read(built, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n == 0)
		_exit(1); /* the helper failed and has told outer why */
	if (n < 0)
		return step_fail(run, "the helper cannot be heard");
	run->done |= 1ULL << STEP_root | 1ULL << STEP_pivot;
	close(built);
	return 0;
}

void payload_main(struct jail_run *run, const struct rootfs *fs, int built)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (move_in(run) == 0 && wait_for_root(run, built) == 0)
		backend_of(&run->spec)->enter(run, fs);
	give_up(run);
}
