/*
 * NAME
 *	agent-dial - resolves and connects one host:port, pumps bytes
 *
 * SYNOPSIS
 *	started by agent(1) alone: FD_CONTROL, FD_JOB, FD_NET, FD_SECRET
 *
 * The rows with network have none: they sit in an empty network namespace and ask here for a
 * connection (pipeline/dial.h). The TCP socket stays here, because a connected TCP socket is a licence
 * to dial elsewhere (connect to AF_UNSPEC, then to another host); the stage gets one end of a
 * socketpair.
 *
 * Where the job names a proxy, that is what is connected to, and asked for a tunnel to the one host:port: so
 * a stage that asks here reaches no other, whatever the proxy would give.
 *
 * Reads: its job {"host","port","private_ok","connect_ms","proxy":{"host","port"}?}; FD_SECRET (user:password
 * of the proxy, when it has one); "c" on FD_NET; the header of a proxy's answer; bytes of both sides, which it
 * does not look at. Writes: answers on FD_NET; the same bytes; a closing result event
 * {"connections","sent","received"}.
 *
 * SECURITY
 *	Hostile inputs: DNS answers, addresses in them, the peer's timing, a proxy's answer; the bytes are
 *	opaque. Reach: any host that the machine reaches (its filter cannot see addresses), which is why it
 *	holds no secret but the proxy's own, parses nothing but the proxy's answer and reads no file but the
 *	resolver's. A compromise yields the network of the machine, the proxy's credential, and the cipher
 *	text of one connection.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pipeline/addr.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/events.h"
#include "pipeline/fds.h"
#include "pipeline/flow.h"
#include "pipeline/proxy.h"
#include "pipeline/secret.h"
#include "pipeline/stage.h"

#define LINKS_MOST 32
#define ADDRESSES_MOST 16
#define CONNECT_MS_DEFAULT 10000
#define REASON_MAX 512
/* After the stage has closed its side for good, how long the other side may stay silent. */
#define LINGER_MS 10000
/* A connection that cannot be handed on because the user has too many descriptors on their way already is
 * tried again this often, for so long. */
#define HAND_ON_PAUSE_MS 50
#define HAND_ON_MS 3000

struct link {
	int tcp, local;	     /* owned; -1 when the link is free */
	struct flow out, in; /* local to tcp, tcp to local */
	bool gone; /* the stage has closed its end: its last bytes may still be under way */
	long long active_ms; /* when a byte moved last */
};

/* A connected proxy that has been asked for the tunnel. */
struct greeting {
	bool begun;
	char *data; /* owned, PROXY_ANSWER_MAX */
	size_t len, used;
};

struct dial {
	const char *host; /* what is connected to: borrowed from the job */
	char port[8];
	const char *target; /* behind the proxy, borrowed; NULL: there is no proxy */
	struct strbuf ask;  /* the proxy's request, with its credential */
	bool named;	    /* it has one */
	bool forbidden;	    /* the target is an address that the operator has not allowed */
	struct greeting greeting;
	bool private_ok;
	int connect_ms;
	struct addrinfo *addresses;  /* owned; NULL: not resolved, or none of them answered */
	const struct addrinfo *next; /* to try when the current attempt fails */
	int attempt;		     /* owned: a socket that is connecting, -1: none */
	long long attempt_deadline_ms;
	int theirs, ours;	 /* owned: of an attempt that is connected and cannot be
					handed on as yet; else -1 */
	char reason[REASON_MAX]; /* why the attempts so far failed */
	bool asking;		 /* FD_NET is open */
	struct link links[LINKS_MOST];
	long long connections, sent, received;
};

/* ---- links ---- */

static void link_init(struct link *link)
{
	memset(link, 0, sizeof(*link));
	link->tcp = link->local = -1;
}

static void link_close(struct link *link)
{
	if (link->tcp >= 0)
		close(link->tcp);
	if (link->local >= 0)
		close(link->local);
	free(link->out.data);
	free(link->in.data);
	link_init(link);
}

static struct link *link_free_one(struct dial *dial)
{
	for (size_t i = 0; i < LINKS_MOST; i++)
		if (dial->links[i].tcp < 0)
			return &dial->links[i];
	return NULL;
}

