/*
 * What a command changed in a work tree, as a change of its base: tracked files and new ones that are not ignored,
 * as `git add --all` would have it: .gitignore and .gitattributes count as the command left them, and a file whose bytes
 * it left stays as it is stored. The work tree is hostile: it is told through two functions, one directory or
 * file at a time, and nothing here touches a file system or looks into a .git.
 *
 * What cannot be a change of ours is refused and named: symbolic links that were made, changed or removed,
 * submodules, repositories in the tree, tracked files that became something else, files behind a
 * filter or in an encoding of their own. Sockets, FIFOs and devices are left out, as git does, and so is what a
 * dependency layer has.
 */
#ifndef GITOPS_TAKEN_H
#define GITOPS_TAKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct json;
struct strbuf;
struct view;
struct view_limits;

#define TAKEN_ENTRIES_MAX ((size_t)1000000) /* in directories that are not ignored */

enum taken_kind { TAKEN_FILE, TAKEN_DIR, TAKEN_LINK, TAKEN_GONE, TAKEN_OTHER };

struct taken_entry {
	enum taken_kind kind; /* TAKEN_GONE: removed by the command */
	unsigned mode;	      /* permission bits */
	uint64_t size;	      /* of files and links */
	char *name;	      /* owned; one component */
};

struct taken_dir {
	struct taken_entry *items; /* owned */
	size_t len;
	bool opaque; /* what is not listed is gone */
};

struct taken_source {
	bool complete; /* every directory is opaque: the whole work tree is told */
	/* 0 (the caller releases dir); ERROR_NO when it has more than max entries. "" is the root. */
	int (*list)(void *arg, const char *path, size_t max, struct taken_dir *dir,
		    struct error *err);
	/* A file's bytes or a link's target. 0; ERROR_NO when it has more than max bytes. */
	int (*read)(void *arg, const char *path, uint64_t max, struct strbuf *out,
		    struct error *err);
	/* Whether a dependency layer has something there: 1, 0 or an error kind. */
	int (*is_dependency)(void *arg, const char *path, struct error *err);
	void *arg;
	/* fd_now_ms(): ERROR_NO when it is not through by then; 0: for ever. */
	long long until_ms;
};

/*
 * The change, as the member "files" of changes.json: [{"path","mode":"100644"|"100755","content" or
 * "content_base64"} or {"path","deleted":true} …], deletions first; and "left_out": [path …] of what
 * is no file. view: of the base, unchanged. *files and *left_out are new. 0; ERROR_NO when it is refused, with
 * the path; ERROR_FAILED.
 */
int taken_collect(struct view *view, const struct taken_source *source, struct json **files,
		  struct json **left_out, struct error *err);

/* Makes such a change in a view of the same base. 0; ERROR_NO when a path is refused; ERROR_USAGE when it is
 * malformed; ERROR_FAILED. */
int taken_apply(struct view *view, const struct json *files, struct error *err);

void taken_dir_release(struct taken_dir *dir);

#endif
