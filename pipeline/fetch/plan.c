#include "plan.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"
#include "pipeline/config.h"
#include "pipeline/fetch/authority.h"
#include "pipeline/fetch/inside.h"
#include "pipeline/fetch/npm_config.h"
#include "sandbox/jail_manifest.h"

/* Raised when a recipe changes what it puts into a layer: older layers are then not found any more. */
#define NPM_RECIPE "npm 1"
#define GENERAL_RECIPE "general 1"

#define CA_INSIDE "/etc/agent/ca.crt"
#define SEAL_S 300      /* for checking and sealing a layer, after both jails */
#define HOSTS_MAX 200
#define LOG_BYTES (1 << 20)
#define LAYER_FILES 2000000

/* What is gathered while a plan is made. */
struct draft {
	const struct fetch_request *request;
	struct fetch_plan *plan;
	struct json *allow; /* owned: the egress job's list */
	struct json *hosts; /* owned: the same as "host:port", for the lint and for messages */
	struct strbuf text;
	char *tmp;    /* owned: absolute store/deps/.tmp-<id> */
	char *ca;     /* owned: CA bundle outside, or NULL */
	char *proxy;   /* owned: upstream proxy's URL, or NULL */
	char *noproxy; /* owned, or NULL */
};

const char *fetch_recipe_text(enum fetch_recipe recipe)
{
	switch (recipe) {
	case FETCH_NONE:
		return "none";
	case FETCH_NPM:
		return "npm";
	case FETCH_GENERAL:
		return "general";
	}
	return "?";
}

/* ---- detection ---------------------------------------------------------------------------------- */

static bool base_has(const struct json *base, const char *name)
{
	const struct json *files = js_get(base, "files");

	for (size_t i = 0; i < js_len(files); i++)
		if (strcmp(js_str(js_at(files, i), "path", ""), name) == 0)
			return true;
	return false;
}

enum fetch_recipe fetch_detect(const struct config *config, const struct json *base)
{
	const char *warm = config_get(config, "fetch.warm");

	if (strcmp(config_get(config, "fetch.recipe"), "none") == 0)
		return FETCH_NONE;
	if (warm && *warm)
		return FETCH_GENERAL;
	if (base_has(base, "package-lock.json") || base_has(base, "npm-shrinkwrap.json"))
		return FETCH_NPM;
	return FETCH_NONE;
}

/* ---- the text that the key is made of -------------------------------------------------------------- */

/* One fact. The length in front makes two texts equal only if all their facts are. */
static void note(struct draft *draft, const char *name, const char *value)
{
	strbuf_addf(&draft->text, "%s %zu:%s\n", name, strlen(value), value);
}

static void note_words(struct draft *draft, const char *name, char *const *words)
{
	for (; words && *words; words++)
		note(draft, name, *words);
}

static void note_items(struct draft *draft, const char *name, const char *key)
{
	const char *item;

	for (size_t i = 0; (item = config_item(draft->request->config, key, i)); i++)
		note(draft, name, item);
}

static const char *from_env(const struct draft *draft, const char *name)
{
	size_t len = strlen(name);

	for (char *const *entry = draft->request->env; entry && *entry; entry++)
		if (strncmp(*entry, name, len) == 0 && (*entry)[len] == '=' && (*entry)[len + 1])
			return *entry + len + 1;
	return NULL;
}

/*
 * The program that a command begins with must be one that the jail has: what is outside of the jail's
 * PATH would be told only after everything was started. Its path, size and time become part of the key.
 * A path of the work tree is the warm's own matter.
 */
