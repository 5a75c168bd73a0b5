#include "verdict.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipeline/base/text.h"
#include "sandbox/jail/backend.h"
#include "sandbox/jail/cgroup.h"
#include "sandbox/jail/observe.h"
#include "sandbox/jail/outer.h"

/* How the payload ended: as the helper saw it, or as the sandbox's runner did. */
static const struct jail_packet *payload_end(const struct outer *outer)
{
	return outer->inner.message ? &outer->inner : &outer->end;
}

/* What runsc said about itself, escaped. */
static void put_said(const struct jail_run *run, char *out, size_t size)
{
	char text[400];
	ssize_t len = run->said < 0 ? -1 : pread(run->said, text, sizeof(text), 0);

	while (len > 0 && text[len - 1] == '\n')
		len--;
	text_escape(out, size, text, len > 0 ? (size_t)len : 0);
}

/*
 * The sandbox ended, and its runner did not tell how the payload had: no verdict on the payload, unless
 * the kernel killed the sandbox for memory, or refused it a thread: that it does not survive.
 */
static void decide_untold(const struct outer *outer, struct jail_facts *facts)
{
	char said[400];

	facts->value = SIGKILL;
	facts->outcome = facts->oom_count ? JAIL_OOM : JAIL_INTERNAL;
	if (facts->oom_count)
		return;
	if (cgroup_was_full(&outer->run)) {
		facts->outcome = JAIL_LIMIT;
		snprintf(facts->detail, sizeof(facts->detail), JAIL_PROCESSES_TOLD);
		return;
	}
	put_said(&outer->run, said, sizeof(said));
	snprintf(
	    facts->detail, sizeof(facts->detail),
	    "the sandbox died while the command ran (%s %d)%s%s%s",
	    outer->end.code == CLD_EXITED ? "status" : "signal", outer->end.status,
	    said[0] ? ": " : "", said,
	    outer->run.cgroup.kind == CGROUP_NONE
		? ": with degraded limits it does so when it has used up jail.memory itself"
		: "");
}

static int to_int(uint64_t value)
{
	return value > INT_MAX ? INT_MAX : (int)value;
}

static void decide(const struct outer *outer, struct jail_facts *facts)
{
	const struct jail_run *run = &outer->run;
	const struct jail_packet *end = payload_end(outer);
	bool was_killed = end->code == CLD_KILLED || end->code == CLD_DUMPED;
	int signal_number = was_killed ? end->status : 0;

	snprintf(facts->detail, sizeof(facts->detail), "%s", run->note);
	if (backend_of(&run->spec)->far && !outer->inner.message && !outer->timed_out) {
		decide_untold(outer, facts);
		return;
	}
	facts->value = end->status;
	if (!was_killed)
		facts->outcome = JAIL_EXITED;
	else if (outer->timed_out && signal_number == SIGKILL) {
		facts->outcome = JAIL_TIMEOUT;
		facts->value = outer->idle ? to_int(run->spec.limits.idle_ms)
					   : to_int(run->spec.limits.wall_ms);
		if (outer->idle)
			snprintf(facts->detail, sizeof(facts->detail), JAIL_IDLE_TOLD " %d ms",
				 facts->value);
	} else if (signal_number == SIGKILL && facts->oom_count)
		facts->outcome = JAIL_OOM;
	else if (signal_number == SIGXFSZ ||
		 (run->spec.limits.cpu_s && signal_number == SIGXCPU) ||
		 (run->spec.limits.cpu_s && signal_number == SIGKILL &&
		  end->cpu_ms >= run->spec.limits.cpu_s * 1000))
		facts->outcome = JAIL_LIMIT;
	else if (signal_number == SIGSYS) {
		facts->outcome = JAIL_KILLED;
		facts->value = -1; /* which call is not known here */
	} else
		facts->outcome = JAIL_SIGNALED;
}

static void put_failure(const struct jail_failure *failure, struct jail_facts *facts)
{
	char what[512];

	text_escape(what, sizeof(what), failure->what, strlen(failure->what));
	snprintf(facts->detail, sizeof(facts->detail), "%s: %s%s%s",
		 failure->step < STEP_COUNT ? step_name(failure->step) : "jail", what,
		 failure->err ? ": " : "", failure->err ? strerror(failure->err) : "");
	step_remedy(failure, facts->next, sizeof(facts->next));
}

/* Died before it said that everything holds. */
static void put_untimely_end(const struct outer *outer, struct jail_facts *facts)
{
	const struct jail_run *run = &outer->run;
	struct jail_failure failure = {.step = STEP_gvisor};
	char said[400];

	put_said(run, said, sizeof(said));
	facts->outcome = JAIL_SETUP;
	snprintf(facts->detail, sizeof(facts->detail), "%s: it died in its set-up (%s %d)%s%s",
		 backend_of(&run->spec)->far ? step_name(STEP_gvisor) : "payload",
		 outer->end.code == CLD_EXITED ? "status" : "signal", outer->end.status,
		 said[0] ? ": " : "", said);
	if (backend_of(&run->spec)->far)
		step_remedy(&failure, facts->next, sizeof(facts->next));
}

void verdict_fill(const struct outer *outer, struct jail_facts *facts)
{
	const struct jail_run *run = &outer->run;
	const struct jail_packet *end = payload_end(outer);

	snprintf(facts->uid, sizeof(facts->uid), "%s",
		 run->separate ? "separate"
		 : run->ranged ? "subuid"
			       : "shared");
	snprintf(facts->limits, sizeof(facts->limits), "%s", cgroup_text(run));
	snprintf(facts->work, sizeof(facts->work), "%s", outer->work);
	snprintf(facts->backend, sizeof(facts->backend), "%s",
		 jail_backend_text(run->spec.backend));
	snprintf(facts->scratch, sizeof(facts->scratch), "%s",
		 jail_scratch_text(run->spec.on_disk));
	step_layers(run, facts->layers, sizeof(facts->layers));
	cgroup_measure(run, &facts->oom_count, &facts->memory_peak_bytes);
	facts->oom_count += end->too_much;
	facts->leftover = end->leftover;
	observe_tell(run, facts);
	if (outer->ready && end->now_ms >= outer->started_ms)
		facts->elapsed_ms = (uint64_t)(end->now_ms - outer->started_ms);
	if (run->failure.what[0]) {
		facts->outcome = outer->ready ? JAIL_INTERNAL : JAIL_SETUP;
		put_failure(&run->failure, facts);
	} else if (outer->reclaimed) {
		facts->outcome = JAIL_EXITED;
	} else if (outer->starter_gone) {
		facts->outcome = JAIL_INTERNAL;
		snprintf(facts->detail, sizeof(facts->detail),
			 "the program that started the jail is gone");
	} else if (outer->not_run.message) {
		facts->outcome = JAIL_NOT_RUN;
		facts->value = outer->not_run.failure.err;
		text_escape(facts->detail, sizeof(facts->detail) / 2,
			    outer->not_run.failure.what, strlen(outer->not_run.failure.what));
		snprintf(facts->detail + strlen(facts->detail),
			 sizeof(facts->detail) - strlen(facts->detail), ": %s",
			 strerror(facts->value));
	} else if (!outer->ready) {
		put_untimely_end(outer, facts);
	} else {
		decide(outer, facts);
	}
}
