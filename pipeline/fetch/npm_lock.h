/*
 * package-lock.json and npm-shrinkwrap.json (npm-shrinkwrap(5), package-lock-json(5),
 * lockfileVersion 2 and 3), read before npm sees them: where each package comes from, and which
 * package.json files the skeleton needs. Pure. The file is the repository's, hence hostile.
 */
#ifndef FETCH_NPM_LOCK_H
#define FETCH_NPM_LOCK_H

#include <stddef.h>

struct error;
struct json;

#define NPM_LOCK_MAX ((size_t)64 << 20) /* bytes */

struct npm_lint {
	const char *const *hosts;  /* "host:port" that may be reached; NULL-terminated */
	const char *replaced_host; /* host name for which npm asks the operator's registry
				      instead (setting replace-registry-host); "*": for every
				      one; NULL: for none */
};

/*
 * Every package must come from a registry over https on an allowed host, with an integrity;
 * links may lead only to directories of the tree that the lock itself names. 0, or ERROR_NO
 * naming the first offender and what to do, or ERROR_USAGE for a malformed or too old file.
 */
int npm_lock_lint(const struct json *lock, const char *file, const struct npm_lint *lint,
		  struct error *err);

/* Directories beside the root that have a package.json of their own: workspaces and linked
 * packages. NULL-terminated; text_free_words frees. Only for a lock that npm_lock_lint accepts.
 */
char **npm_lock_members(const struct json *lock);

/* Directories that an installation of everything must have made (not optional, not bundled, not
 * links). NULL-terminated; text_free_words frees. */
char **npm_lock_required(const struct json *lock);

/* Files that a package.json's "bin" names, relative to its directory: npm links a command only
 * when its file is there. NULL-terminated; text_free_words frees. */
char **npm_lock_bins(const struct json *manifest);

/*
 * What of a repository's .npmrc reaches the skeleton: lines of a few settings that change how a
 * lock file is read (legacy-peer-deps, strict-peer-deps, install-links, install-strategy,
 * engine-strict) with plain values. Nothing that names a host, a file, a program or a variable.
 * The caller frees; "" when nothing is left.
 */
char *npm_lock_settings(const char *npmrc, size_t len);

#endif
