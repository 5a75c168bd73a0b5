/*
 * What a git receive-pack says first: its refs (gitprotocol-pack(5), "Reference Discovery").
 * Read here for a local remote, whose one connection agent-publish passes through to git, so
 * that the lease is decided on the very advertisement that git then sees. Pure; the bytes come
 * from a server.
 */
#ifndef PUBLISH_ADVERT_H
#define PUBLISH_ADVERT_H

#include <stddef.h>

struct error;

#define ADVERT_BYTES_MAX ((size_t)64 << 20) /* longest advertisement (about a million refs) */
#define ADVERT_OID_SIZE 65		    /* 40 or 64 hex digits and NUL */

struct advert {
	size_t at;		   /* bytes parsed so far */
	unsigned long lines;	   /* packets seen */
	char tip[ADVERT_OID_SIZE]; /* the ref's value, "" when it is not there */
};

/*
 * Goes on parsing data, whose first advert->at bytes were parsed before (begin with a zeroed
 * struct advert). 1: the closing flush packet was seen; 0: more bytes are needed; ERROR_FAILED
 * with err when the server reported an error of its own or spoke something else.
 */
int advert_parse(struct advert *advert, const char *data, size_t len, const char *ref,
		 struct error *err);

#endif
