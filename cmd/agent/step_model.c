/* The model step: agent-dial and agent-model side by side, the budget in between, the
 * conversation kept. */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/fds.h"
#include "pipeline/url.h"

#define TALK_MAX (256 << 20)
#define FEEDBACK_MAX 24576
#define RESPONSE_MAX (32 << 20)
#define USAGE_MAX (1LL << 40) /* tokens of one call: past that a provider talks nonsense */

/* ---- budget ---- */

static struct json *on_model_event(void *arg, const char *event, struct json *fields)
{
	struct run *run = arg;
	struct error err = {0};

	if (strcmp(event, "reserve") == 0) {
		struct json *answer = js_object_new();
		long long tokens = js_int(fields, "tokens", -1);
		bool granted =
		    tokens > 0 && ledger_reserve(run->ledger, run->dir.id, tokens,
						 config_number(run->config, "budget.runTokens"),
						 config_number(run->config, "budget.dayTokens"),
						 &run->reservation, &err) == 0;

		js_set_bool(answer, "granted", granted);
		if (!granted) {
			js_set_str(answer, "why", err.message);
			js_set_str(answer, "next", err.next);
		}
		return answer;
	}
	if (strcmp(event, "usage") == 0) {
		long long fresh = js_int(fields, "input", 0),
			  read = js_int(fields, "cache_read", 0);
		long long written = js_int(fields, "cache_write", 0),
			  output = js_int(fields, "output", 0);
		bool sane = fresh >= 0 && read >= 0 && written >= 0 && output >= 0 &&
			    fresh < USAGE_MAX && read < USAGE_MAX && written < USAGE_MAX &&
			    output < USAGE_MAX;

		/* Usage that makes no sense leaves the reservation counted in full. */
		if (run->reservation && sane &&
		    ledger_settle(run->ledger, run->reservation, fresh + read + written, output,
				  &err))
			journal_note(&run->journal, "note: %s", err.message);
		run->reservation = 0;
		journal_event(&run->journal, "usage", js_copy(fields));
	}
	return NULL;
}

/* ---- provider ---- */

const char *step_ca(const struct config *config)
{
	static const char *const files[] = {"/etc/ssl/certs/ca-certificates.crt",
					    "/etc/pki/tls/certs/ca-bundle.crt",
					    "/etc/ssl/cert.pem"};
	const char *named = getenv("SSL_CERT_FILE"), *set = config_get(config, "http.ca");

	if (set)
		return set;
	if (named && named[0] == '/')
		return named;
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		if (access(files[i], R_OK) == 0)
			return files[i];
	return NULL;
}

static int make_provider(const struct run *run, struct json *provider, struct url *url,
			 struct error *err)
{
	const char *model = config_get(run->config, "model.name");
	const char *colon = model + strcspn(model, ":"), *name = colon + (*colon ? 1 : 0);
	const char *base_url = config_get(run->config, "model.baseUrl");
	char *kind AUTO_FREE = mem_strndup(model, (size_t)(colon - model));

	js_set_str(provider, "kind", kind);
	if (strcmp(kind, "replay") ==
	    0) { /* its name is enough for a record that others read */
		const char *slash = strrchr(name, '/');

		js_set_str(provider, "model", slash ? slash + 1 : name);
		return 0;
	}
	js_set_str(provider, "model", name);
	if (!base_url)
		base_url = strcmp(kind, "anthropic") == 0 ? "https://api.anthropic.com"
							  : "https://api.openai.com/v1";
	if (url_parse(base_url, url, err))
		return error_wrap(err, "model.baseUrl");
	js_set_str(provider, "host", url->host);
	js_set_int(provider, "port", url->port);
	js_set_bool(provider, "tls", url->tls);
	js_set_str(provider, "path", url->path);
	return 0;
}

static struct json *model_job(const struct run *run, int round, const char *feedback,
			      struct json *provider)
{
	struct json *job = js_object_new(), *paths = repository_paths(&run->repo);
	struct json *limits = js_object_new();
	const char *ca = step_ca(run->config);

