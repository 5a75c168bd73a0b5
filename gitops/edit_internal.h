/* What edit.c (most operations) and edit_replace.c share. Not for others. */
#ifndef GITOPS_EDIT_INTERNAL_H
#define GITOPS_EDIT_INTERNAL_H

#include "gitops/edit.h"
#include "pipeline/base/strbuf.h"

struct line;

#define EDIT_BOM "\xEF\xBB\xBF"
#define EDIT_BOM_LEN ((size_t)3)

/* Everything that one edit works with. */
struct edit_job {
	struct view *view;
	const struct edit *edit;
	struct edit_result *result;
	struct error *err; /* for failures of the repository */
	char path[256];	   /* the path as it is shown */
	struct view_stat st;
	struct strbuf data; /* the file's bytes */
	struct strbuf old;  /* what to find: in the file's encoding, LF only */
	struct strbuf text; /* the new text, the same way */
	bool has_bom;
};

/* Sets the outcome and its message. Returns 0: it was decided. */
int edit_decide(struct edit_job *job, enum edit_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A refusal of the view (ERROR_NO) becomes an outcome; a failure stays a failure. */
int edit_decide_error(struct edit_job *job, int rc, enum edit_code code);
int edit_decide_elision(struct edit_job *job);

/* Looks at the path; 0 with result->code EDIT_OK to go on. must: a regular file has to be
 * there. */
int edit_look(struct edit_job *job, bool must);
int edit_load(struct edit_job *job);

/* Text of the edit in the file's encoding, without byte-order mark, with LF only. False
 * when it has no place there. */
bool edit_convert(const struct edit_job *job, const char *text, size_t len, struct strbuf *out);

/* A line that stands for code that was left out: a comment that says so, or nothing but "...". */
bool edit_is_gap(const struct line *line);
/* Whether the new text has such a comment that the file has not. */
bool edit_elides(const struct edit_job *job, const struct strbuf *text);

/* Puts the new bytes; the last step of every edit that writes. */
int edit_put(struct edit_job *job, enum view_kind kind, const struct strbuf *bytes);

size_t edit_count_lines(const char *data, size_t len);

/* The kind that a file gets by the edit's mode. */
enum view_kind edit_kind(const struct edit_job *job, enum view_kind before);
/* Whether mode is one that a file can get; 0 is. */
bool edit_mode_is_plain(int mode);
/* The path that a file is to get (rename, copy): refused when something is there. */
int edit_look_target(struct edit_job *job, const char *to);

int edit_do_replace(struct edit_job *job);
int edit_do_patch(struct edit_job *job);
/* The new bytes by a binary patch, appended; decided when result->code is set. */
int edit_binary_bytes(struct edit_job *job, struct strbuf *out);

#endif
