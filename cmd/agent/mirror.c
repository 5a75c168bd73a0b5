/* agent mirror: bare repositories of ours that follow remote ones ([mirror "NAME"]), for agent maintain and for runs to
 * work on. agent-fetch does the fetching, the only process that holds the read credential. */
#include "agent.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/exitcode.h"
#include "pipeline/fds.h"
#include "pipeline/publish/remote.h"
#include "pipeline/secret.h"
#include "pipeline/spawn.h"
#include "pipeline/url.h"

#define TIMEOUT_S 1800
#define BYTES_MAX (8LL << 30)
#define MARK "agent-mirror" /* in a directory that mirror.NAME.path names: it is ours */

extern char **environ;

struct mirror {
	const char *name, *url, *path, *token, *ssh_key, *user, *known_hosts, *ca;
	long long timeout_s, max_bytes;
	bool private_ok;
};

/* ---- what is configured ---- */

static int check_name(const struct config_task *entry, struct error *err)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";
	size_t len = strlen(entry->name);

	if (len && len <= 50 && strspn(entry->name, allowed) == len && entry->name[0] != '-')
		return 0;
	error_set(err, ERROR_USAGE, "%s: mirror %s: no name for a mirror", entry->origin,
		  entry->name);
	return error_next(err, "at most 50 of a-z, 0-9, _ and -");
}

static int set_number(const struct config_task *entry, bool seconds, long long *number,
		      struct error *err)
{
	if ((seconds ? config_parse_seconds(entry->value, number)
		     : text_parse_size(entry->value, 1LL << 50, number)) == 0 &&
	    *number > 0 && (!seconds || *number <= CONFIG_SECONDS_MAX))
		return 0;
	return error_set(err, ERROR_USAGE, "%s: mirror.%s.%s = %s: not a %s", entry->origin,
			 entry->name, entry->key, entry->value,
			 seconds ? "time (s, m, h may follow)" : "size (k, m, g may follow)");
}

static int set_key(struct mirror *mirror, const struct config_task *entry, struct error *err)
{
	const struct {
		const char *key;
		const char **text;
	} texts[] = {{"url", &mirror->url},	{"path", &mirror->path},
		     {"token", &mirror->token}, {"sshKey", &mirror->ssh_key},
		     {"user", &mirror->user},	{"knownHosts", &mirror->known_hosts},
		     {"ca", &mirror->ca}};

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		if (strcasecmp(texts[i].key, entry->key) == 0) {
			*texts[i].text = entry->value;
			return 0;
		}
	if (strcasecmp(entry->key, "timeout") == 0)
		return set_number(entry, true, &mirror->timeout_s, err);
	if (strcasecmp(entry->key, "maxBytes") == 0)
		return set_number(entry, false, &mirror->max_bytes, err);
	if (strcasecmp(entry->key, "private") == 0 &&
	    (strcmp(entry->value, "yes") == 0 || strcmp(entry->value, "no") == 0)) {
		mirror->private_ok = entry->value[0] == 'y';
		return 0;
	}
	/* its value may be a pasted secret: it is not repeated */
	error_set(err, ERROR_USAGE, "%s: mirror.%s.%s is nothing that a mirror has, or not so",
		  entry->origin, entry->name, entry->key);
	return error_next(err, "url, path, token, sshKey, user, knownHosts, ca, private (yes, "
			       "no), timeout, maxBytes");
}

static int read_mirror(const struct config *config, const char *name, struct mirror *mirror,
		       struct error *err)
{
	const struct config_task *entry;

	*mirror = (struct mirror){.name = name, .timeout_s = TIMEOUT_S, .max_bytes = BYTES_MAX};
	for (size_t i = 0; (entry = config_mirror_at(config, i)); i++)
		if (strcmp(entry->name, name) == 0 &&
		    (check_name(entry, err) || set_key(mirror, entry, err)))
			return err->kind;
	if (!mirror->url)
		return error_set(err, ERROR_USAGE, "mirror %s has no url", name);
	if (mirror->path && mirror->path[0] != '/')
		return error_set(err, ERROR_USAGE, "mirror %s: path %s is not absolute", name,
				 mirror->path);
	return 0;
}

