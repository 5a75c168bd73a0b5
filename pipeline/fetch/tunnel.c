#include "tunnel.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/events.h"

/* A fatal alert, access_denied (RFC 8446 section 6): what a TLS client can understand after the
 * 200. */
static const char tls_denied[] = {0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x31};

struct tunnel *tunnel_new(struct tunnel_shared *shared, int client)
{
	struct tunnel *tunnel = mem_calloc(1, sizeof(*tunnel));

	tunnel->shared = shared;
	tunnel->client = client;
	tunnel->server = -1;
	tunnel->started_ms = fd_now_ms();
	tunnel->deadline_ms = tunnel->started_ms + shared->policy->head_ms;
	return tunnel;
}

void tunnel_free(struct tunnel *tunnel)
{
	if (!tunnel)
		return;
	fd_close_ptr(&tunnel->client);
	fd_close_ptr(&tunnel->server);
	mem_free_ptr(&tunnel);
}

static void set_why(struct tunnel *tunnel, const char *why)
{
	if (!tunnel->why[0])
		snprintf(tunnel->why, sizeof(tunnel->why), "%s", why);
}

static void queue_down(struct tunnel *tunnel, const char *data, size_t len)
{
	if (len > sizeof(tunnel->down) - tunnel->down_len)
		len = sizeof(tunnel->down) - tunnel->down_len;
	memcpy(tunnel->down + tunnel->down_len, data, len);
	tunnel->down_len += len;
}

static void consume(char *buffer, size_t *len, size_t used)
{
	memmove(buffer, buffer + used, *len - used);
	*len -= used;
}

/* Ends a tunnel with an HTTP answer: only before the 200 was sent. */
static void deny(struct tunnel *tunnel, int status, const char *phrase, const char *why)
{
	char text[1400], body[600];
	int size;

	set_why(tunnel, why);
	fd_close_ptr(&tunnel->server);
	tunnel->server = -1;
	size = snprintf(body, sizeof(body), "agent-egress: %s %s: %s\n",
			tunnel->at.host[0] ? tunnel->at.host : "request",
			tunnel->allowed ? "not reached" : "denied", tunnel->why);
	snprintf(text, sizeof(text),
		 "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: "
		 "%d\r\n"
		 "X-Agent-Egress: %s; %s\r\nConnection: close\r\n\r\n%s",
		 status, phrase, size, tunnel->allowed ? "failed" : "denied", tunnel->why,
		 body);
	tunnel->up_len = tunnel->down_len = 0;
	queue_down(tunnel, text, strlen(text));
	tunnel->state = TUNNEL_DENY;
	tunnel->deadline_ms = fd_now_ms() + tunnel->shared->policy->head_ms;
}

static void deny_request(struct tunnel *tunnel, const char *why)
{
	tunnel->allowed = false;
	deny(tunnel, 403, "Forbidden", why);
}

static void fail_request(struct tunnel *tunnel, const char *why)
{
	tunnel->failed = true;
	deny(tunnel, 502, "Bad Gateway", why);
}

/* Ends a tunnel after the 200: the client may be a TLS client, so it gets an alert. */
static void deny_hello(struct tunnel *tunnel, const char *why)
{
	set_why(tunnel, why);
	tunnel->allowed = false;
	fd_close_ptr(&tunnel->server);
	tunnel->server = -1;
	tunnel->up_len = 0;
	queue_down(tunnel, tls_denied, sizeof(tls_denied));
	tunnel->state = TUNNEL_DENY;
	tunnel->deadline_ms = fd_now_ms() + tunnel->shared->policy->head_ms;
}

/* ---- reaching the other side ---- */

static void say_yes(struct tunnel *tunnel)
{
	static const char yes[] = "HTTP/1.1 200 Connection established\r\n\r\n";

	queue_down(tunnel, yes, sizeof(yes) - 1);
	tunnel->state = TUNNEL_HELLO;
	tunnel->deadline_ms = fd_now_ms() + tunnel->shared->policy->head_ms;
}

