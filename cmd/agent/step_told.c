/*
 * The end of a task branch's run, told: a note on the pushed commit (refs/notes/agent), which the pusher fetches, and a
 * message to the command that the operator names (agent.notify). Both are a courtesy: what fails is recorded in
 * told.json, and the run is what it was. A run that is killed in between tells once more when it is resumed.
 */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/sha256.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/hookrules.h"
#include "sandbox/jail_spec.h"

#define NOTES_REF "refs/notes/agent"
#define NOTE_S 60
#define NOTIFY_S 60
#define OUTPUT_MAX 16384
#define LOCK_MS 30000
#define LOCK_STEP_MS 20

/* ---- the message ---- */

static struct json *message_of(const struct run *run, const struct json *report)
{
	struct json *message = js_artefact_new("result", 1);
	struct error ignored = {0};
	const struct json *task = js_get(run->request, "task");
	struct json *receipt AUTO_JSON =
	    rundir_read(&run->dir, "publish/receipt.json", "receipt", VERDICT_MAX, &ignored);

	js_set_str(message, "repository", js_str(run->request, "repository", ""));
	js_set_str(message, "task", js_str(task, "ref", ""));
	js_set_str(message, "tip", js_str(task, "tip", ""));
	js_set_str(message, "pusher", js_str(task, "pusher", NULL));
	js_set_str(message, "title", js_str(js_get(run->request, "issue"), "title", ""));
	js_set_str(message, "run", run->dir.id);
	js_set_str(message, "outcome", js_str(report, "outcome", "failed"));
	js_set_int(message, "exit_status", js_int(report, "exit_status", 4));
	js_set_str(message, "message", js_str(report, "message", NULL));
	js_set_str(message, "next", js_str(report, "next", NULL));
	js_set_str(message, "ref", receipt ? run_ref(run) : NULL);
	js_set_str(message, "commit", js_str(receipt, "commit", NULL));
	return message;
}

static void note_line(struct strbuf *note, const char *label, const char *text)
{
	char shown[2048];

	if (!text || !text[0])
		return;
	text_escape(shown, sizeof(shown), text, strlen(text));
	strbuf_addf(note, "%s: %s\n", label, shown);
}

static void note_of(const struct json *message, struct strbuf *note)
{
	const char *ref = js_str(message, "ref", NULL);

	note_line(note, "agent", js_str(message, "outcome", ""));
	note_line(note, "task", js_str(message, "title", ""));
	note_line(note, "result", ref && strncmp(ref, "refs/heads/", 11) == 0 ? ref + 11 : ref);
	note_line(note, "commit", js_str(message, "commit", NULL));
	note_line(note, "why", js_str(message, "message", NULL));
	note_line(note, "run", js_str(message, "run", ""));
}

/* ---- programs outside of any stage, as the repository's owner, as its hooks are ---- */

static int run_as_owner(struct run *run, const char *name, const char *const *argv,
			const char *input, size_t len, unsigned limit_s, struct error *err)
{
	const char *author = config_get(run->config, "author.name");
	const char *mail = config_get(run->config, "author.email");
	int in AUTO_FD = fd_memfd_sealed("message", input, len), words[2], result;
	struct supervised child = {0};
	struct step_owner owner;
	struct child started;

	if (in < 0 || step_owner(run->repo.git_dir, &owner, err) || pipe2(words, O_CLOEXEC) < 0)
		return err->kind ? err->kind
				 : error_errno(err, ERROR_FAILED, errno, "%s", name);
	char *home AUTO_FREE = mem_printf("HOME=%s", owner.home ? owner.home : "/nonexistent");
	char *author_name AUTO_FREE = mem_printf("GIT_AUTHOR_NAME=%s", author);
	char *author_mail AUTO_FREE = mem_printf("GIT_AUTHOR_EMAIL=%s", mail);
	char *committer AUTO_FREE = mem_printf("GIT_COMMITTER_NAME=%s", author);
	char *committer_mail AUTO_FREE = mem_printf("GIT_COMMITTER_EMAIL=%s", mail);
	char *id AUTO_FREE = mem_printf("AGENT_RUN=%s", run->dir.id);
	const char *const env[] = {"PATH=/usr/local/bin:/usr/bin:/bin",
				   "LANG=C.UTF-8",
				   home,
				   author_name,
				   author_mail,
				   committer,
				   committer_mail,
				   id,
				   NULL};

	result = spawn_outside(argv, env, in, words[1], words[1], owner.uid, &started, err);
	close(words[1]);
	if (result) {
		close(words[0]);
		return result;
	}
	started.stderr_fd = words[0];
	supervise_adopt(&run->sup, &child, name, &started, limit_s);
	result = supervise_wait(&run->sup, &child, err);
	supervise_end(&run->sup, &child);
	return result;
}

