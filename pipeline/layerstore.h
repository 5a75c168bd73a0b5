/*
 * The store of base layers, <state>/store/base. Only the supervisor writes here; agent-layer
 * gets nothing but the directory of the layer under way.
 *
 *	<tree id>/tree         files: the whole tree, or what differs from the parent's
 *	<tree id>/manifest-N   what is in it, one a process that wrote (gitops/checkout.h)
 *	<tree id>/sealed       "tree ID\nparent ID|-\ndepth N\nboot ID\n…", written last
 *	<tree id>/durable      its data was flushed to the disk (agent gc does that)
 *	.tmp-<tree id>-<pid>   one that is being made
 *	.lock-<tree id>        held (flock) by who makes it
 *
 * A layer appears by one rename, so it is whole or not there. Making one does not wait for the
 * disk (that costs more than making it): a layer from before the machine's last boot that is
 * not durable is not believed but made again. A layer and those below it are used under a
 * lease, a shared flock on each directory that dies with its process; whoever removes one
 * takes the exclusive lock first. Use marks all of a stack with the time of now, the lowest
 * last, so that no layer looks older than those that need it.
 */
#ifndef PIPELINE_LAYERSTORE_H
#define PIPELINE_LAYERSTORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct error;

#define LAYERSTORE_DEPTH 8 /* layers of one stack */
#define LAYERSTORE_ID_SIZE 41

struct layer_sealed {
	char tree[LAYERSTORE_ID_SIZE];
	char parent[LAYERSTORE_ID_SIZE]; /* "" none */
	long long depth;		 /* layers below it */
	long long files, bytes;		 /* in this layer */
	long long manifests;
	long long records; /* of all manifests */
	long long lfs_pointers, submodules, encodings_kept;
};

/* The layers that make a tree, the topmost first, and the lease on them. */
struct layer_stack {
	struct layer_sealed layers[LAYERSTORE_DEPTH];
	int locks[LAYERSTORE_DEPTH]; /* owned: the directories, locked */
	size_t count;
};

/* The base layer of a tree and what lies below it, leased. 0; ERROR_SKIPPED when there is none
 * that may be used; ERROR_FAILED. */
int layerstore_open(const char *state, const char *tree, struct layer_stack *stack,
		    struct error *err);
void layer_stack_release(struct layer_stack *stack);

/* Stacks that a further layer can be laid upon, the latest used first, leased; nothing is
 * marked as used. Returns how many. */
size_t layerstore_candidates(const char *state, struct layer_stack *stacks, size_t most);

/* Tries to become the one that makes a tree's layer. 0 and *lock (owned); ERROR_LATER when
 * another process is; ERROR_FAILED. */
int layerstore_lock(const char *state, const char *tree, int *lock, struct error *err);
void layerstore_unlock(const char *state, const char *tree, int *lock);

/*
 * Under the lock: a directory for the layer with an empty tree/ in it, given to uid when we are
 * root; what killed makers of this tree left goes. Its absolute path (owned), NULL with err.
 * Ends by layerstore_seal or layerstore_abandon.
 */
char *layerstore_begin(const char *state, const char *tree, uid_t uid, struct error *err);
int layerstore_seal(const char *state, const char *path, const struct layer_sealed *sealed,
		    struct error *err);
void layerstore_abandon(const char *state, const char *path);

/* ---- agent gc ---- */

/* Reads the seal of a layer, whether it may be used or not. false: there is none. */
bool layerstore_sealed(int base_fd, const char *tree, struct layer_sealed *sealed,
		       bool *usable);

/* Flushes the file system once and marks all usable layers as durable. 0 or ERROR_FAILED. */
int layerstore_flush(const char *state, struct error *err);

/* Locks a directory of the store for removal: its descriptor, or -1 when it is in use or gone. */
int layerstore_lock_to_remove(int dir_fd, const char *name);
/* Locks one for use (shared): its descriptor, or -1 when it is gone or about to be. */
int layerstore_lock_to_use(int dir_fd, const char *name);

#endif
