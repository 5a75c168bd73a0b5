#include "rundir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/sha256.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

static int make_dir(const char *path, struct error *err)
{
	if (fd_mkdir_all(path) < 0) {
		error_errno(err, ERROR_FAILED, errno, "%s cannot be made", path);
		return error_next(err,
				  "check permissions and free space, or set AGENT_STATE_DIR");
	}
	return 0;
}

char *rundir_state_dir(struct error *err)
{
	static const char *const parts[] = {"runs", "tmp", "store", "store/base", "store/deps"};
	const char *own = getenv("AGENT_STATE_DIR"), *xdg = getenv("XDG_STATE_HOME");
	const char *home = getenv("HOME");
	char *state AUTO_FREE = NULL;

	if (own && own[0])
		state = mem_strdup(own);
	else if (xdg && xdg[0] == '/')
		state = mem_printf("%s/agent", xdg);
	else if (home && home[0] == '/')
		state = mem_printf("%s/.local/state/agent", home);
	if (own && own[0] && own[0] != '/') {
		error_set(err, ERROR_USAGE, "AGENT_STATE_DIR = %s is not an absolute path",
			  own);
		error_next(err, "write it with a leading /");
		return NULL;
	}
	if (!state || state[0] != '/') {
		error_set(err, ERROR_USAGE, "no state directory: HOME is not set");
		error_next(err, "set AGENT_STATE_DIR to an absolute path");
		return NULL;
	}
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		char *path AUTO_FREE = mem_printf("%s/%s", state, parts[i]);

		if (access(path, F_OK) < 0 && make_dir(path, err))
			return NULL;
	}
	return MEM_STEAL(state);
}

