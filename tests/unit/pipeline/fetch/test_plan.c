/* Plans: what is detected, what the jails hold, what the key is made of. A script stands in for
 * npm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/config.h"
#include "pipeline/fetch/plan.h"

#define TREE "0123456789012345678901234567890123456789"

static char *top;

static void put(const char *name, const char *text, mode_t mode)
{
	AUTO_FREE char *path = mem_printf("%s/%s", top, name);
	AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, mode), 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

/* npm as configured by its own file "answer". */
static int make_top(void **state)
{
	AUTO_FREE char *bin = NULL, *probe = NULL, *script = NULL;

	(void)state;
	top = mem_strdup("/tmp/plan-XXXXXX");
	if (!mkdtemp(top))
		return -1;
	bin = mem_printf("%s/bin", top);
	probe = mem_printf("%s/store/probe", top);
	if (fd_mkdir_all(bin) < 0 || fd_mkdir_all(probe) < 0)
		return -1;
	script = mem_printf("#!/bin/sh\ncase \"$*\" in *--json*) /bin/cat %s/answer ;; "
			    "*) echo '//registry.example/:_authToken = (protected)' ;; esac\n",
			    top);
	put("bin/npm", script, 0755);
	put("bin/node", "#!/bin/sh\n", 0755);
	put("ca.pem", "x", 0644);
	return 0;
}

static int remove_top(void **state)
{
	(void)state;
	fd_remove_tree(AT_FDCWD, top);
	free(top);
	return 0;
}

static void npm_says(const char *settings)
{
	AUTO_FREE char *answer = mem_printf("{%s,\"npm-version\":\"11.0.0\"}", settings);
	AUTO_FREE char *cache = mem_printf("%s/store/probe/npm.json", top);

	put("answer", answer, 0644);
	unlink(cache);
}

static struct json *base_with(const char *name)
{
	struct json *base = js_object_new(), *files = js_array_new(), *file = js_object_new();

	js_set_str(base, "tree", TREE);
	js_set_str(file, "path", name);
	js_push(files, file);
	js_set(base, "files", files);
	return base;
}

/* Makes a plan from KEY=VALUE pairs (NULL-terminated) and NAME=VALUE environment entries. */
static int plan_with(const char *const *pairs, const char *const *env, const char *trust,
		     struct fetch_plan *plan, struct error *err)
{
	AUTO_CONFIG struct config *config = config_new();
	AUTO_JSON struct json *base = base_with("package-lock.json");
	AUTO_FREE char *path = mem_printf("PATH=%s/bin", top);
	AUTO_FREE char *toolchain = mem_printf("jail.path=%s", top);
	struct jail_limits limits = {.memory_bytes = 1 << 30, .processes = 100, .inodes = 1000};
	char *whole[8] = {path};
	struct fetch_request request = {.config = config,
					.base = base,
					.state = top,
					.run_id = "run1",
					.trust = trust,
					.env = whole,
					.limits = &limits};
	int kind;

	memset(err, 0, sizeof(*err));
	assert_int_equal(config_add_pair(config, toolchain, err), 0);
	for (; *pairs; pairs++)
		if (config_add_pair(config, *pairs, err))
			return err->kind;
	for (size_t i = 0; env && env[i]; i++)
		whole[i + 1] = mem_strdup(env[i]);
	kind = fetch_plan_make(fetch_detect(config, base), &request, plan, err);
	for (size_t i = 1; whole[i]; i++)
		free(whole[i]);
	return kind;
}

static const char *const no_pairs[] = {NULL};
#define REGISTRY "\"registry\":\"https://registry.example/npm/\""

static bool has_env(const struct jail_spec *spec, const char *entry)
{
	for (char **env = spec->env; env && *env; env++)
		if (strcmp(*env, entry) == 0)
			return true;
	return false;
}

static bool has_env_name(const struct jail_spec *spec, const char *name)
{
	for (char **env = spec->env; env && *env; env++)
		if (strncmp(*env, name, strlen(name)) == 0 && (*env)[strlen(name)] == '=')
			return true;
	return false;
}

static bool has_arg(const struct jail_spec *spec, const char *arg)
{
	for (char **word = spec->argv; word && *word; word++)
		if (strcmp(*word, arg) == 0)
			return true;
	return false;
}

static void fetch_detect_chooses_by_files_and_configuration(void **state)
{
	struct error err = {0};
	AUTO_JSON struct json *npm = base_with("package-lock.json");
	AUTO_JSON struct json *shrink = base_with("npm-shrinkwrap.json");
	AUTO_JSON struct json *none = base_with("package.json");
	AUTO_CONFIG struct config *config = config_new();

	(void)state;
	assert_int_equal(fetch_detect(config, npm), FETCH_NPM);
	assert_int_equal(fetch_detect(config, shrink), FETCH_NPM);
	assert_int_equal(fetch_detect(config, none), FETCH_NONE);
	assert_int_equal(config_add_pair(config, "fetch.warm=make deps", &err), 0);
	assert_int_equal(fetch_detect(config, npm), FETCH_GENERAL);
	assert_int_equal(fetch_detect(config, none), FETCH_GENERAL);
	assert_int_equal(config_add_pair(config, "fetch.recipe=none", &err), 0);
	assert_int_equal(fetch_detect(config, npm), FETCH_NONE);
}

