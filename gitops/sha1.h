/*
 * SHA-1 as git's file formats end with it (FIPS 180-4): check sums of our own files, no
 * security. Object ids are the library's business, which looks for collisions.
 */
#ifndef GITOPS_SHA1_H
#define GITOPS_SHA1_H

#include <stddef.h>
#include <stdint.h>

#define SHA1_SIZE 20 /* bytes */

struct sha1 {
	uint32_t state[5];
	uint64_t len; /* bytes so far */
	unsigned char block[64];
};

void sha1_init(struct sha1 *sha);
void sha1_add(struct sha1 *sha, const void *data, size_t len);
/* The sum of all that was added; init before the next use. */
void sha1_end(struct sha1 *sha, unsigned char sum[SHA1_SIZE]);

#endif
