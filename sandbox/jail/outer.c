#include "outer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/exitcode.h"
#include "pipeline/fds.h"
#include "sandbox/jail/calls.h"
#include "sandbox/jail/applied.h"
#include "sandbox/jail/backend.h"
#include "sandbox/jail/cgroup.h"
#include "sandbox/jail/disk.h"
#include "sandbox/jail/helper.h"
#include "sandbox/jail/identity.h"
#include "sandbox/jail/layers.h"
#include "sandbox/jail/observe.h"
#include "sandbox/jail/parts.h"
#include "sandbox/jail/range.h"
#include "sandbox/jail/run.h"
#include "sandbox/jail/sweep.h"
#include "sandbox/jail/tree.h"
#include "sandbox/jail/verdict.h"
#include "sandbox/jail_applied.h"
#include "sandbox/jail_take.h"

#define SET_UP_MS 30000 /* before the go, and again behind it */
#define COPY_MS 600000	/* behind the go when layers are copied */
#define TEAR_DOWN_MS 10000
#define DISK_GRACE_MS 5000 /* who was killed and has not ended by then waits for the disk */
#define DISK_TEAR_DOWN_MS 60000 /* some 100 MiB can be on their way to one */
#define TAKE_MS (JAIL_TAKE_MS + 60000)
#define GO_MAX 65536

/* ---- start ---- */

/* So that tear_down can wait for it with a deadline; whoever is forked inherits this, and the payload
 * sets its own to nothing. */
static void hold_child_signal(void)
{
	sigset_t ends;

	sigemptyset(&ends);
	sigaddset(&ends, SIGCHLD);
	sigprocmask(SIG_BLOCK, &ends, NULL);
}

/* Only what the descriptor map gives us stays open, and nothing of it survives an exec. */
static int take_descriptors(struct jail_run *run)
{
	if (step_enter(run, STEP_start) < 0)
		return step_fail(run, "start");
	close_range(3, FD_FACTS - 1, 0);
	close_range(FD_STDERR + 1, FD_EGRESS - 1, 0);
	close_range(FD_EGRESS + 1, FD_TAKE - 1, 0);
	close_range(FD_TAKE + 1, ~0U, 0);
	if (close_range(FD_FACTS, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
		return step_fail(run, "close_range: Linux 5.11 or newer is needed");
	for (int fd = FD_SPEC; fd <= FD_STDERR; fd++)
		if (!fd_is_open(fd))
			return step_fail(run, "descriptor %d is missing", fd);
	prctl(PR_SET_DUMPABLE, 0);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a limit of our starter's is an error that can be told */
	signal(SIGCHLD, SIG_DFL);
	hold_child_signal();
	umask(022);
	/* what the helper leaves if it is killed comes to us, to be reaped */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 || chdir("/") < 0)
		return step_fail(run, "start");
	alarm(SET_UP_MS /
	      1000); /* for steps of our own that hang, such as a dead network file system */
	return 0;
}

static int read_spec(struct jail_run *run)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	struct error err = {0};
	const int wanted = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;

	if (step_enter(run, STEP_spec) < 0)
		return step_fail(run, "spec");
	if ((fcntl(FD_SPEC, F_GET_SEALS) & wanted) != wanted) {
		errno = 0;
		return step_fail(run, "the spec is not a sealed memory file");
	}
	strbuf_init(&text, JAIL_SPEC_MAX);
	if (fd_pread_all(FD_SPEC, &text) < 0)
		return step_fail(run, "the spec cannot be read");
	close(FD_SPEC);
	errno = 0;
	if (jail_spec_parse(text.data, text.len, &run->spec, &err) < 0)
		return step_fail(run, "%s", err.message);
	if (run->spec.egress != fd_is_open(FD_EGRESS))
		return step_fail(run, "egress was %s, but its descriptor is %s",
				 run->spec.egress ? "asked for" : "not asked for",
				 run->spec.egress ? "missing" : "open");
	if (run->spec.take != fd_is_open(FD_TAKE))
		return step_fail(run, "the changes were %s, but their descriptor is %s",
				 run->spec.take ? "asked for" : "not asked for",
				 run->spec.take ? "missing" : "open");
	step_done(run);
	return 0;
}

