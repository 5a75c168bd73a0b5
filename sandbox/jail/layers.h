/* Outer's part in the layers that the go names: open, map their owner, or copy. */
#ifndef JAIL_LAYERS_H
#define JAIL_LAYERS_H

struct jail_go;
struct jail_run;

/* Sends the go on to the payload; with a uid of its own, together with the layers' idmapped
 * mounts. 0 or -1 (step_fail). */
int layers_send(struct jail_run *run, const struct jail_go *go);

/* Copies the layers of the work tree ('w') or of HOME ('h') into the directory target, in a
 * child that is the payload's user. 0 or -1 (step_fail). */
int layers_copy(struct jail_run *run, const struct jail_go *go, char which, int target);

#endif