	js_unset(paths, "workdir"); /* files come from git objects only */
	if (ca)
		js_set_str(paths, "ca", ca);
	js_set(job, "paths", paths);
	js_set(job, "provider", js_copy(provider));
	js_set_str(job, "base_commit", run_base(run, "commit"));
	js_set_str(job, "base_tree", run_base(run, "tree"));
	js_set_int(job, "round", round);
	js_set_int(job, "rounds", config_number(run->config, "run.rounds"));
	js_set_str(job, "title", js_str(js_get(run->request, "issue"), "title", ""));
	js_set_str(job, "test_command", config_get(run->config, "test.command"));
	js_set_str(job, "feedback", feedback);
	js_set_str(job, "edits", config_get(run->config, "model.edits"));
	js_set_int(limits, "max_output_tokens",
		   config_number(run->config, "model.maxOutputTokens"));
	js_set_int(limits, "idle_ms", config_number(run->config, "model.idleTimeout") * 1000);
	js_set_int(limits, "call_ms", config_number(run->config, "model.callTimeout") * 1000);
	js_set_int(limits, "turns", config_number(run->config, "model.turns"));
	js_set_int(limits, "response_bytes", RESPONSE_MAX);
	js_set_int(limits, "files", config_number(run->config, "apply.maxFiles"));
	js_set_int(limits, "bytes", config_number(run->config, "apply.maxBytes"));
	js_set(job, "limits", limits);
	return job;
}

/* ---- conversation ---- */

/* This round's conversation.jsonl, begun with the one of the round before. -1 with err. */
static int open_talk(struct run *run, int round, struct error *err)
{
	char *name AUTO_FREE = round_file(round, "conversation.jsonl");
	char *before AUTO_FREE = round_file(round - 1, "conversation.jsonl");
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	int fd;

	if (!rundir_has(&run->dir, name) && round > 1) {
		strbuf_init(&text, TALK_MAX);
		if (fd_read_file(run->dir.fd, before, &text, err) ||
		    fd_replace_file(run->dir.fd, name, text.data, text.len, 0600, err))
			return -1;
	}
	fd = fd_open_beneath(run->dir.fd, name, O_RDWR | O_CREAT | O_APPEND, 0600);
	if (fd < 0)
		error_errno(err, ERROR_FAILED, errno, "%s", name);
	return fd;
}

struct model_files {
	int talk, out, issue, changes, replay, net;
};

static void close_files(struct model_files *files)
{
	fd_close_ptr(&files->talk);
	fd_close_ptr(&files->out);
	fd_close_ptr(&files->issue);
	fd_close_ptr(&files->changes);
	fd_close_ptr(&files->replay);
	fd_close_ptr(&files->net);
}

static int open_files(struct run *run, int round, const char *out_name,
		      struct model_files *files, struct error *err)
{
	const char *model = config_get(run->config, "model.name");
	char *before AUTO_FREE = round_file(round - 1, "changes.json");

	files->talk = open_talk(run, round, err);
	if (files->talk < 0)
		return err->kind;
	files->out = rundir_part(&run->dir, out_name, err);
	files->issue = files->out < 0 ? -1 : rundir_file(&run->dir, "issue.md", err);
	if (files->issue < 0)
		return err->kind;
	if (round > 1) {
		files->changes = rundir_file(&run->dir, before, err);
		if (files->changes < 0)
			return err->kind;
	}
	if (strncmp(model, "replay:", 7) == 0) {
		files->replay = open_plain(model + 7, "recording", err);
		if (files->replay < 0)
			return err->kind;
	}
	return 0;
}

