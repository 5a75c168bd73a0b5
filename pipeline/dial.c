#include "dial.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"

/* agent-dial answers after its own time limits (resolver, then connect_ms an address); this one
 * only ends the wait for one that hangs. */
#define ANSWER_DEADLINE_MS 300000
#define ANSWER_MAX 1024

/* Takes the one descriptor of a message; closes any that should not be there. */
static int take_descriptor(struct msghdr *message)
{
	int taken = -1;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= c->cmsg_len;
		     at += sizeof(int)) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + at, sizeof(fd));
			if (taken >= 0)
				close(taken);
			taken = fd;
		}
	}
	return taken;
}

static int wait_answer(int net_fd, struct error *err)
{
	long long deadline = fd_now_ms() + ANSWER_DEADLINE_MS;

	for (;;) {
		struct pollfd wait = {.fd = net_fd, .events = POLLIN};
		long long left = deadline - fd_now_ms();
		int n = left > 0 ? poll(&wait, 1, (int)left) : 0;

		if (n > 0)
			return 0;
		if (n == 0)
			return error_set(err, ERROR_FAILED, "agent-dial does not answer");
		if (errno != EINTR)
			return error_errno(err, ERROR_FAILED, errno, "socket to agent-dial");
	}
}

int dial_connect(int net_fd, struct error *err)
{
	char text[ANSWER_MAX + 1];
	union {
		struct cmsghdr header; /* for its alignment */
		char space[CMSG_SPACE(4 * sizeof(int))];
	} control;
	struct iovec data = {.iov_base = text, .iov_len = ANSWER_MAX};
	struct msghdr message = {.msg_iov = &data,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	int fd AUTO_FD = -1;
	ssize_t n;

	if (send(net_fd, "c", 1, MSG_NOSIGNAL) != 1) {
		error_errno(err, ERROR_FAILED, errno, "agent-dial is gone");
		return -1;
	}
	if (wait_answer(net_fd, err) < 0)
		return -1;
	n = recvmsg(net_fd, &message, MSG_CMSG_CLOEXEC);
	if (n < 0) {
		error_errno(err, ERROR_FAILED, errno, "socket to agent-dial");
		return -1;
	}
	fd = take_descriptor(&message);
	text[n] = '\0';
	if (n == 0)
		error_set(err, ERROR_FAILED, "agent-dial has ended");
	else if (strncmp(text, "no ", 3) == 0)
		error_set(err, ERROR_FAILED, "%s", text + 3);
	else if (strcmp(text, "ok") != 0 || fd < 0 ||
		 message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		error_set(err, ERROR_FAILED, "agent-dial gave a malformed answer");
	else
		return fd_steal(&fd);
	return -1;
}
