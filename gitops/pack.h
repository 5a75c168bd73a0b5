/*
 * Objects as one pack of git's, with its index (gitformat-pack(5), both of version 2), every
 * object whole and stored without compression: made for one run, read a few times, thrown
 * away. So it costs little more than reading the objects.
 */
#ifndef GITOPS_PACK_H
#define GITOPS_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "gitops/repo.h"
#include "gitops/sha1.h"

struct error;

#define PACK_BYTES_MAX ((uint64_t)2 << 30) /* offsets of its index have 31 bits */

struct pack_object {
	unsigned char oid[SHA1_SIZE];
	enum gitops_type type;
	const void *data; /* borrowed: its bytes; NULL: the repository has it */
	size_t len;	  /* of data */
	uint32_t offset;  /* own */
	uint32_t crc;	  /* own */
};

/*
 * Writes pack-<sum>.pack and .idx into dir. Sorts the objects and leaves out doubles. 0;
 * ERROR_NO when they are more than PACK_BYTES_MAX; ERROR_FAILED.
 */
int pack_write(struct gitops_repo *repo, int dir, struct pack_object *objects, size_t count,
	       struct error *err);

#endif
