/* The tools themselves, for tools.c: one function each. Same results as tools_run. */
#ifndef MODEL_TOOLS_INTERNAL_H
#define MODEL_TOOLS_INTERNAL_H

#include "pipeline/model/tool_args.h"
#include "pipeline/model/tools.h"

typedef int tool_fn(struct toolbox *box, const struct tool_args *args, struct error *err);

tool_fn tool_list_files, tool_read_file, tool_search;
tool_fn tool_edit_file, tool_write_file, tool_delete_file, tool_rename_file, tool_submit;

/* err of a view function: ERROR_NO becomes the result's text (0), anything else is passed on.
 */
int tool_pass(struct tool_result *result, int kind, const struct error *err);

#endif
