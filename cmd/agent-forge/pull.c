/* agent-forge pull: a pull request made, or brought up to date, and a comment on its issue; or a look at what became of one. */
#include "client.h"

#include <stdio.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/fds.h"
#include "pipeline/forge/forge.h"
#include "pipeline/stage.h"

#define PULL_MAX ((size_t)1 << 20)

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
		if (client_call(pulling->client, &request, "the repository", &answer, NULL,
				err))
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
	struct client_fork fork;
	char base[256];
	struct forge_pull pull = {.head = js_str(pulling->job, "head", ""),
				  .base = base,
				  .title = js_str(pulling->words, "title", ""),
				  .body = js_str(pulling->words, "body", ""),
				  .draft = js_bool(pulling->job, "draft", true)};

	if (client_take_fork(client, pulling->job, &fork, err) ||
	    client_find_pull(client, &fork, pull.head, pulling->marker, &existing, err))
		return err->kind;
	pull.fork = fork.owner;
	pull.target = fork.target;
	*created = existing == NULL;
	if (existing && forge_read_pull(client->forge.kind, existing, &seen)) {
		forge_change_pull(&client->forge, seen.number, &pull, &request);
		return client_call(client, &request, "changing the pull request", answer, NULL,
				   err);
	}
	if (default_branch(pulling, base, err))
		return err->kind;
	forge_make_pull(&fork.forge, &pull, &request);
	return client_call(client, &request, "making the pull request", answer, NULL, err);
}

/* Whose the token is, new; "" when the forge does not say it to this token. */
static int find_self(struct pulling *pulling, char **name, struct error *err)
{
	struct json *answer AUTO_JSON = NULL;
	struct forge_request request;
	struct error refused = {0};

	*name = NULL;
	forge_get_self(&pulling->client->forge, &request);
	if (client_call(pulling->client, &request, "whose token it is", &answer, NULL,
			&refused) &&
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
	for (int page = 1; more && page <= CLIENT_PAGES_MAX && !*id; page++) {
		struct json *answer AUTO_JSON = NULL;
		struct forge_request request;

		forge_get_comments(&pulling->client->forge, pulling->issue, page, &request);
		if (client_call(pulling->client, &request, "comments", &answer, &more, err))
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
	return client_call(pulling->client, &request, "the comment on the issue", &answer, NULL,
			   err);
}

/* Labels that the forge does not have are left out, and said; *why (owned by the caller) is NULL when all are there. */
static int add_labels(struct pulling *pulling, long long number, char **why, struct error *err)
{
	struct client *client = pulling->client;
	const struct json *wanted = js_get(pulling->job, "labels");
	struct json *numbers AUTO_JSON = js_array_new(), *answer AUTO_JSON = NULL;
	struct forge_request request;
	bool listed = false, more = true;

	*why = NULL;
	if (!js_len(wanted))
		return 0;
	for (int page = 1; more && page <= CLIENT_PAGES_MAX &&
			   forge_get_labels(&client->forge, page, &request);
	     page++) {
		struct json *known AUTO_JSON = NULL;

		listed = true;
		if (client_call(client, &request, "labels", &known, &more, err))
			return err->kind;
		forge_read_labels(known, wanted, numbers);
		if (!js_len(known))
			break;
	}
	if (listed && js_len(numbers) < js_len(wanted))
		*why = mem_printf("%s has %zu of the %zu labels", client->forge.host,
				  js_len(numbers), js_len(wanted));
	if (listed && !js_len(numbers))
		return 0;
	forge_add_labels(&client->forge, number, listed ? numbers : wanted, &request);
	return client_call(client, &request, "the labels", &answer, NULL, err);
}

/* {"kind":"forge-look","version":1,"state","url"} */
static int look(struct client *client, long long number, struct error *err)
{
	struct json *answer AUTO_JSON = NULL, *out;
	struct forge_request request;
	struct forge_pull_seen seen;

	forge_get_pull(&client->forge, number, &request);
	if (client_call(client, &request, "the pull request", &answer, NULL, err))
		return err->kind;
	if (!forge_read_pull(client->forge.kind, answer, &seen))
		return error_set(err, ERROR_FAILED, "the forge's answer is no pull request");
	out = js_artefact_new("forge-look", 1);
	js_set_str(out, "state", forge_read_fate(client->forge.kind, answer));
	js_set_str(out, "url", seen.url);
	return client_write(client, out, err);
}

static int look_at(struct stage *stage, long long number, struct error *err)
{
	struct client client AUTO_CLIENT = {.http = NULL};

	return client_open(&client, stage, err) ? err->kind : look(&client, number, err);
}

static void tell_labels(struct pulling *pulling, long long number, struct json *out)
{
	struct error failed = {0};
	char *why AUTO_FREE = NULL;

	/* the pull request is there: labels that cannot be had are told, not a failure of it */
	if (add_labels(pulling, number, &why, &failed))
		js_set_str(out, "label_error", failed.message);
	else if (why)
		js_set_str(out, "label_error", why);
}

static int make(struct stage *stage, struct error *err)
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

	if (!words || js_check_kind(words, "pull", 1, err) || client_open(&client, stage, err))
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
	tell_labels(&pulling, seen.number, out);
	/* the pull request is there: a comment that cannot be made is told, not a failure of it */
	if (pulling.issue && make_comment(&pulling, seen.url, &comment))
		js_set_str(out, "comment_error", comment.message);
	js_set_bool(out, "commented", pulling.issue && !comment.kind);
	return client_write(&client, out, err);
}

int run_pull(struct stage *stage, struct error *err)
{
	long long number = js_int(stage->job, "look", 0);

	return number > 0 ? look_at(stage, number, err) : make(stage, err);
}
