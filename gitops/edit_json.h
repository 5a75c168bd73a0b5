/*
 * Edits as JSON: the "edits" member of changes.json and a model's tool arguments. Strict:
 * unknown members, missing ones and wrong types are errors. Pure but for memory.
 *
 *	{"op":"write","path":P,"content":T,"mode":"100644"|"100755"?,"create":true?}
 *	{"op":"edit","path":P,"old":T,"new":T?,"count":N?}   no new: delete
 *	{"op":"insert","path":P,"line":N,"text":T}           behind line N, 0: at the top
 *	{"op":"delete","path":P}
 *	{"op":"rename","path":P,"to":P}
 *	{"op":"chmod","path":P,"mode":"100644"|"100755"}
 *	{"op":"patch","path":P,"to":P?,"copy":true?,"create":true?,"remove":true?,"binary":true?,"delta":true?,"content":T?,
 *	 "search":true?,"mode"?,"old_id":HEX?,"new_id":HEX?,"hunks":[{"body":T,"line":N?,
 *	 "scope":T?,"must_scope":true?,"at_end":true?,"ordered":true?}...]}   as struct edit has it
 *
 * Instead of content, old, new and text there may be content_base64 and so on.
 */
#ifndef GITOPS_EDIT_JSON_H
#define GITOPS_EDIT_JSON_H

#include "gitops/edit.h"

struct json;

#define EDIT_LIST_MAX 5000	      /* edits of one changes.json */
#define CHANGES_BYTES_MAX (64u << 20) /* of one changes.json */

/* One edit. 0 and *edit (the caller releases), or ERROR_USAGE. */
int edit_from_json(const struct json *object, struct edit *edit, struct error *err);
/* New object; the caller frees. */
struct json *edit_to_json(const struct edit *edit);

/* An array of them, appended to list. 0 or ERROR_USAGE naming the index. */
int edit_list_from_json(const struct json *array, struct edit_list *list, struct error *err);
struct json *edit_list_to_json(const struct edit_list *list);

#endif
