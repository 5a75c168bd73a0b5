/*
 * Telling the service manager how we are (sd_notify(3), "Standalone Implementations"), by a datagram to the AF_UNIX
 * socket that $NOTIFY_SOCKET names. No library.
 */
#ifndef PIPELINE_NOTIFY_H
#define PIPELINE_NOTIFY_H

/* Sends "READY=1", "STOPPING=1", "WATCHDOG=1", … Nothing where nobody listens: the service goes on without. */
void notify_send(const char *state);

/* Milliseconds between two signs of life that the manager wants ($WATCHDOG_USEC, half of it), 0: none. */
long long notify_watchdog_ms(void);

#endif
