/* The list that git is run with: complete, nothing of the caller's, the address and the refspec
 * behind "--". */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/publish/gitcall.h"
#include "pipeline/publish/receive.h"

#define OID "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define REF "refs/heads/agent/x"

static bool lists(const char *const *list, const char *word)
{
	for (; *list; list++)
		if (strcmp(*list, word) == 0)
			return true;
	return false;
}

static void need(const char *const *list, const char *word)
{
	if (!lists(list, word))
		fail_msg("missing: %s", word);
}

static struct gitcall_target target_of(const struct remote *remote)
{
	return (struct gitcall_target){.remote = remote,
				       .git_dir = "/run/x/git",
				       .program = "/lib/agent-publish",
				       .ca = "/ca.pem",
				       .relay_port = 4711,
				       .remote_fd = 22};
}

static void parse(const char *url, struct remote *remote)
{
	struct error err = {0};

	assert_int_equal(remote_parse(url, NULL, remote, &err), 0);
}

static void push_always_has_the_hardening(void **state)
{
	static const char *const urls[] = {"/x", "https://h/x", "ssh://u@h/x"};
	static const char *const settings[] = {
	    "core.hooksPath=/dev/null",	 "core.fsmonitor=false",       "credential.helper=",
	    "protocol.allow=never",	 "http.followRedirects=false", "http.sslVerify=true",
	    "push.recurseSubmodules=no", "push.gpgSign=false",	       "gc.auto=0"};
	static const char *const env[] = {"GIT_CONFIG_NOSYSTEM=1",
					  "GIT_CONFIG_GLOBAL=/dev/null",
					  "GIT_NO_REPLACE_OBJECTS=1",
					  "GIT_TERMINAL_PROMPT=0",
					  "LC_ALL=C",
					  "HOME=/nonexistent",
					  "PATH=/usr/bin:/bin"};

	(void)state;
	setenv("GIT_CONFIG_COUNT", "1", 1);
	for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
		struct remote remote;
		struct gitcall call;

		parse(urls[i], &remote);
		struct gitcall_target target = target_of(&remote);
		gitcall_push(&call, &target, OID, REF, NULL, NULL);
		assert_string_equal(call.argv[0], "git");
		assert_string_equal(call.argv[1], "--git-dir=/run/x/git");
		for (size_t k = 0; k < ARRAY_LEN(settings); k++)
			need(call.argv, settings[k]);
		for (size_t k = 0; k < ARRAY_LEN(env); k++)
			need(call.env, env[k]);
		need(call.argv, "--porcelain");
		need(call.argv, "--no-verify");
		need(call.argv, "--force-with-lease=" REF ":");
		assert_string_equal(call.argv[call.argc - 3], "--");
		assert_string_equal(call.argv[call.argc - 1], OID ":" REF);
		assert_null(call.argv[call.argc]);
		assert_null(call.env[call.envc]);
		for (const char *const *word = call.env; *word; word++)
			assert_int_not_equal(strncmp(*word, "GIT_CONFIG_COUNT", 16), 0);
		gitcall_release(&call);
		gitcall_release(&call);
		remote_release(&remote);
	}
	unsetenv("GIT_CONFIG_COUNT");
}

