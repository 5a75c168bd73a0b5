/*
 * A set of paths, by patterns (gitops/glob.h): a path is in it when a pattern matches it or a directory that it is in, as
 * gitignore(5) has it. Pure.
 */
#ifndef GITOPS_PATHSET_H
#define GITOPS_PATHSET_H

#include <stdbool.h>
#include <stddef.h>

struct error;
struct json;
struct pathset;

/* From an array of patterns. NULL with err (ERROR_USAGE) when one is malformed or no text. */
struct pathset *pathset_new(const struct json *patterns, struct error *err);
void pathset_free(struct pathset *set); /* NULL is fine */
void pathset_free_ptr(struct pathset **set);
#define AUTO_PATHSET __attribute__((cleanup(pathset_free_ptr)))

size_t pathset_len(const struct pathset *set); /* patterns */
bool pathset_has(const struct pathset *set, const char *path);

#endif
