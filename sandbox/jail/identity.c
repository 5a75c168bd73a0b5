#include "identity.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/strbuf.h"
#include "sandbox/jail/run.h"
#include "sandbox/subuid.h"

bool identity_from_map(const char *map, unsigned long wanted, unsigned long *id)
{
	unsigned long first, outside, count, widest = 0;

	*id = 0;
	for (const char *line = map; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (sscanf(line, "%lu %lu %lu", &first, &outside, &count) != 3 || !count)
			continue;
		if (wanted >= first && wanted - first < count) {
			*id = wanted;
			return true;
		}
		if (count > widest && first + count - 1 > 0) {
			widest = count;
			*id = first + count - 1;
		}
	}
	return *id > 0;
}

static int from_file(const char *path, unsigned long wanted, unsigned long *id)
{
	struct strbuf map AUTO_STRBUF = STRBUF_NONE;
	int fd AUTO_FD = open(path, O_RDONLY | O_CLOEXEC);

	strbuf_init(&map, 1 << 16);
	if (fd < 0 || fd_read_all(fd, &map) < 0)
		return -1;
	return identity_from_map(map.data, wanted, id);
}

/* Started by a user who has ids to give. */
static void choose_from_range(struct jail_run *run, const char **why)
{
	const char *next;
	struct subuid ids;

	if (!subuid_find(&ids, why, &next))
		return;
	run->ranged = true;
	run->uid = (uid_t)subuid_choose(&ids.uids, (unsigned long)getpid());
	run->gid = (gid_t)subuid_choose(&ids.gids, (unsigned long)getpid());
	run->spec.copy_layers = true; /* no file system shows them as the payload's for us */
	run->spec.tested = false;     /* that was a jail without a range, or may have been */
}

int identity_choose(struct jail_run *run)
{
	const char *why = NULL;
	unsigned long wanted = JAIL_UID_BASE + (unsigned long)getpid();
	unsigned long uid, gid;
	int has_uid, has_gid;

	if (step_enter(run, STEP_identity) < 0)
		return step_fail(run, "payload's user");
	run->uid = geteuid();
	run->gid = getegid();
	if (run->uid == 0) {
		has_uid = from_file("/proc/self/uid_map", wanted, &uid);
		has_gid = from_file("/proc/self/gid_map", wanted, &gid);
		if (has_uid < 0 || has_gid < 0)
			return step_fail(run, "/proc/self/uid_map");
		if (has_uid && has_gid) {
			run->separate = true;
			run->uid = (uid_t)uid;
			run->gid = (gid_t)gid;
		}
	}
	if (run->uid && run->spec.subuid)
		choose_from_range(run, &why);
	if (run->spec.separate_uid && !run->separate && !run->ranged) {
		errno = 0;
		return step_fail(run, "the command would have the uid of its starter, %u%s%s",
				 (unsigned)run->uid, why ? ": " : "", why ? why : "");
	}
	step_done(run);
	return 0;
}