/* Starts on the next address that can be tried at all; the last failure is what is told. */
static void connect_next(struct tunnel *tunnel, int last_errno)
{
	const struct resolved *target = tunnel->target;

	fd_close_ptr(&tunnel->server);
	tunnel->server = -1;
	while (tunnel->next_address < target->count) {
		size_t i = tunnel->next_address++;
		int fd = socket(target->addresses[i].ss_family,
				SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		if (fd < 0) {
			last_errno = errno;
			continue;
		}
		if (connect(fd, (const struct sockaddr *)&target->addresses[i],
			    target->lengths[i]) == 0 ||
		    errno == EINPROGRESS) {
			tunnel->server = fd;
			tunnel->state = TUNNEL_CONNECT;
			tunnel->deadline_ms = fd_now_ms() + tunnel->shared->policy->connect_ms;
			return;
		}
		last_errno = errno;
		close(fd);
	}
	fail_request(tunnel, strerror(last_errno));
}

/* The operator's own proxy may be anywhere: its name is not the warm's to choose. */
static enum resolve_reach reach_of(const struct policy_rule *rule, bool proxied)
{
	if (proxied || rule->private_ok)
		return RESOLVE_ANY;
	return rule->site_ok ? RESOLVE_SITE : RESOLVE_PUBLIC;
}

static void begin_connect(struct tunnel *tunnel)
{
	struct tunnel_shared *shared = tunnel->shared;
	const struct policy *policy = shared->policy;
	bool proxied = policy->upstream && !tunnel->rule->direct;
	size_t slot = proxied ? policy->count : (size_t)(tunnel->rule - policy->rules);

	if (!shared->looked_up[slot]) {
		resolve_host(proxied ? &policy->proxy : &tunnel->at,
			     reach_of(tunnel->rule, proxied), &shared->resolved[slot]);
		shared->looked_up[slot] =
		    shared->resolved[slot].count > 0 || shared->resolved[slot].denied;
	}
	tunnel->target = &shared->resolved[slot];
	if (tunnel->target->denied)
		deny_request(tunnel, tunnel->target->why);
	else if (!tunnel->target->count)
		fail_request(tunnel, tunnel->target->why);
	else
		connect_next(tunnel, 0);
}

static void connected(struct tunnel *tunnel)
{
	const struct policy *policy = tunnel->shared->policy;
	char name[280];
	int problem = 0;
	socklen_t size = sizeof(problem);

	if (getsockopt(tunnel->server, SOL_SOCKET, SO_ERROR, &problem, &size) < 0)
		problem = errno;
	if (problem) {
		connect_next(tunnel, problem);
		return;
	}
	if (!policy->upstream || tunnel->rule->direct) {
		say_yes(tunnel);
		return;
	}
	authority_format(&tunnel->at, name, sizeof(name));
	tunnel->ask_len =
	    (size_t)snprintf(tunnel->ask, sizeof(tunnel->ask),
			     "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", name, name);
	tunnel->state = TUNNEL_PROXY;
	tunnel->deadline_ms = fd_now_ms() + policy->connect_ms;
}

/* ---- deciding ---- */

static void read_request(struct tunnel *tunnel)
{
	const struct policy *policy = tunnel->shared->policy;
	const char *why = NULL;
	size_t used = 0;

	switch (request_parse(tunnel->up, tunnel->up_len, &tunnel->at, &used, &why)) {
	case REQUEST_MORE:
		if (tunnel->client_eof) {
			set_why(tunnel, "the request ended early");
			tunnel->state = TUNNEL_DONE;
		}
		return;
	case REQUEST_REFUSED:
		deny_request(tunnel, why);
		return;
	case REQUEST_CONNECT:
		break;
	}
	consume(tunnel->up, &tunnel->up_len, used);
	tunnel->rule = policy_find(policy, &tunnel->at, &why);
	if (!tunnel->rule) {
		deny_request(tunnel, why);
	} else if (++tunnel->shared->requests > policy->requests) {
		deny_request(tunnel, "the warm has made too many requests");
	} else {
		tunnel->allowed = true;
		begin_connect(tunnel);
	}
}

static void read_proxy_answer(struct tunnel *tunnel)
{
	size_t used = 0;
	int status, whole = response_parse(tunnel->down, tunnel->down_len, &used, &status);
	char text[96];

	if (whole == 0 && !tunnel->server_eof)
		return;
	if (whole <= 0) {
		snprintf(text, sizeof(text), "the operator's own proxy refuses it (status %d)",
			 status);
		fail_request(tunnel, text);
		return;
	}
	consume(tunnel->down, &tunnel->down_len, used);
	if (tunnel->down_len)
		fail_request(tunnel, "the operator's own proxy speaks before it was asked");
	else
		say_yes(tunnel);
}

/* Nothing has gone out so far: the first bytes decide whether anything will. */
static void read_hello(struct tunnel *tunnel)
{
	struct authority named;
	char name[256];
	const char *why = NULL;
	enum hello_result result =
	    hello_parse((const unsigned char *)tunnel->up,
			tunnel->up_len > HELLO_MAX ? HELLO_MAX : tunnel->up_len, name, &why);

	if (result == HELLO_MORE) {
		if (tunnel->client_eof)
			tunnel->state = TUNNEL_DONE;
		return;
	}
	if (result == HELLO_REFUSED) {
		deny_hello(tunnel, why);
		return;
	}
	if (tunnel->at.literal) {
		if (result == HELLO_NAMED) {
			deny_hello(tunnel,
				   "the TLS hello names a host, the request an address");
			return;
		}
	} else if (result == HELLO_UNNAMED) {
		deny_hello(tunnel, "the TLS hello names no host");
		return;
	} else if (authority_parse_host(name, strlen(name), &named, &why) < 0 ||
		   strcmp(named.host, tunnel->at.host) != 0) {
		deny_hello(tunnel, "the TLS hello names another host than the request");
		return;
	}
	tunnel->state = TUNNEL_PIPE;
}

/* ---- bytes ---- */

static void broken(struct tunnel *tunnel)
{
	set_why(tunnel, tunnel->state == TUNNEL_PIPE ? "" : "the connection broke");
	tunnel->state = TUNNEL_DONE;
}

/* Reads into a buffer. False when the socket is broken. */
static bool fill(int fd, char *buffer, size_t *len, bool *eof)
{
	ssize_t n;

	if (*len == TUNNEL_BUFFER)
		return true;
	n = recv(fd, buffer + *len, TUNNEL_BUFFER - *len, 0);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n == 0)
		*eof = true;
	*len += (size_t)n;
	return true;
}

