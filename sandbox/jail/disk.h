/*
 * A scratch on disk (spec.on_disk), in place of the tmpfs: a file system of its own, in a file without a name, in
 * the run's directory or beside the store. Outer makes it, started by root, for nobody else may attach a loop device;
 * the helper finds it as one mount, by descriptor, and builds on it what it else builds on the tmpfs.
 *
 *	file	O_TMPFILE, all of its blocks reserved at once: should the disk be too full, no command is started,
 *		and none can meet an I/O error of that sort; on btrfs without copy-on-write, for the same reason
 *	ext4	made by mke2fs(8) in memory, of which some 100 KiB are copied; no journal, nothing is ever
 *		flushed for safety: it is not needed longer than the command
 *	loop	LO_FLAGS_AUTOCLEAR: attached for as long as it is mounted; direct, so that nothing is cached twice
 *	mount	never in the host's tree; nosuid, nodev, noatime
 *
 * So whatever is killed, when the last process of the jail has ended there is no mount, no device and no file. In the
 * end the file system is shut down before it is unmounted: what is not on the disk yet need not get there.
 */
#ifndef JAIL_DISK_H
#define JAIL_DISK_H

#include <stdbool.h>
#include <stdint.h>

struct jail_limits;
struct jail_run;

/* How large the file system is made. Pure. */
struct disk_size {
	uint64_t bytes;	       /* of the file */
	uint64_t group_blocks; /* blocks a group (mke2fs -g), each with at most 32768 inodes */
};

/* So that limits.disk_bytes and limits.inodes fit, and little more. 0, or -1 when no ext4 is so large. */
int disk_size_of(const struct jail_limits *limits, struct disk_size *size);

/* Where mke2fs is, among the usual places; NULL. */
const char *disk_find_mke2fs(void);

/* Outer, before the helper: run->disk and run->disk_root. Nothing where the spec does not ask. 0 or -1 (step_fail). */
int disk_open(struct jail_run *run);

/* Outer: whether there is room for one more such file beside this jail's own. */
bool disk_has_room_for_next(const struct jail_run *run);

/* Outer, when all that is left of the jail is killed: nothing more is written to it, and nobody waits for that to be. */
void disk_shut_down(int root);

#endif
