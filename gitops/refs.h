/*
 * Reading refs and the repository's format straight from the files of a git directory, so
 * that nothing in its configuration has a say (not even an include that cannot be read).
 * Formats: gitrepository-layout(5), git-pack-refs(1), git-config(1),
 * Documentation/technical/repository-version.
 */
#ifndef GITOPS_REFS_H
#define GITOPS_REFS_H

#include <stdbool.h>

#include "gitops/repo.h"

struct error;

#define REF_NAME_SIZE 1024

struct ref_value {
	char oid[GITOPS_OID_SIZE]; /* what it points at; may be an annotated tag */
	char name[REF_NAME_SIZE];  /* the full name of the ref that held it; "" for a detached
				      HEAD or an id */
	bool missing;		   /* what refs_resolve refused is a good name, of nothing */
};

/*
 * Resolves "HEAD", a full ref name, a branch or tag name, or 40 hex digits. 0; ERROR_USAGE
 * when there is no such ref, it is malformed, or HEAD names a branch without a commit ("no
 * commit yet").
 */
int refs_resolve(const struct gitops_paths *paths, const char *rev, struct ref_value *value,
		 struct error *err);

/* The same of a full name that may be not there: 1 then, 0, or ERROR_USAGE. */
int refs_look(const struct gitops_paths *paths, const char *name, struct ref_value *value,
	      struct error *err);

/*
 * All refs below refs/ into out, an object of full name -> what it points at (perhaps a tag). Left out: symbolic
 * refs, and names and values that git would not take. 0; ERROR_USAGE when it cannot be read, or has more than a
 * million.
 */
struct json;
int refs_list(const struct gitops_paths *paths, struct json *out, struct error *err);

struct repo_format {
	bool shallow;
};

/*
 * Whether we can read this repository. ERROR_USAGE with the remedy for another object format
 * (SHA-256), another ref format (reftable), a partial clone or an unknown extension.
 */
int refs_check_format(const struct gitops_paths *paths, struct repo_format *format,
		      struct error *err);

#endif
