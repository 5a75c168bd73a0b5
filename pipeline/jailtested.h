/*
 * Remembers that a jail's self-test from inside held, so that later starts of the same program, on the same boot of
 * the machine, for the same kind of jail, repeat only its vital probes (jail_spec.tested).
 *
 * A key is the digest of: boot id, user, agent-jail (its file's identity and its first page, which holds the
 * linker's digest of it), and those parts of the spec that change what holds. Keys stand, one a line, in the file
 * "selftest" of the state directory, which no stage and no payload can write. The file counts only when it and the
 * directory belong to us and nobody else may write them; otherwise, as without it, the whole test is made. It is
 * never more than a saving of time: what it leaves out was checked by each step's own result as well.
 */
#ifndef PIPELINE_JAILTESTED_H
#define PIPELINE_JAILTESTED_H

#include <stdbool.h>

struct jail_facts;
struct jail_spec;

struct jailtested {
	char key[65]; /* empty: nothing is to be remembered */
};

/* Fills spec->tested from what the state directory remembers, and the key for jailtested_keep. */
void jailtested_look(const char *state, struct jail_spec *spec, struct jailtested *tested);

/* The same on the boot with this id, for the program at this path. */
void jailtested_look_at(const char *state, const char *boot, const char *program,
			struct jail_spec *spec, struct jailtested *tested);

/* After a jail with the key: remembers it when the whole test was made and held. Failures are no error: the next
 * start makes the whole test again. */
void jailtested_keep(const char *state, const struct jailtested *tested,
		     const struct jail_facts *facts);

#endif
