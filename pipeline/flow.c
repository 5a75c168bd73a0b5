#include "flow.h"

#include <errno.h>
#include <sys/socket.h>

void flow_fill(struct flow *flow, int fd)
{
	size_t end = flow->start + flow->len;
	ssize_t n;

	if (flow->ended || end == FLOW_BYTES)
		return;
	n = recv(fd, flow->data + end, FLOW_BYTES - end, MSG_DONTWAIT);
	if (n > 0)
		flow->len += (size_t)n;
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		flow->ended = true;
}

void flow_drop(struct flow *flow)
{
	flow->len = 0;
	flow->ended = flow->shut = true;
}

void flow_drain(struct flow *flow, int fd, long long *total)
{
	if (flow->len) {
		ssize_t n =
		    send(fd, flow->data + flow->start, flow->len, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN && errno != EINTR)
			flow_drop(flow);
		if (n <= 0)
			return;
		flow->start += (size_t)n;
		flow->len -= (size_t)n;
		*total += n;
	}
	if (flow->len)
		return;
	flow->start = 0;
	if (flow->ended && !flow->shut) {
		shutdown(fd, SHUT_WR);
		flow->shut = true;
	}
}
