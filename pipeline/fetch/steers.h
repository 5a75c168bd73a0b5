/*
 * Which files of a work tree say how a package manager works, rather than what it is to fetch: configuration of
 * tools, wrappers, pinned toolchains. Under hooks and workers these are the trusted ref's and never the pushed
 * one's (law L9, pipeline/fetch/skeleton.h). Pure.
 */
#ifndef FETCH_STEERS_H
#define FETCH_STEERS_H

#include <stdbool.h>
#include <stddef.h>

/* By its name: a part that begins with a dot (.npmrc, .cargo/config.toml, .mvn/extensions.xml), or a name that
 * tools look for without one (pip.conf, gradle.properties, gradlew). Case does not count. */
bool steers_by_name(const char *path);

/* By its first bytes: a script, whatever its mode, "#!". */
bool steers_by_bytes(const char *data, size_t len);

#endif
