/*
 * The supervisor's side of fetching dependencies: which recipe a base commit calls for, what
 * its jails may do, which layer it would be, and what to tell the user when it failed. Starts
 * no stage and needs no git: what depends on file contents is agent-fetch's part.
 *
 * A layer is named by its key: SHA-256 over the plan's text (recipe, commands, tool, hosts,
 * trust) and the bytes of its inputs. Since the inputs follow from the base tree and the trusted
 * ref's, a small file by-tree/<sha256 of both and text> in the store remembers the key, so that a
 * warm layer is found without starting anything.
 */
#ifndef FETCH_PLAN_H
#define FETCH_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "sandbox/jail_spec.h"

struct config;
struct error;
struct json;

enum fetch_recipe {
	FETCH_NONE,    /* nothing to warm */
	FETCH_NPM,     /* package-lock.json or npm-shrinkwrap.json at the root */
	FETCH_GENERAL, /* [fetch] warm */
};

struct fetch_request {
	const struct config *config; /* operator's and repository's */
	const struct json *base;     /* base.json */
	const char *state;	     /* absolute state directory: store/ below it */
	const char *run_id;	     /* names the working directory store/deps/.tmp-<id> */
	const char *trust; /* repository and trust class: layers are not shared across (L6) */
	const char *work_tree; /* absolute, or NULL for a bare repository */
	char *const *env;      /* the operator's environment */
	const struct jail_limits
	    *limits; /* of both jails; wall_ms is replaced by fetch.timeout */
};

struct fetch_plan {
	enum fetch_recipe recipe;
	char *text; /* what the key is made of beside the inputs; also shown by `agent audit` */
	char *from; /* what the inputs come from: the base's tree, and the trusted ref's commit
		       where that is another */
	struct jail_spec warm;	 /* agent-fetch's FD_SPEC */
	struct jail_spec verify; /* agent-fetch's FD_SPEC2, when has_verify */
	bool has_verify;
	struct json *job;	 /* agent-fetch's job without "paths" */
	struct json *egress_job; /* agent-egress's job without "paths" */
	char *token_key; /* operator's npm setting that holds a credential for a registry in
			    use, or NULL */
	unsigned
	    wall_s; /* deadline for agent-fetch and agent-egress: both jails and the sealing */
};

const char *fetch_recipe_text(enum fetch_recipe recipe);

/* What base.json and the configuration call for. No processes, no files. */
enum fetch_recipe fetch_detect(const struct config *config, const struct json *base);

/*
 * Makes the plan for a recipe but FETCH_NONE. May run the operator's npm once
 * (pipeline/fetch/npm_config.h). 0 (release with fetch_plan_release), or ERROR_USAGE,
 * ERROR_FAILED, with plan released.
 */
int fetch_plan_make(enum fetch_recipe recipe, const struct fetch_request *request,
		    struct fetch_plan *plan, struct error *err);
void fetch_plan_release(struct fetch_plan *plan);

/*
 * Gives a command's jail the way out that a warm has: the proxy, the CA bundle, fetch.env, and npm's settings where
 * the base has a package.json (lifecycle scripts off). The hosts are fetch.host and npm's own registries.
 * request->limits is not used. *egress_job is new: agent-egress's without "paths"; *wall_s its deadline. 0;
 * ERROR_USAGE; ERROR_FAILED.
 */
int fetch_plan_command(const struct fetch_request *request, struct jail_spec *spec,
		       struct json **egress_job, unsigned *wall_s, struct error *err);

/*
 * Adds what a test needs to use the layer to its environment: the tools' offline switches. A
 * dead network makes them wait; these make them fail at once. Nothing for FETCH_NONE.
 */
void fetch_test_env(enum fetch_recipe recipe, struct jail_spec *test);

/*
 * Makes the error of a failed warm tell what the tool itself does not: which hosts were denied
 * and the line that would admit them. denied: array of "egress" events
 * (pipeline/fetch/tunnel.h). log: the end of the jail's log, hostile. err already holds what
 * agent-fetch said.
 */
void fetch_explain(const struct fetch_plan *plan, const struct json *egress_events,
		   const char *log, size_t log_len, struct error *err);

#endif
