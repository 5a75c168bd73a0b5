/* The test step: agent-test lays the tree out and starts the jail, whose exit facts come
 * straight here. */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/fds.h"
#include "pipeline/jailtested.h"
#include "sandbox/jail_find.h"
#include "sandbox/jail_spec.h"

#define LAYOUT_SLACK_S 600 /* a large change is many files */

struct json *test_job(const struct run *run, const char *scratch, const char *objects,
		      const char *tree)
{
	struct json *job = js_object_new(), *paths = repository_paths(&run->repo);
	char *store AUTO_FREE = mem_printf("%s/store", run->dir.state);
	struct json *layers = js_array_new();

	js_set_str(paths, "store", store); /* names only: its row may not open it */
	for (size_t i = 0; i < run->layers.count; i++) {
		char *name AUTO_FREE = mem_printf("base/%s/tree", run->layers.layers[i].tree);

		js_push_str(layers, name);
	}
	js_set_str(paths, "scratch", scratch);
	if (objects)
		js_set_str(paths, "objects", objects);
	js_set(job, "paths", paths);
	js_set_str(job, "tree", tree);
	js_set_str(job, "base_tree", run_base(run, "tree"));
	js_set(job, "base_layers", layers);
	js_set_str(job, "deps", run->deps_key);
	js_set_int(job, "log_bytes", config_number(run->config, "jail.output"));
	js_set_int(job, "idle_ms", config_number(run->config, "jail.idle") * 1000);
	js_set_bool(job, "git", strcmp(config_get(run->config, "test.git"), "snapshot") == 0);
	js_set_int(job, "time", js_int(run->base, "committer_time", 0));
	return job;
}

struct test_files {
	int tree, out, log, spec, facts[2];
	struct jailtested tested;
};

static void close_files(struct test_files *files)
{
	fd_close_ptr(&files->tree);
	fd_close_ptr(&files->out);
	fd_close_ptr(&files->log);
	fd_close_ptr(&files->spec);
	fd_close_ptr(&files->facts[0]);
	fd_close_ptr(&files->facts[1]);
}

static int open_files(struct run *run, int round, const char *scratch, struct test_files *files,
		      struct error *err)
{
	char *tree AUTO_FREE = round_file(round, "tree.json");
	char *layout AUTO_FREE = round_file(round, "layout.json"),
		     *log AUTO_FREE = round_file(round, "log");
	struct jail_spec spec;
	int result;

	files->tree = rundir_file(&run->dir, tree, err);
	files->out = files->tree < 0 ? -1 : rundir_part(&run->dir, layout, err);
	files->log = files->out < 0 ? -1 : rundir_part(&run->dir, log, err);
	if (files->log < 0)
		return err->kind;
	if (jailplan_stream(files->facts, err))
		return err->kind;
	jail_spec_init(&spec);
	result =
	    jailplan_test(run->config, run->dir.state, scratch, run->recipe, NULL, &spec, err);
	spec.audit = true;
	spec.separate_uid = run->separate_uid;
	if (result == 0) {
		jailtested_look(run->dir.state, &spec, &files->tested);
		files->spec = jailplan_memfd(&spec, err);
	}
	jail_spec_release(&spec);
	return files->spec < 0 ? err->kind : 0;
}

static int run_test(struct run *run, const struct json *job, struct test_files *files,
		    struct jail_facts *facts, struct json **audit, struct error *err)
{
	struct supervised stage = {0};
	struct spawn_fd fds[] = {{FD_TREE, files->tree},
				 {FD_OUT, files->out},
				 {FD_LOG, files->log},
				 {FD_SPEC, files->spec},
				 {FD_FACTS, files->facts[1]}};
	unsigned wall_s = (unsigned)config_number(run->config, "test.timeout") + LAYOUT_SLACK_S;
	int result = supervise_start(&run->sup, &stage, STAGE_TEST, job, fds, ARRAY_LEN(fds),
				     wall_s, NULL, NULL, err);

	close(files->facts[1]);
	files->facts[1] = -1;
	if (result == 0)
		result = supervise_wait(&run->sup, &stage, err);
	supervise_end(&run->sup, &stage);
	if (result == ERROR_INTERRUPTED)
		return result;
	/* A set-up error of the jail says more than the stage that saw its end. */
	if (result != 0) {
		struct error ignored = {0};

		if (jailplan_read_facts(&run->sup, files->facts[0], facts, NULL, &ignored) ==
			0 &&
		    facts->outcome == JAIL_SETUP)
			return jailplan_judge(facts, "", err);
		return result;
	}
	result = jailplan_read_facts(&run->sup, files->facts[0], facts, audit, err);
	if (result == 0)
		jailtested_keep(run->dir.state, &files->tested, facts);
	return result;
}

/* What a red test's output says was missing in the jail, and this machine has; owned, or NULL. */
static char *advice_of(const struct run *run, const char *log_name)
{
	struct strbuf log AUTO_STRBUF = STRBUF_NONE;
	struct error ignored = {0};
	bool has_git = strcmp(config_get(run->config, "test.git"), "none") != 0;

	strbuf_init(&log, STRBUF_MAX);
	if (fd_read_file(run->dir.fd, log_name, &log, &ignored))
		return NULL;
	return jail_find_advice(log.data, log.len, getenv("HOME"), getenv("PATH"), has_git);
}

