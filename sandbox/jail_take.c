#include "jail_take.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

#define ANSWER_MS 120000 /* for the next bytes of an answer */

/* ---- bytes ---- */

static int lost(struct error *err)
{
	error_set(err, ERROR_FAILED, "jail: what the command changed cannot be read: %s",
		  errno ? strerror(errno) : "it ended too early");
	return error_next(err, "it was killed from outside, or is a defect: try agent resume");
}

/* Until the socket can be read or written, within the time of the whole. */
static int wait_for(const struct jail_take *take, short events)
{
	struct pollfd polled = {take->fd, events, 0};
	int ready;

	do {
		long long left = take->until_ms - fd_now_ms();

		ready =
		    left > 0 ? poll(&polled, 1, left < ANSWER_MS ? (int)left : ANSWER_MS) : 0;
	} while (ready < 0 && errno == EINTR);
	if (ready == 0)
		errno = ETIMEDOUT;
	return ready > 0 ? 0 : -1;
}

static int fill(struct jail_take *take)
{
	ssize_t n;

	if (wait_for(take, POLLIN) < 0)
		return -1;
	do
		n = read(take->fd, take->buffer, sizeof(take->buffer));
	while (n < 0 && errno == EINTR);
	if (n == 0)
		errno = 0;
	if (n <= 0)
		return -1;
	take->at = 0;
	take->len = (size_t)n;
	return 0;
}

static int get(struct jail_take *take, void *data, size_t len)
{
	char *to = data;

	while (len) {
		size_t n = take->len - take->at;

		if (!n) {
			if (fill(take) < 0)
				return -1;
			continue;
		}
		n = n < len ? n : len;
		memcpy(to, take->buffer + take->at, n);
		take->at += n;
		to += n;
		len -= n;
	}
	return 0;
}

static int put(const struct jail_take *take, const void *data, size_t len)
{
	const char *from = data;

	while (len) {
		ssize_t n = send(take->fd, from, len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EAGAIN && wait_for(take, POLLOUT) == 0)
			continue;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		from += n;
		len -= (size_t)n;
	}
	return 0;
}

static int ask(struct jail_take *take, char what, const char *path, uint64_t max,
	       struct error *err)
{
	struct jail_take_ask question = {.what = (uint8_t)what, .max = max};
	char whole[sizeof(question) + PATH_MAX];
	size_t len = strlen(path);

	if (len >= PATH_MAX)
		return error_set(err, ERROR_NO, "'%.100s…' is too long for a path", path);
	question.path_len = (uint16_t)len;
	memcpy(whole, &question, sizeof(question));
	memcpy(whole + sizeof(question), path, len);
	return put(take, whole, sizeof(question) + len) < 0 ? lost(err) : 0;
}

static int told_error(const struct jail_take_told *told, const char *path, struct error *err)
{
	int number = told->size < 4096 ? (int)told->size : EIO;

	if (number == EFBIG)
		return error_set(err, ERROR_NO, "'%s' is too big", path);
	return error_errno(err, ERROR_FAILED, number, "'%s', as the command left it", path);
}

/* ---- questions ---- */

int jail_take_begin(struct jail_take *take, int fd, bool *complete, struct error *err)
{
	char how;

	take->fd = fd;
	take->until_ms = fd_now_ms() + JAIL_TAKE_MS;
	take->at = take->len = 0;
	if (get(take, &how, 1) < 0)
		return lost(err);
	if (how != JAIL_TAKE_OVERLAY && how != JAIL_TAKE_COPY) {
		errno = EPROTO;
		return lost(err);
	}
	*complete = how == JAIL_TAKE_COPY;
	return 0;
}

static bool is_name(const char *name, size_t len)
{
	return len && !memchr(name, '/', len) && !memchr(name, '\0', len) &&
	       strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static bool is_entry(int kind)
{
	return kind == JAIL_TAKE_FILE || kind == JAIL_TAKE_DIR || kind == JAIL_TAKE_LINK ||
	       kind == JAIL_TAKE_WHITEOUT || kind == JAIL_TAKE_OTHER;
}

static int take_entry(struct jail_take *take, const struct jail_take_told *told,
		      struct jail_take_list *list, size_t *cap)
{
	char name[NAME_MAX + 1];

	if (!is_entry(told->kind) || told->name_len > NAME_MAX ||
	    get(take, name, told->name_len) < 0)
		return -1;
	name[told->name_len] = '\0';
	if (!is_name(name, told->name_len))
		return -1;
	if (list->len == *cap) {
		*cap = *cap ? *cap * 2 : 64;
		list->items = mem_realloc(list->items, *cap, sizeof(*list->items));
	}
	list->items[list->len++] =
	    (struct jail_take_entry){.kind = (enum jail_take_kind)told->kind,
				     .mode = told->mode & 07777,
				     .size = told->size,
				     .name = mem_strdup(name)};
	return 0;
}

static int take_entries(struct jail_take *take, const char *path, size_t max,
			struct jail_take_list *list, struct error *err)
{
	struct jail_take_told told;
	size_t cap = 0;

	if (get(take, &told, sizeof(told)) < 0)
		return lost(err);
	if (told.kind == JAIL_TAKE_ERROR)
		return told_error(&told, path, err);
	errno = EPROTO;
	if (told.kind != JAIL_TAKE_HEAD)
		return lost(err);
	list->opaque = told.size == 1;
	for (;;) {
		if (get(take, &told, sizeof(told)) < 0)
			return lost(err);
		if (told.kind == JAIL_TAKE_END)
			return 0;
		if (told.kind == JAIL_TAKE_ERROR)
			return told_error(&told, path, err);
		if (list->len == max)
			return error_set(err, ERROR_NO,
					 "the command left more than %zu entries in "
					 "directories that are not "
					 "ignored",
					 max);
		errno = EPROTO;
		if (take_entry(take, &told, list, &cap) < 0)
			return lost(err);
	}
}

int jail_take_list(struct jail_take *take, const char *path, size_t max,
		   struct jail_take_list *list, struct error *err)
{
	int rc;

	*list = (struct jail_take_list){NULL, 0, false};
	rc = ask(take, JAIL_TAKE_LIST, path, 0, err);
	if (rc == 0)
		rc = take_entries(take, path, max, list, err);
	if (rc < 0)
		jail_take_list_release(list);
	return rc;
}

void jail_take_list_release(struct jail_take_list *list)
{
	for (size_t i = 0; i < list->len; i++)
		free(list->items[i].name);
	free(list->items);
	*list = (struct jail_take_list){NULL, 0, false};
}

int jail_take_read(struct jail_take *take, const char *path, uint64_t max, struct strbuf *out,
		   struct error *err)
{
	struct jail_take_told told;
	int rc = ask(take, JAIL_TAKE_READ, path, max, err);

	if (rc < 0)
		return rc;
	if (get(take, &told, sizeof(told)) < 0)
		return lost(err);
	if (told.kind == JAIL_TAKE_ERROR)
		return told_error(&told, path, err);
	errno = EPROTO;
	if (told.kind != JAIL_TAKE_DATA || told.size > max)
		return lost(err);
	for (uint64_t left = told.size; left;) {
		char chunk[16384];
		size_t n = left < sizeof(chunk) ? (size_t)left : sizeof(chunk);

		if (get(take, chunk, n) < 0)
			return lost(err);
		if (strbuf_add(out, chunk, n) < 0)
			return error_set(err, ERROR_NO, "'%s' is too big", path);
		left -= n;
	}
	return 0;
}
