/*
 * Which paths a change may name. Pure: no tree, no file system. A path is refused when any
 * reader of it (git on Linux, macOS or Windows, a terminal, an archive) could take it for
 * something else: absolute, "." or ".." or empty components, .git or .gitmodules in any
 * spelling that some file system folds to it, backslash, colon, control, bidi or invisible
 * characters, invalid UTF-8, a component that ends in a dot or a blank, too long, too deep.
 *
 * Sources: git's verify_path and is_hfs_dotgit/is_ntfs_dotgit; reference/git.md 2.5.
 */
#ifndef GITOPS_PATHPOLICY_H
#define GITOPS_PATHPOLICY_H

#include <stdbool.h>
#include <stddef.h>

struct error;
struct strbuf;

#define PATH_BYTES_MAX 4095    /* of a whole path */
#define PATH_COMPONENT_MAX 255 /* bytes (NAME_MAX) */
#define PATH_DEPTH_MAX 100     /* components */

/* 0, or ERROR_NO with the path (escaped) and the reason in err. */
int path_check(const char *path, size_t len, struct error *err);

/*
 * What a model writes for a path inside the tree, made canonical: leading "./" and trailing
 * "/" are dropped, doubled slashes joined. Nothing else is mended: the result still needs
 * path_check. The root is the empty string.
 */
void path_tidy(const char *path, struct strbuf *out);

/* Whether a component is .git, or .gitmodules, as some file system folds it. */
bool path_is_dotgit(const char *component, size_t len);
bool path_is_dotgitmodules(const char *component, size_t len);

#endif
