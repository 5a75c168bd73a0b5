/* The audit of a jail: its records as JSON, its JSON as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/audit.h"
#include "pipeline/base/error.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "sandbox/jail_answers.h"

/* records: each one without "applied=", in lines. */
static struct json *parse(const char *lines, struct error *err)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	strbuf_init(&text, STRBUF_MAX);
	while (*lines) {
		size_t len = strcspn(lines, "\n");

		strbuf_addf(&text, "applied=%.*s", (int)len, lines);
		strbuf_addc(&text, '\0');
		lines += len + (lines[len] == '\n');
	}
	return audit_parse(text.data, text.len, err);
}

static const char all[] =
    "arg make\narg check all\ncwd /work\nenv A=b c\nenv EMPTY=\n"
    "mount 36 25 0:32 / /work rw,nosuid shared:1 - overlay overlay rw,lowerdir=w0:w1\n"
    "mount 37 25 0:33 /a\\040b /tmp ro - tmpfs none rw\n"
    "fd 0 rw /dev/null\nfd 1 w pipe:[7]\ndevice /dev/null c 1:3 666\nlink /dev/fd "
    "/proc/self/fd\n"
    "status Umask:\t0022\nstatus Uid:\t1000\t1000\t1000\t1000\nstatus "
    "Gid:\t1000\t1000\t1000\t1000\n"
    "status Groups:\t4 7 \nstatus CapInh:\t0000000000000000\nstatus CapPrm:\t0000000000000001\n"
    "status NoNewPrivs:\t1\nstatus Seccomp:\t2\nstatus Seccomp_filters:\t1\nsecurebits ef\n"
    "map uid       1000          0          1\nmap gid 1000 0 1\noutside 1879 1880\n"
    "ns net net:[4026]\ninterface lo\nlisten 127.0.0.1:3128\nlimit nofile 1024 65536\nlimit "
    "cpu unlimited unlimited\n"
    "cgroup pids.max 1024\ncgroup cpu.max max 100000\nlandlock rule d /\nlandlock rule 77bf /a "
    "b\n"
    "landlock abi 7\nlandlock fs ffff\nlandlock net 0\nlandlock scoped 3\n";

static void each_kind_has_its_place(void **state)
{
	struct error err = {0};
	struct json *audit AUTO_JSON = parse(all, &err);
	const struct json *mount, *rule, *ids = js_get(audit, "ids");

	(void)state;
	assert_string_equal(err.message, "");
	assert_true(js_bool(audit, "whole", false));
	assert_string_equal(js_text(js_at(js_get(audit, "command"), 1)), "check all");
	assert_string_equal(js_text(js_at(js_get(audit, "environment"), 0)), "A=b c");
	assert_string_equal(js_text(js_at(js_get(audit, "environment"), 1)), "EMPTY=");
	mount = js_at(js_get(audit, "mounts"), 0);
	assert_string_equal(js_str(mount, "target", ""), "/work");
	assert_string_equal(js_str(mount, "flags", ""), "rw,nosuid");
	assert_string_equal(js_str(mount, "options", ""), "rw,lowerdir=w0:w1");
	assert_string_equal(js_str(js_at(js_get(audit, "mounts"), 1), "root", ""), "/a\\040b");
	assert_string_equal(js_str(js_at(js_get(audit, "descriptors"), 1), "target", ""),
			    "pipe:[7]");
	assert_string_equal(js_str(js_at(js_get(audit, "devices"), 0), "number", ""), "1:3");
	assert_string_equal(js_str(js_get(ids, "inside"), "uid", ""), "1000 1000 1000 1000");
	assert_string_equal(js_str(js_get(ids, "inside"), "groups", ""), "4 7");
	assert_string_equal(js_str(js_get(ids, "outside"), "gid", ""), "1880");
	assert_string_equal(js_text(js_at(js_get(ids, "uid_map"), 0)), "1000 0 1");
	assert_string_equal(js_str(js_get(audit, "capabilities"), "permitted", ""),
			    "0000000000000001");
	assert_true(js_bool(audit, "no_new_privs", false));
	assert_int_equal(js_int(js_get(audit, "seccomp"), "filters", 0), 1);
	assert_string_equal(js_str(js_get(js_get(audit, "rlimits"), "nofile"), "hard", ""),
			    "65536");
	assert_string_equal(js_str(js_get(audit, "cgroup"), "cpu.max", ""), "max 100000");
	rule = js_at(js_get(js_get(audit, "landlock"), "rules"), 1);
	assert_string_equal(js_str(rule, "path", ""), "/a b");
	assert_string_equal(
	    js_text(js_at(
		js_get(js_at(js_get(js_get(audit, "landlock"), "rules"), 0), "rights"), 1)),
	    "read_file");
	assert_string_equal(js_text(js_at(js_get(js_get(audit, "landlock"), "scoped"), 1)),
			    "signal");
}

