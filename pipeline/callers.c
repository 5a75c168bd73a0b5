#include "callers.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"

#define ACCEPT_AT_ONCE 64
#define MUCH 32768 /* bytes that wait to be read: its sender is about to block */

void callers_init(struct callers *callers)
{
	for (size_t i = 0; i < CALLERS_MAX; i++)
		callers->list[i] = (struct caller){.fd = -1};
}

static void hang_up(struct caller *caller)
{
	fd_close_ptr(&caller->fd);
	*caller = (struct caller){.fd = -1};
}

void callers_release(struct callers *callers)
{
	for (size_t i = 0; i < CALLERS_MAX; i++)
		hang_up(&callers->list[i]);
}

static size_t count_of(const struct callers *callers, uid_t uid)
{
	size_t count = 0;

	for (size_t i = 0; i < CALLERS_MAX; i++)
		count += callers->list[i].fd >= 0 && callers->list[i].uid == uid;
	return count;
}

/* Whether one shall go rather than another: of the user with more of them, then who is not ready, then the older. */
static bool goes_first(const struct callers *callers, const struct caller *one,
		       const struct caller *other)
{
	size_t ones = count_of(callers, one->uid), others = count_of(callers, other->uid);

	if (ones != others)
		return ones > others;
	if (one->ready != other->ready)
		return !one->ready;
	return one->since_ms < other->since_ms;
}

static struct caller *make_room(struct callers *callers)
{
	struct caller *victim = &callers->list[0];

	for (size_t i = 0; i < CALLERS_MAX; i++)
		if (callers->list[i].fd < 0)
			return &callers->list[i];
	for (size_t i = 1; i < CALLERS_MAX; i++)
		if (goes_first(callers, &callers->list[i], victim))
			victim = &callers->list[i];
	hang_up(victim);
	return victim;
}

void callers_accept(struct callers *callers, int listen_fd, long long now_ms)
{
	for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
		int fd AUTO_FD = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
		struct ucred peer;
		socklen_t len = sizeof(peer);

		if (fd < 0)
			return;
		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
			continue;
		*make_room(callers) = (struct caller){fd_steal(&fd), peer.uid, now_ms, false};
	}
}

void callers_poll(const struct callers *callers, struct pollfd *fds)
{
	for (size_t i = 0; i < CALLERS_MAX; i++) {
		const struct caller *caller = &callers->list[i];

		/* a part of a message wakes nobody */
		fds[i] =
		    (struct pollfd){.fd = caller->ready ? -1 : caller->fd, .events = POLLRDHUP};
	}
}

void callers_look(struct callers *callers, const struct pollfd *fds, long long now_ms)
{
	for (size_t i = 0; i < CALLERS_MAX; i++) {
		struct caller *caller = &callers->list[i];
		int waiting = 0;

		if (caller->fd < 0)
			continue;
		if (!caller->ready)
			caller->ready =
			    (fds && fds[i].fd == caller->fd && fds[i].revents) ||
			    (ioctl(caller->fd, FIONREAD, &waiting) == 0 && waiting >= MUCH);
		if (now_ms - caller->since_ms >=
		    (caller->ready ? CALLERS_READY_MS : CALLERS_PATIENCE_MS))
			hang_up(caller);
	}
}

int callers_next(struct callers *callers, bool (*may)(const void *arg, uid_t uid),
		 const void *arg, uid_t *uid)
{
	struct caller *first = NULL;
	int fd;

	for (size_t i = 0; i < CALLERS_MAX; i++) {
		struct caller *caller = &callers->list[i];

		if (caller->fd >= 0 && caller->ready &&
		    (!first || caller->since_ms < first->since_ms) &&
		    (!may || may(arg, caller->uid)))
			first = caller;
	}
	if (!first)
		return -1;
	*uid = first->uid;
	fd = fd_steal(&first->fd);
	*first = (struct caller){.fd = -1};
	return fd;
}
