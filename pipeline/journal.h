/*
 * What a run tells: every event as a JSON line in events.jsonl (and on standard output with
 * --json), and for people one line a stage on standard error, with the elapsed time, redrawn on
 * a terminal. Foreign text is escaped here, at the last moment before it is shown (law L12).
 */
#ifndef PIPELINE_JOURNAL_H
#define PIPELINE_JOURNAL_H

#include <stdbool.h>

struct error;
struct json;
struct rundir;

struct journal {
	int events_fd;	    /* owned: events.jsonl, append; -1 before a run has a directory */
	bool json;	    /* --json: events on standard output, nothing for people */
	bool quiet;	    /* nothing for people */
	bool terminal;	    /* standard error is one */
	long long start_ms; /* CLOCK_MONOTONIC of the start */
	char stage[32];	    /* the stage that is shown now; empty: none */
	char text[256];	    /* its last progress text, escaped */
	long long stage_ms; /* when it began */
	bool drawn;	    /* an unfinished line is on the terminal */
};

void journal_init(struct journal *journal, bool json);
/* Opens events.jsonl of the run for appending. 0 or an error kind. */
int journal_open(struct journal *journal, const struct rundir *run, struct error *err);
void journal_release(struct journal *journal);

/* Writes an event: adds time (RFC 3339, UTC) and ms since the start; takes the object (may be
 * NULL). */
void journal_event(struct journal *journal, const char *event, struct json *taken);

/* A stage begins, tells its progress, ends: the last prints the finished line. text: printf,
 * escaped. */
void journal_stage(struct journal *journal, const char *stage, const char *text);
void journal_progress(struct journal *journal, const char *text);
void journal_done(struct journal *journal, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Redraws the terminal's line (called about 10 times a second while waiting). */
void journal_tick(struct journal *journal);
/* A line for people, in between. */
void journal_note(struct journal *journal, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
