#include "hashfile.h"

#include <errno.h>
#include <string.h>

#include "pipeline/base/fdio.h"

/* CRC-32 (RFC 1952, section 8), four bits at a time: small, and fast enough beside SHA-1. */
static uint32_t crc_of(uint32_t crc, const unsigned char *data, size_t len)
{
	static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
					   0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
					   0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
					   0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};

	crc = ~crc;
	for (size_t i = 0; i < len; i++) {
		crc ^= data[i];
		crc = crc >> 4 ^ table[crc & 15];
		crc = crc >> 4 ^ table[crc & 15];
	}
	return ~crc;
}

static void flush(struct hashfile *file)
{
	sha1_add(&file->sha, file->buffer, file->used);
	if (!file->error && fd_write_all(file->fd, file->buffer, file->used) < 0)
		file->error = errno;
	file->used = 0;
}

void hashfile_begin(struct hashfile *file, int fd)
{
	file->fd = fd;
	file->error = 0;
	file->offset = 0;
	file->crc = 0;
	file->used = 0;
	sha1_init(&file->sha);
}

void hashfile_crc_begin(struct hashfile *file)
{
	file->crc = 0;
}

void hashfile_add(struct hashfile *file, const void *data, size_t len)
{
	const unsigned char *p = data;

	file->offset += len;
	file->crc = crc_of(file->crc, p, len);
	while (len) {
		size_t room = HASHFILE_BUFFER - file->used, part = len < room ? len : room;

		memcpy(file->buffer + file->used, p, part);
		file->used += part;
		p += part;
		len -= part;
		if (file->used == HASHFILE_BUFFER)
			flush(file);
	}
}

void hashfile_be32(struct hashfile *file, uint32_t value)
{
	const unsigned char bytes[4] = {(unsigned char)(value >> 24),
					(unsigned char)(value >> 16),
					(unsigned char)(value >> 8), (unsigned char)value};

	hashfile_add(file, bytes, sizeof(bytes));
}

int hashfile_end(struct hashfile *file, unsigned char sum[SHA1_SIZE])
{
	flush(file);
	sha1_end(&file->sha, sum);
	if (!file->error && fd_write_all(file->fd, sum, SHA1_SIZE) < 0)
		file->error = errno;
	errno = file->error;
	return file->error ? -1 : 0;
}