static bool drain(int fd, char *buffer, size_t *len, uint64_t *total)
{
	ssize_t n = send(fd, buffer, *len, MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	consume(buffer, len, (size_t)n);
	*total += (uint64_t)n;
	return true;
}

/* Half-closes are passed on once all before them is written. */
static void pass_eof(struct tunnel *tunnel)
{
	if (tunnel->client_eof && !tunnel->up_len && !tunnel->up_shut) {
		shutdown(tunnel->server, SHUT_WR);
		tunnel->up_shut = true;
	}
	if (tunnel->server_eof && !tunnel->down_len && !tunnel->down_shut) {
		shutdown(tunnel->client, SHUT_WR);
		tunnel->down_shut = true;
	}
	if (tunnel->up_shut && tunnel->down_shut)
		tunnel->state = TUNNEL_DONE;
}

/* The caps of the job. What is over ends this tunnel; the next request meets the same cap. */
static void check_caps(struct tunnel *tunnel)
{
	const struct tunnel_shared *shared = tunnel->shared;

	if (shared->up_bytes > shared->policy->up_bytes)
		set_why(tunnel, "the warm has sent more bytes than it may");
	else if (shared->down_bytes > shared->policy->down_bytes)
		set_why(tunnel, "the warm has received more bytes than it may");
	else
		return;
	tunnel->allowed = false;
	tunnel->state = TUNNEL_DONE;
}

short tunnel_client_events(const struct tunnel *tunnel)
{
	short events = 0;
	bool wants = tunnel->state == TUNNEL_HEAD || tunnel->state == TUNNEL_HELLO ||
		     tunnel->state == TUNNEL_PIPE;

	if (wants && !tunnel->client_eof && tunnel->up_len < TUNNEL_BUFFER)
		events |= POLLIN;
	if (tunnel->state >= TUNNEL_HELLO && tunnel->down_len)
		events |= POLLOUT;
	return events;
}

short tunnel_server_events(const struct tunnel *tunnel)
{
	short events = 0;

	if (tunnel->server < 0)
		return 0;
	if (tunnel->state == TUNNEL_CONNECT)
		return POLLOUT;
	if ((tunnel->state == TUNNEL_PROXY || tunnel->state == TUNNEL_PIPE) &&
	    !tunnel->server_eof && tunnel->down_len < TUNNEL_BUFFER)
		events |= POLLIN;
	if ((tunnel->state == TUNNEL_PROXY && tunnel->ask_len) ||
	    (tunnel->state == TUNNEL_PIPE && tunnel->up_len))
		events |= POLLOUT;
	return events;
}

static bool move_client(struct tunnel *tunnel, short events)
{
	uint64_t before = tunnel->down_total;

	if (events & (POLLIN | POLLHUP | POLLERR) && tunnel_client_events(tunnel) & POLLIN &&
	    !fill(tunnel->client, tunnel->up, &tunnel->up_len, &tunnel->client_eof))
		return false;
	if (events & (POLLOUT | POLLHUP | POLLERR) && tunnel_client_events(tunnel) & POLLOUT &&
	    !drain(tunnel->client, tunnel->down, &tunnel->down_len, &tunnel->down_total))
		return false;
	tunnel->shared->down_bytes += tunnel->down_total - before;
	return true;
}

static bool move_server(struct tunnel *tunnel, short events)
{
	uint64_t before = tunnel->up_total;

	if (events & (POLLIN | POLLHUP | POLLERR) && tunnel_server_events(tunnel) & POLLIN &&
	    !fill(tunnel->server, tunnel->down, &tunnel->down_len, &tunnel->server_eof))
		return false;
	if (events & (POLLOUT | POLLHUP | POLLERR) && tunnel_server_events(tunnel) & POLLOUT) {
		bool asking = tunnel->state == TUNNEL_PROXY;

		if (!drain(tunnel->server, asking ? tunnel->ask : tunnel->up,
			   asking ? &tunnel->ask_len : &tunnel->up_len, &tunnel->up_total))
			return false;
	}
	tunnel->shared->up_bytes += tunnel->up_total - before;
	return true;
}

void tunnel_step(struct tunnel *tunnel, short client_revents, short server_revents)
{
	if (tunnel->state == TUNNEL_CONNECT) {
		if (client_revents & (POLLHUP | POLLERR))
			broken(tunnel);
		else if (server_revents)
			connected(tunnel);
		return;
	}
	if (client_revents && !move_client(tunnel, client_revents)) {
		broken(tunnel);
		return;
	}
	if (server_revents && tunnel->server >= 0 && !move_server(tunnel, server_revents)) {
		broken(tunnel);
		return;
	}
	if ((client_revents | server_revents) && tunnel->state == TUNNEL_PIPE)
		tunnel->deadline_ms = fd_now_ms() + tunnel->shared->policy->idle_ms;
	if (tunnel->state == TUNNEL_HEAD)
		read_request(tunnel);
	else if (tunnel->state == TUNNEL_PROXY)
		read_proxy_answer(tunnel);
	else if (tunnel->state == TUNNEL_HELLO)
		read_hello(tunnel);
	else if (tunnel->state == TUNNEL_PIPE)
		pass_eof(tunnel);
	else if (tunnel->state == TUNNEL_DENY && !tunnel->down_len)
		tunnel->state = TUNNEL_DONE;
	if (tunnel->state == TUNNEL_PIPE)
		check_caps(tunnel);
}

void tunnel_expire(struct tunnel *tunnel)
{
	if (tunnel->state == TUNNEL_CONNECT) {
		connect_next(tunnel, ETIMEDOUT);
		return;
	}
	if (tunnel->state == TUNNEL_PROXY) {
		fail_request(tunnel, "the operator's own proxy does not answer");
		return;
	}
	if (tunnel->state != TUNNEL_DENY)
		set_why(tunnel, tunnel->state == TUNNEL_PIPE ? "idle for too long"
							     : "no request in time");
	tunnel->state = TUNNEL_DONE;
}

void tunnel_report(const struct tunnel *tunnel)
{
	struct json *event = js_object_new();
	long long sent = (long long)tunnel->up_total, received = (long long)tunnel->down_total;

	js_set_str(event, "host", tunnel->at.host);
	js_set_int(event, "port", tunnel->at.port);
	js_set_bool(event, "allowed", tunnel->allowed);
	js_set_str(event, "why", tunnel->why);
	js_set_int(event, "bytes", sent + received);
	js_set_int(event, "sent", sent);
	js_set_int(event, "received", received);
	js_set_int(event, "ms", fd_now_ms() - tunnel->started_ms);
	event_send("egress", event);
}
