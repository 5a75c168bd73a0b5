/* Files of the scratch directory, which is the working directory of the row and its children. */
#ifndef PUBLISH_SCRATCH_H
#define PUBLISH_SCRATCH_H

#include <stddef.h>

struct error;

/* Writes a file (mode 0600) in place of one that an earlier attempt left; no link is followed. 0 or
 * ERROR_FAILED. */
int scratch_write(const char *name, const void *data, size_t len, struct error *err);

#endif
