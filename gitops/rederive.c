#include "rederive.h"

#include <git2.h>

#include "gitops/diff.h"
#include "gitops/view.h"
#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

#define FILES_MAX 100000
#define BYTES_MAX ((uint64_t)1 << 30)

static int apply_delta(struct view *view, const git_diff_delta *delta, struct error *err)
{
	struct strbuf data AUTO_STRBUF = STRBUF_NONE;
	char oid[GITOPS_OID_SIZE];
	int rc;

	if (delta->status == GIT_DELTA_DELETED)
		return view_remove(view, delta->old_file.path, err);
	strbuf_init(&data, GITOPS_FILE_BYTES_MAX);
	git_oid_tostr(oid, sizeof(oid), &delta->new_file.id);
	rc = repo_blob(view_repo(view), oid, GITOPS_FILE_BYTES_MAX, &data, err);
	return rc < 0 ? rc
		      : view_put(view, delta->new_file.path,
				 view_kind_of_mode(delta->new_file.mode), data.data, data.len,
				 err);
}

struct others {
	git_tree **trees; /* owned, with each of them */
	size_t count;
};

/* Whether the new side of a change is what one of the others has at its path. */
static bool is_inherited(const struct others *others, const git_diff_delta *delta)
{
	for (size_t i = 0; i < others->count; i++) {
		bool gone = delta->status == GIT_DELTA_DELETED, same;
		git_tree_entry *entry = NULL;

		if (git_tree_entry_bypath(&entry, others->trees[i],
					  gone ? delta->old_file.path : delta->new_file.path) <
		    0)
			same = gone;
		else if (gone)
			same = git_tree_entry_type(entry) == GIT_OBJECT_TREE;
		else
			same = git_tree_entry_filemode_raw(entry) == delta->new_file.mode &&
			       git_oid_equal(git_tree_entry_id(entry), &delta->new_file.id);
		git_tree_entry_free(entry);
		if (same)
			return true;
	}
	return false;
}

/* What goes away first: a file may become a directory of its name. */
static int apply_all(struct view *view, git_diff *diff, const struct others *others,
		     struct error *err)
{
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < git_diff_num_deltas(diff); i++) {
			const git_diff_delta *delta = git_diff_get_delta(diff, i);
			int rc = 0;

			if ((delta->status == GIT_DELTA_DELETED) == (pass == 0) &&
			    !is_inherited(others, delta))
				rc = apply_delta(view, delta, err);
			if (rc < 0)
				return rc;
		}
	return 0;
}

static int find_difference(struct gitops_repo *repo, const char *base_tree, const char *tree,
			   git_diff **diff, struct error *err)
{
	git_diff_options options = GIT_DIFF_OPTIONS_INIT;
	git_tree *from = NULL, *to = NULL;
	git_oid base_id, id;
	int rc;

	options.flags = GIT_DIFF_INCLUDE_TYPECHANGE | GIT_DIFF_SKIP_BINARY_CHECK;
	options.ignore_submodules = GIT_SUBMODULE_IGNORE_NONE;
	if (git_oid_fromstr(&base_id, base_tree) < 0 || git_oid_fromstr(&id, tree) < 0)
		return error_set(err, ERROR_USAGE, "malformed tree id");
	rc = git_tree_lookup(&from, repo_git(repo), &base_id);
	if (rc == 0)
		rc = git_tree_lookup(&to, repo_git(repo), &id);
	if (rc == 0)
		rc = git_diff_tree_to_tree(diff, repo_git(repo), from, to, &options);
	git_tree_free(from);
	git_tree_free(to);
	return rc < 0 ? gitops_error(err, ERROR_FAILED, "trees %s and %s", base_tree, tree) : 0;
}

static int open_others(struct gitops_repo *repo, const struct rederive_others *from,
		       struct others *others, struct error *err)
{
	git_oid id;

	others->trees = mem_calloc(from->count + 1, sizeof(git_tree *));
	for (; others->count < from->count; others->count++) {
		const char *tree = from->trees[others->count];

		if (git_oid_fromstr(&id, tree) < 0 ||
		    git_tree_lookup(&others->trees[others->count], repo_git(repo), &id) < 0)
			return gitops_error(err, ERROR_FAILED, "tree %s", tree);
	}
	return 0;
}

int rederive_own(struct view *view, const char *tree, const struct rederive_others *from,
		 struct error *err)
{
	struct others others = {.count = 0};
	git_diff *diff = NULL;
	int rc = open_others(view_repo(view), from, &others, err);

	if (rc == 0)
		rc = find_difference(view_repo(view), view_tree(view), tree, &diff, err);
	if (rc == 0)
		rc = apply_all(view, diff, &others, err);
	git_diff_free(diff);
	for (size_t i = 0; i < others.count; i++)
		git_tree_free(others.trees[i]);
	mem_free_ptr(&others.trees);
	return rc;
}

int rederive_view(struct view *view, const char *tree, struct error *err)
{
	return rederive_own(view, tree, &(struct rederive_others){.count = 0}, err);
}

int rederive_patch(struct gitops_repo *repo, const char *base_tree, const char *tree,
		   struct strbuf *patch, struct error *err)
{
	const struct view_limits limits = {FILES_MAX, BYTES_MAX, GITOPS_FILE_BYTES_MAX};
	AUTO_VIEW struct view *view = view_new(repo, base_tree, &limits, err);
	AUTO_FREE struct view_change *changes = NULL;
	struct diff_stat stat;
	size_t count = 0;
	int rc = view ? rederive_view(view, tree, err) : err->kind;

	if (rc == 0)
		rc = view_changes(view, &changes, &count, err);
	return rc < 0 ? rc : diff_format(view, changes, count, patch, &stat, err);
}
