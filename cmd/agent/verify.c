/* agent verify COMMIT: what a commit's signature and attestation are worth, derived again from
 * the objects of this clone. Needs no run directory. */
#include "agent.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/fds.h"

#define ALLOWED_MAX (1 << 18) /* bytes of an allowed signers file */
#define RESULT_MAX (8 << 20)

/* The file that --allowed-signers or verify.allowedSigners names, into the job. */
static int add_allowed(const struct options *options, struct json *job, struct error *err)
{
	const char *path = options->allowed_signers
			       ? options->allowed_signers
			       : config_get(options->config, "verify.allowedSigners");
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	int fd AUTO_FD = -1;

	if (!path)
		return 0;
	strbuf_init(&text, ALLOWED_MAX);
	fd = open_plain(path, "allowed signers", err);
	if (fd < 0)
		return error_next(err,
				  "name a file of lines as ssh-keygen(1), ALLOWED SIGNERS, "
				  "has them");
	if (fd_read_all(fd, &text) < 0)
		return error_errno(err, ERROR_USAGE, errno, "allowed signers %s", path);
	if (text.full || !text_is_utf8(text.data, text.len) ||
	    memchr(text.data, '\0', text.len))
		return error_set(err, ERROR_USAGE, "allowed signers %s: no text, or too long",
				 path);
	js_set_strn(job, "allowed_signers", text.data, text.len);
	return 0;
}

static int run_verify(struct rundir *dir, struct supervisor *sup, struct json *job,
		      struct error *err)
{
	struct supervised stage = {0};
	int out AUTO_FD = rundir_part(dir, "verify.json", err), result;

	if (out < 0)
		return err->kind;
	result = supervise_start(sup, &stage, STAGE_VERIFY, job,
				 (struct spawn_fd[]){{FD_OUT, out}}, 1, 0, NULL, NULL, err);
	if (result == 0)
		result = supervise_wait(sup, &stage, err);
	supervise_end(sup, &stage);
	return result ? result : rundir_accept(dir, "verify.json", RESULT_MAX, false, err);
}

/* ---- what people see ---- */

static void print_line(const char *mark, const char *name, const char *text)
{
	char shown[1024];

	text_escape(shown, sizeof(shown), text, strlen(text));
	printf("%-8s %-22s %s\n", mark, name, shown);
}

static void print_fact(const struct json *facts, const char *key, const char *label)
{
	if (js_str(facts, key, NULL))
		print_line("says", label, js_str(facts, key, ""));
}

/* What only the signer's word stands for. */
static void print_statement(const struct json *statement)
{
	const struct json *predicate = js_get(statement, "predicate");
	const struct json *facts = js_get(predicate, "agent"), *jail = js_get(facts, "jail");
	const struct json *first = js_at(js_get(predicate, "configuration"), 0);

	print_fact(js_get(first, "annotations"), "command", "test command");
	print_fact(facts, "model", "model");
	print_fact(js_get(facts, "command"), "text", "made by command");
	print_fact(js_get(facts, "command"), "network", "its network");
	print_fact(js_get(facts, "issue"), "sha256", "issue (sha256)");
	print_fact(jail, "backend", "jail");
	print_fact(jail, "isolation", "isolation");
	print_fact(facts, "run", "run");
}

/* How many checks are in a state. */
static size_t count_state(const struct json *checks, const char *state)
{
	size_t count = 0;

	for (size_t i = 0; i < js_len(checks); i++)
		count += strcmp(js_str(js_at(checks, i), "state", ""), state) == 0;
	return count;
}

static void print_checks(const struct json *result)
{
	const struct json *checks = js_get(result, "checks");

	printf("commit   %s\ntree     %s\n", js_str(result, "commit", ""),
	       js_str(result, "tree", ""));
	for (size_t i = 0; i < js_len(checks); i++) {
		const struct json *check = js_at(checks, i);

		print_line(js_str(check, "state", ""), js_str(check, "name", ""),
			   js_str(check, "text", ""));
	}
	print_statement(js_get(result, "statement"));
}

static void print_json(const struct json *result)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&text, STRBUF_MAX);
	js_format_ascii(result, &text);
	printf("%s\n", text.data);
}

/* Exit status 0 only when everything holds. */
static int judge(const struct json *result, struct error *err)
{
	const struct json *checks = js_get(result, "checks");
	size_t fails = count_state(checks, "fails"), unknown = count_state(checks, "unknown");

	if (fails + unknown == 0)
		return 0;
	error_set(err, ERROR_NO,
		  "commit %.12s: of %zu checks %zu hold, %zu do not, %zu cannot be known",
		  js_str(result, "commit", ""), js_len(checks),
		  js_len(checks) - fails - unknown, fails, unknown);
	for (size_t i = 0; i < js_len(checks); i++)
		if (js_str(js_at(checks, i), "next", NULL))
			return error_next(err, "%s", js_str(js_at(checks, i), "next", ""));
	if (!fails)
		error_next(err,
			   "name who may sign: --allowed-signers FILE (ssh-keygen(1), ALLOWED "
			   "SIGNERS)");
	return err->kind;
}

static int verify(const struct options *options, struct rundir *dir, struct supervisor *sup,
		  struct error *err)
{
	struct json *job AUTO_JSON = js_object_new(), *result AUTO_JSON = NULL, *paths;
	char *scratch AUTO_FREE = rundir_subdir(dir, "scratch", err);
	struct repository repo;
	int rc;

	if (!scratch || rundir_give(scratch, STAGE_UID_BASE + STAGE_VERIFY, err))
		return err->kind;
	rc = repository_find(NULL, &repo, err);
	if (rc == 0) {
		paths = repository_paths(&repo);
		js_set_str(paths, "scratch", scratch);
		js_set(job, "paths", paths);
		js_set(job, "remotes", repository_remotes(&repo));
		js_set_str(job, "rev", options->word_count ? options->words[0] : "HEAD");
		rc = add_allowed(options, job, err);
	}
	repository_release(&repo);
	if (rc == 0)
		rc = run_verify(dir, sup, job, err);
	if (rc)
		return rc;
	result = rundir_read(dir, "verify.json", "verify", RESULT_MAX, err);
	if (!result)
		return err->kind;
	if (options->json)
		print_json(result);
	else
		print_checks(result);
	return judge(result, err);
}

int cmd_verify(struct options *options, struct error *err)
{
	struct rundir dir = {.fd = -1, .lock_fd = -1};
	struct supervisor sup = {.signal_fd = -1};
	struct journal journal;
	struct error ignored = {0};
	char *state AUTO_FREE = rundir_state_dir(err);
	int result;

	if (options->word_count > 1)
		return error_set(err, ERROR_USAGE, "agent verify takes one commit");
	if (!state || rundir_create_temporary(state, &dir, err))
		return err->kind;
	journal_init(&journal, false);
	journal.quiet = true;
	result = supervise_init(&sup, &journal, err);
	if (result == 0)
		result = verify(options, &dir, &sup, err);
	supervise_release(&sup);
	journal_release(&journal);
	rundir_remove(&dir, &ignored);
	rundir_release(&dir);
	return result;
}