static int note_tool(struct draft *draft, const char *program, struct error *err)
{
	const char *path = "", *home = from_env(draft, "HOME");
	char resolved[PATH_MAX];
	AUTO_FREE char *file = NULL, *identity = NULL, *line = NULL, *found = NULL;
	struct stat st;

	for (char **env = draft->plan->warm.env; env && *env; env++)
		if (strncmp(*env, "PATH=", 5) == 0)
			path = *env + 5;
	file = strchr(program, '/') ? mem_strdup(program) : npm_find_program(path, program, NULL);
	if (!file) {
		error_set(err, ERROR_USAGE, "the jail of the warm has no %s", program);
		found = jail_manifest_find_command(home, program, &line);
		if (found)
			return error_next(err, "admit its toolchain in the operator configuration: %s", line);
		return error_next(err, "install it below /usr, or admit its toolchain with `[jail] path = DIR`");
	}
	if (file[0] != '/' || !realpath(file, resolved) || stat(resolved, &st) < 0) {
		note(draft, "tool", program);
		return 0;
	}
	identity = mem_printf("%s %lld %lld.%09ld", resolved, (long long)st.st_size,
			      (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
	note(draft, "tool", identity);
	return 0;
}

/* ---- the operator's environment ---------------------------------------------------------------------- */

static const char *first_from_env(const struct draft *draft, const char *const *names)
{
	const char *value = NULL;

	for (; *names && !value; names++)
		value = from_env(draft, *names);
	return value;
}

/* Whether NO_PROXY covers a host: "*", the name itself, or a parent domain. */
static bool no_proxy_covers(const char *list, const char *host)
{
	size_t host_len = strlen(host);

	for (const char *item = list; item && *item;) {
		size_t len = strcspn(item, ", ");
		const char *name = item;

		item += len + (item[len] != 0);
		if (len == 1 && name[0] == '*')
			return true;
		if (len && name[0] == '.')
			name++, len--;
		if (len && len <= host_len && strncasecmp(host + host_len - len, name, len) == 0 &&
		    (len == host_len || host[host_len - len - 1] == '.'))
			return true;
	}
	return false;
}

static int take_surroundings(struct draft *draft, struct error *err)
{
	static const char *const cas[] = {"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE",
					  "CURL_CA_BUNDLE", NULL};
	static const char *const proxies[] = {"https_proxy", "HTTPS_PROXY", NULL};
	static const char *const exceptions[] = {"no_proxy", "NO_PROXY", NULL};
	const char *ca = first_from_env(draft, cas), *proxy = first_from_env(draft, proxies);
	const char *noproxy = first_from_env(draft, exceptions);

	if (!draft->ca && ca)
		draft->ca = mem_strdup(ca);
	if (!draft->proxy && proxy)
		draft->proxy = mem_strdup(proxy);
	if (!draft->noproxy && noproxy)
		draft->noproxy = mem_strdup(noproxy);
	if (draft->ca && (draft->ca[0] != '/' || access(draft->ca, R_OK) != 0)) {
		error_set(err, ERROR_USAGE, "the CA bundle %s cannot be read", draft->ca);
		return error_next(err, "mend SSL_CERT_FILE, NODE_EXTRA_CA_CERTS or npm's cafile setting");
	}
	return 0;
}

/* ---- hosts --------------------------------------------------------------------------------------- */

static int parse_listed(const char *key, const char *item, struct authority *at, struct error *err)
{
	const char *why;

	if (authority_parse(item, strlen(item), at, &why) == 0)
		return 0;
	error_set(err, ERROR_USAGE, "%s: \"%s\" is not HOST:PORT: %s", key, item, why);
	return error_next(err, "write it as `%s = HOST:443`", key);
}

static int is_private(const struct draft *draft, const struct authority *at, bool *listed,
		      struct error *err)
{
	const char *item;
	struct authority other;

	*listed = false;
	for (size_t i = 0; (item = config_item(draft->request->config, "fetch.private", i)); i++) {
		if (parse_listed("fetch.private", item, &other, err))
			return err->kind;
		*listed = *listed || authority_equal(at, &other);
	}
	return 0;
}

/* site_ok: it comes from the operator's tool configuration (pipeline/fetch/policy.h). */
static int add_host(struct draft *draft, const struct authority *at, bool site_ok, struct error *err)
{
	struct json *rule;
	char text[280];
	bool private_ok;

	authority_format(at, text, sizeof(text));
	for (size_t i = 0; i < js_len(draft->hosts); i++)
		if (strcmp(js_text(js_at(draft->hosts, i)), text) == 0)
			return 0;
	if (js_len(draft->hosts) >= HOSTS_MAX)
		return error_set(err, ERROR_USAGE, "fetch.host: more than %d hosts", HOSTS_MAX);
	if (is_private(draft, at, &private_ok, err))
		return err->kind;
	rule = js_object_new();
	js_set_str(rule, "host", at->host);
	js_set_int(rule, "port", at->port);
	js_set_bool(rule, "site_ok", site_ok);
	js_set_bool(rule, "private_ok", private_ok);
	js_set_bool(rule, "direct", no_proxy_covers(draft->noproxy, at->host));
	js_push(draft->allow, rule);
	js_push_str(draft->hosts, text);
	note(draft, "host", text);
	return 0;
}

static int add_configured_hosts(struct draft *draft, struct error *err)
{
	struct authority at;
	const char *item;

	for (size_t i = 0; (item = config_item(draft->request->config, "fetch.host", i)); i++)
		if (parse_listed("fetch.host", item, &at, err) || add_host(draft, &at, false, err))
			return err->kind;
	return 0;
}

static int add_registry(struct draft *draft, const struct npm_config *npm, const char *url,
			struct error *err)
{
	struct authority at;
	const char *why, *key = npm_config_token_key(npm, url);
	bool tls;

	if (authority_of_url(url, &at, &tls, &why) < 0)
		return error_set(err, ERROR_USAGE, "npm's registry %s: %s", url, why);
	if (!tls) {
		error_set(err, ERROR_USAGE, "npm's registry %s is plain http", url);
		return error_next(err, "dependencies are fetched over https only");
	}
	if (key && !draft->plan->token_key)
		draft->plan->token_key = mem_strdup(key);
	return add_host(draft, &at, true, err);
}

static int add_upstream(struct draft *draft, struct json *job, struct error *err)
{
	struct authority at;
	struct json *proxy;
	const char *why;
	bool tls;
	AUTO_FREE char *url = NULL;

	if (!draft->proxy)
		return 0;
	url = strstr(draft->proxy, "://") ? mem_strdup(draft->proxy) : mem_printf("http://%s", draft->proxy);
	/* the URL is not shown: a password may stand in it */
	if (authority_of_url(url, &at, &tls, &why) < 0)
		return error_set(err, ERROR_USAGE, "the operator's https proxy cannot be used: %s", why);
	if (tls)
		return error_set(err, ERROR_USAGE,
				 "the operator's https proxy cannot be used: it speaks TLS itself");
	proxy = js_object_new();
	js_set_str(proxy, "host", at.host);
	js_set_int(proxy, "port", at.port);
	js_set(job, "proxy", proxy);
	return 0;
}

/* ---- jails --------------------------------------------------------------------------------------- */

/* Keeps the last of two settings: execve would pass both on. */
static void put_env(struct jail_spec *spec, const char *name, const char *value)
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

static void put_pairs(struct jail_spec *spec, const char *const (*pairs)[2], size_t count)
{
	for (size_t i = 0; i < count; i++)
		put_env(spec, pairs[i][0], pairs[i][1]);
}

#define PROXY "http://127.0.0.1:3128"
_Static_assert(JAIL_PROXY_PORT == 3128, "PROXY names the port");

/* Every spelling that some client reads; nothing is exempt, for there is nothing else to reach. */
static const char *const env_proxy[][2] = {
    {"http_proxy", PROXY},  {"https_proxy", PROXY},	      {"HTTP_PROXY", PROXY},
    {"HTTPS_PROXY", PROXY}, {"npm_config_https_proxy", PROXY}, {"npm_config_proxy", PROXY},
    {"no_proxy", ""},	    {"NO_PROXY", ""},		      {"CARGO_HTTP_PROXY", PROXY},
};

/* Every spelling under which a tool takes a CA bundle. */
static const char *const env_ca[][2] = {
    {"SSL_CERT_FILE", CA_INSIDE},      {"CURL_CA_BUNDLE", CA_INSIDE},	  {"REQUESTS_CA_BUNDLE", CA_INSIDE},
    {"PIP_CERT", CA_INSIDE},	       {"NODE_EXTRA_CA_CERTS", CA_INSIDE}, {"npm_config_cafile", CA_INSIDE},
    {"CARGO_HTTP_CAINFO", CA_INSIDE},  {"GIT_SSL_CAINFO", CA_INSIDE},
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
    {"npm_config_offline", "true"},    {"npm_config_fetch_retries", "0"}, {"npm_config_audit", "false"},
    {"npm_config_fund", "false"},      {"npm_config_update_notifier", "false"},
    {"npm_config_logs_max", "0"},
};
static const char *const env_offline_general[][2] = {
    {"npm_config_offline", "true"}, {"npm_config_fetch_retries", "0"},
    {"PIP_NO_INDEX", "1"},	    {"PIP_DISABLE_PIP_VERSION_CHECK", "1"},
    {"GOPROXY", "off"},		    {"GOSUMDB", "off"},
    {"GOTOOLCHAIN", "local"},	    {"GOTELEMETRY", "off"},
    {"CARGO_NET_OFFLINE", "true"},  {"CARGO_NET_RETRY", "0"},
    {"UV_OFFLINE", "1"},	    {"RUSTUP_AUTO_INSTALL", "0"},
    {"COREPACK_ENABLE_NETWORK", "0"},
};

/* npm's settings are ours and the operator's registry; configuration files play no part. */
static const char *const env_npm[][2] = {
    /* npm refuses the same file for both */
    {"npm_config_userconfig", "/dev/null"},
    {"npm_config_globalconfig", "/nonexistent/npmrc"},
    {"npm_config_cache", JAIL_HOME "/.npm"},
    {"npm_config_ignore_scripts", "true"},
    {"npm_config_git", "/nonexistent/git"},
    {"npm_config_allow_git", "none"},
    {"npm_config_audit", "false"},
    {"npm_config_fund", "false"},
    {"npm_config_update_notifier", "false"},
    {"npm_config_progress", "false"},
    {"npm_config_logs_max", "0"},
    {"npm_config_fetch_retry_mintimeout", "1000"},
    {"npm_config_fetch_retry_maxtimeout", "5000"},
};

void fetch_test_env(enum fetch_recipe recipe, struct jail_spec *test)
{
	if (recipe == FETCH_NPM)
		put_pairs(test, env_offline_npm, ARRAY_LEN(env_offline_npm));
	else if (recipe == FETCH_GENERAL)
		put_pairs(test, env_offline_general, ARRAY_LEN(env_offline_general));
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
	set_limits(draft, spec);
	spec->cwd = mem_strdup(JAIL_WORK);
	spec->store = mem_strdup(store);
	put_pairs(spec, env_quiet, ARRAY_LEN(env_quiet));
	return 0;
}

static int make_jails(struct draft *draft, struct error *err)
{
	struct jail_spec *warm = &draft->plan->warm, *verify = &draft->plan->verify;
	AUTO_FREE char *home = mem_printf("%s/home", draft->tmp);

	if (make_jail(draft, warm, err) || make_jail(draft, verify, err))
		return err->kind;
	warm->egress = true;
	warm->work_rw = true;
	warm->work_dir = mem_printf("%s/work", draft->tmp);
	jail_spec_add_mount(warm, JAIL_BIND_RW, false, home, JAIL_HOME);
	put_pairs(warm, env_proxy, ARRAY_LEN(env_proxy));
	if (draft->ca) {
		jail_spec_add_mount(warm, JAIL_BIND_RO, false, draft->ca, CA_INSIDE);
		put_pairs(warm, env_ca, ARRAY_LEN(env_ca));
	}
	return 0;
}

/* ---- recipes ------------------------------------------------------------------------------------- */

static void add_words(struct jail_spec *spec, const char *const *words)
{
	for (; *words; words++)
		jail_spec_add_arg(spec, *words);
}

/* Registry options, the same for warm and verify, so that both make the same requests. */
static void add_registry_options(struct jail_spec *spec, const struct npm_config *npm)
{
	AUTO_FREE char *registry = mem_printf("--registry=%s", npm->registry);

	jail_spec_add_arg(spec, registry);
	for (size_t i = 0; i < npm->scope_count; i++) {
		AUTO_FREE char *scope =
		    mem_printf("--%s:registry=%s", npm->scopes[i].name, npm->scopes[i].url);

		jail_spec_add_arg(spec, scope);
	}
	if (npm->replace_host)
		put_env(spec, "npm_config_replace_registry_host", npm->replace_host);
}

/* The host that npm replaces by the operator's registry: "*" for every one, NULL for none. */
static char *replaced_host(const struct npm_config *npm)
{
	const char *setting = npm->replace_host ? npm->replace_host : "";
	struct authority at;
	const char *why;
	bool tls;

	if (strcmp(setting, "always") == 0)
		return mem_strdup("*");
	if (strcmp(setting, "never") == 0 || !*setting)
		return NULL;
	if (strcmp(setting, "npmjs") != 0)
		return mem_strdup(setting);
	if (!npm->builtin || authority_of_url(npm->builtin, &at, &tls, &why) < 0)
		return NULL;
	return mem_strdup(at.host);
}

static int note_registries(struct draft *draft, const struct npm_config *npm, struct error *err)
{
	if (add_registry(draft, npm, npm->registry, err))
		return err->kind;
	note(draft, "registry", npm->registry);
	for (size_t i = 0; i < npm->scope_count; i++) {
		if (add_registry(draft, npm, npm->scopes[i].url, err))
			return err->kind;
		note(draft, "registry", npm->scopes[i].url);
		note(draft, "scope", npm->scopes[i].name);
	}
	return 0;
}

static int make_npm_with(struct draft *draft, const struct npm_config *npm, struct error *err)
{
	static const char *const warm[] = {"npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", NULL};
	static const char *const verify[] = {"npm",	   "ci",	"--ignore-scripts", "--no-audit",
					     "--no-fund", "--offline", NULL};
	struct fetch_plan *plan = draft->plan;
	AUTO_FREE char *replaced = replaced_host(npm);

	if (npm->cafile)
		draft->ca = mem_strdup(npm->cafile);
	if (npm->proxy)
		draft->proxy = mem_strdup(npm->proxy);
	if (npm->noproxy)
		draft->noproxy = mem_strdup(npm->noproxy);
	if (take_surroundings(draft, err) || make_jails(draft, err) || note_tool(draft, "npm", err) ||
	    note_tool(draft, "node", err))
		return err->kind;
	note(draft, "npm", npm->identity);
	if (note_registries(draft, npm, err))
		return err->kind;
	add_words(&plan->warm, warm);
	add_words(&plan->verify, verify);
	put_pairs(&plan->warm, env_npm, ARRAY_LEN(env_npm));
	put_pairs(&plan->verify, env_npm, ARRAY_LEN(env_npm));
	put_pairs(&plan->verify, env_offline_npm, ARRAY_LEN(env_offline_npm));
	add_registry_options(&plan->warm, npm);
	add_registry_options(&plan->verify, npm);
	plan->has_verify = true;
	if (replaced)
		js_set_str(plan->job, "replaced_host", replaced);
	return 0;
}

static int make_npm(struct draft *draft, struct error *err)
{
	const struct fetch_request *request = draft->request;
	AUTO_FREE char *probe = mem_printf("%s/store/probe", request->state);
	const struct npm_source source = {request->env, request->work_tree, probe};
	struct npm_config npm = {.npm = NULL};
	int kind = npm_config_load(&source, &npm, err);

	if (!kind)
		kind = make_npm_with(draft, &npm, err);
	npm_config_release(&npm);
	return kind;
}

/* A list of the configuration as words of the job; each must stay inside. "~/": below HOME. */
static int add_paths(struct draft *draft, const char *key, const char *member, bool home_ok,
		     struct error *err)
{
	struct json *list = js_array_new();
	const char *item;
	size_t i;

	js_set(draft->plan->job, member, list);
	for (i = 0; (item = config_item(draft->request->config, key, i)); i++) {
		const char *rest = home_ok && strncmp(item, "~/", 2) == 0 ? item + 2 : item;

		if (!inside_path(rest))
			return error_set(err, ERROR_USAGE, "%s: \"%s\" does not stay inside the work tree%s",
					 key, item, home_ok ? " or ~/" : "");
		js_push_str(list, item);
	}
	if (i)
		return 0;
	error_set(err, ERROR_USAGE, "fetch.warm is set, but %s is not", key);
	return error_next(err, home_ok ? "say what the command makes: `[fetch] output = vendor` or `~/…`"
				       : "say which files it needs: `[fetch] inputs = go.mod`");
}

static int add_general_env(struct draft *draft, struct error *err)
{
	const char *item;

	for (size_t i = 0; (item = config_item(draft->request->config, "fetch.env", i)); i++) {
		const char *equal = strchr(item, '=');
		AUTO_FREE char *name = equal ? mem_strndup(item, (size_t)(equal - item)) : NULL;

		if (!name || !*name)
			return error_set(err, ERROR_USAGE, "fetch.env: \"%s\" is not NAME=VALUE", item);
		put_env(&draft->plan->warm, name, equal + 1);
		put_env(&draft->plan->verify, name, equal + 1);
	}
	return 0;
}

static int add_command(struct draft *draft, const char *key, struct jail_spec *spec, struct error *err)
{
	const char *line = config_get(draft->request->config, key);
	char **words = line ? text_split_words(line) : NULL;
	int kind;

	if (!words)
		return error_set(err, ERROR_USAGE, "%s: no command, or a quote that is not closed", key);
	add_words(spec, (const char *const *)words);
	kind = note_tool(draft, words[0], err);
	note_words(draft, key, words);
	text_free_words(words);
	return kind ? error_wrap(err, "%s", key) : 0;
}

static int make_general(struct draft *draft, struct error *err)
{
	struct fetch_plan *plan = draft->plan;
	const char *verify = config_get(draft->request->config, "fetch.verify");

	if (take_surroundings(draft, err) || make_jails(draft, err))
		return err->kind;
	put_pairs(&plan->verify, env_offline_general, ARRAY_LEN(env_offline_general));
	if (add_general_env(draft, err) || add_command(draft, "fetch.warm", &plan->warm, err) ||
	    add_paths(draft, "fetch.inputs", "inputs", false, err) ||
	    add_paths(draft, "fetch.output", "outputs", true, err))
		return err->kind;
	plan->has_verify = verify && *verify;
	if (plan->has_verify && add_command(draft, "fetch.verify", &plan->verify, err))
		return err->kind;
	note_items(draft, "input", "fetch.inputs");
	note_items(draft, "output", "fetch.output");
	note_items(draft, "env", "fetch.env");
	note_items(draft, "path", "jail.path");
	return 0;
}

/* ---- the whole ------------------------------------------------------------------------------------ */

static struct json *egress_limits(const struct fetch_plan *plan, const struct config *config)
{
	struct json *limits = js_object_new();

	js_set_int(limits, "wall_ms", (long long)plan->wall_s * 1000);
	js_set_int(limits, "down_bytes", config_number(config, "fetch.disk"));
	return limits;
}

static int finish_jobs(struct draft *draft, enum fetch_recipe recipe, struct error *err)
{
	const struct fetch_request *request = draft->request;
	struct fetch_plan *plan = draft->plan;
	struct json *limits = js_object_new();

	plan->text = strbuf_steal(&draft->text);
	js_set_str(plan->job, "recipe", fetch_recipe_text(recipe));
	js_set_str(plan->job, "base_tree", js_str(request->base, "tree", ""));
	js_set_str(plan->job, "plan", plan->text);
	js_set_str(plan->job, "run", request->run_id);
	js_set_bool(plan->job, "verify", plan->has_verify);
	js_set(plan->job, "hosts", MEM_STEAL(draft->hosts));
	js_set_int(limits, "log_bytes", LOG_BYTES);
	js_set_int(limits, "files", LAYER_FILES);
	js_set_int(limits, "bytes", config_number(request->config, "fetch.disk"));
	js_set(plan->job, "limits", limits);
	js_set(plan->egress_job, "allow", MEM_STEAL(draft->allow));
	js_set(plan->egress_job, "limits", egress_limits(plan, request->config));
	return add_upstream(draft, plan->egress_job, err);
}

static int make(struct draft *draft, enum fetch_recipe recipe, struct error *err)
{
	const struct fetch_request *request = draft->request;
	struct utsname machine;

	uname(&machine);
	note(draft, "recipe", recipe == FETCH_NPM ? NPM_RECIPE : GENERAL_RECIPE);
	note(draft, "machine", machine.machine);
	note(draft, "trust", request->trust);
	if (recipe == FETCH_NPM ? make_npm(draft, err) : make_general(draft, err))
		return err->kind;
	if (add_configured_hosts(draft, err))
		return err->kind;
	return finish_jobs(draft, recipe, err);
}

int fetch_plan_make(enum fetch_recipe recipe, const struct fetch_request *request,
		    struct fetch_plan *plan, struct error *err)
{
	struct draft draft = {.request = request, .plan = plan};
	int kind;

	memset(plan, 0, sizeof(*plan));
	plan->recipe = recipe;
	plan->job = js_object_new();
	plan->egress_job = js_object_new();
	plan->wall_s = (unsigned)config_number(request->config, "fetch.timeout") * 2 + SEAL_S;
	draft.allow = js_array_new();
	draft.hosts = js_array_new();
	draft.tmp = mem_printf("%s/store/deps/.tmp-%s", request->state, request->run_id);
	strbuf_init(&draft.text, STRBUF_MAX);
	kind = make(&draft, recipe, err);
	js_free(draft.allow);
	js_free(draft.hosts);
	strbuf_release(&draft.text);
	free(draft.tmp);
	free(draft.ca);
	free(draft.proxy);
	free(draft.noproxy);
	if (kind)
		fetch_plan_release(plan);
	return kind;
}

void fetch_plan_release(struct fetch_plan *plan)
{
	free(plan->text);
	free(plan->token_key);
	jail_spec_release(&plan->warm);
	jail_spec_release(&plan->verify);
	js_free(plan->job);
	js_free(plan->egress_job);
	memset(plan, 0, sizeof(*plan));
}
