/*
 * NAME
 *	agent-forge - reads an issue of a forge, or makes a pull request of finished bytes
 *
 * SYNOPSIS
 *	agent-forge issue | pull, started by agent(1) alone
 *
 *	issue	FD_JOB {"paths":{"ca"?},"forge":{...} (pipeline/forge/forge.h),"number",
 *		"strangers":bool,"marker":TEXT,"fork":OWNER?}
 *		-> FD_OUT forge-issue.json {"kind":"forge-issue","version":1,"title","url","state",
 *		"locked","revision","author","text","removed","strangers","linked":URL|null}
 *	pull	FD_JOB {"paths":{"ca"?},"forge":{...},"head","fork":OWNER|null,"base":TEXT|null,"issue":N|null,
 *		"marker":TEXT,"draft":bool}, FD_TEXT pull.json {"title","body","comment"}
 *		-> FD_OUT forge-pull.json {"kind":"forge-pull","version":1,"number","url","created",
 *		"commented":bool}
 *
 * READS
 *	FD_SECRET: the read token (issue; may be missing) or the write token (pull).
 *
 * SECURITY
 *	Hostile inputs: all that the forge answers; issue and comments are written by anybody. Reach:
 *	one host:port through agent-dial. Holds one token of the forge, never the push credential;
 *	redirects are not followed, so it goes to no other host. Runs nothing, reads no repository. A
 *	compromise of "issue" makes an issue text of the attacker's choice, which it could write there
 *	anyway, and yields a token that reads; of "pull", one that writes issues and pull requests.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/events.h"
#include "pipeline/fds.h"
#include "pipeline/forge/forge.h"
#include "pipeline/forge/strip.h"
#include "pipeline/http/http.h"
#include "pipeline/http/scrub.h"
#include "pipeline/secret.h"
#include "pipeline/stage.h"

#define CA_MAX ((size_t)8 << 20)
#define ANSWER_MAX ((size_t)16 << 20) /* bytes of one answer */
#define TEXT_MAX                                                                               \
	((size_t)900 << 10) /* of the issue and its comments together: below agent run's cap */
#define PAGES_MAX 20
#define IDLE_MS 30000
#define CALL_MS 60000
#define PULL_MAX ((size_t)1 << 20)

struct client {
	struct forge forge;
	struct http *http;    /* owned */
	struct secret *token; /* owned; NULL: none */
	struct scrub scrub;
	struct strbuf ca;
};

static void release(struct client *client)
{
	http_free(client->http);
	secret_wipe(client->token);
	strbuf_release(&client->ca);
}
#define AUTO_CLIENT __attribute__((cleanup(release)))

/* ---- the server ---- */

static int take_token(struct client *client, struct error *err)
{
	if (fcntl(FD_SECRET, F_GETFD) < 0)
		return 0;
	client->token = secret_take(FD_SECRET, err);
	if (!client->token)
		return error_wrap(err, "token");
	client->scrub.key = secret_expose(client->token, &client->scrub.len);
	if (!client->scrub.len || !http_is_header_value(client->scrub.key, client->scrub.len))
		return error_set(err, ERROR_USAGE,
				 "token: it is empty or has bytes that no token has");
	return 0;
}

static int open_client(struct client *client, const struct stage *stage, struct error *err)
{
	const char *path = stage_path(stage, "ca");
	struct http_options options = {
	    .net_fd = FD_NET, .idle_ms = IDLE_MS, .response_bytes = ANSWER_MAX};

	strbuf_init(&client->ca, CA_MAX);
	if (forge_from_json(js_get(stage->job, "forge"), &client->forge, err))
		return error_wrap(err, "job");
	if (client->forge.tls) {
		int fd AUTO_FD = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

		if (fd < 0 || fd_read_all(fd, &client->ca) < 0) {
			error_errno(err, ERROR_USAGE, errno, "CA bundle %s", path ? path : "");
			return error_next(err, "install ca-certificates, or set http.ca");
		}
	}
	options.host = client->forge.host;
	options.port = client->forge.port;
	options.tls = client->forge.tls;
	options.ca = client->ca.data;
	options.ca_len = client->ca.len;
	client->http = http_new(&options, err);
	return client->http ? take_token(client, err) : err->kind;
}

static int any_type(void *arg, const struct http_result *result)
{
	(void)arg;
	(void)result;
	return 0;
}

static int add_bytes(void *arg, const char *bytes, size_t len)
{
	return strbuf_add(arg, bytes, len);
}

