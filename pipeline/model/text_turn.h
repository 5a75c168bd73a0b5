/*
 * One answer of a model that has no tools: requests to see files (LIST, READ, FIND), edits as
 * text (gitops/edit_text.h), DELETE and RENAME, and DONE. All edits of an answer are made or
 * none; what became of each, and what was asked for, is the next message. The answer is hostile:
 * every refusal is a text for the model to mend.
 */
#ifndef MODEL_TEXT_TURN_H
#define MODEL_TEXT_TURN_H

#include <stdbool.h>
#include <stddef.h>

#include "pipeline/base/strbuf.h"
#include "pipeline/model/tools.h"

struct error;

#define TEXT_REQUESTS_MAX 20 /* of one answer */

struct text_turn {
	struct strbuf say; /* the next message to the model */
	size_t requests;   /* LIST, READ, FIND lines */
	size_t edits;	   /* found, made or not */
	bool refused;	   /* the edits were not made */
	bool done;	   /* there was a DONE line */
};
void text_turn_init(struct text_turn *turn);
void text_turn_release(struct text_turn *turn);
#define AUTO_TEXT_TURN __attribute__((cleanup(text_turn_release)))

/*
 * Takes an answer. box->submitted is set when it says DONE, all of its edits were made and the
 * change differs from the base. 0 whenever it was decided; ERROR_FAILED when the repository
 * cannot be read.
 */
int text_turn_take(struct toolbox *box, const char *text, size_t len, struct text_turn *turn,
		   struct error *err);

/* Whether an answer holds edits, for a recording. */
bool text_turn_has_edits(const char *text, size_t len);

#endif