/* git adds a note to what it read a moment before: two at once would lose one. Waits. */
static int lock_notes(const struct run *run, int *fd, struct error *err)
{
	char *key AUTO_FREE = mem_printf("%s\n" NOTES_REF, run->repo.git_dir);
	long long until = fd_now_ms() + LOCK_MS;
	int result;

	while ((result = rundir_lock_key(&run->dir, key, fd, err)) == ERROR_SKIPPED &&
	       fd_now_ms() < until) {
		fd_close_ptr(fd);
		*fd = -1;
		memset(err, 0, sizeof(*err));
		poll(NULL, 0, LOCK_STEP_MS);
	}
	return result;
}

static int write_note(struct run *run, const struct json *message, struct error *err)
{
	const char *const argv[] = {"git",
				    "--git-dir",
				    run->repo.git_dir,
				    "notes",
				    "--ref",
				    NOTES_REF,
				    "add",
				    "-f",
				    "-F",
				    "-",
				    js_str(message, "tip", ""),
				    NULL};
	struct strbuf note AUTO_STRBUF = STRBUF_NONE;
	int lock AUTO_FD = -1;

	strbuf_init(&note, 65536);
	note_of(message, &note);
	if (lock_notes(run, &lock, err))
		return err->kind;
	return run_as_owner(run, "git notes", argv, note.data, note.len, NOTE_S, err);
}

/* ---- agent.notify ---- */

/* Reads to the end, keeps the first bytes. */
static int drain(struct run *run, int fd, struct strbuf *output, struct error *err)
{
	for (;;) {
		char chunk[4096];
		int ready =
		    supervise_until_readable(&run->sup, fd, (NOTIFY_S + 30) * 1000, err);
		ssize_t n = ready > 0 ? read(fd, chunk, sizeof(chunk)) : 0;

		if (ready < 0)
			return ready;
		if (n <= 0)
			return 0;
		strbuf_add(output, chunk, (size_t)n);
	}
}

/* The read end of a pipe that holds it whole, so that nobody has to wait for a reader. -1 with errno. */
static int filled_pipe(const struct strbuf *input)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return -1;
	if (fd_write_all(ends[1], input->data, input->len) < 0 ||
	    fcntl(ends[0], F_SETFL, 0) < 0) {
		close(ends[0]);
		ends[0] = -1;
	}
	close(ends[1]);
	return ends[0];
}

static int judge_notify(const struct jail_facts *facts, const char *command, struct error *err)
{
	char text[512];

	if (jailplan_judge(facts, command, err))
		return err->kind;
	jailplan_describe(facts, text, sizeof(text));
	return facts->outcome == JAIL_EXITED && facts->value == 0
		   ? 0
		   : error_set(err, ERROR_FAILED, "%s", text);
}

static int notify_in_jail(struct run *run, char **words, const struct strbuf *input,
			  struct strbuf *output, struct error *err)
{
	struct jail_start start = {.facts_fd = -1, .go_fd = -1};
	int in AUTO_FD = filled_pipe(input), result;
	struct jail_facts facts = {0};
	struct jail_spec spec;
	int ends[2] = {-1, -1};

