/* Attacks that send something out: section 2.1. See probe.h. */
#include "sandbox/probe/probe.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/vm_sockets.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- addresses ---- */

struct target {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} at;
	socklen_t len;
	int family;
	bool loopback; /* then "refused" is the jail's own answer, else it came from outside */
};

/* "1.2.3.4" or "2001:db8::1", optionally "%scope". */
static struct target target_of(const char *host, uint16_t port)
{
	struct target target;
	char name[64];
	char *scope;

	memset(&target, 0, sizeof(target));
	snprintf(name, sizeof(name), "%s", host);
	scope = strchr(name, '%');
	if (scope)
		*scope++ = '\0';
	if (strchr(name, ':')) {
		target.family = target.at.v6.sin6_family = AF_INET6;
		target.at.v6.sin6_port = htons(port);
		target.at.v6.sin6_scope_id = scope ? (uint32_t)strtoul(scope, NULL, 10) : 0;
		inet_pton(AF_INET6, name, &target.at.v6.sin6_addr);
		target.len = sizeof(target.at.v6);
		target.loopback = IN6_IS_ADDR_LOOPBACK(&target.at.v6.sin6_addr);
	} else {
		target.family = target.at.v4.sin_family = AF_INET;
		target.at.v4.sin_port = htons(port);
		inet_pton(AF_INET, name, &target.at.v4.sin_addr);
		target.len = sizeof(target.at.v4);
		target.loopback = strncmp(name, "127.", 4) == 0;
	}
	return target;
}

/* What must not answer: connecting must fail at once, without a packet having left. */
static void judge_network(const char *what, int error, bool loopback)
{
	static const int walls[] = {ENETUNREACH, EHOSTUNREACH, EADDRNOTAVAIL,	EACCES,
				    EPERM,	 EAFNOSUPPORT, EPROTONOSUPPORT, ESOCKTNOSUPPORT,
				    EINVAL,	 ENODEV};

	for (size_t i = 0; i < LEN(walls); i++)
		if (error == walls[i]) {
			blocked("%s: %s", what, strerrorname_np(error));
			return;
		}
	if (error == ECONNREFUSED && loopback)
		blocked("%s: ECONNREFUSED by the own loopback", what);
	else if (error == ECONNREFUSED)
		worked("%s: a packet left, the answer was ECONNREFUSED", what);
	else if (error == ETIMEDOUT)
		worked("%s: a packet left, nobody answered", what);
	else
		surprise("%s: %s", what, strerrorname_np(error));
}

