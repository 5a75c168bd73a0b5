/*
 * What may be published where: the rules that agent-publish decides by. Pure.
 *
 * A branch is ours when its tip is a commit that this program recorded having made (a receipt), or
 * one that proves it (ours.h).
 * Any other branch is a person's: it is neither moved nor deleted.
 */
#ifndef PUBLISH_RULES_H
#define PUBLISH_RULES_H

#include <stdbool.h>
#include <stddef.h>

struct error;
struct json;

/* Whether a name, parts with / between, is of [A-Za-z0-9._-] after git's own rules
 * (git-check-ref-format(1)), no part beginning with '-': it means nothing to shells and programs. */
bool rules_name_is_plain(const char *name);

/*
 * A ref that results may go to: refs/heads/NAME or refs/agent/NAME, a plain NAME.
 * 0 or ERROR_USAGE.
 */
int rules_check_ref(const char *ref, struct error *err);

/*
 * The verdict must be green and name exactly this tree (law L7). 0; ERROR_NO when it is not
 * green; ERROR_FAILED when it is about another tree or malformed.
 */
int rules_check_verdict(const struct json *verdict, const char *tree, struct error *err);

enum rules_action {
	RULES_CREATE,  /* the ref is not there: make it, with a lease that it is not there */
	RULES_UPDATE,  /* the ref is ours, at the tip: move it, with a lease on that tip */
	RULES_ALREADY, /* the ref is at our commit already */
};

/*
 * What to do with a ref whose tip is tip (NULL: not there). commit: ours, about to be pushed.
 * expect: what the supervisor says it must be, or NULL. receipts: array of commits that this
 * program made. proven: the tip was shown to be of our making; foreign: why it was not, or "".
 * 0 and *action, or ERROR_NO with the reason and what to do.
 */
int rules_decide(const char *ref, const char *tip, const char *commit, const char *expect,
		 const struct json *receipts, bool proven, const char *foreign,
		 enum rules_action *action, struct error *err);

/* Whether the answer depends on proven. */
bool rules_need_proof(const char *tip, const char *commit, const char *expect,
		      const struct json *receipts);

#endif
