/*
 * NAME
 *	agent-fetch - makes a layer of a base commit's dependencies; keeps a mirror of a remote repository
 *
 * SYNOPSIS
 *	agent-fetch warm | mirror	(started by agent only)
 *
 * READS
 *	FD_JOB	{"paths":{"repo","common","alternates","store":state's store/deps},"recipe","base_tree","config_commit",
 *		"from","plan","run","verify","hosts":[…],"replaced_host","inputs":[…],"outputs":[…],"words":[…],
 *		"limits":{"log_bytes","files","bytes"}}
 *	FD_SPEC, FD_SPEC2	passed on to agent-jail unread
 *
 * WRITES
 *	FD_OUT	fetch.json: {"kind":"fetch","version":1,"key","recipe","inputs":[{"path","oid"}…],"digest","warmed":bool,
 *		"files":N,"bytes":N}
 *	FD_LOG	what both jails printed, capped
 *	FD_CONTROL	{"event":"not_base","paths":[…],"more":N}, first, where the trusted ref decided;
 *		{"event":"warmed"} and {"event":"verified"} when a jail has ended; the supervisor, which alone
 *		has the jail's exit facts, answers {"ok":true} or {"ok":false,"why":"…","next":"…"}
 *	store/deps/.tmp-<run>, store/deps/<key>, store/deps/by-tree
 *
 *	mirror: FD_JOB as pipeline/publish/mirror.h has it, FD_NET to agent-dial, FD_SECRET the read credential (or none)
 *	-> the mirror's git directory; {"event":"result","changed","head"}; or to be packed, with neither of the two
 *
 * SECURITY
 *	mirror: hostile is what the server sends, which git checks as it comes (fsckObjects); runs git, ssh, ssh-agent
 *	and ssh-add, with a configuration that we write. A compromise yields the read credential, and a mirror of the
 *	attacker's choice; it can reach the one host, and write that mirror alone.
 *	warm: Hostile inputs: the repository's objects and lock files; the files that the package manager and what it
 *	downloaded left in the output directories. Reach: reads the repository, writes the store; no
 *	network, no sockets, runs nothing after its start (both jails are started before it gives up power and wait
 *	for a go). A compromise can poison layers of this user's store, and so what later tests of the same
 *	inputs see; it cannot reach a secret, a host, or the repository.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gitops/repo.h"
#include "gitops/view.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/events.h"
#include "pipeline/fds.h"
#include "pipeline/fetch/skeleton.h"
#include "pipeline/fetch/store.h"
#include "pipeline/publish/mirror.h"
#include "pipeline/stage.h"
#include "sandbox/jail_spec.h"
#include "sandbox/jail_start.h"

#define PLAN_MAX ((size_t)4 << 20)
#define TOLD_MAX 10 /* paths */

static struct jail_handle warm_jail = {.pid = -1, .go_fd = -1, .output_fd = -1, .take_fd = -1};
static struct jail_handle verify_jail = {
    .pid = -1, .go_fd = -1, .output_fd = -1, .take_fd = -1};
static bool has_warm, has_verify;

/* ---- before power is given up ---- */

static int prestart(struct stage *stage, struct error *err)
{
	if (stage_id_of(stage->row) == STAGE_MIRROR)
		return 0;
	if (jail_start(&warm_jail, FD_FACTS, FD_SPEC, FD_EGRESS, -1, -1, -1, err))
		return err->kind;
	has_warm = true;
	if (!fd_is_open(FD_SPEC2))
		return 0;
	if (jail_start(&verify_jail, FD_FACTS2, FD_SPEC2, -1, -1, -1, -1, err))
		return err->kind;
	has_verify = true;
	return 0;
}

static void close_jails(void)
{
	if (has_warm)
		jail_close(&warm_jail);
	if (has_verify)
		jail_close(&verify_jail);
	has_warm = has_verify = false;
}

/* ---- one warm ---- */

struct warm {
	const struct json *job;
	const char *run, *tree, *config_commit, *from, *plan;
	bool npm;
	struct gitops_repo *repo;
	struct view *view,
	    *trusted; /* of the base; of the commit that the configuration is of */
	struct skeleton skeleton;
	int deps, tmp, work, home; /* owned */
	size_t log_bytes;
	char key[STORE_KEY_SIZE];
	struct seal seal;
};

static void release(struct warm *warm)
{
	skeleton_release(&warm->skeleton);
	view_free(warm->view);
	view_free(warm->trusted);
	repo_close(warm->repo);
	fd_close_ptr(&warm->deps);
	fd_close_ptr(&warm->tmp);
	fd_close_ptr(&warm->work);
	fd_close_ptr(&warm->home);
}

