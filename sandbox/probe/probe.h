/*
 * The attack probe: one static program that tries one attack and says what came of it. See cmd/agent-probe.c.
 *
 * An attack is a function that takes steps and notes each one's result; the notes together make the verdict. It must be real:
 * outside of a sandbox, or in a weak one (the row's control), it works. It must not do harm beyond a canary there: what it changes
 * is marked, what it takes is bounded.
 */
#ifndef PROBE_PROBE_H
#define PROBE_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "sandbox/probe/table.h"

enum verdict {
	BLOCKED = 0,
	WORKED = 10,
	UNTRIED = 11,
	DONE = 12, /* carried out; only the host can tell whether it had an effect there */
};

/* Where the attack is known to work, which shows that the probe can succeed. */
enum control {
	NOWHERE, /* needs what no test may have (the real machine, root on it), or is about our own facts */
	PLAIN,	/* an ordinary user without a sandbox */
	KERNEL, /* the same, where this kernel and its settings have the thing */
	USERNS, /* root of a user namespace, all other namespaces new, without a filter */
	ROOT,	/* real root, all namespaces new but the user's and the processes' */
};

struct attack {
	const char *id, *section;
	enum control control;
	const char *mechanism, *expected;
	void (*run)(void);
};

extern const struct attack
    attacks[]; /* in the order of table.h, ended by an entry without an id */

#define ATTACK(name) void attack_##name(void)
#define ATTACK_DECLARATION(id, section, control, name, mechanism, expected) ATTACK(name);
ATTACKS(ATTACK_DECLARATION)
#undef ATTACK_DECLARATION

/* ---- arguments: name=value, behind the id ---- */
const char *arg(const char *name); /* NULL when not given */
const char *arg_or(const char *name, const char *otherwise);
long arg_number(const char *name, long otherwise);
const char *mark(void); /* what everything that we make is named by */

/*
 * ---- notes: printf-like; the strongest one is the verdict, in this order ----
 *
 * surprise: the step failed in another way than a wall lets it fail; nothing is known then. absent: what would be attacked is not
 * there, or this cannot be tried; counts only when nothing else was noted.
 */
void worked(const char *format, ...) __attribute__((format(printf, 1, 2)));
void surprise(const char *format, ...) __attribute__((format(printf, 1, 2)));
void done(const char *format, ...) __attribute__((format(printf, 1, 2)));
void blocked(const char *format, ...) __attribute__((format(printf, 1, 2)));
void absent(const char *format, ...) __attribute__((format(printf, 1, 2)));
enum verdict notes_verdict(void);
bool notes_worked(void);
void notes_print(const char *id);

/* A call that must fail with one of these errors: notes worked, blocked or surprise. */
void refused_with(const char *what, long result, const int *errors);
#define REFUSED(what, result, ...) refused_with(what, result, (const int[]){__VA_ARGS__, 0})

/* ---- steps that many attacks take ---- */
const char *text(const char *format, ...)
    __attribute__((format(printf, 1, 2))); /* valid until the eighth call after it */
ssize_t read_path(const char *path, char *buf,
		  size_t size); /* ends buf with NUL; -1 with errno */
bool write_path(const char *path, const char *content);
/* A folder of our own in /tmp, made when it is not there; the host takes it away. */
const char *own_folder(void);
/* Notes worked when the bytes hold a planted secret, which is printed: the host looks for it. */
bool leaks(const char *where, const char *bytes, size_t len);
/* Reads the file: a planted secret in it is noted, and so is that it cannot be had. Other content is noted with `any`. */
void try_read(const char *path, bool any);
/* Whether "int $0x80" leads to the 32-bit calls: to gVisor's kernel it is a call like any other. */
bool has_gate32(void);
/* Opening must fail; the file is not written to. */
void try_open(const char *path, int flags);
/* A host's socket: connecting must fail. */
void try_connect(const char *path);
bool try_connect_abstract(const char *name, int type);
/* Other processes that might be reached: PID 1, the parent, pid=, and all of a small process table. Returns the count. */
size_t other_pids(pid_t *pids, size_t max);
/* Runs the program with its words (separated by blanks) without output. The wait status, or -1 when it is not there. */
int run_line(int deadline_ms, const char *line);
/* Calls run(data) in a child; the wait status. */
int in_child(int (*run)(void *), void *data);
/* Calls visit for all below path, with its d_type, until it returns false. */
void walk(const char *path, int depth, bool (*visit)(const char *path, unsigned char type));

#define LEN(array) (sizeof(array) / sizeof((array)[0]))

#endif
