/*
 * A tree as files below a directory of ours: the bytes that git's checkout would write (line
 * ends, ident and encodings by the tree's own .gitattributes; no external filter ever),
 * symbolic links as links, never followed, submodules as empty directories. Names and sizes
 * are hostile: what git would not check out is refused.
 *
 * All files get one fixed time stamp, so that a layer depends on the tree alone and every
 * later file is newer.
 */
#ifndef GITOPS_CHECKOUT_H
#define GITOPS_CHECKOUT_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "gitops/repo.h"

struct error;

#define CHECKOUT_FILE_MAX ((uint64_t)512 << 20) /* bytes of one file */
#define CHECKOUT_BYTES_MAX ((uint64_t)64 << 30) /* of a whole tree */
#define CHECKOUT_ENTRIES_MAX 4000000		/* files and directories */

struct checkout_stats {
	size_t files, dirs, links, submodules;
	uint64_t bytes;
	size_t encodings_kept; /* files whose working-tree-encoding is not known here: left in
				  UTF-8 */
};

typedef void checkout_progress_fn(void *data, const struct checkout_stats *stats);

struct checkout {
	struct gitops_repo *repo;	/* borrowed */
	struct timespec mtime;		/* of every file; tv_nsec UTIME_OMIT: as it comes */
	checkout_progress_fn *progress; /* called now and then; may be NULL */
	void *data;
	struct checkout_stats stats; /* sums up over calls */
	size_t tick;		     /* own */
};

/* Writes a tree's content below dir (an open, empty directory). 0; ERROR_NO when the tree is
 * refused; ERROR_FAILED when it cannot be written (next: make room). The caller removes what
 * is there on failure. Sets the umask to 022. */
int checkout_tree(struct checkout *checkout, const char *tree, int dir, struct error *err);

/*
 * Writes what makes overlay(base, this) the tree: files that differ and, for what is gone,
 * whiteouts (character device 0/0). Directories that are equal are not looked at. As
 * checkout_tree; *whole is set, and nothing guaranteed about dir, when attribute files
 * differ, so that any file could: the tree needs a checkout of its own.
 */
int checkout_difference(struct checkout *checkout, const char *base, const char *tree, int dir,
			bool *whole, struct error *err);

#endif
