#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/events.h"
#include "pipeline/fds.h"
#include "pipeline/http/http.h"
#include "pipeline/secret.h"
#include "pipeline/stage.h"

#define CA_MAX ((size_t)8 << 20)
#define ANSWER_MAX ((size_t)16 << 20) /* bytes of one answer */
#define IDLE_MS 30000
#define CALL_MS 60000

void client_release(struct client *client)
{
	http_free(client->http);
	secret_wipe(client->token);
	strbuf_release(&client->ca);
}

/* ---- the server ---- */

static int take_token(struct client *client, struct error *err)
{
	if (!fd_is_open(FD_SECRET))
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

int client_open(struct client *client, const struct stage *stage, struct error *err)
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
	return error_next(err, "check the network and forge.api");
}

int client_call(struct client *client, struct forge_request *request, const char *what,
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

int client_write(struct client *client, struct json *taken, struct error *err)
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

/* ---- pull requests of ours ---- */

static int project_number(struct client *client, const struct forge *forge, const char *what,
			  long long *number, struct error *err)
{
	struct json *answer AUTO_JSON = NULL;
	struct forge_request request;

	forge_get_repository(forge, &request);
	if (client_call(client, &request, what, &answer, NULL, err))
		return err->kind;
	*number = js_int(answer, "id", 0);
	return *number > 0 ? 0
			   : error_set(err, ERROR_FAILED, "%s does not say the number of %s/%s",
				       forge->host, forge->owner, forge->repo);
}

int client_take_fork(struct client *client, const struct json *job, struct client_fork *fork,
		     struct error *err)
{
	const struct json *given = js_get(job, "fork");
	const char *repo;

	*fork = (struct client_fork){.owner = NULL, .forge = client->forge};
	if (!js_is_object(given))
		return 0;
	if (js_need_str(given, "owner", &fork->owner, err) ||
	    js_need_str(given, "repo", &repo, err))
		return err->kind;
	if (client->forge.kind != FORGE_GITLAB)
		return 0;
	if (snprintf(fork->forge.owner, sizeof(fork->forge.owner), "%s", fork->owner) >=
		(int)sizeof(fork->forge.owner) ||
	    snprintf(fork->forge.repo, sizeof(fork->forge.repo), "%s", repo) >=
		(int)sizeof(fork->forge.repo))
		return error_set(err, ERROR_USAGE, "the name of the fork is too long");
	if (project_number(client, &client->forge, "the repository", &fork->target, err))
		return err->kind;
	return project_number(client, &fork->forge, "the fork", &fork->project, err);
}

static bool is_ours(const struct forge *forge, const struct forge_pull_seen *seen,
		    const struct client_fork *from, const char *head, const char *marker)
{
	const char *fork = from->owner;

	if (!marker[0] || !strstr(seen->body, marker))
		return false;
	if (from->project)
		return forge_pull_is_from_project(seen, from->project,
						  head ? head : seen->head) ||
		       (!head && forge_pull_is_from(forge, seen, NULL, NULL));
	/* an issue's reader knows no branch: ours may be in the repository or in the fork */
	return forge_pull_is_from(forge, seen, fork, head) ||
	       (!head && forge_pull_is_from(forge, seen, NULL, NULL));
}

int client_find_pull(struct client *client, const struct client_fork *fork, const char *head,
		     const char *marker, struct json **pull, struct error *err)
{
	bool more = true;

	*pull = NULL;
	for (int page = 1; more && page <= CLIENT_PAGES_MAX && !*pull; page++) {
		struct json *answer AUTO_JSON = NULL;
		struct forge_request request;

		forge_find_pulls(&client->forge, fork->owner, head, page, &request);
		if (client_call(client, &request, "pull requests", &answer, &more, err))
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
