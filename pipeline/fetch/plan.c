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
#include "pipeline/config.h"
#include "pipeline/fetch/npm_config.h"
#include "pipeline/fetch/plan_internal.h"
#include "sandbox/jail_find.h"

/* Raised when a recipe changes what it puts into a layer: older layers are then not found any
 * more. */
#define NPM_RECIPE "npm 1"
#define GENERAL_RECIPE "general 1"

#define SEAL_S 300 /* for checking and sealing a layer, after both jails */
#define HOSTS_MAX 200
#define LOG_BYTES (1 << 20)
#define LAYER_FILES 2000000

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

/* ---- detection ---- */

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

/* ---- the text that the key is made of ---- */

/* One fact. The length in front makes two texts equal only if all their facts are. */
void draft_note(struct draft *draft, const char *name, const char *value)
{
	strbuf_addf(&draft->text, "%s %zu:%s\n", name, strlen(value), value);
}

void draft_note_words(struct draft *draft, const char *name, char *const *words)
{
	for (; words && *words; words++)
		draft_note(draft, name, *words);
}

void draft_note_items(struct draft *draft, const char *name, const char *key)
{
	const char *item;

	for (size_t i = 0; (item = config_item(draft->request->config, key, i)); i++)
		draft_note(draft, name, item);
}

const char *draft_from_env(const struct draft *draft, const char *name)
{
	size_t len = strlen(name);

	for (char *const *entry = draft->request->env; entry && *entry; entry++)
		if (strncmp(*entry, name, len) == 0 && (*entry)[len] == '=' &&
		    (*entry)[len + 1])
			return *entry + len + 1;
	return NULL;
}

/*
 * The program that a command begins with must be one that the jail has: what is outside of the
 * jail's PATH would be told only after everything was started. Its path, size and time become
 * part of the key. A path of the work tree is the warm's own matter.
 */
int draft_note_tool(struct draft *draft, const char *program, struct error *err)
{
	const char *path = "", *home = draft_from_env(draft, "HOME");
	char resolved[PATH_MAX];
	AUTO_FREE char *file = NULL, *identity = NULL, *line = NULL, *found = NULL;
	struct stat st;

	for (char **env = draft->plan->warm.env; env && *env; env++)
		if (strncmp(*env, "PATH=", 5) == 0)
			path = *env + 5;
	file =
	    strchr(program, '/') ? mem_strdup(program) : npm_find_program(path, program, NULL);
	if (!file) {
		error_set(err, ERROR_USAGE, "the jail of the warm has no %s", program);
		found = jail_find_command(home, draft_from_env(draft, "PATH"), program, &line);
		if (found)
			return error_next(
			    err, "admit its toolchain in the operator configuration: %s", line);
		return error_next(
		    err,
		    "install it below /usr, or admit its toolchain with `[jail] path = DIR`");
	}
	if (file[0] != '/' || !realpath(file, resolved) || stat(resolved, &st) < 0) {
		draft_note(draft, "tool", program);
		return 0;
	}
	identity = mem_printf("%s %lld %lld.%09ld", resolved, (long long)st.st_size,
			      (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
	draft_note(draft, "tool", identity);
	return 0;
}

/* ---- the operator's environment ---- */

static const char *first_from_env(const struct draft *draft, const char *const *names)
{
	const char *value = NULL;

	for (; *names && !value; names++)
		value = draft_from_env(draft, *names);
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
		if (len && len <= host_len &&
		    strncasecmp(host + host_len - len, name, len) == 0 &&
		    (len == host_len || host[host_len - len - 1] == '.'))
			return true;
	}
	return false;
}

int draft_surroundings(struct draft *draft, struct error *err)
{
	static const char *const cas[] = {"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS",
					  "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", NULL};
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
		return error_next(
		    err, "mend SSL_CERT_FILE, NODE_EXTRA_CA_CERTS or npm's cafile setting");
	}
	return 0;
}

/* ---- hosts ---- */

static int parse_listed(const char *key, const char *item, struct authority *at,
			struct error *err)
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
	for (size_t i = 0; (item = config_item(draft->request->config, "fetch.private", i));
	     i++) {
		if (parse_listed("fetch.private", item, &other, err))
			return err->kind;
		*listed = *listed || authority_equal(at, &other);
	}
	return 0;
}

/* site_ok: it comes from the operator's tool configuration (pipeline/fetch/policy.h). */
int draft_add_host(struct draft *draft, const struct authority *at, bool site_ok,
		   struct error *err)
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
	draft_note(draft, "host", text);
	return 0;
}