static int transport_failed(const struct client *client, const struct http_result *result,
			    struct error *err)
{
	error_set(err, result->end == HTTP_TOO_BIG ? ERROR_FAILED : ERROR_LATER, "%s: %s",
		  client->forge.host,
		  result->end == HTTP_TOO_BIG ? "the answer is too long" : result->why);
	if (result->end == HTTP_TLS)
		return error_next(
		    err, "check the server's certificate, or name its authority with http.ca");
	if (result->end == HTTP_TOO_BIG)
		return err->kind;
	return error_next(err, "check the network and forge.api, and try again");
}

/* One call. 0 and *answer (new; may be NULL for an empty body) and *more. Takes the request. */
static int call(struct client *client, struct forge_request *request, const char *what,
		struct json **answer, bool *more, struct error *err)
{
	struct http_result result AUTO_HTTP_RESULT = {0};
	struct strbuf body AUTO_STRBUF = STRBUF_NONE, sent AUTO_STRBUF = STRBUF_NONE;
	struct http_request http = {.method = request->method,
				    .path = request->path,
				    .headers = forge_headers(client->forge.kind),
				    .key_header = forge_token_header(client->forge.kind),
				    .key = client->token,
				    .deadline_ms = CALL_MS,
				    .begin = any_type,
				    .data = add_bytes,
				    .arg = &body};

	*answer = NULL;
	strbuf_init(&body, ANSWER_MAX);
	strbuf_init(&sent, STRBUF_MAX);
	if (request->body)
		js_format(request->body, &sent);
	http.body = sent.data;
	http.len = sent.len;
	event_progress("%s: %s", client->forge.host, what);
	http_send(client->http, &http, &result);
	forge_request_release(request);
	if (result.end != HTTP_DONE)
		return transport_failed(client, &result, err);
	if (result.status < 200 || result.status > 299) {
		struct forge_refusal refusal = {.status = result.status,
						.body = result.error_body.data,
						.len = result.error_body.len,
						.location = result.location,
						.retry_after_s = result.retry_after_s,
						.rate_left = result.rate_left,
						.rate_reset = result.rate_reset,
						.with_token = client->token != NULL};

		return forge_refused(&client->forge, what, &refusal, err);
	}
	if (more)
		*more = result.more;
	*answer = js_parse(body.data, body.len, ANSWER_MAX, "the forge's answer", err);
	if (*answer)
		return 0;
	err->kind = ERROR_FAILED;
	return error_wrap(err, "%s", what);
}

static int write_result(struct client *client, struct json *taken, struct error *err)
{
	struct json *clean AUTO_JSON = scrub_json(&client->scrub, taken);
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&text, STRBUF_MAX);
	js_format(clean, &text);
	strbuf_addc(&text, '\n');
	if (fd_write_all(FD_OUT, text.data, text.len) < 0)
		return error_errno(err, ERROR_FAILED, errno, "the artefact cannot be written");
	return 0;
}

/* ---- issue ---- */

struct reading {
	struct client *client;
	const struct json *job;
	long long number;
	bool strangers;	      /* comments of people who may not write count too */
	struct json *writers; /* owned by run_issue: names */
	struct strbuf *text;
	struct strip_counts counts;
	size_t left_out; /* comments of strangers */
	bool cut;
};

/* Text of somebody's, without what a page does not show. */
static void put_words(struct reading *reading, const char *body)
{
	struct strbuf clean AUTO_STRBUF = STRBUF_NONE;
	size_t room = reading->text->max - reading->text->len;

	strbuf_init(&clean, STRBUF_MAX);
	strip_hidden(body, strlen(body), &clean, &reading->counts);
	if (clean.len + 512 > room) {
		reading->cut = true;
		clean.len = room > 512 ? room - 512 : 0;
		/* not within a character */
		while (clean.len && ((unsigned char)clean.data[clean.len] & 0xC0) == 0x80)
			clean.len--;
	}
	strbuf_add(reading->text, clean.data, clean.len);
	strbuf_adds(reading->text, "\n");
}

