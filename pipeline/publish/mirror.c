#include "mirror.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/events.h"
#include "pipeline/fds.h"
#include "pipeline/publish/gitcall.h"
#include "pipeline/publish/gitrun.h"
#include "pipeline/publish/helper.h"
#include "pipeline/publish/relay.h"
#include "pipeline/publish/remote.h"
#include "pipeline/publish/scratch.h"
#include "pipeline/publish/sshagent.h"
#include "pipeline/publish/sshkey.h"
#include "pipeline/secret.h"

#define REF_MAX 1024
#define DEPTH_MAX 64

static const char config_text[] =
    "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n";
static const char head_default[] = "ref: refs/heads/main\n";

struct mirror {
	struct remote remote; /* owned */
	const char *path, *scratch, *libexec, *ca, *known_hosts;
	long long deadline_ms, deadline_s, max_bytes;
	struct gitcall_target target;
	struct relay *relay;   /* owned */
	struct sshagent agent; /* owned */
	char *program;	       /* owned */
	int keep[2];
	bool has_secret;
	int dir; /* owned */
};

static int parse(const struct json *job, struct mirror *mirror, struct error *err)
{
	const struct json *paths = js_get(job, "paths");

	if (js_need_str(paths, "mirror", &mirror->path, err) ||
	    js_need_str(paths, "scratch", &mirror->scratch, err) ||
	    js_need_str(paths, "libexec", &mirror->libexec, err) ||
	    remote_from_json(js_get(job, "remote"), &mirror->remote, err) ||
	    js_need_int(job, "deadline_s", 1, 1000000, &mirror->deadline_s, err) ||
	    js_need_int(job, "max_bytes", 1, 1LL << 50, &mirror->max_bytes, err))
		return err->kind;
	mirror->ca = js_str(paths, "ca", NULL);
	mirror->known_hosts = js_str(js_get(job, "remote"), "known_hosts", NULL);
	mirror->deadline_ms = fd_now_ms() + mirror->deadline_s * 1000;
	if (mirror->remote.kind == REMOTE_LOCAL)
		return error_set(err, ERROR_USAGE, "a mirror is of a remote repository");
	return 0;
}

/* ---- the git directory ---- */

static bool ends_in(const char *name, const char *end)
{
	size_t len = strlen(name), width = strlen(end);

	return len >= width && strcmp(name + len - width, end) == 0;
}

/* What a git that was killed leaves: locks, and objects that were on their way. A branch may have their names. */
static void sweep(int dir, bool objects, int depth)
{
	DIR *stream = fd_list(dir, ".");
	const struct dirent *entry;

	while ((entry = fd_next(stream))) {
		const char *name = entry->d_name;

		if (ends_in(name, ".lock") || (objects && (strncmp(name, "tmp_", 4) == 0 ||
							   strncmp(name, ".tmp-", 5) == 0))) {
			fd_remove_tree(dir, name);
		} else if (depth < DEPTH_MAX) {
			int below AUTO_FD =
			    openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

			if (below >= 0)
				sweep(below,
				      objects || (!depth && strcmp(name, "objects") == 0),
				      depth + 1);
		}
	}
	if (stream)
		closedir(stream);
}

