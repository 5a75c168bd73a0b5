#include "observe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/text.h"
#include "sandbox/jail/calls.h"
#include "sandbox/jail/backend.h"
#include "sandbox/jail/confine.h"
#include "sandbox/jail/resolver.h"
#include "sandbox/jail/run.h"

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS /* Linux 6.6 */
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, uint64_t)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP 1UL
#endif

#define RECENT 16 /* attempts whose program is remembered: who tries, tries again */

/* Who made a call, as far as it could be read. */
struct program {
	char comm[16];
	char exe[OBSERVE_EXE_MAX];
};

struct attempt {
	char host[DNS_NAME_MAX];
	const char *proto;
	uint16_t port;
};

struct recent {
	pid_t tid;
	struct observe_entry *entry;
};

struct observer {
	struct observe_table *table;
	int life, control,
	    listener; /* owned: pipe to the helper, socket to the payload, -1 until it came */
	struct resolver *resolver;
	uint64_t seen;	       /* calls, before the command began */
	bool counting;	       /* it has begun */
	bool answers;	       /* the payload waits to hear what was seen before */
	struct program asking; /* the last that turned to the resolver */
	struct recent recent[RECENT];
	unsigned next; /* in recent */
};

/* ---- the table ---- */

int observe_make_table(struct jail_run *run)
{
	void *memory;

	if (step_enter(run, STEP_table) < 0)
		return step_fail(run, "table of the observer");
	run->told_to_observe = run->spec.observe;
	run->spec.observe = run->spec.observe && backend_of(&run->spec)->observes;
	if (run->spec.observe) {
		memory = mmap(NULL, sizeof(*run->observed), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (memory == MAP_FAILED)
			return step_fail(run, "table of the observer");
		run->observed = memory;
	}
	step_done(run);
	return 0;
}

static bool is_of(const struct observe_entry *entry, const struct attempt *attempt)
{
	return entry->port == attempt->port && strcmp(entry->proto, attempt->proto) == 0 &&
	       strcmp(entry->host, attempt->host) == 0;
}

static struct observe_entry *find(struct observe_table *table, const struct attempt *attempt,
				  const struct program *program)
{
	for (uint32_t i = 0; i < table->used; i++) {
		struct observe_entry *entry = &table->entries[i];

		if (is_of(entry, attempt) &&
		    memcmp(entry->comm, program->comm, sizeof(entry->comm)) == 0 &&
		    strcmp(entry->exe, program->exe) == 0)
			return entry;
	}
	return NULL;
}

/* The entry of an attempt, made when it is new; NULL when there is no room. */
static struct observe_entry *enter(struct observe_table *table, const struct attempt *attempt,
				   const struct program *program)
{
	struct observe_entry *entry = find(table, attempt, program);

	if (entry)
		return entry;
	if (table->used == JAIL_EGRESS_MAX)
		return NULL;
	entry = &table->entries[table->used];
	snprintf(entry->host, sizeof(entry->host), "%s", attempt->host);
	snprintf(entry->proto, sizeof(entry->proto), "%s", attempt->proto);
	entry->port = attempt->port;
	memcpy(entry->comm, program->comm, sizeof(entry->comm));
	memcpy(entry->exe, program->exe, sizeof(entry->exe));
	table->used++;
	return entry;
}

/* ---- who: files of /proc, never of the payload's making ---- */

static ssize_t read_proc(pid_t pid, const char *name, char *text, size_t size)
{
	char path[64];
	int fd AUTO_FD = -1;
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	/* by this call, with these flags, whatever the C library's open makes of it: our filter */
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? -1 : read(fd, text, size - 1);
	text[len > 0 ? len : 0] = '\0';
	return len;
}

/* The process of a thread. Its name stands before, with its newlines escaped (proc_pid_status(5)). */
static pid_t process_of(pid_t tid)
{
	char text[512];
	const char *line;
	long tgid = 0;

	if (read_proc(tid, "status", text, sizeof(text)) > 0 &&
	    (line = strstr(text, "\nTgid:\t")))
		tgid = strtol(line + 7, NULL, 10);
	return tgid > 0 ? (pid_t)tgid : tid;
}

static void read_program(pid_t tid, struct program *program)
{
	pid_t pid = process_of(tid);
	char path[64], comm[sizeof(program->comm) + 1];
	ssize_t len = read_proc(pid, "comm", comm, sizeof(comm));

	memset(program, 0, sizeof(*program));
	if (len > 0)
		memcpy(program->comm, comm, (size_t)(comm[len - 1] == '\n' ? len - 1 : len));
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	len = readlink(path, program->exe, sizeof(program->exe) - 1);
	program->exe[len > 0 ? len : 0] = '\0';
}

/* "TCP", "UDPv6" …: what the socket's inode calls itself. No descriptor of it is taken. */
static const char *protocol_of(pid_t tid, uint64_t fd)
{
	static const struct {
		const char *kernel, *text;
	} names[] = {{"TCP", "tcp"},   {"TCPv6", "tcp"}, {"UDP", "udp"},
		     {"UDPv6", "udp"}, {"PING", "icmp"}, {"PINGv6", "icmp"}};
	char path[64], name[32];
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%d/fd/%u", tid, (unsigned)fd);
	len = getxattr(path, "system.sockprotoname", name, sizeof(name) - 1);
	name[len > 0 ? len : 0] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(names[i].kernel, name) == 0)
			return names[i].text;
	return "?";
}

