/*
 * Detached mounts: made from directories and files by descriptor, given their attributes before
 * they can be seen anywhere. Used by outer (started by root: it may reach what the payload's
 * uid may not) and otherwise by the payload.
 */
#ifndef JAIL_TREE_H
#define JAIL_TREE_H

#include <stdbool.h>

struct jail_run;

/* A detached, private, nosuid, nodev copy of the mounts at fd (owned by the caller); read-only
 * all the way down unless writable. -1 with errno. */
int tree_clone(int fd, bool writable);
/* The same of a name in it; no link is followed. */
int tree_clone_at(int fd, const char *name, bool writable);

/* A new mount of a file system type: options are pairs of name and value (NULL value: a flag),
 * ended by NULL; attributes as fsmount(2). Detached; -1 with errno. */
int tree_new(const char *type, const char *const *options, unsigned attributes);

/*
 * Outer, started by root: shows what the tree's root directory's owner owns as the payload's.
 * 0; -1 with errno (EINVAL: this kernel or file system cannot).
 */
int tree_give_to_payload(struct jail_run *run, int tree);

/* Opens a path that no link is followed for: O_PATH; a link itself is opened as such. -1 with
 * errno. */
int tree_open_path(int dir, const char *path);

/*
 * Opens the spec's mounts and its work_dir into run->sources and run->work_tree. Called once:
 * by outer when the payload has a uid of its own, else by the payload inside its mount
 * namespace. 0 or -1 (step_fail).
 */
int tree_open_sources(struct jail_run *run);

/* The helper, once the go is there: gives what the payload may write to an id of the user's range (jail/range.h).
 * 0 or -1 (step_fail). */
int tree_give_writable(struct jail_run *run);

/* A layer "base/…" or "run/…" of the go, below the store or the scratch directory: O_PATH. -1
 * with errno. */
int tree_open_layer(int store, int scratch, const char *name);

#endif
