/* What may become a standard descriptor of a payload, in every backend. */
#ifndef JAIL_STDIO_KIND_H
#define JAIL_STDIO_KIND_H

/*
 * A pipe or a terminal of our own; a descriptor of the host's /dev/null becomes the jail's. Anything else is
 * refused: with uid=shared the payload could truncate a file or make it set-user-id, a socket carries
 * descriptors, and another's terminal can be typed into. Whoever has such a thing carries it through a
 * pipe. So no inode of the host's file systems stays behind.
 *
 * *kind: 'n' the host's /dev/null, 'f' to be handed on. 0, or -1 with errno.
 */
int stdio_kind(int fd, char *kind);

#endif
