/* Fuzz target: the commit message. Input: title and body, separated by the first NUL. It must be UTF-8 without
 * controls, end with our trailers, and hold no other line that git or a CI service acts upon. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gitops/message.h"
#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const trailers[] = {"Agent-Run: 1", "Issue: x"};
	static const char tail[] = "\nAgent-Run: 1\nIssue: x\n";
	static const char *const banned[] = {
	    "[skip ci]",	"[ci skip]",	     "***NO_CI***",
	    "\nSigned-off-by:", "\nCo-authored-by:", "\nskip-checks:"};
	const uint8_t *nul = size ? memchr(data, '\0', size) : NULL;
	size_t title_len = nul ? (size_t)(nul - data) : size;
	char *title = mem_strndup((const char *)data, title_len);
	char *body =
	    nul ? mem_strndup((const char *)nul + 1, size - title_len - 1) : mem_strdup("");
	struct strbuf out;
	struct error err = {0};

	strbuf_init(&out, 1 << 20);
	if (message_format(title, "fallback", body, trailers, 2, &out, &err) < 0)
		abort();
	if (out.len < strlen(tail) || strcmp(out.data + out.len - strlen(tail), tail) != 0 ||
	    !text_is_utf8(out.data, out.len) || out.data[0] == '\n')
		abort();
	for (size_t i = 0; i < out.len; i++)
		if ((unsigned char)out.data[i] < 0x20 && out.data[i] != '\n')
			abort();
	for (size_t i = 0; i < ARRAY_LEN(banned); i++)
		if (strcasestr(out.data, banned[i]))
			abort();
	free(title);
	free(body);
	strbuf_release(&out);
	return 0;
}
