/*
 * What `git push --porcelain` and `git ls-remote` print, read strictly, and what git and ssh
 * mean when they fail. Pure; a good part of the text comes from a server.
 *
 * Exit status 0 says little (git push has returned it with a refused ref): only a status line
 * for exactly our refspec with a good flag is a success (git-push(1), "OUTPUT").
 */
#ifndef PUBLISH_PORCELAIN_H
#define PUBLISH_PORCELAIN_H

#include <stddef.h>

#include "pipeline/publish/remote.h"

struct error;
struct strbuf;

enum push_outcome {
	PUSH_NO_LINE,  /* no status line for our ref, or one too many: nothing is known to have
			  been pushed */
	PUSH_NEW,      /* '*': the ref was made */
	PUSH_UPDATED,  /* ' ' or '+': the ref was moved */
	PUSH_ALREADY,  /* '=': it had that value */
	PUSH_STALE,    /* our lease does not hold: the ref is not what we expect */
	PUSH_DECLINED, /* a hook of the server said no */
	PUSH_RACED,   /* the server found the ref moved, locked or in the way of another name */
	PUSH_SHALLOW, /* the server takes no shallow history */
	PUSH_DENIED,  /* a rule of the server says no */
	PUSH_REJECTED, /* another '!' */
};

struct push_status {
	enum push_outcome outcome;
	char summary[512]; /* git's words: "[remote rejected] (pre-receive hook declined)";
			      escaped */
};

/*
 * Reads git push's standard output for the refspec oid:ref and, when other is not NULL, for that
 * refspec pushed atomically with it: a success counts only with one of the other's; of a failure
 * for the other's sake, the other's reason is told.
 */
void porcelain_parse(const char *text, size_t len, const char *oid, const char *ref,
		     const char *other, struct push_status *status);

/* Reads `git ls-remote URL REF`: 1 and the ref's tip, 0 when the ref is not there, ERROR_FAILED
 * when malformed. */
int porcelain_ls_remote(const char *text, size_t len, const char *ref, char tip[65],
			struct error *err);

/*
 * What stopped git before any ref was looked at, from its standard error: sets err
 * (ERROR_FAILED, or ERROR_USAGE where the operator has to mend something) with message and next
 * step. Returns the kind.
 */
int porcelain_diagnose(const struct remote *remote, const char *text, size_t len,
		       struct error *err);

/* The server's own messages out of git's standard error: the lines "remote: …" without that
 * word and the blanks that git pads them with, raw, appended to out (cut where out is full). */
void porcelain_server_text(const char *text, size_t len, struct strbuf *out);

#endif