static void push_allows_exactly_one_protocol(void **state)
{
	static const char *const cases[][3] = {
	    {"/x", "GIT_ALLOW_PROTOCOL=fd", "fd::22"},
	    {"https://h/x", "GIT_ALLOW_PROTOCOL=https", "https://h/x"},
	    {"ssh://u@h/x", "GIT_ALLOW_PROTOCOL=ssh", "ssh://u@h/x"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct remote remote;
		struct gitcall call;

		parse(cases[i][0], &remote);
		struct gitcall_target target = target_of(&remote);
		gitcall_push(&call, &target, OID, REF, OID, NULL);
		need(call.env, cases[i][1]);
		need(call.argv, "--force-with-lease=" REF ":" OID);
		assert_string_equal(call.argv[call.argc - 2], cases[i][2]);
		gitcall_release(&call);
		gitcall_ls_remote(&call, &target, REF);
		need(call.env, cases[i][1]);
		assert_string_equal(call.argv[call.argc - 1], REF);
		gitcall_release(&call);
		remote_release(&remote);
	}
}

static void push_https_goes_through_the_proxy_and_askpass(void **state)
{
	struct remote remote;
	struct gitcall call;

	(void)state;
	parse("https://me@h:8443/a/b.git", &remote);
	struct gitcall_target target = target_of(&remote);
	gitcall_push(&call, &target, OID, REF, NULL, NULL);
	need(call.argv, "http.proxy=http://127.0.0.1:4711");
	need(call.argv, "http.sslCAInfo=/ca.pem");
	need(call.env, "GIT_ASKPASS=/lib/agent-publish");
	need(call.env, "AGENT_PUBLISH_HELPER=askpass");
	need(call.env, "AGENT_PUBLISH_URL=https://h:8443");
	need(call.env, "AGENT_PUBLISH_USER=me");
	assert_false(lists(call.env, "GIT_SSH=/lib/agent-publish"));
	gitcall_release(&call);
	remote_release(&remote);
}

static void push_ssh_goes_through_the_listener_without_a_shell(void **state)
{
	struct remote remote;
	struct gitcall call;

	(void)state;
	parse("ssh://git@h:2222/a.git", &remote);
	struct gitcall_target target = target_of(&remote);
	gitcall_push(&call, &target, OID, REF, NULL, NULL);
	need(call.env, "GIT_SSH=/lib/agent-publish");
	need(call.env, "GIT_SSH_VARIANT=ssh");
	need(call.env, "AGENT_PUBLISH_HELPER=ssh");
	need(call.env, "AGENT_PUBLISH_PORT=4711");
	need(call.env, "AGENT_PUBLISH_HOST_KEY=[h]:2222");
	need(call.env, "AGENT_PUBLISH_USER=git");
	for (const char *const *word = call.env; *word; word++)
		assert_int_not_equal(strncmp(*word, "GIT_SSH_COMMAND", 15), 0);
	gitcall_release(&call);
	remote_release(&remote);
}

static void receive_pack_gets_a_listed_environment(void **state)
{
	struct receive receive;

	(void)state;
	setenv("GIT_DIR", "/evil", 1);
	receive_init(&receive, "/srv/x.git", "/home/me", "me", "run-1");
	assert_string_equal(receive.argv[1], "receive-pack");
	assert_string_equal(receive.argv[2], "/srv/x.git");
	need(receive.env, "HOME=/home/me");
	need(receive.env, "USER=me");
	need(receive.env, "AGENT_RUN=run-1");
	for (const char *const *word = receive.env; *word; word++)
		assert_int_not_equal(strncmp(*word, "GIT_", 4), 0);
	assert_int_equal(receive_add(&receive, "HOME=/elsewhere"), 0);
	assert_int_equal(receive_add(&receive, "GL_A=b=c"), 0);
	assert_int_equal(receive_add(&receive, "GL_A"), -1);
	assert_int_equal(receive_add(&receive, "=b"), -1);
	size_t homes = 0, more = 0;
	for (const char *const *env = receive.env; *env; env++) {
		homes += strncmp(*env, "HOME=", 5) == 0;
		more += strcmp(*env, "GL_A=b=c") == 0 || strcmp(*env, "HOME=/elsewhere") == 0;
	}
	assert_int_equal(homes, 1);
	assert_int_equal(more, 2);
	for (int i = 0; i < RECEIVE_ENV; i++) {
		char pair[16];

		snprintf(pair, sizeof(pair), "N%d=1", i);
		if (receive_add(&receive, pair) < 0)
			break;
		assert_true(i < RECEIVE_ENV - 1);
	}
	receive_release(&receive);
	receive_init(&receive, "/srv/x.git", NULL, NULL, "run-1");
	need(receive.env, "HOME=/nonexistent");
	receive_release(&receive);
	unsetenv("GIT_DIR");
}

static void gc_has_the_hardening_and_reaches_nothing(void **state)
{
	static const char *const settings[] = {"core.hooksPath=/dev/null",
					       "core.fsmonitor=false", "protocol.allow=never",
					       "gc.autoDetach=false", "maintenance.auto=false"};
	struct gitcall call;

	(void)state;
	for (int keep_all = 0; keep_all < 2; keep_all++) {
		gitcall_gc(&call, "/m.git", keep_all);
		assert_string_equal(call.argv[1], "--git-dir=/m.git");
		for (size_t i = 0; i < ARRAY_LEN(settings); i++)
			need(call.argv, settings[i]);
		need(call.argv,
		     keep_all ? "gc.pruneExpire=never" : "gc.pruneExpire=2.weeks.ago");
		assert_int_equal(lists(call.argv, "gc.pruneExpire=never"), keep_all);
		assert_string_equal(call.argv[call.argc - 2], "--auto");
		need(call.env, "GIT_ALLOW_PROTOCOL=none");
		need(call.env, "GIT_CONFIG_GLOBAL=/dev/null");
		need(call.env, "GIT_CONFIG_NOSYSTEM=1");
		gitcall_release(&call);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(gc_has_the_hardening_and_reaches_nothing),
	    cmocka_unit_test(push_always_has_the_hardening),
	    cmocka_unit_test(push_allows_exactly_one_protocol),
	    cmocka_unit_test(push_https_goes_through_the_proxy_and_askpass),
	    cmocka_unit_test(push_ssh_goes_through_the_listener_without_a_shell),
	    cmocka_unit_test(receive_pack_gets_a_listed_environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
