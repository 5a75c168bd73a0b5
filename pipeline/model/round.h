/*
 * One round: the model is asked, its tool calls are run, until it submits. The state is the
 * conversation itself, so a new process takes a round up in the middle: what is there is done
 * again in memory, and the model is not asked again for it.
 */
#ifndef MODEL_ROUND_H
#define MODEL_ROUND_H

#include <stdbool.h>
#include <stddef.h>

#include "pipeline/model/tools.h"

struct caller;
struct error;
struct json;
struct model_job;
struct talk;

struct round {
	const struct model_job *job; /* all borrowed */
	struct talk *talk;
	struct toolbox *box;
	struct caller *caller;	      /* NULL: replay */
	const struct talk *recording; /* NULL: not replay */
	const char *model;	      /* "anthropic:NAME" */
	const char *issue;
	size_t issue_len;
	size_t turns;  /* answers of this round */
	size_t cut;    /* answers in a row that were cut at the output limit */
	size_t silent; /* empty answers of this round */
	bool text;     /* the model edits by what it writes */
};

#define ROUND_CUT_MOST 3 /* answers in a row that may be cut */

/*
 * 0 once the model has submitted: box->title and body are set. ERROR_NO when it ended its turn
 * without a change or declined; else as call_model and talk_append.
 */
int round_run(struct round *round, struct error *err);

/* changes.json of a submitted round; new. base_tree as in the job. */
struct json *round_changes(const struct round *round);

#endif
