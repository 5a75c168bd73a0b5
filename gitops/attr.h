/*
 * gitattributes(5), as far as it decides the bytes of a checked-out file: text, eol, crlf,
 * ident, working-tree-encoding, filter, binary and macros. Only .gitattributes files of the
 * tree count (never a user's or the repository's own), so that the same tree always becomes
 * the same bytes. Parsing and deciding are pure.
 */
#ifndef GITOPS_ATTR_H
#define GITOPS_ATTR_H

#include <stdbool.h>
#include <stddef.h>

struct error;
struct strbuf;
struct view;

#define ATTR_FILE ".gitattributes"
#define ATTR_FILE_MAX (1u << 20) /* bytes of one; a longer one is left out */

enum attr_text { ATTR_TEXT_UNSPECIFIED, ATTR_TEXT_SET, ATTR_TEXT_UNSET, ATTR_TEXT_AUTO };
enum attr_eol { ATTR_EOL_UNSPECIFIED, ATTR_EOL_LF, ATTR_EOL_CRLF };

/* What holds for one path. */
struct attr_facts {
	enum attr_text text;
	enum attr_eol eol;
	bool ident;
	char encoding[32]; /* working-tree-encoding; "" none */
	char filter[64];   /* name of a filter driver; "" none */
};

/* The attribute files from the root down to a directory. */
struct attr_stack;

struct attr_stack *attr_stack_new(void);
void attr_stack_free(struct attr_stack *stack);
void attr_stack_free_ptr(struct attr_stack **stack);
#define AUTO_ATTR_STACK __attribute__((cleanup(attr_stack_free_ptr)))

/* Enters a directory (path "" is the root) with its .gitattributes' bytes (NULL: it has
 * none); leaves the last entered one. */
void attr_push(struct attr_stack *stack, const char *dir, const char *text, size_t len);
void attr_pop(struct attr_stack *stack);

/* Whether no file was entered that says anything: then nothing has to be looked up. */
bool attr_is_empty(const struct attr_stack *stack);

/* What holds for a path, whose directory is the last entered one. */
void attr_decide(const struct attr_stack *stack, const char *path, struct attr_facts *facts);

/* The same for a path of a view, whose attribute files are read. 0 or ERROR_FAILED. */
int attr_of_view(struct view *view, const char *path, struct attr_facts *facts,
		 struct error *err);

/*
 * Appends a blob's bytes as a checkout has them (git's convert_to_working_tree without
 * external filters). oid is for ident. 0, or 1 when the encoding is not known here and the
 * bytes are left as they are.
 */
int attr_convert(const struct attr_facts *facts, const char *data, size_t len, const char *oid,
		 struct strbuf *out);

/*
 * Appends what a file of the work tree is stored as (git's convert_to_git without external filters). stored: what
 * the base has at its place, for text=auto; may be empty. 0, or 1 when a filter or an encoding other than
 * UTF-8 stands between: nothing is appended then.
 */
int attr_clean(const struct attr_facts *facts, const char *data, size_t len, const char *stored,
	       size_t stored_len, struct strbuf *out);

/* What git counts of a file's bytes to tell text from the rest (its gather_stats and convert_is_binary). Pure. */
struct attr_stats {
	size_t lone_lf, lone_cr, crlf;
	bool binary;
};
void attr_count(const char *data, size_t len, struct attr_stats *stats);

/* Whether attr_convert would change anything at all. */
bool attr_converts(const struct attr_facts *facts);

/* Whether attr_convert makes the same bytes of any blob for both. */
bool attr_same_conversion(const struct attr_facts *a, const struct attr_facts *b);

#endif
