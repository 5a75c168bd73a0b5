/* Fuzz target: edits as JSON. What is taken must come out the same after a round trip. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gitops/edit_json.h"
#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/strbuf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct error err = {0};
	struct json *json = js_parse((const char *)data, size, 1 << 20, "fuzz", &err), *once,
		    *twice;
	struct edit_list list = {NULL, 0, 0}, again = {NULL, 0, 0};
	struct strbuf a, b;

	if (json && edit_list_from_json(json, &list, &err) == 0) {
		once = edit_list_to_json(&list);
		if (edit_list_from_json(once, &again, &err) < 0)
			abort();
		twice = edit_list_to_json(&again);
		strbuf_init(&a, STRBUF_MAX);
		strbuf_init(&b, STRBUF_MAX);
		js_format(once, &a);
		js_format(twice, &b);
		if (strcmp(a.data, b.data) != 0)
			abort();
		strbuf_release(&a);
		strbuf_release(&b);
		js_free(once);
		js_free(twice);
	}
	edit_list_release(&list);
	edit_list_release(&again);
	js_free(json);
	return 0;
}
