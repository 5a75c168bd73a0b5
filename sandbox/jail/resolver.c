#include "resolver.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox/jail/run.h"

#define DATAGRAMS_A_TURN 16 /* then others have their turn */

static int bound_socket(int type)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = htons(53),
				      .sin_addr = {inet_addr(RESOLVER_ADDRESS)}};
	int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

int resolver_open(struct jail_run *run, struct resolver *resolver)
{
	resolver->udp = resolver->tcp = -1;
	for (size_t i = 0; i < RESOLVER_CONNECTIONS; i++)
		resolver->connections[i].fd = -1;
	if (step_enter(run, STEP_resolver) < 0)
		return step_fail(run, "resolver");
	if (run->spec.observe) {
		resolver->udp = bound_socket(SOCK_DGRAM);
		resolver->tcp = resolver->udp < 0 ? -1 : bound_socket(SOCK_STREAM);
		if (resolver->tcp < 0 || listen(resolver->tcp, 64) < 0)
			return step_fail(run, "resolver on " RESOLVER_ADDRESS);
	}
	step_done(run);
	return 0;
}

void resolver_poll(const struct resolver *resolver, struct pollfd *fds)
{
	fds[0] = (struct pollfd){resolver->udp, POLLIN, 0};
	fds[1] = (struct pollfd){resolver->tcp, POLLIN, 0};
	for (size_t i = 0; i < RESOLVER_CONNECTIONS; i++)
		fds[2 + i] = (struct pollfd){resolver->connections[i].fd, POLLIN, 0};
}

static size_t answer(struct resolver *resolver, const uint8_t *query, size_t len,
		     uint8_t *reply)
{
	struct dns_question question;
	size_t size = dns_answer(query, len, reply, &question);

	if (question.name[0])
		resolver->asked(resolver->arg, &question);
	return size;
}

static void serve_datagrams(struct resolver *resolver)
{
	for (int i = 0; i < DATAGRAMS_A_TURN; i++) {
		uint8_t query[DNS_QUERY_MAX + 1], reply[DNS_QUERY_MAX];
		struct sockaddr_in from;
		socklen_t from_size = sizeof(from);
		ssize_t len = recvfrom(resolver->udp, query, sizeof(query), 0,
				       (struct sockaddr *)&from, &from_size);
		size_t size;

		if (len < 0)
			return; /* none is left, or an error of an earlier reply was told */
		size = answer(resolver, query, (size_t)len, reply);
		if (size)
			sendto(resolver->udp, reply, size, MSG_NOSIGNAL | MSG_DONTWAIT,
			       (struct sockaddr *)&from, from_size);
	}
}

static void connection_close(struct resolver_connection *connection)
{
	close(connection->fd);
	connection->fd = -1;
}

static void accept_one(struct resolver *resolver)
{
	struct resolver_connection *connection;
	int fd = accept4(resolver->tcp, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return;
	connection = &resolver->connections[resolver->next++ % RESOLVER_CONNECTIONS];
	if (connection->fd >= 0)
		connection_close(connection);
	connection->fd = fd;
	connection->have = 0;
}

/* One query at a time. A peer that does not take its answer, or asks for more than fits, is let go. */
static void serve_connection(struct resolver *resolver, struct resolver_connection *connection)
{
	const uint8_t *data = connection->data;
	uint8_t reply[2 + DNS_QUERY_MAX];
	size_t wanted = connection->have < 2 ? 2 : 2 + (size_t)(data[0] << 8 | data[1]), size;
	ssize_t len;

	if (connection->have == 2 && (wanted == 2 || wanted > sizeof(connection->data))) {
		connection_close(connection);
		return;
	}
	len = recvfrom(connection->fd, connection->data + connection->have,
		       wanted - connection->have, 0, NULL, NULL);
	if (len < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (len <= 0) {
		connection_close(connection);
		return;
	}
	connection->have += (size_t)len;
	if (connection->have < wanted || wanted == 2)
		return;
	size = answer(resolver, data + 2, wanted - 2, reply + 2);
	reply[0] = (uint8_t)(size >> 8);
	reply[1] = (uint8_t)size;
	connection->have = 0;
	if (!size || sendto(connection->fd, reply, size + 2, MSG_NOSIGNAL | MSG_DONTWAIT, NULL,
			    0) != (ssize_t)size + 2)
		connection_close(connection);
}

void resolver_serve(struct resolver *resolver, const struct pollfd *fds)
{
	if (fds[0].revents)
		serve_datagrams(resolver);
	for (size_t i = 0; i < RESOLVER_CONNECTIONS; i++)
		if (fds[2 + i].revents && resolver->connections[i].fd == fds[2 + i].fd &&
		    fds[2 + i].fd >= 0)
			serve_connection(resolver, &resolver->connections[i]);
	if (fds[1].revents)
		accept_one(resolver);
}
