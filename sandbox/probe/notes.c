/* Notes, arguments and the steps that attacks share. See probe.h. */
#include "sandbox/probe/probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/probe/arguments.h"

#define PLANTED "planted-"

/* ---- arguments ---- */

static char **arguments;

void arguments_set(char **argv)
{
	arguments = argv;
}

const char *arg(const char *name)
{
	size_t len = strlen(name);

	for (char **at = arguments; at && *at; at++)
		if (strncmp(*at, name, len) == 0 && (*at)[len] == '=')
			return *at + len + 1;
	return NULL;
}

const char *arg_or(const char *name, const char *otherwise)
{
	const char *value = arg(name);

	return value ? value : otherwise;
}

long arg_number(const char *name, long otherwise)
{
	const char *value = arg(name);

	return value ? strtol(value, NULL, 10) : otherwise;
}

const char *mark(void)
{
	return arg_or("mark", "attack");
}

/* ---- notes ---- */

enum strength { NONE, NOTE_ABSENT, NOTE_BLOCKED, NOTE_DONE, NOTE_SURPRISE, NOTE_WORKED };

static enum strength strongest;
static char reason[400];

static void __attribute__((format(printf, 2, 0)))
note(enum strength strength, const char *format, va_list values)
{
	if (strength <= strongest)
		return;
	strongest = strength;
	vsnprintf(reason, sizeof(reason), format, values);
	for (char *at = reason; *at; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
}

#define NOTE(name, strength)                                                                   \
	void name(const char *format, ...)                                                     \
	{                                                                                      \
		va_list values;                                                                \
                                                                                               \
		va_start(values, format);                                                      \
		note(strength, format, values);                                                \
		va_end(values);                                                                \
	}

NOTE(worked, NOTE_WORKED)
NOTE(surprise, NOTE_SURPRISE)
NOTE(done, NOTE_DONE)
NOTE(blocked, NOTE_BLOCKED)
NOTE(absent, NOTE_ABSENT)

bool notes_worked(void)
{
	return strongest == NOTE_WORKED;
}

enum verdict notes_verdict(void)
{
	switch (strongest) {
	case NOTE_WORKED:
		return WORKED;
	case NOTE_DONE:
		return DONE;
	case NOTE_BLOCKED:
		return BLOCKED;
	case NOTE_SURPRISE:
	case NOTE_ABSENT:
	case NONE:
		break;
	}
	return UNTRIED;
}

void notes_print(const char *id)
{
	printf("%s: %s: %s\n", id,
	       strongest == NOTE_WORKED	   ? "worked"
	       : strongest == NOTE_DONE	   ? "done"
	       : strongest == NOTE_BLOCKED ? "blocked"
					   : "not tried",
	       reason[0] ? reason : "no step was taken");
	fflush(stdout);
}

void refused_with(const char *what, long result, const int *errors)
{
	int error = errno;

	if (result >= 0) {
		worked("%s succeeds", what);
		return;
	}
	for (; *errors; errors++)
		if (error == *errors) {
			blocked("%s: %s", what, strerrorname_np(error));
			return;
		}
	surprise("%s: %s, which is no wall's answer", what, strerrorname_np(error));
}

/* ---- steps ---- */

const char *text(const char *format, ...)
{
	static char buffers[8][4096];
	static unsigned next;
	char *buffer = buffers[next++ % 8];
	va_list values;

	va_start(values, format);
	vsnprintf(buffer, sizeof(buffers[0]), format, values);
	va_end(values);
	return buffer;
}

ssize_t read_path(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	size_t len = 0;
	ssize_t n = -1;

	buf[0] = '\0';
	if (fd < 0)
		return -1;
	while (len + 1 < size && (n = read(fd, buf + len, size - 1 - len)) > 0)
		len += (size_t)n;
	buf[len] = '\0';
	close(fd);
	return n < 0 && !len ? -1 : (ssize_t)len;
}

bool write_path(const char *path, const char *content)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	bool fine = fd >= 0 && write(fd, content, strlen(content)) == (ssize_t)strlen(content);

	if (fd >= 0)
		close(fd);
	return fine;
}

bool leaks(const char *where, const char *bytes, size_t len)
{
	const char *at = memmem(bytes, len, PLANTED, strlen(PLANTED));

	if (!at)
		return false;
	worked(
	    "%s holds %.*s", where,
	    (int)strnlen(at, (size_t)(bytes + len - at) < 48 ? (size_t)(bytes + len - at) : 48),
	    at);
	return true;
}

const char *own_folder(void)
{
	const char *path = text("/tmp/%s.dir", mark());

	mkdir(path, 0700);
	return path;
}

static bool is_wall(int error)
{
	return error == ENOENT || error == EACCES || error == EPERM || error == ENOTDIR ||
	       error == ELOOP || error == EROFS || error == ENXIO || error == ENODEV ||
	       error == ENOSYS;
}

