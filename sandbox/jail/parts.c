#include "parts.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "sandbox/jail/run.h"

/* ---- messages ---- */

int parts_send_raw(int sock, const char *text, size_t len, const int *fds, size_t count)
{
	char *control AUTO_FREE = mem_calloc(CMSG_SPACE(PARTS_MAX * sizeof(int)), 1);
	struct cmsghdr *head = (struct cmsghdr *)(void *)control;
	union {
		const char *given;
		char *wanted; /* the kernel only reads it */
	} bytes = {.given = text};
	struct iovec part = {bytes.wanted, len};
	struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1};
	ssize_t n;

	if (count > PARTS_MAX) {
		errno = E2BIG;
		return -1;
	}
	if (count) {
		msg.msg_control = control;
		msg.msg_controllen = (unsigned)CMSG_SPACE(count * sizeof(int));
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = (unsigned)CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(head), fds, count * sizeof(int));
	}
	do
		n = sendmsg(sock, &msg, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -1 : 0;
}

bool parts_peer_gone(void)
{
	return errno == EPIPE || errno == ECONNRESET || errno == EBADF;
}

long parts_receive_raw(int sock, char *text, size_t size, int *fds, size_t *count)
{
	char *control AUTO_FREE = mem_calloc(CMSG_SPACE(PARTS_MAX * sizeof(int)), 1);
	struct iovec part = {text, size};
	struct msghdr msg = {.msg_iov = &part,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = CMSG_SPACE(PARTS_MAX * sizeof(int))};
	struct cmsghdr *head;
	ssize_t len;

	*count = 0;
	do
		len = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	while (len < 0 && errno == EINTR);
	head = len > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
	if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
		*count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(fds, CMSG_DATA(head), *count * sizeof(int));
	}
	if (len > 0 && msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
		errno = EMSGSIZE;
		return -1;
	}
	return len;
}

/*
 * ---- parts: a letter a descriptor or a link, in the order of the descriptors ----
 *
 * "c" control group (one a v1 controller), "w" work tree, then one a mount of the spec: "d" directory, "f"
 * file, "-" skipped, "l" link with its text behind it and a NUL. "." ends.
 */

int parts_send(struct jail_run *run)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	int fds[PARTS_MAX];
	size_t count = 0;

	strbuf_init(&text, JAIL_SPEC_MAX);
	for (int i = 0; i < CGROUP_DIRS && run->cgroup.attach[i] >= 0; i++) {
		strbuf_addc(&text, 'c');
		fds[count++] = run->cgroup.attach[i];
	}
	if (run->work_tree >= 0) {
		strbuf_addc(&text, 'w');
		fds[count++] = run->work_tree;
	}
	for (size_t i = 0; run->sources && i < run->spec.mount_count; i++) {
		struct jail_source *source = &run->sources[i];

		if (source->link) {
			strbuf_addc(&text, 'l');
			strbuf_add(&text, source->link, strlen(source->link) + 1);
		} else if (source->tree < 0) {
			strbuf_addc(&text, '-');
		} else {
			if (count == PARTS_MAX) {
				errno = E2BIG;
				return step_fail(run, "more than %d mounts",
						 PARTS_MAX - CGROUP_DIRS - 1);
			}
			strbuf_addc(&text, source->is_file ? 'f' : 'd');
			fds[count++] = source->tree;
		}
	}
	strbuf_addc(&text, '.');
	if (parts_send_raw(run->payload_sock, text.data, text.len, fds, count) < 0 &&
	    !parts_peer_gone())
		return step_fail(run, "mounts cannot be handed to the payload");
	for (size_t i = 0; i < count; i++)
		close(fds[i]);
	for (int i = 0; i < CGROUP_DIRS; i++)
		run->cgroup.attach[i] = -1;
	run->work_tree = -1;
	for (size_t i = 0; run->sources && i < run->spec.mount_count; i++)
		run->sources[i].tree = -1;
	return 0;
}

/* One mount of the spec, at *text. Returns the bytes used, 0 when malformed. */
static size_t take_source(struct jail_source *source, const char *text, int fd)
{
	switch (*text) {
	case 'd':
	case 'f':
		source->tree = fd;
		source->is_file = *text == 'f';
		return fd < 0 ? 0 : 1;
	case 'l':
		source->link = mem_strdup(text + 1);
		return strlen(text) + 1;
	case '-':
		return 1;
	default:
		return 0;
	}
}

/* Takes apart what parts_send wrote. False when it is not that. */
static bool take(struct jail_run *run, const char *text, const int *fds, size_t count)
{
	size_t used = 0, mounts = 0;

	for (int i = 0; i < CGROUP_DIRS && *text == 'c' && used < count; i++, text++) {
		run->cgroup.attach[i] = fds[used++];
		run->cgroup.kind = CGROUP_V1;
	}
	if (*text == 'w' && used < count) {
		run->work_tree = fds[used++];
		text++;
	}
	if (run->separate) {
		run->sources = mem_calloc(run->spec.mount_count, sizeof(*run->sources));
		for (size_t i = 0; i < run->spec.mount_count; i++)
			run->sources[i].tree = run->sources[i].give = -1;
	}
	for (; run->separate && mounts < run->spec.mount_count; mounts++) {
		size_t len =
		    take_source(&run->sources[mounts], text, used < count ? fds[used] : -1);

		if (!len)
			return false;
		used += *text == 'd' || *text == 'f';
		text += len;
	}
	return *text == '.' && used == count;
}

int parts_receive(struct jail_run *run)
{
	static char text[JAIL_SPEC_MAX + 1];
	int fds[PARTS_MAX];
	size_t count;
	long len = parts_receive_raw(run->payload_sock, text, JAIL_SPEC_MAX, fds, &count);

	if (len == 0)
		_exit(0);
	if (len < 0)
		return step_fail(run, "mounts cannot be received");
	errno = EPROTO;
	return take(run, text, fds, count) ? 0 : step_fail(run, "mounts cannot be received");
}
