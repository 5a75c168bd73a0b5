/*
 * Whether a change makes the tests say less: tests deleted, skipped or focused, assertions taken
 * out, expectations and snapshots rewritten, the runner's configuration changed. What it finds
 * are hints for whoever reviews, by the habits of the common test frameworks; it reads lines, not
 * programs. Pure; O(n log n).
 */
#ifndef GITOPS_TAMPER_H
#define GITOPS_TAMPER_H

#include <stdbool.h>
#include <stddef.h>

enum tamper_kind {
	TAMPER_DELETED,	      /* a file of tests is gone */
	TAMPER_REMOVED,	      /* fewer tests in a file */
	TAMPER_SKIPPED,	      /* a test is skipped or expected to fail */
	TAMPER_FOCUSED,	      /* only one test runs */
	TAMPER_ASSERTIONS,    /* fewer assertions in a file */
	TAMPER_EXPECTATION,   /* an assertion of the base says something else */
	TAMPER_SNAPSHOT,      /* a recorded expectation is rewritten or deleted */
	TAMPER_CONFIGURATION, /* what runs, or how, is decided in this file */
	TAMPER_KIND_COUNT
};

struct tamper {
	enum tamper_kind kind;
	size_t
	    line; /* from 1 in the new file (REMOVED, ASSERTIONS: in the old one); 0: the file */
	size_t count;	  /* tests, assertions, places */
	const char *text; /* borrowed: the line, trimmed; NULL for the file */
	size_t len;
};

/* A file before and after; old or now NULL: it is not there. */
struct tamper_file {
	const char *path;
	const char *old, *now;
	size_t old_len, now_len;
	bool moved; /* its bytes are at another path now */
};

/* At most one of each kind; found has room for all. How many. */
size_t tamper_find(const struct tamper_file *file, struct tamper found[TAMPER_KIND_COUNT]);

/* "deleted", "removed", "skipped", … */
const char *tamper_kind_text(enum tamper_kind kind);

/* Whether what is moved from one path to the other is still what it was for a test runner: a
 * test that it finds, a snapshot, a configuration that counts. */
bool tamper_same_role(const char *from, const char *to);

/* Whether a program of the command line reads its orders from a file of that name: make and
 * Makefile, tox and tox.ini, … */
bool tamper_runs(const char *command, const char *path);

#endif
