/*
 * Plays agent-jail for tests/e2e/doctor.py: no jail at all. A command with words about canaries reaches every one of them, and some
 * attacks are said to have gone as they like. The exit facts are the file "facts" beside it.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/fds.h"

/* The value of an argument name=value of the spec; NULL when there is none. */
static const char *word(const struct strbuf *spec, const char *name)
{
	char *start AUTO_FREE = mem_printf("arg=%s=", name);

	for (size_t at = 0; at < spec->len; at += strlen(spec->data + at) + 1)
		if (strncmp(spec->data + at, start, strlen(start)) == 0)
			return spec->data + at + strlen(start);
	return NULL;
}

static void reach_unix(const char *name, size_t from)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(at.sun_path + from, sizeof(at.sun_path) - from, "%s", name);
	if (connect(sock, (struct sockaddr *)&at,
		    (socklen_t)(sizeof(sa_family_t) + from + strlen(name) + !from)) < 0)
		perror(name);
}

static void reach_all(const struct strbuf *spec)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_port =
				     htons((uint16_t)strtoul(word(spec, "lo"), NULL, 10)),
				 .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int file = open(word(spec, "victim"), O_WRONLY | O_APPEND | O_CLOEXEC);
	int secret = open(word(spec, "file"), O_RDONLY | O_CLOEXEC);
	struct strbuf text = STRBUF_NONE;

	if (connect(sock, (struct sockaddr *)&at, sizeof(at)) < 0)
		perror("loopback");
	reach_unix(word(spec, "abstract"), 1);
	reach_unix(word(spec, "unix"), 0);
	fd_write_all(file, "x", 1);
	kill((pid_t)strtol(word(spec, "pid"), NULL, 10), SIGKILL);
	strbuf_init(&text, 65536);
	strbuf_adds(&text, "N1: worked: \033[31mas it says\nN2: blocked: wall\nN12: done: "
			   "x\nE1: not tried: y\n");
	fd_read_all(secret, &text);
	fd_write_all(FD_STDOUT, text.data, text.len);
}

int main(void)
{
	struct strbuf spec = STRBUF_NONE, facts = STRBUF_NONE;
	char self[4096];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 16);
	int fd;

	strbuf_init(&spec, STRBUF_MAX);
	strbuf_init(&facts, STRBUF_MAX);
	if (len < 0 || fd_pread_all(FD_SPEC, &spec) < 0)
		return 1;
	self[len] = '\0';
	snprintf(strrchr(self, '/'), 16, "/facts");
	fd = open(self, O_RDONLY | O_CLOEXEC);
	if (word(&spec, "lo"))
		reach_all(&spec);
	if (fd < 0 || fd_read_all(fd, &facts) < 0)
		return 1;
	return fd_write_all(FD_FACTS, facts.data, facts.len) < 0;
}
