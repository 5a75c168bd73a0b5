/*
 * Asking agent-dial for a connection. FD_NET is a unix SOCK_SEQPACKET socket: the stage sends
 * "c"; agent-dial connects to the one host:port of its job (trying each address, private ones
 * refused unless allowed), keeps the TCP socket, and answers with "ok" and one end of a
 * socketpair (SCM_RIGHTS), or with "no <reason>". It then pumps bytes both ways with
 * half-close. Several connections may be open at once.
 *
 * agent-dial's job: {"host","port","private_ok":bool,"connect_ms":N}
 */
#ifndef PIPELINE_DIAL_H
#define PIPELINE_DIAL_H

struct error;

/* A new connected socket (close-on-exec; the caller closes), or -1 with err (ERROR_FAILED; the
 * reason is agent-dial's). */
int dial_connect(int net_fd, struct error *err);

#endif
