#include "status.h"

#include <stdbool.h>
#include <string.h>

#include <git2.h>

#include "gitops/repo.h"
#include "pipeline/base/error.h"

#define STATUS_FILES_MAX 4000000 /* as a layer may have: gitops/checkout.c */

/* A file that a sparse checkout leaves out is not a deleted one. */
static bool left_out(git_index *index, const char *path)
{
	const git_index_entry *entry = git_index_get_bypath(index, path, 0);

	return entry && (entry->flags_extended & GIT_INDEX_ENTRY_SKIP_WORKTREE);
}

static void count(git_status_list *list, git_index *index, struct status_facts *facts)
{
	for (size_t i = 0; i < git_status_list_entrycount(list); i++) {
		const git_status_entry *entry = git_status_byindex(list, i);
		const git_diff_delta *delta = entry->index_to_workdir;
		if (entry->status == GIT_STATUS_WT_DELETED && delta &&
		    left_out(index, delta->old_file.path))
			continue;
		if (entry->status == GIT_STATUS_CURRENT || (entry->status & GIT_STATUS_IGNORED))
			continue;
		facts->changed++;
		facts->untracked += entry->status == GIT_STATUS_WT_NEW;
	}
}

/* The work tree is the one we were told, not one that the configuration names. */
static int use_workdir(git_repository *repo, const char *workdir)
{
	const char *have = git_repository_workdir(repo);
	size_t len = strlen(workdir);

	/* (setting what is set leaks in libgit2 1.5) */
	if (have && strncmp(have, workdir, len) == 0 && strcmp(have + len, "/") == 0)
		return 0;
	return git_repository_set_workdir(repo, workdir, 0);
}

/* Entries of a tree and of those below it, taken off *left. 0, 1 when there are more, or a library error. */
static int count_tree(git_repository *repo, const git_oid *oid, unsigned depth, size_t *left)
{
	git_tree *tree = NULL;
	int rc = depth > GITOPS_DEPTH_MAX ? 1 : git_tree_lookup(&tree, repo, oid);
	size_t entries = rc == 0 ? git_tree_entrycount(tree) : 0;

	if (rc == 0 && entries > *left)
		rc = 1;
	*left -= rc == 0 ? entries : 0;
	for (size_t i = 0; i < entries && rc == 0; i++) {
		const git_tree_entry *entry = git_tree_entry_byindex(tree, i);

		if (git_tree_entry_type(entry) == GIT_OBJECT_TREE)
			rc = count_tree(repo, git_tree_entry_id(entry), depth + 1, left);
	}
	git_tree_free(tree);
	return rc;
}

/* A few objects can be a tree of any number of files, and the library keeps a record of each. */
static int check_size(git_repository *repo, struct error *err)
{
	git_reference *head = NULL;
	git_object *tree = NULL;
	size_t left = STATUS_FILES_MAX;
	int rc = git_repository_head(&head, repo);

	if (rc == 0)
		rc = git_reference_peel(&tree, head, GIT_OBJECT_TREE);
	if (rc == 0)
		rc = count_tree(repo, git_object_id(tree), 0, &left);
	git_object_free(tree);
	git_reference_free(head);
	if (rc == 1)
		return error_set(
		    err, ERROR_FAILED,
		    "the commit has more than %d files and directories, or more than "
		    "%d levels of them",
		    STATUS_FILES_MAX, GITOPS_DEPTH_MAX);
	return 0; /* what cannot be read is told by who reads it next */
}

int status_read(const char *gitdir, const char *workdir, struct status_facts *facts,
		struct error *err)
{
	git_repository *repo = NULL;
	git_status_list *list = NULL;
	git_index *index = NULL;
	git_status_options options = GIT_STATUS_OPTIONS_INIT;
	int rc = gitops_init(err);

	if (rc < 0)
		return rc;
	if ((rc = repo_check_files(gitdir, NULL, err)) < 0)
		return rc;
	*facts = (struct status_facts){0, 0};
	options.show = GIT_STATUS_SHOW_INDEX_AND_WORKDIR;
	options.flags = GIT_STATUS_OPT_INCLUDE_UNTRACKED | GIT_STATUS_OPT_EXCLUDE_SUBMODULES;
	if (git_repository_open_ext(&repo, gitdir, GIT_REPOSITORY_OPEN_NO_SEARCH, NULL) < 0 ||
	    use_workdir(repo, workdir) < 0 || git_repository_index(&index, repo) < 0)
		rc = gitops_error(err, ERROR_FAILED, "state of the work tree");
	else if ((rc = check_size(repo, err)) == 0 &&
		 git_status_list_new(&list, repo, &options) < 0)
		rc = gitops_error(err, ERROR_FAILED, "state of the work tree");
	else if (rc == 0)
		count(list, index, facts);
	git_status_list_free(list);
	git_index_free(index);
	git_repository_free(repo);
	git_libgit2_shutdown();
	return rc;
}