/* ---- what: the address in the caller's memory ---- */

enum where { NOWHERE, LOOPBACK, OUTSIDE };

/* An address of the jail itself, or the empty one, which means that too. */
static bool is_loopback4(uint32_t address)
{
	return address >> 24 == 127 || address == INADDR_ANY;
}

static enum where read_ipv4(const struct in_addr *address, struct attempt *attempt)
{
	if (is_loopback4(ntohl(address->s_addr)))
		return LOOPBACK;
	inet_ntop(AF_INET, address, attempt->host, sizeof(attempt->host));
	return OUTSIDE;
}

static enum where read_ipv6(const struct in6_addr *address, struct attempt *attempt)
{
	struct in_addr mapped;

	if (IN6_IS_ADDR_V4MAPPED(address)) {
		memcpy(&mapped, address->s6_addr + 12, sizeof(mapped));
		return read_ipv4(&mapped, attempt);
	}
	if (IN6_IS_ADDR_LOOPBACK(address) || IN6_IS_ADDR_UNSPECIFIED(address))
		return LOOPBACK;
	inet_ntop(AF_INET6, address, attempt->host, sizeof(attempt->host));
	return OUTSIDE;
}

static enum where read_address(const struct seccomp_notif *notice, struct attempt *attempt)
{
	bool is_connect = notice->data.nr == SYS_connect;
	uint64_t at = notice->data.args[is_connect ? 1 : 4];
	uint32_t size = (uint32_t)notice->data.args[is_connect ? 2 : 5];
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} address = {.in6 = {0}};
	struct iovec here = {&address, size < sizeof(address) ? size : sizeof(address)};
	struct iovec there = {(void *)(uintptr_t)at, here.iov_len};

	memset(attempt, 0, sizeof(*attempt));
	if (process_vm_readv((pid_t)notice->pid, &here, 1, &there, 1, 0) <
	    (ssize_t)sizeof(address.in)) {
		memcpy(attempt->host, "?",
		       2); /* not readable: the call fails, or hides from us */
		return OUTSIDE;
	}
	if (address.any.sa_family == AF_INET6) {
		attempt->port = ntohs(address.in6.sin6_port);
		return read_ipv6(&address.in6.sin6_addr, attempt);
	}
	/* udp(7) takes AF_UNSPEC of a sendto for AF_INET; of a connect it ends the association */
	if (address.any.sa_family == AF_INET ||
	    (address.any.sa_family == AF_UNSPEC && !is_connect)) {
		attempt->port = ntohs(address.in.sin_port);
		return read_ipv4(&address.in.sin_addr, attempt);
	}
	return NOWHERE;
}

/* ---- attempts ---- */