static void fetch_plan_npm_uses_the_operators_registry(void **state)
{
	struct fetch_plan plan;
	struct error err;
	const struct json *rule;

	(void)state;
	npm_says(REGISTRY ",\"@corp:registry\":\"https://corp.example:8443/"
			  "\",\"replace-registry-host\":\"always\"");
	if (plan_with(no_pairs, NULL, "t", &plan, &err))
		fail_msg("%s", err.message);
	assert_true(has_arg(&plan.warm, "--registry=https://registry.example/npm/"));
	assert_true(has_arg(&plan.warm, "--@corp:registry=https://corp.example:8443/"));
	assert_true(has_arg(&plan.warm, "--ignore-scripts"));
	assert_true(has_arg(&plan.verify, "--offline"));
	assert_int_equal(js_len(js_get(plan.egress_job, "allow")), 2);
	rule = js_at(js_get(plan.egress_job, "allow"), 0);
	assert_string_equal(js_str(rule, "host", ""), "registry.example");
	assert_int_equal(js_int(rule, "port", 0), 443);
	assert_true(js_bool(rule, "site_ok", false));
	assert_false(js_bool(rule, "private_ok", true));
	assert_string_equal(js_text(js_at(js_get(plan.job, "hosts"), 1)), "corp.example:8443");
	assert_string_equal(js_str(plan.job, "replaced_host", ""), "*");
	assert_string_equal(plan.token_key, "//registry.example/:_authToken");
	fetch_plan_release(&plan);
}

static void fetch_plan_only_the_warm_reaches_the_proxy(void **state)
{
	struct fetch_plan plan;
	struct error err;

	(void)state;
	npm_says(REGISTRY);
	assert_int_equal(plan_with(no_pairs, NULL, "t", &plan, &err), 0);
	assert_true(plan.warm.egress);
	assert_true(plan.warm.work_rw);
	assert_true(has_env(&plan.warm, "https_proxy=http://127.0.0.1:3128"));
	assert_true(has_env(&plan.warm, "HTTPS_PROXY=http://127.0.0.1:3128"));
	assert_true(has_env(&plan.warm, "NO_PROXY="));
	assert_true(has_env(&plan.warm, "npm_config_userconfig=/dev/null"));
	assert_false(plan.verify.egress);
	assert_false(plan.verify.work_rw);
	assert_false(has_env_name(&plan.verify, "https_proxy"));
	assert_true(has_env(&plan.verify, "npm_config_offline=true"));
	fetch_plan_release(&plan);
}

static void fetch_plan_environment_has_each_name_once(void **state)
{
	static const char *const pairs[] = {"fetch.warm=true",
					    "fetch.inputs=a",
					    "fetch.output=b",
					    "fetch.env=CI=x",
					    "fetch.env=https_proxy=http://other/",
					    NULL};
	struct fetch_plan plan;
	struct error err;
	size_t seen = 0;

	(void)state;
	assert_int_equal(plan_with(pairs, NULL, "t", &plan, &err), 0);
	for (char **env = plan.warm.env; *env; env++)
		seen += strncmp(*env, "CI=", 3) == 0;
	assert_int_equal(seen, 1);
	assert_true(has_env(&plan.warm, "CI=x"));
	fetch_plan_release(&plan);
}

static void fetch_plan_text_changes_with_what_matters(void **state)
{
	static const char *const hosts[] = {"fetch.host=more.example:443", NULL};
	struct fetch_plan one, two, three, four, same;
	struct error err;

	(void)state;
	npm_says(REGISTRY);
	assert_int_equal(plan_with(no_pairs, NULL, "t", &one, &err), 0);
	assert_int_equal(plan_with(no_pairs, NULL, "t", &same, &err), 0);
	assert_int_equal(plan_with(hosts, NULL, "t", &two, &err), 0);
	assert_int_equal(plan_with(no_pairs, NULL, "other", &three, &err), 0);
	npm_says("\"registry\":\"https://other.example/\"");
	assert_int_equal(plan_with(no_pairs, NULL, "t", &four, &err), 0);
	assert_string_equal(one.text, same.text);
	assert_string_not_equal(one.text, two.text);
	assert_string_not_equal(one.text, three.text);
	assert_string_not_equal(one.text, four.text);
	fetch_plan_release(&one);
	fetch_plan_release(&two);
	fetch_plan_release(&three);
	fetch_plan_release(&four);
	fetch_plan_release(&same);
}

