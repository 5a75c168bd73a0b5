#include "pump.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pipeline/base/mem.h"

static void set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0)
		fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

void pump_init(struct pump *pump, int a, int b, const void *first, size_t first_len)
{
	*pump = (struct pump){.fd = {a, b}};
	for (size_t i = 0; i < 2; i++) {
		set_nonblocking(pump->fd[i]);
		pump->way[i].from = i;
	}
	/* the first bytes may be longer than the buffer of later ones */
	pump->way[0].data = mem_calloc(first_len > PUMP_BYTES ? first_len : PUMP_BYTES, 1);
	pump->way[1].data = mem_calloc(PUMP_BYTES, 1);
	if (first_len)
		memcpy(pump->way[0].data, first, first_len);
	pump->way[0].len = first_len;
}

void pump_release(struct pump *pump)
{
	for (size_t i = 0; i < 2; i++) {
		if (pump->fd[i] >= 0)
			close(pump->fd[i]);
		pump->fd[i] = -1;
		free(pump->way[i].data);
		pump->way[i].data = NULL;
	}
}

void pump_fill(const struct pump *pump, struct pollfd fds[PUMP_POLLFDS])
{
	for (size_t i = 0; i < 2; i++) {
		const struct pump_way *out = &pump->way[i], *in = &pump->way[1 - i];

		fds[i] = (struct pollfd){.fd = pump->fd[i]};
		if (out->at == out->len && !out->ended)
			fds[i].events |= POLLIN;
		if (in->at < in->len)
			fds[i].events |= POLLOUT;
		/* a socket that waits for nothing would report its hang-up for ever */
		if (!fds[i].events)
			fds[i].fd = -1;
	}
}

static bool would_block(void)
{
	return errno == EAGAIN || errno == EINTR;
}

static void read_way(struct pump *pump, struct pump_way *way)
{
	ssize_t n = recv(pump->fd[way->from], way->data, PUMP_BYTES, 0);

	way->at = way->len = 0;
	if (n > 0 && way->from == 1)
		pump->came += (unsigned long long)n;
	if (n > 0)
		way->len = (size_t)n;
	else if (n == 0 || !would_block())
		way->ended = true;
}

static void write_way(struct pump *pump, struct pump_way *way)
{
	ssize_t n = send(pump->fd[1 - way->from], way->data + way->at, way->len - way->at,
			 MSG_NOSIGNAL);

	if (n >= 0) {
		way->at += (size_t)n;
	} else if (!would_block()) {
		/* the target takes nothing more: tell the source */
		way->at = way->len;
		way->ended = true;
		shutdown(pump->fd[way->from], SHUT_RD);
	}
}

bool pump_move(struct pump *pump, const struct pollfd fds[PUMP_POLLFDS])
{
	for (size_t i = 0; i < 2; i++) {
		struct pump_way *way = &pump->way[i];

		if (fds[i].revents && way->at == way->len && !way->ended)
			read_way(pump, way);
		if (way->at < way->len)
			write_way(pump, way);
		if (way->at == way->len && way->ended && !way->shut) {
			shutdown(pump->fd[1 - i], SHUT_WR);
			way->shut = true;
		}
	}
	return !(pump->way[0].shut && pump->way[1].shut);
}
