/*
 * observe_probe - what the observer of denied egress must see, stand and leave alone (tests/wall/jail-observe.py)
 *
 * observe_probe NAME [ARGUMENT…]: exits with 0 when all went as it does without an observer, 1 otherwise, and says
 * what on standard error.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char **args; /* behind the name */

static int complain(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	return 1;
}

static struct sockaddr_in ipv4(const char *text, int port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

	inet_pton(AF_INET, text, &address.sin_addr);
	return address;
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* ---- attempts ---- */

/* 198.51.100.1 … as far as N, then once more the last. */
static int flood(void)
{
	int count = atoi(args[0]), fd = socket(AF_INET, SOCK_DGRAM, 0);

	for (int i = 0; i < count; i++) {
		struct sockaddr_in to = ipv4("198.0.0.0", 9);

		to.sin_addr.s_addr = htonl(ntohl(to.sin_addr.s_addr) + (uint32_t)i);
		if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 ||
		    errno != ENETUNREACH)
			return complain("connect");
	}
	return 0;
}

static int lengths(void)
{
	struct sockaddr_storage wide;
	struct sockaddr_in to = ipv4("198.51.100.1", 1);
	struct sockaddr_in6 to6 = {.sin6_family = AF_INET6, .sin6_port = htons(2)};
	int fd = socket(AF_INET, SOCK_STREAM, 0), fd6 = socket(AF_INET6, SOCK_STREAM, 0);
	int udp = socket(AF_INET, SOCK_DGRAM, 0);

	memset(&wide, 0, sizeof(wide));
	memcpy(&wide, &to, sizeof(to));
	inet_pton(AF_INET6, "2001:db8::1", &to6.sin6_addr);
	if (connect(fd, (struct sockaddr *)&wide, sizeof(wide)) == 0 || errno != ENETUNREACH)
		return complain("connect with the longest address");
	if (connect(fd6, (struct sockaddr *)&to6, sizeof(to6)) == 0 || errno != ENETUNREACH)
		return complain("connect to IPv6");
	inet_pton(AF_INET6, "::ffff:198.51.100.3", &to6.sin6_addr);
	to6.sin6_port = htons(3);
	if (connect(fd6, (struct sockaddr *)&to6, sizeof(to6)) == 0 || errno != ENETUNREACH)
		return complain("connect to IPv4 in IPv6");
	to.sin_family = AF_UNSPEC;
	to.sin_port = htons(4);
	if (sendto(udp, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)) >= 0 ||
	    errno != ENETUNREACH)
		return complain("sendto without a family");
	if (connect(udp, (struct sockaddr *)&to, sizeof(to)) < 0)
		return complain("connect without a family");
	if (connect(fd, (struct sockaddr *)(uintptr_t)16, 16) == 0 || errno != EFAULT)
		return complain("connect with a bad pointer");
	if (connect(fd, (struct sockaddr *)&to, 0xffffffffu) == 0 || errno != EINVAL)
		return complain("connect with a bad length");
	return 0;
}

/* One attempt each, by a thread, by a child of vfork(2), and under a name that is no text. */
static void *thread_tries(void *arg)
{
	struct sockaddr_in to = ipv4("198.51.100.11", 11);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	prctl(PR_SET_NAME, "a thread");
	*(int *)arg = connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 ? errno : 0;
	return NULL;
}

static int kin(void)
{
	struct sockaddr_in to = ipv4("198.51.100.12", 12);
	int seen = 0, status, fd = socket(AF_INET, SOCK_STREAM, 0);
	pthread_t thread;
	pid_t pid;

	if (pthread_create(&thread, NULL, thread_tries, &seen) || pthread_join(thread, NULL) ||
	    seen != ENETUNREACH)
		return complain("thread");
	pid = vfork();
	if (pid == 0) {
		connect(fd, (struct sockaddr *)&to, sizeof(to));
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		return complain("vfork");
	prctl(PR_SET_NAME, "\x1b[31m\nx\xff =");
	to = ipv4("198.51.100.13", 13);
	connect(fd, (struct sockaddr *)&to, sizeof(to));
	return 0;
}

/* ---- what must not be altered ---- */

static void ignore(int sig)
{
	(void)sig;
}

/* Connects to a listener of our own while signals come, as Go's runtime sends them to its threads. */
static int signals(void)
{
	struct sigaction action = {.sa_handler = ignore, .sa_flags = SA_RESTART};
	struct itimerval often = {{0, 200}, {0, 200}};
	struct sockaddr_in to = ipv4("127.0.0.1", 0);
	socklen_t size = sizeof(to);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(listener, (struct sockaddr *)&to, sizeof(to)) < 0 ||
	    listen(listener, 64) < 0 ||
	    getsockname(listener, (struct sockaddr *)&to, &size) < 0)
		return complain("listen");
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < 5000; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0), other;

		if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
			return complain("connect under signals");
		other = accept(listener, NULL, NULL);
		if (other < 0)
			return complain("accept under signals");
		close(other);
		close(fd);
	}
	return 0;
}

