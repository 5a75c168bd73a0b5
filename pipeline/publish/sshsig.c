#include "sshsig.h"

#include <string.h>

#include "pipeline/base/sha256.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

#define LINE 70 /* characters of base64 a line, as ssh-keygen writes them */

static const char begin_line[] = "-----BEGIN SSH SIGNATURE-----\n";
static const char end_line[] = "-----END SSH SIGNATURE-----";

int sshsig_unarmour(const char *text, size_t len, struct strbuf *blob)
{
	struct strbuf body AUTO_STRBUF = STRBUF_NONE;
	const char *end;

	if (len > SSHSIG_ARMOUR_MAX || len < sizeof(begin_line) ||
	    memcmp(text, begin_line, sizeof(begin_line) - 1) != 0)
		return -1;
	text += sizeof(begin_line) - 1;
	len -= sizeof(begin_line) - 1;
	end = memmem(text, len, end_line, sizeof(end_line) - 1);
	if (!end)
		return -1;
	strbuf_init(&body, SSHSIG_ARMOUR_MAX);
	for (const char *at = text; at < end; at++)
		if (*at != '\n' && *at != '\r')
			strbuf_addc(&body, *at);
	return text_unbase64(blob, body.data, body.len);
}

void sshsig_armour(const char *blob, size_t len, struct strbuf *out)
{
	struct strbuf body AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&body, STRBUF_MAX);
	text_base64(&body, blob, len);
	strbuf_adds(out, begin_line);
	for (size_t at = 0; at < body.len; at += LINE) {
		strbuf_add(out, body.data + at, body.len - at < LINE ? body.len - at : LINE);
		strbuf_addc(out, '\n');
	}
	strbuf_adds(out, end_line);
	strbuf_addc(out, '\n');
}

int sshsig_fingerprint(const char *line, size_t len, char fingerprint[64])
{
	struct strbuf blob AUTO_STRBUF = STRBUF_NONE, print AUTO_STRBUF = STRBUF_NONE;
	const char *space = memchr(line, ' ', len);
	size_t at = space ? (size_t)(space - line) + 1 : len, end = at;
	unsigned char digest[32];
	struct sha256 hash;

	while (end < len && !strchr(" \r\n", line[end]) && line[end])
		end++;
	strbuf_init(&blob, 65536);
	if (end == at || text_unbase64(&blob, line + at, end - at) < 0 || !blob.len)
		return -1;
	sha256_init(&hash);
	sha256_add(&hash, blob.data, blob.len);
	sha256_done(&hash, digest);
	strbuf_init(&print, 63);
	strbuf_adds(&print, "SHA256:");
	text_base64(&print, (const char *)digest, sizeof(digest));
	while (print.len && print.data[print.len - 1] == '=')
		print.data[--print.len] = '\0';
	memcpy(fingerprint, print.data, print.len + 1);
	return 0;
}
