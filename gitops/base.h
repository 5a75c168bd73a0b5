/*
 * What a run starts from: the base commit and what the supervisor must know of it. The
 * supervisor has no git library; it learns this from base.json (`agent-apply base`).
 */
#ifndef GITOPS_BASE_H
#define GITOPS_BASE_H

#include "gitops/repo.h"

struct error;
struct json;

#define BASE_CONFIG_MAX 65536 /* bytes of .agent/config */

struct ref_value;

/*
 * refs_resolve, or the id of an object that rev begins (repo_expand), where no ref has that name. What it names may be a tag still. 0 or
 * an error kind.
 */
int base_find(struct gitops_repo *repo, const struct gitops_paths *paths, const char *rev,
	      struct ref_value *value, struct error *err);

/*
 * Resolves rev ("HEAD", a ref, a branch or tag name, an object id, whole or abbreviated) and gathers base.json:
 *
 *	{"kind":"base","version":1,"commit","tree","ref":name|null,"committer_time":N,
 *	 "subject":text,"config":text|null,"config_oid":oid|null,"config_ref":name|null,
 *	 "config_commit":oid,"files":[{"path","oid","size","mode"}...],"object_format":"sha1","shallow":bool}
 *
 * files: manifests and lock files in the root directory. config: .agent/config of config_rev, the
 * operator's trusted ref, where rev is a pushed one that may not say how it is tested (law L9); NULL: of
 * rev itself. New object, or NULL with err:
 * ERROR_USAGE with one clear line for everything that is not a repository with a commit that
 * we can read.
 */
struct json *base_read(const struct gitops_paths *paths, const char *rev,
		       const char *config_rev, struct error *err);

/* Follows annotated tags to the commit that they name. 0 or ERROR_USAGE. */
int base_peel(struct gitops_repo *repo, char oid[GITOPS_OID_SIZE], struct error *err);

#endif
