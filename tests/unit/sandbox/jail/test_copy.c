/* Layers copied on top of each other mean what an overlay of them means. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "sandbox/jail/copy.h"

struct place {
	char name[32];
	int lower, upper, target;
};

static int open_dir(int at, const char *name)
{
	mkdirat(at, name, 0755);
	return openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int set_up(void **state)
{
	struct place *p = mem_calloc(1, sizeof(*p));
	int top AUTO_FD = -1;

	memcpy(p->name, "/tmp/copy-XXXXXX", 17);
	if (!mkdtemp(p->name))
		return -1;
	top = open(p->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	p->lower = open_dir(top, "lower");
	p->upper = open_dir(top, "upper");
	p->target = open_dir(top, "target");
	*state = p;
	return p->lower < 0 || p->upper < 0 || p->target < 0;
}

static int tear_down(void **state)
{
	struct place *p = *state;

	close(p->lower);
	close(p->upper);
	close(p->target);
	fd_remove_tree(AT_FDCWD, p->name);
	free(p);
	return 0;
}

static void put(int dir, const char *path, const char *text, mode_t mode)
{
	int fd AUTO_FD = openat(dir, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
	assert_int_equal(fchmod(fd, mode), 0);
}

static void assert_file(int dir, const char *path, const char *text, mode_t mode)
{
	struct strbuf got AUTO_STRBUF = STRBUF_NONE;
	int fd AUTO_FD = openat(dir, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	strbuf_init(&got, 4096);
	assert_true(fd >= 0 && fstat(fd, &st) == 0 && fd_read_all(fd, &got) == 0);
	assert_string_equal(got.data, text);
	assert_int_equal(st.st_mode & 07777, mode);
}

static bool is_there(int dir, const char *path)
{
	struct stat st;

	return fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void copy_both(const struct place *p)
{
	char where[64];

	assert_int_equal(copy_layer(p->lower, p->target, where, sizeof(where)), 0);
	assert_int_equal(copy_layer(p->upper, p->target, where, sizeof(where)), 0);
}

static void upper_layer_wins(void **state)
{
	struct place *p = *state;
	char link[16] = "";
	struct timespec times[2] = {{5, 0}, {7, 9}};
	struct stat st;

	put(p->lower, "both", "lower", 0644);
	put(p->lower, "tool", "x", 0755);
	mkdirat(p->lower, "dir", 0750);
	put(p->lower, "dir/kept", "kept", 0600);
	assert_int_equal(symlinkat("both", p->lower, "link"), 0);
	mkdirat(p->lower, "becomes-file", 0755);
	put(p->lower, "becomes-file/x", "x", 0644);
	put(p->lower, "becomes-dir", "x", 0644);
	put(p->upper, "both", "upper", 0640);
	mkdirat(p->upper, "dir", 0710);
	put(p->upper, "dir/more", "more", 0644);
	put(p->upper, "becomes-file", "now", 0644);
	mkdirat(p->upper, "becomes-dir", 0755);
	assert_int_equal(symlinkat("/etc", p->upper, "tool"), 0);
	utimensat(p->upper, "dir", times, 0);
	copy_both(p);
	assert_file(p->target, "both", "upper", 0640);
	assert_file(p->target, "dir/kept", "kept", 0600);
	assert_file(p->target, "dir/more", "more", 0644);
	assert_file(p->target, "becomes-file", "now", 0644);
	assert_true(is_there(p->target, "becomes-dir/."));
	assert_int_equal(readlinkat(p->target, "link", link, sizeof(link)), 4);
	assert_int_equal(readlinkat(p->target, "tool", link, sizeof(link)), 4);
	assert_int_equal(fstatat(p->target, "dir", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0710);
	assert_int_equal(st.st_mtim.tv_sec, 7);
}

static void whiteouts_and_opaque_directories_hide(void **state)
{
	struct place *p = *state;
	int opaque AUTO_FD = -1;

	put(p->lower, "file", "x", 0644);
	mkdirat(p->lower, "dir", 0755);
	put(p->lower, "dir/x", "x", 0644);
	mkdirat(p->lower, "opaque", 0755);
	put(p->lower, "opaque/old", "x", 0644);
	if (mknodat(p->upper, "file", S_IFCHR, makedev(0, 0)) < 0 ||
	    mknodat(p->upper, "dir", S_IFCHR, makedev(0, 0)) < 0)
		skip(); /* a kernel before 5.8, and not root */
	opaque = open_dir(p->upper, "opaque");
	put(p->upper, "opaque/new", "x", 0644);
	assert_int_equal(fsetxattr(opaque, "user.overlay.opaque", "y", 1, 0), 0);
	copy_both(p);
	assert_false(is_there(p->target, "file"));
	assert_false(is_there(p->target, "dir"));
	assert_false(is_there(p->target, "opaque/old"));
	assert_true(is_there(p->target, "opaque/new"));
}

/* A link in a lower layer must not lead the copy of an upper one out of the target. */
static void links_are_not_followed(void **state)
{
	struct place *p = *state;
	char *outside AUTO_FREE = mem_printf("%s/outside", p->name);

	mkdirat(AT_FDCWD, outside, 0755);
	assert_int_equal(symlinkat(outside, p->lower, "dir"), 0);
	assert_int_equal(symlinkat("/nonexistent/file", p->lower, "file"), 0);
	mkdirat(p->upper, "dir", 0755);
	put(p->upper, "dir/x", "x", 0644);
	put(p->upper, "file", "y", 0644);
	copy_both(p);
	assert_file(p->target, "dir/x", "x", 0644);
	assert_file(p->target, "file", "y", 0644);
	assert_int_equal(rmdir(outside), 0); /* still empty */
}

static void set_id_bits_are_dropped_and_devices_refused(void **state)
{
	struct place *p = *state;
	char where[64];

	put(p->lower, "tool", "x", 04755);
	assert_int_equal(copy_layer(p->lower, p->target, where, sizeof(where)), 0);
	assert_file(p->target, "tool", "x", 0755);
	mkdirat(p->upper, "a", 0755);
	assert_int_equal(mkfifoat(p->upper, "a/pipe", 0644), 0);
	assert_int_equal(copy_layer(p->upper, p->target, where, sizeof(where)), -1);
	assert_int_equal(errno, EINVAL);
	assert_string_equal(where, "a/pipe");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(upper_layer_wins, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(whiteouts_and_opaque_directories_hide, set_up,
					    tear_down),
	    cmocka_unit_test_setup_teardown(links_are_not_followed, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(set_id_bits_are_dropped_and_devices_refused, set_up,
					    tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
