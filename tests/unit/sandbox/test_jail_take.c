/* The client against a server that lies, and against the real one on a directory of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "sandbox/jail/take.h"
#include "sandbox/jail_take.h"

/* What a hostile server sends, all at once, and then closes. */
static int say(const struct strbuf *text)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(fd_write_all(pair[1], text->data, text->len), 0);
	assert_int_equal(shutdown(pair[1], SHUT_WR), 0);
	/* the other end stays open, so that questions can be sent */
	return pair[0];
}

static void add_told(struct strbuf *text, char kind, const char *name, size_t name_len,
		     uint64_t size)
{
	struct jail_take_told told = {
	    .kind = (uint8_t)kind, .name_len = (uint16_t)name_len, .size = size};

	strbuf_add(text, &told, sizeof(told));
	strbuf_add(text, name, name_len < 8 ? name_len : 8);
}

static void malformed_listings_fail(void **state)
{
	static const struct {
		char head, kind;
		const char *name;
		size_t len;
		bool end;
	} cases[] = {{'h', 'f', "..", 2, true},	  {'h', 'f', ".", 1, true},
		     {'h', 'f', "", 0, true},	  {'h', 'f', "a/b", 3, true},
		     {'h', 'f', "a\0b", 3, true}, {'h', 'f', "aaaaaaaa", 60000, true},
		     {'h', 'x', "a", 1, true},	  {'h', 'h', "", 0, true},
		     {'h', 'f', "a", 1, false},	  {'f', 'f', "a", 1, true},
		     {'E', 'f', "a", 1, true},	  {'D', 'f', "a", 1, true}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO_STRBUF struct strbuf text = STRBUF_NONE;
		AUTO_FREE struct jail_take *take = mem_calloc(1, sizeof(*take));
		struct jail_take_list list;
		struct error err = {0};
		bool complete;

		strbuf_init(&text, STRBUF_MAX);
		strbuf_addc(&text, JAIL_TAKE_OVERLAY);
		add_told(&text, cases[i].head, "", 0, 0);
		add_told(&text, cases[i].kind, cases[i].name, cases[i].len, 0);
		if (cases[i].end)
			add_told(&text, 'z', "", 0, 0);
		int fd AUTO_FD = say(&text);
		assert_int_equal(jail_take_begin(take, fd, &complete, &err), 0);
		if (jail_take_list(take, "", 10, &list, &err) != ERROR_FAILED)
			fail_msg("case %zu is taken", i);
		assert_null(list.items);
	}
}

static void malformed_answers_fail(void **state)
{
	static const struct {
		char kind;
		uint64_t size;
		int wanted;
	} cases[] = {
	    {'D', 100, ERROR_FAILED}, {'D', UINT64_MAX, ERROR_FAILED}, {'D', 8, ERROR_FAILED},
	    {'E', EFBIG, ERROR_NO},   {'E', UINT64_MAX, ERROR_FAILED}, {'f', 1, ERROR_FAILED},
	    {0, 0, ERROR_FAILED}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO_STRBUF struct strbuf text = STRBUF_NONE, out = STRBUF_NONE;
		AUTO_FREE struct jail_take *take = mem_calloc(1, sizeof(*take));
		struct error err = {0};
		bool complete;

		strbuf_init(&text, STRBUF_MAX);
		strbuf_init(&out, STRBUF_MAX);
		strbuf_addc(&text, JAIL_TAKE_COPY);
		add_told(&text, cases[i].kind, "abc", 3, cases[i].size);
		int fd AUTO_FD = say(&text);
		assert_int_equal(jail_take_begin(take, fd, &complete, &err), 0);
		assert_true(complete);
		assert_int_equal(jail_take_read(take, "f", 10, &out, &err), cases[i].wanted);
	}
}

static void a_server_that_says_nothing_useful_is_lost(void **state)
{
	AUTO_STRBUF struct strbuf text = STRBUF_NONE;
	AUTO_FREE struct jail_take *take = mem_calloc(1, sizeof(*take));
	struct error err = {0};
	bool complete;

	(void)state;
	strbuf_init(&text, STRBUF_MAX);
	int silent AUTO_FD = say(&text);
	assert_int_equal(jail_take_begin(take, silent, &complete, &err), ERROR_FAILED);
	strbuf_addc(&text, 'x');
	int other AUTO_FD = say(&text);
	assert_int_equal(jail_take_begin(take, other, &complete, &err), ERROR_FAILED);
}

static void a_server_that_answers_without_listening_is_given_up(void **state)
{
	AUTO_STRBUF struct strbuf text = STRBUF_NONE;
	AUTO_FREE struct jail_take *take = mem_calloc(1, sizeof(*take));
	AUTO_FREE char *path = mem_calloc(4001, 1);
	struct jail_take_list list;
	struct error err = {0};
	int ends[2], asked = 0;
	bool complete;

	(void)state;
	strbuf_init(&text, STRBUF_MAX);
	strbuf_addc(&text, JAIL_TAKE_COPY);
	for (size_t i = 0; i < 1000; i++)
		add_told(&text, i % 2 ? 'z' : 'h', "", 0, 0);
	memset(path, 'p', 4000);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	int ours AUTO_FD = ends[0], theirs AUTO_FD = ends[1];
	assert_int_equal(fd_write_all(theirs, text.data, text.len), 0);
	assert_int_equal(jail_take_begin(take, ours, &complete, &err), 0);
	take->until_ms = fd_now_ms() + 100;
	while (asked < 1000 && jail_take_list(take, path, 10, &list, &err) == 0) {
		jail_take_list_release(&list);
		asked++;
	}
	assert_in_range(asked, 1, 499);
	assert_int_equal(err.kind, ERROR_FAILED);
}