void try_read(const char *path, bool any)
{
	static char buf[1 << 16];
	ssize_t len = read_path(path, buf, sizeof(buf));

	if (len >= 0 && leaks(path, buf, (size_t)len))
		return;
	if (len > 0 && any)
		worked("%s can be read", path);
	else if (len >= 0)
		blocked("%s holds nothing of the host's", path);
	else if (is_wall(errno) || errno == EISDIR || errno == EINVAL || errno == EIO ||
		 errno == ESRCH)
		blocked("%s: %s", path, strerrorname_np(errno));
	else
		surprise("%s: %s", path, strerrorname_np(errno));
}

void try_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);

	if (fd >= 0) {
		worked("%s can be opened%s", path,
		       (flags & O_ACCMODE) == O_RDONLY ? "" : " for writing");
		close(fd);
	} else if (is_wall(errno) || errno == EBUSY || errno == ENOMEDIUM)
		blocked("%s: %s", path, strerrorname_np(errno));
	else
		surprise("%s: %s", path, strerrorname_np(errno));
}

void try_connect(const char *path)
{
	static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	if (strlen(path) >= sizeof(address.sun_path)) {
		absent("%s is too long for a socket's name", path);
		return;
	}
	memcpy(address.sun_path, path, strlen(path) + 1);
	for (size_t i = 0; i < LEN(types); i++) {
		int sock = socket(AF_UNIX, types[i] | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		if (connect(sock, (struct sockaddr *)&address, sizeof(address)) == 0)
			worked("the socket %s answers", path);
		else if (is_wall(errno) || errno == ECONNREFUSED)
			blocked("%s: %s", path, strerrorname_np(errno));
		else if (errno != EPROTOTYPE)
			surprise("%s: %s", path, strerrorname_np(errno));
		close(sock);
	}
}

bool try_connect_abstract(const char *name, int type)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t len = strlen(name);
	int sock = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool connected;

	if (len >= sizeof(address.sun_path))
		len = sizeof(address.sun_path) - 1;
	memcpy(address.sun_path + 1, name, len);
	connected = connect(sock, (struct sockaddr *)&address,
			    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)) == 0;
	if (connected)
		worked("the abstract socket %s answers", name);
	else if (errno == ECONNREFUSED || errno == EPERM || errno == EACCES)
		blocked("@%s: %s", name, strerrorname_np(errno));
	else if (errno != EPROTOTYPE)
		surprise("@%s: %s", name, strerrorname_np(errno));
	close(sock);
	return connected;
}

size_t other_pids(pid_t *pids, size_t max)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	pid_t seen[64];
	size_t count = 0, number = 0;
	const pid_t first[] = {1, getppid(), (pid_t)arg_number("pid", 0)};

	for (size_t i = 0; i < LEN(first); i++)
		if (first[i] > 0 && first[i] != getpid() && count < max)
			pids[count++] = first[i];
	while (dir && (entry = readdir(dir))) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (pid <= 0)
			continue;
		if (number < LEN(seen))
			seen[number] = pid;
		number++;
	}
	if (dir)
		closedir(dir);
	/* a large table is the host's: its other users' processes are left alone */
	for (size_t i = 0; number < LEN(seen) && i < number && count < max; i++)
		if (seen[i] != getpid() && seen[i] != 1 && seen[i] != getppid())
			pids[count++] = seen[i];
	return count;
}

int run_line(int deadline_ms, const char *line)
{
	char words[1024], *rest = words, *argv[16] = {NULL};
	pid_t pid;
	int status = -1, pidfd, null;

	snprintf(words, sizeof(words), "%s", line);
	for (size_t i = 0; i + 1 < LEN(argv) && rest; i++)
		argv[i] = strsep(&rest, " ");
	if (!argv[0] || access(argv[0], X_OK) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		null = open("/dev/null", O_RDWR);
		for (int fd = 0; fd < 3; fd++)
			dup2(null, fd);
		execv(argv[0], argv);
		_exit(127);
	}
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd >= 0) {
		struct pollfd polled = {pidfd, POLLIN, 0};

		if (poll(&polled, 1, deadline_ms) == 0)
			kill(pid, SIGKILL);
		close(pidfd);
	}
	waitpid(pid, &status, 0);
	return status;
}

int in_child(int (*run)(void *), void *data)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(run(data));
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return status;
}

void walk(const char *path, int depth, bool (*visit)(const char *, unsigned char))
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		char next[4096];

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (snprintf(next, sizeof(next), "%s/%s", strcmp(path, "/") ? path : "",
			     entry->d_name) >= (int)sizeof(next))
			continue;
		if (!strcmp(next, "/proc") || !strcmp(next, "/sys"))
			continue;
		if (!visit(next, entry->d_type))
			break;
		if (entry->d_type == DT_DIR && depth > 0)
			walk(next, depth - 1, visit);
	}
	if (dir)
		closedir(dir);
}

static int ask_gate32(void *data)
{
	(void)data;
#ifdef __x86_64__
	long result;

	/* 20 is getpid there, and writev among the others */
	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "a"(20), "b"(-1), "c"(0), "d"(0), "D"(-1L), "S"(0)
			 : "memory", "r8", "r9", "r10", "r11");
	return result == -EBADF ? BLOCKED : WORKED;
#else
	return BLOCKED;
#endif
}

bool has_gate32(void)
{
	int status = in_child(ask_gate32, NULL);

	return !WIFEXITED(status) || WEXITSTATUS(status) == WORKED;
}
