/* The jail's network: a loopback, and for a warm the listener that agent-egress serves. */
#ifndef JAIL_NET_H
#define JAIL_NET_H

struct jail_run;
struct resolver;

/*
 * PID 1, while the payload builds its file system: a new network namespace, loopback up, for a
 * warm the listener on 127.0.0.1:JAIL_PROXY_PORT sent over FD_EGRESS, the resolver's sockets; then hands the
 * namespace to the payload on run->net_sock. 0 or -1.
 */
int net_make(struct jail_run *run, struct resolver *resolver);

/* Payload: waits for it and moves in. 0 or -1 (step_fail). */
int net_join(struct jail_run *run);

#endif