static void fetch_plan_surroundings_of_the_operator(void **state)
{
	AUTO_FREE char *ca = mem_printf("SSL_CERT_FILE=%s/ca.pem", top);
	AUTO_FREE char *gone = mem_printf("SSL_CERT_FILE=%s/none.pem", top);
	const char *const env[] = {ca, "https_proxy=http://proxy.example:8080/",
				   "no_proxy=localhost,.example", NULL};
	const char *const bad_ca[] = {gone, NULL};
	static const char *const secret[] = {
	    "HTTPS_PROXY=http://user:sekrit@proxy.example:8080/", NULL};
	struct fetch_plan plan;
	struct error err;

	(void)state;
	npm_says(REGISTRY);
	if (plan_with(no_pairs, env, "t", &plan, &err))
		fail_msg("%s", err.message);
	assert_true(has_env(&plan.warm, "NODE_EXTRA_CA_CERTS=/etc/agent/ca.crt"));
	assert_string_equal(js_str(js_get(plan.egress_job, "proxy"), "host", ""),
			    "proxy.example");
	assert_int_equal(js_int(js_get(plan.egress_job, "proxy"), "port", 0), 8080);
	assert_true(js_bool(js_at(js_get(plan.egress_job, "allow"), 0), "direct", false));
	fetch_plan_release(&plan);
	assert_int_equal(plan_with(no_pairs, bad_ca, "t", &plan, &err), ERROR_USAGE);
	assert_int_equal(plan_with(no_pairs, secret, "t", &plan, &err), ERROR_USAGE);
	assert_null(strstr(err.message, "sekrit"));
}

static void fetch_plan_bad_configuration_is_refused(void **state)
{
	static const char *const cases[][7] = {
	    {"fetch.warm=true", NULL},
	    {"fetch.warm=true", "fetch.inputs=a", NULL},
	    {"fetch.warm=true", "fetch.inputs=../a", "fetch.output=b", NULL},
	    {"fetch.warm=true", "fetch.inputs=a", "fetch.output=/b", NULL},
	    {"fetch.warm=true", "fetch.inputs=~/a", "fetch.output=../b", NULL},
	    {"fetch.warm=true", "fetch.inputs=a", "fetch.output=~/../b", NULL},
	    {"fetch.warm=true", "fetch.inputs=a", "fetch.output=.git/hooks", NULL},
	    {"fetch.warm=true", "fetch.inputs=a", "fetch.output=b", "fetch.env=x", NULL},
	    {"fetch.warm=true", "fetch.inputs=a", "fetch.output=b", "fetch.host=x.example",
	     NULL},
	    {"fetch.warm=true", "fetch.inputs=a", "fetch.output=b", "fetch.host=*.example:443",
	     NULL},
	    {"fetch.warm=true", "fetch.inputs=a", "fetch.output=b", "fetch.host=a.example:443",
	     "fetch.private=x", NULL},
	    {"fetch.warm=no-such-tool-x", "fetch.inputs=a", "fetch.output=b", NULL},
	    {"fetch.warm='true", "fetch.inputs=a", "fetch.output=b", NULL},
	    {"fetch.warm=true", "fetch.inputs=a", "fetch.output=b", "fetch.verify='x", NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct fetch_plan plan;
		struct error err;

		if (plan_with(cases[i], NULL, "t", &plan, &err) != ERROR_USAGE)
			fail_msg("case %zu was taken", i);
	}
}

static void fetch_plan_registries_without_tls_are_refused(void **state)
{
	static const char *const answers[] = {
	    "\"registry\":\"http://registry.example/\"",
	    "\"registry\":\"https://u:p@registry.example/\"",
	    "\"registry\":\"ftp://registry.example/\"", "\"registry\":\"\"",
	    REGISTRY ",\"@a:registry\":\"http://a.example/\""};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		struct fetch_plan plan;
		struct error err;

		npm_says(answers[i]);
		assert_int_equal(plan_with(no_pairs, NULL, "t", &plan, &err), ERROR_USAGE);
		assert_null(strstr(err.message, "u:p"));
	}
}

static void fetch_plan_private_is_for_the_named_host_only(void **state)
{
	static const char *const pairs[] = {"fetch.host=a.example:443",
					    "fetch.host=b.example:443",
					    "fetch.private=b.example:443", NULL};
	const struct json *allow;
	struct fetch_plan plan;
	struct error err;

	(void)state;
	npm_says(REGISTRY);
	assert_int_equal(plan_with(pairs, NULL, "t", &plan, &err), 0);
	allow = js_get(plan.egress_job, "allow");
	assert_int_equal(js_len(allow), 3);
	assert_false(js_bool(js_at(allow, 1), "private_ok", true));
	assert_false(js_bool(js_at(allow, 1), "site_ok", true));
	assert_true(js_bool(js_at(allow, 2), "private_ok", false));
	fetch_plan_release(&plan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(fetch_detect_chooses_by_files_and_configuration),
	    cmocka_unit_test(fetch_plan_npm_uses_the_operators_registry),
	    cmocka_unit_test(fetch_plan_only_the_warm_reaches_the_proxy),
	    cmocka_unit_test(fetch_plan_environment_has_each_name_once),
	    cmocka_unit_test(fetch_plan_text_changes_with_what_matters),
	    cmocka_unit_test(fetch_plan_surroundings_of_the_operator),
	    cmocka_unit_test(fetch_plan_bad_configuration_is_refused),
	    cmocka_unit_test(fetch_plan_registries_without_tls_are_refused),
	    cmocka_unit_test(fetch_plan_private_is_for_the_named_host_only),
	};

	return cmocka_run_group_tests(tests, make_top, remove_top);
}
