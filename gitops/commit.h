/*
 * Commits: the exact bytes, made in the quarantine, and the check that what is about to be
 * pushed is what was tested (law L7), from the objects themselves.
 *
 * The library's own commit and signature functions are not used for writing: they let line
 * breaks in names through into the header. commit_format makes the bytes, so that a signature
 * can be put in between (it signs exactly these bytes), and the id is the same over retries.
 */
#ifndef GITOPS_COMMIT_H
#define GITOPS_COMMIT_H

#include <stddef.h>

#include "gitops/repo.h"

struct error;
struct json;
struct strbuf;

#define COMMIT_BYTES_MAX ((size_t)2 << 20) /* of a whole commit object */

struct commit_spec {
	const char *tree;   /* 40 hex digits */
	const char *parent; /* 40 hex digits; NULL: a commit without one */
	const char *name;   /* author and committer; '<', '>', control characters are refused */
	const char *email;
	long long time;	     /* seconds since 1970; written with +0000 */
	const char *message; /* as gitops/message.h finished it; UTF-8 without NUL; ends with a
				newline */
};

/* The commit object's bytes, appended to out. 0, or ERROR_USAGE when a part is malformed.
 * Pure. */
int commit_format(const struct commit_spec *spec, struct strbuf *out, struct error *err);

/* Puts a "gpgsig" header with the (armoured, several lines) signature into formatted bytes. 0
 * or ERROR_USAGE. Pure. */
int commit_add_signature(const struct strbuf *unsigned_commit, const char *signature,
			 struct strbuf *out, struct error *err);

/* Writes commit bytes as an object into the quarantine. 0 and oid. */
int commit_write(struct gitops_repo *repo, const struct strbuf *bytes,
		 char oid[GITOPS_OID_SIZE], struct error *err);

/* commit_format, when tree and parent are there and what they should be. */
int commit_prepare(struct gitops_repo *repo, const struct commit_spec *spec, struct strbuf *out,
		   struct error *err);

/* A tree with one regular file. Writes both into the quarantine. 0 and tree. */
int commit_file_tree(struct gitops_repo *repo, const char *name, const void *data, size_t len,
		     char tree[GITOPS_OID_SIZE], struct error *err);

/* commit_prepare and commit_write. */
int commit_make(struct gitops_repo *repo, const struct commit_spec *spec,
		char oid[GITOPS_OID_SIZE], struct error *err);

/* The bytes of a commit object, appended to out. 0 or an error kind. */
int commit_read(struct gitops_repo *repo, const char *oid, struct strbuf *out,
		struct error *err);

/*
 * Takes commit bytes apart: what was signed (all but the "gpgsig" field) and the signature ("" when there is
 * none), appended. 0; ERROR_NO when there is more than one signature. Pure.
 */
int commit_split_signature(const char *bytes, size_t len, struct strbuf *plain,
			   struct strbuf *signature, struct error *err);

/* The committer's time of commit bytes, 0 when there is none; its one parent: 0, or -1 when there
 * is none or more than one. Pure. */
long long commit_time(const char *bytes, size_t len);
int commit_one_parent(const char *bytes, size_t len, char parent[GITOPS_OID_SIZE]);

/* A regular file at the root of a commit's tree, appended to out. 0; ERROR_NO when it is not
 * there; or as repo_blob. */
int commit_read_file(struct gitops_repo *repo, const char *commit, const char *name,
		     struct strbuf *out, struct error *err);

/* 0 when the commit's tree is tree and its one parent is parent; ERROR_FAILED saying what
 * differs. */
int commit_check(struct gitops_repo *repo, const char *commit, const char *tree,
		 const char *parent, struct error *err);

/*
 * Law L7: builds a tree again from base_tree and the recorded changes (the "changes" array of
 * tree.json), by reading the objects, and compares. Also: the blobs are there and every path
 * and mode passes the policy; base_commit's tree is base_tree. 0, or ERROR_FAILED saying what
 * differs.
 */
int commit_check_tree(struct gitops_repo *repo, const char *base_commit, const char *base_tree,
		      const struct json *changes, const char *tree, struct error *err);

#endif
