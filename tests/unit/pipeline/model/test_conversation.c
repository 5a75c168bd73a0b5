/* A conversation that is read, appended to, and cut off by a kill. */
#include "model_test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/scrub.h"

/* A file that may be appended to, with this content. */
static int file_of(const char *text)
{
	char *bytes AUTO_FREE = quoted(text);
	char name[] = "/tmp/talk-XXXXXX";
	int fd = mkostemp(name, O_CLOEXEC | O_APPEND);

	assert_true(fd >= 0);
	assert_int_equal(unlink(name), 0);
	assert_int_equal(fd_write_all(fd, bytes, strlen(bytes)), 0);
	return fd;
}

static void expect_file(int fd, const char *wanted)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	char *bytes AUTO_FREE = quoted(wanted);

	strbuf_init(&text, STRBUF_MAX);
	assert_int_equal(fd_pread_all(fd, &text), 0);
	assert_string_equal(text.data, bytes);
}

static void expect_refused(const char *text, const char *part)
{
	int fd AUTO_FD = file_of(text);
	struct error err = {0};
	struct talk *talk AUTO_TALK = talk_open(fd, true, "file", NULL, &err);

	assert_null(talk);
	assert_int_equal(err.kind, ERROR_USAGE);
	if (!strstr(err.message, part))
		fail_msg("\"%s\" is not in: %s", part, err.message);
}

#define USER "{'role':'user','round':1,'content':[{'type':'text','text':'a'}]}\n"

static void append_writes_whole_lines_that_are_read_back(void **state)
{
	int fd AUTO_FD = file_of("");
	struct error err = {0};
	struct talk *talk AUTO_TALK = talk_open(fd, true, "file", NULL, &err),
			  *again AUTO_TALK = NULL;
	struct json *line = line_new("assistant", 1);

	(void)state;
	assert_int_equal(talk_append(talk, parse(USER), &err), 0);
	line_add_text(line, "b\n\xff", 3);
	line_add_call(line, "c1", "look", parse("{'x':1}"), NULL, 0);
	line_add_call(line, "c2", "look", NULL, "{x", 2);
	assert_int_equal(talk_append(talk, line, &err), 0);
	expect_file(
	    fd, USER
	    "{'role':'assistant','round':1,'content':[{'type':'text','text':'b\\n\xef\xbf\xbd'}"
	    ","
	    "{'type':'tool_call','id':'c1','name':'look','input':{'x':1}},"
	    "{'type':'tool_call','id':'c2','name':'look','input':{},'malformed':'{x'}]}\n");
	again = talk_open(fd, true, "file", NULL, &err);
	assert_non_null(again);
	assert_int_equal(talk_len(again), 2);
	assert_int_equal(talk_count(again, "assistant"), 1);
	assert_int_equal(line_calls(talk_last(again)), 2);
}

static void open_half_a_line_is_cut_off(void **state)
{
	int fd AUTO_FD = file_of(USER "{'role':'assi");
	struct error err = {0};
	struct talk *talk AUTO_TALK = talk_open(fd, true, "file", NULL, &err);

	(void)state;
	assert_non_null(talk);
	assert_int_equal(talk_len(talk), 1);
	expect_file(fd, USER);
	assert_int_equal(talk_append(talk, parse(USER), &err), 0);
	expect_file(fd, USER USER);
}

static void open_recording_without_last_newline_is_whole(void **state)
{
	int fd AUTO_FD = file_of("\n" USER "{'role':'assistant','round':1,'content':[]}");
	struct error err = {0};
	struct talk *talk AUTO_TALK = talk_open(fd, false, "file", NULL, &err);

	(void)state;
	assert_non_null(talk);
	assert_int_equal(talk_len(talk), 2);
}

static void open_malformed_line_is_named(void **state)
{
	(void)state;
	expect_refused(USER "nonsense\n", "file, line 2");
	expect_refused("[]\n", "not an object");
	expect_refused("{'role':'user','round':1}\n", "\"content\"");
	expect_refused("{'role':'robot','round':1,'content':[]}\n", "unknown role");
	expect_refused("{'role':'user','round':0,'content':[]}\n", "\"round\"");
	expect_refused("{'role':'user','content':[]}\n", "\"round\"");
	expect_refused("{'role':'user','round':1,'content':[{'type':'tool_call','id':'a','name'"
		       ":'b','input':{}}]}\n",
		       "\"tool_call\" block in a line of \"user\"");
	expect_refused("{'role':'assistant','round':1,'content':[{'type':'tool_call','id':'a','"
		       "name':'b'}]}\n",
		       "\"input\"");
	expect_refused(
	    "{'role':'assistant','round':1,'content':[{'type':'opaque','provider':'x'}]}\n",
	    "\"data\"");
	expect_refused(
	    "{'role':'tool','round':1,'content':[{'type':'tool_result','id':'a'}]}\n",
	    "\"text\"");
	expect_refused("{'role':'user','round':2,'content':[]}\n" USER, "round is lower");
	expect_refused("{'role':'user','round':1,'content':[],'round':1}\n", "duplicate");
}

static void append_key_is_never_written(void **state)
{
	const struct scrub scrub = {.key = "planted-secret-key", .len = 18};
	int fd AUTO_FD = file_of("");
	struct error err = {0};
	struct talk *talk AUTO_TALK = talk_open(fd, true, "file", &scrub, &err);
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	(void)state;
	assert_int_equal(
	    talk_append(
		talk,
		parse("{'role':'assistant','round':1,'content':[{'type':'tool_call','id':"
		      "'planted-secret-key','name':'x','input':{'p':'a planted-secret-key "
		      "b'}}]}"),
		&err),
	    0);
	strbuf_init(&text, STRBUF_MAX);
	assert_int_equal(fd_pread_all(fd, &text), 0);
	assert_null(strstr(text.data, "planted"));
	/* and what is worked with is what was written */
	expect_json(js_get(js_at(line_content(talk_last(talk)), 0), "input"),
		    "{'p':'a [key] b'}");
}

/* As on a full disk: a part of the line is written, then no more. */
static void append_that_fails_loses_that_line_only(void **state)
{
	int fd AUTO_FD = file_of(USER);
	struct error err = {0};
	struct talk *talk AUTO_TALK = talk_open(fd, true, "file", NULL, &err),
			  *again AUTO_TALK = NULL;
	struct rlimit old, small;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = old;
	small.rlim_cur = strlen(USER) + 10;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(talk_append(talk, parse(USER), &err), ERROR_FAILED);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_non_null(strstr(err.message, "cannot be written"));
	assert_int_equal(talk_len(talk), 1);
	again = talk_open(fd, true, "file", NULL, &err);
	assert_int_equal(talk_len(again), 1);
	expect_file(fd, USER);
}

static void line_text_joins_blocks(void **state)
{
	struct json *line AUTO_JSON =
	    parse("{'role':'user','round':1,'content':[{'type':'text','text':'a'},"
		  "{'type':'text','text':''},{'type':'text','text':'b'}]}");
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;

	(void)state;
	strbuf_init(&text, STRBUF_MAX);
	line_text(line, &text);
	assert_string_equal(text.data, "a\n\nb");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(append_writes_whole_lines_that_are_read_back),
	    cmocka_unit_test(open_half_a_line_is_cut_off),
	    cmocka_unit_test(open_recording_without_last_newline_is_whole),
	    cmocka_unit_test(open_malformed_line_is_named),
	    cmocka_unit_test(append_key_is_never_written),
	    cmocka_unit_test(append_that_fails_loses_that_line_only),
	    cmocka_unit_test(line_text_joins_blocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
