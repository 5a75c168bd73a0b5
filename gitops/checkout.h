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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "gitops/repo.h"
#include "pipeline/base/strbuf.h"

struct error;

#define CHECKOUT_FILE_MAX ((uint64_t)512 << 20) /* bytes of one file */
#define CHECKOUT_BYTES_MAX ((uint64_t)64 << 30) /* of a whole tree */
#define CHECKOUT_ENTRIES_MAX 4000000		/* files and directories */

struct checkout_stats {
	size_t files, dirs, links, submodules, removed;
	uint64_t bytes;
	size_t encodings_kept; /* files whose working-tree-encoding is not known here: left in
				  UTF-8 */
	size_t lfs_pointers;   /* files that stand for content which git-lfs would fetch */
};

/*
 * What several processes that write one tree share (a page of zeros, MAP_SHARED). All walk
 * the same trees in the same order; the files are numbered on the way, and who comes to a
 * block of them that nobody has taken takes it.
 */
struct checkout_board {
	uint64_t next;	       /* first block that nobody has taken */
	uint64_t files, bytes; /* written so far, by all */
	uint64_t joined, left; /* processes */
};

/* What was written, for a later look whether it still is: records "MODE BLOB-ID PATH\0" (MODE
 * octal, 0 for a removed name; the id is that of the bytes as they lie there). */
struct checkout_manifest {
	int fd;		   /* borrowed */
	struct strbuf buf; /* owned by checkout_write: not yet in the file */
};

typedef void checkout_progress_fn(void *data, const struct checkout_stats *stats);

struct checkout {
	struct gitops_repo *repo; /* borrowed */
	struct timespec mtime;	  /* of every file; tv_nsec UTIME_OMIT: as it comes */
	bool quick;		  /* do not hash each file's object again (repo_read_quick) */
	struct checkout_board *board;	    /* borrowed; NULL: nobody helps */
	struct checkout_manifest *manifest; /* borrowed; NULL: none is written */
	checkout_progress_fn *progress;	    /* called now and then; may be NULL */
	void *data;
	struct checkout_stats stats; /* of this process; sums up over calls */
	size_t tick;		     /* own */
};

/*
 * Writes what makes overlay(base, dir) the tree below dir (an open directory, empty but for
 * what processes with the same board wrote): files that differ in bytes or mode, also because
 * attribute files changed, and for what is gone whiteouts (character device 0/0). Directories
 * that are equal are not looked at. base NULL: the whole tree. 0; ERROR_NO when the tree is
 * refused; ERROR_FAILED when it cannot be written (next: make room). The caller removes what
 * is there on failure. Sets the umask to 022.
 */
int checkout_write(struct checkout *checkout, const char *base, const char *tree, int dir,
		   struct error *err);

/*
 * Walks what differs between base (NULL: nothing) and the tree without writing: *changed is
 * the number of names that a layer would hold, but at most limit + 1. Refuses what
 * checkout_write refuses about trees (names, order, depth, number), not about files. Same
 * results.
 */
int checkout_measure(struct checkout *checkout, const char *base, const char *tree,
		     size_t limit, size_t *changed, struct error *err);

#endif