static int read_writers(struct reading *reading, struct error *err)
{
	struct client *client = reading->client;
	struct forge_request request;
	bool more = true;

	js_set_bool(reading->writers, client->forge.owner, true);
	for (int page = 1; more && page <= PAGES_MAX; page++) {
		struct json *answer AUTO_JSON = NULL;
		struct error refused = {0};

		if (!forge_get_writers(&client->forge, page, &request))
			return 0;
		if (call(client, &request, "who may write", &answer, &more, &refused)) {
			/* without the right to see it nobody but the owner counts as one who may write */
			if (refused.kind == ERROR_NO || refused.kind == ERROR_USAGE)
				return 0;
			*err = refused;
			return err->kind;
		}
		forge_read_writers(client->forge.kind, answer, reading->writers);
		more = js_len(answer) >= FORGE_PAGE || more;
		if (!js_len(answer))
			break;
	}
	return 0;
}

static void put_comment(struct reading *reading, const struct forge_comment *comment)
{
	char author[128];

	if (comment->note || !comment->body[0])
		return;
	if (!comment->writes && !reading->strangers) {
		reading->left_out++;
		return;
	}
	text_escape(author, sizeof(author), comment->author, strlen(comment->author));
	strbuf_addf(reading->text, "\n## Comment by %s%s\n\n", author,
		    comment->writes ? "" : " (who may not write to the repository)");
	put_words(reading, comment->body);
}

static int read_comments(struct reading *reading, struct error *err)
{
	struct client *client = reading->client;
	bool more = true;

	for (int page = 1; more && page <= PAGES_MAX && !reading->cut; page++) {
		struct json *answer AUTO_JSON = NULL;
		struct forge_request request;

		forge_get_comments(&client->forge, reading->number, page, &request);
		if (call(client, &request, "comments", &answer, &more, err))
			return err->kind;
		for (size_t i = 0; i < js_len(answer); i++) {
			struct forge_comment comment;

			if (forge_read_comment(client->forge.kind, js_at(answer, i),
					       reading->writers, &comment))
				put_comment(reading, &comment);
		}
		if (!js_len(answer))
			break;
	}
	reading->cut = reading->cut || more;
	return 0;
}

static bool is_ours(const struct forge *forge, const struct forge_pull_seen *seen,
		    const char *fork, const char *head, const char *marker)
{
	if (!marker[0] || !strstr(seen->body, marker))
		return false;
	/* an issue's reader knows no branch: ours may be in the repository or in the fork */
	return forge_pull_is_from(forge, seen, fork, head) ||
	       (!head && forge_pull_is_from(forge, seen, NULL, NULL));
}

/* An open pull request of ours, by its marker and by where its branch is (head NULL: any branch
 * that strangers cannot make): the forge's word on it, or NULL. New. */
static int find_linked(struct client *client, const char *fork, const char *head,
		       const char *marker, struct json **pull, struct error *err)
{
	bool more = true;

	*pull = NULL;
	for (int page = 1; more && page <= PAGES_MAX && !*pull; page++) {
		struct json *answer AUTO_JSON = NULL;
		struct forge_request request;

		forge_find_pulls(&client->forge, fork, head, page, &request);
		if (call(client, &request, "pull requests", &answer, &more, err))
			return err->kind;
		for (size_t i = 0; i < js_len(answer) && !*pull; i++) {
			struct forge_pull_seen seen;

			if (forge_read_pull(client->forge.kind, js_at(answer, i), &seen) &&
			    is_ours(&client->forge, &seen, fork, head, marker))
				*pull = js_copy(js_at(answer, i));
		}
		if (!js_len(answer))
			break;
	}
	return 0;
}

static void put_labels(struct reading *reading, const struct forge_issue *issue)
{
	for (size_t i = 0; i < js_len(issue->labels) && i < 50; i++) {
		const struct json *label = js_at(issue->labels, i);
		const char *name = js_text(label) ? js_text(label) : js_str(label, "name", "");
		char shown[128];

		text_escape(shown, sizeof(shown), name, strlen(name));
		strbuf_addf(reading->text, "%s%s", i ? ", " : "\nLabels: ", shown);
	}
	if (js_len(issue->labels))
		strbuf_adds(reading->text, "\n");
}

static struct json *issue_result(struct reading *reading, const struct forge_issue *issue,
				 const struct json *linked)
{
	struct json *out = js_artefact_new("forge-issue", 1);
	struct forge_pull_seen seen;
	char removed[512];

	strip_describe(&reading->counts, removed, sizeof(removed));
	js_set_str(out, "title", issue->title);
	js_set_str(out, "url", issue->url);
	js_set_str(out, "state", issue->state);
	js_set_bool(out, "locked", issue->locked);
	js_set_bool(out, "pull", issue->is_pull);
	js_set_str(out, "revision", issue->revision);
	js_set_str(out, "author", issue->author);
	js_set_strn(out, "text", reading->text->data, reading->text->len);
	js_set_str(out, "removed", removed);
	js_set_int(out, "left_out", (long long)reading->left_out);
	js_set_bool(out, "cut", reading->cut);
	if (linked && forge_read_pull(reading->client->forge.kind, linked, &seen))
		js_set_str(out, "linked", seen.url);
	return out;
}

