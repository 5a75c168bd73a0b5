/* Fuzz target: a binary patch's bytes. A line makes what its first byte says; a stream never more than its
 * size; a delta never more than it says, and only from what is there. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gitops/binpatch.h"
#include "pipeline/base/strbuf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_STRBUF struct strbuf line = STRBUF_NONE, whole = STRBUF_NONE, made = STRBUF_NONE;
	size_t old_len = size ? data[0] : 0;
	char *old = malloc(old_len + 1);

	if (!old)
		abort();
	memset(old, 'x', old_len);
	strbuf_init(&line, 64);
	strbuf_init(&whole, 1 << 20);
	strbuf_init(&made, 1 << 20);
	if (binpatch_decode_line((const char *)data, size, &line) &&
	    (line.len == 0 || line.len > 52))
		abort();
	if (binpatch_inflate((const char *)data, size, 1000, &whole) && whole.len != 1000)
		abort();
	if (whole.len > 1000)
		abort();
	if (binpatch_delta(old, old_len, (const char *)data, size, 4096, &made) &&
	    made.len > 4096)
		abort();
	free(old);
	return 0;
}
