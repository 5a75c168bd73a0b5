/*
 * The forges' APIs, without I/O: requests as method, path and body; answers parsed as hostile
 * input. GitHub (REST, 2022-11-28), GitLab (REST v4), Gitea and Forgejo (API v1).
 */
#ifndef FORGE_FORGE_H
#define FORGE_FORGE_H

#include <stdbool.h>
#include <stddef.h>

struct error;
struct json;
struct strbuf;

enum forge_kind { FORGE_GITHUB, FORGE_GITLAB, FORGE_GITEA };

struct forge {
	enum forge_kind kind;
	char host[256]; /* of the API */
	int port;
	bool tls;
	char path[256];	 /* of the API, "" or "/api/v4" …; no trailing slash */
	char owner[256]; /* "o", or GitLab's "group/subgroup" */
	char repo[128];
};

const char *forge_kind_text(enum forge_kind kind);

/*
 * Whose API a git remote's (or web page's) URL belongs to: kind by configuration ("github",
 * "gitlab", "gitea") or, with "auto", by the host's name. api: the API's base URL, or NULL for the
 * kind's usual place on that host. 0; ERROR_USAGE when the URL names no repository or the kind cannot
 * be told.
 */
int forge_from_url(const char *url, const char *kind, const char *api, struct forge *forge,
		   struct error *err);

/*
 * What stands for an issue on the command line: "42", "#42", "OWNER/REPO#42" (on the remote's
 * host), "https://HOST/OWNER/REPO/issues/42" (GitLab: /-/issues/42). remote: the git remote's URL,
 * or NULL. 1 and *forge, *number; 0 when the word is no such thing; ERROR_USAGE.
 */
int forge_issue_word(const char *word, const char *remote, const char *kind, const char *api,
		     struct forge *forge, long long *number, struct error *err);

/* As the job of agent-forge has it, and back. */
struct json *forge_to_json(const struct forge *forge);
int forge_from_json(const struct json *json, struct forge *forge, struct error *err);

/* ---- requests ---- */

struct forge_request {
	const char *method; /* static */
	char path[2048];    /* with the API's own path and the query */
	struct json *body;  /* owned; NULL: none */
};
void forge_request_release(struct forge_request *request);

/* Headers of every request; NULL-terminated, static. What stands in front of the token. */
const char *const *forge_headers(enum forge_kind kind);
const char *forge_token_header(enum forge_kind kind);

#define FORGE_PAGE 100 /* entries of a page */

void forge_get_issue(const struct forge *forge, long long number,
		     struct forge_request *request);
void forge_get_comments(const struct forge *forge, long long number, int page,
			struct forge_request *request);
/* Who may write, where comments do not say it themselves; false for GitHub: they do. */
bool forge_get_writers(const struct forge *forge, int page, struct forge_request *request);
/* The repository itself: its default branch. */
void forge_get_repository(const struct forge *forge, struct forge_request *request);

struct forge_pull {
	const char *head, *base; /* branch names */
	const char *fork; /* owner of the fork that head is in; NULL: the repository itself */
	long long target; /* GitLab, head in a fork: the project's own number; else 0 */
	const char *title, *body;
	bool draft;
};
/* Open pull requests from head (in fork, when it is not NULL); head NULL: the newest of all. A
 * forge may answer with others, too: forge_pull_is_from judges. */
void forge_find_pulls(const struct forge *forge, const char *fork, const char *head, int page,
		      struct forge_request *request);
/* Whose token it is. */
void forge_get_self(const struct forge *forge, struct forge_request *request);
/* forge: on GitLab the repository that head is in. */
void forge_make_pull(const struct forge *forge, const struct forge_pull *pull,
		     struct forge_request *request);
void forge_change_pull(const struct forge *forge, long long number,
		       const struct forge_pull *pull, struct forge_request *request);
void forge_get_pull(const struct forge *forge, long long number, struct forge_request *request);
/*
 * Labels of a pull request, added to those that it has. Where labels are known by number, the forge's list of them is read first:
 * forge_get_labels is false where it is not, forge_read_labels moves numbers of wanted names from a page into an array.
 */
bool forge_get_labels(const struct forge *forge, int page, struct forge_request *request);
void forge_read_labels(const struct json *answer, const struct json *wanted,
		       struct json *numbers);
void forge_add_labels(const struct forge *forge, long long number, const struct json *labels,
		      struct forge_request *request);
void forge_make_comment(const struct forge *forge, long long issue, const char *text,
			struct forge_request *request);
void forge_change_comment(const struct forge *forge, long long issue, long long comment,
			  const char *text, struct forge_request *request);

/* ---- answers ---- */

struct forge_issue {
	char title[1024]; /* one line */
	char author[128];
	char state[16];	   /* "open", "closed" */
	char revision[64]; /* when it was changed last, as the forge says it */
	char url[1024];
	bool locked, is_pull, author_writes;
	const char *body;	   /* borrowed from the answer; "" when there is none */
	const struct json *labels; /* borrowed: array of strings or of {"name"} */
};

/* 0, or ERROR_FAILED when the answer is none of this kind of forge. */
int forge_read_issue(enum forge_kind kind, const struct json *answer, struct forge_issue *issue,
		     struct error *err);
/* Names of those who may write, of one page, added to an object. */
void forge_read_writers(enum forge_kind kind, const struct json *answer, struct json *names);

struct forge_comment {
	long long id;
	const char *author, *body; /* borrowed */
	bool writes;		   /* who wrote it may write to the repository */
	bool app;		   /* written by a program that was let in (GitHub) */
	bool note;		   /* the forge's own ("changed the title"): nobody's words */
};
bool forge_read_comment(enum forge_kind kind, const struct json *entry,
			const struct json *writers, struct forge_comment *comment);

/* The login of an answer to forge_get_self; "" when there is none. Borrowed. */
const char *forge_read_self(enum forge_kind kind, const struct json *answer);

/* A pull request of an answer: number, page, state, body, head. False when it is none. */
struct forge_pull_seen {
	long long number;
	const char *url, *body, *state; /* borrowed */
	const char *head;		/* borrowed: the branch's name */
	const char *from; /* borrowed: OWNER/REPO that it is in; "" when it is not said */
	bool inside;	  /* in the repository itself, as GitLab says it */
	long long source; /* GitLab: number of the project that it is in; 0: not said */
};
bool forge_read_pull(enum forge_kind kind, const struct json *entry,
		     struct forge_pull_seen *pull);

/* What became of one: "open", "merged" or "closed". Static. */
const char *forge_read_fate(enum forge_kind kind, const struct json *entry);

/*
 * Whether a pull request comes from a branch that only people who may write there can make: head
 * (NULL: any) in the repository itself or, when it is not NULL, of the owner fork. What stands in
 * its text, a marker too, anybody can write.
 */
bool forge_pull_is_from(const struct forge *forge, const struct forge_pull_seen *pull,
			const char *fork, const char *head);
/* The same for a fork on GitLab, which is known by its number. */
bool forge_pull_is_from_project(const struct forge_pull_seen *pull, long long project,
				const char *head);

/*
 * What a refusal means: status and body of the answer. Always sets err: ERROR_LATER for limits and
 * a server in trouble, ERROR_NO, ERROR_USAGE or ERROR_FAILED else. what: "issue 42", …
 */
struct forge_refusal {
	int status;
	const char *body;
	size_t len;
	const char *location; /* host of a redirect, "" */
	long retry_after_s, rate_left;
	long long rate_reset;
	bool with_token;
};
int forge_refused(const struct forge *forge, const char *what,
		  const struct forge_refusal *refusal, struct error *err);

#endif
