#include "disk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "sandbox/jail/calls.h"
#include "sandbox/jail/program.h"
#include "sandbox/jail/run.h"
#include "sandbox/jail/tree.h"

#define BLOCK 4096ULL
#define INODE 256ULL
#define INODES_MOST (8 * BLOCK)	 /* of a group: what one block of bits tells */
#define GROUP_BLOCKS (8 * BLOCK) /* as many, for the same reason */
#define KEPT_BACK 4096ULL
#define BLOCKS_LEAST 512ULL
#define LOOP_PATH 32
#define LOOP_TRIES 64	      /* others look for a free device too */
#define RAM_MAGIC 0x858458f6U /* ramfs */
#define BYTES_MOST (1ULL << 50)
#define EXT4_SHUTDOWN _IOR('X', 125, uint32_t) /* fs/ext4/ext4.h: EXT4_IOC_SHUTDOWN */
#define WITHOUT_FLUSH 2			       /* EXT4_GOING_FLAGS_NOLOGFLUSH */

/* ---- size ---- */

static uint64_t up_to(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

int disk_size_of(const struct jail_limits *limits, struct disk_size *size)
{
	/* the first eleven are ext4's own; then whole groups have equally many, in whole blocks of their table */
	uint64_t inodes = limits->inodes + 16, groups, blocks;

	if (limits->disk_bytes > BYTES_MOST || limits->inodes > UINT32_MAX - 16)
		return -1;
	groups = (inodes + INODES_MOST - 1) / INODES_MOST;
	blocks =
	    up_to(limits->disk_bytes, BLOCK) / BLOCK + up_to(inodes * INODE, BLOCK) / BLOCK;
	/* bitmaps of each group; descriptors, and some copies of them; the first directories */
	blocks += 4 * (groups + blocks / GROUP_BLOCKS) + 64;
	/* what ext4 keeps back for itself (ext4_calculate_resv_clusters) */
	blocks += blocks / 49 < KEPT_BACK ? blocks / 49 + 1 : KEPT_BACK;
	if (blocks < BLOCKS_LEAST)
		blocks = BLOCKS_LEAST;
	/* equal groups: a smaller last one might not hold its own tables, and be left out */
	if (groups < (blocks + GROUP_BLOCKS - 1) / GROUP_BLOCKS)
		groups = (blocks + GROUP_BLOCKS - 1) / GROUP_BLOCKS;
	size->group_blocks = up_to((blocks + groups - 1) / groups, 8);
	size->bytes = size->group_blocks * groups * BLOCK;
	return 0;
}

/* ---- the file ---- */

const char *disk_find_mke2fs(void)
{
	static const char *const places[] = {"/usr/sbin/mke2fs", "/sbin/mke2fs",
					     "/usr/bin/mke2fs", "/usr/local/sbin/mke2fs"};

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		struct stat st;

		/* it is run by root: only root may have put it there */
		if (stat(places[i], &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == 0 &&
		    !(st.st_mode & 0022) && (st.st_mode & 0111))
			return places[i];
	}
	return NULL;
}

/* Makes the file system in memory. Descriptor, or -1 (step_fail). */
static int format(struct jail_run *run, const struct disk_size *size)
{
	char inodes[24], group[24];
	/* no journal, no checksums: what a crash would leave is thrown away; tables are not written in advance */
	static const char features[] = "none,extent,ext_attr,filetype,dir_index,dir_nlink,"
				       "extra_isize,flex_bg,sparse_super,"
				       "large_file,huge_file,64bit,uninit_bg";
	/* clang-format off */
	const char *const argv[] = {
	    "mke2fs", "-q", "-F", "-b", "4096", "-I", "256", "-m", "0", "-O", features,
	    "-E", "nodiscard,lazy_itable_init=1", "-N", inodes, "-g", group, "/proc/self/fd/3", NULL};
	/* clang-format on */
	const char *const env[] = {"MKE2FS_CONFIG=/dev/null", NULL};
	const char *mke2fs = disk_find_mke2fs();
	int memory AUTO_FD = -1;

	errno = 0;
	if (!mke2fs)
		return step_fail(run, "mke2fs is not installed");
	snprintf(inodes, sizeof(inodes), "%llu",
		 (unsigned long long)run->spec.limits.inodes + 16);
	snprintf(group, sizeof(group), "%llu", (unsigned long long)size->group_blocks);
	memory = memfd_create("scratch", MFD_CLOEXEC);
	if (memory < 0 || ftruncate(memory, (off_t)size->bytes) < 0)
		return step_fail(run, "memory to make the scratch in");
	if (program_run(run, mke2fs, argv, env, memory) < 0)
		return -1;
	return fd_steal(&memory);
}

/* Copies what is not a hole. 0 or -1 with errno. */
static int copy_data(int from, int to)
{
	off_t start = 0, end;

	while ((start = lseek(from, start, SEEK_DATA)) >= 0) {
		end = lseek(from, start, SEEK_HOLE);
		if (end < 0 || lseek(to, start, SEEK_SET) < 0)
			return -1;
		while (start < end) {
			ssize_t n = sendfile(to, from, &start, (size_t)(end - start));

			if (n <= 0 && errno != EINTR)
				return -1;
		}
	}
	return errno == ENXIO ? 0 : -1;
}

static bool has_room(int file, uint64_t bytes)
{
	struct statfs fs;

	return fstatfs(file, &fs) == 0 && fs.f_bavail * (uint64_t)fs.f_bsize >= bytes;
}

static const char *place_of(const struct jail_run *run)
{
	return run->spec.scratch ? run->spec.scratch : run->spec.store;
}

bool disk_has_room_for_next(const struct jail_run *run)
{
	struct disk_size size;
	const char *path = place_of(run);
	int dir AUTO_FD = path ? tree_open_path(AT_FDCWD, path) : -1;

	return dir >= 0 && disk_size_of(&run->spec.limits, &size) == 0 &&
	       has_room(dir, size.bytes);
}

/* The directory for the file. Descriptor, or -1 (step_fail). */
static int open_place(struct jail_run *run, const char **path)
{
	int dir AUTO_FD = -1;
	struct statfs fs;

	*path = place_of(run);
	errno = 0;
	if (!*path)
		return step_fail(run, "the spec names no directory for a scratch on disk");
	dir = tree_open_path(AT_FDCWD, *path);
	if (dir < 0 || fstatfs(dir, &fs) < 0)
		return step_fail(run, "%s", *path);
	errno = 0;
	if (fs.f_type == TMPFS_MAGIC || fs.f_type == RAM_MAGIC)
		return step_fail(run, "%s is in memory itself (tmpfs)", *path);
	return fd_steal(&dir);
}

/* btrfs writes elsewhere what is written again, and then needs room for it that nobody reserved: not in this file, which
 * is empty yet. 0 or -1 with errno. */
static int forbid_copies(int file)
{
	struct statfs fs;
	int flags = 0;

	if (fstatfs(file, &fs) < 0)
		return -1;
	if ((unsigned long)fs.f_type != BTRFS_SUPER_MAGIC)
		return 0;
	if (ioctl(file, (ioctl_request_t)FS_IOC_GETFLAGS, &flags) < 0)
		return -1;
	flags |= FS_NOCOW_FL;
	return ioctl(file, (ioctl_request_t)FS_IOC_SETFLAGS, &flags);
}

/* Descriptor of the file, or -1 (step_fail). */
static int make_file(struct jail_run *run)
{
	struct disk_size size;
	const char *path;
	int dir AUTO_FD = open_place(run, &path), memory AUTO_FD = -1, file AUTO_FD = -1;

	if (dir < 0)
		return -1;
	errno = EFBIG;
	if (disk_size_of(&run->spec.limits, &size) < 0)
		return step_fail(run, "a scratch of so many bytes and files");
	memory = format(run, &size);
	if (memory < 0)
		return -1;
	file = openat(dir, ".", O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
	if (file < 0)
		return step_fail(run, "%s: a file without a name cannot be made", path);
	if (forbid_copies(file) < 0)
		return step_fail(run, "%s: a file whose blocks stay cannot be made", path);
	/* asked first, since a disk that is filled in vain is full for everybody until then */
	errno = ENOSPC;
	if (!has_room(file, size.bytes) || fallocate(file, 0, 0, (off_t)size.bytes) < 0)
		return step_fail(run, "%s: %llu MiB for the scratch", path,
				 (unsigned long long)(size.bytes >> 20));
	if (copy_data(memory, file) < 0)
		return step_fail(run, "%s: the scratch cannot be written", path);
	return fd_steal(&file);
}

/* ---- the mount ---- */

/* One try for a device that is free now. Descriptor, -1 with errno (EBUSY: somebody else was faster). */
static int attach_to(int control, int file, char path[LOOP_PATH])
{
	struct loop_config config = {
	    .fd = (uint32_t)file,
	    .block_size = BLOCK,
	    .info = {.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO}};
	int number = ioctl(control, LOOP_CTL_GET_FREE);
	int loop AUTO_FD = -1;

	if (number < 0)
		return -1;
	snprintf(path, LOOP_PATH, "/dev/loop%d", number);
	snprintf((char *)config.info.lo_file_name, sizeof(config.info.lo_file_name),
		 "scratch of a jail");
	loop = open(path, O_RDWR | O_CLOEXEC);
	if (loop < 0 || ioctl(loop, LOOP_CONFIGURE, &config) < 0)
		return -1;
	return fd_steal(&loop);
}

static int attach(struct jail_run *run, int file, char path[LOOP_PATH])
{
	int control AUTO_FD = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int loop = -1;

	if (control < 0)
		return step_fail(run, "/dev/loop-control");
	for (int i = 0; i < LOOP_TRIES && loop < 0; i++) {
		loop = attach_to(control, file, path);
		if (loop < 0 && errno != EBUSY)
			break;
	}
	return loop < 0 ? step_fail(run, "a loop device cannot be attached") : loop;
}

/* It must have what the limits promise. */
static int check_size(struct jail_run *run)
{
	struct statfs fs;

	if (fstatfs(run->disk_root, &fs) < 0)
		return step_fail(run, "statfs");
	errno = 0;
	if (fs.f_bavail * (uint64_t)fs.f_bsize < run->spec.limits.disk_bytes ||
	    fs.f_ffree < run->spec.limits.inodes)
		return step_fail(run, "the scratch came out too small: %llu MiB, %llu files",
				 (unsigned long long)(fs.f_bavail * (uint64_t)fs.f_bsize >> 20),
				 (unsigned long long)fs.f_ffree);
	return 0;
}

static int mount_it(struct jail_run *run, const char *source)
{
	const char *options[] = {"source", source, "noinit_itable", NULL, "nobarrier",
				 NULL,	   NULL};

	run->disk = tree_new("ext4", options,
			     MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOATIME);
	if (run->disk < 0)
		return step_fail(run, "an ext4 cannot be mounted from a loop device");
	run->disk_root = openat(run->disk, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (run->disk_root < 0 || fchown(run->disk_root, run->uid, run->gid) < 0 ||
	    fchmod(run->disk_root, 0700) < 0)
		return step_fail(run, "the scratch cannot be given to uid %u",
				 (unsigned)run->uid);
	return check_size(run);
}

int disk_open(struct jail_run *run)
{
	int file AUTO_FD = -1, loop AUTO_FD = -1; /* kept until it is mounted */
	char path[LOOP_PATH];

	if (!run->spec.on_disk)
		return 0;
	if (step_enter(run, STEP_image) < 0)
		return step_fail(run, "scratch on disk");
	errno = 0;
	if (geteuid() != 0)
		return step_fail(run, "only root can have a scratch on disk (a loop device)");
	file = make_file(run);
	if (file < 0)
		return -1;
	step_done(run);
	if (step_enter(run, STEP_disk) < 0)
		return step_fail(run, "scratch on disk");
	loop = attach(run, file, path);
	if (loop < 0 || mount_it(run, path) < 0)
		return -1;
	step_done(run);
	return 0;
}

void disk_shut_down(int root)
{
	uint32_t how = WITHOUT_FLUSH;

	ioctl(root, (ioctl_request_t)EXT4_SHUTDOWN, &how); /* where it fails it takes longer */
}
