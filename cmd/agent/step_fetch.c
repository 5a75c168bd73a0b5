/* The fetch step: find the dependency layer, or let agent-fetch warm one with agent-egress as
 * its only way out. */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/fds.h"
#include "pipeline/fetch/plan.h"
#include "pipeline/fetch/store.h"
#include "sandbox/jail_spec.h"

#define FETCH_MAX (1 << 20)
#define LOG_TAIL 16384
#define JAILS_END_MS 15000 /* for those that were not waited for yet */

extern char **environ;

struct warm {
	struct run *run;
	struct egress egress;
	int facts[2]; /* read ends: warm, verify */
};

/* What the jail was given, for agent audit. */
static int keep_audit(struct run *run, const char *name, const struct json *audit,
		      struct error *err)
{
	return audit ? rundir_write(&run->dir, name, audit, err) : 0;
}

/* Around the proxy: what the proxy itself refused is in the decisions. */
static void tell_denied(struct run *run, const struct jail_facts *facts)
{
	struct json *denied AUTO_JSON = js_object_new();

	denied_put(denied, facts);
	denied_note(&run->journal, denied, "denied, around the proxy");
}

/* Inputs where a pushed base has no say (law L9). */
static void tell_not_base(struct run *run, const struct json *fields)
{
	const struct json *paths = js_get(fields, "paths");
	struct strbuf list AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&list, 65536);
	for (size_t i = 0; i < js_len(paths); i++) {
		const char *path = js_text(js_at(paths, i));

		strbuf_addf(&list, "%s%s", i ? ", " : "", path ? path : "?");
	}
	if (js_int(fields, "more", 0) > 0)
		strbuf_addf(&list, " and %lld more", js_int(fields, "more", 0));
	journal_note(
	    &run->journal,
	    "note: %s: the warm has tool configuration and programs as %s does, not as "
	    "the base commit",
	    list.data, js_str(run->base, "config_ref", run_base(run, "config_commit")));
}

/* agent-fetch asks after each jail what the facts said: they come to us, not to it. */
static struct json *on_fetch_event(void *arg, const char *event, struct json *fields)
{
	struct warm *warm = arg;
	struct jail_facts facts = {0};
	struct json *audit AUTO_JSON = NULL;
	struct error err = {0};
	struct json *answer;
	char text[512] = "";
	bool verify = strcmp(event, "verified") == 0;
	int *fd = &warm->facts[verify];

	if (strcmp(event, "not_base") == 0)
		tell_not_base(warm->run, fields);
	if (!verify && strcmp(event, "warmed") != 0)
		return NULL;
	if (*fd < 0 || jailplan_read_facts(NULL, *fd, &facts, &audit, &err) != 0 ||
	    keep_audit(warm->run, verify ? "fetch/audit-verify.json" : "fetch/audit-warm.json",
		       audit, &err) != 0)
		snprintf(text, sizeof(text), "%.500s", err.message);
	else if (facts.outcome != JAIL_EXITED || facts.value != 0)
		jailplan_describe(&facts, text, sizeof(text));
	fd_close_ptr(fd);
	*fd = -1;
	tell_denied(warm->run, &facts);
	answer = js_object_new();
	js_set_bool(answer, "ok", !text[0]);
	js_set_str(answer, "why", text);
	js_set_str(answer, "next", err.next[0] ? err.next : facts.next);
	js_set_bool(answer, "setup", facts.outcome == JAIL_SETUP);
	return answer;
}

struct fetch_files {
	int out, log, spec, spec2, facts, facts2, egress;
};

static void close_files(struct fetch_files *files)
{
	fd_close_ptr(&files->out);
	fd_close_ptr(&files->log);
	fd_close_ptr(&files->spec);
	fd_close_ptr(&files->spec2);
	fd_close_ptr(&files->facts);
	fd_close_ptr(&files->facts2);
	fd_close_ptr(&files->egress);
}

static int facts_pipe(int *read_end, int *write_end, struct error *err)
{
	int fds[2];

	if (jailplan_stream(fds, err))
		return err->kind;
	*read_end = fds[0];
	*write_end = fds[1];
	return 0;
}

