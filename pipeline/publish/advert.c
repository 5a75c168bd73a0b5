#include "advert.h"

#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/text.h"

#define PACKET_MAX 65520 /* LARGE_PACKET_MAX of gitprotocol-common(5) */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Length that four hex digits say, or -1. */
static int packet_length(const char *data)
{
	int length = 0;

	for (int i = 0; i < 4; i++) {
		int digit = hex_digit(data[i]);

		if (digit < 0)
			return -1;
		length = length * 16 + digit;
	}
	return length;
}

static int malformed(struct error *err)
{
	return error_set(err, ERROR_FAILED,
			 "the remote does not speak as git receive-pack does");
}

/* One packet's payload: "OID SP ref", in the first one with NUL and capabilities behind it. */
static int parse_line(struct advert *advert, const char *line, size_t len, const char *ref,
		      struct error *err)
{
	const char *nul = memchr(line, '\0', len), *space;
	size_t name_len;

	if (len >= 4 && memcmp(line, "ERR ", 4) == 0)
		return error_set(err, ERROR_FAILED, "the remote says: %.*s", (int)(len - 4),
				 line + 4);
	if (nul && advert->lines > 1)
		return malformed(err);
	if (nul)
		len = (size_t)(nul - line);
	else if (len && line[len - 1] == '\n')
		len--;
	if (advert->lines == 1 && len == 9 && memcmp(line, "version 1", 9) == 0) {
		advert->lines = 0; /* the ref line with the capabilities is still to come */
		return 0;
	}
	if (len > 8 && memcmp(line, "shallow ", 8) == 0)
		return 0;
	space = memchr(line, ' ', len);
	if (!space || (space - line != 40 && space - line != 64))
		return malformed(err);
	for (const char *c = line; c < space; c++)
		if (hex_digit(*c) < 0)
			return malformed(err);
	name_len = len - (size_t)(space + 1 - line);
	if (name_len == strlen(ref) && memcmp(space + 1, ref, name_len) == 0) {
		memcpy(advert->tip, line, (size_t)(space - line));
		advert->tip[space - line] = '\0';
	}
	return 0;
}

int advert_parse(struct advert *advert, const char *data, size_t len, const char *ref,
		 struct error *err)
{
	while (len - advert->at >= 4) {
		int length = packet_length(data + advert->at);

		if (length == 0) {
			advert->at += 4;
			return 1;
		}
		if (length < 5 || length > PACKET_MAX)
			return malformed(err);
		if ((size_t)length > len - advert->at)
			return 0;
		advert->lines++;
		if (parse_line(advert, data + advert->at + 4, (size_t)length - 4, ref, err))
			return err->kind;
		advert->at += (size_t)length;
	}
	return 0;
}
