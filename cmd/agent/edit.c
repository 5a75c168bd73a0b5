/* agent edit [--tree REV | --dir DIR] FILE|-: a model's answer that somebody has in a file, read
 * and applied by the engine of a run; shown, and written only when told to. */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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
#include "pipeline/fds.h"

#define TEXT_MAX (32u << 20)
#define TRIAL_MAX ((size_t)512 << 20)

struct edit_command {
	struct options *options;
	struct run run;
	char *dir;	/* owned: absolute; NULL: a tree */
	char *scratch;	/* owned: the row's own */
	char *objects;	/* owned */
	int text_fd;	/* owned */
	int index_lock; /* owned: index.lock, or -1 */
};

static int read_text(struct edit_command *command, struct error *err)
{
	const char *name = command->options->words[0];
	AUTO_STRBUF struct strbuf text = STRBUF_NONE;
	bool input = strcmp(name, "-") == 0;
	int fd AUTO_FD =
	    input ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open_plain(name, "edits in", err);

	strbuf_init(&text, TEXT_MAX);
	if (fd < 0 && !input)
		return err->kind;
	if (fd < 0 || fd_read_all(fd, &text) < 0)
		return errno == EFBIG ? error_set(err, ERROR_USAGE, "%s has more than %u bytes",
						  name, TEXT_MAX)
				      : error_errno(err, ERROR_USAGE, errno, "%s",
						    input ? "standard input" : name);
	command->text_fd = fd_memfd_sealed("edits", text.data, text.len);
	return command->text_fd < 0 ? error_errno(err, ERROR_FAILED, errno, "memfd_create") : 0;
}

/* ---- opening ---- */

static int open_tree(struct edit_command *command, struct error *err)
{
	struct run *run = &command->run;
	struct json *request AUTO_JSON = js_artefact_new("request", 1);
	struct repository repo = {0};
	int result = repository_find(NULL, &repo, err);

	if (result == 0) {
		js_set_str(request, "rev", command->options->tree);
		js_set_str(request, "repository", repo.work_dir ? repo.work_dir : repo.git_dir);
		result = rundir_write(&run->dir, "request.json", request, err);
	}
	repository_release(&repo);
	if (result == 0)
		result = run_open(run, command->options, err);
	run->journal.quiet = true;
	run->journal.json = run->journal.terminal = false;
	return result ? result : step_base(run, err);
}

static int open_dir(struct edit_command *command, struct error *err)
{
	const char *dir = command->options->dir ? command->options->dir : ".";
	struct stat st;

	command->dir = realpath(dir, NULL);
	if (!command->dir || stat(command->dir, &st) < 0 || !S_ISDIR(st.st_mode))
		return error_set(err, ERROR_USAGE, "--dir %s: no such directory", dir);
	journal_init(&command->run.journal, false);
	command->run.journal.quiet = true;
	command->run.journal.terminal = false;
	return supervise_init(&command->run.sup, &command->run.journal, err);
}

static const struct config *config_of(const struct edit_command *command)
{
	return command->run.config ? command->run.config : command->options->config;
}

/* The index is ours from before it is read until the new one is in its place. */
static int lock_index(struct edit_command *command, struct error *err)
{
	char *path AUTO_FREE = mem_printf("%s/index.lock", command->run.repo.git_dir);

	command->index_lock = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (command->index_lock >= 0)
		return 0;
	error_errno(err, ERROR_FAILED, errno, "%s", path);
	return error_next(err, "wait for the git command that is at work, or remove the file "
			       "when there is none");
}

static struct json *make_job(const struct edit_command *command)
{
	const struct config *config = config_of(command);
	struct json *job = js_object_new(), *limits = js_object_new();
	struct json *paths =
	    command->dir ? js_object_new() : repository_paths(&command->run.repo);