static int open_files(struct run *run, struct warm *warm, const struct fetch_plan *plan,
		      struct fetch_files *files, struct error *err)
{
	files->out = rundir_part(&run->dir, "fetch/fetch.json", err);
	files->log = files->out < 0 ? -1 : rundir_part(&run->dir, "fetch/log", err);
	if (files->log < 0 || facts_pipe(&warm->facts[0], &files->facts, err))
		return err->kind;
	files->spec = jailplan_memfd(&plan->warm, err);
	if (files->spec < 0 || !plan->has_verify)
		return files->spec < 0 ? err->kind : 0;
	files->spec2 = jailplan_memfd(&plan->verify, err);
	return files->spec2 < 0 ? err->kind : facts_pipe(&warm->facts[1], &files->facts2, err);
}

static struct json *fetch_job(const struct run *run, const struct fetch_plan *plan)
{
	struct json *job = js_copy(plan->job), *paths = repository_paths(&run->repo);
	char *store AUTO_FREE = mem_printf("%s/store/deps", run->dir.state);
	char *scratch AUTO_FREE = mem_printf("%s/fetch", run->dir.path);

	js_unset(paths, "workdir");
	js_set_str(paths, "store", store);
	js_set_str(paths, "scratch", scratch);
	js_set(job, "paths", paths);
	return job;
}

static int run_fetch(struct run *run, struct warm *warm, const struct fetch_plan *plan,
		     struct fetch_files *files, struct error *err)
{
	struct json *job AUTO_JSON = fetch_job(run, plan);
	struct supervised stage = {0};
	struct spawn_fd fds[8];
	const struct {
		int number, fd;
	} have[] = {{FD_OUT, files->out},      {FD_LOG, files->log},
		    {FD_SPEC, files->spec},    {FD_SPEC2, files->spec2},
		    {FD_FACTS, files->facts},  {FD_FACTS2, files->facts2},
		    {FD_EGRESS, files->egress}};
	size_t count = 0;
	int result;

	for (size_t i = 0; i < ARRAY_LEN(have); i++)
		if (have[i].fd >= 0)
			fds[count++] = (struct spawn_fd){have[i].number, have[i].fd};
	result = supervise_start(&run->sup, &stage, STAGE_FETCH, job, fds, count, plan->wall_s,
				 on_fetch_event, warm, err);
	close_files(files);
	*files = (struct fetch_files){-1, -1, -1, -1, -1, -1, -1};
	if (result == 0)
		result = supervise_wait(&run->sup, &stage, err);
	supervise_end(&run->sup, &stage);
	return result;
}

static void explain(struct run *run, const struct warm *warm, const struct fetch_plan *plan,
		    struct error *err)
{
	struct strbuf log AUTO_STRBUF = STRBUF_NONE;
	struct error ignored = {0};
	size_t from;

	strbuf_init(&log, STRBUF_MAX);
	rundir_accept(&run->dir, "fetch/log", (size_t)1 << 26, true, &ignored);
	fd_read_file(run->dir.fd, "fetch/log", &log, &ignored);
	from = log.len > LOG_TAIL ? log.len - LOG_TAIL : 0;
	fetch_explain(plan, warm->egress.decisions, log.data + from, log.len - from, err);
}

/* Until its jails have ended, which write into its directory and give that back to us. */
static void see_jails_end(struct warm *warm)
{
	const long long until = fd_now_ms() + JAILS_END_MS;

	for (size_t i = 0; i < ARRAY_LEN(warm->facts); i++) {
		struct pollfd polled = {warm->facts[i], POLLIN, 0};
		char chunk[4096];

		while (warm->facts[i] >= 0) {
			long long left = until - fd_now_ms();
			ssize_t n = -1;

			if (left > 0 && poll(&polled, 1, (int)left) > 0)
				n = read(warm->facts[i], chunk, sizeof(chunk));
			if (n > 0 || (n < 0 && left > 0 && errno == EINTR))
				continue;
			close(warm->facts[i]);
			warm->facts[i] = -1;
		}
	}
}

/* store_reclaim_fn, for what a jail that was killed could not give back. What cannot be had now is gc's. */
static int reclaim(void *arg, const char *path)
{
	struct run *run = arg;
	struct error ignored = {0};

	return jailplan_reclaim(&run->sup, path, &ignored);
}

