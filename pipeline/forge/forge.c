#include "forge.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/url.h"

static const char *const kinds[] = {"github", "gitlab", "gitea"};

const char *forge_kind_text(enum forge_kind kind)
{
	return kinds[kind];
}

void forge_request_release(struct forge_request *request)
{
	js_free(request->body);
	request->body = NULL;
}

/* ---- where ---- */

/* Letters, digits and what the forges allow in names of owners and repositories. */
static bool is_name(const char *text, size_t len, bool slashes)
{
	if (!len || text[0] == '/' || text[len - 1] == '/' || text[0] == '.' || text[0] == '-')
		return false;
	for (size_t i = 0; i < len; i++) {
		if (!isalnum((unsigned char)text[i]) && !strchr("._-", text[i]) &&
		    !(slashes && text[i] == '/'))
			return false;
		if (text[i] == '/' && (text[i + 1] == '/' || text[i + 1] == '.'))
			return false;
	}
	return true;
}

/* "OWNER/REPO" or "GROUP/…/REPO", with or without ".git" and slashes around. */
static int set_name(struct forge *forge, const char *path, size_t len)
{
	const char *slash;

	while (len && *path == '/')
		path++, len--;
	while (len && path[len - 1] == '/')
		len--;
	if (len > 4 && memcmp(path + len - 4, ".git", 4) == 0)
		len -= 4;
	slash = len ? memrchr(path, '/', len) : NULL;
	if (!slash)
		return -1;
	size_t owner = (size_t)(slash - path), repo = len - owner - 1;
	if (owner >= sizeof(forge->owner) || repo >= sizeof(forge->repo) ||
	    !is_name(path, owner, true) || !is_name(slash + 1, repo, false))
		return -1;
	memcpy(forge->owner, path, owner);
	forge->owner[owner] = '\0';
	memcpy(forge->repo, slash + 1, repo);
	forge->repo[repo] = '\0';
	return 0;
}

/* Host and path of https://…, ssh://…, and git's short ssh form. False when there is no host. */
static bool split_url(const char *url, char host[256], const char **path)
{
	const char *scheme = strstr(url, "://"), *begin = scheme ? scheme + 3 : url, *at, *end;
	size_t len = strcspn(begin, scheme ? "/?#" : ":/");

	if (!scheme && begin[len] != ':')
		return false;
	at = memrchr(begin, '@', len);
	end = begin + len;
	begin = at ? at + 1 : begin;
	*path = scheme ? end : end + 1;
	if (scheme && *begin != '[') {
		const char *colon = memchr(begin, ':', (size_t)(end - begin));
		end = colon ? colon : end;
	}
	len = (size_t)(end - begin);
	if (!len || len >= 256)
		return false;
	for (size_t i = 0; i < len; i++)
		host[i] = (char)tolower((unsigned char)begin[i]);
	host[len] = '\0';
	return true;
}

static bool has_label(const char *host, const char *label)
{
	size_t len = strlen(label);

	for (const char *at = host; (at = strstr(at, label)); at++)
		if ((at == host || at[-1] == '.') && (!at[len] || at[len] == '.'))
			return true;
	return false;
}

static int set_kind(struct forge *forge, const char *kind, const char *host, struct error *err)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcmp(kind, kinds[i]) == 0) {
			forge->kind = (enum forge_kind)i;
			return 0;
		}
	if (has_label(host, "github"))
		forge->kind = FORGE_GITHUB;
	else if (has_label(host, "gitlab"))
		forge->kind = FORGE_GITLAB;
	else if (has_label(host, "gitea") || has_label(host, "forgejo") ||
		 has_label(host, "codeberg"))
		forge->kind = FORGE_GITEA;
	else {
		error_set(err, ERROR_USAGE,
			  "what kind of forge %s is cannot be told by its name", host);
		return error_next(err, "set forge.kind to github, gitlab or gitea");
	}
	return 0;
}

/* Where the API is: as configured, or the kind's usual place. */
static int set_api(struct forge *forge, const char *api, const char *host, struct error *err)
{
	static const char *const paths[] = {"/api/v3", "/api/v4", "/api/v1"};
	struct url url;

	if (api) {
		if (url_parse(api, &url, err))
			return error_wrap(err, "forge.api");
		memcpy(forge->host, url.host, sizeof(forge->host));
		forge->port = url.port;
		forge->tls = url.tls;
		if (snprintf(forge->path, sizeof(forge->path), "%s", url.path) >=
		    (int)sizeof(forge->path))
			return error_set(err, ERROR_USAGE, "forge.api: the path is too long");
		return 0;
	}
	bool public = forge->kind == FORGE_GITHUB && strcmp(host, "github.com") == 0;
	snprintf(forge->host, sizeof(forge->host), "%s%.240s", public ? "api." : "", host);
	snprintf(forge->path, sizeof(forge->path), "%s", public ? "" : paths[forge->kind]);
	forge->port = 443;
	forge->tls = true;
	return 0;
}

