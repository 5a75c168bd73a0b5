#include "egress.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/events.h"
#include "pipeline/fetch/tunnel.h"

#define TUNNELS_MAX 128 /* at once; more wait in the listener's backlog */
#define EVENTS_MAX 4000 /* told one by one; the rest is in the totals */

struct server {
	struct tunnel_shared shared;
	struct tunnel *tunnels[TUNNELS_MAX];
	size_t count;
	unsigned long long told;
	struct egress_totals *totals;
};

/* ---- the listener ---- */

static int check_listener(int fd, struct error *err)
{
	struct sockaddr_storage name = {.ss_family = AF_UNSPEC};
	socklen_t size = sizeof(name), int_size = sizeof(int);
	int listening = 0;
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&name;

	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &int_size) < 0 ||
	    !listening || getsockname(fd, (struct sockaddr *)&name, &size) < 0 ||
	    name.ss_family != AF_INET || ntohl(v4->sin_addr.s_addr) >> 24 != 127)
		return error_set(err, ERROR_ISOLATION,
				 "egress: the jail handed over something else than a listener "
				 "on its loopback");
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return error_errno(err, ERROR_FAILED, errno,
				   "egress: the listener cannot be used");
	return 0;
}

/* 1 and *out, 0 when there is no message, or an error kind. */
static int receive_fd(int fd, int *out, struct error *err)
{
	char byte;
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int) * 4)];
	} control;
	struct iovec part = {&byte, 1};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control.space,
				 .msg_controllen = sizeof(control.space)};
	ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
	int fds[4], extra = 0;

	*out = -1;
	if (n < 0)
		return errno == EINTR ? 0
				      : error_errno(err, ERROR_FAILED, errno,
						    "egress: waiting for the jail");
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		extra = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(c), sizeof(int) * (size_t)extra);
		*out = extra ? fds[0] : -1;
		for (int i = 1; i < extra; i++)
			close(fds[i]);
	}
	if (n == 0 && *out < 0)
		return error_set(err, ERROR_SKIPPED,
				 "egress: the jail ended without a listener");
	if (extra != 1 || message.msg_flags & MSG_CTRUNC) {
		fd_close_ptr(out);
		*out = -1;
		return error_set(err, ERROR_ISOLATION,
				 "egress: the jail sent no single descriptor");
	}
	return 1;
}

int egress_take_listener(int fd, int stop_fd, long long wait_ms, struct error *err)
{
	long long end_ms = fd_now_ms() + wait_ms;

	for (;;) {
		struct pollfd polls[2] = {{fd, POLLIN, 0}, {stop_fd, POLLIN, 0}};
		long long left_ms = end_ms - fd_now_ms();
		int listener = -1, got;

		if (left_ms <= 0)
			return error_set(err, ERROR_ISOLATION,
					 "egress: no listener came from the jail in time"),
			       -1;
		if (poll(polls, 2, (int)(left_ms > 60000 ? 60000 : left_ms)) < 0 &&
		    errno != EINTR)
			return error_errno(err, ERROR_FAILED, errno, "egress: poll"), -1;
		if (polls[1].revents)
			return error_set(err, ERROR_SKIPPED,
					 "egress: told to stop before a listener came"),
			       -1;
		if (!polls[0].revents)
			continue;
		got = receive_fd(fd, &listener, err);
		if (got < 0)
			return -1;
		if (got == 0)
			continue;
		if (check_listener(listener, err)) {
			close(listener);
			return -1;
		}
		return listener;
	}
}

/* ---- the loop ---- */

static void finish(struct server *server, size_t index)
{
	struct tunnel *tunnel = server->tunnels[index];

	if (!tunnel->allowed)
		server->totals->denied++;
	else if (tunnel->failed)
		server->totals->failed++;
	else
		server->totals->allowed++;
	if (server->told < EVENTS_MAX) {
		tunnel_report(tunnel);
		server->told++;
	}
	tunnel_free(tunnel);
	server->tunnels[index] = server->tunnels[--server->count];
	server->tunnels[server->count] = NULL;
}

