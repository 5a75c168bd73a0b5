/*
 * What the operator's own npm says about registries: asked of npm itself, outside of any
 * repository, and kept until npm or one of its configuration files changes. No registry is
 * named in our code.
 *
 * npm is asked by `npm config ls`, global view, working directory "/", with a listed
 * environment: no project configuration takes part, and npm never prints a token. The npm that
 * is asked is the first in the operator's PATH that does not lie in the work tree (`npm run`
 * puts node_modules/.bin in front).
 */
#ifndef FETCH_NPM_CONFIG_H
#define FETCH_NPM_CONFIG_H

#include <stddef.h>

struct error;
struct json;

struct npm_scope {
	char *name; /* "@scope" */
	char *url;
};

struct npm_config {
	char *npm;	/* absolute path that was found in PATH */
	char *identity; /* of npm and node for a key: real paths, sizes, times, versions */
	char *registry; /* URL */
	char *builtin;	/* the registry that npm uses when nobody says another; or NULL */
	struct npm_scope *scopes;
	size_t scope_count;
	char *cafile;	       /* or NULL */
	char *proxy;	       /* https-proxy, or NULL */
	char *noproxy;	       /* comma-separated, or NULL */
	char *replace_host;    /* replace-registry-host */
	char **protected_keys; /* names of keys whose values npm hides; NULL-terminated */
};

struct npm_source {
	char *const *env; /* the operator's environment: PATH, HOME, npm_config_* are used */
	const char *work_tree; /* programs below it are not the operator's; or NULL */
	const char *cache_dir; /* absolute, exists, ours: npm.json is kept there */
};

/*
 * Fills config (released by the caller). 0; ERROR_USAGE when there is no npm or its answer
 * cannot be used; ERROR_FAILED when it cannot be run. Costs a few stat(2) when the kept answer
 * still holds.
 */
int npm_config_load(const struct npm_source *source, struct npm_config *config,
		    struct error *err);
void npm_config_release(struct npm_config *config);

/* The protected key that holds the credential for a registry URL, or NULL. Borrowed. */
const char *npm_config_token_key(const struct npm_config *config, const char *url);

/* ---- pure parts, for tests ---- */

/* From `npm config ls -l --json` (parsed), the text of `npm config ls`, and the first again
 * without any configuration file: the selected settings, as they are kept. New; NULL with err.
 */
struct json *npm_config_select(const struct json *answer, const char *listing,
			       const struct json *bare, struct error *err);

/* The first absolute directory in path that has an executable regular file of that name and
 * does not lie below avoid (or NULL). The caller frees; NULL when there is none. */
char *npm_find_program(const char *path, const char *name, const char *avoid);

#endif