static int warm_layer(struct run *run, const struct fetch_plan *plan, struct error *err)
{
	struct warm warm = {.run = run, .facts = {-1, -1}};
	struct fetch_files files = {-1, -1, -1, -1, -1, -1, -1};
	struct error ignored = {0};
	char *dir AUTO_FREE = rundir_subdir(&run->dir, "fetch", err);
	int lock =
	    dir ? store_begin(run->dir.state, run->dir.id, STAGE_UID_BASE + STAGE_FETCH, err)
		: -1;
	int result;

	if (lock < 0)
		return err->kind;
	result = open_files(run, &warm, plan, &files, err);
	if (result == 0)
		result = egress_begin(run, &warm.egress, plan->egress_job, plan->wall_s,
				      &files.egress, err);
	if (result == 0)
		result = run_fetch(run, &warm, plan, &files, err);
	close_files(&files);
	egress_end(run, &warm.egress);
	if (result != 0 && result != ERROR_INTERRUPTED && result != ERROR_ISOLATION)
		explain(run, &warm, plan, err);
	if (result == 0)
		result = rundir_accept(&run->dir, "fetch/log", (size_t)1 << 26, true, &ignored);
	if (result == 0)
		result = rundir_accept(&run->dir, "fetch/fetch.json", FETCH_MAX, false, err);
	see_jails_end(&warm);
	js_free(warm.egress.decisions);
	store_end(run->dir.state, run->dir.id, &lock, reclaim, run);
	return result;
}

/* Held until the run ends: agent gc leaves the layer where it is. */
static int lease(struct run *run, const char *key, struct error *err)
{
	char *path AUTO_FREE = mem_printf("%s/store/deps", run->dir.state);
	int deps AUTO_FD = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	run->deps_lock = deps < 0 ? -1 : layerstore_lock_to_use(deps, key);
	if (run->deps_lock < 0) {
		error_set(err, ERROR_FAILED, "the dependency layer %.12s is gone again", key);
		return error_next(err, "agent gc removed it just now: agent resume %s",
				  run->dir.id);
	}
	run->deps_key = mem_strdup(key);
	return 0;
}

static int go_fetch(struct run *run, const struct fetch_plan *plan, bool only_warm,
		    struct error *err)
{
	char key[STORE_KEY_SIZE];
	struct json *made AUTO_JSON = NULL;
	bool found = store_lookup(run->dir.state, plan->from, plan->text, key) == 0;
	int result;

	if (!found && only_warm) {
		journal_note(&run->journal,
			     "note: the dependencies are not warm: agent run warms them");
		return 0;
	}
	if (!found) {
		result = warm_layer(run, plan, err);
		if (result)
			return result;
		made = rundir_read(&run->dir, "fetch/fetch.json", "fetch", FETCH_MAX, err);
		if (!made)
			return err->kind;
		snprintf(key, sizeof(key), "%s", js_str(made, "key", ""));
	}
	if (lease(run, key, err))
		return err->kind;
	journal_done(&run->journal, "%s: layer %.12s%s", fetch_recipe_text(plan->recipe), key,
		     found || !js_bool(made, "warmed", true) ? " is warm"
							     : " warmed and sealed");
	return 0;
}

int step_fetch(struct run *run, bool only_warm, struct error *err)
{
	struct jail_spec limits;
	struct fetch_plan plan = {0};
	struct fetch_request request = {.config = run->config,
					.base = run->base,
					.state = run->dir.state,
					.run_id = run->dir.id,
					.trust = run->repo.common_dir,
					.work_tree = run->repo.work_dir,
					.env = environ};
	int result;

	run->recipe = fetch_detect(run->config, run->base);
	if (run->recipe == FETCH_NONE)
		return 0;
	journal_stage(&run->journal, "fetch", "looking for the dependency layer");
	jail_spec_init(&limits);
	jailplan_limits(run->config, &limits.limits);
	limits.limits.disk_bytes = (uint64_t)config_number(run->config, "fetch.disk");
	limits.limits.file_bytes = limits.limits.disk_bytes;
	request.limits = &limits.limits;
	result = store_prepare(run->dir.state, STAGE_UID_BASE + STAGE_FETCH, err);
	if (result == 0)
		result = fetch_plan_make(run->recipe, &request, &plan, err);
	if (result == 0) {
		result = go_fetch(run, &plan, only_warm, err);
		fetch_plan_release(&plan);
	}
	jail_spec_release(&limits);
	return result;
}
