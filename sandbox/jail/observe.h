/*
 * What the payload tried to reach, and what it was denied: told, so that people know what to warm.
 *
 * Observation is never the wall. The wall is the empty network namespace; this only looks on, and with
 * observe = off the same attempts fail in the same way. How it looks:
 *
 *	calls	connect(2) and sendto(2) with an address of the internet's length stop in the payload's filter
 *		(SECCOMP_RET_USER_NOTIF), the observer reads the address from the caller's memory and lets the
 *		call go on (SECCOMP_USER_NOTIF_FLAG_CONTINUE). It never answers in its place, so that a race
 *		between two threads can falsify what is told and nothing else.
 *	names	a resolver on the jail's own loopback, RESOLVER_ADDRESS, says at once that no name exists and
 *		writes down what it was asked. Not 127.0.0.1: a name server of the tests' own may want that.
 *
 * The observer is PID 1 of the jail, which had nothing to do until now: no further process, nothing to start.
 * The payload can neither signal nor trace it (it is init of its namespace, not dumpable, of the user namespace
 * above), but it can read the payload, being of the user that owns the payload's user namespace. It sees no
 * more than the payload does, has no say in the verdict, which the helper reads from the kernel, and twenty
 * system calls. What it must not do is wait for the payload: it takes no descriptor of the payload's (closing one
 * can linger), reads no file that is backed by anything but the kernel, and all its sockets are non-blocking.
 *
 * When PID 1 ends the whole namespace ends with it. So a dead observer never leaves a payload behind whose calls
 * fail with ENOSYS; the helper sees that PID 1 died before it was told to, and that is JAIL_INTERNAL, no verdict.
 *
 * What it writes down lies in memory shared with outer, which reads it when everything was killed: nothing has to be
 * sent at the end, however it comes. The payload loses the mapping at its exec.
 *
 * Limits, all known:
 *	sendmsg(2), sendmmsg(2) hide the address behind a pointer, and to stop at each would cost every unix socket:
 *		not seen, but what they ask the resolver is. An address of an odd length (17) is let pass. A route out
 *		to a device that is looked at would see them, but then they succeed, and a connect waits, where without
 *		observation there is ENETUNREACH; the counter of the namespace (OutNoRoutes) knows no address.
 *	names	are laid to the program that turned to the resolver last: where several do at once, to the wrong one.
 *	signals	can interrupt a stopped call before the observer has it, which a connect to loopback otherwise does not
 *		see; from then on only death can (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, Linux 5.19), so that Go's
 *		preemption does not make calls start over for ever.
 *	filters	of the payload's own that answer such a call with SECCOMP_RET_TRACE (strace --seccomp-bpf) are passed
 *		over, for ours is the stronger answer. And below a filter with a listener there is no second: who asks
 *		for one gets EBUSY from the kernel, which is counted and told with the remedy, observe = off.
 *	time	that the observer takes is not the control group's: at most one processor, and not while the payload runs
 *		on it, for one waits for the other.
 */
#ifndef JAIL_OBSERVE_H
#define JAIL_OBSERVE_H

#include <stdint.h>

#include "sandbox/jail/dns.h"
#include "sandbox/jail_spec.h"

struct jail_run;
struct resolver;

#define OBSERVE_EXE_MAX 128

struct observe_entry {
	char host[DNS_NAME_MAX]; /* address as text, or name */
	char proto[8];		 /* tcp, udp, icmp, dns, "?" */
	char comm[16];		 /* as the kernel has it: hostile, not always terminated */
	char exe[OBSERVE_EXE_MAX];
	uint16_t port;
	uint64_t count;
	uint64_t count_aaaa; /* of a name: how often for IPv6, mostly beside a query for IPv4 */
};

/* Written by PID 1 alone, and read when it was killed. */
struct observe_table {
	uint32_t used;
	uint64_t more;	    /* attempts that found no room here */
	uint64_t listeners; /* seccomp listeners that the payload asked for */
	struct observe_entry entries[JAIL_EGRESS_MAX];
};

/* Outer, before the helper: the table. */
int observe_make_table(struct jail_run *run);

/* PID 1, when it has made the network: gives up power and serves until its pipe, life, ends; with observe off it
 * only waits for that. Takes both. */
void observe_serve(struct jail_run *run, int life, struct resolver *resolver)
    __attribute__((noreturn));

/* Payload: hands the listener of its filter to PID 1 and closes it. 0 or -1 (step_fail). */
int observe_hand_over(struct jail_run *run, int listener);

/* Payload, behind the self-test: whether what that tried was seen. What comes from here on is the command's. 0 or
 * -1 (step_fail). */
int observe_confirm(struct jail_run *run);

/* Outer, at the end: the table as facts. It is not believed: escaped and bounded here. */
void observe_tell(const struct jail_run *run, struct jail_facts *facts);

#endif