	if (in < 0)
		return error_errno(err, ERROR_FAILED, errno, "pipe");
	jail_spec_init(&spec);
	result =
	    jailplan_test(run->config, run->dir.state, NULL, FETCH_NONE, words, &spec, err);
	spec.limits.wall_ms = (uint64_t)NOTIFY_S * 1000;
	spec.separate_uid = run->separate_uid;
	if (result == 0 && pipe2(ends, O_CLOEXEC) < 0)
		result = error_errno(err, ERROR_FAILED, errno, "pipe");
	if (result == 0)
		result = jailplan_begin(&run->sup, &spec, in, ends[1], &start, err);
	fd_close_ptr(&ends[1]);
	if (result == 0)
		result = drain(run, ends[0], output, err);
	fd_close_ptr(&ends[0]);
	result = jailplan_end(&run->sup, &start, result, &facts, NULL, err);
	jail_spec_release(&spec);
	return result ? result : judge_notify(&facts, words[0], err);
}

static int notify(struct run *run, const struct hook_rule *rule, const struct json *message,
		  struct strbuf *output, struct error *err)
{
	char **words = text_split_words(rule->notify);
	struct strbuf input AUTO_STRBUF = STRBUF_NONE;
	int result;

	if (!words)
		return error_set(err, ERROR_USAGE, "%s: no command line", rule->notify);
	strbuf_init(&input, STRBUF_MAX);
	js_format_ascii(message, &input);
	strbuf_addc(&input, '\n');
	result = rule->notify_network ? run_as_owner(run, words[0], (const char *const *)words,
						     input.data, input.len, NOTIFY_S, err)
				      : notify_in_jail(run, words, &input, output, err);
	text_free_words(words);
	return result;
}

/* ---- in order ---- */

static void keep(struct run *run, struct json *told, const char *what, int result,
		 const struct error *err)
{
	js_set_str(told, what, result ? err->message : "done");
	if (result)
		journal_note(&run->journal, "note: %s: %s", what, err->message);
}

/* Whether exactly this was told already. */
static bool was_told(const struct run *run, const char *digest)
{
	struct error ignored = {0};
	struct json *told AUTO_JSON =
	    rundir_read(&run->dir, "told.json", "told", VERDICT_MAX, &ignored);

	return strcmp(js_str(told, "digest", ""), digest) == 0;
}

void step_told(struct run *run, const struct json *report)
{
	const char *ref = js_str(js_get(run->request, "task"), "ref", NULL);
	char *config AUTO_FREE = NULL, digest[65];
	struct json *message AUTO_JSON = NULL, *told AUTO_JSON = js_artefact_new("told", 1);
	struct strbuf text AUTO_STRBUF = STRBUF_NONE, output AUTO_STRBUF = STRBUF_NONE;
	struct error err = {0};
	struct hook_rules rules;
	struct hook_rule rule;

	if (!ref)
		return;
	message = message_of(run, report);
	strbuf_init(&text, STRBUF_MAX);
	strbuf_init(&output, OUTPUT_MAX);
	js_format(message, &text);
	sha256_hex(text.data, text.len, digest);
	if (was_told(run, digest))
		return;
	js_set_str(told, "digest", digest);
	js_set(told, "message", js_copy(message));
	keep(run, told, "note", write_note(run, message, &err), &err);
	config = mem_printf("%s/config", run->repo.common_dir);
	memset(&err, 0, sizeof(err));
	if (hook_rules_read(config, &rules, &err)) {
		keep(run, told, "agent.notify", err.kind, &err);
	} else if (rule = hook_rules_for(&rules, ref), rule.notify[0]) {
		keep(run, told, "agent.notify", notify(run, &rule, message, &output, &err),
		     &err);
		js_set_bool(told, "jailed", !rule.notify_network);
		js_set_strn(told, "output", output.data, output.len);
	}
	hook_rules_release(&rules);
	if (rundir_write(&run->dir, "told.json", told, &err))
		journal_note(&run->journal, "note: %s", err.message);
	journal_event(&run->journal, "told", MEM_STEAL(told));
}
