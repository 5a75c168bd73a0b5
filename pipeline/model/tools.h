/*
 * The tools that a model has. They read a view (gitops/view.h) and change it; nothing of them reaches
 * outside of this process's memory. Arguments are hostile: every refusal is a text for the model to mend,
 * never an end of the process.
 *
 *	list_files   {"path"?,"pattern"?,"recursive"?:bool}
 *	read_file    {"path","start_line"?:N,"end_line"?:N}
 *	search       {"text","regex"?:bool,"ignore_case"?:bool,"path"?,"pattern"?}
 *	edit_file    {"path","old","new"?,"replace_all"?:bool}     old must be there exactly once
 *	write_file   {"path","content","executable"?:bool}
 *	delete_file  {"path"}
 *	rename_file  {"path","to"}
 *	submit       {"title","body"?}                             ends the round
 */
#ifndef MODEL_TOOLS_H
#define MODEL_TOOLS_H

#include <stdbool.h>
#include <stddef.h>

#include "pipeline/base/strbuf.h"

struct error;
struct json;
struct view;

#define TOOL_RESULT_MAX 65536 /* bytes of one result */
#define TOOL_READ_LINES 2000  /* lines of one read_file */
#define TOOL_LIST_MAX 1000    /* entries of one list_files */
#define TOOL_SEARCH_MAX 200   /* hits of one search */
#define TOOL_EDIT_BYTES_MAX                                                                    \
	(40u << 20) /* of all edits of a run together: changes.json stays below its cap */
#define SUBMIT_TITLE_MAX 200  /* bytes */
#define SUBMIT_BODY_MAX 16384 /* bytes */

struct toolbox {
	struct view *view;  /* borrowed */
	struct json *edits; /* owned: array, cumulative since the base, as in changes.json */
	size_t edit_bytes;  /* of their texts */
	size_t round_edits; /* made in this round */
	bool later_round;   /* there was a tested change before */
	bool turn_refused;  /* an edit of the turn under way was refused */
	bool submitted;
	char *title, *body; /* owned, once submitted */
};

void toolbox_init(struct toolbox *box, struct view *view);
void toolbox_release(struct toolbox *box);
#define AUTO_TOOLBOX __attribute__((cleanup(toolbox_release)))

/* Puts the edits of earlier rounds into the view. 0; ERROR_FAILED when they do not apply any
 * more. */
int toolbox_load(struct toolbox *box, const struct json *edits, struct error *err);

/* [{"name","description","parameters":{JSON schema}}]; new. */
struct json *tools_schema(void);

struct tool_result {
	struct strbuf text; /* for the model: UTF-8, at most TOOL_RESULT_MAX bytes */
	bool failed;
};
void tool_result_init(struct tool_result *result);
void tool_result_release(struct tool_result *result);
#define AUTO_TOOL_RESULT __attribute__((cleanup(tool_result_release)))

/* Runs a call, input being an object. 0 whenever it was decided; ERROR_FAILED when the
 * repository cannot be read. */
int tools_run(struct toolbox *box, const char *name, const struct json *input,
	      struct tool_result *result, struct error *err);

/* Whether the tool changes the view or ends the round: what has to be done again when a
 * conversation is taken up. */
bool tools_has_effect(const char *name);

/* One line about a call for a progress display: "read_file src/a.c". */
void tools_describe(const char *name, const struct json *input, char *text, size_t size);

/* Sets what is submitted, cut to the caps. For a model that ends its turn without the tool. */
void toolbox_submit(struct toolbox *box, const char *title, const char *body);

/* Whether the view differs from the base. 0 and *changed, or ERROR_FAILED. */
int toolbox_changed(struct toolbox *box, bool *changed, struct error *err);

#endif
