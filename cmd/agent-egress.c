/*
 * NAME
 *	agent-egress - the only way out of a dependency warm: a CONNECT proxy with a list of hosts
 *
 * SYNOPSIS
 *	agent-egress	(started by agent only)
 *
 * READS
 *	FD_JOB	pipeline/fetch/policy.h
 *	FD_EGRESS	one listening socket, made by agent-jail on the loopback of the warm's own network namespace
 *
 * WRITES
 *	FD_CONTROL	{"event":"egress","host","port","allowed":bool,"why","bytes","sent","received","ms"} for each request;
 *		at the end {"event":"result","allowed":N,"denied":N,"failed":N,"sent":N,"received":N}. It ends when the
 *		supervisor shuts its side of FD_CONTROL down for writing, or after the job's wall_ms.
 *
 * SECURITY
 *	Hostile inputs: requests from the jail, bytes of the registries. Reach: the network of the host, no files but
 *	those of the name service, runs nothing. It decides on names and addresses (pipeline/fetch/policy.h,
 *	resolve.h, hello.h), sees no plain text and holds no secret. A compromise can connect anywhere that the
 *	host can; it has nothing to carry there but what the warm itself sends.
 */
#include <stdio.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/events.h"
#include "pipeline/fds.h"
#include "pipeline/fetch/egress.h"
#include "pipeline/fetch/policy.h"
#include "pipeline/stage.h"

static void report(const struct egress_totals *totals)
{
	struct json *result = js_object_new();

	js_set_int(result, "allowed", (long long)totals->allowed);
	js_set_int(result, "denied", (long long)totals->denied);
	js_set_int(result, "failed", (long long)totals->failed);
	js_set_int(result, "sent", (long long)totals->up_bytes);
	js_set_int(result, "received", (long long)totals->down_bytes);
	event_send("result", result);
}

static int run(struct stage *stage, struct error *err)
{
	struct egress_totals totals = {0};
	struct policy policy = {.count = 0};
	AUTO_FD int listener = -1;
	int kind;

	if (policy_parse(stage->job, &policy, err))
		return err->kind;
	listener = egress_take_listener(FD_EGRESS, FD_CONTROL, policy.wall_ms, err);
	if (listener < 0)
		kind = err->kind == ERROR_SKIPPED ? 0 : err->kind;
	else
		kind = egress_serve(&policy, listener, FD_CONTROL, &totals, err);
	policy_release(&policy);
	if (!kind)
		report(&totals);
	return kind;
}

int main(int argc, char **argv)
{
	return stage_main(argc, argv, NULL, run);
}
