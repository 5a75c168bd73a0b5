/* Fuzz target: remote URLs. What is taken must come out of its JSON again as it went in, and
 * hold nothing that git, ssh or a terminal could take for something else. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/publish/remote.h"

static void check_text(const char *text)
{
	for (const unsigned char *c = (const unsigned char *)text; *c; c++)
		if (*c < ' ' || *c == 0x7f)
			abort();
}

static void check(const struct remote *remote)
{
	struct remote again;
	struct error err = {0};
	struct json *object AUTO_JSON = remote_to_json(remote);

	check_text(remote->url);
	check_text(remote->path);
	if (remote->user && (!remote->user[0] || remote->user[0] == '-'))
		abort();
	if (remote->kind == REMOTE_LOCAL) {
		if (remote->path[0] != '/' || remote->host || remote->port)
			abort();
	} else {
		char *authority AUTO_FREE = remote_authority(remote);

		if (!remote->host[0] || strchr("-.", remote->host[0]) || remote->port < 1 ||
		    remote->port > 65535 || remote->path[0] == '-' || remote->url[0] == '-')
			abort();
		if (strspn(remote->host, "abcdefghijklmnopqrstuvwxyz0123456789.-_:") !=
		    strlen(remote->host))
			abort();
		check_text(authority);
	}
	if (remote->kind == REMOTE_HTTPS &&
	    (strncmp(remote->url, "https://", 8) != 0 || *remote_url_path(remote) != '/' ||
	     memchr(remote->url, '@', (size_t)(remote_url_path(remote) - remote->url))))
		abort();
	if (remote_from_json(object, &again, &err) || strcmp(again.url, remote->url) != 0 ||
	    strcmp(again.path, remote->path) != 0)
		abort();
	remote_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text AUTO_FREE = mem_strndup((const char *)data, size);
	struct remote remote;
	struct error err = {0};

	if (remote_parse(text, "/base", &remote, &err) == 0)
		check(&remote);
	else if (!err.message[0] || !err.next[0])
		abort();
	remote_release(&remote);
	return 0;
}