	if (command->dir) {
		js_set_str(paths, "repo", command->scratch);
		js_set_str(paths, "dir", command->dir);
	} else {
		js_unset(paths, "workdir");
		js_set_str(job, "tree", run_base(&command->run, "tree"));
		js_set_bool(job, "index", command->options->write);
	}
	js_set_str(paths, "objects", command->objects);
	js_set(job, "paths", paths);
	js_set_str(job, "format", command->options->format ? command->options->format : "auto");
	js_set_int(limits, "files", config_number(config, "apply.maxFiles"));
	js_set_int(limits, "bytes", config_number(config, "apply.maxBytes"));
	js_set(job, "limits", limits);
	js_set(job, "policy", edit_policy(config));
	return job;
}

static int run_try(struct edit_command *command, struct error *err)
{
	struct run *run = &command->run;
	struct supervised stage = {0};
	struct json *job AUTO_JSON = NULL;
	int out AUTO_FD = rundir_part(&run->dir, "trial.json", err);
	int patch AUTO_FD = out < 0 ? -1 : rundir_part(&run->dir, "patch.diff", err);
	int result;

	if (patch < 0)
		return err->kind;
	command->scratch = rundir_subdir(&run->dir, "try", err);
	command->objects =
	    command->scratch ? rundir_subdir(&run->dir, "try/objects", err) : NULL;
	if (!command->objects || rundir_give(command->scratch, STAGE_UID_BASE + STAGE_TRY, err))
		return err->kind;
	job = make_job(command);
	result = supervise_start(&run->sup, &stage, STAGE_TRY, job,
				 (struct spawn_fd[]){{FD_CHANGES, command->text_fd},
						     {FD_OUT, out},
						     {FD_PATCH, patch}},
				 3, 0, NULL, NULL, err);
	if (result == 0)
		result = supervise_wait(&run->sup, &stage, err);
	supervise_end(&run->sup, &stage);
	if (result == 0)
		result = rundir_accept(&run->dir, "patch.diff", PATCH_MAX, true, err);
	return result ? result : rundir_accept(&run->dir, "trial.json", TRIAL_MAX, false, err);
}

/* ---- telling ---- */

static void tell_one(const char *code, const char *path, const char *message)
{
	char shown[512];

	text_escape(shown, sizeof(shown), path, strlen(path));
	AUTO_STRBUF struct strbuf text = STRBUF_NONE;
	strbuf_init(&text, 65536);
	text_escape_lines(&text, message, strlen(message));
	while (text.len && text.data[text.len - 1] == '\n')
		text.data[--text.len] = '\0';
	fprintf(stderr, "%-20s %s%s%s\n", code, shown, shown[0] ? ": " : "", text.data);
}

static void tell_edits(const struct json *trial)
{
	const struct json *edits = js_get(trial, "edits"),
			  *review = js_get(js_get(trial, "policy"), "review"),
			  *stripped = js_get(js_get(trial, "policy"), "stripped");

	if (js_str(trial, "message", NULL)) {
		char *where AUTO_FREE = js_int(trial, "line", 0)
					    ? mem_printf("line %lld", js_int(trial, "line", 0))
					    : mem_strdup("");
		tell_one(js_str(trial, "outcome", "?"), where, js_str(trial, "message", ""));
	}
	for (size_t i = 0; i < js_len(edits); i++)
		tell_one(js_str(js_at(edits, i), "code", "?"),
			 js_str(js_at(edits, i), "path", "?"),
			 js_str(js_at(edits, i), "message", ""));
	for (size_t i = 0; i < js_len(review); i++)
		tell_one("needs review", js_str(js_at(review, i), "path", "?"),
			 js_str(js_at(review, i), "why", ""));
	for (size_t i = 0; i < js_len(stripped); i++)
		tell_one("left out", js_str(js_at(stripped, i), "path", "?"),
			 js_str(js_at(stripped, i), "rule", ""));
}

static int tell(struct edit_command *command, struct json *trial, bool written,
		struct error *err)
{
	AUTO_STRBUF struct strbuf patch = STRBUF_NONE, text = STRBUF_NONE;
	int result;

