/*
 * The layers of a work tree that come from git, as files below a directory of ours: base
 * layers (kept in the store by pipeline/layerstore.h, made by agent-fetch layer) and the apply
 * layer of one round. A layer holds a whole tree, or what differs from the tree that the
 * layers below it make.
 */
#ifndef GITOPS_LAYER_H
#define GITOPS_LAYER_H

#include <stdbool.h>
#include <stddef.h>

#include "gitops/checkout.h"

struct error;

/* The time stamp of base layers' files: long before anything that a run makes. */
extern const struct timespec layer_base_time;

/*
 * Which of the trees (hex ids; those that the repository does not have are passed over) a
 * layer of tree is best laid upon: the one with the fewest changed names, if they are at most
 * a quarter of all and LAYER_CHANGED_MAX. *best: its index, or count when the tree is to be
 * written whole; *changed: names that the layer will hold. Looks at the trees' names, order
 * and depth as checkout_measure does. 0; ERROR_NO when the tree is refused; ERROR_FAILED.
 */
#define LAYER_CHANGED_MAX 100000
int layer_choose(struct checkout *checkout, const char *tree, const char *const *trees,
		 size_t count, size_t *best, size_t *changed, struct error *err);

/*
 * Makes <scratch>/<name>, the apply layer from base to tree, with the time stamps of now; what
 * an earlier try left there is removed. 0; ERROR_NO when the tree is refused; ERROR_FAILED.
 */
int layer_apply(struct checkout *checkout, const char *base, const char *tree,
		const char *scratch, const char *name, struct error *err);

/*
 * Whether what manifest_fd records (checkout.h) lies below dir, byte for byte; reads all of
 * it. *records counts. 0; ERROR_NO names the first thing that does not; ERROR_FAILED.
 */
int layer_verify(int dir, int manifest_fd, size_t *records, struct error *err);

#endif