int forge_from_url(const char *url, const char *kind, const char *api, struct forge *forge,
		   struct error *err)
{
	const char *path;
	char host[256];

	*forge = (struct forge){.kind = FORGE_GITHUB};
	if (!split_url(url, host, &path) || set_name(forge, path, strcspn(path, "?#")) < 0) {
		error_set(err, ERROR_USAGE, "%s names no repository on a forge", url);
		return error_next(err,
				  "name the issue by its page's address, or save its text as "
				  "a file");
	}
	return set_kind(forge, kind, host, err) || set_api(forge, api, host, err) ? err->kind
										  : 0;
}

/* "N" of an issue, 0 when it is none. */
static long long issue_number(const char *text)
{
	long long number = 0;

	if (!*text || strlen(text) > 15 || strspn(text, "0123456789") != strlen(text))
		return 0;
	for (; *text; text++)
		number = number * 10 + (*text - '0');
	return number;
}

static int page_word(const char *word, const char *kind, const char *api, struct forge *forge,
		     long long *number, struct error *err)
{
	static const char *const marks[] = {"/-/issues/", "/-/work_items/", "/issues/"};

	for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
		const char *at = strstr(word, marks[i]);
		char *digits AUTO_FREE = NULL, *page AUTO_FREE = NULL;

		if (!at)
			continue;
		digits =
		    mem_strndup(at + strlen(marks[i]), strcspn(at + strlen(marks[i]), "/?#"));
		page = mem_strndup(word, (size_t)(at - word));
		*number = issue_number(digits);
		if (*number)
			return forge_from_url(page, kind, api, forge, err) ? err->kind : 1;
	}
	error_set(err, ERROR_USAGE, "%s is not the address of an issue", word);
	return error_next(err, "as in https://HOST/OWNER/REPO/issues/42");
}

int forge_issue_word(const char *word, const char *remote, const char *kind, const char *api,
		     struct forge *forge, long long *number, struct error *err)
{
	const char *hash = strchr(word, '#');

	if (strncmp(word, "https://", 8) == 0 || strncmp(word, "http://", 7) == 0)
		return page_word(word, kind, api, forge, number, err);
	*number = issue_number(hash ? hash + 1 : word);
	if (!*number)
		return 0;
	if (!remote) {
		error_set(err, ERROR_USAGE, "issue %s: the repository has no remote on a forge",
			  word);
		return error_next(err, "name it by its page's address, or publish.remote");
	}
	if (forge_from_url(remote, kind, api, forge, err))
		return error_wrap(err, "issue %s (there is no such file)", word);
	if (hash && hash > word && set_name(forge, word, (size_t)(hash - word)) < 0)
		return error_set(err, ERROR_USAGE, "%s: not OWNER/REPO#NUMBER", word);
	return 1;
}

struct json *forge_to_json(const struct forge *forge)
{
	struct json *json = js_object_new();

	js_set_str(json, "kind", forge_kind_text(forge->kind));
	js_set_str(json, "host", forge->host);
	js_set_int(json, "port", forge->port);
	js_set_bool(json, "tls", forge->tls);
	js_set_str(json, "path", forge->path);
	js_set_str(json, "owner", forge->owner);
	js_set_str(json, "repo", forge->repo);
	return json;
}

static int copy_text(const struct json *json, const char *key, char *dst, size_t size,
		     struct error *err)
{
	const char *text;

	if (js_need_str(json, key, &text, err))
		return err->kind;
	if (snprintf(dst, size, "%s", text) >= (int)size)
		return error_set(err, ERROR_USAGE, "%s is too long", key);
	return 0;
}

int forge_from_json(const struct json *json, struct forge *forge, struct error *err)
{
	const char *kind;
	long long port;

	*forge = (struct forge){.tls = js_bool(json, "tls", true)};
	if (js_need_str(json, "kind", &kind, err) || set_kind(forge, kind, "", err) ||
	    js_need_int(json, "port", 1, 65535, &port, err) ||
	    copy_text(json, "host", forge->host, sizeof(forge->host), err) ||
	    copy_text(json, "path", forge->path, sizeof(forge->path), err) ||
	    copy_text(json, "owner", forge->owner, sizeof(forge->owner), err) ||
	    copy_text(json, "repo", forge->repo, sizeof(forge->repo), err))
		return err->kind;
	forge->port = (int)port;
	if (!is_name(forge->owner, strlen(forge->owner), true) ||
	    !is_name(forge->repo, strlen(forge->repo), false))
		return error_set(err, ERROR_USAGE, "no name of a repository");
	return 0;
}

