/* What the forges answer (forge.h). */
#include "forge.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/text.h"

#define GITLAB_DEVELOPER 30 /* access level from which one may push */
#define ERROR_BODY_MAX 65536

static void copy_line(char *dst, size_t size, const char *text)
{
	text_escape(dst, size, text, strlen(text));
}

/* GitHub says it with each author. */
static bool association_writes(const char *association)
{
	return strcmp(association, "OWNER") == 0 || strcmp(association, "MEMBER") == 0 ||
	       strcmp(association, "COLLABORATOR") == 0;
}

static const char *author_of(enum forge_kind kind, const struct json *entry)
{
	return kind == FORGE_GITLAB ? js_str(js_get(entry, "author"), "username", "")
				    : js_str(js_get(entry, "user"), "login", "");
}

int forge_read_issue(enum forge_kind kind, const struct json *answer, struct forge_issue *issue,
		     struct error *err)
{
	bool gitlab = kind == FORGE_GITLAB;
	const char *state = js_str(answer, "state", "");

	*issue =
	    (struct forge_issue){.body = js_str(answer, gitlab ? "description" : "body", "")};
	if (!js_is_object(answer) || !js_str(answer, "title", NULL) || !state[0] ||
	    js_int(answer, gitlab ? "iid" : "number", 0) < 1)
		return error_set(err, ERROR_FAILED, "the forge's answer is no issue of %s",
				 forge_kind_text(kind));
	copy_line(issue->title, sizeof(issue->title), js_str(answer, "title", ""));
	copy_line(issue->author, sizeof(issue->author), author_of(kind, answer));
	copy_line(issue->revision, sizeof(issue->revision), js_str(answer, "updated_at", ""));
	copy_line(issue->url, sizeof(issue->url),
		  js_str(answer, gitlab ? "web_url" : "html_url", ""));
	snprintf(issue->state, sizeof(issue->state), "%s",
		 strcmp(state, "open") == 0 || strcmp(state, "opened") == 0 ? "open"
									    : "closed");
	issue->locked = js_bool(answer, gitlab ? "discussion_locked" : "locked", false) ||
			js_bool(answer, "is_locked", false);
	issue->is_pull = js_is_object(js_get(answer, "pull_request"));
	issue->author_writes = association_writes(js_str(answer, "author_association", ""));
	issue->labels = js_get(answer, "labels");
	return 0;
}

void forge_read_writers(enum forge_kind kind, const struct json *answer, struct json *names)
{
	for (size_t i = 0; i < js_len(answer); i++) {
		const struct json *entry = js_at(answer, i);
		const char *name =
		    js_str(entry, kind == FORGE_GITLAB ? "username" : "login", "");
		const struct json *rights = js_get(entry, "permissions");
		bool writes = kind == FORGE_GITLAB
				  ? js_int(entry, "access_level", 0) >= GITLAB_DEVELOPER
				  : !js_is_object(rights) || js_bool(rights, "push", false);

		if (name[0] && writes)
			js_set_bool(names, name, true);
	}
}

bool forge_read_comment(enum forge_kind kind, const struct json *entry,
			const struct json *writers, struct forge_comment *comment)
{
	*comment = (struct forge_comment){
	    .id = js_int(entry, "id", 0),
	    .author = author_of(kind, entry),
	    .body = js_str(entry, "body", ""),
	    .note = js_bool(entry, "system", false),
	};
	comment->writes = kind == FORGE_GITHUB
			      ? association_writes(js_str(entry, "author_association", ""))
			      : js_bool(writers, comment->author, false);
	comment->app = kind == FORGE_GITHUB &&
		       strcmp(js_str(js_get(entry, "user"), "type", ""), "Bot") == 0;
	return js_is_object(entry) && comment->id > 0;
}

const char *forge_read_self(enum forge_kind kind, const struct json *answer)
{
	return js_str(answer, kind == FORGE_GITLAB ? "username" : "login", "");
}

bool forge_read_pull(enum forge_kind kind, const struct json *entry,
		     struct forge_pull_seen *pull)
{
	bool gitlab = kind == FORGE_GITLAB;

	*pull = (struct forge_pull_seen){
	    .number = js_int(entry, gitlab ? "iid" : "number", 0),
	    .url = js_str(entry, gitlab ? "web_url" : "html_url", ""),
	    .body = js_str(entry, gitlab ? "description" : "body", ""),
	    .state = js_str(entry, "state", ""),
	};
	if (gitlab) {
		pull->head = js_str(entry, "source_branch", "");
		pull->from = "";
		pull->source = js_int(entry, "source_project_id", 0);
		pull->inside = js_int(entry, "source_project_id", -1) ==
			       js_int(entry, "target_project_id", -2);
	} else {
		const struct json *head = js_get(entry, "head");

		pull->head = js_str(head, "ref", "");
		pull->from = js_str(js_get(head, "repo"), "full_name", "");
	}
	return pull->number > 0;
}

const char *forge_read_fate(enum forge_kind kind, const struct json *entry)
{
	const char *state = js_str(entry, "state", "");

	if (kind == FORGE_GITLAB
		? strcmp(state, "merged") == 0
		: (js_bool(entry, "merged", false) || js_str(entry, "merged_at", NULL)))
		return "merged";
	/* a state that is not known here, such as GitLab's "locked", lasts */
	return strcmp(state, "closed") == 0 ? "closed" : "open";
}

