/*
 * What both rows of agent-forge share: the forge's server behind agent-dial, with one token; pull requests of ours on it.
 */
#ifndef CMD_AGENT_FORGE_CLIENT_H
#define CMD_AGENT_FORGE_CLIENT_H

#include <stdbool.h>

#include "pipeline/base/strbuf.h"
#include "pipeline/forge/forge.h"
#include "pipeline/scrub.h"

struct error;
struct http;
struct json;
struct secret;
struct stage;

#define CLIENT_PAGES_MAX 20

struct client {
	struct forge forge;
	struct http *http;    /* owned */
	struct secret *token; /* owned; NULL: none */
	struct scrub scrub;
	struct strbuf ca;
};

/* From the row's job and descriptors. 0 or an error kind. */
int client_open(struct client *client, const struct stage *stage, struct error *err);
void client_release(struct client *client);
#define AUTO_CLIENT __attribute__((cleanup(client_release)))

/* One call. 0 and *answer (new; may be NULL for an empty body) and *more (may be NULL). Takes the request. */
int client_call(struct client *client, struct forge_request *request, const char *what,
		struct json **answer, bool *more, struct error *err);

/* The artefact, to FD_OUT, without the token's bytes wherever they come from. Takes it. */
int client_write(struct client *client, struct json *taken, struct error *err);

/* Where the branch is, when that is not the repository itself. */
struct client_fork {
	const char *owner;	   /* borrowed from the job; NULL: there is none */
	long long project, target; /* GitLab: numbers of the fork and of the repository */
	struct forge forge;	   /* the fork's there, else the repository's */
};

/* The job's "fork": {"owner","repo"}, or none. 0 or an error kind. */
int client_take_fork(struct client *client, const struct json *job, struct client_fork *fork,
		     struct error *err);

/* An open pull request of ours, by its marker and by where its branch is (head NULL: any branch
 * that strangers cannot make): the forge's word on it, or NULL. New. 0 or an error kind. */
int client_find_pull(struct client *client, const struct client_fork *fork, const char *head,
		     const char *marker, struct json **pull, struct error *err);

/* The row agent-forge pull (pull.c). */
int run_pull(struct stage *stage, struct error *err);

#endif
