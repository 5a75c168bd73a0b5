#include "history.h"

#include <string.h>

#include <git2.h>

#include "gitops/policy.h"
#include "gitops/rederive.h"
#include "gitops/view.h"
#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"

#define FILES_MAX 100000 /* of one commit */
#define SHORT_ID 12

struct history {
	struct gitops_repo *repo;
	const struct policy *policy;
	uint64_t bytes_left;
	size_t commits;
};

/* ---- one commit ---- */

/* The tree of the nth parent. */
static int parent_tree(const struct history *history, git_commit *commit, unsigned nth,
		       char tree[GITOPS_OID_SIZE], struct error *err)
{
	char oid[GITOPS_OID_SIZE];

	git_oid_tostr(oid, sizeof(oid), git_commit_parent_id(commit, nth));
	return repo_commit_tree(history->repo, oid, tree, err);
}

static int find_others(const struct history *history, git_commit *commit,
		       struct rederive_others *others, struct error *err)
{
	unsigned parents = git_commit_parentcount(commit);

	others->trees = mem_calloc(parents, sizeof(*others->trees));
	for (unsigned i = 1; i < parents; i++) {
		char(*tree)[GITOPS_OID_SIZE] = &others->trees[others->count++];

		if (parent_tree(history, commit, i, *tree, err))
			return err->kind;
	}
	return 0;
}

static int count_bytes(struct history *history, struct view *view, struct error *err)
{
	AUTO_FREE struct view_change *changes = NULL;
	size_t count = 0;
	int rc = view_changes(view, &changes, &count, err);

	for (size_t i = 0; rc == 0 && i < count; i++)
		history->bytes_left -= changes[i].len;
	return rc;
}

static int judge_view(struct history *history, struct view *view, struct error *err)
{
	AUTO_JSON struct json *report = NULL;
	const struct json *first;
	int rc = count_bytes(history, view, err);

	if (rc == 0)
		rc = policy_apply(history->policy, view, &report, err);
	first = js_at(js_get(report, "stripped"), 0);
	if (rc == 0 && first)
		rc = error_set(err, ERROR_NO, "'%s' is not to be changed (rule %s)",
			       js_str(first, "path", ""), js_str(first, "rule", ""));
	return rc;
}

static int judge_change(struct history *history, git_commit *commit, struct error *err)
{
	const struct view_limits limits = {FILES_MAX, history->bytes_left,
					   GITOPS_FILE_BYTES_MAX};
	struct rederive_others others = {.count = 0};
	char from[GITOPS_OID_SIZE], tree[GITOPS_OID_SIZE];
	AUTO_VIEW struct view *view = NULL;
	int rc;

	git_oid_tostr(tree, sizeof(tree), git_commit_tree_id(commit));
	if (git_commit_parentcount(commit) == 0)
		return error_set(err, ERROR_NO,
				 "it has no parent: it begins a history of its own");
	if (git_commit_parentcount(commit) > HISTORY_PARENTS_MAX)
		return error_set(err, ERROR_NO, "it has more than %d parents",
				 HISTORY_PARENTS_MAX);
	rc = parent_tree(history, commit, 0, from, err);
	if (rc < 0 || strcmp(from, tree) == 0)
		return rc;
	rc = find_others(history, commit, &others, err);
	if (rc == 0) {
		view = view_new(history->repo, from, &limits, err);
		rc = view ? rederive_own(view, tree, &others, err) : err->kind;
	}
	if (rc == 0)
		rc = judge_view(history, view, err);
	mem_free_ptr(&others.trees);
	return rc;
}

static int judge_commit(struct history *history, const git_oid *id, struct error *err)
{
	char oid[GITOPS_OID_SIZE];
	enum gitops_type type;
	git_commit *commit = NULL;
	uint64_t size;
	int rc;

	git_oid_tostr(oid, sizeof(oid), id);
	rc = repo_header(history->repo, oid, &type, &size, err);
	if (rc == 0 && size > GITOPS_FILE_BYTES_MAX)
		rc = error_set(err, ERROR_NO, "it is larger than 8 MiB");
	else if (rc == 0 && git_commit_lookup(&commit, repo_git(history->repo), id) < 0)
		rc = gitops_error(err, ERROR_FAILED, "cannot be read");
	if (rc == 0)
		rc = judge_change(history, commit, err);
	git_commit_free(commit);
	return rc < 0 ? error_wrap(err, "commit %.*s", SHORT_ID, oid) : 0;
}

/* ---- all ---- */

static int walk(struct history *history, git_revwalk *walk, struct error *err)
{
	git_oid id;
	int rc;

	while ((rc = git_revwalk_next(&id, walk)) == 0) {
		if (++history->commits > HISTORY_COMMITS_MAX) {
			error_set(err, ERROR_NO,
				  "more than %d new commits, each of which is to be looked at",
				  HISTORY_COMMITS_MAX);
			return error_next(err, "push them in parts, the older ones first");
		}
		if (judge_commit(history, &id, err))
			return err->kind;
	}
	return rc == GIT_ITEROVER ? 0 : gitops_error(err, ERROR_FAILED, "history");
}

static int push_and_hide(git_revwalk *walk, const char *tip, const char *const *known,
			 size_t known_count)
{
	git_oid id;
	int rc = git_oid_fromstr(&id, tip);

	if (rc == 0)
		rc = git_revwalk_push(walk, &id);
	for (size_t i = 0; rc == 0 && i < known_count; i++) {
		if (!known[i][0])
			continue;
		rc = git_oid_fromstr(&id, known[i]);
		if (rc == 0)
			rc = git_revwalk_hide(walk, &id);
	}
	git_revwalk_sorting(walk, GIT_SORT_TOPOLOGICAL | GIT_SORT_REVERSE);
	return rc;
}

int history_judge(struct gitops_repo *repo, const struct policy *policy, const char *tip,
		  const char *const *known, size_t known_count, struct error *err)
{
	struct history history = {
	    .repo = repo, .policy = policy, .bytes_left = HISTORY_BYTES_MAX};
	git_revwalk *commits = NULL;
	int rc = 0;

	if (git_revwalk_new(&commits, repo_git(repo)) < 0 ||
	    push_and_hide(commits, tip, known, known_count) < 0)
		rc = gitops_error(err, ERROR_FAILED, "history of %s", tip);
	if (rc == 0)
		rc = walk(&history, commits, err);
	git_revwalk_free(commits);
	return rc;
}
