/*
 * What we say to the model: the system text, the task, a red verdict, notices. Foreign text
 * (issue, test output) stands between two marker lines that it cannot hold: the marker carries
 * a digest of the text itself.
 */
#ifndef MODEL_PROMPT_H
#define MODEL_PROMPT_H

#include <stddef.h>

struct json;
struct model_job;
struct strbuf;

#define PROMPT_ISSUE_MAX (1u << 20) /* bytes of an issue */
#define PROMPT_FEEDBACK_MAX 65536   /* bytes of a verdict and its log; the end of it is kept */

/* Each appends to out. */
void prompt_system(const struct model_job *job, struct strbuf *out);
void prompt_task(const struct model_job *job, const char *issue, size_t len,
		 const char *listing, struct strbuf *out);
void prompt_feedback(const struct model_job *job, struct strbuf *out);

/* Foreign text between its marker lines; name is a word like "ISSUE". */
void prompt_frame(const char *name, const char *text, size_t len, struct strbuf *out);

extern const char prompt_cut[];	     /* an answer without a call was cut at the output limit */
extern const char prompt_cut_call[]; /* a tool call was: the result of that call */
extern const char prompt_silent[];   /* an empty answer */
extern const char prompt_text[];     /* how a model without tools works */
extern const char prompt_text_nothing[]; /* such a model wrote nothing of use */
extern const char prompt_last[];	 /* the next answer is the last one */

#endif
