#include "resolve.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/addr.h"
#include "pipeline/base/text.h"

static void refuse(struct resolved *out, bool denied, const char *reason, const char *detail)
{
	char text[160];

	text_escape(text, sizeof(text), detail, strlen(detail));
	snprintf(out->why, sizeof(out->why), "%s%s", reason, text);
	out->denied = denied;
	out->count = 0;
}

static void add(struct resolved *out, const struct addrinfo *info)
{
	if (out->count == RESOLVE_MAX || info->ai_addrlen > sizeof(out->addresses[0]))
		return;
	memcpy(&out->addresses[out->count], info->ai_addr, info->ai_addrlen);
	out->lengths[out->count++] = info->ai_addrlen;
}

static bool permitted(const struct sockaddr *address, enum resolve_reach reach)
{
	enum addr_class class = addr_classify(address);

	if (reach == RESOLVE_SITE &&
	    (class == ADDR_PRIVATE || class == ADDR_SHARED || class == ADDR_RESERVED))
		return true;
	return addr_permitted(address, reach == RESOLVE_ANY);
}

void resolve_host(const struct authority *at, enum resolve_reach reach, struct resolved *out)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC,
				 .ai_socktype = SOCK_STREAM,
				 .ai_flags =
				     AI_NUMERICSERV | (at->literal ? AI_NUMERICHOST : 0)};
	struct addrinfo *list = NULL;
	char port[8], text[64], why[96];
	int status;

	memset(out, 0, sizeof(*out));
	snprintf(port, sizeof(port), "%u", at->port);
	status = getaddrinfo(at->host, port, &hints, &list);
	if (status != 0) {
		refuse(out, false, "the name cannot be looked up: ", gai_strerror(status));
		return;
	}
	for (const struct addrinfo *info = list; info; info = info->ai_next) {
		if (!permitted(info->ai_addr, reach)) {
			addr_format(text, sizeof(text), info->ai_addr);
			snprintf(why, sizeof(why), RESOLVE_LEADS "%s, ",
				 addr_class_text(addr_classify(info->ai_addr)));
			refuse(out, true, why, text);
			break;
		}
		add(out, info);
	}
	freeaddrinfo(list);
	if (!out->count && !out->why[0])
		refuse(out, false, "the name has no address", "");
}