static void known_filter_lists_its_calls(void **state)
{
	struct error err = {0};
	char record[100];
	struct json *audit AUTO_JSON = NULL, *other AUTO_JSON = NULL;
	const struct json *seccomp;

	(void)state;
	snprintf(record, sizeof(record), "seccomp %s", jail_answers_digest(true));
	audit = parse(record, &err);
	seccomp = js_get(audit, "seccomp");
	assert_true(js_bool(seccomp, "known", false));
	assert_true(js_len(js_get(seccomp, "allow")) > 200);
	assert_true(js_len(js_get(seccomp, "refused")) > 20);
	assert_non_null(js_str(audit, "sockets", NULL));
	record[8] = record[8] == '0' ? '1' : '0';
	other = parse(record, &err);
	seccomp = js_get(other, "seccomp");
	assert_false(js_bool(seccomp, "known", true));
	assert_null(js_get(seccomp, "allow"));
}

static void malformed_records_are_refused(void **state)
{
	static const char *const bad[] = {
	    "",
	    "what is this",
	    "mount 36 25 0:32 / /work rw",
	    "mount - ",
	    "mount 1 2 - tmpfs none rw",
	    "mount 36 25 0:32 / /work rw - tmpfs",
	    "fd 0",
	    "device /dev/null c",
	    "status Uid",
	    "status Uid:",
	    "status CapInh:\t",
	    "map who 1 2 3",
	    "outside 7",
	    "limit nofile",
	    "limit nofile 7",
	    "ns net",
	    "cgroup",
	    "landlock",
	    "landlock abi",
	    "landlock abi x",
	    "landlock rule zz /",
	    "landlock rule fffffffffffffffff /",
	    "landlock what 1",
	    "seccomp 12",
	    " ",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct strbuf text AUTO_STRBUF = STRBUF_NONE;
		struct error err = {0};

		strbuf_init(&text, STRBUF_MAX);
		strbuf_addf(&text, "applied=cwd /%capplied=%s%c", 0, bad[i], 0);
		if (audit_parse(text.data, text.len, &err) || err.kind != ERROR_FAILED)
			fail_msg("taken: %s", bad[i]);
	}
}

static void a_record_that_is_cut_is_refused(void **state)
{
	struct error err = {0};

	(void)state;
	assert_null(audit_parse("applied=cwd /\0applied=env A=", 27, &err));
	assert_int_equal(err.kind, ERROR_FAILED);
}

static void a_list_without_room_says_so(void **state)
{
	struct error err = {0};
	struct json *audit AUTO_JSON = parse("cut \ncwd /", &err);
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;

	(void)state;
	assert_false(js_bool(audit, "whole", true));
	strbuf_init(&out, STRBUF_MAX);
	audit_print(audit, &out);
	assert_int_equal(strncmp(out.data, "NOT WHOLE", 9), 0);
}

