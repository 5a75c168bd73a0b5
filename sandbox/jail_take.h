/*
 * What a jail's command changed in its work tree, read by the program that started the jail (spec.take): a
 * little file server over FD_TAKE. The jail's helper serves it (sandbox/jail/take.h), confined to the jail's own
 * file system and without rights, once every process of the jail has ended; what it serves is the overlay's
 * upper directory, or all of the work tree where layers were copied. The client asks for one directory
 * or one file at a time, so that what it does not want costs nothing.
 *
 * Everything that comes is hostile: names may be any bytes but '/' and NUL, sizes and modes anything. Lengths are
 * bounded here; what they mean is the client's matter (gitops/taken.h).
 *
 * Wire, in the byte order of the machine: the server begins with one byte, JAIL_TAKE_OVERLAY or
 * JAIL_TAKE_COPY. A request is a struct jail_take_ask and its path. The answer to JAIL_TAKE_LIST is a
 * struct jail_take_told of kind JAIL_TAKE_HEAD (size 1: an opaque directory), one an entry with its name,
 * and one of kind JAIL_TAKE_END; to JAIL_TAKE_READ one of kind JAIL_TAKE_DATA and size bytes. One of kind
 * JAIL_TAKE_ERROR (size: errno) stands for any of them.
 */
#ifndef SANDBOX_JAIL_TAKE_H
#define SANDBOX_JAIL_TAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct strbuf;

#define JAIL_TAKE_MS                                                                           \
	600000 /* after this the helper serves no more, and the client asks no more */

#define JAIL_TAKE_OVERLAY 'o'
#define JAIL_TAKE_COPY 'c'

#define JAIL_TAKE_LIST 'L'
#define JAIL_TAKE_READ 'R'

enum jail_take_kind {
	JAIL_TAKE_FILE = 'f',
	JAIL_TAKE_DIR = 'd',
	JAIL_TAKE_LINK = 'l',
	JAIL_TAKE_WHITEOUT = 'w', /* the command removed what the layers have */
	JAIL_TAKE_OTHER = 'o',	  /* socket, FIFO, device */
	JAIL_TAKE_HEAD = 'h',
	JAIL_TAKE_DATA = 'D',
	JAIL_TAKE_END = 'z',
	JAIL_TAKE_ERROR = 'E',
};

struct jail_take_ask {
	uint8_t what;
	uint8_t zero;
	uint16_t path_len; /* 0: the root */
	uint32_t zeros;
	uint64_t max; /* JAIL_TAKE_READ: bytes; a larger file is EFBIG */
};

struct jail_take_told {
	uint8_t kind;
	uint8_t zero;
	uint16_t name_len;
	uint32_t mode; /* permission bits as the command left them */
	uint64_t size; /* of files and links */
};

/* ---- the client ---- */

struct jail_take {
	int fd;		    /* borrowed */
	long long until_ms; /* fd_now_ms() */
	size_t at, len;
	char buffer[65536];
};

struct jail_take_entry {
	enum jail_take_kind kind;
	unsigned mode;
	uint64_t size;
	char *name; /* owned; not empty, without '/', not "." or ".." */
};

struct jail_take_list {
	struct jail_take_entry *items; /* owned */
	size_t len;
	bool opaque; /* it hides what the layers have at its place */
};

/* Waits until the server is there. *complete: all of the work tree is served, not only what differs from the
 * layers. 0; ERROR_FAILED when the jail ended without serving. */
int jail_take_begin(struct jail_take *take, int fd, bool *complete, struct error *err);

/* The entries of a directory ("" is the root). 0 (release the list); ERROR_NO when they are more than max:
 * nothing more may be asked then; ERROR_FAILED. */
int jail_take_list(struct jail_take *take, const char *path, size_t max,
		   struct jail_take_list *list, struct error *err);
void jail_take_list_release(struct jail_take_list *list);

/* The bytes of a file, or the target of a link, appended to out. 0; ERROR_NO when it is larger than max;
 * ERROR_FAILED. */
int jail_take_read(struct jail_take *take, const char *path, uint64_t max, struct strbuf *out,
		   struct error *err);

#endif
