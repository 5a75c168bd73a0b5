#include "binpatch.h"

#include <stdint.h>
#include <string.h>

#include <zlib.h>

#include "pipeline/base/strbuf.h"

/* ---- base85 ---- */

static int digit_of(char c)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "abcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* The first character of a line says how many bytes it has: A to Z are 1 to 26, a to z 27 to 52. */
static size_t bytes_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (size_t)(c - 'A') + 1;
	return c >= 'a' && c <= 'z' ? (size_t)(c - 'a') + 27 : 0;
}

bool binpatch_decode_line(const char *line, size_t len, struct strbuf *out)
{
	size_t left = len ? bytes_of(line[0]) : 0;

	if (!left || len != 1 + (left + 3) / 4 * 5)
		return false;
	for (size_t at = 1; left; at += 5) {
		size_t take = left < 4 ? left : 4;
		uint64_t value = 0;

		for (size_t i = 0; i < 5; i++) {
			int digit = digit_of(line[at + i]);
			if (digit < 0)
				return false;
			value = value * 85 + (uint64_t)digit;
		}
		if (value > UINT32_MAX)
			return false;
		for (size_t i = 0; i < take; i++)
			strbuf_addc(out, (char)(value >> (24 - 8 * i)));
		left -= take;
	}
	return !out->full;
}

/* ---- zlib ---- */

bool binpatch_inflate(const char *data, size_t len, size_t size, struct strbuf *out)
{
	unsigned char chunk[65536], bytes[4096];
	size_t at = 0, made = 0;
	z_stream stream = {0};
	int state = Z_OK;

	if (inflateInit(&stream) != Z_OK)
		return false;
	while (state == Z_OK) {
		if (stream.avail_in == 0) {
			size_t take = len - at < sizeof(bytes) ? len - at : sizeof(bytes);

			memcpy(bytes, data + at, take);
			at += take;
			stream.next_in = bytes;
			stream.avail_in = (unsigned)take;
		}
		stream.next_out = chunk;
		stream.avail_out = sizeof(chunk);
		state = inflate(&stream, Z_NO_FLUSH);
		size_t n = sizeof(chunk) - stream.avail_out;
		if (n > size - made) {
			state = Z_DATA_ERROR;
			break;
		}
		strbuf_add(out, (const char *)chunk, n);
		made += n;
	}
	/* bytes behind the stream are none of it: the text was put together from two */
	bool whole = state == Z_STREAM_END && stream.avail_in == 0 && at == len;
	inflateEnd(&stream);
	return whole && made == size && !out->full;
}

/* ---- delta ---- */

struct reader {
	const unsigned char *at, *end;
};

static bool take_size(struct reader *reader, uint64_t *size)
{
	unsigned shift = 0;

	for (*size = 0; reader->at < reader->end && shift < 57; shift += 7) {
		unsigned char byte = *reader->at++;
		*size |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return true;
	}
	return false;
}

/* Little-endian, of the bytes that bits (of count) say are there. */
static bool take_number(struct reader *reader, unsigned bits, unsigned count, size_t *number)
{
	*number = 0;
	for (unsigned i = 0; i < count; i++) {
		if (!(bits & (1u << i)))
			continue;
		if (reader->at == reader->end)
			return false;
		*number |= (size_t)*reader->at++ << (8 * i);
	}
	return true;
}

bool binpatch_delta(const char *old, size_t old_len, const char *delta, size_t len, size_t most,
		    struct strbuf *out)
{
	struct reader reader = {(const unsigned char *)delta,
				(const unsigned char *)delta + len};
	uint64_t from, to;
	size_t left;

	if (!take_size(&reader, &from) || !take_size(&reader, &to) || from != old_len ||
	    to > most)
		return false;
	left = (size_t)to;
	while (reader.at < reader.end) {
		unsigned char op = *reader.at++;
		const char *source = (const char *)reader.at;
		size_t offset, size = op;

		if (op & 0x80) {
			if (!take_number(&reader, op & 0x0fu, 4, &offset) ||
			    !take_number(&reader, (op >> 4) & 7u, 3, &size))
				return false;
			size = size ? size : 0x10000;
			if (offset > old_len || size > old_len - offset)
				return false;
			source = old + offset;
		} else if (!op || size > (size_t)(reader.end - reader.at)) {
			return false;
		} else {
			reader.at += size;
		}
		if (size > left)
			return false;
		strbuf_add(out, source, size);
		left -= size;
	}
	return left == 0 && !out->full;
}
