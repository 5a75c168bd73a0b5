#include "net.h"

#include <errno.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/fds.h"
#include "sandbox/jail/resolver.h"
#include "sandbox/jail/run.h"

static int bring_loopback_up(struct jail_run *run)
{
	int sock AUTO_FD = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = {.ifr_name = "lo"};

	if (step_enter(run, STEP_loopback) < 0 || sock < 0 ||
	    ioctl(sock, SIOCGIFFLAGS, &request) < 0)
		return step_fail(run, "loopback");
	/* The kernel gives 127.0.0.1/8 and ::1 to a loopback that goes up. */
	request.ifr_flags |= IFF_UP;
	if (ioctl(sock, SIOCSIFFLAGS, &request) < 0)
		return step_fail(run, "loopback cannot be brought up");
	step_done(run);
	return 0;
}

static int send_listener(int listener)
{
	char byte = 'l';
	struct iovec part = {&byte, 1};
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr msg = {.msg_iov = &part,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	ssize_t n;

	memset(&control, 0, sizeof(control));
	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	control.head.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.head), &listener, sizeof(int));
	do
		n = sendmsg(FD_EGRESS, &msg, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n == 1 ? 0 : -1;
}

static int hand_out_listener(struct jail_run *run)
{
	int listener AUTO_FD = -1;
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = htons(JAIL_PROXY_PORT),
				      .sin_addr = {htonl(INADDR_LOOPBACK)}};

	if (step_enter(run, STEP_egress) < 0)
		return step_fail(run, "proxy listener");
	if (run->spec.egress) {
		listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (listener < 0 ||
		    bind(listener, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		    listen(listener, SOMAXCONN) < 0)
			return step_fail(run, "proxy listener");
		if (send_listener(listener) < 0)
			return step_fail(run,
					 "the proxy listener cannot be handed to agent-egress");
		close(FD_EGRESS);
	}
	step_done(run);
	return 0;
}

int net_make(struct jail_run *run, struct resolver *resolver)
{
	struct jail_packet packet = {.message = MSG_PREPARED};
	int sock AUTO_FD = -1, own AUTO_FD = -1;

	if (step_enter(run, STEP_netns) < 0 || unshare(CLONE_NEWNET) < 0)
		return step_fail(run, "unshare(CLONE_NEWNET)");
	step_done(run);
	if (bring_loopback_up(run) < 0 || hand_out_listener(run) < 0 ||
	    resolver_open(run, resolver) < 0)
		return -1;
	/* by a socket: the payload covers /proc meanwhile */
	sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	own = sock < 0 ? -1 : ioctl(sock, SIOCGSKNS);
	packet.done = run->done;
	if (own < 0 || packet_send(run->net_sock, &packet, own) < 0)
		return step_fail(run, "the network namespace cannot be handed to the payload");
	return 0;
}

int net_join(struct jail_run *run)
{
	struct jail_packet packet;
	int fd = -1, got;

	run->step = STEP_netns;
	got = packet_receive(run->net_sock, &packet, &fd);
	if (got == 0)
		_exit(1); /* PID 1 failed and has told outer why */
	if (got < 0 || setns(fd, CLONE_NEWNET) < 0)
		return step_fail(run, "the network namespace cannot be joined");
	run->done |= packet.done;
	close(fd);
	return 0;
}
