/*
 * Finding a repository without libgit2: the git dir, the common dir of a linked work tree, the
 * work tree and the alternates, as paths for the stages' Landlock rules. Opens nothing as a
 * repository and reads no configuration but remote URLs. (gitrepository-layout(5))
 */
#ifndef PIPELINE_DISCOVER_H
#define PIPELINE_DISCOVER_H

#include <stddef.h>

struct config;
struct error;
struct json;

struct repository {
	char *git_dir;	   /* absolute */
	char *common_dir;  /* absolute; equals git_dir but in a linked work tree */
	char *work_dir;	   /* absolute; NULL for a bare repository */
	char **alternates; /* absolute object directories, followed to depth 5 */
	size_t alternate_count;
};

/* Walks up from start (NULL: the working directory). 0 or ERROR_USAGE "not a git repository".
 */
int repository_find(const char *start, struct repository *repo, struct error *err);
void repository_release(struct repository *repo);

/* A job's "paths" object with repo, common, workdir and alternates. New. */
struct json *repository_paths(const struct repository *repo);

/* The names of the remotes in the repository's own config file, each once; a new array, empty where it cannot be read. */
struct json *repository_remotes(const struct repository *repo);

/*
 * The URL of a remote from the repository's own config file (remote.NAME.url, the last one;
 * insteadOf, pushurl and includes have no effect), relative paths as what they lead to. A name with a
 * slash or colon is taken as a URL or path itself. Owned by the caller. NULL with err.
 */
char *repository_remote_url(const struct repository *repo, const char *name, struct error *err);

#endif