/* Accepts what is there. A listener that fails for good is the jail's end: it is left out from
 * then on. */
static void accept_all(struct server *server, bool *listening, int listener)
{
	while (server->count < TUNNELS_MAX) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			server->tunnels[server->count++] = tunnel_new(&server->shared, fd);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		if (errno != EAGAIN && errno != EMFILE && errno != ENFILE && errno != ENOMEM)
			*listening = false;
		return;
	}
}

static int next_timeout(const struct server *server, long long end_ms)
{
	long long now = fd_now_ms(), least = end_ms;

	for (size_t i = 0; i < server->count; i++)
		if (server->tunnels[i]->deadline_ms < least)
			least = server->tunnels[i]->deadline_ms;
	least -= now;
	return least < 0 ? 0 : least > 60000 ? 60000 : (int)least;
}

static void step_all(struct server *server, const struct pollfd *polls)
{
	long long now = fd_now_ms();

	/* backwards: finish() moves the last one into the gap */
	for (size_t i = server->count; i-- > 0;) {
		struct tunnel *tunnel = server->tunnels[i];

		if (polls[2 * i].revents || polls[2 * i + 1].revents)
			tunnel_step(tunnel, polls[2 * i].revents, polls[2 * i + 1].revents);
		if (tunnel->state != TUNNEL_DONE && now >= tunnel->deadline_ms)
			tunnel_expire(tunnel);
		if (tunnel->state == TUNNEL_DONE)
			finish(server, i);
	}
}

/* One turn. 0 to go on, 1 when told to stop, or an error kind. */
static int turn(struct server *server, int listener, bool *listening, int stop_fd,
		long long end_ms, struct error *err)
{
	struct pollfd polls[2 * TUNNELS_MAX + 2];
	size_t count = server->count;

	for (size_t i = 0; i < count; i++) {
		const struct tunnel *tunnel = server->tunnels[i];

		/* a socket that nothing is wanted from is left out: its POLLHUP would spin */
		short client = tunnel_client_events(tunnel),
		      remote = tunnel_server_events(tunnel);
		bool watch = client || tunnel->state == TUNNEL_CONNECT;

		polls[2 * i] = (struct pollfd){watch ? tunnel->client : -1, client, 0};
		polls[2 * i + 1] = (struct pollfd){remote ? tunnel->server : -1, remote, 0};
	}
	polls[2 * count] = (struct pollfd){stop_fd, POLLIN, 0};
	polls[2 * count + 1] =
	    (struct pollfd){*listening && count < TUNNELS_MAX ? listener : -1, POLLIN, 0};
	if (poll(polls, 2 * count + 2, next_timeout(server, end_ms)) < 0) {
		if (errno == EINTR)
			return 0;
		return error_errno(err, ERROR_FAILED, errno, "egress: poll");
	}
	step_all(server, polls);
	if (polls[2 * count + 1].revents)
		accept_all(server, listening, listener);
	return polls[2 * count].revents ? 1 : 0;
}

int egress_serve(const struct policy *policy, int listener, int stop_fd,
		 struct egress_totals *totals, struct error *err)
{
	struct server *server = mem_calloc(1, sizeof(*server));
	long long end_ms = fd_now_ms() + policy->wall_ms;
	bool listening = true;
	int result = 0;

	memset(totals, 0, sizeof(*totals));
	server->totals = totals;
	server->shared.policy = policy;
	server->shared.resolved = mem_calloc(policy->count + 1, sizeof(struct resolved));
	server->shared.looked_up = mem_calloc(policy->count + 1, sizeof(bool));
	while (result == 0 && fd_now_ms() < end_ms)
		result = turn(server, listener, &listening, stop_fd, end_ms, err);
	while (server->count)
		finish(server, server->count - 1);
	totals->up_bytes = server->shared.up_bytes;
	totals->down_bytes = server->shared.down_bytes;
	free(server->shared.resolved);
	free(server->shared.looked_up);
	free(server);
	return result < 0 ? result : 0;
}
