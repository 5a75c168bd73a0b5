#include "identity.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/strbuf.h"
#include "sandbox/jail/ids.h"
#include "sandbox/jail/run.h"
#include "sandbox/subuid.h"

bool identity_from_map(const char *map, unsigned long wanted, struct subuid_range *range)
{
	unsigned long first, outside, count;

	*range = (struct subuid_range){0, 0};
	for (const char *line = map; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (sscanf(line, "%lu %lu %lu", &first, &outside, &count) != 3 || !count)
			continue;
		if (wanted >= first && wanted - first < count) {
			*range = (struct subuid_range){wanted, 1};
			return true;
		}
		if (!first) {
			first++;
			count--;
		}
		if (count > range->count)
			*range = (struct subuid_range){first, count};
	}
	return range->count > 0;
}

static int from_file(const char *path, unsigned long wanted, struct subuid_range *range)
{
	struct strbuf map AUTO_STRBUF = STRBUF_NONE;
	int fd AUTO_FD = open(path, O_RDONLY | O_CLOEXEC);

	strbuf_init(&map, 1 << 16);
	if (fd < 0 || fd_read_all(fd, &map) < 0)
		return -1;
	return identity_from_map(map.data, wanted, range);
}

static int claim_both(struct jail_run *run, const struct subuid *ids)
{
	unsigned long uid, gid;

	if (ids_claim(run, false, &ids->uids, &uid) < 0 ||
	    ids_claim(run, true, &ids->gids, &gid) < 0)
		return -1;
	run->uid = (uid_t)uid;
	run->gid = (gid_t)gid;
	return 0;
}

/* Started by root: an id that nobody has, by our own process id; in a container that has none of those, one of those
 * that it has. */
static int choose_as_root(struct jail_run *run)
{
	const unsigned long wanted = JAIL_UID_BASE + (unsigned long)getpid();
	struct subuid ids;
	int has_uid = from_file("/proc/self/uid_map", wanted, &ids.uids);
	int has_gid = from_file("/proc/self/gid_map", wanted, &ids.gids);

	if (has_uid < 0 || has_gid < 0)
		return step_fail(run, "/proc/self/uid_map");
	run->separate = has_uid && has_gid;
	if (!run->separate)
		return 0;
	if (ids.uids.first != wanted || ids.gids.first != wanted)
		return claim_both(run, &ids);
	run->uid = (uid_t)wanted;
	run->gid = (gid_t)wanted;
	return 0;
}

/* Started by a user who has ids to give. */
static int choose_from_range(struct jail_run *run, const char **why)
{
	const char *next;
	struct subuid ids;

	if (!subuid_find(&ids, why, &next))
		return 0;
	run->ranged = true;
	run->spec.copy_layers = true; /* no file system shows them as the payload's for us */
	run->spec.tested = false;     /* that was a jail without a range, or may have been */
	return claim_both(run, &ids);
}

int identity_choose(struct jail_run *run)
{
	const char *why = NULL;

	if (step_enter(run, STEP_identity) < 0)
		return step_fail(run, "payload's user");
	run->uid = geteuid();
	run->gid = getegid();
	if (run->uid == 0 ? choose_as_root(run) < 0
			  : run->spec.subuid && choose_from_range(run, &why) < 0)
		return -1;
	if (run->spec.separate_uid && !run->separate && !run->ranged) {
		errno = 0;
		return step_fail(run, "the command would have the uid of its starter, %u%s%s",
				 (unsigned)run->uid, why ? ": " : "", why ? why : "");
	}
	step_done(run);
	return 0;
}