static int keep_verdict(struct run *run, int round, const char *tree,
			const struct jail_facts *facts, bool *green, char **advice,
			struct error *err)
{
	char *layout_name AUTO_FREE = round_file(round, "layout.json");
	char *log AUTO_FREE = round_file(round, "log"),
		  *name AUTO_FREE = round_file(round, "verdict.json");
	struct json *layout AUTO_JSON = NULL, *verdict AUTO_JSON = NULL;

	if (rundir_accept(&run->dir, layout_name, VERDICT_MAX, false, err) ||
	    rundir_accept(&run->dir, log, (size_t)1 << 30, true, err))
		return err->kind;
	layout = rundir_read(&run->dir, layout_name, "layout", VERDICT_MAX, err);
	if (!layout)
		return err->kind;
	if (strcmp(js_str(layout, "tree", ""), tree) != 0)
		return error_set(err, ERROR_FAILED, "agent-test laid out tree %s instead of %s",
				 js_str(layout, "tree", "none"), tree);
	verdict = jailplan_verdict(facts, tree, config_get(run->config, "test.command"));
	js_set_str(verdict, "change_by", run_change_command(run) ? "command" : "model");
	js_set(verdict, "layers", js_copy(js_get(layout, "layers")));
	js_set_int(verdict, "log_bytes", js_int(layout, "log_bytes", 0));
	js_set_bool(verdict, "log_truncated", js_bool(layout, "log_truncated", false));
	*green = js_bool(verdict, "green", false);
	*advice = *green ? NULL : advice_of(run, log);
	js_set_str(verdict, "advice", *advice);
	return rundir_write(&run->dir, name, verdict, err);
}

void step_show_tail(struct run *run, const char *log_name)
{
	struct strbuf log AUTO_STRBUF = STRBUF_NONE;
	struct error ignored = {0};
	const char *at;
	int lines = 0;

	strbuf_init(&log, STRBUF_MAX);
	if (fd_read_file(run->dir.fd, log_name, &log, &ignored) || !log.len)
		return;
	for (at = log.data + log.len - 1; at > log.data; at--)
		if (at[-1] == '\n' && ++lines == 6)
			break;
	while (*at) {
		size_t len = strcspn(at, "\n");

		journal_note(&run->journal, "           | %.*s", (int)(len > 160 ? 160 : len),
			     at);
		at += len + (at[len] ? 1 : 0);
	}
}

int step_test(struct run *run, int round, bool *green, struct error *err)
{
	char *verdict_name AUTO_FREE = round_file(round, "verdict.json");
	char *tree_name AUTO_FREE = round_file(round, "tree.json"),
			*scratch_name AUTO_FREE = NULL,
			*audit_name AUTO_FREE = round_file(round, "audit.json"),
			*log_name AUTO_FREE = round_file(round, "log");
	char *scratch AUTO_FREE = NULL,
		      *objects AUTO_FREE = mem_printf("%s/objects", run->dir.path);
	struct json *verdict AUTO_JSON = NULL, *tree AUTO_JSON = NULL, *job AUTO_JSON = NULL,
			     *audit AUTO_JSON = NULL;
	struct test_files files = {-1, -1, -1, -1, {-1, -1}, {""}};
	struct jail_facts facts = {0};
	char *advice AUTO_FREE = NULL;
	char text[512];
	int result;

	verdict = rundir_read(&run->dir, verdict_name, "verdict", VERDICT_MAX, err);
	if (verdict) {
		*green = js_bool(verdict, "green", false);
		return 0;
	}
	journal_stage(&run->journal, "test", config_get(run->config, "test.command"));
	tree = rundir_read(&run->dir, tree_name, "tree", TREE_MAX, err);
	scratch_name = round_file(round, "work");
	scratch = tree ? rundir_subdir(&run->dir, scratch_name, err) : NULL;
	if (!scratch || rundir_give(scratch, STAGE_UID_BASE + STAGE_TEST, err))
		return err->kind;
	job = test_job(run, scratch, objects, js_str(tree, "tree", ""));
	result = open_files(run, round, scratch, &files, err);
	if (result == 0)
		result = run_test(run, job, &files, &facts, &audit, err);
	close_files(&files);
	if (result == 0)
		result = jailplan_judge(&facts, config_get(run->config, "test.command"), err);
	if (result == 0 && audit)
		result = rundir_write(&run->dir, audit_name, audit, err);
	if (result == 0)
		result = keep_verdict(run, round, js_str(tree, "tree", ""), &facts, green,
				      &advice, err);
	if (result)
		return result;
	jailplan_describe(&facts, text, sizeof(text));
	journal_done(&run->journal, "%s: %s", *green ? "green" : "red", text);
	verdict = rundir_read(&run->dir, verdict_name, "verdict", VERDICT_MAX, err);
	if (!verdict)
		return err->kind;
	denied_note(&run->journal, verdict, "denied");
	if (!*green)
		step_show_tail(run, log_name);
	if (advice)
		journal_note(&run->journal, "           next: %s", advice);
	return 0;
}