static short events_of(const struct flow *from, const struct flow *to)
{
	short events = 0;

	if (!from->ended && from->start + from->len < FLOW_BYTES)
		events |= POLLIN;
	if (to->len)
		events |= POLLOUT;
	return events;
}

static void link_serve(struct dial *dial, struct link *link)
{
	long long before = dial->sent + dial->received;

	flow_fill(&link->out, link->local);
	flow_drain(&link->out, link->tcp, &dial->sent);
	if (link->gone)
		flow_drop(&link->in);
	flow_fill(&link->in, link->tcp);
	flow_drain(&link->in, link->local, &dial->received);
	if (dial->sent + dial->received != before)
		link->active_ms = fd_now_ms();
	if (link->out.shut && link->in.shut)
		link_close(link);
	else if (link->gone && fd_now_ms() - link->active_ms > LINGER_MS)
		link_close(link);
}

/* ---- answers ---- */

static void answer_no(struct dial *dial)
{
	char text[REASON_MAX + 4];
	int len = snprintf(text, sizeof(text), "no %s", dial->reason);

	if (send(FD_NET, text, (size_t)len, MSG_NOSIGNAL) < 0)
		dial->asking = false;
}

static bool answer_ok(int fd)
{
	char text[] = "ok";
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec data = {.iov_base = text, .iov_len = 2};
	struct msghdr message = {.msg_iov = &data,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	struct cmsghdr *c;

	memset(&control, 0, sizeof(control));
	c = CMSG_FIRSTHDR(&message);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	return sendmsg(FD_NET, &message, MSG_NOSIGNAL) >= 0;
}

/* ---- connecting ---- */

static void set_reason(struct dial *dial, const struct addrinfo *at, const char *why)
{
	char numeric[64];

	addr_format(numeric, sizeof(numeric), at->ai_addr);
	snprintf(dial->reason, sizeof(dial->reason), "%s (%s) port %s: %s", dial->host, numeric,
		 dial->port, why);
}

static bool resolve(struct dial *dial)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC,
				 .ai_socktype = SOCK_STREAM,
				 .ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG};
	int code;

	if (dial->addresses)
		return true;
	event_progress("looking up %s", dial->host);
	code = getaddrinfo(dial->host, dial->port, &hints, &dial->addresses);
	if (code == 0)
		return true;
	dial->addresses = NULL;
	snprintf(dial->reason, sizeof(dial->reason), "%s cannot be resolved: %s", dial->host,
		 code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code));
	return false;
}

static void greeting_end(struct greeting *greeting)
{
	free(greeting->data);
	*greeting = (struct greeting){.begun = false};
}

static void attempt_close(struct dial *dial)
{
	greeting_end(&dial->greeting);
	close(fd_steal(&dial->attempt));
	if (dial->theirs >= 0)
		close(fd_steal(&dial->theirs));
	if (dial->ours >= 0)
		close(fd_steal(&dial->ours));
}

/* unix(7): the user's descriptors on their way are too many, or there is no memory. */
static bool may_pass(int code)
{
	return code == ETOOMANYREFS || code == ENOBUFS || code == ENOMEM || code == EINTR ||
	       code == EAGAIN;
}

