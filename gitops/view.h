/*
 * A work tree in memory: a base tree and the files changed since. The model's tools read from
 * it, the edit engine (gitops/edit.h) changes it, gitops/tree.h makes a tree of it,
 * gitops/diff.h a patch. Nothing touches a file system, so a symbolic link is a small text
 * that is shown, never followed.
 *
 * Cost follows the paths asked for, not the size of the repository: trees are read on the way
 * down and kept. Paths are checked by gitops/pathpolicy.h; the root directory is "".
 */
#ifndef GITOPS_VIEW_H
#define GITOPS_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gitops/repo.h"

struct error;
struct strbuf;
struct view;

enum view_kind {
	VIEW_NONE,	/* nothing there */
	VIEW_FILE,	/* regular file, 100644 */
	VIEW_EXEC,	/* executable file, 100755 */
	VIEW_LINK,	/* symbolic link, 120000 */
	VIEW_DIR,	/* directory, 040000 */
	VIEW_SUBMODULE, /* gitlink, 160000 */
};

struct view_limits {
	size_t files;	     /* most changed paths */
	uint64_t bytes;	     /* most bytes of all changed files together */
	uint64_t file_bytes; /* largest file that is read or written */
};
extern const struct view_limits view_limits_default; /* 200 files, 8 MiB, 8 MiB: apply.max* */

/* A view of a tree. repo is borrowed and must outlive it; limits NULL: the default. NULL
 * with err. */
struct view *view_new(struct gitops_repo *repo, const char *tree,
		      const struct view_limits *limits, struct error *err);
void view_free(struct view *view); /* NULL is fine */
void view_free_ptr(struct view **view);
#define AUTO_VIEW __attribute__((cleanup(view_free_ptr)))

struct view_stat {
	enum view_kind kind;
	uint64_t size;		   /* bytes, of files and links */
	bool changed;		   /* differs from the base tree (or may) */
	char oid[GITOPS_OID_SIZE]; /* in the base or, when changed, of the new bytes */
};

/*
 * What is at path. 0, also when nothing is there (VIEW_NONE); ERROR_NO when the path is
 * refused or leads through a file, link or submodule (err names it); ERROR_FAILED when
 * objects are missing.
 */
int view_stat(struct view *view, const char *path, struct view_stat *stat, struct error *err);

/*
 * The bytes of a file (or a link's target), appended to out. 0; ERROR_NO when nothing is
 * there, it is a directory or submodule, too big, or the path is refused: one line that tells
 * the model what to do.
 */
int view_read(struct view *view, const char *path, struct strbuf *out, struct error *err);

/* Whether bytes are taken as binary: a NUL in the first 8,000, as git does. */
bool view_is_binary(const char *data, size_t len);

/*
 * A text file's bytes as UTF-8, to be shown to a model: as they are when they are UTF-8, else
 * taken as ISO 8859-1. utf8: whether the whole file is, of which these may be a part. Edits of
 * such a file are taken back the same way (gitops/edit.h), so what was shown can be edited.
 * Appended to out.
 */
void view_to_utf8(const char *data, size_t len, bool utf8, struct strbuf *out);

struct view_entry {
	char *path;	     /* owned; relative to the root of the tree */
	enum view_kind kind; /* never VIEW_NONE */
	bool changed;
};

struct view_listing {
	struct view_entry
	    *items; /* owned; in git's order (directories as if they ended in a slash) */
	size_t len;
	bool cut; /* there is more than max_entries, or the walk's own limit was met */
};

/*
 * Lists a directory: its entries or, when recursive, all files below it. under: "" or a path;
 * a file lists as itself. pattern: NULL, or only paths that it matches (gitops/glob.h). 0;
 * ERROR_NO when there is no such directory.
 */
int view_list(struct view *view, const char *under, bool recursive, const char *pattern,
	      size_t max_entries, struct view_listing *listing, struct error *err);
