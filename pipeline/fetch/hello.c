#include "hello.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define RECORD_HANDSHAKE 22
#define RECORD_BODY_MAX 16384
#define CLIENT_HELLO 1
#define EXT_SERVER_NAME 0
#define EXT_ECH 0xfe0d	    /* encrypted_client_hello */
#define EXT_ESNI_OLD 0xffce /* its first draft: encrypted_server_name */

/* A view that only moves forward. A read past the end sets short_read and gives zeros. */
struct view {
	const unsigned char *at;
	size_t left;
	bool short_read;
};

static unsigned take_number(struct view *view, size_t bytes)
{
	unsigned value = 0;

	if (view->left < bytes) {
		view->short_read = true;
		view->left = 0;
		return 0;
	}
	for (size_t i = 0; i < bytes; i++)
		value = value << 8 | view->at[i];
	view->at += bytes;
	view->left -= bytes;
	return value;
}

static struct view take_view(struct view *view, size_t bytes)
{
	struct view part = {view->at, bytes, false};

	if (view->left < bytes) {
		view->short_read = part.short_read = true;
		view->left = part.left = 0;
		return part;
	}
	view->at += bytes;
	view->left -= bytes;
	return part;
}

static enum hello_result refuse(const char **why, const char *text)
{
	*why = text;
	return HELLO_REFUSED;
}

static enum hello_result parse_names(struct view ext, char name[256], const char **why)
{
	struct view list = take_view(&ext, take_number(&ext, 2));
	unsigned type = take_number(&list, 1);
	struct view host = take_view(&list, take_number(&list, 2));

	if (ext.short_read || list.short_read || ext.left || list.left || type != 0)
		return refuse(why, "a malformed server name in the TLS hello");
	if (host.left == 0 || host.left > 255 || memchr(host.at, 0, host.left))
		return refuse(why, "a malformed server name in the TLS hello");
	memcpy(name, host.at, host.left);
	name[host.left] = 0;
	return HELLO_NAMED;
}

static enum hello_result parse_extensions(struct view exts, char name[256], const char **why)
{
	enum hello_result result = HELLO_UNNAMED;

	while (exts.left && !exts.short_read) {
		unsigned type = take_number(&exts, 2);
		struct view ext = take_view(&exts, take_number(&exts, 2));

		if (exts.short_read)
			break;
		if (type == EXT_ECH || type == EXT_ESNI_OLD)
			return refuse(why, "an encrypted server name in the TLS hello");
		if (type != EXT_SERVER_NAME)
			continue;
		if (result != HELLO_UNNAMED)
			return refuse(why, "two server names in the TLS hello");
		result = parse_names(ext, name, why);
		if (result == HELLO_REFUSED)
			return result;
	}
	return exts.short_read ? refuse(why, "a malformed TLS hello") : result;
}

/* The body of one whole ClientHello message. */
static enum hello_result parse_client_hello(struct view body, char name[256], const char **why)
{
	struct view exts;

	take_number(&body, 2);			 /* legacy_version */
	take_view(&body, 32);			 /* random */
	take_view(&body, take_number(&body, 1)); /* legacy_session_id */
	take_view(&body, take_number(&body, 2)); /* cipher_suites */
	take_view(&body, take_number(&body, 1)); /* legacy_compression_methods */
	if (body.short_read)
		return refuse(why, "a malformed TLS hello");
	if (!body.left)
		return HELLO_UNNAMED;
	exts = take_view(&body, take_number(&body, 2));
	if (body.short_read || body.left)
		return refuse(why, "a malformed TLS hello");
	return parse_extensions(exts, name, why);
}

enum hello_result hello_parse(const unsigned char *data, size_t len, char name[256],
			      const char **why)
{
	unsigned char message[HELLO_MAX];
	size_t got = 0;
	struct view all = {data, len, false};

	if (len > HELLO_MAX)
		return refuse(why, "a TLS hello that is too long");
	while (all.left >= 5) {
		unsigned type = take_number(&all, 1), version = take_number(&all, 2);
		unsigned size = take_number(&all, 2);

		if (type != RECORD_HANDSHAKE || version >> 8 != 3)
			return refuse(why, "bytes that are not TLS");
		if (size == 0 || size > RECORD_BODY_MAX)
			return refuse(why, "a malformed TLS record");
		if (size > all.left)
			size = (unsigned)all.left; /* the record is not all there yet */
		memcpy(message + got, all.at, size);
		take_view(&all, size);
		got += size;
		if (got > 0 && message[0] != CLIENT_HELLO)
			return refuse(
			    why, "a TLS handshake that does not begin with a client's hello");
		if (got >= 4) {
			size_t want = 4 + ((size_t)message[1] << 16 | (size_t)message[2] << 8 |
					   message[3]);
			struct view body = {message + 4, want - 4, false};

			if (want > HELLO_MAX)
				return refuse(why, "a TLS hello that is too long");
			if (got >= want)
				return parse_client_hello(body, name, why);
		}
	}
	if (all.left && all.at[0] != RECORD_HANDSHAKE)
		return refuse(why, "bytes that are not TLS");
	return len == HELLO_MAX ? refuse(why, "a TLS hello that is too long") : HELLO_MORE;
}