void forge_read_labels(const struct json *answer, const struct json *wanted,
		       struct json *numbers)
{
	for (size_t i = 0; i < js_len(answer); i++) {
		const struct json *label = js_at(answer, i);
		long long id = js_int(label, "id", 0);

		for (size_t k = 0; id > 0 && k < js_len(wanted); k++)
			if (strcmp(js_text(js_at(wanted, k)), js_str(label, "name", "")) == 0)
				js_push(numbers, js_int_new(id));
	}
}

bool forge_pull_is_from(const struct forge *forge, const struct forge_pull_seen *pull,
			const char *fork, const char *head)
{
	size_t owner = strlen(fork ? fork : forge->owner);

	if (head && strcmp(pull->head, head) != 0)
		return false;
	if (forge->kind == FORGE_GITLAB)
		return pull->inside && !fork;
	if (strncasecmp(pull->from, fork ? fork : forge->owner, owner) != 0 ||
	    pull->from[owner] != '/')
		return false;
	return fork || strcasecmp(pull->from + owner + 1, forge->repo) == 0;
}

bool forge_pull_is_from_project(const struct forge_pull_seen *pull, long long project,
				const char *head)
{
	return project > 0 && pull->source == project && strcmp(pull->head, head) == 0;
}

/* ---- refusals ---- */

/* The forge's own words: "message", "error", and what "errors" says. Escaped. */
static void own_words(const struct forge_refusal *refusal, char *dst, size_t size)
{
	struct error ignored = {0};
	AUTO_JSON struct json *body =
	    js_parse(refusal->body, refusal->len, ERROR_BODY_MAX, "answer", &ignored);
	const char *message = js_str(body, "message", js_str(body, "error", ""));
	const struct json *errors = js_get(body, "errors"), *first = js_at(errors, 0);
	const char *more = js_text(first) ? js_text(first) : js_str(first, "message", "");
	char *all AUTO_FREE = NULL;

	if (!message[0] && js_len(js_get(body, "message")))
		message = js_text(js_at(js_get(body, "message"), 0));
	all = mem_printf("%s%s%s", message ? message : "", more[0] ? ": " : "", more);
	text_escape(dst, size, all, strlen(all));
}

static int later(const struct forge *forge, const struct forge_refusal *refusal,
		 struct error *err)
{
	char when[64] = "in a while";
	time_t reset = (time_t)refusal->rate_reset;
	struct tm parts;

	if (refusal->retry_after_s > 0)
		snprintf(when, sizeof(when), "in %ld s", refusal->retry_after_s);
	else if (reset > 0 && gmtime_r(&reset, &parts))
		strftime(when, sizeof(when), "at %H:%M:%S UTC", &parts);
	error_set(err, ERROR_LATER, "%s takes no more calls for now", forge->host);
	return error_next(
	    err, "try again %s%s", when,
	    refusal->with_token ? "" : "; a token (forge.readToken) has a larger allowance");
}

static bool is_limit(const struct forge_refusal *refusal, const char *words)
{
	return refusal->status == 429 ||
	       (refusal->status == 403 &&
		(refusal->rate_left == 0 || refusal->retry_after_s > 0 ||
		 strcasestr(words, "rate limit") || strcasestr(words, "abuse")));
}

int forge_refused(const struct forge *forge, const char *what,
		  const struct forge_refusal *refusal, struct error *err)
{
	char words[400];

	own_words(refusal, words, sizeof(words));
	if (is_limit(refusal, words))
		return later(forge, refusal, err);
	switch (refusal->status) {
	case 301:
	case 302:
	case 307:
	case 308:
		error_set(err, ERROR_USAGE, "%s has moved%s%s", what,
			  refusal->location[0] ? " to a place on " : "", refusal->location);
		return error_next(
		    err, "open it in a browser and name its new address; redirects are "
			 "not followed, since a token goes to one host only");
	case 401:
		if (!refusal->with_token) {
			error_set(err, ERROR_USAGE, "%s answers only to a token: %s",
				  forge->host, words);
			return error_next(
			    err, "name one that may read issues in forge.readToken, such as "
				 "env:NAME or file:PATH");
		}
		error_set(err, ERROR_USAGE, "%s does not accept the token: %s", forge->host,
			  words);
		return error_next(err,
				  "check the source of the token, and whether it has expired");
	case 403:
		error_set(err, ERROR_NO, "%s does not allow it (%s): %s", forge->host, what,
			  words);
		return error_next(err, "the token needs the right to %s of %s/%s",
				  "read, or write, issues and pull requests", forge->owner,
				  forge->repo);
	case 404:
		error_set(err, ERROR_USAGE, "%s: %s has none such in %s/%s", what, forge->host,
			  forge->owner, forge->repo);
		return error_next(err,
				  "check the number; a private repository also answers so %s",
				  refusal->with_token ? "when the token may not see it"
						      : "without a token (forge.readToken)");
	case 410:
		return error_set(err, ERROR_USAGE, "%s was deleted, or issues are switched off",
				 what);
	case 409:
	case 422:
		return error_set(err, ERROR_NO, "%s does not take it (%s): %s", forge->host,
				 what, words);
	default:
		break;
	}
	if (refusal->status >= 500)
		return error_set(err, ERROR_LATER, "%s is in trouble: status %d %s",
				 forge->host, refusal->status, words);
	return error_set(err, ERROR_FAILED, "%s: %s answered with status %d: %s", what,
			 forge->host, refusal->status, words);
}