static void try_tcp(const char *host, uint16_t port, int protocol)
{
	struct target target = target_of(host, port);
	const char *what = text("TCP to %s port %u", host, port);
	int sock = socket(target.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
	struct pollfd polled = {sock, POLLOUT, 0};
	int error = 0;
	socklen_t len = sizeof(error);

	if (sock < 0) {
		judge_network(what, errno, target.loopback);
		return;
	}
	if (connect(sock, &target.at.any, target.len) < 0)
		error = errno;
	if (error == EINPROGRESS) {
		error = ETIMEDOUT;
		if (poll(&polled, 1, 2000) == 1)
			getsockopt(sock, SOL_SOCKET, SO_ERROR, &error, &len);
	}
	if (!error) {
		const char *hello = text("GET /%s HTTP/1.0\r\n\r\n", mark());

		worked("%s: connected", what);
		send(sock, hello, strlen(hello), MSG_NOSIGNAL);
	} else
		judge_network(what, error, target.loopback);
	close(sock);
}

static void try_udp(const char *host, uint16_t port, int type, int protocol)
{
	struct target target = target_of(host, port);
	const char *what = text("a datagram to %s port %u", host, port);
	int sock = socket(target.family, type | SOCK_CLOEXEC, protocol);
	struct iovec part = {(void *)(uintptr_t)what, 1};
	struct mmsghdr message;

	if (sock < 0) {
		judge_network(what, errno, target.loopback);
		return;
	}
	memset(&message, 0, sizeof(message));
	message.msg_hdr.msg_name = &target.at;
	message.msg_hdr.msg_namelen = target.len;
	message.msg_hdr.msg_iov = &part;
	message.msg_hdr.msg_iovlen = 1;
	if (sendto(sock, mark(), strlen(mark()), MSG_DONTWAIT, &target.at.any, target.len) >=
		0 ||
	    sendmsg(sock, &message.msg_hdr, MSG_DONTWAIT) >= 0 ||
	    sendmmsg(sock, &message, 1, MSG_DONTWAIT) >= 0)
		worked("%s was sent", what);
	else
		judge_network(what, errno, target.loopback);
	close(sock);
}

static uint16_t port_arg(const char *name, uint16_t otherwise)
{
	return (uint16_t)arg_number(name, otherwise);
}

ATTACK(tcp4)
{
	try_tcp(arg_or("host4", "1.1.1.1"), port_arg("port", 443), 0);
}

ATTACK(tcp6)
{
	try_tcp(arg_or("host6", "2606:4700::1111"), port_arg("port", 443), 0);
	for (int scope = 1; scope < 5; scope++)
		try_tcp(text("fe80::1%%%d", scope), port_arg("port", 443), 0);
	try_tcp(text("::ffff:%s", arg_or("host4", "1.1.1.1")), port_arg("port", 443), 0);
}

ATTACK(udp)
{
	try_udp(arg_or("host4", "8.8.8.8"), port_arg("port", 53), SOCK_DGRAM, 0);
	try_udp(arg_or("host6", "2001:4860:4860::8888"), port_arg("port", 53), SOCK_DGRAM, 0);
	try_udp("255.255.255.255", port_arg("port", 53), SOCK_DGRAM, 0);
	try_udp("224.0.0.251", port_arg("port", 5353), SOCK_DGRAM, 0);
}

/* ---- names ---- */

/* Whether this network has no interface but a loopback: then so has the one who answers on it, and nothing leaves. */
static bool is_only_loopback(void)
{
	static char devices[8192];
	unsigned count = 0;

	read_path("/proc/net/dev", devices, sizeof(devices));
	for (char *at = devices; (at = strchr(at, ':')); at++)
		count++;
	return count == 1 && strstr(devices, " lo:");
}

/* A name error without any record, in a network of one's own: a resolver of the sandbox's, which asks nobody. */
static bool is_dead_end(const unsigned char *answer, ssize_t len)
{
	return len >= 12 && (answer[3] & 15) == 3 && !answer[7] && !answer[9] && !answer[11] &&
	       is_only_loopback();
}

/* Asks for <mark>.attack.example. Noted when a server answers or a query left. */
static void ask_server(const char *host)
{
	struct target target = target_of(host, port_arg("dns", 53));
	const char *what = text("a query to %s", host);
	int sock = socket(target.family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct pollfd polled = {sock, POLLIN, 0};
	unsigned char query[300] = {0x12, 0x34, 1, 0, 0, 1}, answer[512];
	size_t len = 12;
	ssize_t got;
	const char *labels[] = {mark(), "attack", "example"};

	for (size_t i = 0; i < LEN(labels); i++) {
		size_t n = strlen(labels[i]) & 63;

		query[len++] = (unsigned char)n;
		memcpy(query + len, labels[i], n);
		len += n;
	}
	query[len + 2] = query[len + 4] = 1; /* A, IN */
	len += 5;
	if (connect(sock, &target.at.any, target.len) < 0 || send(sock, query, len, 0) < 0) {
		judge_network(what, errno, target.loopback);
	} else if (poll(&polled, 1, 700) == 0) {
		worked("%s left, nobody answered", what);
	} else if ((got = recv(sock, answer, sizeof(answer), 0)) >= 0) {
		if (is_dead_end(answer, got))
			blocked("%s: answered inside that there is no such name", what);
		else
			worked("%s was answered", what);
	} else
		judge_network(what, errno, target.loopback);
	close(sock);
}

ATTACK(dns)
{
	static char conf[4096];
	char name[200];
	struct timespec begun, ended;
	int status;

	ask_server("127.0.0.53");
	ask_server("127.0.0.1");
	read_path("/etc/resolv.conf", conf, sizeof(conf));
	for (char *at = conf; (at = strstr(at, "nameserver")); at += 10) {
		char host[64];

		if (sscanf(at + 10, " %63[0-9a-fA-F.:]", host) == 1)
			ask_server(host);
	}
	snprintf(name, sizeof(name), "%s.attack.example", mark());
	clock_gettime(CLOCK_MONOTONIC, &begun);
	status = run_line(5000, text("/usr/bin/getent hosts %s", name));
	clock_gettime(CLOCK_MONOTONIC, &ended);
	if (status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		worked("getent finds the address of %s", name);
	else if (status >= 0 && ended.tv_sec - begun.tv_sec >= 3)
		worked("getent waits for an answer, so a query left");
	else if (status >= 0)
		blocked("getent: no address, at once");
}

ATTACK(name_daemons)
{
	static const char *const names[] = {"nscd/socket",
					    "systemd/resolve/io.systemd.Resolve",
					    "systemd/userdb/io.systemd.DynamicUser",
					    "dbus/system_bus_socket",
					    "avahi-daemon/socket",
					    "systemd/private"};
	const char *tops[] = {"/run", "/var/run", arg_or("rundir", "/run")};

	for (size_t i = 0; i < LEN(tops); i++)
		for (size_t k = 0; k < LEN(names); k++)
			try_connect(text("%s/%s", tops[i], names[k]));
}

/* ---- other transports ---- */

ATTACK(mptcp)
{
	try_tcp(arg_or("host4", "1.1.1.1"), port_arg("port", 443), 262);
	try_tcp(arg_or("host6", "2606:4700::1111"), port_arg("port", 443), 262);
}

ATTACK(transports)
{
	try_tcp(arg_or("host4", "1.1.1.1"), port_arg("port", 443), IPPROTO_SCTP);
	try_tcp(arg_or("host4", "1.1.1.1"), port_arg("port", 443), 33 /* DCCP */);
	try_udp(arg_or("host4", "1.1.1.1"), port_arg("port", 53), SOCK_DGRAM, IPPROTO_UDPLITE);
	try_udp(arg_or("host4", "1.1.1.1"), port_arg("port", 53), SOCK_SEQPACKET, IPPROTO_SCTP);
}

ATTACK(ping)
{
	const char *hosts[] = {arg_or("host4", "1.1.1.1"), arg_or("host6", "2606:4700::1111")};

	for (int i = 0; i < 2; i++) {
		struct target target = target_of(hosts[i], 0);
		unsigned char echo[16] = {i ? 128 : 8};
		int sock = socket(target.family, SOCK_DGRAM | SOCK_CLOEXEC,
				  i ? IPPROTO_ICMPV6 : IPPROTO_ICMP);

		if (sock >= 0 && sendto(sock, echo, sizeof(echo), MSG_DONTWAIT, &target.at.any,
					target.len) >= 0)
			worked("a ping to %s was sent", hosts[i]);
		else
			judge_network(text("a ping to %s", hosts[i]), errno, false);
		close(sock);
	}
}

ATTACK(raw)
{
	static const int protocols[] = {IPPROTO_RAW, IPPROTO_ICMP, IPPROTO_TCP, IPPROTO_UDP};

	for (size_t i = 0; i < LEN(protocols); i++) {
		REFUSED("a raw socket", socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, protocols[i]),
			EPERM, EACCES, EPROTONOSUPPORT);
		REFUSED("a raw IPv6 socket",
			socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, protocols[i]), EPERM, EACCES,
			EPROTONOSUPPORT, EAFNOSUPPORT);
	}
}

ATTACK(packet)
{
	static const int types[] = {SOCK_RAW, SOCK_DGRAM, SOCK_PACKET};

	for (size_t i = 0; i < LEN(types); i++)
		REFUSED("a packet socket", socket(AF_PACKET, types[i] | SOCK_CLOEXEC, htons(3)),
			EPERM, EACCES, EAFNOSUPPORT);
}

ATTACK(netlink)
{
	for (int protocol = 1; protocol < 32; protocol++)
		REFUSED(text("a netlink socket of protocol %d", protocol),
			socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol), EPERM, EACCES,
			EAFNOSUPPORT, EPROTONOSUPPORT);
}