static int read_issue(struct reading *reading, struct json **answer, struct forge_issue *issue,
		      struct error *err)
{
	struct client *client = reading->client;
	struct forge_request request;
	char *what AUTO_FREE = mem_printf("issue %lld", reading->number);

	forge_get_issue(&client->forge, reading->number, &request);
	if (call(client, &request, what, answer, NULL, err) ||
	    forge_read_issue(client->forge.kind, *answer, issue, err) ||
	    read_writers(reading, err))
		return err->kind;
	if (!issue->author_writes)
		issue->author_writes = js_bool(reading->writers, issue->author, false);
	strbuf_addf(reading->text, "# %s\n\n", issue->title);
	if (!issue->author_writes)
		strbuf_addf(reading->text,
			    "(Written by %s, who may not write to the repository.)\n\n",
			    issue->author);
	put_words(reading, issue->body);
	put_labels(reading, issue);
	return read_comments(reading, err);
}

static int run_issue(struct stage *stage, struct error *err)
{
	struct client client AUTO_CLIENT = {.http = NULL};
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	struct json *writers AUTO_JSON = js_object_new(), *answer AUTO_JSON = NULL;
	struct json *linked AUTO_JSON = NULL;
	struct reading reading = {.client = &client,
				  .job = stage->job,
				  .writers = writers,
				  .text = &text,
				  .number = js_int(stage->job, "number", 0),
				  .strangers = js_bool(stage->job, "strangers", false)};
	struct forge_issue issue;

	strbuf_init(&text, TEXT_MAX);
	if (open_client(&client, stage, err) || read_issue(&reading, &answer, &issue, err))
		return err->kind;
	if (find_linked(&client, js_str(stage->job, "fork", NULL), NULL,
			js_str(stage->job, "marker", ""), &linked, err))
		return err->kind;
	return write_result(&client, issue_result(&reading, &issue, linked), err);
}

/* ---- pull ---- */

struct pulling {
	struct client *client;
	const struct json *job, *words;
	const char *marker;
	long long issue; /* 0: none */
};

static int default_branch(struct pulling *pulling, char name[256], struct error *err)
{
	struct json *answer AUTO_JSON = NULL;
	struct forge_request request;
	const char *given = js_str(pulling->job, "base", NULL);

	if (!given) {
		forge_get_repository(&pulling->client->forge, &request);
		if (call(pulling->client, &request, "the repository", &answer, NULL, err))
			return err->kind;
		given = js_str(answer, "default_branch", "");
	}
	if (!given[0] || snprintf(name, 256, "%s", given) >= 256)
		return error_set(err, ERROR_FAILED, "%s names no default branch",
				 pulling->client->forge.host);
	return 0;
}

/* Found by the marker and changed, or made. *answer: the forge's word on it; new. */
static int make_pull(struct pulling *pulling, struct json **answer, bool *created,
		     struct error *err)
{
	struct client *client = pulling->client;
	struct json *existing AUTO_JSON = NULL;
	struct forge_pull_seen seen;
	struct forge_request request;
	char base[256];
	struct forge_pull pull = {.head = js_str(pulling->job, "head", ""),
				  .fork = js_str(pulling->job, "fork", NULL),
				  .base = base,
				  .title = js_str(pulling->words, "title", ""),
				  .body = js_str(pulling->words, "body", ""),
				  .draft = js_bool(pulling->job, "draft", true)};

	if (find_linked(client, pull.fork, pull.head, pulling->marker, &existing, err))
		return err->kind;
	*created = existing == NULL;
	if (existing && forge_read_pull(client->forge.kind, existing, &seen)) {
		forge_change_pull(&client->forge, seen.number, &pull, &request);
		return call(client, &request, "changing the pull request", answer, NULL, err);
	}
	if (default_branch(pulling, base, err))
		return err->kind;
	forge_make_pull(&client->forge, &pull, &request);
	return call(client, &request, "making the pull request", answer, NULL, err);
}

