#include "sha1.h"

#include <string.h>

static uint32_t rotate(uint32_t value, unsigned bits)
{
	return value << bits | value >> (32 - bits);
}

static uint32_t load_be32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void expand(const unsigned char *block, uint32_t w[80])
{
	for (unsigned i = 0; i < 16; i++)
		w[i] = load_be32(block + (size_t)4 * i);
	for (unsigned i = 16; i < 80; i++)
		w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
}

static void add_block(struct sha1 *sha, const unsigned char *block)
{
	static const uint32_t k[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
	uint32_t w[80], a = sha->state[0], b = sha->state[1], c = sha->state[2],
			d = sha->state[3], e = sha->state[4];

	expand(block, w);
	for (unsigned i = 0; i < 80; i++) {
		uint32_t f = i < 20   ? (b & c) | (~b & d)
			     : i < 40 ? b ^ c ^ d
			     : i < 60 ? (b & c) | (b & d) | (c & d)
				      : b ^ c ^ d;
		uint32_t next = rotate(a, 5) + f + e + k[i / 20] + w[i];

		e = d;
		d = c;
		c = rotate(b, 30);
		b = a;
		a = next;
	}
	sha->state[0] += a;
	sha->state[1] += b;
	sha->state[2] += c;
	sha->state[3] += d;
	sha->state[4] += e;
}

void sha1_init(struct sha1 *sha)
{
	*sha =
	    (struct sha1){{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}, 0, {0}};
}

void sha1_add(struct sha1 *sha, const void *data, size_t len)
{
	const unsigned char *p = data;
	size_t used = sha->len % 64;

	sha->len += len;
	if (used) {
		size_t part = len < 64 - used ? len : 64 - used;

		memcpy(sha->block + used, p, part);
		p += part;
		len -= part;
		if (used + part < 64)
			return;
		add_block(sha, sha->block);
	}
	for (; len >= 64; p += 64, len -= 64)
		add_block(sha, p);
	if (len)
		memcpy(sha->block, p, len);
}

void sha1_end(struct sha1 *sha, unsigned char sum[SHA1_SIZE])
{
	uint64_t bits = sha->len * 8;
	unsigned char tail[72] = {0x80};
	size_t used = sha->len % 64, pad = (used < 56 ? 56 : 120) - used;

	for (unsigned i = 0; i < 8; i++)
		tail[pad + i] = (unsigned char)(bits >> (56 - 8 * i));
	sha1_add(sha, tail, pad + 8);
	for (unsigned i = 0; i < SHA1_SIZE; i++)
		sum[i] = (unsigned char)(sha->state[i / 4] >> (24 - 8 * (i % 4)));
}
