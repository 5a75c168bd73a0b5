/*
 * What a change may do to which paths, decided on its tree entries before anything is written:
 * protected paths with four outcomes, nested repositories, secrets in added lines, tests that
 * say less. Paths themselves are gitops/pathpolicy.h's.
 *
 * Outcomes, mildest first: allow, review (published, with the path named so that a person
 * looks), strip (the change of this path is left out), refuse. The built-in list asks for a
 * review of what later runs, or decides, on people's and servers' machines: CI definitions, hooks,
 * configuration of git, editors and agents, code owners, manifests and lock files. The operator's
 * rules come behind it and the last that matches counts; the repository's rules can only make an
 * outcome stricter.
 */
#ifndef GITOPS_POLICY_H
#define GITOPS_POLICY_H

#include <stddef.h>

#include "gitops/view.h"

struct error;
struct json;
struct policy;

enum policy_outcome { POLICY_ALLOW, POLICY_REVIEW, POLICY_STRIP, POLICY_REFUSE };

/*
 * From the job: {"protect":["OUTCOME GLOB"…] of the operator, "also":[…] of the repository,
 * "tests":"report"|"refuse", "test_command":TEXT, "not_secret":[GLOB…], "only":[GLOB…]}: with
 * the last, a change of any other path is refused (gitops/pathset.h). NULL json: the built-in
 * list alone. NULL with err (ERROR_USAGE) when a rule is malformed.
 */
struct policy *policy_new(const struct json *rules, struct error *err);
void policy_free(struct policy *policy); /* NULL is fine */
void policy_free_ptr(struct policy **policy);
#define AUTO_POLICY __attribute__((cleanup(policy_free_ptr)))

/* The outcome for a path; *rule (NULL: not wanted) is the glob that decided, NULL when none
 * did. Pure. */
enum policy_outcome policy_outcome(const struct policy *policy, const char *path,
				   const char **rule);

/*
 * Takes out of the view what is to be stripped, then decides on what is left. *report is a new
 * object for tree.json, the caller's: {"review":[{"path","why"}…], "stripped":[{"path","rule"}…],
 * "tests":[{"path","kind","line","count","text"}…]}. 0; ERROR_NO when the change is refused, with
 * every reason that fits; ERROR_FAILED when objects cannot be read.
 */
int policy_apply(const struct policy *policy, struct view *view, struct json **report,
		 struct error *err);

#endif
