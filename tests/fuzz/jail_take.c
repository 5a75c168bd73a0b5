/*
 * Fuzz target: what a jail's helper tells of a work tree (sandbox/jail_take.h). The input is all that it sends, then it is
 * gone. The first byte chooses whether a file is asked for before the root's list; what the lists name is asked for next. What is taken must keep what the header promises, and a refused answer must leave nothing behind.
 */
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/strbuf.h"
#include "sandbox/jail_take.h"

#define LIST_MAX 50
#define FILE_MAX 3000

static void check_list(const struct jail_take_list *list)
{
	if (list->len > LIST_MAX)
		abort();
	for (size_t i = 0; i < list->len; i++) {
		const char *name = list->items[i].name;

		if (!*name || strlen(name) > NAME_MAX || strchr(name, '/') ||
		    strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
			abort();
		if (list->items[i].mode > 07777)
			abort();
		switch (list->items[i].kind) {
		case JAIL_TAKE_FILE:
		case JAIL_TAKE_DIR:
		case JAIL_TAKE_LINK:
		case JAIL_TAKE_WHITEOUT:
		case JAIL_TAKE_OTHER:
			break;
		case JAIL_TAKE_HEAD:
		case JAIL_TAKE_DATA:
		case JAIL_TAKE_END:
		case JAIL_TAKE_ERROR:
			abort();
		}
	}
}

static int ask_file(struct jail_take *take, const char *path)
{
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;
	struct error err = {0};
	int rc;

	strbuf_init(&out, FILE_MAX);
	rc = jail_take_read(take, path, FILE_MAX, &out, &err);
	if (out.len > FILE_MAX || (rc < 0) != (err.message[0] != '\0'))
		abort();
	return rc;
}

static int ask_list(struct jail_take *take, const char *path, int depth)
{
	struct jail_take_list list;
	struct error err = {0};
	int rc = jail_take_list(take, path, LIST_MAX, &list, &err);

	if ((rc < 0) != (err.message[0] != '\0') || (rc < 0 && (list.items || list.len)))
		abort();
	if (rc == 0)
		check_list(&list);
	for (size_t i = 0; rc == 0 && depth && i < list.len; i++)
		rc = list.items[i].kind == JAIL_TAKE_DIR
			 ? ask_list(take, list.items[i].name, depth - 1)
			 : ask_file(take, list.items[i].name);
	jail_take_list_release(&list);
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct jail_take take;
	struct error err = {0};
	bool complete;
	int ends[2];

	if (size == 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return 0;
	setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &(int){1 << 20}, sizeof(int));
	/* small enough to lie in the socket's buffer, so that nobody waits */
	if (send(ends[1], data + 1, size - 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && size > 1)
		abort();
	shutdown(ends[1], SHUT_WR);
	if (jail_take_begin(&take, ends[0], &complete, &err) == 0) {
		if (data[0] % 2)
			ask_file(&take, "some/file");
		ask_list(&take, "", 3);
		ask_file(&take, "last");
	}
	close(ends[0]);
	close(ends[1]);
	return 0;
}
