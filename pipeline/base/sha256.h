/* SHA-256 (FIPS 180-4). Pure; used for keys and digests of artefacts, not for secrets. */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

struct sha256 {
	uint32_t state[8];
	uint64_t bytes; /* total fed */
	unsigned char block[64];
};

void sha256_init(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *data, size_t len);
void sha256_done(struct sha256 *hash, unsigned char digest[32]);
/* One shot, as 64 lower-case hex digits and NUL. */
void sha256_hex(const void *data, size_t len, char hex[65]);

#endif