void view_listing_release(struct view_listing *listing);

struct view_query {
	const char *text;  /* what to look for within a line, at least one byte */
	bool regex;	   /* text is a regular expression (gitops/regex.h), else plain text */
	bool ignore_case;  /* ASCII */
	const char *under; /* "" or a directory or file */
	const char *pattern; /* NULL, or only files whose path it matches (gitops/glob.h) */
	size_t max_hits;     /* lines */
	uint64_t max_bytes;  /* of file content read, all together; 0: 256 MiB */
	long long max_ms;    /* wall time; 0: 10 s */
};

struct view_hit {
	char *path;  /* owned */
	size_t line; /* from 1 */
	char *text;  /* owned: the line, raw bytes, cut to 400, NUL-terminated */
	size_t len;
};

struct view_hits {
	struct view_hit *items; /* owned */
	size_t len;
	size_t files;	 /* searched */
	size_t skipped;	 /* binary or bigger than limits.file_bytes */
	const char *cut; /* NULL: complete; else why it stopped ("too many matches", …) */
};

/* Searches files line by line; links and binary files are left out. 0; ERROR_NO for a bad
 * query. */
int view_search(struct view *view, const struct view_query *query, struct view_hits *hits,
		struct error *err);
void view_hits_release(struct view_hits *hits);

/* ---- changes: for gitops/edit.c, which decides first ---- */

/*
 * Puts bytes at a path as a regular file (kind VIEW_FILE or VIEW_EXEC). 0; ERROR_NO when
 * refused: path policy, a link, submodule or directory there, a file or link on the way, a
 * name that differs from an existing one in case alone, a limit. The view is unchanged then.
 */
int view_put(struct view *view, const char *path, enum view_kind kind, const char *data,
	     size_t len, struct error *err);

/* Whether len bytes at path would be within the limits. 0 or ERROR_NO. */
int view_fits(struct view *view, const char *path, size_t len, struct error *err);

/* What the base has at path, whatever became of it since. 0 or ERROR_FAILED. */
int view_base_kind(struct view *view, const char *path, enum view_kind *kind,
		   struct error *err);

/* Removes a file. 0; ERROR_NO when there is none. Emptied directories are gone, as in git. */
int view_remove(struct view *view, const char *path, struct error *err);

/* Makes a changed path what it is in the base again. */
void view_revert(struct view *view, const char *path);

/* Removes one and puts at the other in one step: both or none. Same results. */
int view_rename(struct view *view, const char *path, const char *to, struct error *err);

/* The view's changes as they are now, to go back to. The caller frees the mark; it is of this
 * view alone. */
struct view_mark;
struct view_mark *view_save(const struct view *view);
void view_restore(struct view *view, const struct view_mark *mark);
void view_mark_free(struct view_mark *mark); /* NULL is fine */

/* A changed path, for tree, diff and layer. Sorted by bytes. */
struct view_change {
	const char *path;	       /* borrowed from the view */
	char old_oid[GITOPS_OID_SIZE]; /* "" when it is new */
	char new_oid[GITOPS_OID_SIZE]; /* "" when it is deleted */
	enum view_kind old_kind;       /* VIEW_NONE when it is new */
	enum view_kind new_kind;       /* VIEW_NONE when it is deleted */
	const char *data;	       /* borrowed: the new bytes; NULL when deleted */
	size_t len;
};

/* The paths whose content or mode differs from the base. *changes (the caller frees the
 * array). */
int view_changes(struct view *view, struct view_change **changes, size_t *count,
		 struct error *err);

struct gitops_repo *view_repo(struct view *view);
const char *view_tree(const struct view *view); /* the base tree's id; borrowed */
const struct view_limits *view_get_limits(const struct view *view);

const char *view_mode_text(enum view_kind kind); /* "100644", …; "000000" for VIEW_NONE */
enum view_kind view_kind_of_mode(unsigned mode);

#endif