/* The stage gets its end of the socketpair, and pumps start; or later, or it is told why not. */
static void hand_on(struct dial *dial)
{
	struct link *link = link_free_one(dial);
	int on = 1;

	if (!link)
		return; /* when one has ended */
	if (!answer_ok(dial->theirs)) {
		int code = errno;

		if (may_pass(code) && fd_now_ms() < dial->attempt_deadline_ms)
			return;
		attempt_close(dial);
		if (!may_pass(code)) {
			dial->asking = false;
			return;
		}
		snprintf(
		    dial->reason, sizeof(dial->reason),
		    "%s port %s answers, but its connection cannot be handed on: %s (%s): this "
		    "user's programs have too many descriptors on their way to each other",
		    dial->host, dial->port, strerrorname_np(code), strerror(code));
		answer_no(dial);
		return;
	}
	close(fd_steal(&dial->theirs));
	setsockopt(dial->attempt, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(dial->attempt, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	link->tcp = fd_steal(&dial->attempt);
	link->local = fd_steal(&dial->ours);
	link->out.data = mem_calloc(FLOW_BYTES, 1);
	link->in.data = mem_calloc(FLOW_BYTES, 1);
	link->active_ms = fd_now_ms();
	if (dial->greeting.begun) { /* what the server said behind the proxy's words */
		link->in.len = dial->greeting.len - dial->greeting.used;
		memcpy(link->in.data, dial->greeting.data + dial->greeting.used, link->in.len);
	}
	greeting_end(&dial->greeting);
	dial->connections++;
}

static void connected(struct dial *dial)
{
	int pair[2];

	if (!link_free_one(dial) ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
		snprintf(dial->reason, sizeof(dial->reason), "more than %d connections at once",
			 LINKS_MOST);
		attempt_close(dial);
		answer_no(dial);
		return;
	}
	dial->ours = pair[0];
	dial->theirs = pair[1];
	dial->attempt_deadline_ms = fd_now_ms() + HAND_ON_MS;
	hand_on(dial);
}

/* Starts the next attempt; answers when there is none left. */
static void attempt_next(struct dial *dial)
{
	for (; dial->next; dial->next = dial->next->ai_next) {
		const struct addrinfo *at = dial->next;

		if (!addr_permitted(at->ai_addr, dial->private_ok)) {
			char why[128];

			snprintf(why, sizeof(why), "%s, which the operator %s",
				 addr_class_text(addr_classify(at->ai_addr)),
				 addr_permitted(at->ai_addr, true)
				     ? "allows by private = yes beside its URL"
				     : "cannot allow");
			set_reason(dial, at, why);
			continue;
		}
		dial->attempt =
		    socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (dial->attempt >= 0 &&
		    (connect(dial->attempt, at->ai_addr, at->ai_addrlen) == 0 ||
		     errno == EINPROGRESS)) {
			dial->attempt_deadline_ms = fd_now_ms() + dial->connect_ms;
			return;
		}
		set_reason(dial, at, strerror(errno));
		if (dial->attempt >= 0)
			close(fd_steal(&dial->attempt));
	}
	/* None of them: the next request looks the name up again. */
	freeaddrinfo(dial->addresses);
	dial->addresses = NULL;
	answer_no(dial);
}

static void attempt_failed(struct dial *dial, const char *why)
{
	attempt_close(dial);
	set_reason(dial, dial->next, why);
	dial->next = dial->next->ai_next;
	attempt_next(dial);
}

/* The proxy is there but says no: another of its addresses would say the same. */
static void proxy_failed(struct dial *dial, const char *why)
{
	snprintf(dial->reason, sizeof(dial->reason), "%s: the proxy %s port %s %s",
		 dial->target, dial->host, dial->port, why);
	attempt_close(dial);
	answer_no(dial);
}

static void proxy_ask(struct dial *dial)
{
	ssize_t n =
	    send(dial->attempt, dial->ask.data, dial->ask.len, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 || (size_t)n != dial->ask.len) {
		proxy_failed(dial, "does not take the request");
		return;
	}
	dial->greeting =
	    (struct greeting){.begun = true, .data = mem_calloc(PROXY_ANSWER_MAX, 1)};
	dial->attempt_deadline_ms = fd_now_ms() + dial->connect_ms;
}

static void proxy_listen(struct dial *dial)
{
	struct greeting *greeting = &dial->greeting;
	ssize_t n = recv(dial->attempt, greeting->data + greeting->len,
			 PROXY_ANSWER_MAX - greeting->len, MSG_DONTWAIT);
	char why[256];
	int state;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		proxy_failed(dial, "closed the connection");
		return;
	}
	greeting->len += (size_t)n;
	state = proxy_parse_answer(greeting->data, greeting->len, dial->named, &greeting->used,
				   why);
	if (state < 0)
		proxy_failed(dial, why);
	else if (state > 0)
		connected(dial);
}

static void attempt_serve(struct dial *dial, bool ready)
{
	int code = 0;
	socklen_t len = sizeof(code);

	if (dial->theirs >= 0) {
		hand_on(dial);
		return;
	}
	if (ready && dial->greeting.begun) {
		proxy_listen(dial);
		return;
	}
	if (!ready) {
		if (fd_now_ms() >= dial->attempt_deadline_ms)
			attempt_failed(dial, "no answer in time");
		return;
	}
	if (getsockopt(dial->attempt, SOL_SOCKET, SO_ERROR, &code, &len) < 0)
		code = errno;
	if (code)
		attempt_failed(dial, strerror(code));
	else if (dial->target)
		proxy_ask(dial);
	else
		connected(dial);
}

/* One request on FD_NET. Anything but "c" is not from our code: the asking ends. */
static void request_serve(struct dial *dial)
{
	char text[8];
	ssize_t n = recv(FD_NET, text, sizeof(text), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != 1 || text[0] != 'c') {
		dial->asking = false;
		return;
	}
	snprintf(dial->reason, sizeof(dial->reason), "%s has no address", dial->host);
	if (dial->forbidden)
		snprintf(dial->reason, sizeof(dial->reason),
			 "%s: an address that the operator has not allowed", dial->target);
	if (dial->forbidden || !resolve(dial)) {
		answer_no(dial);
		return;
	}
	dial->next = dial->addresses;
	attempt_next(dial);
}

/* ---- the loop ---- */

struct waits {
	struct pollfd items[2 + 2 * LINKS_MOST];
};

/* Slot 0: FD_NET, 1: the attempt, then two a link. Negative descriptors are ignored by poll. */
static bool waits_fill(struct waits *waits, const struct dial *dial)
{
	bool any = dial->asking;

	waits->items[0] = (struct pollfd){.fd = dial->asking ? FD_NET : -1};
	if (dial->attempt < 0)
		waits->items[0].events = POLLIN;
	waits->items[1] = (struct pollfd){.fd = dial->theirs >= 0 ? -1 : dial->attempt,
					  .events = dial->greeting.begun ? POLLIN : POLLOUT};
	for (size_t i = 0; i < LINKS_MOST; i++) {
		const struct link *link = &dial->links[i];
		struct pollfd *local = &waits->items[2 + 2 * i],
			      *tcp = &waits->items[3 + 2 * i];

		*local = *tcp = (struct pollfd){.fd = -1};
		if (link->tcp < 0)
			continue;
		any = true;
		/* The stage's end is watched for its hang-up, until that is known. */
		local->events = events_of(&link->out, &link->in);
		if (!link->gone || local->events & POLLIN)
			local->fd = link->local;
		tcp->events = events_of(&link->in, &link->out);
		if (tcp->events)
			tcp->fd = link->tcp;
	}
	return any;
}

static int wait_ms(const struct dial *dial)
{
	int wait = -1;

	for (size_t i = 0; i < LINKS_MOST; i++)
		if (dial->links[i].gone)
			wait = 1000;
	if (dial->attempt >= 0) {
		long long left = dial->attempt_deadline_ms - fd_now_ms();

		left = left < 0 ? 0 : left;
		wait = wait >= 0 && wait < left ? wait : (int)left;
	}
	if (dial->theirs >= 0)
		wait = HAND_ON_PAUSE_MS;
	return wait;
}

static void serve_links(struct dial *dial, const struct waits *waits)
{
	for (size_t i = 0; i < LINKS_MOST; i++) {
		short local = waits->items[2 + 2 * i].revents,
		      tcp = waits->items[3 + 2 * i].revents;

		if (local & POLLHUP)
			dial->links[i].gone = true;
		if (local || tcp || dial->links[i].gone)
			link_serve(dial, &dial->links[i]);
	}
}

static int pump(struct dial *dial, struct error *err)
{
	struct waits waits;

	while (waits_fill(&waits, dial)) {
		int n = poll(waits.items, ARRAY_LEN(waits.items), wait_ms(dial));

		if (n < 0 && errno != EINTR)
			return error_errno(err, ERROR_FAILED, errno, "poll");
		if (n < 0)
			continue;
		serve_links(dial, &waits);
		if (dial->attempt >= 0)
			attempt_serve(dial, waits.items[1].revents != 0);
		if (waits.items[0].revents & POLLIN)
			request_serve(dial);
		else if (waits.items[0].revents)
			dial->asking = false;
		if (!dial->asking && dial->attempt >= 0)
			attempt_close(dial);
	}
	return 0;
}

/* A literal address is judged here; a name only the proxy resolves, and answers for. */
static bool is_permitted(const char *host, bool private_ok)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST}, *found = NULL;
	bool permitted;

	if (getaddrinfo(host, NULL, &hints, &found) != 0)
		return true;
	permitted = addr_permitted(found->ai_addr, private_ok);
	freeaddrinfo(found);
	return permitted;
}

