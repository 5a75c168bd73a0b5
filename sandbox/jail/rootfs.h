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
	const char *
	    old; /* where the old root lies until rootfs_let_go, seen from the new one; "." is on top */
	int proc;    /* owned: the jail's proc */
	int sys;     /* owned: its sys directory, beneath the mask: for the last writes of the
		     set-up */
	int staging; /* owned: tmpfs over the old /proc: layers, scratch, root */
	int root;    /* owned: the new root */
	int store, scratch; /* owned: directories of the layers, -1; only when we open layers
			       ourselves */
	int upper; /* owned: with spec.take, the directory that what is written to the work tree
		      goes to; else -1 */
	char work[16]; /* how the work tree came to be: overlay, copy, bind, empty */
};

/* Nothing is open. */
void rootfs_init(struct rootfs *fs);

/* The helper, where it opens mounts and layers itself: the spec's mounts, and the directories of the layers.
 * By rootfs_prepare, unless the payload has an id of a range: then before that. 0 or -1 (step_fail). */
int rootfs_open_stores(struct jail_run *run, struct rootfs *fs);

/* PID 1: a proc of its namespace (the kernel takes that of who asks), sent to the helper on
 * run->net_sock. 0 or -1 (step_fail). */
int rootfs_make_proc(struct jail_run *run);

/* All but the spec's mounts that can be done before the go. 0 or -1 (step_fail). */
int rootfs_prepare(struct jail_run *run, struct rootfs *fs);

/* The mounts of the spec (run->sources). Mount points are made in our own root alone: what is mounted in it is the
 * operator's, and stays as it is. 0 or -1. */
int rootfs_fill(struct jail_run *run, struct rootfs *fs);

/*
 * Mounts or copies the layers below JAIL_WORK and JAIL_HOME. layers: owned detached mounts from
 * outer, in the order of the go, work first, then home; NULL: opened here. 0 or -1.
 */
int rootfs_lay_out(struct jail_run *run, struct rootfs *fs, const struct jail_go *go,
		   int *layers);

/* Waits for PID 1's proc. 0 or -1. */
int rootfs_take_proc(struct jail_run *run, struct rootfs *fs);

/* Mounts it, with its masks. 0 or -1. */
int rootfs_place_proc(struct jail_run *run, struct rootfs *fs);

/* Makes the new root the root. 0 or -1. */
int rootfs_pivot(struct jail_run *run, struct rootfs *fs);

/* Unmounts the old root, for which the kernel waits for all of its processors, and makes the new one
 * read-only. 0 or -1 (step_fail). */
int rootfs_let_go(struct jail_run *run, struct rootfs *fs);

#endif