static bool still_there(const struct observer *observer, uint64_t id)
{
	return ioctl(observer->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

/* The same thread, at the same again: its program is not read again. */
static bool count_again(struct observer *observer, pid_t tid, const struct attempt *attempt)
{
	for (size_t i = 0; i < RECENT; i++) {
		struct recent *recent = &observer->recent[i];

		if (recent->tid == tid && is_of(recent->entry, attempt)) {
			recent->entry->count++;
			return true;
		}
	}
	return false;
}

/* Whether an attempt could still be entered, by any program. */
static bool may_enter(const struct observe_table *table, const struct attempt *attempt)
{
	if (table->used < JAIL_EGRESS_MAX)
		return true;
	for (uint32_t i = 0; i < table->used; i++)
		if (is_of(&table->entries[i], attempt))
			return true;
	return false;
}

static void note_attempt(struct observer *observer, const struct seccomp_notif *notice,
			 struct attempt *attempt)
{
	struct observe_table *table = observer->table;
	pid_t tid = (pid_t)notice->pid;
	struct observe_entry *entry = NULL;
	struct program program;

	attempt->proto = protocol_of(tid, notice->data.args[0]);
	if (count_again(observer, tid, attempt))
		return;
	if (may_enter(table, attempt)) {
		read_program(tid, &program);
		if (!still_there(observer, notice->id))
			return; /* all this may have been of another process */
		entry = enter(table, attempt, &program);
	}
	if (!entry) {
		table->more++;
		return;
	}
	entry->count++;
	observer->recent[observer->next++ % RECENT] = (struct recent){tid, entry};
}

static void on_call(struct observer *observer)
{
	struct seccomp_notif notice;
	struct seccomp_notif_resp go_on = {.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
	struct attempt attempt;
	enum where where;

	memset(&notice, 0, sizeof(notice)); /* the kernel insists */
	if (ioctl(observer->listener, (ioctl_request_t)SECCOMP_IOCTL_NOTIF_RECV, &notice) < 0)
		return; /* whoever called is dead */
	if (!observer->counting) {
		observer->seen++;
	} else if (notice.data.nr == SYS_seccomp) {
		observer->table->listeners++;
	} else {
		where = read_address(&notice, &attempt);
		if (where == OUTSIDE)
			note_attempt(observer, &notice, &attempt);
		else if (where == LOOPBACK && attempt.port == 53)
			read_program((pid_t)notice.pid, &observer->asking);
	}
	go_on.id = notice.id;
	ioctl(observer->listener, (ioctl_request_t)SECCOMP_IOCTL_NOTIF_SEND,
	      &go_on); /* fails when it is dead */
}

static void on_name(void *arg, const struct dns_question *question)
{
	struct observer *observer = arg;
	struct attempt attempt = {.proto = "dns"};
	struct observe_entry *entry;

	if (!observer->counting)
		return;
	memcpy(attempt.host, question->name, sizeof(attempt.host));
	entry = enter(observer->table, &attempt, &observer->asking);
	if (!entry)
		observer->table->more++;
	else if (question->type == DNS_TYPE_AAAA)
		entry->count_aaaa++;
	else
		entry->count++;
}

/* ---- PID 1 ---- */

static void take_listener(struct observer *observer, int fd)
{
	observer->listener = fd;
	/* the caller and we take turns anyhow: on one processor, where the kernel can (6.6) */
	ioctl(fd, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
}

/* The payload's messages: its listener, then that the command begins; in a brief start both in one. */
static void on_control(struct observer *observer)
{
	struct jail_packet packet;
	int fd = -1;

	if (packet_receive(observer->control, &packet, &fd) != 1)
		_exit(1);
	if ((fd >= 0) != (observer->listener < 0))
		_exit(1);
	if (fd >= 0)
		take_listener(observer, fd);
	if (packet.message == MSG_LISTENER && observer->answers && fd >= 0)
		return;
	if (packet.message != MSG_COMMAND || observer->answers == (fd >= 0))
		_exit(1);
	packet.seen = observer->seen;
	if (observer->answers && packet_send(observer->control, &packet, -1) < 0)
		_exit(1);
	observer->counting = true;
}

static void __attribute__((noreturn)) serve(struct observer *observer)
{
	for (;;) {
		/* The listener is looked at before the socket: a call of the command implies MSG_COMMAND. */
		struct pollfd fds[3 + RESOLVER_FDS] = {
		    {observer->listener, POLLIN, 0},
		    {observer->counting ? -1 : observer->control, POLLIN, 0},
		    {observer->life, POLLIN, 0}};

		resolver_poll(observer->resolver, fds + 3);
		if (poll(fds, ARRAY_LEN(fds), -1) < 0) {
			if (errno == EINTR)
				continue;
			_exit(1);
		}
		if (fds[2].revents)
			_exit(0);
		if (fds[1].revents)
			on_control(observer);
		if (fds[0].revents & POLLIN)
			on_call(observer);
		else if (fds[0].revents) { /* nobody is left who could call */
			close(observer->listener);
			observer->listener = -1;
		}
		resolver_serve(observer->resolver, fds + 3);
	}
}

static void __attribute__((noreturn)) wait_only(int life)
{
	char byte;

	while (read(life, &byte, 1) < 0 && errno == EINTR)
		continue;
	_exit(0);
}

/* Moves them to the lowest numbers, in order, and closes all else. None is among 0, 1, 2 before. */
static int keep_only(int *const *fds, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		if (dup2(*fds[i], (int)i) < 0)
			return -1;
		*fds[i] = (int)i;
	}
	return close_range(count, ~0U, 0);
}

void observe_serve(struct jail_run *run, int life, struct resolver *resolver)
{
	struct observer observer = {.table = run->observed,
				    .life = life,
				    .control = run->net_sock,
				    .listener = -1,
				    .resolver = resolver,
				    .answers = !confine_is_brief(run)};
	/* The control socket stays open in any case: by its end the helper sees ours. */
	int *const fds[] = {&observer.life, &observer.control, &resolver->udp, &resolver->tcp};
	unsigned count = run->spec.observe ? 4 : 2;

	resolver->asked = on_name;
	resolver->arg = &observer;
	if (keep_only(fds, count) < 0)
		_exit(1);
	if (!run->spec.observe) {
		if (confine_idle() < 0)
			_exit(1);
		wait_only(observer.life);
	}
	if (confine_observer() < 0)
		_exit(1);
	serve(&observer);
}

/* ---- payload ---- */

int observe_hand_over(struct jail_run *run, int listener)
{
	struct jail_packet packet = {.message = MSG_LISTENER};
	int owned AUTO_FD = listener;

	if (step_enter(run, STEP_observe) < 0)
		return step_fail(run, "observer");
	if (run->spec.observe && confine_is_brief(run))
		run->listener = fd_steal(&owned); /* its probes are none that are observed */
	else if (run->spec.observe && packet_send(run->net_sock, &packet, owned) < 0)
		return step_fail(run, "the observer cannot be given what it listens on");
	return 0;
}

/* Whether PID 1 has seen what the self-test tried. */
static int hear_of_self_test(struct jail_run *run, struct jail_packet *packet)
{
	if (packet_receive(run->net_sock, packet, NULL) != 1)
		return step_fail(run, "the observer does not answer");
	errno = 0;
	return packet->seen ? 0 : step_fail(run, "the observer saw nothing of the self-test");
}

int observe_confirm(struct jail_run *run)
{
	struct jail_packet packet = {.message = MSG_COMMAND};

	run->step = STEP_observe;
	if (run->spec.observe) {
		if (packet_send(run->net_sock, &packet, run->listener) < 0)
			return step_fail(run, "the observer cannot be told");
		if (!confine_is_brief(run) && hear_of_self_test(run, &packet) < 0)
			return -1;
		close(run->net_sock);
		fd_close_ptr(&run->listener);
		run->net_sock = run->listener = -1;
	}
	step_done(run);
	return 0;
}

/* ---- outer ---- */

/* What may stand in a fact's column: no blank, nothing but ASCII. */
static void copy_word(char *dst, size_t size, const char *src, size_t src_size)
{
	size_t used = 0;

	for (size_t i = 0; i < src_size && src[i] && used + 1 < size; i++)
		dst[used++] = src[i] > ' ' && src[i] < 0x7f ? src[i] : '?';
	dst[used] = '\0';
}

/* "/usr/bin/curl", or where the name says more than the file, "pytest (/usr/bin/python3.11)". */
static void copy_program(char *dst, size_t size, const struct observe_entry *entry)
{
	size_t exe_len = strnlen(entry->exe, sizeof(entry->exe));
	size_t comm_len = strnlen(entry->comm, sizeof(entry->comm));
	const char *slash = memrchr(entry->exe, '/', exe_len);
	const char *base = slash ? slash + 1 : entry->exe;
	char exe[OBSERVE_EXE_MAX], comm[64];

	text_escape(exe, sizeof(exe), entry->exe, exe_len);
	text_escape(comm, sizeof(comm), entry->comm, comm_len);
	if (!exe_len)
		snprintf(dst, size, "%s", comm_len ? comm : "?");
	else if (!comm_len || strncmp(base, entry->comm, comm_len) == 0)
		snprintf(dst, size, "%s", exe);
	else
		snprintf(dst, size, "%s (%s)", comm, exe);
}

void observe_tell(const struct jail_run *run, struct jail_facts *facts)
{
	const struct observe_table *table = run->observed;
	uint32_t used;

	if (!run->told_to_observe)
		facts->observe = JAIL_OBSERVE_OFF;
	if (!table)
		return;
	facts->observe = JAIL_OBSERVE_ON;
	used = table->used < JAIL_EGRESS_MAX ? table->used : JAIL_EGRESS_MAX;
	for (uint32_t i = 0; i < used; i++) {
		struct observe_entry entry = table->entries[i];
		struct jail_egress *egress = &facts->egress[facts->egress_count++];

		copy_word(egress->proto, sizeof(egress->proto), entry.proto,
			  sizeof(entry.proto));
		copy_word(egress->host, sizeof(egress->host), entry.host, sizeof(entry.host));
		copy_program(egress->program, sizeof(egress->program), &entry);
		egress->port = entry.port;
		egress->count = entry.count > entry.count_aaaa ? entry.count : entry.count_aaaa;
	}
	facts->egress_more = table->more;
	facts->listeners = table->listeners;
}
