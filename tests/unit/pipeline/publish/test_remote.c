/* Addresses of remotes: what is taken, what is refused, and that nothing of a password is
 * shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/publish/remote.h"

struct expected {
	const char *text;
	enum remote_kind kind;
	const char *url, *host, *user, *path;
	int port;
};

static void same_text(const char *got, const char *wanted)
{
	if (wanted)
		assert_string_equal(got, wanted);
	else
		assert_null(got);
}

static void remote_good_forms_are_taken_apart(void **state)
{
	static const struct expected cases[] = {
	    {"/srv/x.git", REMOTE_LOCAL, "/srv/x.git", NULL, NULL, "/srv/x.git", 0},
	    {"../x.git", REMOTE_LOCAL, "/base/../x.git", NULL, NULL, "/base/../x.git", 0},
	    {"x.git", REMOTE_LOCAL, "/base/x.git", NULL, NULL, "/base/x.git", 0},
	    {"-x", REMOTE_LOCAL, "/base/-x", NULL, NULL, "/base/-x", 0},
	    {"./a:b", REMOTE_LOCAL, "/base/./a:b", NULL, NULL, "/base/./a:b", 0},
	    {"/a:b::c", REMOTE_LOCAL, "/a:b::c", NULL, NULL, "/a:b::c", 0},
	    {"file:///srv/a%20b", REMOTE_LOCAL, "/srv/a b", NULL, NULL, "/srv/a b", 0},
	    {"FILE://localhost/srv/x", REMOTE_LOCAL, "/srv/x", NULL, NULL, "/srv/x", 0},
	    {"https://Git.Example.ORG/a/b.git", REMOTE_HTTPS, "https://git.example.org/a/b.git",
	     "git.example.org", NULL, "/a/b.git", 443},
	    {"HTTPS://h/x", REMOTE_HTTPS, "https://h/x", "h", NULL, "/x", 443},
	    {"https://h:8443/x", REMOTE_HTTPS, "https://h:8443/x", "h", NULL, "/x", 8443},
	    {"https://h:443/x", REMOTE_HTTPS, "https://h/x", "h", NULL, "/x", 443},
	    {"https://me@h/x", REMOTE_HTTPS, "https://h/x", "h", "me", "/x", 443},
	    {"https://me%40firm.org@h/x", REMOTE_HTTPS, "https://h/x", "h", "me@firm.org", "/x",
	     443},
	    {"https://h/a%20b", REMOTE_HTTPS, "https://h/a%20b", "h", NULL, "/a%20b", 443},
	    {"https://[::1]/x", REMOTE_HTTPS, "https://[::1]:443/x", "::1", NULL, "/x", 443},
	    {"https://[2001:DB8::2]:8/x", REMOTE_HTTPS, "https://[2001:db8::2]:8/x",
	     "2001:db8::2", NULL, "/x", 8},
	    {"ssh://git@h/a/b.git", REMOTE_SSH, "ssh://git@h/a/b.git", "h", "git", "/a/b.git",
	     22},
	    {"ssh://h:2222/x", REMOTE_SSH, "ssh://h:2222/x", "h", NULL, "/x", 2222},
	    {"ssh://g@h/~me/x", REMOTE_SSH, "ssh://g@h/~me/x", "h", "g", "~me/x", 22},
	    {"ssh://g@h/a%20b", REMOTE_SSH, "ssh://g@h/a%20b", "h", "g", "/a b", 22},
	    {"git@h:a/b.git", REMOTE_SSH, "git@h:a/b.git", "h", "git", "a/b.git", 22},
	    {"h:x", REMOTE_SSH, "h:x", "h", NULL, "x", 22},
	    {"g@h:/a b/'c'", REMOTE_SSH, "g@h:/a b/'c'", "h", "g", "/a b/'c'", 22},
	    {"g@[::1]:x", REMOTE_SSH, "g@[::1]:x", "::1", "g", "x", 22},
	    {"[::1]:x", REMOTE_SSH, "[::1]:x", "::1", NULL, "x", 22},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct expected *want = &cases[i];
		struct remote remote, again;
		struct error err = {0};
		struct json *object AUTO_JSON = NULL;

		if (remote_parse(want->text, "/base", &remote, &err))
			fail_msg("%s: %s", want->text, err.message);
		assert_int_equal(remote.kind, want->kind);
		assert_string_equal(remote.url, want->url);
		same_text(remote.host, want->host);
		same_text(remote.user, want->user);
		same_text(remote.path, want->path);
		assert_int_equal(remote.port, want->port);
		object = remote_to_json(&remote);
		if (remote_from_json(object, &again, &err))
			fail_msg("%s again: %s", want->text, err.message);
		assert_string_equal(again.url, want->url);
		same_text(again.user, want->user);
		same_text(again.path, want->path);
		remote_release(&remote);
		remote_release(&again);
		remote_release(&again);
	}
}

static void remote_bad_forms_are_refused(void **state)
{
	static const char *const cases[] = {
	    "",
	    "ext::sh -c id",
	    "fd::3",
	    "EXT::x",
	    "foo::https://h/x",
	    "git://h/x",
	    "http://h/x",
	    "http://127.0.0.1/x",
	    "ftp://h/x",
	    "ftps://h/x",
	    "rsync://h/x",
	    "git+ssh://h/x",
	    "://h/x",
	    "https://",
	    "https:///x",
	    "https://h",
	    "https://h/",
	    "https://h:/x",
	    "https://h:0/x",
	    "https://h:65536/x",
	    "https://h:99999999999/x",
	    "https://h:1a/x",
	    "https://h:-1/x",
	    "https://-h/x",
	    "https://.h/x",
	    "https://h h/x",
	    "https://h\\x/y",
	    "https://h/x y",
	    "https://h/x?y",
	    "https://h/x#y",
	    "https://h/x\\y",
	    "https://h/%0a",
	    "https://h/%00",
	    "https://h/%7f",
	    "https://h/%ff",
	    "https://h/%4",
	    "https://h/%",
	    "https://h/%zz",
	    "https://h/\xc3\xa9",
	    "https://h\xc3\xa9/x",
	    "https://[::1/x",
	    "https://[::zz]/x",
	    "https://[::1]x/y",
	    "https://[::1%25lo]/x",
	    "https://@h/x",
	    "https://-u@h/x",
	    "https://a b@h/x",
	    "https://u%0ax@h/x",
	    "ssh://-oProxyCommand=id/x",
	    "ssh://-u@h/x",
	    "ssh://u@-h/x",
	    "-oProxyCommand=id:x",
	    "-u@h:x",
	    "u@-h:x",
	    "h:-x",
	    "h:",
	    "u@:x",
	    ":x",
	    "[h:22]:x",
	    "[::1]",
	    "u@[::1]x",
	    "a\nb",
	    "/a\nb",
	    "/a\x1b[31m",
	    "/a\x7f",
	    "/\xff",
	    "/\xe2\x80\xae",
	    "https://h/x\n",
	    "https://h\t/x",
	    "file://host/x",
	    "file://x",
	    "file:///a%00",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct remote remote;
		struct error err = {0};

		if (remote_parse(cases[i], "/base", &remote, &err) != ERROR_USAGE)
			fail_msg("taken: %s", cases[i]);
		assert_true(err.message[0]);
		assert_true(err.next[0]);
		assert_null(remote.url);
		assert_null(remote.host);
	}
}

static void remote_relative_without_base_is_refused(void **state)
{
	struct remote remote;
	struct error err = {0};

	(void)state;
	assert_int_equal(remote_parse("x.git", NULL, &remote, &err), ERROR_USAGE);
	assert_non_null(strstr(err.next, "absolute"));
}

static void remote_password_is_refused_and_not_shown(void **state)
{
	static const char *const cases[] = {
	    "https://user:s3cret@h/x",
	    "https://:s3cret@h/x",
	    "https://ghp_s3cret@h/x",
	    "https://glpat-s3cret@h/x",
	    "https://github_pat_s3cret@h/x",
	    "https://u:s3cret@evil@h/x",
	    "ssh://u:s3cret@h/x",
	    "http://u:s3cret@h/x",
	    "ftp://u:s3cret@h/x",
	    "https://u:s3cret@h",
	    "https://u:s3cret@-h/x",
	    "https://s3cret%0a@h/x",
	    "foo::https://u:s3cret@h/x",
	    "git://s3cret@h/x",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct remote remote;
		struct error err = {0};

		if (remote_parse(cases[i], "/base", &remote, &err) != ERROR_USAGE)
			fail_msg("taken: %s", cases[i]);
		if (strstr(err.message, "s3cret") || strstr(err.next, "s3cret"))
			fail_msg("shown: %s", err.message);
	}
}

static void remote_too_long_is_refused(void **state)
{
	char text[REMOTE_URL_MAX + 2];
	struct remote remote;
	struct error err = {0};

	(void)state;
	memset(text, 'a', sizeof(text) - 1);
	text[0] = '/';
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(remote_parse(text, NULL, &remote, &err), ERROR_USAGE);
	text[REMOTE_URL_MAX] = '\0';
	assert_int_equal(remote_parse(text, NULL, &remote, &err), 0);
	remote_release(&remote);
}

static void remote_job_with_other_parts_is_refused(void **state)
{
	static const char *const changes[][2] = {
	    {"host", "other"}, {"kind", "ssh"}, {"path", "/other"}, {"url", "https://other/x"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
		struct remote remote, again;
		struct error err = {0};
		struct json *object AUTO_JSON = NULL;

		assert_int_equal(remote_parse("https://h/x", NULL, &remote, &err), 0);
		object = remote_to_json(&remote);
		remote_release(&remote);
		js_set_str(object, changes[i][0], changes[i][1]);
		assert_int_equal(remote_from_json(object, &again, &err), ERROR_USAGE);
		assert_null(again.url);
	}
}

static void remote_job_user_replaces_and_is_checked(void **state)
{
	struct remote remote, again;
	struct error err = {0};
	struct json *object AUTO_JSON = NULL;

	(void)state;
	assert_int_equal(remote_parse("ssh://a@h/x", NULL, &remote, &err), 0);
	object = remote_to_json(&remote);
	remote_release(&remote);
	js_set_str(object, "user", "b");
	assert_int_equal(remote_from_json(object, &again, &err), 0);
	assert_string_equal(again.user, "b");
	remote_release(&again);
	js_set_str(object, "user", "-oProxyCommand=id");
	assert_int_equal(remote_from_json(object, &again, &err), ERROR_USAGE);
	js_set_str(object, "user", "a b");
	assert_int_equal(remote_from_json(object, &again, &err), ERROR_USAGE);
}

static void remote_names_for_proxy_and_known_hosts(void **state)
{
	static const char *const cases[][3] = {
	    {"https://h/x", "h:443", "[h]:443"},       {"ssh://h/x", "h:22", "h"},
	    {"ssh://H:2222/x", "h:2222", "[h]:2222"},  {"ssh://[::1]/x", "[::1]:22", "::1"},
	    {"ssh://[::1]:9/x", "[::1]:9", "[::1]:9"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct remote remote;
		struct error err = {0};

		assert_int_equal(remote_parse(cases[i][0], NULL, &remote, &err), 0);
		char *authority AUTO_FREE = remote_authority(&remote);
		char *name AUTO_FREE = remote_host_key_name(&remote);
		assert_string_equal(authority, cases[i][1]);
		assert_string_equal(name, cases[i][2]);
		remote_release(&remote);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(remote_good_forms_are_taken_apart),
	    cmocka_unit_test(remote_bad_forms_are_refused),
	    cmocka_unit_test(remote_relative_without_base_is_refused),
	    cmocka_unit_test(remote_password_is_refused_and_not_shown),
	    cmocka_unit_test(remote_too_long_is_refused),
	    cmocka_unit_test(remote_job_with_other_parts_is_refused),
	    cmocka_unit_test(remote_job_user_replaces_and_is_checked),
	    cmocka_unit_test(remote_names_for_proxy_and_known_hosts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
