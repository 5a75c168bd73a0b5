/*
 * gitignore(5): which new files are none that anybody means to keep. Only .gitignore files of the
 * work tree count, never a user's or the repository's own exclude file, so that the same files are always
 * the same change. Pure.
 */
#ifndef GITOPS_IGNORE_H
#define GITOPS_IGNORE_H

#include <stdbool.h>
#include <stddef.h>

#define IGNORE_FILE ".gitignore"
#define IGNORE_FILE_MAX (1u << 20) /* bytes of one; a longer one is left out */

/* The ignore files from the root down to a directory. */
struct ignore_stack;

struct ignore_stack *ignore_stack_new(void);
void ignore_stack_free(struct ignore_stack *stack); /* NULL is fine */
void ignore_stack_free_ptr(struct ignore_stack **stack);
#define AUTO_IGNORE_STACK __attribute__((cleanup(ignore_stack_free_ptr)))

/* Enters a directory (path "" is the root) with its .gitignore's bytes (NULL: it has none); leaves the
 * last entered one. */
void ignore_push(struct ignore_stack *stack, const char *dir, const char *text, size_t len);
void ignore_pop(struct ignore_stack *stack);

/* Whether a path, whose directory is the last entered one, is ignored by itself. What is below an ignored
 * directory is ignored too: that is the caller's to know. */
bool ignore_match(const struct ignore_stack *stack, const char *path, bool is_dir);

#endif
