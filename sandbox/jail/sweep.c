#include "sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "sandbox/jail/calls.h"
#include "sandbox/jail/cgroup.h"
#include "sandbox/jail/confine.h"
#include "sandbox/jail/disk.h"
#include "sandbox/jail/rootfs.h"
#include "sandbox/jail/run.h"

/* Less than this is freed in less time than a sweeper is worth: some 10 ms. An empty jail has some 150 of its own. */
#define FEW_INODES 600
#define FEW_BYTES (32ULL << 20)

/* ---- the helper ---- */

static bool is_large(int scratch)
{
	struct statfs fs;

	if (fstatfs(scratch, &fs) < 0)
		return false;
	return fs.f_files - fs.f_ffree > FEW_INODES ||
	       (fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize > FEW_BYTES;
}

static void offer(const struct jail_run *run, int fd)
{
	const struct jail_packet packet = {.message = MSG_SCRATCH};

	if (fd >= 0)
		packet_send(run->helper_sock, &packet, fd); /* unheard: it is freed with us */
}

void sweep_offer(const struct jail_run *run, const struct rootfs *fs)
{
	/* an overlay has as many files of its own to let go as were written through it */
	static const char *const mounted[] = {"work", "home/agent"};

	if (!run->spec.on_disk && !is_large(fs->staging))
		return;
	offer(run, fs->staging);
	for (size_t i = 0; i < ARRAY_LEN(mounted); i++) {
		int fd AUTO_FD =
		    openat(fs->root, mounted[i], O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		offer(run, fd);
	}
}

/* ---- outer ---- */

void sweep_init(struct sweep *sweep)
{
	sweep->count = 0;
	sweep->lock = -1;
}

void sweep_take(struct sweep *sweep, int fd)
{
	if (fd < 0)
		return;
	if (sweep->count < ARRAY_LEN(sweep->held))
		sweep->held[sweep->count++] = fd;
	else
		close(fd);
}

/* Bytes that the machine can give without swapping; 0 when it does not say. */
static uint64_t machine_has(void)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	int fd AUTO_FD = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
	const char *line;

	strbuf_init(&text, 1 << 16);
	if (fd < 0 || fd_read_all(fd, &text) < 0)
		return 0;
	line = strstr(text.data, "MemAvailable:");
	return line ? strtoull(line + strlen("MemAvailable:"), NULL, 10) << 10 : 0;
}

/* Open until the sweeper has ended, and with it the lock that keeps others from having one. */
static int take_lock(void)
{
	int fd AUTO_FD = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	return fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 ? -1 : fd_steal(&fd);
}

void sweep_decide(struct sweep *sweep, const struct jail_run *run)
{
	const uint64_t next = run->spec.limits.memory_bytes;

	if (sweep->count &&
	    (run->spec.on_disk ? disk_has_room_for_next(run)
			       : machine_has() >= next && cgroup_has_room(run, next)))
		sweep->lock = take_lock();
}

/* The child: only system calls until it is another program. */
static void __attribute__((noreturn)) become_sweeper(const struct sweep *sweep)
{
	static char title[] = SWEEP_TITLE;
	char *const argv[] = {title, NULL};
	char *const no_env[] = {NULL};
	const struct sched_param ordinary = {0};
	int fds[SWEEP_MOST + 1], count = 0;

	/* it shall neither be as urgent as its starter may be, nor end with their terminal; by the kernel's call,
	 * since musl's function does nothing */
	syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &ordinary);
	setsid();
	fds[count++] = fcntl(sweep->lock, F_DUPFD, SWEEP_MOST + 1);
	for (size_t i = 0; i < sweep->count; i++)
		fds[count++] = fcntl(sweep->held[i], F_DUPFD, SWEEP_MOST + 1);
	for (int i = 0; i < count; i++)
		if (dup2(fds[i], i) < 0)
			_exit(1); /* which frees it as well */
	close_range((unsigned)count, ~0U, 0);
	syscall(SYS_execveat, 0, "", argv, no_env, AT_EMPTY_PATH);
	_exit(1);
}

void sweep_end(struct sweep *sweep)
{
	if (sweep->lock >= 0 && fork() == 0)
		become_sweeper(sweep);
	while (sweep->count)
		close(sweep->held[--sweep->count]);
	fd_close_ptr(&sweep->lock);
}

/* ---- the sweeper ---- */

void sweep_main(void)
{
	prctl(PR_SET_DUMPABLE, 0);
	prctl(PR_SET_NAME, "agent-sweeper");
	if (confine_sweeper() < 0)
		_exit(1);
	/* here and not by its end: the lock goes after what it stands for */
	syscall(SYS_close_range, 1, ~0U, 0);
	_exit(0);
}
