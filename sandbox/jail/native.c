/* The backend "native": the payload is a process of the host's kernel. See backend.h. */
#include "backend.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/fds.h"
#include "sandbox/jail/calls.h"
#include "sandbox/jail/applied.h"
#include "sandbox/jail/command.h"
#include "sandbox/jail/confine.h"
#include "sandbox/jail/observe.h"
#include "sandbox/jail/payload.h"
#include "sandbox/jail/rootfs.h"
#include "sandbox/jail/run.h"
#include "sandbox/jail/stdio_kind.h"

static int place_stdio(int from, int to)
{
	int null AUTO_FD = -1;
	char kind;

	if (stdio_kind(from, &kind) < 0)
		return -1;
	if (kind == 'n') {
		null = open("/dev/null", O_RDWR | O_CLOEXEC);
		from = null;
	}
	return dup2(from, to);
}

/* Right above the standard descriptors: to outer, where there is an observer to that, from the helper. */
static int place_socks(struct jail_run *run)
{
	int *const kept[] = {&run->payload_sock, run->spec.observe ? &run->net_sock : NULL,
			     &run->root_sock};
	int next = 3;

	if (!run->spec.observe)
		run->net_sock = -1;
	for (size_t i = 0; i < ARRAY_LEN(kept); i++) /* above all of their places first */
		if (kept[i] && (*kept[i] = fcntl(*kept[i], F_DUPFD_CLOEXEC, 6)) < 0)
			return -1;
	for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
		if (!kept[i])
			continue;
		if (dup3(*kept[i], next, O_CLOEXEC) < 0)
			return -1;
		*kept[i] = next++;
	}
	return close_range((unsigned)next, ~0U, 0);
}

static int close_all_but_socks(struct jail_run *run)
{
	if (step_enter(run, STEP_stdio) < 0 || place_stdio(FD_STDIN, 0) < 0 ||
	    place_stdio(FD_STDOUT, 1) < 0 || place_stdio(FD_STDERR, 2) < 0)
		return step_fail(run,
				 "standard descriptors (a pipe, /dev/null, or a terminal of "
				 "its own)");
	if (place_socks(run) < 0)
		return step_fail(run, "descriptors");
	step_done(run);
	return 0;
}

static int confine(struct jail_run *run, struct rootfs *fs)
{
	if (step_enter(run, STEP_cgroupns) < 0 || unshare(CLONE_NEWCGROUP) < 0)
		return step_fail(run, "unshare(CLONE_NEWCGROUP)");
	step_done(run);
	if (confine_namespace(run, fs->sys) < 0 || payload_let_root_change(run) < 0 ||
	    confine_ids(run, fs->proc, fs->sys) < 0 || confine_rlimits(run) < 0 ||
	    confine_capabilities(run) < 0 || payload_await_root(run, fs) < 0 ||
	    close_all_but_socks(run) < 0 || confine_landlock(run) < 0 ||
	    confine_seccomp(run) < 0 || payload_await_end_of_old(run) < 0 ||
	    confine_self_test(run, run->spec.observe ? run->net_sock : run->payload_sock) < 0)
		return -1;
	return observe_confirm(run);
}

/* Says that everything holds, and becomes the command. */
static void become(struct jail_run *run, const struct rootfs *fs)
{
	struct jail_packet packet = {.message = MSG_READY};

	prctl(PR_SET_PDEATHSIG, 0);
	packet.done = run->done;
	memcpy(packet.note, run->note, sizeof(packet.note));
	memcpy(packet.work, fs->work, sizeof(packet.work));
	packet.now_ms = fd_now_ms();
	command_become(run, &packet);
}

void native_enter(struct jail_run *run, struct rootfs *fs)
{
	/* outer checks the same, but might be heard only when the command runs already */
	if (confine(run, fs) < 0 || backend_check_layers(run) < 0)
		return;
	command_reset();
	if (applied_collect(run) == 0)
		become(run, fs);
}
