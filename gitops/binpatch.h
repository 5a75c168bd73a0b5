/*
 * The bytes of git's binary patches ("GIT binary patch", git-diff(1) --binary; git's own base85.c, apply.c
 * and patch-delta.c are the specification): lines of base85, which are a zlib stream of the file itself or
 * of a delta against the old one (gitformat-pack(5), "Deltified representation"). Pure; all of it comes from
 * a model, so nothing is longer than it says, and nothing that it says is believed.
 */
#ifndef GITOPS_BINPATCH_H
#define GITOPS_BINPATCH_H

#include <stdbool.h>
#include <stddef.h>

struct strbuf;

/* One line of data, without its end, appended to out. False when it is malformed. */
bool binpatch_decode_line(const char *line, size_t len, struct strbuf *out);

/* A zlib stream of exactly size bytes, appended to out; not one byte more is made. False when it is not
 * that. */
bool binpatch_inflate(const char *data, size_t len, size_t size, struct strbuf *out);

/*
 * Makes the new bytes from the old ones and a delta, appended to out. False when the delta is malformed, not
 * for an old file of this size, or makes more than most bytes.
 */
bool binpatch_delta(const char *old, size_t old_len, const char *delta, size_t len, size_t most,
		    struct strbuf *out);

#endif
