/*
 * Starting agent-jail before the starter gives up power (agent-test, agent-fetch, by their
 * row's starts_jail). The jail helper waits; once the starter, by then restricted, has laid out
 * the tree it sends the go. The spec comes from the supervisor, so a compromised starter can
 * choose layers in the store and no more.
 */
#ifndef SANDBOX_JAIL_START_H
#define SANDBOX_JAIL_START_H

#include <stdbool.h>
#include <sys/types.h>

struct error;
struct jail_go;

struct jail_handle {
	pid_t pid;
	int go_fd;     /* owned: socket to the helper */
	int output_fd; /* owned: read end of the payload's stdout and stderr, -1 when the caller
			  gave both */
	bool takes; /* set before jail_start: what the command changes can be read from take_fd,
		       where the spec says so too */
	int take_fd;	   /* owned: sandbox/jail_take.h; -1 without takes */
	long long idle_ms; /* as in the spec: jail_collect says when no output came for so long;
			      0 (from jail_start): never */
};

/*
 * Forks and execs agent-jail (the file beside our own executable). facts_fd and spec_fd are
 * passed as FD_FACTS, FD_SPEC and closed here (also on failure); egress_fd (or -1) as FD_EGRESS
 * and closed here; stdin_fd (or -1 for /dev/null), stdout_fd and stderr_fd (or -1 for one new
 * pipe) as the payload's and closed here. Only for the prestart hook of a stage. 0 or
 * ERROR_ISOLATION.
 */
int jail_start(struct jail_handle *jail, int facts_fd, int spec_fd, int egress_fd, int stdin_fd,
	       int stdout_fd, int stderr_fd, struct error *err);

/* Sends the go. 0 or ERROR_ISOLATION. */
int jail_send_go(struct jail_handle *jail, const struct jail_go *go, struct error *err);

/*
 * Reads the payload's output to the end of file and writes at most max_bytes of it to log_fd:
 * the first half and the last half, with a line in between that says how much was left out;
 * drains the rest. Gives the totals. Then waits for agent-jail itself. The verdict is not here:
 * it went to the supervisor. 0, or ERROR_FAILED when the log cannot be written (the jail is
 * ended then).
 */
int jail_collect(struct jail_handle *jail, int log_fd, size_t max_bytes,
		 unsigned long long *total, int *truncated, struct error *err);

/* The first half of it: the output to its end, by when the command and all that it started have ended.
 * For a jail that takes, which lives on until take_fd is closed; jail_close then waits for it. */
int jail_capture(struct jail_handle *jail, int log_fd, size_t max_bytes,
		 unsigned long long *total, int *truncated, struct error *err);

/* Ends a jail that got no go, or releases after jail_collect. */
void jail_close(struct jail_handle *jail);

#endif
