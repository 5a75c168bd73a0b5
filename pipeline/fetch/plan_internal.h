/*
 * What the files of a plan share: plan.c (detection, hosts, key, the whole), plan_jails.c (what
 * both jails hold), plan_recipes.c (npm, general), plan_command.c (a command's network). Not for
 * anybody else.
 */
#ifndef FETCH_PLAN_INTERNAL_H
#define FETCH_PLAN_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "pipeline/base/strbuf.h"
#include "pipeline/fetch/authority.h"
#include "pipeline/fetch/plan.h"

/* What is gathered while a plan is made. */
struct draft {
	const struct fetch_request *request;
	struct fetch_plan *plan;
	struct json *allow; /* owned: the egress job's list */
	struct json *hosts; /* owned: the same as "host:port", for the lint and for messages */
	struct strbuf text;
	char *tmp;     /* owned: absolute store/deps/.tmp-<id> */
	char *ca;      /* owned: CA bundle outside, or NULL */
	char *proxy;   /* owned: upstream proxy's URL, or NULL */
	char *noproxy; /* owned, or NULL */
};

/* plan.c: one fact of the key's text; all words of a list; all items of a configuration key. */
void draft_note(struct draft *draft, const char *name, const char *value);
void draft_note_words(struct draft *draft, const char *name, char *const *words);
void draft_note_items(struct draft *draft, const char *name, const char *key);
int draft_note_tool(struct draft *draft, const char *program, struct error *err);

/* A variable of the operator's environment, NULL when unset or empty. Borrowed. */
const char *draft_from_env(const struct draft *draft, const char *name);
/* CA bundle and proxies from there, where nothing else named them. 0 or ERROR_USAGE. */
int draft_surroundings(struct draft *draft, struct error *err);

/* site_ok: it comes from the operator's tool configuration (pipeline/fetch/policy.h). Twice is
 * once. */
int draft_add_host(struct draft *draft, const struct authority *at, bool site_ok,
		   struct error *err);

/* Those of fetch.host. 0 or ERROR_USAGE. */
int draft_configured_hosts(struct draft *draft, struct error *err);
/* What agent-egress is told: takes the list of hosts. 0 or ERROR_USAGE. */
int draft_egress_job(struct draft *draft, struct error *err);
void fetch_draft_release(struct draft *draft);

/* plan_jails.c: both specs but for their commands, after draft_surroundings. 0 or ERROR_USAGE.
 */
int draft_jails(struct draft *draft, struct error *err);
/* The proxy and the CA bundle, in the spec of a jail that has the way out. */
void draft_network(const struct draft *draft, struct jail_spec *spec);
/* Sets a variable, in place of an earlier value. */
void draft_env(struct jail_spec *spec, const char *name, const char *value);
void draft_env_pairs(struct jail_spec *spec, const char *const (*pairs)[2], size_t count);

/* plan_recipes.c: 0 or an error kind. */
int draft_npm(struct draft *draft, struct error *err);
int draft_general(struct draft *draft, struct error *err);
/* npm's settings as variables, and its registries as hosts. */
int draft_npm_env(struct draft *draft, struct jail_spec *spec, struct error *err);
/* fetch.env */
void draft_general_env(struct draft *draft, struct jail_spec *spec);

#endif
