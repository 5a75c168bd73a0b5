/*
 * The skeleton: the few files of the base tree that a recipe needs, read from git objects and
 * written to a clean directory. The same list is what the layer's key covers.
 *
 * What is to be fetched is the base's to say: manifests, lock files. How, is the trusted ref's: tool configuration
 * and programs (pipeline/fetch/steers.h) are taken from its tree alone, so that a pushed branch has no say in them
 * (law L9). By hand both are one tree.
 *
 * For agent-fetch only (it is what links gitops).
 */
#ifndef FETCH_SKELETON_H
#define FETCH_SKELETON_H

#include <stddef.h>

#include "gitops/repo.h"
#include "pipeline/fetch/store.h"

struct error;
struct json;
struct view;

struct skeleton_file {
	char *path;
	char oid[GITOPS_OID_SIZE]; /* "" when the bytes are ours */
	bool executable;
	char *text; /* the bytes, when they are ours; NULL: the blob's */
};

struct skeleton {
	struct skeleton_file *files; /* sorted by path */
	size_t count;
	char **outputs;	 /* what the layer takes, "~/…" for HOME; NULL-terminated */
	char **required; /* directories that a warm must have made, below the work tree;
			    NULL-terminated */
	char **
	    not_base; /* paths where the base differs and has no say; NULL-terminated or NULL */
};

struct skeleton_trees {
	struct view *base; /* the commit that is worked on */
	struct view
	    *trusted; /* the one that the configuration came from; of the same repository */
	const struct json *words; /* of the commands of the warm and its check, or NULL */
};

/* From package-lock.json or npm-shrinkwrap.json, linted (npm_lock.h). job: agent-fetch's. */
int skeleton_npm(const struct skeleton_trees *trees, const struct json *job,
		 struct skeleton *out, struct error *err);

/* From the job's "inputs" and "outputs". */
int skeleton_general(const struct skeleton_trees *trees, const struct json *job,
		     struct skeleton *out, struct error *err);

void skeleton_release(struct skeleton *skeleton);

/* The layer's key: the plan's text and every file of the skeleton. Pure. */
void skeleton_key(const struct skeleton *skeleton, const char *plan, char key[STORE_KEY_SIZE]);

/* Writes the files below dir_fd, an empty directory. */
int skeleton_write(const struct skeleton *skeleton, struct view *view, int dir_fd,
		   struct error *err);

#endif