/* ---- the real server ---- */

struct served {
	char dir[64];
	pid_t pid;
	int fd;
	struct jail_take *take;
};

static void serve(struct served *served)
{
	struct error err = {0};
	bool complete;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	served->pid = fork();
	if (served->pid == 0) {
		close(pair[0]);
		take_serve(open(served->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), false,
			   pair[1]);
		_exit(0);
	}
	close(pair[1]);
	served->fd = pair[0];
	served->take = mem_calloc(1, sizeof(*served->take));
	assert_int_equal(jail_take_begin(served->take, served->fd, &complete, &err), 0);
	assert_false(complete);
}

static void end(struct served *served)
{
	int status;

	close(served->fd);
	assert_int_equal(waitpid(served->pid, &status, 0), served->pid);
	assert_int_equal(status, 0);
	free(served->take);
	assert_int_equal(fd_remove_tree(AT_FDCWD, served->dir), 0);
}

static void the_directory_is_served_and_nothing_beside_it(void **state)
{
	struct served served = {.dir = "/tmp/test-jail-take-XXXXXX"};
	static const char *const outside[] = {"..",	     "../etc/passwd", "/etc/passwd",
					      "link/passwd", "out",	      "d/../../x",
					      "none",	     "fifo",	      "d"};
	struct jail_take_list list;
	AUTO_STRBUF struct strbuf out = STRBUF_NONE;
	struct error err = {0};

	(void)state;
	assert_non_null(mkdtemp(served.dir));
	AUTO_FREE char *file = mem_printf("%s/f", served.dir);
	AUTO_FREE char *link = mem_printf("%s/link", served.dir);
	AUTO_FREE char *out_link = mem_printf("%s/out", served.dir);
	AUTO_FREE char *fifo = mem_printf("%s/fifo", served.dir);
	AUTO_FREE char *dir = mem_printf("%s/d", served.dir);
	int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0);
	assert_int_equal(fd_write_all(fd, "bytes", 5), 0);
	close(fd);
	assert_int_equal(symlink("/etc", link), 0);
	assert_int_equal(symlink("../../etc/passwd", out_link), 0);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(mkdir(dir, 0), 0);
	serve(&served);

	assert_int_equal(jail_take_list(served.take, "", 4, &list, &err), ERROR_NO);
	end(&served);

	served = (struct served){.dir = "/tmp/test-jail-take-XXXXXX"};
	assert_non_null(mkdtemp(served.dir));
	AUTO_FREE char *other = mem_printf("%s/f", served.dir);
	AUTO_FREE char *other_out = mem_printf("%s/out", served.dir);
	AUTO_FREE char *other_link = mem_printf("%s/link", served.dir);
	fd = open(other, O_WRONLY | O_CREAT | O_CLOEXEC, 0);
	assert_int_equal(fd_write_all(fd, "bytes", 5), 0);
	close(fd);
	assert_int_equal(symlink("/etc/passwd", other_out), 0);
	assert_int_equal(symlink("/etc", other_link), 0);
	serve(&served);
	assert_int_equal(jail_take_list(served.take, "", 3, &list, &err), 0);
	assert_int_equal(list.len, 3);
	jail_take_list_release(&list);
	strbuf_init(&out, STRBUF_MAX);
	assert_int_equal(jail_take_read(served.take, "f", 5, &out, &err), 0);
	assert_string_equal(out.data, "bytes");
	assert_int_equal(jail_take_read(served.take, "f", 4, &out, &err), ERROR_NO);
	strbuf_reset(&out);
	assert_int_equal(jail_take_read(served.take, "out", 100, &out, &err), 0);
	assert_string_equal(out.data, "/etc/passwd"); /* the link's text, not what it names */
	for (size_t i = 0; i < ARRAY_LEN(outside); i++) {
		if (strcmp(outside[i], "out") == 0)
			continue;
		strbuf_reset(&out);
		assert_true(jail_take_read(served.take, outside[i], 100, &out, &err) < 0);
		assert_int_equal(out.len, 0);
		assert_true(jail_take_list(served.take, outside[i], 100, &list, &err) < 0);
	}
	assert_int_equal(jail_take_read(served.take, "f", 5, &out, &err), 0);
	end(&served);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(malformed_listings_fail),
	    cmocka_unit_test(malformed_answers_fail),
	    cmocka_unit_test(a_server_that_says_nothing_useful_is_lost),
	    cmocka_unit_test(a_server_that_answers_without_listening_is_given_up),
	    cmocka_unit_test(the_directory_is_served_and_nothing_beside_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
