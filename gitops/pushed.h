/*
 * What a push brings, as facts for those who decide (cmd/agent/hook.c): the tip of each ref, the
 * issue that it carries, and whether what an agent changed stands up to the path policy. Reads
 * objects only, those that git still holds in quarantine among them: their directory is one of the
 * job's alternates.
 */
#ifndef GITOPS_PUSHED_H
#define GITOPS_PUSHED_H

struct error;
struct json;

#define PUSHED_ISSUE_MAX (1 << 20)
#define PUSHED_TASK_PATH ".agent/task.md"
#define PUSHED_OPTION "issue=" /* a push option that carries the issue */

/*
 * From the job {"paths":{"repo","common"?,"alternates"?}, "rev": the trusted ref,
 * "option": TEXT|null (what a push option says the issue is), "policy": as gitops/policy.h,
 * "updates":[{"ref","new"?,"old","option"?,"issue":bool,"policy":bool,"text":bool}…],"list":bool}, where issue and
 * policy say what is wanted (policy: of the change as a whole, and of each commit on the way), text whether the issue's
 * whole text is, makes
 *
 *	{"kind":"pushed","version":1,"base":{"commit","tree"}|null,"refs"?:{name:oid…},
 *	 "updates":[{"tip":oid|null,"commit","tree","source":"option"|"file"|"message"|"agent"|null,
 *	 "title","text"?,"problem":text|null,"refused":text|null,"next":text|null}…]}
 *
 * new: what the ref is to become; without it, what it is now counts, and tip tells that, null where it is not
 * there. option: of this ref alone. refs: all of the repository, when list asks for them (gitops/refs.h).
 * problem: why there is no usable issue, or the tip is no commit; refused: what the policy says.
 * source "agent": a commit of our own (trailer Agent-Run), which asks for nothing. New; NULL with
 * err when the repository or its objects cannot be read.
 */
struct json *pushed_read(const struct json *job, struct error *err);

#endif