static int run_model(struct run *run, const struct json *job, const struct model_files *files,
		     struct error *err)
{
	struct supervised stage = {0};
	struct spawn_fd fds[8];
	const struct {
		int number, fd;
	} have[] = {{FD_OUT, files->out},
		    {FD_ISSUE, files->issue},
		    {FD_TALK, files->talk},
		    {FD_CHANGES, files->changes},
		    {FD_REPLAY, files->replay},
		    {FD_NET, files->net},
		    {FD_SECRET, files->replay < 0 ? run->key_fd : -1}};
	size_t count = 0;
	int result;

	for (size_t i = 0; i < ARRAY_LEN(have); i++)
		if (have[i].fd >= 0)
			fds[count++] = (struct spawn_fd){have[i].number, have[i].fd};
	run->reservation = 0;
	result = supervise_start(&run->sup, &stage, STAGE_MODEL, job, fds, count, 0,
				 on_model_event, run, err);
	if (result == 0)
		result = supervise_wait(&run->sup, &stage, err);
	supervise_end(&run->sup, &stage);
	return result;
}

static void tell_model(struct run *run, int round, const char *name)
{
	struct error ignored = {0};
	struct json *changes AUTO_JSON =
	    rundir_read(&run->dir, name, "changes", CHANGES_MAX, &ignored);
	const struct json *usage = js_get(changes, "usage");
	size_t edits = js_len(js_get(changes, "edits"));

	journal_done(&run->journal, "round %d: %zu edit%s by %s, %lld tokens", round, edits,
		     edits == 1 ? "" : "s", js_str(changes, "model", "?"),
		     js_int(usage, "input", 0) + js_int(usage, "output", 0));
}

int step_model(struct run *run, int round, const char *feedback, struct error *err)
{
	char *name AUTO_FREE = round_file(round, "changes.json");
	struct json *provider AUTO_JSON = js_object_new(), *job AUTO_JSON = NULL;
	struct model_files files = {-1, -1, -1, -1, -1, -1};
	struct supervised dial = {0};
	struct url url = {0};
	int result;

	if (rundir_has(&run->dir, name))
		return 0;
	result = run_check_model(run, err);
	if (result == 0)
		result = make_provider(run, provider, &url, err);
	if (result)
		return result;
	journal_stage(&run->journal, "model", js_str(provider, "model", ""));
	result = open_files(run, round, name, &files, err);
	if (result == 0 && url.host[0])
		result =
		    step_dial(&run->sup, run->config, &dial, url.host, url.port, url.tls,
			      url_is_loopback(url.host) ||
				  strcmp(config_get(run->config, "model.private"), "yes") == 0,
			      &files.net, err);
	job = model_job(run, round, feedback, provider);
	if (result == 0)
		result = run_model(run, job, &files, err);
	supervise_end(&run->sup, &dial);
	close_files(&files);
	if (result == 0)
		result = rundir_accept(&run->dir, name, CHANGES_MAX, false, err);
	if (result == 0)
		tell_model(run, round, name);
	return result;
}

/* ---- feedback ---- */

char *step_feedback(struct run *run, int round)
{
	char *verdict_name AUTO_FREE = round_file(round, "verdict.json");
	char *log_name AUTO_FREE = round_file(round, "log");
	struct strbuf log AUTO_STRBUF = STRBUF_NONE, text AUTO_STRBUF = STRBUF_NONE;
	struct error ignored = {0};
	struct json *verdict AUTO_JSON =
	    rundir_read(&run->dir, verdict_name, "verdict", VERDICT_MAX, &ignored);
	size_t from;

	strbuf_init(&log, STRBUF_MAX);
	strbuf_init(&text, STRBUF_MAX);
	fd_read_file(run->dir.fd, log_name, &log, &ignored);
	strbuf_addf(&text, "Test command: %s\nVerdict: red, %s.\n",
		    config_get(run->config, "test.command"),
		    js_str(verdict, "text", "unknown"));
	from = log.len > FEEDBACK_MAX ? log.len - FEEDBACK_MAX : 0;
	strbuf_addf(&text, "Output%s:\n", from ? " (its end)" : "");
	text_escape_lines(&text, log.data + from, log.len - from);
	return strbuf_steal(&text);
}
