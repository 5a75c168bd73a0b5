/*
 * Where there is no overlay: layers copied on top of each other, with the meaning that
 * overlayfs gives to whiteouts and opaque directories
 * (Documentation/filesystems/overlayfs.rst). Runs in a child of outer, as the payload's user.
 */
#ifndef JAIL_COPY_H
#define JAIL_COPY_H

#include <stddef.h>

/* Copies what is in one layer into target; names is for the message. 0, or -1 with errno and
 * where (size bytes) naming the entry. */
int copy_layer(int layer, int target, char *where, size_t size);

#endif