int draft_configured_hosts(struct draft *draft, struct error *err)
{
	struct authority at;
	const char *item;

	for (size_t i = 0; (item = config_item(draft->request->config, "fetch.host", i)); i++)
		if (parse_listed("fetch.host", item, &at, err) ||
		    draft_add_host(draft, &at, false, err))
			return err->kind;
	return 0;
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
	url = strstr(draft->proxy, "://") ? mem_strdup(draft->proxy)
					  : mem_printf("http://%s", draft->proxy);
	/* the URL is not shown: a password may stand in it */
	if (authority_of_url(url, &at, &tls, &why) < 0)
		return error_set(err, ERROR_USAGE,
				 "the operator's https proxy cannot be used: %s", why);
	if (tls)
		return error_set(
		    err, ERROR_USAGE,
		    "the operator's https proxy cannot be used: it speaks TLS itself");
	proxy = js_object_new();
	js_set_str(proxy, "host", at.host);
	js_set_int(proxy, "port", at.port);
	js_set(job, "proxy", proxy);
	return 0;
}

/* ---- the whole ---- */

static struct json *egress_limits(const struct fetch_plan *plan, const struct config *config)
{
	struct json *limits = js_object_new();

	js_set_int(limits, "wall_ms", (long long)plan->wall_s * 1000);
	js_set_int(limits, "down_bytes", config_number(config, "fetch.disk"));
	return limits;
}

int draft_egress_job(struct draft *draft, struct error *err)
{
	struct fetch_plan *plan = draft->plan;

	js_set(plan->egress_job, "allow", MEM_STEAL(draft->allow));
	js_set(plan->egress_job, "limits", egress_limits(plan, draft->request->config));
	return add_upstream(draft, plan->egress_job, err);
}

static char *inputs_come_from(const struct json *base)
{
	const char *tree = js_str(base, "tree", ""), *commit = js_str(base, "commit", "");
	const char *trusted = js_str(base, "config_commit", "");

	return strcmp(commit, trusted) == 0 ? mem_strdup(tree)
					    : mem_printf("%s %s", tree, trusted);
}

static int finish_jobs(struct draft *draft, enum fetch_recipe recipe, struct error *err)
{
	const struct fetch_request *request = draft->request;
	struct fetch_plan *plan = draft->plan;
	struct json *limits = js_object_new();

	plan->text = strbuf_steal(&draft->text);
	js_set_str(plan->job, "recipe", fetch_recipe_text(recipe));
	js_set_str(plan->job, "base_tree", js_str(request->base, "tree", ""));
	plan->from = inputs_come_from(request->base);
	js_set_str(plan->job, "config_commit", js_str(request->base, "config_commit", ""));
	js_set_str(plan->job, "from", plan->from);
	js_set_str(plan->job, "plan", plan->text);
	js_set_str(plan->job, "run", request->run_id);
	js_set_bool(plan->job, "verify", plan->has_verify);
	js_set(plan->job, "hosts", MEM_STEAL(draft->hosts));
	js_set_int(limits, "log_bytes", LOG_BYTES);
	js_set_int(limits, "files", LAYER_FILES);
	js_set_int(limits, "bytes", config_number(request->config, "fetch.disk"));
	js_set(plan->job, "limits", limits);
	return draft_egress_job(draft, err);
}

static int make(struct draft *draft, enum fetch_recipe recipe, struct error *err)
{
	const struct fetch_request *request = draft->request;
	struct utsname machine;

	uname(&machine);
	draft_note(draft, "recipe", recipe == FETCH_NPM ? NPM_RECIPE : GENERAL_RECIPE);
	draft_note(draft, "machine", machine.machine);
	draft_note(draft, "trust", request->trust);
	if (recipe == FETCH_NPM ? draft_npm(draft, err) : draft_general(draft, err))
		return err->kind;
	if (draft_configured_hosts(draft, err))
		return err->kind;
	return finish_jobs(draft, recipe, err);
}

void fetch_draft_release(struct draft *draft)
{
	js_free(draft->allow);
	js_free(draft->hosts);
	strbuf_release(&draft->text);
	free(draft->tmp);
	free(draft->ca);
	free(draft->proxy);
	free(draft->noproxy);
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
	fetch_draft_release(&draft);
	if (kind)
		fetch_plan_release(plan);
	return kind;
}

void fetch_plan_release(struct fetch_plan *plan)
{
	free(plan->text);
	free(plan->from);
	free(plan->token_key);
	jail_spec_release(&plan->warm);
	jail_spec_release(&plan->verify);
	js_free(plan->job);
	js_free(plan->egress_job);
	memset(plan, 0, sizeof(*plan));
}
