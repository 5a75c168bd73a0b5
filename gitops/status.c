#include "status.h"

#include <stdbool.h>
#include <string.h>

#include <git2.h>

#include "gitops/repo.h"
#include "pipeline/base/error.h"

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
	    use_workdir(repo, workdir) < 0 || git_repository_index(&index, repo) < 0 ||
	    git_status_list_new(&list, repo, &options) < 0)
		rc = gitops_error(err, ERROR_FAILED, "state of the work tree");
	else
		count(list, index, facts);
	git_status_list_free(list);
	git_index_free(index);
	git_repository_free(repo);
	git_libgit2_shutdown();
	return rc;
}