/* fork(2), under cgroup v2 straight into the group beside the payload's. */
static pid_t fork_helper(const struct jail_run *run)
{
	struct clone_args args = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD};

	if (run->cgroup.kind != CGROUP_V2)
		return fork();
	args.cgroup = (uint64_t)run->cgroup.ctl;
	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

static int start_helper(struct outer *outer)
{
	struct jail_run *run = &outer->run;
	int payload[2], helper[2];

	if (step_enter(run, STEP_helper) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, payload) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, helper) < 0)
		return step_fail(run, "socketpair");
	outer->helper = fork_helper(run);
	if (outer->helper < 0)
		return step_fail(run, "fork of the helper");
	if (outer->helper == 0) {
		close(FD_FACTS);
		close(FD_GO);
		close(payload[0]);
		close(helper[0]);
		fd_close_ptr(&run->disk_root); /* through which it is shut down */
		run->payload_sock = payload[1];
		run->helper_sock = helper[1];
		helper_main(run);
	}
	close(payload[1]);
	close(helper[1]);
	run->payload_sock = payload[0];
	run->helper_sock = helper[0];
	fd_close_ptr(&run->disk);
	close_range(FD_STDIN, FD_STDERR, 0);
	if (run->spec.egress)
		close(FD_EGRESS);
	if (run->spec.take)
		close(FD_TAKE);
	step_done(run);
	return 0;
}

/*
 * A payload with a uid of its own could not open /dev/stdout and /dev/stderr: a pipe belongs to
 * who made it.
 */
static void give_pipes(const struct jail_run *run)
{
	for (int fd = FD_STDIN; (run->separate || run->ranged) && fd <= FD_STDERR; fd++) {
		struct statfs fs;

		if (fstatfs(fd, &fs) < 0 || fs.f_type != PIPEFS_MAGIC)
			continue;
		/* a user may not give it away; nobody finds the way to it but by a process that holds it */
		if ((run->separate ? fchown(fd, run->uid, run->gid) : fchmod(fd, 0666)) < 0)
			return; /* it can write to what it holds all the same */
	}
}

static int find_backend(struct jail_run *run)
{
	const struct backend *backend = backend_of(&run->spec);

	return backend->find ? backend->find(run) : 0;
}

static int set_up(struct outer *outer)
{
	struct jail_run *run = &outer->run;

	if (find_backend(run) < 0 || identity_choose(run) < 0 || disk_open(run) < 0 ||
	    cgroup_find(run) < 0)
		return -1;
	give_pipes(run);
	if (applied_open(run) < 0 || observe_make_table(run) < 0 || start_helper(outer) < 0)
		return -1;
	/* meanwhile the namespaces come to be */
	if (cgroup_make(run) < 0 || (run->separate && tree_open_sources(run) < 0))
		return -1;
	return parts_send(run);
}

/* ---- events ---- */

static long long tear_down_ms(const struct outer *outer)
{
	return outer->run.spec.on_disk ? DISK_TEAR_DOWN_MS : TEAR_DOWN_MS;
}

/* The helper takes this as the word to kill everything; it answers with MSG_ENDED. */
static void tell_helper_to_end(struct outer *outer)
{
	const bool may_stop = outer->run.spec.on_disk && !outer->run.spec.take;

	shutdown(outer->run.helper_sock, SHUT_WR);
	outer->deadline_ms = fd_now_ms() + (may_stop ? DISK_GRACE_MS : tear_down_ms(outer));
}

/* Whoever flushes a file ends when that has, killed or not: what is not on its way to the disk need not get there. */
static void stop_disk(struct outer *outer)
{
	if (outer->run.disk_root >= 0)
		disk_shut_down(outer->run.disk_root);
	fd_close_ptr(&outer->run.disk_root);
}

