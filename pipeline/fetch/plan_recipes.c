/* The recipes: what npm and a command of the configuration's own need in a plan. */
#include "plan_internal.h"

#include <stdlib.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/text.h"
#include "pipeline/config.h"
#include "pipeline/fetch/inside.h"
#include "pipeline/fetch/npm_config.h"

/* ---- npm ---- */

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
	return draft_add_host(draft, &at, true, err);
}

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
		draft_env(spec, "npm_config_replace_registry_host", npm->replace_host);
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
	draft_note(draft, "registry", npm->registry);
	for (size_t i = 0; i < npm->scope_count; i++) {
		if (add_registry(draft, npm, npm->scopes[i].url, err))
			return err->kind;
		draft_note(draft, "registry", npm->scopes[i].url);
		draft_note(draft, "scope", npm->scopes[i].name);
	}
	return 0;
}

/* What npm's own configuration says of the way there. */
static void note_surroundings(struct draft *draft, const struct npm_config *npm)
{
	if (npm->cafile)
		draft->ca = mem_strdup(npm->cafile);
	if (npm->proxy)
		draft->proxy = mem_strdup(npm->proxy);
	if (npm->noproxy)
		draft->noproxy = mem_strdup(npm->noproxy);
}

static int make_npm_with(struct draft *draft, const struct npm_config *npm, struct error *err)
{
	static const char *const warm[] = {"npm",	 "ci",	      "--ignore-scripts",
					   "--no-audit", "--no-fund", NULL};
	static const char *const verify[] = {
	    "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--offline", NULL};
	struct fetch_plan *plan = draft->plan;
	AUTO_FREE char *replaced = replaced_host(npm);

	note_surroundings(draft, npm);
	if (draft_surroundings(draft, err) || draft_jails(draft, err) ||
	    draft_note_tool(draft, "npm", err) || draft_note_tool(draft, "node", err))
		return err->kind;
	draft_note(draft, "npm", npm->identity);
	if (note_registries(draft, npm, err))
		return err->kind;
	add_words(&plan->warm, warm);
	add_words(&plan->verify, verify);
	draft_env_pairs(&plan->warm, env_npm, ARRAY_LEN(env_npm));
	draft_env_pairs(&plan->verify, env_npm, ARRAY_LEN(env_npm));
	fetch_test_env(FETCH_NPM, &plan->verify);
	add_registry_options(&plan->warm, npm);
	add_registry_options(&plan->verify, npm);
	plan->has_verify = true;
	if (replaced)
		js_set_str(plan->job, "replaced_host", replaced);
	return 0;
}

static int load_npm(const struct draft *draft, struct npm_config *npm, struct error *err)
{
	const struct fetch_request *request = draft->request;
	AUTO_FREE char *probe = mem_printf("%s/store/probe", request->state);
	const struct npm_source source = {request->env, request->work_tree, probe};

	return npm_config_load(&source, npm, err);
}

int draft_npm(struct draft *draft, struct error *err)
{
	struct npm_config npm = {.npm = NULL};
	int kind = load_npm(draft, &npm, err);

	if (!kind)
		kind = make_npm_with(draft, &npm, err);
	npm_config_release(&npm);
	return kind;
}

int draft_npm_env(struct draft *draft, struct jail_spec *spec, struct error *err)
{
	struct npm_config npm = {.npm = NULL};
	int kind = load_npm(draft, &npm, err);

	if (!kind) {
		note_surroundings(draft, &npm);
		kind = note_registries(draft, &npm, err);
	}
	if (!kind) {
		draft_env_pairs(spec, env_npm, ARRAY_LEN(env_npm));
		draft_env(spec, "npm_config_registry", npm.registry);
		if (npm.replace_host)
			draft_env(spec, "npm_config_replace_registry_host", npm.replace_host);
	}
	for (size_t i = 0; !kind && i < npm.scope_count; i++) {
		AUTO_FREE char *name = mem_printf("npm_config_%s:registry", npm.scopes[i].name);

		draft_env(spec, name, npm.scopes[i].url);
	}
	npm_config_release(&npm);
	return kind;
}

/* ---- general ---- */

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
			return error_set(err, ERROR_USAGE,
					 "%s: \"%s\" does not stay inside the work tree%s", key,
					 item, home_ok ? " or ~/" : "");
		js_push_str(list, item);
	}
	if (i)
		return 0;
	error_set(err, ERROR_USAGE, "fetch.warm is set, but %s is not", key);
	return error_next(
	    err, home_ok ? "say what the command makes: `[fetch] output = vendor` or `~/…`"
			 : "say which files it needs: `[fetch] inputs = go.mod`");
}

void draft_general_env(struct draft *draft, struct jail_spec *spec)
{
	const char *item;

	for (size_t i = 0; (item = config_item(draft->request->config, "fetch.env", i)); i++) {
		size_t len = strcspn(item, "=");
		AUTO_FREE char *name = mem_strndup(item, len);

		draft_env(spec, name, item + len + 1);
	}
}

static int add_command(struct draft *draft, const char *key, struct jail_spec *spec,
		       struct error *err)
{
	const char *line = config_get(draft->request->config, key);
	char **words = line ? text_split_words(line) : NULL;
	int kind;

	if (!words)
		return error_set(err, ERROR_USAGE,
				 "%s: no command, or a quote that is not closed", key);
	add_words(spec, (const char *const *)words);
	for (char **word = words; *word; word++)
		js_push_str(js_get(draft->plan->job, "words"), *word);
	kind = draft_note_tool(draft, words[0], err);
	draft_note_words(draft, key, words);
	text_free_words(words);
	return kind ? error_wrap(err, "%s", key) : 0;
}

int draft_general(struct draft *draft, struct error *err)
{
	struct fetch_plan *plan = draft->plan;
	const char *verify = config_get(draft->request->config, "fetch.verify");

	if (draft_surroundings(draft, err) || draft_jails(draft, err))
		return err->kind;
	fetch_test_env(FETCH_GENERAL, &plan->verify);
	js_set(plan->job, "words", js_array_new());
	draft_general_env(draft, &plan->warm);
	draft_general_env(draft, &plan->verify);
	if (add_command(draft, "fetch.warm", &plan->warm, err) ||
	    add_paths(draft, "fetch.inputs", "inputs", false, err) ||
	    add_paths(draft, "fetch.output", "outputs", true, err))
		return err->kind;
	plan->has_verify = verify && *verify;
	if (plan->has_verify && add_command(draft, "fetch.verify", &plan->verify, err))
		return err->kind;
	draft_note_items(draft, "input", "fetch.inputs");
	draft_note_items(draft, "output", "fetch.output");
	draft_note_items(draft, "env", "fetch.env");
	draft_note_items(draft, "path", "jail.path");
	return 0;
}