ATTACK(vsock)
{
	struct sockaddr_vm local = {
	    .svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_ANY, .svm_port = VMADDR_PORT_ANY};
	struct sockaddr_vm self = {.svm_family = AF_VSOCK,
				   .svm_cid = VMADDR_CID_LOCAL,
				   .svm_port = (unsigned)arg_number("vsock", 1024)};
	int sock = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (sock < 0) {
		judge_network("a vsock socket", errno, false);
		return;
	}
	/* not to the host of the machine: that is no canary of ours */
	if (connect(sock, (struct sockaddr *)&self, sizeof(self)) == 0)
		worked("a listener on vsock answers");
	else if (bind(sock, (struct sockaddr *)&local, sizeof(local)) == 0)
		worked("a vsock socket is made and bound");
	else
		worked("a vsock socket is made");
	close(sock);
}

/* ---- what listens near ---- */

ATTACK(proxies)
{
	static const char *const names[] = {"http_proxy",  "https_proxy", "HTTP_PROXY",
					    "HTTPS_PROXY", "ALL_PROXY",	  "all_proxy",
					    "FTP_PROXY"};
	static const uint16_t ports[] = {3128, 8080, 1080, 8118, 8888, 9050};

	for (size_t i = 0; i < LEN(names); i++)
		if (getenv(names[i]))
			worked("%s=%s is there", names[i], getenv(names[i]));
	for (size_t i = 0; i < LEN(ports); i++) {
		try_tcp("127.0.0.1", ports[i], 0);
		try_tcp("::1", ports[i], 0);
	}
}