static int lock_run(struct rundir *run, struct error *err)
{
	run->lock_fd = fd_open_beneath(run->fd, "lock", O_RDWR | O_CREAT, 0600);
	if (run->lock_fd < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s/lock", run->path);
	if (flock(run->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		error_set(err, ERROR_SKIPPED, "another process works on run %s", run->id);
		return error_next(err, "agent show %s tells how far it is", run->id);
	}
	return 0;
}

/* Who has the lock wrote its id into it. */
static int held_by_other(int fd, struct error *err)
{
	char id[40] = "";
	ssize_t n = pread(fd, id, sizeof(id) - 1, 0);

	id[n > 0 ? strspn(id, "0123456789abcdef-") : 0] = '\0';
	error_set(err, ERROR_SKIPPED, "run %s works on the same issue",
		  id[0] ? id : "(just begun)");
	return error_next(err, "agent show %s tells how far it is", id);
}

int rundir_lock_key(const struct rundir *run, const char *key, int *fd, struct error *err)
{
	char digest[65], *dir AUTO_FREE = mem_printf("%s/locks", run->state);
	char *path AUTO_FREE = NULL;

	sha256_hex(key, strlen(key), digest);
	path = mem_printf("%s/%.32s", dir, digest);
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return error_errno(err, ERROR_FAILED, errno, "%s", dir);
	*fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (*fd < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", path);
	if (flock(*fd, LOCK_EX | LOCK_NB) < 0)
		return held_by_other(*fd, err);
	/* for the message of those who come meanwhile: the lock itself is the kernel's */
	if (ftruncate(*fd, 0) < 0 || pwrite(*fd, run->id, strlen(run->id), 0) < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", path);
	return 0;
}

static int open_dir(struct rundir *run, struct error *err)
{
	run->fd = open(run->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (run->fd < 0)
		return error_errno(err, ERROR_USAGE, errno, "run directory %s", run->path);
	return 0;
}

int rundir_new_id(char id[RUNDIR_ID_MAX], struct error *err)
{
	struct timespec now;
	struct tm utc;
	unsigned char salt[2];
	size_t len;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	len = strftime(id, RUNDIR_ID_MAX, "%Y%m%d-%H%M%S-", &utc);
	if (getrandom(salt, sizeof(salt), 0) != (ssize_t)sizeof(salt))
		return error_errno(err, ERROR_FAILED, errno, "getrandom");
	/* Milliseconds first: the names sort by time, and "the newest run" means that. */
	snprintf(id + len, RUNDIR_ID_MAX - len, "%03ld", now.tv_nsec / 1000000);
	text_hex(id + len + 3, salt, sizeof(salt));
	return 0;
}

/* id: NULL for a new one; a given one may be there already. */
static int create_below(const char *state, const char *kind, const char *id, struct rundir *run,
			struct error *err)
{
	memset(run, 0, sizeof(*run));
	run->fd = run->lock_fd = -1;
	if (id)
		snprintf(run->id, sizeof(run->id), "%s", id);
	else if (rundir_new_id(run->id, err))
		return err->kind;
	run->state = mem_strdup(state);
	run->path = mem_printf("%s/%s/%s", state, kind, run->id);
	if (mkdir(run->path, 0700) < 0 && (!id || errno != EEXIST)) {
		error_errno(err, ERROR_FAILED, errno, "run directory %s cannot be made",
			    run->path);
		return error_next(err, "check free space and permissions of %s", state);
	}
	if (open_dir(run, err))
		return err->kind;
	return lock_run(run, err);
}

int rundir_enter(const char *state, const char *id, struct rundir *run, struct error *err)
{
	return create_below(state, "runs", id, run, err);
}

int rundir_create(const char *state, struct rundir *run, struct error *err)
{
	return create_below(state, "runs", NULL, run, err);
}

int rundir_create_temporary(const char *state, struct rundir *run, struct error *err)
{
	return create_below(state, "tmp", NULL, run, err);
}

int rundir_remove(struct rundir *run, struct error *err)
{
	/* Renamed first: a half-removed run is never taken for one. */
	char *trash AUTO_FREE = mem_printf("%s/tmp/.%s", run->state, run->id);
	int tmp AUTO_FD = -1;
	char *name AUTO_FREE = mem_printf(".%s", run->id),
		   *dir AUTO_FREE = mem_printf("%s/tmp", run->state);

	if (rename(run->path, trash) < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s cannot be removed", run->path);
	tmp = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (tmp < 0 || fd_remove_tree(tmp, name) < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s cannot be removed", trash);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const char *const *left = a, *const *right = b;

	return strcmp(*left, *right);
}

char **rundir_list(const char *state)
{
	char *path AUTO_FREE = mem_printf("%s/runs", state);
	char **ids = mem_calloc(1, sizeof(*ids));
	size_t count = 0;
	DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
			continue;
		ids = mem_realloc(ids, count + 2, sizeof(*ids));
		ids[count++] = mem_strdup(entry->d_name);
		ids[count] = NULL;
	}
	if (dir)
		closedir(dir);
	mem_sort(ids, count, sizeof(*ids), by_name);
	return ids;
}

/* The one run that id names, owned by the caller. */
static char *choose(char **ids, const char *id, struct error *err)
{
	const char *found = NULL;

	for (size_t i = 0; ids[i]; i++) {
		if (!id) {
			found = ids[i]; /* the last is the newest */
		} else if (strncmp(ids[i], id, strlen(id)) == 0) {
			if (found) {
				error_set(err, ERROR_USAGE, "more than one run begins with %s",
					  id);
				error_next(err, "give more of its id: agent show lists them");
				return NULL;
			}
			found = ids[i];
		}
	}
	if (found)
		return mem_strdup(found);
	if (id)
		error_set(err, ERROR_USAGE, "there is no run %s", id);
	else
		error_set(err, ERROR_USAGE, "there are no runs yet");
	error_next(err, "agent show lists the runs");
	return NULL;
}

int rundir_open(const char *state, const char *id, bool lock, struct rundir *run,
		struct error *err)
{
	char **ids, *found AUTO_FREE = NULL;

	memset(run, 0, sizeof(*run));
	run->fd = run->lock_fd = -1;
	if (id && (!id[0] || strspn(id, "0123456789abcdef-") != strlen(id))) {
		error_set(err, ERROR_USAGE, "%s is not the id of a run", id);
		return error_next(err, "agent show lists the runs");
	}
	ids = rundir_list(state);
	found = choose(ids, id, err);
	text_free_words(ids);
	if (!found)
		return err->kind;
	if (strlen(found) >= sizeof(run->id))
		return error_set(err, ERROR_USAGE, "%s is not the id of a run", found);
	memcpy(run->id, found, strlen(found) + 1);
	run->state = mem_strdup(state);
	run->path = mem_printf("%s/runs/%s", state, run->id);
	if (open_dir(run, err))
		return err->kind;
	return lock ? lock_run(run, err) : 0;
}

void rundir_release(struct rundir *run)
{
	fd_close_ptr(&run->fd);
	fd_close_ptr(&run->lock_fd);
	free(run->state);
	free(run->path);
	memset(run, 0, sizeof(*run));
	run->fd = run->lock_fd = -1;
}

bool rundir_has(const struct rundir *run, const char *name)
{
	return faccessat(run->fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

char *rundir_subdir(const struct rundir *run, const char *name, struct error *err)
{
	char *path AUTO_FREE = mem_printf("%s/%s", run->path, name);

	if (make_dir(path, err))
		return NULL;
	return MEM_STEAL(path);
}

struct json *rundir_read(const struct rundir *run, const char *name, const char *kind,
			 size_t max_bytes, struct error *err)
{
	struct json *object AUTO_JSON = NULL;
	int fd AUTO_FD = fd_open_beneath(run->fd, name, O_RDONLY | O_NONBLOCK, 0);

	if (fd < 0) {
		if (errno != ENOENT)
			error_errno(err, ERROR_FAILED, errno, "%s/%s", run->path, name);
		return NULL;
	}
	object = js_read_fd(fd, max_bytes, name, err);
	if (!object)
		return NULL;
	if (js_check_kind(object, kind, 1, err)) {
		error_wrap(err, "%s/%s", run->path, name);
		return NULL;
	}
	return MEM_STEAL(object);
}

int rundir_write(const struct rundir *run, const char *name, const struct json *object,
		 struct error *err)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&text, STRBUF_MAX);
	js_format_pretty(object, &text);
	strbuf_addc(&text, '\n');
	if (fd_replace_file(run->fd, name, text.data, text.len, 0400, err))
		return error_wrap(err, "run directory %s", run->path);
	return 0;
}

int rundir_part(const struct rundir *run, const char *name, struct error *err)
{
	char *part AUTO_FREE = mem_printf("%s.part", name);
	int fd;

	/* What a killed supervisor left may be read-only already (rundir_accept), which stops whoever is
	 * not root. */
	unlinkat(run->fd, part, 0);
	fd = fd_open_beneath(run->fd, part, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0)
		error_errno(err, ERROR_FAILED, errno, "%s/%s", run->path, part);
	return fd;
}

int rundir_accept(const struct rundir *run, const char *name, size_t max_bytes,
		  bool may_be_empty, struct error *err)
{
	char *part AUTO_FREE = mem_printf("%s.part", name);
	int fd AUTO_FD = fd_open_beneath(run->fd, part, O_RDONLY | O_NONBLOCK, 0);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s/%s", run->path, part);
	if (!S_ISREG(st.st_mode) || (size_t)st.st_size > max_bytes ||
	    (!st.st_size && !may_be_empty))
		return error_set(err, ERROR_FAILED, "%s: %lld bytes, expected %s to %zu", name,
				 (long long)st.st_size, may_be_empty ? "0" : "1", max_bytes);
	if (fchmod(fd, 0400) < 0 || fdatasync(fd) < 0 ||
	    renameat(run->fd, part, run->fd, name) < 0) {
		error_errno(err, ERROR_FAILED, errno, "%s/%s cannot be written", run->path,
			    name);
		return error_next(err, "check free space, then agent resume %s", run->id);
	}
	return 0;
}

int rundir_file(const struct rundir *run, const char *name, struct error *err)
{
	int fd = fd_open_beneath(run->fd, name, O_RDONLY | O_NONBLOCK, 0);

	if (fd < 0)
		error_errno(err, ERROR_FAILED, errno, "%s/%s", run->path, name);
	return fd;
}

static int give_below(int dirfd, uid_t uid, unsigned depth)
{
	DIR *dir = fd_list_taking(fcntl(dirfd, F_DUPFD_CLOEXEC, 3));
	const struct dirent *entry;
	int result = fchown(dirfd, uid, uid);

	if (!dir)
		return -1;
	while (result == 0 && (entry = fd_next(dir))) {
		int child;

		if (entry->d_type != DT_DIR) {
			result = fchownat(dirfd, entry->d_name, uid, uid, AT_SYMLINK_NOFOLLOW);
			continue;
		}
		child = openat(dirfd, entry->d_name,
			       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		result = child < 0 || depth > 200 ? -1 : give_below(child, uid, depth + 1);
		fd_close_ptr(&child);
	}
	closedir(dir);
	return result;
}

int rundir_give(const char *path, uid_t uid, struct error *err)
{
	int fd AUTO_FD = -1;

	if (geteuid() != 0)
		return 0;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || give_below(fd, uid, 0) < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s cannot be handed to uid %u",
				   path, (unsigned)uid);
	return 0;
}
