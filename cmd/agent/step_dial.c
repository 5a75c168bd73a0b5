/* The way to a server: agent-dial, and the operator's proxy where there is one. Neither the repository's
 * configuration nor git's has a say (law L9). */
#include "agent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/fds.h"
#include "pipeline/proxy.h"
#include "pipeline/secret.h"

extern char **environ;

/* The variable that is set and not empty, small letters first, as git and curl look. */
static const char *variable(const char *small, const char *large, const char **name)
{
	const char *value = getenv(small);

	*name = small;
	if (!value || !*value) {
		value = getenv(large);
		*name = large;
	}
	return value && *value ? value : NULL;
}

static bool is_exempt(const struct config *config, const char *host, int port)
{
	struct strbuf list AUTO_STRBUF = STRBUF_NONE;
	const char *item, *name, *value;

	strbuf_init(&list, STRBUF_MAX);
	for (size_t i = 0; (item = config_item(config, "http.noProxy", i)); i++)
		strbuf_addf(&list, "%s,", item);
	if (list.len)
		return proxy_exempts(list.data, host, port);
	value = variable("no_proxy", "NO_PROXY", &name);
	return value && proxy_exempts(value, host, port);
}

/* The credential of the proxy as a descriptor; -1 when it has none. */
static int open_credential(const struct config *config, const char *variable_name, int *fd,
			   struct error *err)
{
	const char *source = config_get(config, "http.proxyCredential");
	char *kept AUTO_FREE = NULL;

	*fd = -1;
	if (!source && variable_name && secret_has_env(variable_name))
		source = kept = mem_printf("env:%s", variable_name);
	if (!source)
		return 0;
	if (strncmp(source, "env:", 4) == 0)
		secret_adopt_env(environ, source + 4);
	*fd = secret_open(source, err);
	return *fd < 0 ? error_wrap(err, "http.proxyCredential") : 0;
}

/* Sets "proxy" of the job and opens its credential. 0 or an error kind. */
static int choose_proxy(const struct config *config, const char *host, int port,
			struct json *job, int *secret, struct error *err)
{
	const char *configured = config_get(config, "http.proxy"), *name = NULL;
	const char *text =
	    configured ? configured : variable("https_proxy", "HTTPS_PROXY", &name);
	struct json *proxy;
	struct proxy parsed;

	if (!text || strcmp(text, "none") == 0 || is_exempt(config, host, port))
		return 0;
	if (proxy_parse(text, &parsed, err))
		return error_wrap(err, "%s",
				  configured ? config_origin(config, "http.proxy") : name);
	if (open_credential(config, configured ? NULL : name, secret, err))
		return err->kind;
	proxy = js_object_new();
	js_set_str(proxy, "host", parsed.host);
	js_set_int(proxy, "port", parsed.port);
	js_set(job, "proxy", proxy);
	return 0;
}

int step_dial(struct supervisor *sup, const struct config *config, struct supervised *dial,
	      const char *host, int port, bool tls, bool private_ok, int *net_fd,
	      struct error *err)
{
	struct json *job AUTO_JSON = js_object_new();
	int pair[2], result, secret AUTO_FD = -1;
	struct spawn_fd fds[2];
	size_t count = 0;

	if (tls && choose_proxy(config, host, port, job, &secret, err))
		return err->kind;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_errno(err, ERROR_FAILED, errno, "socketpair");
	js_set(job, "paths", js_object_new());
	js_set_str(job, "host", host);
	js_set_int(job, "port", port);
	js_set_bool(job, "private_ok", private_ok);
	js_set_int(job, "connect_ms", 20000);
	fds[count++] = (struct spawn_fd){FD_NET, pair[1]};
	if (secret >= 0)
		fds[count++] = (struct spawn_fd){FD_SECRET, secret};
	result = supervise_start(sup, dial, STAGE_DIAL, job, fds, count, 0, NULL, NULL, err);
	dial->shown = false;
	close(pair[1]);
	*net_fd = pair[0];
	return result;
}
