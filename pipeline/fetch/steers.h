/*
 * Which files of a work tree say how a package manager works, rather than what it is to fetch: configuration of
 * tools, wrappers, pinned toolchains. Under hooks and workers these are the trusted ref's and never the pushed
 * one's (law L9, pipeline/fetch/skeleton.h). Pure.
 */
#ifndef FETCH_STEERS_H
#define FETCH_STEERS_H

#include <stdbool.h>
#include <stddef.h>

enum steers {
	STEERS_NO, /* a manifest or a lock file, whatever its mode and its first bytes */
	STEERS_PROGRAM, /* only when it is a program: executable, a script, or named by the recipe's command */
	STEERS_YES,
};

/*
 * By its name. Yes: a part begins with a dot (.npmrc, .cargo/config.toml, .mvn/extensions.xml), tools look for it
 * without one (pip.conf, gradle.properties), or it is a script or what a task runner reads (gradlew, *.sh, Makefile).
 * Case does not count.
 */
enum steers steers_by_name(const char *path);

/* By its first bytes: a script, whatever its mode, "#!". */
bool steers_by_bytes(const char *data, size_t len);

/* Whether a word of a command is this path of the work tree, which is at root inside: path, ./path or root/path. */
bool steers_is_word(const char *word, const char *path, const char *root);

#endif