/* The operator's proxy may be where the operator says. */
static int read_proxy(const struct json *job, int target_port, struct dial *dial,
		      struct error *err)
{
	const struct json *proxy = js_get(job, "proxy");
	struct secret *secret = NULL;
	const char *credential = NULL;
	long long port = 0;
	size_t len = 0;
	int result;

	if (!js_is_object(proxy))
		return 0;
	dial->target = dial->host;
	dial->forbidden = !is_permitted(dial->host, dial->private_ok);
	if (js_need_str(proxy, "host", &dial->host, err) ||
	    js_need_int(proxy, "port", 1, 65535, &port, err))
		return err->kind;
	if (!addr_host_is_sane(dial->host))
		return error_set(err, ERROR_USAGE, "\"%s\" is no host name or address",
				 dial->host);
	if (fd_is_open(FD_SECRET)) {
		secret = secret_take(FD_SECRET, err);
		if (!secret)
			return error_wrap(err, "http.proxyCredential");
		credential = secret_expose(secret, &len);
		dial->named = true;
	}
	result =
	    proxy_format_request(dial->target, target_port, credential, len, &dial->ask, err);
	secret_wipe(secret);
	snprintf(dial->port, sizeof(dial->port), "%lld", port);
	dial->private_ok = true;
	return result;
}

