#include "relay.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/dial.h"
#include "pipeline/publish/pump.h"

/* A client whose CONNECT request has not come whole. */
struct greeting {
	int fd;	    /* owned; -1: none */
	char *data; /* owned: RELAY_HEADER_MAX bytes */
	size_t len;
};

struct connection {
	struct greeting greeting; /* before the tunnel stands */
	struct pump pump;	  /* after */
};

struct relay {
	enum relay_kind kind;
	char *authority; /* owned */
	int net_fd;	 /* borrowed */
	int listen_fd;	 /* owned */
	int port;
	struct connection connections[RELAY_CONNECTIONS];
	struct error dial_error;
	unsigned long long limit; /* bytes that may come from the server; 0: any number */
	unsigned long long came;  /* of connections that have ended */
};

int relay_parse_connect(const char *data, size_t len, const char *authority, size_t *used)
{
	static const char verb[] = "CONNECT ", version[] = " HTTP/1.";
	const char *end = memmem(data, len, "\r\n\r\n", 4), *line_end;
	size_t name = strlen(authority), head = sizeof(verb) - 1, tail = sizeof(version) - 1;

	/* refuse at the first byte that is wrong, not after a header of any length */
	if (memcmp(data, verb, len < head ? len : head) != 0)
		return -1;
	if (!end)
		return len < RELAY_HEADER_MAX && !memchr(data, '\0', len) ? 0 : -1;
	line_end = memmem(data, len, "\r\n", 2);
	if (!line_end || (size_t)(line_end - data) != head + name + tail + 1)
		return -1;
	if (strncasecmp(data + head, authority, name) != 0 ||
	    memcmp(data + head + name, version, tail) != 0)
		return -1;
	*used = (size_t)(end + 4 - data);
	return 1;
}

int relay_open(enum relay_kind kind, const char *authority, int net_fd, struct relay **relay,
	       struct error *err)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	int fd AUTO_FD = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct relay *made;

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(fd, RELAY_CONNECTIONS) < 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &size) < 0)
		return error_errno(err, ERROR_FAILED, errno, "listener on the own loopback");
	made = mem_calloc(1, sizeof(*made));
	made->kind = kind;
	made->authority = mem_strdup(authority);
	made->net_fd = net_fd;
	made->listen_fd = fd_steal(&fd);
	made->port = ntohs(address.sin_port);
	for (size_t i = 0; i < RELAY_CONNECTIONS; i++) {
		made->connections[i].greeting.fd = -1;
		made->connections[i].pump.fd[0] = made->connections[i].pump.fd[1] = -1;
	}
	*relay = made;
	return 0;
}

static void greeting_release(struct greeting *greeting)
{
	if (greeting->fd >= 0)
		close(greeting->fd);
	greeting->fd = -1;
	free(greeting->data);
	greeting->data = NULL;
	greeting->len = 0;
}

void relay_free(struct relay *relay)
{
	if (!relay)
		return;
	for (size_t i = 0; i < RELAY_CONNECTIONS; i++) {
		greeting_release(&relay->connections[i].greeting);
		pump_release(&relay->connections[i].pump);
	}
	close(relay->listen_fd);
	free(relay->authority);
	free(relay);
}

int relay_port(const struct relay *relay)
{
	return relay->port;
}

const struct error *relay_error(const struct relay *relay)
{
	return &relay->dial_error;
}

void relay_fill(const struct relay *relay, struct pollfd fds[RELAY_POLLFDS])
{
	fds[0] = (struct pollfd){.fd = relay->listen_fd, .events = POLLIN};
	for (size_t i = 0; i < RELAY_CONNECTIONS; i++) {
		const struct connection *connection = &relay->connections[i];
		struct pollfd *pair = fds + 1 + i * PUMP_POLLFDS;

		pair[0] = pair[1] = (struct pollfd){.fd = -1};
		if (connection->greeting.fd >= 0)
			pair[0] =
			    (struct pollfd){.fd = connection->greeting.fd, .events = POLLIN};
		else if (connection->pump.fd[0] >= 0)
			pump_fill(&connection->pump, pair);
	}
}

static void answer(int fd, const char *text)
{
	send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Asks agent-dial and joins client (taken) to the server; first: bytes that the client sent
 * ahead. */
static void join(struct relay *relay, struct connection *connection, int client,
		 const char *first, size_t first_len)
{
	struct error failed = {0};
	int server = dial_connect(relay->net_fd, &failed);

	if (server < 0) {
		relay->dial_error = failed;
		if (relay->kind == RELAY_CONNECT)
			answer(client, "HTTP/1.1 502 Bad Gateway\r\n\r\n");
		close(client);
		return;
	}
	relay->dial_error = (struct error){0};
	if (relay->kind == RELAY_CONNECT)
		answer(client, "HTTP/1.1 200 Connection established\r\n\r\n");
	pump_init(&connection->pump, client, server, first, first_len);
}

static void accept_one(struct relay *relay)
{
	int fd AUTO_FD = accept4(relay->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return;
	for (size_t i = 0; i < RELAY_CONNECTIONS; i++) {
		struct connection *connection = &relay->connections[i];

		if (connection->greeting.fd >= 0 || connection->pump.fd[0] >= 0)
			continue;
		if (relay->kind == RELAY_FORWARD) {
			join(relay, connection, fd_steal(&fd), "", 0);
			return;
		}
		connection->greeting.fd = fd_steal(&fd);
		connection->greeting.data = mem_calloc(RELAY_HEADER_MAX, 1);
		return;
	}
}

static void greet(struct relay *relay, struct connection *connection)
{
	struct greeting *greeting = &connection->greeting;
	ssize_t n = recv(greeting->fd, greeting->data + greeting->len,
			 RELAY_HEADER_MAX - greeting->len, 0);
	size_t used = 0;
	int verdict;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		greeting_release(greeting);
		return;
	}
	greeting->len += (size_t)n;
	verdict = relay_parse_connect(greeting->data, greeting->len, relay->authority, &used);
	if (verdict > 0)
		join(relay, connection, fd_steal(&greeting->fd), greeting->data + used,
		     greeting->len - used);
	else if (verdict < 0)
		answer(greeting->fd, "HTTP/1.1 403 Forbidden\r\n\r\n");
	if (verdict)
		greeting_release(greeting);
}

void relay_limit(struct relay *relay, unsigned long long bytes)
{
	relay->limit = bytes;
}

bool relay_is_over(const struct relay *relay)
{
	unsigned long long all = relay->came;

	for (size_t i = 0; i < RELAY_CONNECTIONS; i++)
		if (relay->connections[i].pump.fd[0] >= 0)
			all += relay->connections[i].pump.came;
	return relay->limit && all > relay->limit;
}

static void end_pump(struct relay *relay, struct connection *connection)
{
	relay->came += connection->pump.came;
	pump_release(&connection->pump);
}

void relay_serve(struct relay *relay, const struct pollfd fds[RELAY_POLLFDS])
{
	for (size_t i = 0; i < RELAY_CONNECTIONS; i++) {
		struct connection *connection = &relay->connections[i];
		const struct pollfd *pair = fds + 1 + i * PUMP_POLLFDS;

		if (connection->greeting.fd >= 0) {
			if (pair[0].revents)
				greet(relay, connection);
		} else if (connection->pump.fd[0] >= 0 &&
			   (pair[0].revents || pair[1].revents)) {
			if (!pump_move(&connection->pump, pair) || relay_is_over(relay))
				end_pump(relay, connection);
		}
	}
	if (fds[0].revents)
		accept_one(relay);
}
