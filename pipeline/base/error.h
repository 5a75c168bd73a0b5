/*
 * Errors are values. A function that can fail fills a caller's struct error where the failure
 * happens and returns the (negative) kind; callers may add context in front, never replace it.
 * Nothing here prints: only main functions do.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stddef.h>

/* What kind of failure; each maps to one exit status (pipeline/exitcode.h). */
enum error_kind {
	ERROR_NONE = 0,
	ERROR_NO = -1,		/* a clean "no": tests red, policy refused */
	ERROR_USAGE = -2,	/* bad usage or bad input */
	ERROR_SKIPPED = -3,	/* nothing to do, already running */
	ERROR_FAILED = -4,	/* outside the change: provider, remote, disk, internal */
	ERROR_LATER = -5,	/* temporary: try again later */
	ERROR_ISOLATION = -6,	/* a layer of isolation cannot be had */
	ERROR_INTERRUPTED = -7, /* the user pressed Ctrl-C, or a signal asked us to stop */
};

struct error {
	int kind;	    /* enum error_kind; ERROR_NONE while unset */
	char message[1536]; /* lower case: the thing, then the reason; foreign text escaped */
	char next[768];	    /* the next step for the user; may be empty */
};

/* Sets kind and message (printf format; cut to size, control bytes escaped). Returns kind. */
int error_set(struct error *err, enum error_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As error_set with ": strerror(errno_value)" behind the message. Returns kind. */
int error_errno(struct error *err, enum error_kind kind, int errno_value, const char *format,
		...) __attribute__((format(printf, 4, 5)));

/* Sets the next step that the user can take. Returns err->kind, for use in a return. */
int error_next(struct error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Puts "context: " in front of the message. Returns err->kind. */
int error_wrap(struct error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The exit status (pipeline/exitcode.h) of a kind. */
int error_exit_status(int kind);

/* The kind for an exit status of one of our own programs; unknown ones are ERROR_FAILED. */
int error_kind_of_status(int status);

#endif