static int read_job(const struct json *job, struct dial *dial, struct error *err)
{
	long long port, connect_ms = CONNECT_MS_DEFAULT;
	int result = js_need_str(job, "host", &dial->host, err);

	if (result == 0)
		result = js_need_int(job, "port", 1, 65535, &port, err);
	if (result == 0 && js_get(job, "connect_ms"))
		result = js_need_int(job, "connect_ms", 1, 120000, &connect_ms, err);
	if (result < 0)
		return result;
	if (!addr_host_is_sane(dial->host))
		return error_set(err, ERROR_USAGE, "\"%s\" is no host name or address",
				 dial->host);
	snprintf(dial->port, sizeof(dial->port), "%lld", port);
	dial->connect_ms = (int)connect_ms;
	dial->private_ok = js_bool(job, "private_ok", false);
	return read_proxy(job, (int)port, dial, err);
}

static int run(struct stage *stage, struct error *err)
{
	struct dial dial = {.attempt = -1, .theirs = -1, .ours = -1, .asking = true};
	struct json *facts;
	int result;

	strbuf_init(&dial.ask, 8192);
	result = read_job(stage->job, &dial, err);
	if (result < 0)
		return result;
	for (size_t i = 0; i < LINKS_MOST; i++)
		link_init(&dial.links[i]);
	result = pump(&dial, err);
	for (size_t i = 0; i < LINKS_MOST; i++)
		link_close(&dial.links[i]);
	if (dial.addresses)
		freeaddrinfo(dial.addresses);
	mem_wipe(dial.ask.data, dial.ask.len);
	strbuf_release(&dial.ask);
	if (result < 0)
		return result;
	facts = js_object_new();
	js_set_int(facts, "connections", dial.connections);
	js_set_int(facts, "sent", dial.sent);
	js_set_int(facts, "received", dial.received);
	event_send("result", facts);
	return 0;
}

int main(int argc, char **argv)
{
	return stage_main(argc, argv, NULL, run);
}
