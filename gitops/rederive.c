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

/* What goes away first: a file may become a directory of its name. */
static int apply_all(struct view *view, git_diff *diff, struct error *err)
{
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < git_diff_num_deltas(diff); i++) {
			const git_diff_delta *delta = git_diff_get_delta(diff, i);
			int rc = 0;

			if ((delta->status == GIT_DELTA_DELETED) == (pass == 0))
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

int rederive_view(struct view *view, const char *tree, struct error *err)
{
	git_diff *diff = NULL;
	int rc = find_difference(view_repo(view), view_tree(view), tree, &diff, err);

	if (rc == 0)
		rc = apply_all(view, diff, err);
	git_diff_free(diff);
	return rc;
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
