/*
 * NAME
 *	agent-model - one round of conversation with a model
 *
 * SYNOPSIS
 *	agent-model		started by agent, with the descriptors of its row
 *
 * Asks the model of its job, runs its tool calls on the files of the base commit in memory, and ends when the
 * model submits. Reads FD_JOB (pipeline/model/job.h), FD_ISSUE, FD_CHANGES (rounds after the first), FD_REPLAY
 * (replay), FD_SECRET (the model key; none for replay and servers without a key), the repository's objects, the
 * CA bundle. Appends to FD_TALK (pipeline/model/conversation.h), writes FD_OUT: changes.json, sends events.
 *
 * SECURITY
 *	Hostile inputs: every byte from the provider, the issue, the repository's content, the feedback with test
 *	output. Reach: read the repository's objects and the CA bundle; talk to one host through agent-dial; append
 *	to the conversation. It holds the model key and runs nothing. A compromise yields the key and what the
 *	model may be sent anyway; it can lie in changes.json, which agent-apply checks as hostile.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gitops/edit_json.h"
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
#include "pipeline/model/call.h"
#include "pipeline/model/conversation.h"
#include "pipeline/http/http.h"
#include "pipeline/model/job.h"
#include "pipeline/model/prompt.h"
#include "pipeline/model/provider.h"
#include "pipeline/model/round.h"
#include "pipeline/scrub.h"
#include "pipeline/model/tools.h"
#include "pipeline/secret.h"
#include "pipeline/stage.h"

#define CA_BYTES_MAX (8u << 20)

struct model {
	struct model_job job;
	const struct provider *provider; /* NULL: replay */
	struct secret *key;		 /* owned, or NULL */
	struct scrub scrub;
	struct strbuf ca, issue;
	char *name;		  /* owned: "anthropic:NAME" */
	struct gitops_repo *repo; /* owned */
	struct view *view;	  /* owned */
	struct talk *talk;	  /* owned */
	struct talk *recording;	  /* owned, or NULL */
	struct http *http;	  /* owned, or NULL */
	struct json *tools;	  /* owned */
	struct toolbox box;
};

static void release(struct model *model)
{
	toolbox_release(&model->box);
	js_free(model->tools);
	http_free(model->http);
	talk_free(model->recording);
	talk_free(model->talk);
	view_free(model->view);
	repo_close(model->repo);
	free(model->name);
	strbuf_release(&model->issue);
	strbuf_release(&model->ca);
	secret_wipe(model->key);
}
#define AUTO_MODEL __attribute__((cleanup(release)))

static int take_key(struct model *model, struct error *err)
{
	if (!model->provider || !fd_is_open(FD_SECRET))
		return 0;
	model->key = secret_take(FD_SECRET, err);
	if (!model->key)
		return error_wrap(err, "model key");
	model->scrub.key = secret_expose(model->key, &model->scrub.len);
	if (model->scrub.len == 0 ||
	    !http_is_header_value(model->scrub.key, model->scrub.len)) {
		error_set(err, ERROR_USAGE,
			  "model key: it is empty or has bytes that no key has");
		return error_next(err, "check [model] key, or the variable that holds it");
	}
	return 0;
}

static int read_ca(struct model *model, const char *path, struct error *err)
{
	int fd AUTO_FD = -1;

	strbuf_init(&model->ca, CA_BYTES_MAX);
	if (!model->job.tls)
		return 0;
	if (!path)
		return error_set(err, ERROR_USAGE, "job: paths: \"ca\" is missing");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fd_read_all(fd, &model->ca) < 0) {
		error_errno(err, ERROR_USAGE, errno, "CA bundle %s", path);
		return error_next(err, "install ca-certificates, or set [http] ca");
	}
	return 0;
}

static int open_provider(struct model *model, const struct stage *stage, struct error *err)
{
	const struct model_job *job = &model->job;
	struct http_options options = {
	    .host = job->host,
	    .port = job->port,
	    .tls = job->tls,
	    .net_fd = FD_NET,
	    .idle_ms = job->limits.idle_ms,
	    .response_bytes = (size_t)job->limits.response_bytes,
	};
	int kind;

	if (!model->provider) {
		if (!fd_is_open(FD_REPLAY))
			return error_set(err, ERROR_USAGE, "replay: no recording was given");
		model->recording = talk_open(FD_REPLAY, false, "recording", &model->scrub, err);
		return model->recording ? 0 : err->kind;
	}
	kind = read_ca(model, stage_path(stage, "ca"), err);
	if (kind < 0)
		return kind;
	options.ca = model->ca.data;
	options.ca_len = model->ca.len;
	model->http = http_new(&options, err);
	return model->http ? 0 : err->kind;
}

