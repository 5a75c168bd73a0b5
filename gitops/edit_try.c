/* A list of edits, all or none: see gitops/edit.h. */
#include "edit.h"

#include "pipeline/base/error.h"

int edit_try(struct view *view, const struct edit_list *list, struct edit_result *results,
	     enum edit_code *outcome, struct error *err)
{
	struct view_mark *mark = view_save(view);
	enum edit_code refused = EDIT_OK;
	bool changed = false;
	int rc = 0;

	for (size_t i = 0; i < list->len && rc == 0; i++) {
		rc = edit_apply(view, &list->items[i], &results[i], err);
		enum edit_code code = results[i].code;
		changed = changed || code == EDIT_OK;
		if (refused == EDIT_OK && code != EDIT_ALREADY_APPLIED)
			refused = code;
	}
	if (rc < 0 || refused != EDIT_OK || !changed)
		view_restore(view, mark);
	view_mark_free(mark);
	if (rc < 0)
		return rc;
	if (refused != EDIT_OK)
		*outcome = refused;
	else if (changed)
		*outcome = EDIT_OK;
	else
		*outcome = list->len ? EDIT_ALREADY_APPLIED : EDIT_NOOP;
	return 0;
}
