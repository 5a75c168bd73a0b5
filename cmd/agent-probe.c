/*
 * NAME
 *	agent-probe - tries one attack on the sandbox that it runs in, or what a machine offers
 *
 * SYNOPSIS
 *	agent-probe ID [name=value…]
 *	agent-probe --many ID,ID…|together [name=value…]
 *	agent-probe --list | --machine DIR
 *	agent-probe --nothing | --exit N | --sleep [word…] | --have WHAT
 *
 * An attack ends with 0 blocked, 10 worked, 11 could not be tried, 12 carried out: the host must look; one line on standard output
 * gives the reason. --many tries several, a child and a line each, and ends with 0; "together": all that can be. --list prints
 * the table (sandbox/probe/table.h): id, section, control, mechanism, expected, how, separated by tabs. --machine: see
 * sandbox/probe/machine.h. The last ones are what attacks and the host start: ends well, with N, never (five minutes), with 10 when
 * this user gets no more of what the attack takes.
 *
 * name=value: where the canaries are that the host has set up (cmd/agent/attack.c, tests/lib/attack.py). Never a secret itself:
 * what is planted begins with "planted-" and an attack that finds it prints it.
 *
 * SECURITY
 *	It is run by agent doctor in jails, and with --machine outside of them, where it only tries what any user may. It attacks whatever it runs in. Bounded, and harmless but for canaries, run by an ordinary user; never run it as root
 * outside of a sandbox. A set-user-id copy of it does nothing but say so.
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/probe/arguments.h"
#include "sandbox/probe/machine.h"
#include "sandbox/probe/probe.h"

#define ATTACK_ENTRY(id, section, control, name, mechanism, expected)                          \
	{#id, section, control, mechanism, expected, attack_##name},
const struct attack attacks[] = {ATTACKS(ATTACK_ENTRY){NULL, NULL, NOWHERE, NULL, NULL, NULL}};

static const char *const controls[] = {[NOWHERE] = "nowhere",
				       [PLAIN] = "plain",
				       [KERNEL] = "kernel",
				       [USERNS] = "userns",
				       [ROOT] = "root"};

static const struct attack *find(const char *id, size_t len)
{
	for (const struct attack *at = attacks; at->id; at++)
		if (strlen(at->id) == len && strncmp(at->id, id, len) == 0)
			return at;
	return NULL;
}

/* Whether the blank-separated list has the id. */
static bool has(const char *words, const char *id)
{
	const size_t len = strlen(id);

	for (const char *at = words; (at = strstr(at, id)); at += len)
		if ((at == words || at[-1] == ' ') && (!at[len] || at[len] == ' '))
			return true;
	return false;
}

static const char *how(const struct attack *attack)
{
	return has(ATTACKS_ALONE, attack->id)  ? "alone"
	       : has(ATTACKS_HOST, attack->id) ? "host"
					       : "together";
}

static int list(void)
{
	for (const struct attack *at = attacks; at->id; at++)
		printf("%s\t%s\t%s\t%s\t%s\t%s\n", at->id, at->section, controls[at->control],
		       at->mechanism, at->expected, how(at));
	return 0;
}

/*
 * Real root with everything it may: there is no sandbox, or one that is none, and what works there works on the machine. The
 * host says asroot=1 when it has made namespaces for it.
 */
static bool is_root_of_machine(void)
{
	char map[256], status[8192];
	const char *caps;

	if (geteuid() != 0 || arg("asroot"))
		return false;
	if (read_path("/proc/self/uid_map", map, sizeof(map)) <= 0 ||
	    !strstr(map, "4294967295"))
		return false;
	caps = read_path("/proc/self/status", status, sizeof(status)) > 0
		   ? strstr(status, "CapEff:")
		   : NULL;
	return caps && strtoull(caps + 7, NULL, 16) & 1ULL << 21 /* CAP_SYS_ADMIN */;
}

static int attack(const struct attack *attack)
{
	if (is_root_of_machine())
		absent("as root of the machine an attack would be one");
	else
		attack->run();
	notes_print(attack->id);
	return notes_verdict();
}

static void one_of_many(const struct attack *one, const char *id, size_t len)
{
	pid_t pid;
	int status;

	fflush(stdout);
	pid = one ? fork() : -1;
	if (pid == 0)
		_exit(attack(one));
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		printf("%.*s: not tried: fork\n", (int)len, id);
	else if (!WIFEXITED(status))
		printf("%.*s: ended by signal %d\n", (int)len, id, WTERMSIG(status));
}

static int many(const char *ids)
{
	if (strcmp(ids, "together") == 0) {
		for (const struct attack *at = attacks; at->id; at++)
			if (strcmp(how(at), "together") == 0)
				one_of_many(at, at->id, strlen(at->id));
		return 0;
	}
	while (*ids) {
		size_t len = strcspn(ids, ",");

		one_of_many(find(ids, len), ids, len);
		ids += len + (ids[len] == ',');
	}
	return 0;
}

/* Whether this user still gets one. */
static bool have(const char *what)
{
	unsigned long context = 0;
	int pair[2];
	char byte = 'x';
	struct iovec part = {&byte, 1};
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {.head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	struct msghdr msg = {.msg_iov = &part,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	long queue;

	if (strcmp(what, "async") == 0)
		return syscall(SYS_io_setup, 8, &context) == 0;
	if (strcmp(what, "flight") == 0)
		return socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) == 0 &&
		       sendmsg(pair[0], &msg, 0) == 1;
	queue = syscall(SYS_mq_open, "attack-have", O_RDWR | O_CREAT | O_CLOEXEC, 0600, NULL);
	syscall(SYS_mq_unlink, "attack-have");
	return queue >= 0 && inotify_init1(IN_CLOEXEC) >= 0;
}

int main(int argc, char **argv)
{
	const struct attack *one;

	/* executed for the sake of its mode or its capabilities (E17, X17) */
	if (getauxval(AT_SECURE) || geteuid() != getuid() || getegid() != getgid())
		return WORKED;
	if (argc == 2 && strcmp(argv[1], "--nothing") == 0)
		return 0;
	if (argc > 1 && strcmp(argv[1], "--sleep") == 0) {
		alarm(300);
		pause();
		return 0;
	}
	if (argc == 3 && strcmp(argv[1], "--have") == 0)
		return have(argv[2]) ? 0 : WORKED;
	if (argc == 2 && strcmp(argv[1], "--list") == 0)
		return list();
	if (argc == 3 && strcmp(argv[1], "--machine") == 0)
		return machine_try(argv[2]);
	if (argc > 2 && strcmp(argv[1], "--exit") == 0)
		return (int)strtol(argv[2], NULL, 10);
	if (argc > 2)
		arguments_set(argv + 2);
	if (argc > 2 && strcmp(argv[1], "--many") == 0) {
		arguments_set(argv + 3);
		return many(argv[2]);
	}
	one = argc > 1 ? find(argv[1], strlen(argv[1])) : NULL;
	if (!one) {
		fprintf(stderr,
			"usage: agent-probe ID [name=value...] | --list | --machine DIR | "
			"--many ID,ID...|together [name=value...]\n");
		return 2;
	}
	return attack(one);
}