static bool is_first(const struct config *config, size_t index)
{
	const char *name = config_mirror_at(config, index)->name;

	for (size_t i = 0; i < index; i++)
		if (strcmp(config_mirror_at(config, i)->name, name) == 0)
			return false;
	return true;
}

const char *mirror_url(const struct config *config, const char *state, const char *git_dir)
{
	for (size_t i = 0; config_mirror_at(config, i); i++) {
		char *usual AUTO_FREE = NULL, *path AUTO_FREE = NULL;
		struct error ignored = {0};
		struct mirror mirror;

		if (!is_first(config, i) ||
		    read_mirror(config, config_mirror_at(config, i)->name, &mirror, &ignored))
			continue;
		usual = mem_printf("%s/mirrors/%s.git", state, mirror.name);
		path = realpath(mirror.path ? mirror.path : usual, NULL);
		if (path && strcmp(path, git_dir) == 0)
			return mirror.url;
	}
	return NULL;
}

/* Variables that hold credentials leave the environment before anything is started (law L2). */
static void adopt_secrets(const struct config *config)
{
	const struct config_task *entry;

	for (size_t i = 0; (entry = config_mirror_at(config, i)); i++)
		if ((strcasecmp(entry->key, "token") == 0 ||
		     strcasecmp(entry->key, "sshKey") == 0) &&
		    strncmp(entry->value, "env:", 4) == 0)
			secret_adopt_env(environ, entry->value + 4);
}

/* ---- one mirror ---- */

struct fetching {
	const struct config *config;
	const struct mirror *mirror;
	struct remote remote;	/* owned */
	char *path, *scratch;	/* owned */
	int lock, mark, secret; /* owned */
};

static int make_dir(const char *path, struct error *err)
{
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return error_errno(err, ERROR_FAILED, errno, "%s", path);
	return rundir_give(path, STAGE_UID_BASE + STAGE_MIRROR, err);
}

static bool is_empty(int dir)
{
	DIR *stream = fd_list(dir, ".");
	bool empty = stream && !fd_next(stream);

	if (stream)
		closedir(stream);
	return empty;
}

/* A fetch takes away and gives away what it finds in a directory: one that was somebody's before is none for a mirror.
 * Two names may lead to the same one. */