	strbuf_init(&patch, PATCH_MAX);
	strbuf_init(&text, STRBUF_MAX);
	result = fd_read_file(command->run.dir.fd, "patch.diff", &patch, err);
	if (result)
		return result;
	if (command->options->json) {
		js_unset(trial, "files");
		js_set_bytes(trial, "diff", patch.data, patch.len);
		js_set_bool(trial, "written", written);
		js_format_ascii(trial, &text);
		strbuf_addc(&text, '\n');
	} else {
		tell_edits(trial);
		if (isatty(STDOUT_FILENO)) /* hostile text stays text */
			text_escape_lines(&text, patch.data, patch.len);
		else
			strbuf_add(&text, patch.data, patch.len);
	}
	fwrite(text.data, 1, text.len, stdout);
	return 0;
}

/* The outcome of all as a result: 0, ERROR_NO, or ERROR_USAGE for a text that is no whole edit. */
static int judge(const struct json *trial, struct error *err)
{
	const char *outcome = js_str(trial, "outcome", "?");
	bool bad = strcmp(outcome, "E_MALFORMED") == 0 || strcmp(outcome, "E_TRUNCATED") == 0;

	if (strcmp(outcome, "ok") == 0 || strcmp(outcome, "E_ALREADY_APPLIED") == 0)
		return 0;
	return error_set(err, bad ? ERROR_USAGE : ERROR_NO,
			 "%s: not every edit applies, so none is made", outcome);
}

static int finish(struct edit_command *command, struct error *err)
{
	struct run *run = &command->run;
	struct json *trial AUTO_JSON =
	    rundir_read(&run->dir, "trial.json", "trial", TRIAL_MAX, err);
	bool write =
	    command->options->write && trial && strcmp(js_str(trial, "outcome", ""), "ok") == 0;
	int result;

	if (!trial)
		return err->kind;
	if (write && command->dir)
		result = edit_write_dir(command->dir, js_get(trial, "files"), err);
	else if (write)
		result = edit_write_index(run->repo.git_dir, run->repo.common_dir,
					  command->objects, command->index_lock, err);
	else
		result = 0;
	if (result)
		return result;
	result = tell(command, trial, write, err);
	return result ? result : judge(trial, err);
}

static void release(struct edit_command *command)
{
	struct error ignored = {0};

	if (command->index_lock >= 0) {
		char *path AUTO_FREE = mem_printf("%s/index.lock", command->run.repo.git_dir);

		unlink(path); /* gone already when the new index is in its place */
	}
	fd_close_ptr(&command->index_lock);
	fd_close_ptr(&command->text_fd);
	supervise_release(&command->run.sup);
	if (command->run.dir.path)
		rundir_remove(&command->run.dir, &ignored);
	run_release(&command->run);
	free(command->dir);
	free(command->scratch);
	free(command->objects);
}

int cmd_edit(struct options *options, struct error *err)
{
	struct edit_command command = {.options = options,
				       .run = {.key_fd = -1,
					       .dir = {.fd = -1, .lock_fd = -1},
					       .sup = {.signal_fd = -1},
					       .journal = {.events_fd = -1}},
				       .text_fd = -1,
				       .index_lock = -1};
	char *state AUTO_FREE = NULL;
	int result;

	if (options->word_count != 1 || (options->tree && options->dir)) {
		error_set(
		    err, ERROR_USAGE,
		    options->word_count == 1
			? "--tree and --dir exclude each other"
			: "agent edit needs one file with edits, or - for standard input");
		return error_next(err, "agent edit --help");
	}
	state = rundir_state_dir(err);
	if (!state || rundir_create_temporary(state, &command.run.dir, err))
		return err->kind;
	result = read_text(&command, err);
	if (result == 0)
		result = options->tree ? open_tree(&command, err) : open_dir(&command, err);
	if (result == 0 && options->tree && options->write)
		result = lock_index(&command, err);
	if (result == 0)
		result = run_try(&command, err);
	if (result == 0)
		result = finish(&command, err);
	release(&command);
	return result;
}
