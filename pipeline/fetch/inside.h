/* Paths from the repository or its configuration that must stay below a directory. Pure. */
#ifndef FETCH_INSIDE_H
#define FETCH_INSIDE_H

#include <stdbool.h>

/* Whether text can be a path (or pattern) inside a tree: relative, no empty, "." or ".."
 * component, no
 * ".git" in any case, no control bytes or backslash, at most 1024 bytes. */
bool inside_path(const char *text);

#endif
