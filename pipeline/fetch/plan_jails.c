/* What a warm and its check hold: the jails of a plan, and the offline switches of tests. */
#include "plan_internal.h"

#include <stdlib.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/config.h"
#include "pipeline/jailconf.h"
#include "sandbox/jail_manifest.h"

#define CA_INSIDE "/etc/agent/ca.crt"

/* ---- jails ---- */

/* Keeps the last of two settings: execve would pass both on. */
void draft_env(struct jail_spec *spec, const char *name, const char *value)
{
	size_t len = strlen(name);

	for (char **env = spec->env; env && *env; env++) {
		if (strncmp(*env, name, len) != 0 || (*env)[len] != '=')
			continue;
		free(*env);
		*env = mem_printf("%s=%s", name, value);
		return;
	}
	jail_spec_add_env(spec, name, value);
}

void draft_env_pairs(struct jail_spec *spec, const char *const (*pairs)[2], size_t count)
{
	for (size_t i = 0; i < count; i++)
		draft_env(spec, pairs[i][0], pairs[i][1]);
}

#define PROXY "http://127.0.0.1:3128"
_Static_assert(JAIL_PROXY_PORT == 3128, "PROXY names the port");

/* Every spelling that some client reads; nothing is exempt, for there is nothing else to reach.
 */
static const char *const env_proxy[][2] = {
    {"http_proxy", PROXY},
    {"https_proxy", PROXY},
    {"HTTP_PROXY", PROXY},
    {"HTTPS_PROXY", PROXY},
    {"npm_config_https_proxy", PROXY},
    {"npm_config_proxy", PROXY},
    {"no_proxy", ""},
    {"NO_PROXY", ""},
    {"CARGO_HTTP_PROXY", PROXY},
};

/* Every spelling under which a tool takes a CA bundle. */
static const char *const env_ca[][2] = {
    {"SSL_CERT_FILE", CA_INSIDE},	{"CURL_CA_BUNDLE", CA_INSIDE},
    {"REQUESTS_CA_BUNDLE", CA_INSIDE},	{"PIP_CERT", CA_INSIDE},
    {"NODE_EXTRA_CA_CERTS", CA_INSIDE}, {"npm_config_cafile", CA_INSIDE},
    {"CARGO_HTTP_CAINFO", CA_INSIDE},	{"GIT_SSL_CAINFO", CA_INSIDE},
};

/* No telemetry, no questions, no self-made downloads of toolchains or git repositories. */
static const char *const env_quiet[][2] = {
    {"CI", "1"},
    {"GOTOOLCHAIN", "local"},
    {"GOTELEMETRY", "off"},
    {"GOVCS", "*:off"},
    {"PIP_DISABLE_PIP_VERSION_CHECK", "1"},
    {"PIP_NO_INPUT", "1"},
    {"PIP_RETRIES", "1"},
    {"RUSTUP_AUTO_INSTALL", "0"},
    {"GIT_TERMINAL_PROMPT", "0"},
    {"GIT_CONFIG_NOSYSTEM", "1"},
    {"COREPACK_ENABLE_NETWORK", "0"},
    {"CARGO_NET_RETRY", "2"},
};

/* Without network every retry is a wait: deps of the test fail at once and say why. */
static const char *const env_offline_npm[][2] = {
    {"npm_config_offline", "true"},	     {"npm_config_fetch_retries", "0"},
    {"npm_config_audit", "false"},	     {"npm_config_fund", "false"},
    {"npm_config_update_notifier", "false"}, {"npm_config_logs_max", "0"},
};
static const char *const env_offline_general[][2] = {
    {"npm_config_offline", "true"},
    {"npm_config_fetch_retries", "0"},
    {"PIP_NO_INDEX", "1"},
    {"PIP_DISABLE_PIP_VERSION_CHECK", "1"},
    {"GOPROXY", "off"},
    {"GOSUMDB", "off"},
    {"GOTOOLCHAIN", "local"},
    {"GOTELEMETRY", "off"},
    {"CARGO_NET_OFFLINE", "true"},
    {"CARGO_NET_RETRY", "0"},
    {"UV_OFFLINE", "1"},
    {"RUSTUP_AUTO_INSTALL", "0"},
    {"COREPACK_ENABLE_NETWORK", "0"},
};

void fetch_test_env(enum fetch_recipe recipe, struct jail_spec *test)
{
	if (recipe == FETCH_NPM)
		draft_env_pairs(test, env_offline_npm, ARRAY_LEN(env_offline_npm));
	else if (recipe == FETCH_GENERAL)
		draft_env_pairs(test, env_offline_general, ARRAY_LEN(env_offline_general));
}

static void set_limits(const struct draft *draft, struct jail_spec *spec)
{
	const struct config *config = draft->request->config;

	spec->limits = *draft->request->limits;
	spec->limits.wall_ms = (uint64_t)config_number(config, "fetch.timeout") * 1000;
	spec->limits.disk_bytes = (uint64_t)config_number(config, "fetch.disk");
	spec->limits.file_bytes = spec->limits.disk_bytes;
}

/* What both jails have: toolchains, HOME, work tree, store. */
static int make_jail(const struct draft *draft, struct jail_spec *spec, struct error *err)
{
	AUTO_FREE char *store = mem_printf("%s/store", draft->request->state);
	const char *path;

	jail_spec_init(spec);
	jail_manifest_default(spec);
	for (size_t i = 0; (path = config_item(draft->request->config, "jail.path", i)); i++)
		if (jail_manifest_add_path(spec, path, err))
			return err->kind;
	if (jailconf_backend(draft->request->config, spec, err))
		return err->kind;
	set_limits(draft, spec);
	spec->audit = true;
	spec->cwd = mem_strdup(JAIL_WORK);
	spec->store = mem_strdup(store);
	spec->subuid = strcmp(config_get(draft->request->config, "jail.uid"), "shared") != 0;
	spec->on_disk = jailconf_on_disk(draft->request->config);
	spec->observe = strcmp(config_get(draft->request->config, "jail.observe"), "on") == 0;
	draft_env_pairs(spec, env_quiet, ARRAY_LEN(env_quiet));
	return 0;
}

void draft_network(const struct draft *draft, struct jail_spec *spec)
{
	spec->egress = true;
	draft_env_pairs(spec, env_quiet, ARRAY_LEN(env_quiet));
	draft_env_pairs(spec, env_proxy, ARRAY_LEN(env_proxy));
	if (!draft->ca)
		return;
	jail_spec_add_mount(spec, JAIL_BIND_RO, false, draft->ca, CA_INSIDE);
	draft_env_pairs(spec, env_ca, ARRAY_LEN(env_ca));
}

int draft_jails(struct draft *draft, struct error *err)
{
	struct jail_spec *warm = &draft->plan->warm, *verify = &draft->plan->verify;
	AUTO_FREE char *home = mem_printf("%s/home", draft->tmp);

	if (make_jail(draft, warm, err) || make_jail(draft, verify, err))
		return err->kind;
	draft_network(draft, warm);
	warm->work_rw = true;
	warm->work_dir = mem_printf("%s/work", draft->tmp);
	jail_spec_add_mount(warm, JAIL_BIND_RW, false, home, JAIL_HOME);
	return 0;
}
