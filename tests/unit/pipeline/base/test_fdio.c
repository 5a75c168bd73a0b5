/* Descriptors: capped reads, no way out of a directory, sealed memory, files whole or not at
 * all, trees that want not to be removed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

struct place {
	char path[64];
	int fd;
};

static int place_make(void **state)
{
	struct place *place = mem_calloc(1, sizeof(*place));
	const char *tmp = getenv("TMPDIR");

	snprintf(place->path, sizeof(place->path), "%s/fdio-XXXXXX",
		 tmp && strlen(tmp) < 40 ? tmp : "/tmp");
	if (!mkdtemp(place->path))
		return -1;
	place->fd = open(place->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = place;
	return place->fd < 0 ? -1 : 0;
}

static int place_remove(void **state)
{
	struct place *place = *state;
	int result = fd_remove_tree(AT_FDCWD, place->path);

	close(place->fd);
	free(place);
	return result;
}

static void write_file(int dirfd, const char *name, const char *text)
{
	int fd AUTO_FD = openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

static void read_all_stops_at_the_cap(void **state)
{
	struct strbuf buf AUTO_STRBUF = STRBUF_NONE;
	int fd AUTO_FD = fd_memfd_sealed("t", "0123456789", 10);

	(void)state;
	strbuf_init(&buf, 9);
	assert_int_equal(fd_read_all(fd, &buf), -1);
	assert_int_equal(errno, EFBIG);
	strbuf_release(&buf);
	strbuf_init(&buf, 10);
	assert_int_equal(fd_pread_all(fd, &buf), 0);
	assert_string_equal(buf.data, "0123456789");
	assert_int_equal(fd_read_all(-1, &buf), -1);
}

static void read_all_from_a_pipe_in_pieces(void **state)
{
	struct strbuf buf AUTO_STRBUF = STRBUF_NONE;
	int pipe_fds[2];

	(void)state;
	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	assert_int_equal(fd_write_all(pipe_fds[1], "abc", 3), 0);
	assert_int_equal(fd_write_all(pipe_fds[1], "def", 3), 0);
	close(pipe_fds[1]);
	strbuf_init(&buf, 100);
	assert_int_equal(fd_read_all(pipe_fds[0], &buf), 0);
	assert_string_equal(buf.data, "abcdef");
	close(pipe_fds[0]);
}

static void write_all_to_a_closed_pipe_fails(void **state)
{
	int pipe_fds[2];

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	close(pipe_fds[0]);
	assert_int_equal(fd_write_all(pipe_fds[1], "abc", 3), -1);
	assert_int_equal(errno, EPIPE);
	close(pipe_fds[1]);
	signal(SIGPIPE, SIG_DFL);
}

static void steal_leaves_minus_one(void **state)
{
	int fd = 7;

	(void)state;
	assert_int_equal(fd_steal(&fd), 7);
	assert_int_equal(fd, -1);
}

static void memfd_sealed_cannot_be_changed(void **state)
{
	int fd AUTO_FD = fd_memfd_sealed("t", "abc", 3);

	(void)state;
	assert_true(fd >= 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
	assert_int_equal(pwrite(fd, "x", 1, 0), -1);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(ftruncate(fd, 100), -1);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	assert_true(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
}

static void open_beneath_no_way_out(void **state)
{
	struct place *place = *state;
	static const char *const ways[] = {"../x",
					   "/etc/passwd",
					   "link",
					   "dirlink/passwd",
					   "in/../../x",
					   "up",
					   "/proc/self/root/etc/passwd"};
	int fd AUTO_FD = -1;

	write_file(place->fd, "file", "x");
	assert_int_equal(mkdirat(place->fd, "in", 0700), 0);
	assert_int_equal(symlinkat("file", place->fd, "link"), 0);
	assert_int_equal(symlinkat("/etc", place->fd, "dirlink"), 0);
	assert_int_equal(symlinkat("..", place->fd, "up"), 0);
	for (size_t i = 0; i < ARRAY_LEN(ways); i++)
		assert_int_equal(fd_open_beneath(place->fd, ways[i], O_RDONLY, 0), -1);
	fd = fd_open_beneath(place->fd, "in/../file", O_RDONLY, 0);
	assert_true(fd >= 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

static void replace_file_is_whole_with_its_mode(void **state)
{
	struct place *place = *state;
	struct strbuf buf AUTO_STRBUF = STRBUF_NONE;
	struct error err;
	struct stat st;

	umask(077);
	write_file(place->fd, "f.part", "left over by a crash");
	assert_int_equal(fd_replace_file(place->fd, "f", "one", 3, 0644, &err), 0);
	assert_int_equal(fd_replace_file(place->fd, "f", "second", 6, 0640, &err), 0);
	umask(022);
	strbuf_init(&buf, 100);
	assert_int_equal(fd_read_file(place->fd, "f", &buf, &err), 0);
	assert_string_equal(buf.data, "second");
	assert_int_equal(fstatat(place->fd, "f", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(faccessat(place->fd, "f.part", F_OK, 0), -1);
}

static void replace_file_failure_leaves_the_old_one(void **state)
{
	struct place *place = *state;
	struct strbuf buf AUTO_STRBUF = STRBUF_NONE;
	struct rlimit old, none = {3, 0};
	struct error err = {.kind = ERROR_NONE};
	char name[400];

	assert_int_equal(fd_replace_file(place->fd, "f", "old", 3, 0600, &err), 0);
	getrlimit(RLIMIT_FSIZE, &old);
	none.rlim_max = old.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &none);
	assert_int_equal(fd_replace_file(place->fd, "f", "new and long", 12, 0600, &err),
			 ERROR_FAILED);
	setrlimit(RLIMIT_FSIZE, &old);
	signal(SIGXFSZ, SIG_DFL);
	strbuf_init(&buf, 100);
	assert_int_equal(fd_read_file(place->fd, "f", &buf, &err), 0);
	assert_string_equal(buf.data, "old");
	assert_int_equal(faccessat(place->fd, "f.part", F_OK, 0), -1);
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(fd_replace_file(place->fd, name, "x", 1, 0600, &err), ERROR_FAILED);
}

static void read_file_says_what_is_wrong(void **state)
{
	struct place *place = *state;
	struct strbuf buf AUTO_STRBUF = STRBUF_NONE;
	struct error err;

	strbuf_init(&buf, 3);
	assert_int_equal(fd_read_file(place->fd, "missing", &buf, &err), ERROR_USAGE);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(mkdirat(place->fd, "dir", 0700), 0);
	assert_int_equal(fd_read_file(place->fd, "dir", &buf, &err), ERROR_USAGE);
	assert_non_null(strstr(err.message, "regular"));
	assert_int_equal(mkfifoat(place->fd, "fifo", 0600), 0);
	assert_int_equal(fd_read_file(place->fd, "fifo", &buf, &err), ERROR_USAGE);
	write_file(place->fd, "big", "1234");
	assert_int_equal(fd_read_file(place->fd, "big", &buf, &err), ERROR_USAGE);
	assert_non_null(strstr(err.message, "3 bytes"));
	assert_int_equal(symlinkat("big", place->fd, "link"), 0);
	assert_int_equal(fd_read_file(place->fd, "link", &buf, &err), ERROR_USAGE);
}

static void mkdir_all_makes_private_parents(void **state)
{
	struct place *place = *state;
	char *path AUTO_FREE = mem_printf("%s/a/b/c", place->path);
	char *through AUTO_FREE = mem_printf("%s/a/b/file/d", place->path);
	struct stat st;

	umask(0);
	assert_int_equal(fd_mkdir_all(path), 0);
	umask(022);
	assert_int_equal(fd_mkdir_all(path), 0);
	assert_int_equal(fstatat(place->fd, "a/b", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	write_file(place->fd, "a/b/file", "");
	assert_int_equal(fd_mkdir_all(through), -1);
	through[strlen(through) - 2] = '\0';
	assert_int_equal(fd_mkdir_all(through), -1);
	assert_int_equal(errno, ENOTDIR);
}

static void remove_tree_links_are_not_followed(void **state)
{
	struct place *place = *state;

	assert_int_equal(mkdirat(place->fd, "keep", 0700), 0);
	write_file(place->fd, "keep/me", "x");
	assert_int_equal(mkdirat(place->fd, "t", 0700), 0);
	assert_int_equal(symlinkat("../keep", place->fd, "t/link"), 0);
	assert_int_equal(symlinkat("t", place->fd, "link"), 0);
	assert_int_equal(fd_remove_tree(place->fd, "link"), 0);
	assert_int_equal(faccessat(place->fd, "t", F_OK, 0), 0);
	assert_int_equal(fd_remove_tree(place->fd, "t"), 0);
	assert_int_equal(faccessat(place->fd, "t", F_OK, 0), -1);
	assert_int_equal(faccessat(place->fd, "keep/me", F_OK, 0), 0);
	assert_int_equal(fd_remove_tree(place->fd, "t"), 0);
}

static void remove_tree_unwritable_and_unreadable(void **state)
{
	struct place *place = *state;

	assert_int_equal(mkdirat(place->fd, "t", 0700), 0);
	assert_int_equal(mkdirat(place->fd, "t/a", 0700), 0);
	assert_int_equal(mkdirat(place->fd, "t/a/b", 0700), 0);
	write_file(place->fd, "t/a/b/f", "x");
	assert_int_equal(fchmodat(place->fd, "t/a/b", 0, 0), 0);
	assert_int_equal(fchmodat(place->fd, "t/a", 0500, 0), 0);
	assert_int_equal(fchmodat(place->fd, "t", 0, 0), 0);
	assert_int_equal(fd_remove_tree(place->fd, "t"), 0);
	assert_int_equal(faccessat(place->fd, "t", F_OK, 0), -1);
}

/* Each level costs a descriptor to walk: a tree that is deeper than there are descriptors. */
static void remove_tree_deeper_than_descriptors(void **state)
{
	struct place *place = *state;
	struct rlimit old, few;
	int at = fcntl(place->fd, F_DUPFD_CLOEXEC, 3);

	for (int i = 0; i < 3000; i++) {
		int next;

		assert_int_equal(mkdirat(at, "d", 0700), 0);
		if (i % 50 == 0)
			write_file(at, "f", "x");
		next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		close(at);
		at = next;
	}
	close(at);
	getrlimit(RLIMIT_NOFILE, &old);
	few = old;
	few.rlim_cur = 256;
	setrlimit(RLIMIT_NOFILE, &few);
	assert_int_equal(fd_remove_tree(place->fd, "d"), 0);
	setrlimit(RLIMIT_NOFILE, &old);
	assert_int_equal(faccessat(place->fd, "d", F_OK, 0), -1);
	assert_int_equal(fd_remove_tree(place->fd, "f"), 0);
}

static void now_does_not_go_back(void **state)
{
	long long before = fd_now_ms();

	(void)state;
	assert_true(before > 0);
	assert_true(fd_now_ms() >= before);
}

#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, place_make, place_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(read_all_stops_at_the_cap),
	    cmocka_unit_test(read_all_from_a_pipe_in_pieces),
	    cmocka_unit_test(write_all_to_a_closed_pipe_fails),
	    cmocka_unit_test(steal_leaves_minus_one),
	    cmocka_unit_test(memfd_sealed_cannot_be_changed),
	    IN_PLACE(open_beneath_no_way_out),
	    IN_PLACE(replace_file_is_whole_with_its_mode),
	    IN_PLACE(replace_file_failure_leaves_the_old_one),
	    IN_PLACE(read_file_says_what_is_wrong),
	    IN_PLACE(mkdir_all_makes_private_parents),
	    IN_PLACE(remove_tree_links_are_not_followed),
	    IN_PLACE(remove_tree_unwritable_and_unreadable),
	    IN_PLACE(remove_tree_deeper_than_descriptors),
	    cmocka_unit_test(now_does_not_go_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