static void take_go(struct outer *outer)
{
	static const char end[] = "go=1"; /* with its NUL: nothing may follow */
	struct jail_run *run = &outer->run;
	struct strbuf *text = &outer->go_text;
	struct error err = {0};

	if (text->full) {
		errno = 0;
		run->step = STEP_go;
		step_fail(run, "the go is larger than %d bytes", GO_MAX);
		return;
	}
	if (text->len < sizeof(end) ||
	    memcmp(text->data + text->len - sizeof(end), end, sizeof(end)) != 0)
		return;
	if (text->len > sizeof(end) && text->data[text->len - sizeof(end) - 1])
		return; /* the end of a longer value */
	run->step = STEP_go;
	errno = 0;
	if (jail_go_parse(text->data, text->len, &outer->go, &err) < 0) {
		step_fail(run, "%s", err.message);
		return;
	}
	outer->have_go = true;
	alarm(SET_UP_MS / 1000);
	layers_send(run, &outer->go);
	alarm(0);
	outer->deadline_ms = fd_now_ms() + SET_UP_MS;
}

/* The starter, which alone sees the output, says that none came for as long as the spec allows. */
static void on_idle(struct outer *outer)
{
	if (!outer->run.spec.limits.idle_ms || !outer->ready || outer->timed_out ||
	    outer->ended)
		return;
	outer->timed_out = outer->idle = true;
	tell_helper_to_end(outer);
}