ATTACK(loopback_services)
{
	static const uint16_t ports[] = {22,   25,   53,   80,	 443,  631,  2375,
					 3306, 5432, 6379, 8080, 9200, 11434};

	try_tcp("127.0.0.1", port_arg("lo", 8080), 0);
	try_tcp("::1", port_arg("lo", 8080), 0);
	for (size_t i = 0; i < LEN(ports); i++) {
		try_tcp("127.0.0.1", ports[i], 0);
		if (ports[i] != 53 || !is_only_loopback()) /* else the sandbox's own resolver */
			try_tcp("127.0.0.53", ports[i], 0);
		try_tcp("::1", ports[i], 0);
	}
}

ATTACK(metadata)
{
	static const char *const hosts[] = {"169.254.169.254", "169.254.170.2", "fd00:ec2::254",
					    "100.100.100.200"};
	static const char *const names[] = {
	    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
	    "ECS_CONTAINER_METADATA_URI_V4", "IDENTITY_ENDPOINT", "GCE_METADATA_HOST"};

	for (size_t i = 0; i < LEN(hosts); i++)
		try_tcp(hosts[i], 80, 0);
	for (size_t i = 0; i < LEN(names); i++)
		if (getenv(names[i]))
			worked("%s is there", names[i]);
}

/* ---- other network namespaces ---- */

ATTACK(join_netns)
{
	pid_t pids[70];
	size_t count = other_pids(pids, LEN(pids));
	DIR *dir = opendir("/run/netns");
	struct dirent *entry;

	for (size_t i = 0; i < count; i++) {
		int file = open(text("/proc/%d/ns/net", pids[i]), O_RDONLY | O_CLOEXEC);
		int pidfd = (int)syscall(SYS_pidfd_open, pids[i], 0);

		if (file < 0)
			blocked("/proc/%d/ns/net: %s", pids[i], strerrorname_np(errno));
		else
			REFUSED("setns to another's network", setns(file, CLONE_NEWNET), EPERM,
				ENOSYS);
		if (pidfd >= 0)
			REFUSED("setns by pidfd", setns(pidfd, CLONE_NEWNET), EPERM, ENOSYS);
		close(file);
		close(pidfd);
	}
	while (dir && (entry = readdir(dir))) {
		int file = openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC);

		if (entry->d_name[0] != '.' && file >= 0)
			REFUSED("setns to a named network", setns(file, CLONE_NEWNET), EPERM,
				ENOSYS);
		close(file);
	}
	if (dir)
		closedir(dir);
	blocked("no network of another's is there");
}

static int new_network(void *data)
{
	struct ifreq request = {.ifr_name = "attack0"};
	int tun;

	(void)data;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0)
		return WORKED;
	tun = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
	request.ifr_flags = IFF_TUN | IFF_NO_PI;
	if (tun >= 0 && ioctl(tun, TUNSETIFF, &request) == 0)
		return WORKED;
	return BLOCKED;
}

ATTACK(nested_network)
{
	int status = in_child(new_network, NULL);

	if (WIFEXITED(status) && WEXITSTATUS(status) == WORKED)
		worked("a network of one's own, with capabilities, or a tun device");
	else if (status == 0)
		blocked("no nested network");
	else
		surprise("status %x", status);
}
