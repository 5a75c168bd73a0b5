/*
 * The payload's file system: a fresh root of enumerated mounts, generated /etc, own /proc, tiny
 * /dev, sized scratch, the work tree as an overlay of layers. Built by descriptor in a tmpfs
 * that nobody else can write; the old root stays below until rootfs_pivot.
 */
#ifndef JAIL_ROOTFS_H
#define JAIL_ROOTFS_H

struct jail_go;
struct jail_packet;
struct jail_run;

struct rootfs {
	int proc; /* owned: the jail's proc, without masks: for the last writes of the set-up */
	int staging;	    /* owned: tmpfs over the old /proc: layers, scratch, root */
	int root;	    /* owned: the new root */
	int store, scratch; /* owned: directories of the layers, -1; only when we open layers
			       ourselves */
};

/* All but the spec's mounts that can be done before the go. 0 or -1 (step_fail). */
int rootfs_prepare(struct jail_run *run, struct rootfs *fs);

/* The mounts of the spec (run->sources). 0 or -1. */
int rootfs_fill(struct jail_run *run, struct rootfs *fs);

/*
 * Mounts or copies the layers below JAIL_WORK and JAIL_HOME. layers: owned detached mounts from
 * outer, in the order of the go, work first, then home; NULL: opened here. Says in work how the
 * work tree came to be. 0 or -1.
 */
int rootfs_lay_out(struct jail_run *run, struct rootfs *fs, const struct jail_go *go,
		   int *layers, char work[16]);

/* Makes the new root the root, read-only, and lets go of the old one. 0 or -1. */
int rootfs_pivot(struct jail_run *run, struct rootfs *fs);

#endif