static int read_issue(struct model *model, struct error *err)
{
	struct strbuf raw AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&raw, PROMPT_ISSUE_MAX);
	strbuf_init(&model->issue, STRBUF_MAX);
	if (fd_pread_all(FD_ISSUE, &raw) < 0) {
		if (errno == EFBIG)
			return error_set(err, ERROR_USAGE, "the issue is larger than %u bytes",
					 PROMPT_ISSUE_MAX);
		return error_errno(err, ERROR_FAILED, errno, "the issue cannot be read");
	}
	text_to_utf8(&model->issue, raw.data, raw.len);
	if (strspn(model->issue.data, " \t\r\n") == model->issue.len)
		return error_set(err, ERROR_USAGE, "the issue is empty");
	return 0;
}

/* The view at the base, and the change of the round before in it. */
static int open_view(struct model *model, struct error *err)
{
	struct json *changes AUTO_JSON = NULL;
	struct view_limits limits = view_limits_default;
	int kind = repo_open_job(model->job.paths, false, &model->repo, err);

	if (kind < 0)
		return kind;
	/* what agent-apply would refuse is refused here, where the model can mend it */
	if (model->job.limits.files)
		limits.files = (size_t)model->job.limits.files;
	if (model->job.limits.bytes)
		limits.bytes = (uint64_t)model->job.limits.bytes;
	model->view = view_new(model->repo, model->job.base_tree, &limits, err);
	if (!model->view)
		return err->kind;
	toolbox_init(&model->box, model->view);
	if (model->job.round == 1)
		return 0;
	changes = js_read_fd(FD_CHANGES, CHANGES_BYTES_MAX, "changes.json", err);
	if (!changes)
		return err->kind;
	kind = js_check_kind(changes, "changes", 1, err);
	if (kind < 0)
		return kind;
	if (strcmp(js_str(changes, "base_tree", ""), model->job.base_tree) != 0)
		return error_set(err, ERROR_USAGE, "changes.json is for another base tree");
	return toolbox_load(&model->box, js_get(changes, "edits"), err);
}

static int open_all(struct model *model, const struct stage *stage, struct error *err)
{
	int kind = model_job_parse(stage->job, &model->job, err);

	if (kind < 0)
		return kind;
	model->provider = provider_find(model->job.kind);
	if (!model->provider && strcmp(model->job.kind, "replay") != 0) {
		error_set(err, ERROR_USAGE, "unknown provider \"%s\"", model->job.kind);
		return error_next(err, "use anthropic:NAME, openai:NAME or replay:FILE");
	}
	model->name = mem_printf("%s:%s", model->job.kind, model->job.model);
	model->tools = tools_schema();
	kind = take_key(model, err);
	if (kind == 0)
		kind = open_provider(model, stage, err);
	if (kind == 0)
		kind = read_issue(model, err);
	if (kind == 0)
		kind = open_view(model, err);
	if (kind < 0)
		return kind;
	model->talk = talk_open(FD_TALK, true, "conversation", &model->scrub, err);
	return model->talk ? 0 : err->kind;
}

static int write_changes(struct model *model, const struct round *round, struct error *err)
{
	struct json *changes AUTO_JSON = scrub_json(&model->scrub, round_changes(round));
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	struct json *facts;

	strbuf_init(&text, CHANGES_BYTES_MAX);
	js_format(changes, &text);
	if (text.full)
		return error_set(err, ERROR_FAILED, "the change is larger than %u MiB",
				 CHANGES_BYTES_MAX >> 20);
	if (fd_write_all(FD_OUT, text.data, text.len) < 0) {
		error_errno(err, ERROR_FAILED, errno, "changes.json cannot be written");
		return error_next(err, "make room on the disk of the state directory");
	}
	facts = js_object_new();
	js_set_str(facts, "title", js_str(changes, "title", ""));
	js_set_int(facts, "turns", (long long)round->turns);
	js_set_int(facts, "edits", (long long)round->box->round_edits);
	event_send("result", facts);
	return 0;
}

static int converse(struct model *model, struct error *err)
{
	struct caller caller = {
	    .job = &model->job,
	    .provider = model->provider,
	    .http = model->http,
	    .key = model->key,
	    .scrub = &model->scrub,
	    .tools = model->tools,
	    .model = model->name,
	};
	struct round round = {
	    .job = &model->job,
	    .talk = model->talk,
	    .box = &model->box,
	    .caller = &caller,
	    .recording = model->recording,
	    .model = model->name,
	    .issue = model->issue.data,
	    .issue_len = model->issue.len,
	};
	int kind = round_run(&round, err);

	return kind < 0 ? kind : write_changes(model, &round, err);
}

static int run(struct stage *stage, struct error *err)
{
	struct model model AUTO_MODEL = {.provider = NULL};
	int kind;

	signal(SIGPIPE, SIG_IGN); /* a connection that breaks while it is written to is a fault,
				     not an end */
	kind = open_all(&model, stage, err);
	if (kind == 0)
		kind = converse(&model, err);
	if (kind < 0)
		scrub_error(&model.scrub, err);
	return kind;
}

int main(int argc, char **argv)
{
	return stage_main(argc, argv, NULL, run);
}
