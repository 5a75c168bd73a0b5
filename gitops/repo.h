/*
 * Opening a git repository so that nothing outside of it and nothing in its configuration can
 * steer us, and so that nothing of it is ever written.
 *
 * What the pipeline reads are objects. So a struct gitops_repo is an object database and no
 * more: the repository's object directories (with their alternates) behind a backend that can
 * only read, and, when a quarantine is given, the run's own object directory as the one place
 * for new objects. The repository's configuration, hooks, refs, index, grafts and replace
 * refs are not looked at; even the time stamps of its object files stay as they are (git
 * "freshens" objects; this does not).
 *
 * gitops/base.h and gitops/status.h, which must look at refs and the index, open it
 * otherwise.
 */
#ifndef GITOPS_REPO_H
#define GITOPS_REPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct gitops_repo;
struct json;
struct strbuf;
typedef struct git_repository git_repository;
typedef struct git_odb git_odb;

#define GITOPS_OID_SIZE 41 /* 40 hex digits of SHA-1 and NUL */

/* Largest tree object that is read, and largest file where no other limit is named. */
#define GITOPS_TREE_BYTES_MAX (32u << 20)
#define GITOPS_FILE_BYTES_MAX (8u << 20)
/* Deepest path in components; deeper trees are refused (git itself dies at some thousands). */
#define GITOPS_DEPTH_MAX 100

/* Absolute paths. Strings are borrowed for the call. */
struct gitops_paths {
	const char *gitdir; /* the git directory */
	const char *common; /* of a linked work tree: the main git directory; or NULL */
	const char *const
	    *alternates;	/* further object directories; NULL-terminated; or NULL */
	const char *quarantine; /* where new objects go: an existing directory; NULL: none */
};

/*
 * Whether what the library opens by itself in a git directory is files where it is there: a
 * FIFO in the place of one would keep us waiting. common may be NULL. 0 or ERROR_USAGE.
 */
int repo_check_files(const char *gitdir, const char *common, struct error *err);

/*
 * Opens the object database. 0 and *repo (the caller closes), ERROR_USAGE when there is no git
 * directory or its format cannot be read, ERROR_FAILED when the quarantine cannot be used.
 */
int repo_open(const struct gitops_paths *paths, struct gitops_repo **repo, struct error *err);

/* The same from a job's "paths" object: repo, common, alternates and, when use_quarantine,
 * objects. */
int repo_open_job(const struct json *paths, bool use_quarantine, struct gitops_repo **repo,
		  struct error *err);

void repo_close(struct gitops_repo *repo); /* NULL is fine */
void repo_close_ptr(struct gitops_repo **repo);
#define AUTO_REPO __attribute__((cleanup(repo_close_ptr)))

enum gitops_type { GITOPS_COMMIT = 1, GITOPS_TREE = 2, GITOPS_BLOB = 3, GITOPS_TAG = 4 };

/*
 * Type and size of an object without reading it. 0; ERROR_USAGE when oid is malformed;
 * ERROR_FAILED with "missing object" when it is not there (partial or damaged repository).
 */
int repo_header(struct gitops_repo *repo, const char *oid, enum gitops_type *type,
		uint64_t *size, struct error *err);

/* Whether an object is there. */
bool repo_has(struct gitops_repo *repo, const char *oid);

/*
 * Reads a whole blob, appended to out, after looking at its size. 0; ERROR_NO when it has
 * more than max_bytes or out is full; else as repo_header.
 */
int repo_blob(struct gitops_repo *repo, const char *oid, uint64_t max_bytes, struct strbuf *out,
	      struct error *err);

/*
 * Writes a blob into the quarantine (nothing is written when the object is there already). 0
 * and oid, or ERROR_FAILED.
 */
int repo_write_blob(struct gitops_repo *repo, const void *data, size_t len,
		    char oid[GITOPS_OID_SIZE], struct error *err);

/* The blob id that data would have; writes nothing. */
void repo_hash_blob(const void *data, size_t len, char oid[GITOPS_OID_SIZE]);

/* The tree of a commit. 0 and tree, or an error kind. */
int repo_commit_tree(struct gitops_repo *repo, const char *commit, char tree[GITOPS_OID_SIZE],
		     struct error *err);

/*
 * The id that begins with these hexadecimal digits, 4 or more as git has it: of the repository's own objects. 1; 0 when none does,
 * or they are no such digits; ERROR_USAGE when more than one does; ERROR_FAILED.
 */
int repo_expand(struct gitops_repo *repo, const char *digits, char oid[GITOPS_OID_SIZE],
		struct error *err);

/* ---- for the other files of gitops only ---- */

/* Process-wide set-up of the library (search paths emptied, strictness, caps); done by
 * repo_open too. */
int gitops_init(struct error *err);
/* Sets err from the library's last error, behind context. Returns kind. */
int gitops_error(struct error *err, int kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Reads an object (git_odb_read) with one check of its hash: straight from the repository
 * when it is there, else from the quarantine. The caller looked at its size before. 0 or a
 * library error code; git_odb_object_free.
 */
typedef struct git_odb_object git_odb_object;
typedef struct git_oid git_oid;
int repo_read(struct gitops_repo *repo, const git_oid *oid, git_odb_object **object);
/* The same without that check: only the checksum of its compressed stream tells damage, as
 * git's own checkout has it. For what is read by the ten thousand. */
int repo_read_quick(struct gitops_repo *repo, const git_oid *oid, git_odb_object **object);

/* The library's views of it: borrowed. */
git_repository *repo_git(struct gitops_repo *repo);
git_odb *repo_odb(struct gitops_repo *repo);

#endif