static int open_below(int dir, const char *name, struct error *err)
{
	int fd = fd_open_beneath(dir, name, O_RDONLY | O_DIRECTORY, 0);

	if (fd < 0)
		error_errno(err, ERROR_FAILED, errno, "store: %s", name);
	return fd;
}

static int open_store(struct warm *warm, const char *store, struct error *err)
{
	AUTO_FREE char *tmp = mem_printf(".tmp-%s", warm->run);

	if (!store)
		return error_set(err, ERROR_USAGE, "the job names no store");
	warm->deps = open(store, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (warm->deps < 0)
		return error_errno(err, ERROR_FAILED, errno, "%s", store);
	if ((warm->tmp = open_below(warm->deps, tmp, err)) < 0 ||
	    (warm->work = open_below(warm->tmp, "work", err)) < 0 ||
	    (warm->home = open_below(warm->tmp, "home", err)) < 0)
		return err->kind;
	return 0;
}

static int read_job(const struct stage *stage, struct warm *warm, struct error *err)
{
	const struct json *limits = js_get(stage->job, "limits");
	const char *recipe;

	warm->job = stage->job;
	if (js_need_str(warm->job, "recipe", &recipe, err) ||
	    js_need_str(warm->job, "run", &warm->run, err) ||
	    js_need_str(warm->job, "base_tree", &warm->tree, err) ||
	    js_need_str(warm->job, "config_commit", &warm->config_commit, err) ||
	    js_need_str(warm->job, "from", &warm->from, err) ||
	    js_need_str(warm->job, "plan", &warm->plan, err))
		return err->kind;
	warm->npm = strcmp(recipe, "npm") == 0;
	if (!warm->npm && strcmp(recipe, "general") != 0)
		return error_set(err, ERROR_USAGE, "no recipe %s", recipe);
	warm->log_bytes = (size_t)js_int(limits, "log_bytes", 1 << 20);
	warm->seal.max_files = (uint64_t)js_int(limits, "files", 1000000);
	warm->seal.max_bytes = (uint64_t)js_int(limits, "bytes", 8LL << 30);
	return open_store(warm, stage_path(stage, "store"), err);
}

/* Tells of inputs where the base commit has no say; the line is capped. */
static void tell_not_base(const struct warm *warm)
{
	struct json *fields = js_object_new(), *paths = js_array_new();
	size_t count = 0;

	for (char **path = warm->skeleton.not_base; path && *path; path++)
		if (count++ < TOLD_MAX)
			js_push_str(paths, *path);
	js_set(fields, "paths", paths);
	js_set_int(fields, "more", (long long)(count > TOLD_MAX ? count - TOLD_MAX : 0));
	if (count)
		event_send("not_base", fields);
	else
		js_free(fields);
}

static int read_base(const struct stage *stage, struct warm *warm, struct error *err)
{
	struct skeleton_trees trees;
	char tree[GITOPS_OID_SIZE];

	if (repo_open_job(js_get(stage->job, "paths"), false, &warm->repo, err))
		return err->kind;
	warm->view = view_new(warm->repo, warm->tree, NULL, err);
	if (!warm->view || repo_commit_tree(warm->repo, warm->config_commit, tree, err))
		return err->kind;
	warm->trusted = view_new(warm->repo, tree, NULL, err);
	if (!warm->trusted)
		return err->kind;
	trees = (struct skeleton_trees){warm->view, warm->trusted, js_get(warm->job, "words")};
	if (warm->npm ? skeleton_npm(&trees, warm->job, &warm->skeleton, err)
		      : skeleton_general(&trees, warm->job, &warm->skeleton, err))
		return err->kind;
	tell_not_base(warm);
	skeleton_key(&warm->skeleton, warm->plan, warm->key);
	return 0;
}

/* ---- jails ---- */

/* Only the supervisor has the exit facts. */
static int ask_outcome(const char *event, const char *what, struct error *err)
{
	AUTO_JSON struct json *answer = NULL;

	event_send(event, js_object_new());
	answer = event_answer(err);
	if (!answer)
		return err->kind;
	if (js_bool(answer, "ok", false))
		return 0;
	error_set(err, ERROR_FAILED, "%s failed: %s", what,
		  js_str(answer, "why", "the jail did not exit with 0"));
	if (js_str(answer, "next", "")[0])
		error_next(err, "%s", js_str(answer, "next", ""));
	return err->kind;
}

static int run_jail(const struct warm *warm, struct jail_handle *jail, const struct jail_go *go,
		    const char *event, const char *what, struct error *err)
{
	unsigned long long total = 0;
	int truncated = 0;

	dprintf(FD_LOG, "== %s\n", what);
	if (jail_send_go(jail, go, err) ||
	    jail_collect(jail, FD_LOG, warm->log_bytes, &total, &truncated, err))
		return error_wrap(err, "%s", what);
	return ask_outcome(event, what, err);
}

/* npm exits with 0 although it left out what it did not understand: look for what it should
 * have made. */
static int check_required(const struct warm *warm, struct error *err)
{
	for (char **path = warm->skeleton.required; path && *path; path++) {
		AUTO_FD int fd = fd_open_beneath(warm->work, *path, O_PATH | O_DIRECTORY, 0);

		if (fd < 0)
			return error_set(err, ERROR_NO,
					 "the warm exited with 0 but did not install %s",
					 *path);
	}
	return 0;
}

static int run_warm(struct warm *warm, struct error *err)
{
	struct jail_go go;
	int kind;

	if (skeleton_write(&warm->skeleton, warm->view, warm->work, err))
		return err->kind;
	if (warm->npm) {
		AUTO_FD int pristine = -1;

		if (mkdirat(warm->tmp, "skeleton", 0755) < 0)
			return error_errno(err, ERROR_FAILED, errno, "store: skeleton");
		pristine = open_below(warm->tmp, "skeleton", err);
		if (pristine < 0 || skeleton_write(&warm->skeleton, warm->view, pristine, err))
			return err->kind;
	}
	event_progress("fetching dependencies");
	jail_go_init(&go);
	kind = run_jail(warm, &warm_jail, &go, "warmed", "the warm", err);
	jail_go_release(&go);
	return kind ? kind : check_required(warm, err);
}

/* npm: a second installation of the pristine skeleton from the warmed cache alone. general: the
 * command that the configuration names, over what the warm left. */
static int run_verify(struct warm *warm, struct error *err)
{
	AUTO_FREE char *work =
	    mem_printf("deps/.tmp-%s/%s", warm->run, warm->npm ? "skeleton" : "work");
	AUTO_FREE char *home = mem_printf("deps/.tmp-%s/home", warm->run);
	struct jail_go go;
	int kind;

	event_progress("verifying dependencies without network");
	jail_go_init(&go);
	jail_go_add(&go, work);
	jail_go_add_home(&go, home);
	kind = run_jail(warm, &verify_jail, &go, "verified", "the check without network", err);
	jail_go_release(&go);
	return kind;
}

/* ---- sealing ---- */

static int make_seal(const struct warm *warm, int *seal, int *work, int *home,
		     struct error *err)
{
	if (mkdirat(warm->tmp, "seal", 0755) < 0 || mkdirat(warm->tmp, "seal/work", 0755) < 0 ||
	    mkdirat(warm->tmp, "seal/home", 0755) < 0)
		return error_errno(err, ERROR_FAILED, errno, "store: seal");
	*seal = open_below(warm->tmp, "seal", err);
	if (*seal < 0 || (*work = open_below(*seal, "work", err)) < 0 ||
	    (*home = open_below(*seal, "home", err)) < 0)
		return err->kind;
	return 0;
}

/* npm makes no node_modules where there is nothing to install; an output that was named must be
 * there. */
static int take_outputs(const struct warm *warm, int work, int home, struct error *err)
{
	for (char **output = warm->skeleton.outputs; output && *output; output++) {
		bool below_home = strncmp(*output, "~/", 2) == 0;
		struct error missing = {0};
		int kind =
		    store_take(below_home ? warm->home : warm->work, below_home ? home : work,
			       below_home ? *output + 2 : *output, &missing);

		if (!kind || (kind == ERROR_NO && warm->npm))
			continue;
		*err = missing;
		return kind;
	}
	return 0;
}

static void drop_leavings(const struct warm *warm)
{
	/* parts of npm's cache that no later run reads; what cannot be removed is sealed and
	 * harmless */
	if (warm->npm)
		fd_remove_tree(warm->home, ".npm/_cacache/tmp");
}

static struct json *describe(const struct warm *warm, bool warmed)
{
	struct json *out = js_artefact_new("fetch", 1), *inputs = js_array_new();

	js_set_str(out, "key", warm->key);
	js_set_str(out, "recipe", warm->npm ? "npm" : "general");
	for (size_t i = 0; i < warm->skeleton.count; i++) {
		struct json *input = js_object_new();

		js_set_str(input, "path", warm->skeleton.files[i].path);
		js_set_str(input, "oid",
			   warm->skeleton.files[i].oid[0] ? warm->skeleton.files[i].oid : NULL);
		js_push(inputs, input);
	}
	js_set(out, "inputs", inputs);
	js_set_str(out, "digest", warm->seal.digest);
	js_set_bool(out, "warmed", warmed);
	js_set_int(out, "files", (long long)warm->seal.files);
	js_set_int(out, "bytes", (long long)warm->seal.bytes);
	return out;
}

static int write_layer_json(const struct warm *warm, int seal, struct error *err)
{
	AUTO_JSON struct json *layer = describe(warm, true);
	AUTO_STRBUF struct strbuf text = STRBUF_NONE;

	strbuf_init(&text, STRBUF_MAX);
	js_format_pretty(layer, &text);
	return fd_replace_file(seal, "layer.json", text.data, text.len, 0444, err);
}

static int seal_layer(struct warm *warm, bool *won, struct error *err)
{
	AUTO_FD int seal = -1, work = -1, home = -1;

	drop_leavings(warm);
	if (make_seal(warm, &seal, &work, &home, err) || take_outputs(warm, work, home, err))
		return err->kind;
	event_progress("sealing the layer");
	if (store_manifest(seal, &warm->seal, err) || write_layer_json(warm, seal, err))
		return err->kind;
	return store_seal(warm->deps, warm->tmp, warm->key, won, err);
}

/* ---- the result ---- */

/* Digest and counts of the layer that is in the store, whoever made it. */
static int read_layer(struct warm *warm, struct error *err)
{
	AUTO_FREE char *path = mem_printf("%s/layer.json", warm->key);
	AUTO_STRBUF struct strbuf text = STRBUF_NONE;
	AUTO_JSON struct json *layer = NULL;
	const char *digest;

	strbuf_init(&text, PLAN_MAX);
	if (fd_read_file(warm->deps, path, &text, err))
		return err->kind;
	layer = js_parse(text.data, text.len, PLAN_MAX, "layer.json", err);
	if (!layer || js_check_kind(layer, "fetch", 1, err) ||
	    js_need_str(layer, "digest", &digest, err))
		return err->kind;
	if (!text_is_hex(digest, STORE_KEY_SIZE - 1))
		return error_set(err, ERROR_FAILED, "layer.json: malformed digest");
	memcpy(warm->seal.digest, digest, STORE_KEY_SIZE);
	warm->seal.files = (uint64_t)js_int(layer, "files", 0);
	warm->seal.bytes = (uint64_t)js_int(layer, "bytes", 0);
	return 0;
}

static int report(const struct warm *warm, bool warmed, struct error *err)
{
	AUTO_JSON struct json *out = describe(warm, warmed);
	AUTO_STRBUF struct strbuf text = STRBUF_NONE;
	char name[STORE_KEY_SIZE];

	store_tree_name(warm->from, warm->plan, name);
	/* a run that is to be told something must come by here */
	if (!warm->skeleton.not_base &&
	    store_remember(warm->deps, warm->tmp, name, warm->key, err))
		return err->kind;
	strbuf_init(&text, STRBUF_MAX);
	js_format_pretty(out, &text);
	if (fd_write_all(FD_OUT, text.data, text.len) < 0)
		return error_errno(err, ERROR_FAILED, errno, "fetch.json");
	return 0;
}

static int fetch(const struct stage *stage, struct warm *warm, struct error *err)
{
	bool won = false;

	if (read_job(stage, warm, err) || read_base(stage, warm, err))
		return err->kind;
	if (!store_has(warm->deps, warm->key)) {
		if (run_warm(warm, err) || (has_verify && run_verify(warm, err)) ||
		    seal_layer(warm, &won, err))
			return err->kind;
	}
	if (!won && read_layer(warm, err))
		return err->kind;
	return report(warm, won, err);
}

static int run_warm_row(struct stage *stage, struct error *err)
{
	struct warm warm = {.deps = -1, .tmp = -1, .work = -1, .home = -1};
	int kind = fetch(stage, &warm, err);

	close_jails();
	release(&warm);
	return kind;
}

static int run(struct stage *stage, struct error *err)
{
	if (stage_id_of(stage->row) != STAGE_MIRROR)
		return run_warm_row(stage, err);
	return js_bool(stage->job, "pack", false) ? mirror_pack(stage->job, err)
						  : mirror_fetch(stage->job, err);
}

int main(int argc, char **argv)
{
	return stage_main(argc, argv, prestart, run);
}