/* Nothing of it is believed but refs and objects: the rest is written anew. */
static int prepare(struct mirror *mirror, struct error *err)
{
	static const char *const made[] = {"objects", "objects/info", "objects/pack", "refs"};
	static const char *const gone[] = {"hooks",
					   "config.worktree",
					   "objects/info/alternates",
					   "objects/info/http-alternates",
					   "commondir",
					   "info",
					   "gc.pid",
					   "gc.log"};

	mirror->dir = open(mirror->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (mirror->dir < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", mirror->path);
	sweep(mirror->dir, false, 0);
	for (size_t i = 0; i < ARRAY_LEN(gone); i++)
		if (fd_remove_tree(mirror->dir, gone[i]) < 0 && errno != ENOTDIR)
			return error_errno(err, ERROR_FAILED, errno, "%s/%s", mirror->path,
					   gone[i]);
	for (size_t i = 0; i < ARRAY_LEN(made); i++)
		if (mkdirat(mirror->dir, made[i], 0755) < 0 && errno != EEXIST)
			return error_errno(err, ERROR_FAILED, errno, "%s/%s", mirror->path,
					   made[i]);
	if (fd_replace_file(mirror->dir, "config", config_text, strlen(config_text), 0644, err))
		return err->kind;
	if (faccessat(mirror->dir, "HEAD", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	return fd_replace_file(mirror->dir, "HEAD", head_default, strlen(head_default), 0644,
			       err);
}

/* ---- git ---- */

static int explain(const struct mirror *mirror, const struct gitrun *run, struct error *err)
{
	const struct error *dial = relay_error(mirror->relay);
	char words[700];
	const char *errs = run->errs.data;
	size_t len = run->errs.len, from;

	if (relay_is_over(mirror->relay)) {
		error_set(err, ERROR_NO, "%s sent more than %lld bytes, the limit",
			  mirror->remote.url, mirror->max_bytes);
		return error_next(err, "raise mirror.NAME.maxBytes if that is its size");
	}
	if (dial->kind) {
		*err = *dial;
		return error_wrap(err, "%s", mirror->remote.url);
	}
	while (len && errs[len - 1] == '\n')
		len--;
	from = len > 600 ? len - 600 : 0;
	text_escape(words, sizeof(words), errs + from, len - from);
	error_set(err, ERROR_FAILED, "%s cannot be fetched: %s", mirror->remote.url, words);
	if (strstr(errs, "Authentication failed") || strstr(errs, "Permission denied") ||
	    strstr(errs, "could not read Username"))
		return error_next(err, "check the source of the mirror's token or sshKey");
	return err->kind;
}

/* 0 when git ended with 0. */
static int ask_git(struct mirror *mirror, const struct gitcall *call, struct gitrun *run,
		   struct error *err)
{
	run->row = STAGE_MIRROR;
	run->argv = call->argv;
	run->env = call->env;
	run->keep = mirror->keep;
	run->relay = mirror->relay;
	run->deadline_ms = mirror->deadline_ms;
	if (gitrun_wait(run, err)) {
		if (run->expired)
			error_set(err, ERROR_FAILED, "%s was not fetched within %lld s",
				  mirror->remote.url, mirror->deadline_s);
		return err->kind;
	}
	return run->status == 0 && !relay_is_over(mirror->relay) ? 0
								 : explain(mirror, run, err);
}

/* "ref: refs/heads/NAME<TAB>HEAD": a branch that a HEAD of ours may name. Into head, "" when there is none. */
static void parse_head(const char *text, char head[REF_MAX])
{
	static const char begin[] = "ref: refs/heads/";
	const char *tab = strchr(text, '\t');
	size_t len = tab ? (size_t)(tab - text) : 0;

	head[0] = '\0';
	if (strncmp(text, begin, strlen(begin)) != 0 || len <= strlen(begin) ||
	    len - 5 >= REF_MAX || strncmp(tab, "\tHEAD\n", 6) != 0)
		return;
	for (size_t i = 5; i < len; i++)
		if ((unsigned char)text[i] <= ' ' || text[i] == 127)
			return;
	memcpy(head, text + 5, len - 5);
	head[len - 5] = '\0';
	if (strstr(head, "..") || strstr(head, "//") || strstr(head, "/.") ||
	    ends_in(head, "/") || ends_in(head, ".lock") || strpbrk(head, "~^:?*[\\"))
		head[0] = '\0';
}

static size_t count_changes(const char *text)
{
	size_t count = 0;

	for (const char *at = text; (at = strstr(at, " -> ")); at += 4)
		count++;
	return count;
}

static int fetch(struct mirror *mirror, struct error *err)
{
	struct gitrun asked __attribute__((cleanup(gitrun_release)));
	struct gitrun run __attribute__((cleanup(gitrun_release)));
	struct gitcall ask __attribute__((cleanup(gitcall_release)));
	struct gitcall call __attribute__((cleanup(gitcall_release)));
	struct json *result;
	char head[REF_MAX];

	gitrun_init(&asked);
	gitrun_init(&run);
	gitcall_ls_head(&ask, &mirror->target);
	gitcall_fetch_all(&call, &mirror->target);
	event_progress("looking at %s", mirror->remote.url);
	if (ask_git(mirror, &ask, &asked, err))
		return err->kind;
	event_progress("fetching %s", mirror->remote.url);
	if (ask_git(mirror, &call, &run, err))
		return err->kind;
	parse_head(asked.out.data, head);
	if (head[0]) {
		AUTO_FREE char *line = mem_printf("ref: %s\n", head);

		if (fd_replace_file(mirror->dir, "HEAD", line, strlen(line), 0644, err))
			return err->kind;
	}
	result = js_object_new();
	js_set_int(result, "changed", (long long)count_changes(run.errs.data));
	js_set_str(result, "head", head[0] ? head : NULL);
	event_send("result", result);
	return 0;
}

/* ---- the way there ---- */

static int open_relay(struct mirror *mirror, enum relay_kind kind, struct error *err)
{
	AUTO_FREE char *authority = remote_authority(&mirror->remote);

	if (relay_open(kind, authority, FD_NET, &mirror->relay, err))
		return err->kind;
	relay_limit(mirror->relay, (unsigned long long)mirror->max_bytes);
	mirror->target.relay_port = relay_port(mirror->relay);
	return 0;
}

static int by_https(struct mirror *mirror, struct error *err)
{
	if (open_relay(mirror, RELAY_CONNECT, err))
		return err->kind;
	if (mirror->has_secret)
		mirror->keep[0] = FD_SECRET;
	return fetch(mirror, err);
}

static int by_ssh(struct mirror *mirror, struct error *err)
{
	struct secret *key;
	int kind;

	if (!mirror->known_hosts || !mirror->known_hosts[0] || !mirror->has_secret)
		return error_set(err, ERROR_USAGE, "%s needs a key and a known_hosts",
				 mirror->remote.url);
	if (scratch_write(HELPER_KNOWN_HOSTS, mirror->known_hosts, strlen(mirror->known_hosts),
			  err) ||
	    open_relay(mirror, RELAY_FORWARD, err))
		return err->kind;
	key = secret_take(FD_SECRET, err);
	if (!key)
		return err->kind;
	kind = sshagent_start(&mirror->agent, key, &sshkey_mirror, mirror->deadline_ms, err);
	secret_wipe(key);
	if (kind == 0)
		kind = fetch(mirror, err);
	sshagent_stop(&mirror->agent);
	return kind;
}

/* ---- packing ---- */

struct amount {
	long long packs, loose, bytes;
};

/* What objects/NAME holds: packs, or loose objects by the first byte of their ids. */
static void count_below(int objects, const char *name, bool packs, struct amount *amount)
{
	DIR *stream = fd_list(objects, name);
	const struct dirent *entry;
	struct stat st;

	while ((entry = fd_next(stream))) {
		if (entry->d_name[0] == '.' ||
		    fstatat(dirfd(stream), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		amount->bytes += st.st_size;
		amount->packs += packs && ends_in(entry->d_name, ".pack");
		amount->loose += !packs;
	}
	if (stream)
		closedir(stream);
}

static struct amount count_objects(const struct mirror *mirror)
{
	int objects AUTO_FD =
	    openat(mirror->dir, "objects", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct amount amount = {0};

	count_below(objects, "pack", true, &amount);
	for (unsigned i = 0; i < 256; i++) {
		char name[3];

		snprintf(name, sizeof(name), "%02x", i);
		count_below(objects, name, false, &amount);
	}
	return amount;
}

static struct json *amount_to_json(const struct amount *amount)
{
	struct json *json = js_object_new();

	js_set_int(json, "packs", amount->packs);
	js_set_int(json, "loose", amount->loose);
	js_set_int(json, "bytes", amount->bytes);
	return json;
}

static int pack(struct mirror *mirror, bool keep_all, struct error *err)
{
	struct gitrun run __attribute__((cleanup(gitrun_release)));
	struct gitcall call __attribute__((cleanup(gitcall_release)));
	struct amount before = count_objects(mirror), after;
	struct json *result;
	char words[600];

	gitrun_init(&run);
	gitcall_gc(&call, mirror->path, keep_all);
	run.row = STAGE_MIRROR;
	run.argv = call.argv;
	run.env = call.env;
	run.deadline_ms = mirror->deadline_ms;
	if (gitrun_wait(&run, err))
		return error_wrap(err, "packing %s", mirror->path);
	if (run.status != 0) {
		text_escape(words, sizeof(words), run.errs.data, run.errs.len);
		error_set(err, ERROR_FAILED, "packing %s: git gc ended with %d: %s",
			  mirror->path, run.status, words);
		return error_next(err,
				  "git -C %s fsck says what is wrong with it; a mirror "
				  "that is removed is fetched anew",
				  mirror->path);
	}
	after = count_objects(mirror);
	result = js_object_new();
	js_set_bool(result, "packed",
		    before.packs != after.packs || before.loose != after.loose);
	js_set(result, "before", amount_to_json(&before));
	js_set(result, "after", amount_to_json(&after));
	event_send("result", result);
	return 0;
}

static void release(struct mirror *mirror)
{
	relay_free(mirror->relay);
	remote_release(&mirror->remote);
	free(mirror->program);
	fd_close_ptr(&mirror->dir);
}

int mirror_pack(const struct json *job, struct error *err)
{
	struct mirror mirror __attribute__((cleanup(release))) = {
	    .agent = SSHAGENT_NONE, .keep = {-1, -1}, .dir = -1};
	const struct json *paths = js_get(job, "paths");

	if (js_need_str(paths, "mirror", &mirror.path, err) ||
	    js_need_str(paths, "scratch", &mirror.scratch, err) ||
	    js_need_int(job, "deadline_s", 1, 1000000, &mirror.deadline_s, err))
		return err->kind;
	mirror.deadline_ms = fd_now_ms() + mirror.deadline_s * 1000;
	if (chdir(mirror.scratch) < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", mirror.scratch);
	return prepare(&mirror, err) ? err->kind
				     : pack(&mirror, js_bool(job, "keep_all", true), err);
}

int mirror_fetch(const struct json *job, struct error *err)
{
	struct mirror mirror __attribute__((cleanup(release))) = {
	    .agent = SSHAGENT_NONE, .keep = {-1, -1}, .dir = -1};

	mirror.has_secret = fd_is_open(FD_SECRET);
	if (parse(job, &mirror, err))
		return err->kind;
	mirror.program = mem_printf("%s/agent-publish", mirror.libexec);
	mirror.target = (struct gitcall_target){.remote = &mirror.remote,
						.git_dir = mirror.path,
						.program = mirror.program,
						.ca = mirror.ca,
						.remote_fd = -1};
	if (chdir(mirror.scratch) < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", mirror.scratch);
	if (prepare(&mirror, err))
		return err->kind;
	return mirror.remote.kind == REMOTE_SSH ? by_ssh(&mirror, err) : by_https(&mirror, err);
}
