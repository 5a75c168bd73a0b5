/* agent show [RUN]: the story of a run, told from its files. */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

#define LOG_SHOWN 4096

/* One line, escaped. */
static void line(struct strbuf *out, const char *label, const char *text)
{
	char shown[1024];

	text_escape(shown, sizeof(shown), text, strlen(text));
	strbuf_addf(out, "%-9s %s\n", label, shown);
}

/* A file of the run, escaped, each line indented; only its end when it is long. */
static void file(struct strbuf *out, const struct rundir *dir, const char *name, size_t most)
{
	struct strbuf raw AUTO_STRBUF = STRBUF_NONE, shown AUTO_STRBUF = STRBUF_NONE;
	struct error ignored = {0};
	const char *at;
	size_t from;

	strbuf_init(&raw, STRBUF_MAX);
	strbuf_init(&shown, STRBUF_MAX);
	if (fd_read_file(dir->fd, name, &raw, &ignored))
		return;
	from = raw.len > most ? raw.len - most : 0;
	if (from)
		strbuf_addf(out, "    … (%zu bytes before, in %s/%s)\n", from, dir->path, name);
	text_escape_lines(&shown, raw.data + from, raw.len - from);
	for (at = shown.data; *at;) {
		size_t len = strcspn(at, "\n");

		strbuf_addf(out, "    %.*s\n", (int)len, at);
		at += len + (at[len] ? 1 : 0);
	}
}

static void put_commit(struct strbuf *out, const char *label, const char *oid, const char *name)
{
	char *text AUTO_FREE = oid ? mem_printf("%s (%s)", oid, name) : NULL;

	line(out, label, text ? text : "not known yet");
}

static void show_request(struct strbuf *out, const struct rundir *dir)
{
	struct error ignored = {0};
	struct json *request AUTO_JSON =
	    rundir_read(dir, "request.json", "request", BASE_MAX, &ignored);
	struct json *base AUTO_JSON = rundir_read(dir, "base.json", "base", BASE_MAX, &ignored);
	const struct json *issue = js_get(request, "issue");

	line(out, "run", dir->id);
	line(out, "issue", js_str(issue, "title", "?"));
	line(out, "from", js_str(issue, "source", "?"));
	line(out, "in", js_str(request, "repository", "?"));
	put_commit(out, "base", js_str(base, "commit", NULL), request_base_name(request, base));
	if (js_str(request, "config_rev", NULL))
		put_commit(out, "rules of", js_str(base, "config_commit", NULL),
			   js_str(base, "config_ref", "the commit"));
	line(out, "files", dir->path);
	strbuf_addc(out, '\n');
	file(out, dir, "issue.md", 16384);
}

static void denied_line(void *out, const char *text)
{
	line(out, "denied", text);
}

static void show_round(struct strbuf *out, const struct rundir *dir, int round)
{
	char *changes_name AUTO_FREE = round_file(round, "changes.json");
	char *verdict_name AUTO_FREE = round_file(round, "verdict.json");
	char *patch AUTO_FREE = round_file(round, "patch.diff"),
		    *log AUTO_FREE = round_file(round, "log"),
		    *command_log AUTO_FREE = round_file(round, "command.log");
	struct error ignored = {0};
	struct json *changes AUTO_JSON =
	    rundir_read(dir, changes_name, "changes", CHANGES_MAX, &ignored);
	struct json *verdict AUTO_JSON =
	    rundir_read(dir, verdict_name, "verdict", VERDICT_MAX, &ignored);
	const struct json *usage = js_get(changes, "usage");

	strbuf_addf(out, "\nround %d\n", round);
	if (js_get(changes, "files")) {
		line(out, "command", js_str(changes, "command", ""));
		line(out, "network", js_str(changes, "network", "none"));
	} else if (changes || !rundir_has(dir, command_log)) {
		line(out, "model", js_str(changes, "model", "not finished"));
	} else {
		line(out, "command", "it failed, or its change cannot be taken");
		file(out, dir, command_log, LOG_SHOWN);
	}
	if (js_get(changes, "edits")) {
		line(out, "title", js_str(changes, "title", ""));
		strbuf_addf(out, "%-9s %lld in, %lld out\n", "tokens",
			    js_int(usage, "input", 0), js_int(usage, "output", 0));
	}
	file(out, dir, patch, 1 << 20);
	if (!verdict) {
		line(out, "verdict",
		     rundir_has(dir, patch) ? "not tested" : "no change was tested");
		return;
	}
	strbuf_addf(out, "%-9s %s: %s\n", "verdict",
		    js_bool(verdict, "green", false) ? "green" : "red",
		    js_str(verdict, "text", "?"));
	line(out, "tree", js_str(verdict, "tree", "?"));
	strbuf_addf(out, "%-9s %s, work tree by %s, scratch %s, limits by %s, uid %s\n", "jail",
		    js_str(verdict, "backend", "native"), js_str(verdict, "work", "?"),
		    strcmp(js_str(verdict, "scratch", ""), "disk") == 0 ? "on disk"
									: "in memory",
		    js_str(verdict, "limits", "?"), js_str(verdict, "uid", "?"));
	denied_tell(verdict, SIZE_MAX, denied_line, out);
	if (js_str(verdict, "advice", NULL))
		line(out, "next", js_str(verdict, "advice", ""));
	if (!js_bool(verdict, "green", false))
		file(out, dir, log, LOG_SHOWN);
}

