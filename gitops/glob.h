/*
 * Path patterns as gitignore(5) and gitattributes(5) have them: '*' and '?' stay within a
 * component, "**" crosses them, [...] is a set; a pattern without a slash is matched against
 * the last component. Matching takes time in proportion to pattern times path, whatever the
 * pattern. Pure.
 */
#ifndef GITOPS_GLOB_H
#define GITOPS_GLOB_H

#include <stdbool.h>
#include <stddef.h>

struct error;
struct glob;

#define GLOB_BYTES_MAX 1024 /* of a pattern */

/* Compiles a pattern; NULL with err (ERROR_USAGE) when it is empty, too long or has an open
 * set. */
struct glob *glob_new(const char *pattern, size_t len, bool ignore_case, struct error *err);
void glob_free(struct glob *glob); /* NULL is fine */
void glob_free_ptr(struct glob **glob);
#define AUTO_GLOB __attribute__((cleanup(glob_free_ptr)))

bool glob_match(const struct glob *glob, const char *path, size_t len);

#endif