/* ---- requests ---- */

const char *const *forge_headers(enum forge_kind kind)
{
	static const char *const github[] = {"X-GitHub-Api-Version: 2022-11-28",
					     "Accept: application/vnd.github+json", NULL};
	static const char *const others[] = {"Accept: application/json", NULL};

	return kind == FORGE_GITHUB ? github : others;
}

const char *forge_token_header(enum forge_kind kind)
{
	switch (kind) {
	case FORGE_GITLAB:
		return "PRIVATE-TOKEN: ";
	case FORGE_GITEA:
		return "Authorization: token ";
	case FORGE_GITHUB:
		break;
	}
	return "Authorization: Bearer ";
}

/* Begins a request: the path of the repository, to which the rest is added. */
static void begin(const struct forge *forge, const char *method, struct json *body,
		  struct forge_request *request, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
static void begin(const struct forge *forge, const char *method, struct json *body,
		  struct forge_request *request, const char *format, ...)
{
	char rest[512], project[512];
	size_t used = 0;
	va_list args;

	va_start(args, format);
	vsnprintf(rest, sizeof(rest), format, args);
	va_end(args);
	*request = (struct forge_request){.method = method, .body = body};
	if (forge->kind != FORGE_GITLAB) {
		snprintf(request->path, sizeof(request->path), "%s/repos/%s/%s%s", forge->path,
			 forge->owner, forge->repo, rest);
		return;
	}
	/* GitLab names a project by its whole path, slashes escaped */
	for (const char *p = forge->owner; *p && used + 8 < sizeof(project); p++)
		used += (size_t)snprintf(project + used, sizeof(project) - used,
					 *p == '/' ? "%%2F" : "%c", *p);
	snprintf(project + used, sizeof(project) - used, "%%2F%s", forge->repo);
	snprintf(request->path, sizeof(request->path), "%s/projects/%s%s", forge->path, project,
		 rest);
}

void forge_get_issue(const struct forge *forge, long long number, struct forge_request *request)
{
	begin(forge, "GET", NULL, request, "/issues/%lld", number);
}

void forge_get_comments(const struct forge *forge, long long number, int page,
			struct forge_request *request)
{
	if (forge->kind == FORGE_GITLAB)
		begin(forge, "GET", NULL, request,
		      "/issues/%lld/notes?sort=asc&order_by=created_at&per_page=%d&page=%d",
		      number, FORGE_PAGE, page);
	else
		begin(forge, "GET", NULL, request, "/issues/%lld/comments?%s=%d&page=%d",
		      number, forge->kind == FORGE_GITHUB ? "per_page" : "limit", FORGE_PAGE,
		      page);
}

bool forge_get_writers(const struct forge *forge, int page, struct forge_request *request)
{
	if (forge->kind == FORGE_GITLAB)
		begin(forge, "GET", NULL, request, "/members/all?per_page=%d&page=%d",
		      FORGE_PAGE, page);
	else if (forge->kind == FORGE_GITEA)
		begin(forge, "GET", NULL, request, "/collaborators?limit=%d&page=%d",
		      FORGE_PAGE, page);
	return forge->kind != FORGE_GITHUB;
}

void forge_get_repository(const struct forge *forge, struct forge_request *request)
{
	begin(forge, "GET", NULL, request, "%s", "");
}

/* A branch name in a query. */
static void escape(const char *text, char *dst, size_t size)
{
	size_t used = 0;

	for (; *text && used + 4 < size; text++)
		used += (size_t)snprintf(
		    dst + used, size - used,
		    isalnum((unsigned char)*text) || strchr("._~-", *text) ? "%c" : "%%%02X",
		    (unsigned char)*text);
	dst[used] = '\0';
}

void forge_get_self(const struct forge *forge, struct forge_request *request)
{
	*request = (struct forge_request){.method = "GET"};
	snprintf(request->path, sizeof(request->path), "%s/user", forge->path);
}

void forge_find_pulls(const struct forge *forge, const char *fork, const char *head, int page,
		      struct forge_request *request)
{
	char name[400] = "";

	if (head)
		escape(head, name, sizeof(name));
	if (forge->kind == FORGE_GITLAB)
		begin(forge, "GET", NULL, request,
		      "/merge_requests?state=opened&per_page=%d&page=%d%s%s", FORGE_PAGE, page,
		      head ? "&source_branch=" : "", name);
	else if (forge->kind == FORGE_GITHUB && head)
		begin(forge, "GET", NULL, request,
		      "/pulls?state=open&per_page=%d&page=%d&head=%s%%3A%s", FORGE_PAGE, page,
		      fork ? fork : forge->owner, name);
	else if (forge->kind == FORGE_GITHUB)
		begin(forge, "GET", NULL, request,
		      "/pulls?state=open&per_page=%d&page=%d&sort=updated&direction=desc",
		      FORGE_PAGE, page);
	else /* Gitea cannot be asked for a head */
		begin(forge, "GET", NULL, request,
		      "/pulls?state=open&sort=recentupdate&limit=%d&page=%d", FORGE_PAGE, page);
}

static struct json *pull_body(const struct forge *forge, const struct forge_pull *pull,
			      bool is_new)
{
	struct json *body = js_object_new();
	bool gitlab = forge->kind == FORGE_GITLAB,
	     prefix = pull->draft && forge->kind != FORGE_GITHUB;
	char *title AUTO_FREE =
	    mem_printf("%s%s", !prefix ? "" : (gitlab ? "Draft: " : "WIP: "), pull->title);

	js_set_str(body, "title", title);
	js_set_str(body, gitlab ? "description" : "body", pull->body);
	if (!is_new)
		return body;
	if (gitlab && pull->target)
		js_set_int(body, "target_project_id", pull->target);
	char *head AUTO_FREE = pull->fork && !gitlab
				   ? mem_printf("%s:%s", pull->fork, pull->head)
				   : mem_strdup(pull->head);
	js_set_str(body, gitlab ? "source_branch" : "head", head);
	js_set_str(body, gitlab ? "target_branch" : "base", pull->base);
	if (forge->kind == FORGE_GITHUB) {
		js_set_bool(body, "draft", pull->draft);
		js_set_bool(body, "maintainer_can_modify", true);
	}
	return body;
}

void forge_make_pull(const struct forge *forge, const struct forge_pull *pull,
		     struct forge_request *request)
{
	begin(forge, "POST", pull_body(forge, pull, true), request, "%s",
	      forge->kind == FORGE_GITLAB ? "/merge_requests" : "/pulls");
}

void forge_change_pull(const struct forge *forge, long long number,
		       const struct forge_pull *pull, struct forge_request *request)
{
	bool gitlab = forge->kind == FORGE_GITLAB;

	begin(forge, gitlab ? "PUT" : "PATCH", pull_body(forge, pull, false), request,
	      "/%s/%lld", gitlab ? "merge_requests" : "pulls", number);
}

void forge_get_pull(const struct forge *forge, long long number, struct forge_request *request)
{
	begin(forge, "GET", NULL, request, "/%s/%lld",
	      forge->kind == FORGE_GITLAB ? "merge_requests" : "pulls", number);
}

bool forge_get_labels(const struct forge *forge, int page, struct forge_request *request)
{
	if (forge->kind == FORGE_GITEA)
		begin(forge, "GET", NULL, request, "/labels?limit=%d&page=%d", FORGE_PAGE,
		      page);
	return forge->kind == FORGE_GITEA;
}

void forge_add_labels(const struct forge *forge, long long number, const struct json *labels,
		      struct forge_request *request)
{
	struct json *body = js_object_new();
	struct strbuf joined AUTO_STRBUF = STRBUF_NONE;

	if (forge->kind != FORGE_GITLAB) {
		js_set(body, "labels", js_copy(labels));
		begin(forge, "POST", body, request, "/issues/%lld/labels", number);
		return;
	}
	strbuf_init(&joined, 1 << 16);
	for (size_t i = 0; i < js_len(labels); i++)
		strbuf_addf(&joined, "%s%s", i ? "," : "", js_text(js_at(labels, i)));
	js_set_strn(body, "add_labels", joined.data, joined.len);
	begin(forge, "PUT", body, request, "/merge_requests/%lld", number);
}

static struct json *comment_body(const char *text)
{
	struct json *body = js_object_new();

	js_set_str(body, "body", text);
	return body;
}

void forge_make_comment(const struct forge *forge, long long issue, const char *text,
			struct forge_request *request)
{
	begin(forge, "POST", comment_body(text), request, "/issues/%lld/%s", issue,
	      forge->kind == FORGE_GITLAB ? "notes" : "comments");
}

void forge_change_comment(const struct forge *forge, long long issue, long long comment,
			  const char *text, struct forge_request *request)
{
	if (forge->kind == FORGE_GITLAB)
		begin(forge, "PUT", comment_body(text), request, "/issues/%lld/notes/%lld",
		      issue, comment);
	else
		begin(forge, "PATCH", comment_body(text), request, "/issues/comments/%lld",
		      comment);
}