static void show_end(struct strbuf *out, const struct rundir *dir)
{
	struct error ignored = {0};
	struct json *receipt AUTO_JSON =
	    rundir_read(dir, "publish/receipt.json", "receipt", VERDICT_MAX, &ignored);
	struct json *report AUTO_JSON =
	    rundir_read(dir, "report.json", "report", BASE_MAX, &ignored);

	strbuf_addc(out, '\n');
	if (receipt) {
		line(out, "pushed", js_str(receipt, "ref", "?"));
		line(out, "to", js_str(receipt, "url", "?"));
		line(out, "commit", js_str(receipt, "commit", "?"));
	}
	line(out, "outcome",
	     js_str(report, "outcome", "stopped without an end (killed, or under way)"));
	if (js_str(report, "message", NULL))
		line(out, "why", js_str(report, "message", ""));
	if (js_str(report, "next", "")[0])
		line(out, "next", js_str(report, "next", ""));
	if (report)
		strbuf_addf(
		    out, "%-9s %lld tokens in, %lld out%s\n", "cost",
		    js_int(report, "input_tokens", 0), js_int(report, "output_tokens", 0),
		    js_int(report, "unsettled_tokens", 0) ? ", and calls whose end is not known"
							  : "");
}

static int list(const char *state)
{
	char **ids = rundir_list(state);

	for (size_t i = 0; ids[i]; i++) {
		struct rundir dir;
		struct error ignored = {0};
		struct json *request AUTO_JSON = NULL, *report AUTO_JSON = NULL;
		char title[128] = "";

		if (rundir_open(state, ids[i], false, &dir, &ignored) == 0) {
			const char *text;

			request =
			    rundir_read(&dir, "request.json", "request", BASE_MAX, &ignored);
			report = rundir_read(&dir, "report.json", "report", BASE_MAX, &ignored);
			text = js_str(js_get(request, "issue"), "title", "?");
			text_escape(title, sizeof(title), text, strlen(text));
			printf("%s  %-13s  %s\n", ids[i], js_str(report, "outcome", "no end"),
			       title);
		}
		rundir_release(&dir);
	}
	if (!ids[0])
		printf("no runs yet\n");
	text_free_words(ids);
	return 0;
}

int cmd_show(struct options *options, struct error *err)
{
	char *state AUTO_FREE = rundir_state_dir(err);
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;
	struct rundir dir;

	if (!state)
		return err->kind;
	if (options->word_count > 1)
		return error_set(err, ERROR_USAGE, "agent show takes one run");
	if (!options->word_count && !options->json)
		return list(state);
	if (rundir_open(state, options->word_count ? options->words[0] : NULL, false, &dir,
			err)) {
		rundir_release(&dir);
		return err->kind;
	}
	strbuf_init(&out, STRBUF_MAX);
	if (options->json) {
		int result = fd_read_file(dir.fd, "events.jsonl", &out, err);

		rundir_release(&dir);
		if (result)
			return result;
	} else {
		show_request(&out, &dir);
		for (int round = 1; round <= RUN_ROUNDS_MAX; round++) {
			char *name AUTO_FREE = mem_printf("round-%d", round);

			if (rundir_has(&dir, name))
				show_round(&out, &dir, round);
		}
		show_end(&out, &dir);
		rundir_release(&dir);
	}
	if (fd_write_all(STDOUT_FILENO, out.data, out.len) < 0)
		return error_errno(err, ERROR_FAILED, errno, "standard output");
	return 0;
}
