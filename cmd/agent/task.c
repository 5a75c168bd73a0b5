/* What a task branch asks becomes a job. The order is that of pipeline/queue.h: what is known is read first, then the
 * branch, and the queue takes nothing where another came between. */
#include "task.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/sha256.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/fds.h"
#include "pipeline/publish/rules.h"
#include "pipeline/queue.h"

#define FACTS_MAX (64 << 20)
#define BATCH 32 /* issues that are read at once: each may have a MiB */
#define TRIES 20 /* comparisons of a branch that others move meanwhile */
#define KEPT_DIR "agent-tasks"
#define KEPT_MAX (8 << 20) /* a MiB of text as JSON */
#define KEPT_S 86400 /* of a push that was refused in the end, or whose branch has moved on */
#define TITLE_MAX 1024

/* ---- the repository ---- */

int task_site_open(const char *path, struct task_site *site, struct error *err)
{
	char *config AUTO_FREE = NULL, *real AUTO_FREE = realpath(path, NULL);

	memset(site, 0, sizeof(*site));
	if (!real)
		return error_errno(err, ERROR_USAGE, errno, "%s", path);
	if (repository_find(real, &site->repo, err))
		return err->kind;
	/* Not the one that a directory above belongs to. */
	if (strcmp(real, site->repo.git_dir) != 0 &&
	    (!site->repo.work_dir || strcmp(real, site->repo.work_dir) != 0))
		return error_set(err, ERROR_USAGE, "%s is not a git repository", real);
	/* Its configuration is the operator's word, and files of ours are beside it. */
	if (strcmp(site->repo.common_dir, site->repo.git_dir) != 0)
		return error_set(err, ERROR_USAGE, "%s is a linked work tree", real);
	config = mem_printf("%s/config", site->repo.common_dir);
	return hook_rules_read(config, &site->rules, err);
}

void task_site_release(struct task_site *site)
{
	hook_rules_release(&site->rules);
	repository_release(&site->repo);
}

/* Of refs/heads/task/x by the pattern refs/heads/task/STAR it is x. Owned by the caller. */
static char *task_name(const struct hook_rules *rules, const char *ref)
{
	size_t skip = strncmp(ref, "refs/heads/", 11) == 0 ? 11 : 5;

	for (size_t i = 0; i < rules->task.count; i++) {
		const char *pattern = rules->task.items[i];
		size_t fixed = strcspn(pattern, "*?[\\");

		while (fixed && pattern[fixed - 1] != '/')
			fixed--;
		if (fixed > skip && fnmatch(pattern, ref, 0) == 0) {
			skip = fixed;
			break;
		}
	}
	return mem_strdup(ref + skip);
}

/* ---- what pre-receive has read, kept ---- */

static char *kept_name(const char *ref, const char *tip)
{
	char *key AUTO_FREE = mem_printf("%s\n%s", ref, tip), digest[65];

	sha256_hex(key, strlen(key), digest);
	return mem_printf("%.40s", digest);
}

