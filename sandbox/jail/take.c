#include "take.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "sandbox/jail_take.h"

struct server {
	int upper, sock;
	size_t len;
	char buffer[65536];
};

/* ---- bytes ---- */

static int flush(struct server *server)
{
	int result = fd_write_all(server->sock, server->buffer, server->len);

	server->len = 0;
	return result;
}

static int put(struct server *server, const void *data, size_t len)
{
	const char *from = data;

	while (len) {
		size_t n = sizeof(server->buffer) - server->len;

		if (!n) {
			if (flush(server) < 0)
				return -1;
			continue;
		}
		n = n < len ? n : len;
		memcpy(server->buffer + server->len, from, n);
		server->len += n;
		from += n;
		len -= n;
	}
	return 0;
}

static int tell(struct server *server, enum jail_take_kind kind, uint64_t size)
{
	struct jail_take_told told = {.kind = (uint8_t)kind, .size = size};

	return put(server, &told, sizeof(told));
}

/* Exactly len bytes; false at the end of the stream. */
static bool get(int sock, void *data, size_t len)
{
	char *to = data;

	while (len) {
		ssize_t n = read(sock, to, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		to += n;
		len -= (size_t)n;
	}
	return true;
}

/* ---- directories ---- */

static enum jail_take_kind kind_of(const struct stat *st)
{
	if (S_ISREG(st->st_mode))
		return JAIL_TAKE_FILE;
	if (S_ISDIR(st->st_mode))
		return JAIL_TAKE_DIR;
	if (S_ISLNK(st->st_mode))
		return JAIL_TAKE_LINK;
	return S_ISCHR(st->st_mode) && st->st_rdev == 0 ? JAIL_TAKE_WHITEOUT : JAIL_TAKE_OTHER;
}

/* So that it can be opened later: we are its owner, and nobody else is left. */
static int make_readable(int dir, const char *name, const struct stat *st)
{
	mode_t needed = S_ISDIR(st->st_mode) ? 0500 : S_ISREG(st->st_mode) ? 0400 : 0;

	if ((st->st_mode & needed) == needed)
		return 0;
	return fchmodat(dir, name, (st->st_mode & 0777) | needed, 0);
}

static int tell_entry(struct server *server, int dir, const char *name)
{
	struct jail_take_told told = {.kind = 0};
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    make_readable(dir, name, &st) < 0)
		return tell(server, JAIL_TAKE_ERROR, (uint64_t)errno) < 0 ? -1 : 1;
	told.kind = (uint8_t)kind_of(&st);
	told.name_len = (uint16_t)strlen(name);
	told.mode = st.st_mode & 07777;
	told.size = (uint64_t)st.st_size;
	return put(server, &told, sizeof(told)) < 0 || put(server, name, told.name_len) < 0 ? -1
											    : 0;
}

/* As overlayfs marks it (Documentation/filesystems/overlayfs.rst). */
static bool is_opaque(int dir)
{
	char value = 0;

	return fgetxattr(dir, "user.overlay.opaque", &value, 1) == 1 && value == 'y';
}

/* 0 goes on, -1 the client is gone. */
static int list(struct server *server, const char *path)
{
	int fd = fd_open_beneath(server->upper, *path ? path : ".", O_RDONLY | O_DIRECTORY, 0);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int result;

	if (!dir)
		return tell(server, JAIL_TAKE_ERROR, (uint64_t)errno);
	result = tell(server, JAIL_TAKE_HEAD, is_opaque(fd));
	while (result == 0 && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			result = tell_entry(server, fd, entry->d_name);
	closedir(dir);
	if (result > 0)
		return 0; /* an error was told, which is the end of the answer */
	return result < 0 ? -1 : tell(server, JAIL_TAKE_END, 0);
}

/* ---- files ---- */

static int send_link(struct server *server, const char *path)
{
	char text[PATH_MAX];
	int fd AUTO_FD = fd_open_beneath(server->upper, path, O_PATH | O_NOFOLLOW, 0);
	ssize_t len = fd < 0 ? -1 : readlinkat(fd, "", text, sizeof(text));

	if (len < 0)
		return tell(server, JAIL_TAKE_ERROR, (uint64_t)errno);
	return tell(server, JAIL_TAKE_DATA, (uint64_t)len) < 0 ||
		       put(server, text, (size_t)len) < 0
		   ? -1
		   : 0;
}

static int send_file(struct server *server, int fd, uint64_t size)
{
	char chunk[16384];

	if (tell(server, JAIL_TAKE_DATA, size) < 0)
		return -1;
	while (size) {
		ssize_t n =
		    read(fd, chunk, size < sizeof(chunk) ? (size_t)size : sizeof(chunk));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || put(server, chunk, (size_t)n) < 0)
			return -1;
		size -= (uint64_t)n;
	}
	return 0;
}

static int send_path(struct server *server, const char *path, uint64_t max)
{
	int fd AUTO_FD =
	    fd_open_beneath(server->upper, path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW, 0);
	struct stat st;

	if (fd < 0 && errno == ELOOP)
		return send_link(server, path);
	if (fd < 0 || fstat(fd, &st) < 0)
		return tell(server, JAIL_TAKE_ERROR, (uint64_t)errno);
	if (!S_ISREG(st.st_mode))
		return tell(server, JAIL_TAKE_ERROR, EINVAL);
	if ((uint64_t)st.st_size > max)
		return tell(server, JAIL_TAKE_ERROR, EFBIG);
	return send_file(server, fd, (uint64_t)st.st_size);
}

/* ---- the whole ---- */

static bool next_question(int sock, struct jail_take_ask *question, char path[PATH_MAX])
{
	if (!get(sock, question, sizeof(*question)) || question->path_len >= PATH_MAX ||
	    !get(sock, path, question->path_len))
		return false;
	path[question->path_len] = '\0';
	return true;
}

void take_serve(int upper, bool complete, int sock)
{
	struct server server = {.upper = upper, .sock = sock};
	struct jail_take_ask question;
	char path[PATH_MAX], how = complete ? JAIL_TAKE_COPY : JAIL_TAKE_OVERLAY;
	int result;

	alarm(JAIL_TAKE_MS / 1000);
	result = fchmod(upper, 0700) < 0 ? -1 : put(&server, &how, 1);
	while (result == 0 && flush(&server) == 0 && next_question(sock, &question, path)) {
		if (question.what == JAIL_TAKE_LIST)
			result = list(&server, path);
		else if (question.what == JAIL_TAKE_READ && path[0])
			result = send_path(&server, path, question.max);
		else
			return;
	}
}