/* Whose the token is, new; "" when the forge does not say it to this token. */
static int find_self(struct pulling *pulling, char **name, struct error *err)
{
	struct json *answer AUTO_JSON = NULL;
	struct forge_request request;
	struct error refused = {0};

	*name = NULL;
	forge_get_self(&pulling->client->forge, &request);
	if (call(pulling->client, &request, "whose token it is", &answer, NULL, &refused) &&
	    refused.kind != ERROR_NO && refused.kind != ERROR_USAGE) {
		*err = refused;
		return err->kind;
	}
	*name = mem_strdup(forge_read_self(pulling->client->forge.kind, answer));
	return 0;
}

/* Our comment on the issue, by its author and its marker: its id, 0 when there is none. The marker
 * alone would let anybody put up a comment for us to change. */
static int find_comment(struct pulling *pulling, long long *id, struct error *err)
{
	char *self AUTO_FREE = NULL;
	bool more = true;

	*id = 0;
	if (find_self(pulling, &self, err) || !self)
		return err->kind;
	for (int page = 1; more && page <= PAGES_MAX && !*id; page++) {
		struct json *answer AUTO_JSON = NULL;
		struct forge_request request;

		forge_get_comments(&pulling->client->forge, pulling->issue, page, &request);
		if (call(pulling->client, &request, "comments", &answer, &more, err))
			return err->kind;
		for (size_t i = 0; i < js_len(answer); i++) {
			struct forge_comment comment;

			if (forge_read_comment(pulling->client->forge.kind, js_at(answer, i),
					       NULL, &comment) &&
			    (self[0] ? strcmp(comment.author, self) == 0 : comment.app) &&
			    strstr(comment.body, pulling->marker))
				*id = comment.id;
		}
		if (!js_len(answer))
			break;
	}
	return 0;
}

static int make_comment(struct pulling *pulling, const char *url, struct error *err)
{
	struct json *answer AUTO_JSON = NULL;
	struct forge_request request;
	char *text AUTO_FREE = mem_printf(
	    "%s %s\n\n%s\n", js_str(pulling->words, "comment", ""), url, pulling->marker);
	long long id;

	if (find_comment(pulling, &id, err))
		return err->kind;
	if (id)
		forge_change_comment(&pulling->client->forge, pulling->issue, id, text,
				     &request);
	else
		forge_make_comment(&pulling->client->forge, pulling->issue, text, &request);
	return call(pulling->client, &request, "the comment on the issue", &answer, NULL, err);
}

static int run_pull(struct stage *stage, struct error *err)
{
	struct client client AUTO_CLIENT = {.http = NULL};
	struct json *words AUTO_JSON = js_read_fd(FD_TEXT, PULL_MAX, "pull.json", err);
	struct json *answer AUTO_JSON = NULL, *out;
	struct pulling pulling = {.client = &client,
				  .job = stage->job,
				  .words = words,
				  .marker = js_str(stage->job, "marker", ""),
				  .issue = js_int(stage->job, "issue", 0)};
	struct error comment = {0};
	struct forge_pull_seen seen;
	bool created;

	if (!words || js_check_kind(words, "pull", 1, err) || open_client(&client, stage, err))
		return err->kind;
	if (!pulling.marker[0] || !strstr(js_str(words, "body", ""), pulling.marker))
		return error_set(err, ERROR_USAGE,
				 "the text of the pull request lacks its marker");
	if (make_pull(&pulling, &answer, &created, err))
		return err->kind;
	if (!forge_read_pull(client.forge.kind, answer, &seen))
		return error_set(err, ERROR_FAILED, "the forge's answer is no pull request");
	out = js_artefact_new("forge-pull", 1);
	js_set_int(out, "number", seen.number);
	js_set_str(out, "url", seen.url);
	js_set_bool(out, "created", created);
	/* the pull request is there: a comment that cannot be made is told, not a failure of it */
	if (pulling.issue && make_comment(&pulling, seen.url, &comment))
		js_set_str(out, "comment_error", comment.message);
	js_set_bool(out, "commented", pulling.issue && !comment.kind);
	return write_result(&client, out, err);
}

/* ---- main ---- */

static int run(struct stage *stage, struct error *err)
{
	return stage_id_of(stage->row) == STAGE_FORGE_ISSUE ? run_issue(stage, err)
							    : run_pull(stage, err);
}

int main(int argc, char **argv)
{
	return stage_main(argc, argv, NULL, run);
}
