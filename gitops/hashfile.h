/* A file of git's that ends with the SHA-1 of all before: written through a buffer. An error
 * is kept and told at the end. */
#ifndef GITOPS_HASHFILE_H
#define GITOPS_HASHFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gitops/sha1.h"

#define HASHFILE_BUFFER 65536

struct hashfile {
	int fd;		 /* borrowed */
	int error;	 /* errno of the first write that failed, or 0 */
	uint64_t offset; /* bytes added */
	uint32_t crc;	 /* of what was added since hashfile_crc_begin (CRC-32 of RFC 1952) */
	size_t used;
	struct sha1 sha;
	unsigned char buffer[HASHFILE_BUFFER];
};

void hashfile_begin(struct hashfile *file, int fd);
void hashfile_crc_begin(struct hashfile *file);
void hashfile_add(struct hashfile *file, const void *data, size_t len);
void hashfile_be32(struct hashfile *file, uint32_t value); /* big-endian */
/* Writes the sum behind the rest and gives it out. 0, or -1 with errno. */
int hashfile_end(struct hashfile *file, unsigned char sum[SHA1_SIZE]);

#endif