static int claim(struct fetching *f, struct error *err)
{
	int dir AUTO_FD = -1;

	if (mkdir(f->path, 0755) < 0 && errno != EEXIST)
		return error_errno(err, ERROR_FAILED, errno, "%s", f->path);
	dir = open(f->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", f->path);
	f->mark = openat(dir, MARK, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (f->mark < 0 && errno == ENOENT && is_empty(dir))
		f->mark = openat(dir, MARK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
	else if (f->mark < 0 && errno == ENOENT) {
		error_set(err, ERROR_USAGE, "mirror.%s.path = %s is no mirror, and not empty",
			  f->mirror->name, f->path);
		return error_next(err, "name a directory that is not there yet, or is empty");
	}
	if (f->mark < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s/" MARK, f->path);
	if (flock(f->mark, LOCK_EX | LOCK_NB) < 0)
		return error_set(err, ERROR_SKIPPED,
				 "mirror %s is being fetched or packed by another",
				 f->mirror->name);
	return 0;
}

/* The directories and the lock: one fetch of a mirror at a time. */
static int prepare(struct fetching *f, const char *state, struct error *err)
{
	char *top AUTO_FREE = mem_printf("%s/mirrors", state);
	char *lock AUTO_FREE = mem_printf("%s/%s.lock", top, f->mirror->name);

	f->path = f->mirror->path ? mem_strdup(f->mirror->path)
				  : mem_printf("%s/%s.git", top, f->mirror->name);
	f->scratch = mem_printf("%s/%s.tmp", top, f->mirror->name);
	if (fd_mkdir_all(top) < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", top);
	f->lock = open(lock, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (f->lock < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", lock);
	if (flock(f->lock, LOCK_EX | LOCK_NB) < 0)
		return error_set(err, ERROR_SKIPPED,
				 "mirror %s is being fetched or packed by another",
				 f->mirror->name);
	if (f->mirror->path && claim(f, err))
		return err->kind;
	return make_dir(f->path, err) || make_dir(f->scratch, err) ? err->kind : 0;
}

static int add_known_hosts(const struct fetching *f, struct json *remote, struct error *err)
{
	if (step_known_hosts(f->mirror->known_hosts, remote, err) == 0)
		return 0;
	return error_next(
	    err,
	    "connect once with ssh and check the host's key, or name the file with "
	    "mirror.%s.knownHosts",
	    f->mirror->name);
}

/* ---- packing ---- */

/* Whether the run may still read what it is based on: it is under way, may be resumed, or was a dry one that may be published. */
static bool may_read(const struct rundir *dir, const char *repository)
{
	struct error ignored = {0};
	struct json *request AUTO_JSON =
	    rundir_read(dir, "request.json", "request", REQUEST_MAX, &ignored);
	struct json *report AUTO_JSON =
	    rundir_read(dir, "report.json", "report", BASE_MAX, &ignored);

	if (strcmp(js_str(request, "repository", ""), repository) != 0 ||
	    rundir_has(dir, "publish/receipt.json"))
		return false;
	switch (js_int(report, "exit_status", EXIT_FAILED)) {
	case EXIT_NO:
	case EXIT_USAGE:
	case EXIT_SKIPPED:
		return false;
	default:
		return true;
	}
}

/* What such a run is based on may have lost its ref meanwhile. */
static bool has_readers(const struct fetching *f, const char *state)
{
	char *real AUTO_FREE = realpath(f->path, NULL), **ids = rundir_list(state);
	bool found = !real;

	for (size_t i = 0; !found && ids[i]; i++) {
		struct error ignored = {0};
		struct rundir dir;

		found = rundir_open(state, ids[i], false, &dir, &ignored) == 0 &&
			may_read(&dir, real);
		rundir_release(&dir);
	}
	text_free_words(ids);
	return found;
}

static void tell_packed(const char *name, const struct json *result)
{
	const struct json *before = js_get(result, "before"), *after = js_get(result, "after");

	printf(
	    "mirror %s packed: %lld packs and %lld loose objects of %lld kB are now %lld and "
	    "%lld of %lld kB\n",
	    name, js_int(before, "packs", 0), js_int(before, "loose", 0),
	    js_int(before, "bytes", 0) >> 10, js_int(after, "packs", 0),
	    js_int(after, "loose", 0), js_int(after, "bytes", 0) >> 10);
}

/* git's own upkeep where it is due, by the row that fetches, but without its way out and its secret. The locks are held: no ref moves
 * meanwhile, so a run that begins now is based on what stays. */
static int pack(const struct fetching *f, const char *state, struct supervisor *sup,
		struct error *err)
{
	struct json *job AUTO_JSON = js_object_new(), *paths = js_object_new();
	const char *programs = spawn_program_dir(err);
	struct supervised stage = {0};
	int result;

	js_set(job, "paths", paths);
	if (!programs)
		return err->kind;
	js_set_str(paths, "mirror", f->path);
	js_set_str(paths, "scratch", f->scratch);
	js_set_str(paths, "libexec", programs);
	js_set_bool(job, "pack", true);
	js_set_bool(job, "keep_all", has_readers(f, state));
	js_set_int(job, "deadline_s", f->mirror->timeout_s);
	result = supervise_start(sup, &stage, STAGE_MIRROR, job, NULL, 0,
				 (unsigned)f->mirror->timeout_s + 30, NULL, NULL, err);
	if (result == 0)
		result = supervise_wait(sup, &stage, err);
	if (result == 0 && js_bool(stage.result, "packed", false))
		tell_packed(f->mirror->name, stage.result);
	supervise_end(sup, &stage);
	return result;
}

/* ---- fetching ---- */

/* https may go without; ssh may not. */
static int open_credential(struct fetching *f, struct error *err)
{
	bool ssh = f->remote.kind == REMOTE_SSH;
	const char *source = ssh ? f->mirror->ssh_key : f->mirror->token;

	if (!source && ssh) {
		error_set(err, ERROR_USAGE, "mirror %s: no key for %s", f->mirror->name,
			  f->remote.url);
		return error_next(
		    err,
		    "set mirror.%s.sshKey to env:NAME, file:PATH, credential:NAME or "
		    "command:ARGV: a key that may read alone",
		    f->mirror->name);
	}
	if (!source)
		return 0;
	f->secret = secret_open(source, err);
	return f->secret < 0
		   ? error_wrap(err, "mirror.%s.%s", f->mirror->name, ssh ? "sshKey" : "token")
		   : 0;
}

static int make_job(const struct fetching *f, struct json **made, struct error *err)
{
	struct json *job AUTO_JSON = js_object_new(), *paths = js_object_new();
	struct json *remote = remote_to_json(&f->remote);
	const char *programs = spawn_program_dir(err);
	const char *ca = f->mirror->ca ? f->mirror->ca : step_ca(f->config);
	const struct passwd *me = getpwuid(geteuid());

	js_set(job, "paths", paths);
	js_set(job, "remote", remote);
	if (!programs)
		return err->kind;
	js_set_str(paths, "mirror", f->path);
	js_set_str(paths, "scratch", f->scratch);
	js_set_str(paths, "libexec", programs);
	if (ca && f->remote.kind == REMOTE_HTTPS)
		js_set_str(paths, "ca", ca);
	if (f->mirror->user)
		js_set_str(remote, "user", f->mirror->user);
	else if (f->remote.kind == REMOTE_SSH && !f->remote.user)
		js_set_str(remote, "user", me ? me->pw_name : "git");
	if (f->remote.kind == REMOTE_SSH && add_known_hosts(f, remote, err))
		return err->kind;
	js_set_int(job, "deadline_s", f->mirror->timeout_s);
	js_set_int(job, "max_bytes", f->mirror->max_bytes);
	*made = MEM_STEAL(job);
	return 0;
}

static int run_stage(struct fetching *f, const struct json *job, struct supervisor *sup,
		     struct json **result, struct error *err)
{
	const struct remote *remote = &f->remote;
	struct supervised dial = {0}, stage = {0};
	struct spawn_fd fds[2];
	size_t count = 0;
	int net AUTO_FD = -1;
	int rc = step_dial(sup, f->config, &dial, remote->host, remote->port,
			   remote->kind == REMOTE_HTTPS,
			   url_is_loopback(remote->host) || f->mirror->private_ok, &net, err);

	if (rc == 0) {
		fds[count++] = (struct spawn_fd){FD_NET, net};
		if (f->secret >= 0)
			fds[count++] = (struct spawn_fd){FD_SECRET, f->secret};
		rc = supervise_start(sup, &stage, STAGE_MIRROR, job, fds, count,
				     (unsigned)f->mirror->timeout_s + 30, NULL, NULL, err);
	}
	if (rc == 0)
		rc = supervise_wait(sup, &stage, err);
	if (rc == 0 && stage.result)
		*result = js_copy(stage.result);
	supervise_end(sup, &stage);
	supervise_end(sup, &dial);
	return rc;
}

static void release(struct fetching *f)
{
	if (f->scratch && f->lock >= 0)
		fd_remove_tree(AT_FDCWD, f->scratch);
	remote_release(&f->remote);
	free(f->path);
	free(f->scratch);
	fd_close_ptr(&f->lock);
	fd_close_ptr(&f->mark);
	fd_close_ptr(&f->secret);
}

static int pack_one(const struct config *config, const char *state, const struct mirror *mirror,
		    struct supervisor *sup, struct error *err)
{
	struct fetching f __attribute__((cleanup(release))) = {
	    .config = config, .mirror = mirror, .lock = -1, .mark = -1, .secret = -1};

	return prepare(&f, state, err) ? err->kind : pack(&f, state, sup, err);
}

static bool is_there(const struct mirror *mirror, const char *state)
{
	char *usual AUTO_FREE = mem_printf("%s/mirrors/%s.git/objects", state, mirror->name);
	char *own AUTO_FREE = mirror->path ? mem_printf("%s/objects", mirror->path) : NULL;

	return access(own ? own : usual, F_OK) == 0;
}

int mirror_pack_all(const struct config *config, const char *state, struct supervisor *sup,
		    bool dry, struct error *err)
{
	const struct config_task *entry;

	for (size_t i = 0; (entry = config_mirror_at(config, i)); i++) {
		struct error failed = {0};
		struct mirror mirror;

		if (!is_first(config, i))
			continue;
		if (read_mirror(config, entry->name, &mirror, &failed) == 0 &&
		    is_there(&mirror, state)) {
			if (dry)
				printf("would let git pack mirror %s, where that is due\n",
				       mirror.name);
			else
				pack_one(config, state, &mirror, sup, &failed);
		}
		if (failed.kind == ERROR_SKIPPED)
			printf("%s: not packed\n", failed.message);
		else if (failed.kind && err->kind)
			print_error(&failed);
		else if (failed.kind)
			*err = failed;
		if (failed.kind == ERROR_INTERRUPTED)
			break;
	}
	return err->kind;
}

static int fetch_one(const struct config *config, const char *state,
		     const struct mirror *mirror, struct supervisor *sup, struct error *err)
{
	struct fetching f __attribute__((cleanup(release))) = {
	    .config = config, .mirror = mirror, .lock = -1, .mark = -1, .secret = -1};
	struct json *job AUTO_JSON = NULL, *result AUTO_JSON = NULL;
	long long changed;

	if (remote_parse(mirror->url, NULL, &f.remote, err)) {
		if (strstr(err->next, "publish.token"))
			error_next(err,
				   "take it out of the URL and name its source: "
				   "mirror.%s.token = env:NAME or file:PATH",
				   mirror->name);
		return error_wrap(err, "mirror.%s.url", mirror->name);
	}
	if (f.remote.kind == REMOTE_LOCAL) {
		error_set(err, ERROR_USAGE, "mirror.%s.url = %s is on this machine",
			  mirror->name, mirror->url);
		return error_next(err, "agent maintain --repo %s works on it", f.remote.path);
	}
	if (prepare(&f, state, err) || open_credential(&f, err) || make_job(&f, &job, err) ||
	    run_stage(&f, job, sup, &result, err))
		return err->kind;
	changed = js_int(result, "changed", 0);
	if (!changed)
		return 0;
	printf("%s: %lld ref%s changed\n", mirror->name, changed, changed == 1 ? "" : "s");
	return pack(&f, state, sup, err);
}

/* ---- all of them ---- */

static bool is_wanted(const struct options *options, const char *name)
{
	for (size_t i = 0; i < options->word_count; i++)
		if (strcmp(options->words[i], name) == 0)
			return true;
	return options->word_count == 0;
}

static int check_words(const struct options *options, struct error *err)
{
	for (size_t i = 0; i < options->word_count; i++) {
		const struct config_task *entry;
		bool found = false;

		for (size_t k = 0; (entry = config_mirror_at(options->config, k)); k++)
			found |= strcmp(entry->name, options->words[i]) == 0;
		if (found)
			continue;
		error_set(err, ERROR_USAGE, "no mirror %s is configured", options->words[i]);
		return error_next(err, "[mirror \"%s\"] url = … in the operator configuration",
				  options->words[i]);
	}
	if (config_mirror_at(options->config, 0))
		return 0;
	error_set(err, ERROR_USAGE, "no mirror is configured");
	return error_next(err, "[mirror \"NAME\"] url = … in the operator configuration");
}

/* One that fails does not keep the others; the last failure is the status. */
static int fetch_all(struct options *options, const char *state, struct supervisor *sup,
		     struct error *err)
{
	const struct config *config = options->config;
	const struct config_task *entry;

	for (size_t i = 0; (entry = config_mirror_at(config, i)); i++) {
		struct error failed = {0};
		struct mirror mirror;

		if (!is_first(config, i) || !is_wanted(options, entry->name))
			continue;
		if (read_mirror(config, entry->name, &mirror, &failed) == 0)
			fetch_one(config, state, &mirror, sup, &failed);
		if (!failed.kind)
			continue;
		if (err->kind)
			print_error(err);
		*err = failed;
		if (failed.kind == ERROR_INTERRUPTED)
			break;
	}
	return err->kind;
}

int cmd_mirror(struct options *options, struct error *err)
{
	struct supervisor sup = {.signal_fd = -1};
	struct journal journal = {.events_fd = -1};
	char *state AUTO_FREE = rundir_state_dir(err);

	if (!state || check_words(options, err))
		return err->kind;
	adopt_secrets(options->config);
	journal_init(&journal, false);
	journal.quiet = true;
	if (supervise_init(&sup, &journal, err) == 0)
		fetch_all(options, state, &sup, err);
	supervise_release(&sup);
	journal_release(&journal);
	return err->kind;
}