static int kept_dir(const struct repository *repo)
{
	char *path AUTO_FREE = mem_printf("%s/" KEPT_DIR, repo->common_dir);

	return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int task_keep(const struct repository *repo, const char *ref, const char *tip,
	      const struct json *facts, struct error *err)
{
	char *path AUTO_FREE = mem_printf("%s/" KEPT_DIR, repo->common_dir);
	char *name AUTO_FREE = kept_name(ref, tip);
	char *part AUTO_FREE = mem_printf(".%s.%d", name, (int)getpid());
	struct json *kept AUTO_JSON = js_artefact_new("task", 1);
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	int dir AUTO_FD = -1, fd AUTO_FD = -1;

	js_set_str(kept, "commit", js_str(facts, "commit", ""));
	js_set_str(kept, "source", js_str(facts, "source", ""));
	js_set_str(kept, "title", js_str(facts, "title", ""));
	js_set_str(kept, "text", js_str(facts, "text", ""));
	strbuf_init(&text, STRBUF_MAX);
	js_format(kept, &text);
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return error_errno(err, ERROR_FAILED, errno, "%s", path);
	dir = kept_dir(repo);
	if (dir >= 0)
		fd = fd_open_beneath(dir, part, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	/* Without waiting for the disk: what a power cut takes is read again from the branch. */
	if (fd < 0 || fd_write_all(fd, text.data, text.len) < 0 ||
	    renameat(dir, part, dir, name) < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", path);
	return 0;
}

/* As agent-apply pushed tells it, new; NULL when there is none that is good. */
static struct json *kept_facts(const struct repository *repo, const char *ref, const char *tip)
{
	char *name AUTO_FREE = kept_name(ref, tip);
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	struct json *facts AUTO_JSON = NULL;
	struct error ignored = {0};
	int dir AUTO_FD = kept_dir(repo);

	strbuf_init(&text, KEPT_MAX);
	if (dir < 0 || fd_read_file(dir, name, &text, &ignored))
		return NULL;
	facts = js_parse(text.data, text.len, KEPT_MAX, name, &ignored);
	if (!facts || js_check_kind(facts, "task", 1, &ignored) ||
	    !text_is_hex(js_str(facts, "commit", ""), 40) ||
	    strlen(js_str(facts, "title", "")) > TITLE_MAX)
		return NULL;
	js_set_str(facts, "tip", tip);
	return MEM_STEAL(facts);
}

/* Whether the ref is at tip, as its own file says; one that is packed, linked or gone is for agent-apply to read. */
static bool is_at(const struct repository *repo, const char *ref, const char *tip)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	struct error ignored = {0};
	int dir AUTO_FD = open(repo->common_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	strbuf_init(&text, 4096);
	return dir >= 0 && fd_read_file(dir, ref, &text, &ignored) == 0 &&
	       text.len == strlen(tip) + 1 && text.data[text.len - 1] == '\n' &&
	       strncmp(text.data, tip, strlen(tip)) == 0;
}

static void drop_kept(const struct repository *repo, const char *ref, const char *tip)
{
	char *name AUTO_FREE = kept_name(ref, tip);
	int dir AUTO_FD = kept_dir(repo);

	if (dir >= 0)
		unlinkat(dir, name, 0);
}

static void sweep_kept(const struct repository *repo)
{
	DIR *dir = fd_list_taking(kept_dir(repo));
	const struct dirent *entry;
	struct stat st;

	while ((entry = fd_next(dir)))
		if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    st.st_mtime + KEPT_S < time(NULL))
			unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
}

/* ---- what the repository says ---- */

struct json *task_ask_pushed(const struct repository *repo, const char *config_ref,
			     struct supervisor *sup, struct json *job,
			     const struct options *options, struct error *err)
{
	struct json *paths = repository_paths(repo), *facts AUTO_JSON = NULL;
	size_t wanted = js_len(js_get(job, "updates"));
	struct supervised stage = {0};
	int out AUTO_FD = memfd_create("pushed", MFD_CLOEXEC), result;

	js_unset(paths, "workdir");
	js_set(job, "paths", paths);
	js_set_str(job, "rev", config_ref);
	js_set(job, "policy", edit_policy(options->config));
	if (out < 0) {
		error_errno(err, ERROR_FAILED, errno, "memfd_create");
		return NULL;
	}
	result = supervise_start(sup, &stage, STAGE_PUSHED, job,
				 (struct spawn_fd[]){{FD_OUT, out}}, 1, 0, NULL, NULL, err);
	if (result == 0)
		result = supervise_wait(sup, &stage, err);
	supervise_end(sup, &stage);
	if (result)
		return NULL;
	facts = js_read_fd(out, FACTS_MAX, "what was pushed", err);
	if (!facts || js_check_kind(facts, "pushed", 1, err))
		return NULL;
	if (js_len(js_get(facts, "updates")) != wanted) {
		error_set(err, ERROR_FAILED, "agent-apply pushed told of other refs");
		return NULL;
	}
	return MEM_STEAL(facts);
}

/* ---- a job ---- */

struct take {
	struct task_site *site;
	struct queue *queue;
	struct supervisor *sup;
	const struct options *options;
	const char *origin;
	bool quiet;
	task_tell_fn *tell;
	void *arg;
};

static void __attribute__((format(printf, 3, 4)))
tell(const struct take *take, const char *ref, const char *format, ...)
{
	char *text AUTO_FREE = NULL;
	va_list args;

	va_start(args, format);
	text = mem_vprintf(format, args);
	va_end(args);
	take->tell(take->arg, ref, text);
}

/* The ref that the result goes to. NULL with err. */
static char *result_ref_of(const struct take *take, const struct hook_rule *rule,
			   const char *ref, struct error *err)
{
	char *name AUTO_FREE = NULL, *whole AUTO_FREE = NULL;
	struct error ignored = {0};
	char slug[64], digest[65];

	if (rule->on_task)
		return rules_check_ref(ref, err) == 0 ? mem_strdup(ref) : NULL;
	name = task_name(&take->site->rules, ref);
	whole = mem_printf("refs/agent/%s", name);
	if (rules_check_ref(whole, &ignored) == 0)
		return request_result_ref(take->options->config, name, err);
	/* What git allows and we do not is told apart by a digest. */
	text_slug(slug, name);
	sha256_hex(name, strlen(name), digest);
	free(name);
	name = mem_printf("%.40s-%.6s", slug, digest);
	return request_result_ref(take->options->config, name, err);
}

/* New; NULL with err. */
static struct json *task_request(const struct take *take, const struct task_ask *ask,
				 const struct hook_rule *rule, const struct json *facts,
				 struct error *err)
{
	struct json *request AUTO_JSON = js_artefact_new("request", 1);
	struct json *about = js_object_new(), *task = js_object_new(), *pairs = js_array_new();
	const char *text = js_str(facts, "text", ""), *git_dir = take->site->repo.git_dir;
	char *remote AUTO_FREE = mem_printf("publish.remote=%s", git_dir);
	char *identity AUTO_FREE = mem_printf(TASK_IDENTITY "%s", ask->ref), digest[65];
	char *to AUTO_FREE = result_ref_of(take, rule, ask->ref, err);

	sha256_hex(text, strlen(text), digest);
	js_set_str(about, "source",
		   strncmp(ask->ref, "refs/heads/", 11) == 0 ? ask->ref + 11 : ask->ref);
	js_set_str(about, "title", js_str(facts, "title", ""));
	js_set_str(about, "sha256", digest);
	js_set_str(about, "identity", identity);
	js_set(request, "issue", about);
	js_set_str(task, "ref", ask->ref);
	js_set_str(task, "tip", ask->tip);
	js_set_str(task, "text", js_str(facts, "source", ""));
	js_set_str(task, "pusher", ask->pusher);
	js_set(request, "task", task);
	js_push_str(pairs, remote);
	js_set(request, "pairs", pairs);
	js_set_str(request, "id", "");
	js_set_str(request, "agent", AGENT_VERSION);
	js_set_int(request, "created", (long long)time(NULL));
	js_set_str(request, "repository", git_dir);
	js_set_str(request, "rev", js_str(facts, "commit", ""));
	js_set_str(request, "config_rev", rule->config_ref);
	js_set_bool(request, "separate_uid", true);
	js_set_bool(request, "dry_run", false);
	js_set_bool(request, "status", false);
	if (!to)
		return NULL;
	js_set_str(request, "ref", to);
	if (rule->on_task)
		js_set_str(request, "expect", ask->tip);
	return MEM_STEAL(request);
}

/* request: NULL where nothing is asked, with the reason. 0, or an error kind of queue_add. */
static int add(const struct take *take, const struct task_ask *ask, const struct json *request,
	       const char *text, const char *why, long long after, long long *id,
	       struct error *err)
{
	struct strbuf whole AUTO_STRBUF = STRBUF_NONE;
	char *identity AUTO_FREE = mem_printf(TASK_IDENTITY "%s", ask->ref);
	char digest[65] = "";
	struct queue_new job = {.repository = take->site->repo.git_dir,
				.identity = identity,
				.title = js_str(js_get(request, "issue"), "title", ask->ref),
				.digest = digest,
				.origin = take->origin,
				.request = "{}",
				.issue = text,
				.issue_len = strlen(text),
				.tip = ask->tip,
				.after = after,
				.skip = why};

	strbuf_init(&whole, STRBUF_MAX);
	if (request) {
		request_digest(request, digest);
		js_format(request, &whole);
		job.request = whole.data;
	}
	return queue_add(take->queue, &job, id, err);
}

static int take_new(const struct take *take, const struct task_ask *ask,
		    const struct json *facts, long long after, struct error *err)
{
	struct hook_rule rule = hook_rules_for(&take->site->rules, ask->ref);
	const char *why = ask->skip, *to;
	struct json *request AUTO_JSON = NULL;
	struct error none = {0};
	long long id = 0;
	int result;

	if (!why && js_str(facts, "problem", NULL))
		why = js_str(facts, "problem", "");
	if (!why && strcmp(js_str(facts, "source", ""), "agent") == 0)
		why = "its last commit is an agent's own (trailer Agent-Run)";
	if (!why && !(request = task_request(take, ask, &rule, facts, &none)))
		why = none.message;
	result =
	    add(take, ask, request, why ? "" : js_str(facts, "text", ""), why, after, &id, err);
	if (result == ERROR_SKIPPED) {
		if (!take->quiet)
			tell(take, ask->ref, "%s: agent queue show %lld", err->message, id);
		memset(err, 0, sizeof(*err));
		return 0;
	}
	if (result)
		return result;
	if (why) {
		tell(take, ask->ref, "no job: %s", why);
		return 0;
	}
	to = js_str(request, "ref", "");
	tell(take, ask->ref, "job %lld queued: %s", id,
	     js_str(js_get(request, "issue"), "title", ""));
	tell(take, ask->ref,
	     "its result comes to %s, a note to refs/notes/agent; on the server "
	     "agent queue show %lld follows it",
	     strncmp(to, "refs/heads/", 11) == 0 ? to + 11 : to, id);
	return 0;
}

static int take_gone(const struct take *take, const struct task_ask *ask, long long after,
		     struct error *err)
{
	char *identity AUTO_FREE = mem_printf(TASK_IDENTITY "%s", ask->ref);
	long long id = 0;

	if (!after)
		return 0; /* nothing is known of it */
	if (queue_forget(take->queue, take->site->repo.git_dir, identity, after, &id, err))
		return err->kind;
	if (id)
		tell(take, ask->ref, "deleted: its job %lld is cancelled", id);
	return 0;
}

/* One comparison. *again: somebody else was faster. 0 or an error kind. */
static int take_one(const struct take *take, const struct task_ask *ask,
		    const struct json *facts, const struct json *tips, bool *again,
		    struct error *err)
{
	char *identity AUTO_FREE = mem_printf(TASK_IDENTITY "%s", ask->ref);
	long long after = js_int(js_get(tips, identity), "id", 0);
	const char *now = js_str(facts, "tip", "");
	int result;

	*again = false;
	if (strcmp(now, ask->tip) != 0) {
		if (!take->quiet)
			tell(take, ask->ref, "it has been moved again meanwhile: no job for %s",
			     ask->tip[0] ? ask->tip : "its deletion");
		return 0;
	}
	result =
	    now[0] ? take_new(take, ask, facts, after, err) : take_gone(take, ask, after, err);
	if (result == ERROR_LATER) {
		memset(err, 0, sizeof(*err));
		*again = true;
		return 0;
	}
	return result;
}

/* What agent-apply reads of those whose facts are NULL; the others are known. */
static int read_rest(const struct take *take, const struct task_ask *const *asks,
		     struct json **facts, size_t count, struct error *err)
{
	struct json *job AUTO_JSON = js_object_new(), *updates = js_array_new();
	struct json *told AUTO_JSON = NULL;
	size_t next = 0;

	js_set(job, "updates", updates);
	for (size_t i = 0; i < count; i++) {
		struct json *one;

		if (facts[i])
			continue;
		one = js_object_new();
		js_set_str(one, "ref", asks[i]->ref);
		js_set_bool(one, "issue", true);
		js_set_bool(one, "text", true);
		js_set_str(one, "option", asks[i]->option);
		js_push(updates, one);
	}
	if (!js_len(updates))
		return 0;
	told = task_ask_pushed(&take->site->repo, take->site->rules.config_ref, take->sup, job,
			       take->options, err);
	if (!told)
		return err->kind;
	for (size_t i = 0; i < count; i++)
		if (!facts[i])
			facts[i] = js_copy(js_at(js_get(told, "updates"), next++));
	return 0;
}

/* facts: what each branch is now, and asks; new ones. 0 or an error kind. */
static int read_facts(const struct take *take, const struct task_ask *const *asks,
		      struct json **facts, size_t count, struct error *err)
{
	const struct repository *repo = &take->site->repo;
	struct json *kept[BATCH] = {NULL};
	int result;

	for (size_t i = 0; i < count; i++)
		if (asks[i]->tip[0])
			kept[i] = kept_facts(repo, asks[i]->ref, asks[i]->tip);
	for (size_t i = 0; i < count; i++)
		if (kept[i] && is_at(repo, asks[i]->ref, asks[i]->tip))
			facts[i] = MEM_STEAL(kept[i]);
	result = read_rest(take, asks, facts, count, err);
	/* Of a packed branch the words are as good, where it is still what they were kept for. */
	for (size_t i = 0; i < count; i++) {
		if (result == 0 && kept[i] &&
		    strcmp(js_str(facts[i], "tip", ""), asks[i]->tip) == 0) {
			js_free(facts[i]);
			facts[i] = MEM_STEAL(kept[i]);
		}
		js_free(kept[i]);
	}
	return result;
}

/* What is known of these, and of no others: a repository may have had very many. New; NULL with err. */
static struct json *tips_of(const struct take *take, const struct task_ask *const *asks,
			    size_t count, struct error *err)
{
	struct json *tips AUTO_JSON = js_object_new();

	for (size_t i = 0; i < count; i++) {
		char *identity AUTO_FREE = mem_printf(TASK_IDENTITY "%s", asks[i]->ref);
		struct json *one AUTO_JSON =
		    queue_tips(take->queue, take->site->repo.git_dir, identity, err);

		if (!one)
			return NULL;
		if (js_get(one, identity))
			js_set(tips, identity, js_copy(js_get(one, identity)));
	}
	return MEM_STEAL(tips);
}

/* Compares each of left once; those for whom somebody else was faster stay, *many of them. */
static int compare(const struct take *take, const struct task_ask **left, size_t *many,
		   struct error *err)
{
	struct json *tips AUTO_JSON = tips_of(take, left, *many, err);
	struct json *facts[BATCH] = {NULL};
	int result = tips ? read_facts(take, left, facts, *many, err) : err->kind;
	size_t rest = 0;

	for (size_t i = 0; i < *many; i++) {
		const struct task_ask *ask = left[i];
		bool again = false;

		if (result == 0)
			result = take_one(take, ask, facts[i], tips, &again, err);
		js_free(facts[i]);
		if (again)
			left[rest++] = ask;
		else if (result == 0)
			drop_kept(&take->site->repo, ask->ref, ask->tip);
	}
	*many = rest;
	return result;
}

/* Others cannot stand in the record; where pre-receive is not installed, git lets them in. */
static bool can_be_named(const struct take *take, const char *ref)
{
	if (strlen(ref) < TASK_REF_MAX && text_is_utf8(ref, strlen(ref)))
		return true;
	tell(take, ref, "no job: its name is longer than %d bytes, or not in UTF-8",
	     TASK_REF_MAX - 1);
	return false;
}

static int take_batch(const struct take *take, const struct task_ask *asks, size_t count,
		      struct error *err)
{
	const struct task_ask *left[BATCH] = {NULL};
	size_t many = 0;

	for (size_t i = 0; i < count; i++)
		if (can_be_named(take, asks[i].ref))
			left[many++] = &asks[i];
	for (int tries = 0; many && tries < TRIES; tries++)
		if (compare(take, left, &many, err))
			return err->kind;
	return many ? error_set(err, ERROR_LATER, "%s is moved faster than it can be read",
				left[0]->ref)
		    : 0;
}

int task_take(struct task_site *site, struct queue *queue, struct supervisor *sup,
	      const struct options *options, const struct task_ask *asks, size_t count,
	      const char *origin, bool quiet, task_tell_fn *tell_one, void *arg,
	      struct error *err)
{
	const struct take take = {.site = site,
				  .queue = queue,
				  .sup = sup,
				  .options = options,
				  .origin = origin,
				  .quiet = quiet,
				  .tell = tell_one,
				  .arg = arg};

	for (size_t done = 0; done < count; done += BATCH) {
		size_t some = count - done < BATCH ? count - done : BATCH;

		if (take_batch(&take, asks + done, some, err))
			return err->kind;
	}
	return 0;
}

/* ---- all branches ---- */

static void add_ask(struct task_ask **asks, size_t *count, const char *ref, const char *tip)
{
	*asks = mem_realloc(*asks, *count + 1, sizeof(**asks));
	(*asks)[(*count)++] = (struct task_ask){.ref = ref, .tip = tip};
}

int task_news(struct task_site *site, struct queue *queue, struct supervisor *sup,
	      const struct options *options, struct task_ask **asks, size_t *count,
	      struct json **facts, struct error *err)
{
	struct json *job AUTO_JSON = js_object_new(), *value;
	struct json *tips AUTO_JSON = queue_tips(queue, site->repo.git_dir, NULL, err);
	struct json *refs;
	const char *name;
	void *iter = NULL;

	*asks = NULL;
	*count = 0;
	js_set_bool(job, "list", true);
	js_set(job, "updates", js_array_new());
	*facts =
	    tips ? task_ask_pushed(&site->repo, site->rules.config_ref, sup, job, options, err)
		 : NULL;
	if (!*facts)
		return err->kind;
	refs = js_get(*facts, "refs");
	sweep_kept(&site->repo);
	while ((name = js_next(refs, &iter, &value))) {
		char *identity AUTO_FREE = mem_printf(TASK_IDENTITY "%s", name);

		if (hook_rules_for(&site->rules, name).task &&
		    strcmp(js_str(js_get(tips, identity), "tip", ""), js_text(value)) != 0)
			add_ask(asks, count, name, js_text(value));
	}
	/* What the record knows and is not there any more. The names live on in facts. */
	js_set(*facts, "tips", js_copy(tips));
	iter = NULL;
	while ((name = js_next(js_get(*facts, "tips"), &iter, &value)))
		if (strncmp(name, TASK_IDENTITY, strlen(TASK_IDENTITY)) == 0 &&
		    js_str(value, "tip", "")[0] && !js_get(refs, name + strlen(TASK_IDENTITY)))
			add_ask(asks, count, name + strlen(TASK_IDENTITY), "");
	return 0;
}