/* Unix sockets with names as long as addresses of the internet. */
static int unix_sockets(void)
{
	static const char *const names[] = {"/tmp/2345678x", "/tmp/234567890123456789012"};

	for (size_t i = 0; i < 2; i++) {
		struct sockaddr_un at = {.sun_family = AF_UNIX};
		socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
					    strlen(names[i]) + (i ? 0 : 1));
		int server = socket(AF_UNIX, SOCK_DGRAM, 0),
		    fd = socket(AF_UNIX, SOCK_DGRAM, 0);
		char byte;

		memcpy(at.sun_path, names[i], strlen(names[i]));
		if ((len != 16 && len != 28) || bind(server, (struct sockaddr *)&at, len) < 0)
			return complain("bind");
		if (sendto(fd, "a", 1, 0, (struct sockaddr *)&at, len) != 1 ||
		    connect(fd, (struct sockaddr *)&at, len) < 0 || send(fd, "b", 1, 0) != 1)
			return complain("unix");
		if (recv(server, &byte, 1, 0) != 1 || byte != 'a' ||
		    recv(server, &byte, 1, 0) != 1 || byte != 'b')
			return complain("unix: other bytes");
	}
	return 0;
}

/* A listener of our own, as a sandbox that is tested may want it: "busy" or "works". */
static int listener(void)
{
	struct sock_filter allow = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
	struct sock_fprog program = {1, &allow};
	bool wanted_busy = strcmp(args[0], "busy") == 0;
	long fd;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
		return complain("a filter without a listener");
	fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
		     &program);
	if (wanted_busy ? fd >= 0 || errno != EBUSY : fd < 0)
		return complain("listener");
	return 0;
}

/* ---- attacks on the observer ---- */

static int still_works(void)
{
	struct sockaddr_in to = ipv4("198.51.100.99", 99);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 || errno != ENETUNREACH)
		return complain("afterwards");
	return 0;
}

static int init(void)
{
	static const int sent[] = {SIGKILL, SIGSTOP, SIGTERM, SIGSEGV, SIGCONT, SIGHUP};
	char byte;
	struct iovec here = {&byte, 1}, there = {&here, 1};

	for (size_t i = 0; i < sizeof(sent) / sizeof(sent[0]); i++)
		kill(1, sent[i]);
	if (ptrace(PTRACE_SEIZE, 1, NULL, NULL) == 0 ||
	    ptrace(PTRACE_ATTACH, 1, NULL, NULL) == 0)
		return complain("PID 1 can be traced");
	if (process_vm_readv(1, &here, 1, &there, 1, 0) >= 0)
		return complain("PID 1 can be read");
	return still_works();
}

/* Memory that others map and unmap while the observer reads it, and a socket that others close. */
static void *churn(void *arg)
{
	void **at = arg;

	for (;;) {
		mmap(*at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		     -1, 0);
		munmap(*at, 4096);
		mmap(*at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		     -1, 0);
	}
	return NULL;
}

static int race(void)
{
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	double until = now_ms() + 1000;
	pthread_t thread;

	if (pthread_create(&thread, NULL, churn, &at))
		return complain("thread");
	while (now_ms() < until)
		connect(fd, at, sizeof(struct sockaddr_in));
	return still_works();
}

/* Many processes that try at once, and that are killed in the middle of it. */
static int crowd(void)
{
	pid_t pids[64];
	double until = now_ms() + 1500;

	while (now_ms() < until) {
		for (size_t i = 0; i < 64; i++) {
			pids[i] = fork();
			if (pids[i] == 0) {
				struct sockaddr_in to = ipv4("198.51.100.50", 50);
				int fd = socket(AF_INET, SOCK_DGRAM, 0);

				for (;;)
					connect(fd, (struct sockaddr *)&to, sizeof(to));
			}
		}
		usleep(50000);
		for (size_t i = 0; i < 64; i++)
			if (pids[i] > 0)
				kill(pids[i], SIGKILL);
		while (wait(NULL) > 0)
			continue;
	}
	return still_works();
}

static int forever(void)
{
	struct sockaddr_in to = ipv4("198.51.100.60", 60);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	for (int i = 0; i < 8 && fork() > 0; i++)
		continue;
	for (;;)
		connect(fd, (struct sockaddr *)&to, sizeof(to));
	return 0;
}

static const struct {
	const char *name;
	int (*run)(void);
} probes[] = {{"flood", flood},	    {"lengths", lengths},   {"kin", kin},
	      {"signals", signals}, {"unix", unix_sockets}, {"listener", listener},
	      {"init", init},	    {"race", race},	    {"crowd", crowd},
	      {"forever", forever}};

int main(int argc, char **argv)
{
	args = argv + 2;
	for (size_t i = 0; argc > 1 && i < sizeof(probes) / sizeof(probes[0]); i++)
		if (strcmp(probes[i].name, argv[1]) == 0)
			return probes[i].run();
	fprintf(stderr, "observe_probe: unknown probe\n");
	return 99;
}
