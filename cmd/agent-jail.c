/*
 * NAME
 *	agent-jail - builds a jail and runs one command in it
 *
 * SYNOPSIS
 *	agent-jail	(no arguments; everything comes on descriptors, see pipeline/fds.h)
 *	agent-jail --in-gvisor	(started by runsc as PID 1 of a sandbox only: sandbox/jail/runner.h)
 *	agent-sweeper: …	(started by itself, to free what a jail left: sandbox/jail/sweep.h)
 *
 * Reads the spec (FD_SPEC, sealed, from the supervisor) and the go (FD_GO, from the program
 * that started it: which layers make the work tree). Writes the exit facts (FD_FACTS, straight
 * to the supervisor), after nothing of the jail is alive any more. The payload gets FD_STDIN,
 * FD_STDOUT and FD_STDERR and no other descriptor. Exits with 0, or with 125 when the payload
 * was not started; without a go it exits quietly. The closing of FD_GO ends the jail at any
 * time.
 *
 * SECURITY
 *	Hostile inputs: the go, of which it takes names of layers only, resolved below the store
 * and the run's directory without following links; everything that the payload does. The spec is
 * trusted. Reach: started by root, it is root until it has made the mounts and the control
 * group, and its helper is the payload's user from its first step; started by a user, it never
 * has more than the user. A compromise of the payload yields the payload: an empty network, no
 * capability, no file of the host but the listed read-only ones. A compromise of the starter
 * yields a choice among layers of the store.
 */
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pipeline/exitcode.h"
#include "sandbox/jail/outer.h"
#include "sandbox/jail/runner.h"
#include "sandbox/jail/sweep.h"
#ifdef AGENT_FAULTS
#include "sandbox/jail/run.h"
#endif

/* The environment is empty, or what the stage table gives this row. */
static int has_foreign_env(char **env)
{
	for (; *env; env++)
		if (strcmp(*env, "LANG=C.UTF-8") != 0 && strcmp(*env, "TZ=UTC") != 0)
			return 1;
	return 0;
}

extern const char __ehdr_start; /* of ld(1): where the program lies in memory */

/*
 * What was writable only to be relocated is so no more (ld(1), -z relro): glibc has seen to it by now, musl does not in a
 * program that no loader starts.
 */
static int seal_relocated(void)
{
	const ElfW(Phdr) *headers = (const void *)(uintptr_t)getauxval(AT_PHDR);
	const size_t count = getauxval(AT_PHNUM), page = getauxval(AT_PAGESZ);
	uintptr_t base = (uintptr_t)&__ehdr_start;

	for (size_t i = 0; i < count; i++)
		if (headers[i].p_type == PT_LOAD && headers[i].p_offset == 0)
			base -= headers[i].p_vaddr;
	for (size_t i = 0; i < count; i++) {
		uintptr_t from = (base + headers[i].p_vaddr) & ~(page - 1);
		uintptr_t to = (base + headers[i].p_vaddr + headers[i].p_memsz) & ~(page - 1);

		if (headers[i].p_type == PT_GNU_RELRO && from < to &&
		    mprotect((void *)from, to - from, PROT_READ) < 0)
			return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *fault = NULL;

	if (seal_relocated() < 0) {
		perror("agent-jail: its own memory cannot be made read-only");
		return EXIT_ISOLATION;
	}
	/* Inside a sandbox of the backend gvisor, as its PID 1. */
	if (argc == 2 && strcmp(argv[1], RUNNER_WORD) == 0 && getpid() == 1)
		runner_main();
	if (argc == 1 && strcmp(argv[0], SWEEP_TITLE) == 0)
		sweep_main();

#ifdef AGENT_FAULTS
	/* Only in the program that the tests build: agent-jail-faults [STEP], or --list. */
	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		for (unsigned i = 0; i < STEP_COUNT; i++)
			puts(step_name((enum jail_step)i));
		return 0;
	}
	fault = argc == 2 ? argv[1] : NULL;
	argc = 1;
#endif
	if (argc != 1 || has_foreign_env(environ)) {
		fprintf(stderr, "%s: takes no arguments and no environment: agent starts it\n",
			argc > 0 ? "agent-jail" : argv[0]);
		return EXIT_ISOLATION;
	}
	return outer_main(fault);
}
