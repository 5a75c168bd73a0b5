/* The jail's network: a loopback, and for a warm the listener that agent-egress serves. */
#ifndef JAIL_NET_H
#define JAIL_NET_H

struct jail_run;

/* In the new network namespace: loopback up, ports below 1024 free for all. 0 or -1. */
int net_loopback(struct jail_run *run);

/* Makes the listener on 127.0.0.1:JAIL_PROXY_PORT, sends it over FD_EGRESS, keeps neither. 0 or
 * -1. */
int net_egress(struct jail_run *run);

#endif
