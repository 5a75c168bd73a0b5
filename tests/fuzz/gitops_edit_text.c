/*
 * Fuzz target: edits in text. The first byte chooses the format, a NUL ends the text, the rest is a
 * file that the hunks are applied to. A list that is read survives a round trip through JSON; a
 * refusal says why and leaves nothing behind.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gitops/edit_hunk.h"
#include "gitops/edit_json.h"
#include "gitops/edit_text.h"
#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/strbuf.h"

static void apply(const struct edit *edit, const char *data, size_t len)
{
	struct text_file file;
	struct strbuf out, message;
	struct hunks_report report;

	strbuf_init(&out, STRBUF_MAX);
	strbuf_init(&message, 4096);
	text_file_init(&file, data, len);
	hunks_apply(&file, edit->hunks, edit->hunk_count, edit->search, &report, &message,
		    &out);
	if (report.code != EDIT_OK && out.len)
		abort();
	if (report.code != EDIT_OK && report.code != EDIT_NOOP &&
	    report.code != EDIT_ALREADY_APPLIED && !message.len)
		abort();
	strbuf_reset(&out);
	hunks_apply_exactly(data, len, edit->hunks, edit->hunk_count, &out);
	strbuf_reset(&out);
	hunks_new_file(edit->hunks, edit->hunk_count, &out);
	text_file_release(&file);
	strbuf_release(&out);
	strbuf_release(&message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct edit_list list = {NULL, 0, 0}, again = {NULL, 0, 0};
	struct edit_fault fault;
	struct error err = {0};

	if (!size)
		return 0;
	enum edit_format format = (enum edit_format)(data[0] % (FORMAT_TOOL + 1));
	const char *text = (const char *)data + 1, *nul = memchr(text, '\0', size - 1);
	size_t len = nul ? (size_t)(nul - text) : size - 1;
	if (edit_text_parse(text, len, &format, &list, &fault) < 0) {
		if (list.len || !fault.message[0] || fault.code == EDIT_OK)
			abort();
		edit_list_release(&list);
		return 0;
	}
	if (!list.len)
		abort();
	for (size_t i = 0; i < list.len; i++)
		apply(&list.items[i], nul ? nul + 1 : "", nul ? size - 2 - len : 0);
	struct json *json = edit_list_to_json(&list);
	/* a path that is no UTF-8 comes back as another one; the engine refuses it anyway */
	if (edit_list_from_json(json, &again, &err) == 0 && again.len != list.len)
		abort();
	js_free(json);
	edit_list_release(&list);
	edit_list_release(&again);
	return 0;
}