static void on_go(struct outer *outer)
{
	char chunk[4096];
	ssize_t len = read(FD_GO, chunk, sizeof(chunk));

	if (len < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (len <= 0) {
		outer->starter_gone = true;
		return;
	}
	if (outer->have_go) {
		if (memchr(chunk, JAIL_GO_IDLE, (size_t)len))
			on_idle(outer);
		return; /* nothing else is meant to come; it has no effect */
	}
	strbuf_add(&outer->go_text, chunk, (size_t)len);
	take_go(outer);
}

static void on_copy(struct outer *outer, char which, int target_fd)
{
	int target AUTO_FD = target_fd;
	struct jail_packet answer = {.message = MSG_COPIED};

	outer->deadline_ms = fd_now_ms() + COPY_MS;
	if (!outer->have_go || target < 0)
		return;
	if (layers_copy(&outer->run, &outer->go, which, target) < 0)
		answer.failure = outer->run.failure;
	packet_send(outer->run.payload_sock, &answer, -1);
	outer->deadline_ms = fd_now_ms() + SET_UP_MS;
}

static void keep_failure(struct jail_run *run, const struct jail_packet *packet)
{
	run->done |= packet->done;
	if (!run->failure.what[0])
		run->failure = packet->failure;
}

/* One message of the payload while it is still our code. Once it has become the command, its
 * end is closed. */
static void on_payload(struct outer *outer)
{
	struct jail_run *run = &outer->run;
	struct jail_packet packet;
	int fd = -1;

	if (packet_receive(run->payload_sock, &packet, &fd) != 1) {
		close(run->payload_sock);
		run->payload_sock = -1;
		return;
	}
	if (packet.message == MSG_COPY) {
		on_copy(outer, packet.which, fd);
		return;
	}
	if (fd >= 0)
		close(fd);
	if (packet.message == MSG_PREPARED && !outer->have_go) {
		outer->deadline_ms = LLONG_MAX;
	} else if (packet.message == MSG_READY) {
		run->done |= packet.done;
		if (backend_check_layers(run) < 0)
			return;
		if (backend_of(&run->spec)->far)
			packet.now_ms = fd_now_ms();
		outer->ready = true;
		outer->started_ms = packet.now_ms;
		outer->deadline_ms = LLONG_MAX;
		if (run->spec.limits.wall_ms < (uint64_t)LLONG_MAX - (uint64_t)packet.now_ms)
			outer->deadline_ms =
			    packet.now_ms + (long long)run->spec.limits.wall_ms;
		memcpy(outer->work, packet.work, sizeof(outer->work));
		if (packet.note[0])
			memcpy(run->note, packet.note, sizeof(run->note));
		applied_take(run, &outer->applied);
		cgroup_sweep(run); /* there is time now */
	} else if (packet.message == MSG_ENDED && backend_of(&run->spec)->far) {
		outer->inner = packet;
		outer->inner.now_ms = fd_now_ms();
		tell_helper_to_end(outer); /* the rest of the sandbox has no say any more */
	} else if (packet.message == MSG_NOT_RUN) {
		outer->not_run = packet;
	} else if (packet.message == MSG_FAILED) {
		keep_failure(run, &packet);
	}
}

static void on_helper(struct outer *outer)
{
	struct jail_run *run = &outer->run;
	struct jail_packet packet;
	int fd AUTO_FD = -1;

	if (packet_receive(run->helper_sock, &packet, &fd) != 1) {
		errno = 0;
		run->step = outer->ready ? STEP_COUNT : run->step;
		step_fail(run, "the helper process died");
		return;
	}
	if (packet.message == MSG_MAP && run->ranged && !outer->ready) {
		range_serve(run, outer->helper);
	} else if (packet.message == MSG_FAILED) {
		keep_failure(run, &packet);
	} else if (packet.message == MSG_SCRATCH) {
		sweep_take(&outer->sweep, fd_steal(&fd));
	} else if (packet.message == MSG_ENDED) {
		outer->end = packet;
		outer->ended = true;
	}
}

static void on_deadline(struct outer *outer)
{
	struct jail_run *run = &outer->run;

	errno = 0;
	if (outer->ready && !outer->timed_out && !outer->starter_gone) {
		outer->timed_out = true;
		tell_helper_to_end(outer);
		return;
	}
	if (outer->ready && run->disk_root >= 0 && !run->spec.take) {
		stop_disk(outer);
		outer->deadline_ms = fd_now_ms() + tear_down_ms(outer);
		return;
	}
	if (outer->ready)
		run->step = STEP_COUNT;
	step_fail(run,
		  outer->ready ? "processes of the jail cannot be killed"
			       : "the set-up takes longer than %d s",
		  SET_UP_MS / 1000);
}

/* A starter that takes goes when it has all, and that is after the helper reported the command's end: a report
 * that is there by now came before. */
static void hear_helper_first(struct outer *outer)
{
	struct pollfd polled = {outer->run.helper_sock, POLLIN, 0};

	while (outer->starter_gone && !outer->ended && !outer->run.failure.what[0] &&
	       poll(&polled, 1, 0) == 1)
		on_helper(outer);
	if (outer->ended)
		outer->starter_gone = false;
}

/* Until the helper has reported, something failed, or nobody is there to say go. */
static void watch(struct outer *outer)
{
	struct jail_run *run = &outer->run;
	bool told = false;

	alarm(0);
	prctl(PR_SET_PDEATHSIG,
	      0); /* from here on the starter's end is seen, and cleaned up after */
	outer->deadline_ms = fd_now_ms() + SET_UP_MS;
	while (!outer->ended && !run->failure.what[0] &&
	       (!outer->starter_gone || outer->ready)) {
		struct pollfd polled[3] = {{run->payload_sock, POLLIN, 0},
					   {run->helper_sock, POLLIN, 0},
					   {outer->starter_gone ? -1 : FD_GO, POLLIN, 0}};
		long long left = outer->deadline_ms - fd_now_ms();
		int n = poll(polled, 3, left > INT_MAX ? INT_MAX : left < 0 ? 0 : (int)left);

		if (n < 0 && errno != EINTR) {
			step_fail(run, "poll");
			return;
		}
		if (n <= 0 && fd_now_ms() >= outer->deadline_ms) {
			on_deadline(outer);
			continue;
		}
		if (n <= 0)
			continue;
		if (polled[0].revents)
			on_payload(outer);
		else if (polled[1].revents)
			on_helper(outer);
		if (polled[2].revents) {
			on_go(outer);
			hear_helper_first(outer);
		}
		if (outer->starter_gone && outer->ready && !told && !outer->ended) {
			told = true;
			tell_helper_to_end(outer);
		}
	}
	/* what the payload said before it became the command, or before it failed to */
	while (outer->ended && run->payload_sock >= 0)
		on_payload(outer);
}

/* ---- end ---- */

/* The helper has the changes read from it; it ends when the starter closes FD_TAKE or asks no more
 * (jail/take.h). Its end of the socket closes with it. */
static void await_taking(const struct outer *outer)
{
	struct pollfd polled = {outer->run.helper_sock, 0, 0};
	const long long until = fd_now_ms() + TAKE_MS;
	long long left;

	if (!outer->run.spec.take || !outer->ended || outer->run.failure.what[0])
		return;
	while ((left = until - fd_now_ms()) > 0 &&
	       (poll(&polled, 1, (int)left) <= 0 || !(polled.revents & POLLHUP)))
		polled.revents = 0;
}

/*
 * Kills what is left and reaps it: the helper, and what comes to us when it has ended, PID 1 and
 * strangers made by CLONE_PARENT. PID 1 has ended only when every process of its namespace has.
 * False when something cannot be killed.
 */
static bool tear_down(struct outer *outer)
{
	const long long deadline_ms = fd_now_ms() + tear_down_ms(outer);
	sigset_t ends;

	if (outer->helper > 0 && !outer->ended)
		kill(outer->helper, SIGKILL); /* PID 1 ends with it */
	stop_disk(outer);
	if (outer->helper <= 0)
		return true;
	sigemptyset(&ends);
	sigaddset(&ends, SIGCHLD);
	for (;;) {
		pid_t pid = waitpid(-1, NULL, WNOHANG);
		const struct timespec a_while = {0, 100000000};

		if (pid < 0 && errno == ECHILD)
			return true;
		if (pid)
			continue;
		if (fd_now_ms() >= deadline_ms)
			return false;
		sigtimedwait(&ends, NULL, &a_while);
	}
}

/* All that goes to FD_FACTS. */
static void format_all(const struct outer *outer, const struct jail_facts *facts,
		       struct strbuf *text)
{
	strbuf_reset(text);
	strbuf_add(text, outer->applied.data, outer->applied.len);
	jail_facts_format(facts, text);
}

/* A spec that runs nothing: only gives back what a killed jail left. */
static void reclaim(struct outer *outer)
{
	alarm(0); /* there may be much of it: the starter's deadline counts */
	outer->reclaimed = range_reclaim(&outer->run, outer->run.spec.scratch) == 0;
}

static void run_jail(struct outer *outer)
{
	struct jail_run *run = &outer->run;

	if (take_descriptors(run) < 0 || read_spec(run) < 0)
		return;
	if (run->spec.reclaim)
		reclaim(outer);
	else if (set_up(outer) == 0)
		watch(outer);
}

/* Everything of the jail has ended. */
static void clean_up(struct outer *outer, struct jail_facts *facts)
{
	const char *what = NULL;

	if (!tear_down(outer))
		what = "processes of the jail cannot be killed";
	else if (range_take_back(&outer->run) < 0 && facts->outcome != JAIL_SETUP)
		/* (where nothing ran it is told what could not be given) */
		what = "what it wrote cannot be given back to its user: agent gc tries again";
	cgroup_close(&outer->run);
	sweep_end(&outer->sweep);
	if (!what)
		return;
	facts->outcome = JAIL_INTERNAL;
	snprintf(facts->detail, sizeof(facts->detail), "%s", what);
}

/* What outer has in memory ends with it. */
static int end(struct outer *outer)
{
	static struct jail_facts facts; /* large, and mostly left zero */
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	enum jail_outcome outcome;
	/* No go: nothing was run, and nobody waits to hear so. */
	const bool quiet =
	    outer->starter_gone && !outer->have_go && !outer->run.failure.what[0];

	verdict_fill(outer, &facts);
	await_taking(outer);
	sweep_decide(&outer->sweep, &outer->run);
	if (outer->ended)
		cgroup_close_empty(&outer->run); /* while the rest ends */
	strbuf_init(&text, JAIL_SPEC_MAX);
	format_all(outer, &facts, &text);
	outcome = facts.outcome;
	clean_up(outer, &facts);
	if (facts.outcome != outcome)
		format_all(outer, &facts, &text);
	if (quiet)
		return EXIT_DONE;
	if (fd_write_all(FD_FACTS, text.data, text.len) < 0)
		return EXIT_FAILED;
	return facts.outcome == JAIL_SETUP ? EXIT_ISOLATION : EXIT_DONE;
}

int outer_main(const char *fault)
{
	struct outer outer;

	memset(&outer, 0, sizeof(outer));
	run_init(&outer.run);
	sweep_init(&outer.sweep);
	outer.run.fault = fault;
	strbuf_init(&outer.go_text, GO_MAX);
	strbuf_init(&outer.applied, (size_t)2 * JAIL_APPLIED_MAX);
	run_jail(&outer);
	return end(&outer);
}