static void a_sandbox_without_its_host_side_is_not_whole(void **state)
{
	struct error err = {0};
	struct json *audit AUTO_JSON =
	    parse("backend gvisor\noutside 7 8\ncgroup pids.max 5", &err);
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;

	(void)state;
	assert_false(js_bool(audit, "whole", true));
	assert_int_equal(js_len(js_get(audit, "rest")), 1);
	strbuf_init(&out, STRBUF_MAX);
	audit_print(audit, &out);
	assert_int_equal(strncmp(out.data, "NOT WHOLE", 9), 0);
	assert_non_null(strstr(out.data, "pids.max"));
	assert_null(strstr(out.data, "to the host: gvisor"));
}

static void a_sandbox_is_told_as_the_host_sees_it(void **state)
{
	struct error err = {0};
	struct json *audit AUTO_JSON =
	    parse("host arg runsc\nhost mount 1 2 0:3 /x /jail/usr ro,nosuid - ext4 /dev/a rw\n"
		  "host fd 2 w /memfd:\nmount 1 2 0:3 / / ro - 9p none rw\nbackend gvisor",
		  &err);
	struct json *host = js_get(audit, "host"), *twice AUTO_JSON = NULL;
	struct strbuf out AUTO_STRBUF = STRBUF_NONE;

	(void)state;
	assert_true(js_bool(audit, "whole", false));
	assert_int_equal(js_len(js_get(audit, "mounts")), 1);
	assert_string_equal(js_str(js_at(js_get(host, "mounts"), 0), "target", ""),
			    "/jail/usr");
	assert_string_equal(js_text(js_at(js_get(host, "command"), 0)), "runsc");
	strbuf_init(&out, STRBUF_MAX);
	audit_print(audit, &out);
	assert_non_null(strstr(out.data, "to the host: gvisor"));
	assert_non_null(strstr(out.data, "\n  /jail/usr  ext4 /x  ro,nosuid\n"));
	twice = parse("host host arg a", &err);
	assert_null(twice);
}

static void text_is_escaped_and_needs_nothing(void **state)
{
	static const char *const spoilt[] = {
	    "{}",
	    "{\"mounts\":[7,{},{\"target\":\"\\u001b[2J\"}],\"environment\":[\"A=\\n==== "
	    "stages\",3]}",
	    "{\"ids\":[],\"rlimits\":{\"a\":7},\"landlock\":{\"rules\":[{\"rights\":3}]},"
	    "\"seccomp\":7}",
	    "{\"devices\":[{\"path\":\"\\u001b[31m\",\"mode\":\"\\u202e\"}],\"umask\":"
	    "\"\\u0007\"}",
	    "{\"seccomp\":{\"known\":true,\"digest\":\"\\u001b\",\"depends\":[{\"call\":"
	    "\"\\u001b\"}]}}",
	    "{\"capabilities\":{\"effective\":\"\\u001b\"},\"sockets\":\"\\u001b\",\"cwd\":"
	    "\"\\u001b\"}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(spoilt); i++) {
		struct error err = {0};
		struct strbuf out AUTO_STRBUF = STRBUF_NONE;
		struct json *audit AUTO_JSON =
		    js_parse(spoilt[i], strlen(spoilt[i]), 4096, "test", &err);

		assert_non_null(audit);
		strbuf_init(&out, STRBUF_MAX);
		audit_print(audit, &out);
		assert_null(strpbrk(out.data, "\033\007"));
		assert_null(strstr(out.data, "\u202e"));
		assert_null(strstr(out.data, "\n==== stages"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_kind_has_its_place),
	    cmocka_unit_test(known_filter_lists_its_calls),
	    cmocka_unit_test(malformed_records_are_refused),
	    cmocka_unit_test(a_record_that_is_cut_is_refused),
	    cmocka_unit_test(a_list_without_room_says_so),
	    cmocka_unit_test(a_sandbox_without_its_host_side_is_not_whole),
	    cmocka_unit_test(a_sandbox_is_told_as_the_host_sees_it),
	    cmocka_unit_test(text_is_escaped_and_needs_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
