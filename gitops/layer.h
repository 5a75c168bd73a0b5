/*
 * The layers of a work tree that come from git: base layers, made once a tree, kept in the
 * store and shared by all runs, and the apply layer of one round, which holds what differs.
 *
 *	<store>/base/<tree id>/tree     the files, as gitops/checkout.h writes them
 *	<store>/base/<tree id>/sealed   "tree <id>\nboot <id>\nfiles N\nbytes N\n", written last
 *	<store>/base/.tmp-<tree id>-*   one that is being made
 *	<store>/base/.lock-<tree id>    held by who makes it (flock)
 *
 * A base layer appears by one rename, so it is whole or not there. Its data is not flushed to
 * the disk (that costs more than making it): a layer that was sealed before the machine's
 * last boot is therefore not believed but made again. Files keep the modes of a checkout
 * (0644, 0755): the jail mounts layers read-only below an overlay, and a test may change its
 * own copy.
 */
#ifndef GITOPS_LAYER_H
#define GITOPS_LAYER_H

#include <stdbool.h>
#include <stddef.h>

#include "gitops/checkout.h"

struct error;

#define LAYER_BOOT_SIZE 64 /* of a boot id */

/* Reads this boot's id from /proc (before Landlock). 0 or ERROR_FAILED. */
int layer_boot_id(char boot[LAYER_BOOT_SIZE], struct error *err);

/*
 * Makes sure that the base layer of a tree is there. store: the absolute store directory (its
 * base/ exists). Looking up a layer that is there costs a few system calls, and marks it as
 * used (time stamp). Two callers at once make it once: the second waits, up to 30 minutes.
 * made may be NULL. 0; ERROR_NO when the tree is refused; ERROR_FAILED, ERROR_LATER.
 */
int layer_base(struct checkout *checkout, const char *store, const char *tree, const char *boot,
	       bool *made, struct error *err);

/*
 * Makes <scratch>/<name>, the apply layer from base to tree; what an earlier try left there
 * is removed. *whole as in checkout_difference (then there is no layer and the tree needs a
 * base layer of its own). Same results.
 */
int layer_apply(struct checkout *checkout, const char *base, const char *tree,
		const char *scratch, const char *name, bool *whole, struct error *err);

/* The time stamp of base layers' files: long before anything that a run makes. */
extern const struct timespec layer_base_time;

#endif
