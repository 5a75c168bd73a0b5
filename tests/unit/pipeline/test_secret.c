/* The way of a secret: out of the environment, through descriptors, into one locked page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/secret.h"

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static char dir[] = "/tmp/secret-XXXXXX";

static char *file(const char *name, const char *text, size_t len, mode_t mode)
{
	char *path = mem_printf("%s/%s", dir, name);
	int fd AUTO_FD = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, len), 0);
	assert_int_equal(fchmod(fd, mode), 0);
	return path;
}

static void holds(int fd, const char *wanted)
{
	struct error err;
	struct secret *secret = secret_take(fd, &err);
	const char *text;
	size_t len;

	if (!secret)
		fail_msg("%s", err.message);
	text = secret_expose(secret, &len);
	assert_int_equal(len, strlen(wanted));
	assert_memory_equal(text, wanted, len + 1);
	secret_wipe(secret);
}

/* ---- env: ---- */

static void adopted_variable_leaves_the_environment(void **state)
{
	char plain[] = "PLAIN=stays", key[] = "OPENAI_API_KEY=sk-one",
	     twice[] = "OPENAI_API_KEY=sk-two", mine[] = "MY_KEY=sk-mine",
	     none[] = "GH_TOKEN=", longer[] = "OPENAI_API_KEY_2=other";
	char *envp[] = {plain, key, mine, twice, none, longer, NULL};
	struct error err;
	int fd;

	(void)state;
	secret_adopt_env(envp, "MY_KEY");
	assert_ptr_equal(envp[0], plain);
	assert_ptr_equal(envp[1], longer);
	assert_null(envp[2]);
	/* the bytes are gone where they were */
	assert_memory_equal(key, "OPENAI_API_KEY=\0\0\0\0\0\0", sizeof(key));
	assert_memory_equal(twice, "OPENAI_API_KEY=\0\0\0\0\0\0", sizeof(twice));
	assert_memory_equal(mine, "MY_KEY=\0\0\0\0\0\0\0", sizeof(mine));
	assert_string_equal(longer, "OPENAI_API_KEY_2=other");

	fd = secret_open("env:OPENAI_API_KEY", &err);
	assert_true(fd >= 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(fcntl(fd, F_GET_SEALS) & SEALS, SEALS);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	holds(fd, "sk-one");
	/* again for the next round, with a position of its own */
	fd = secret_open("env:OPENAI_API_KEY", &err);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
	holds(fd, "sk-one");
	holds(secret_open("env:MY_KEY", &err), "sk-mine");
	assert_int_equal(secret_open("env:GH_TOKEN", &err), -1); /* empty: as if not set */
	assert_int_equal(secret_open("env:PLAIN", &err), -1);
	assert_int_equal(err.kind, ERROR_USAGE);
	/* by hand, and where there is no hand */
	assert_non_null(strstr(err.next, "export PLAIN"));
	assert_non_null(strstr(err.next, "a worker's job gets none"));
	assert_non_null(strstr(err.next, "LoadCredential="));
}

/* Of a proxy's address only the user and password go. */
static void adopted_proxy_keeps_its_address(void **state)
{
	char https[] = "https_proxy=http://u%3a1:p%40s%zz@proxy:3128/x",
	     other[] = "HTTPS_PROXY=http://proxy:3128", plain[] = "all_proxy=u:secret@proxy",
	     path[] = "http_proxy=http://proxy/a@b";
	char *envp[] = {https, other, plain, path, NULL};
	struct error err;

	(void)state;
	secret_adopt_env(envp, NULL);
	assert_ptr_equal(envp[3], path);
	assert_string_equal(https, "https_proxy=http://proxy:3128/x");
	assert_string_equal(other, "HTTPS_PROXY=http://proxy:3128");
	assert_string_equal(plain, "all_proxy=proxy");
	assert_string_equal(path, "http_proxy=http://proxy/a@b");
	assert_null(memmem(https, sizeof(https), "p%40", 4));
	assert_null(memmem(https, sizeof(https), "p@s", 3));
	assert_null(memmem(plain, sizeof(plain), "secret", 6));
	assert_true(secret_has_env("https_proxy"));
	assert_true(secret_has_env("all_proxy"));
	assert_false(secret_has_env("HTTPS_PROXY"));
	holds(secret_open("env:https_proxy", &err), "u:1:p@s%zz");
	holds(secret_open("env:all_proxy", &err), "u:secret");
}

/* The kernel's view: a child whose /proc/self/environ is read after it has adopted. */
static void adopted_variable_leaves_proc_environ(void **state)
{
	static const char program[] = "/proc/self/exe";
	char key[] = "ANTHROPIC_API_KEY=sk-planted-in-the-environment", plain[] = "PLAIN=stays",
	     name[] = "adopt-child";
	char *const argv[] = {name, NULL}, *const env[] = {key, plain, NULL};
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	int out[2], status;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		dup2(out[1], STDOUT_FILENO);
		execve(program, argv, env);
		_exit(1);
	}
	close(out[1]);
	strbuf_init(&text, 1 << 16);
	assert_int_equal(fd_read_all(out[0], &text), 0);
	close(out[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(text.len > 10);
	assert_non_null(memmem(text.data, text.len, "PLAIN=stays", 11));
	assert_null(memmem(text.data, text.len, "planted", 7));
}

static int adopt_child(char **envp)
{
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	int fd AUTO_FD = -1;

	secret_adopt_env(envp, NULL);
	if (getenv("ANTHROPIC_API_KEY"))
		return 1;
	fd = open("/proc/self/environ", O_RDONLY | O_CLOEXEC);
	strbuf_init(&text, 1 << 16);
	if (fd < 0 || fd_read_all(fd, &text) < 0)
		return 1;
	return fd_write_all(STDOUT_FILENO, text.data, text.len) < 0;
}

/* ---- file:, credential: ---- */

static void file_private_is_opened_not_read(void **state)
{
	char *path AUTO_FREE = file("good", "token\n", 6, 0600);
	char *source AUTO_FREE = mem_printf("file:%s", path);
	struct error err;
	int fd = secret_open(source, &err);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	holds(fd, "token");
}

static void file_home_is_known(void **state)
{
	char *old AUTO_FREE = getenv("HOME") ? mem_strdup(getenv("HOME")) : NULL;
	struct error err;

	(void)state;
	free(file("in-home", "token", 5, 0400));
	setenv("HOME", dir, 1);
	holds(secret_open("file:~/in-home", &err), "token");
	if (old)
		setenv("HOME", old, 1);
}

static void refused(const char *kind, const char *path, const char *words, const char *next)
{
	char *source AUTO_FREE = mem_printf("%s:%s", kind, path);
	struct error err = {.kind = ERROR_NONE};

	assert_int_equal(secret_open(source, &err), -1);
	assert_int_equal(err.kind, ERROR_USAGE);
	if (!strstr(err.message, words) || !strstr(err.next, next))
		fail_msg("%s; %s", err.message, err.next);
}

static void file_unfit_is_refused_with_the_remedy(void **state)
{
	static const mode_t modes[] = {0640, 0604, 0620, 0602, 0666};
	char *big = mem_calloc(SECRET_MAX + 1, 1);
	char *fifo AUTO_FREE = mem_printf("%s/fifo", dir);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		char *path AUTO_FREE = file("open", "token", 5, modes[i]);

		refused("file", path, "by others", "chmod 600 ");
	}
	char *empty AUTO_FREE = file("empty", "", 0, 0600);
	char *large AUTO_FREE = file("large", big, SECRET_MAX + 1, 0600);
	free(big);
	refused("file", empty, "is empty", "");
	refused("file", large, "larger than", "");
	refused("file", dir, "not a regular file", "");
	assert_int_equal(mkfifo(fifo, 0600), 0);
	refused("file", fifo, "not a regular file", "");
	refused("file", "/nonexistent/key", "cannot be opened", "");
	refused("file", "", "names nothing", "credential:NAME");
}

static void file_of_another_user_is_refused(void **state)
{
	char *path AUTO_FREE = file("other", "token", 5, 0600);

	(void)state;
	if (geteuid() == 0) {
		assert_int_equal(chown(path, 4321, 4321), 0);
		refused("file", path, "another user", "copy");
	}
}

static void credential_is_a_name_in_the_directory(void **state)
{
	struct error err;

	(void)state;
	free(file("push-token", "tok", 3, 0440)); /* as an ACL's mask shows */
	free(file("open-token", "tok", 3, 0444));
	unsetenv("CREDENTIALS_DIRECTORY");
	refused("credential", "push-token", "CREDENTIALS_DIRECTORY",
		"LoadCredential=push-token");
	setenv("CREDENTIALS_DIRECTORY", dir, 1);
	holds(secret_open("credential:push-token", &err), "tok");
	refused("credential", "open-token", "by others", "");
	refused("credential", "../etc/passwd", "no name", "");
	refused("credential", "..", "no name", "");
	refused("credential", "", "names nothing", "");
	refused("credential", "missing", "cannot be opened", "");
	unsetenv("CREDENTIALS_DIRECTORY");
}

/* ---- command: ---- */

static void command_output_is_sealed_and_kept(void **state)
{
	char *count AUTO_FREE = mem_printf("%s/count", dir);
	char *source AUTO_FREE =
	    mem_printf("command:/bin/sh -c 'echo x >>%s; echo \"a  key\"; env'", count);
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	struct error err;
	struct stat st;
	int fd;

	(void)state;
	setenv("UNRELATED", "must-not-be-seen", 1);
	for (int round = 0; round < 3; round++) {
		fd = secret_open(source, &err);
		assert_true(fd >= 0);
		assert_int_equal(fcntl(fd, F_GET_SEALS) & SEALS, SEALS);
		strbuf_release(&text);
		strbuf_init(&text, SECRET_MAX);
		assert_int_equal(fd_pread_all(fd, &text), 0);
		assert_int_equal(strncmp(text.data, "a  key\n", 7), 0);
		assert_null(strstr(text.data, "UNRELATED"));
		close(fd);
	}
	unsetenv("UNRELATED");
	assert_int_equal(stat(count, &st), 0);
	assert_int_equal(st.st_size, 2); /* once a run */
}

static void command_failures_are_told_apart(void **state)
{
	static const char *const cases[][2] = {
	    {"command:/bin/sh -c 'echo secret; exit 3'", "exit status 3"},
	    {"command:/bin/sh -c 'echo secret; kill -9 $$'", "signal 9"},
	    {"command:/bin/true", "written nothing"},
	    {"command:/bin/sh -c 'head -c 100000 /dev/zero 2>/dev/null'", ""},
	    {"command:/bin/sh -c 'head -c 16385 /dev/zero; exit 0'", "more than 16384"},
	    {"command:no-such-program-here", "not installed"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct error err = {.kind = ERROR_NONE};

		assert_int_equal(secret_open(cases[i][0], &err), -1);
		assert_int_equal(err.kind, ERROR_FAILED);
		if (!strstr(err.message, cases[i][1]))
			fail_msg("%s: %s", cases[i][0], err.message);
		assert_null(strstr(err.message, "secret"));
	}
}

static void source_malformed_is_refused_and_not_shown(void **state)
{
	static const char *const sources[] = {
	    "sk-planted-key", "", "env", "command:", "command:'open", "File:/x"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
		struct error err = {.kind = ERROR_NONE};

		assert_int_equal(secret_open(sources[i], &err), -1);
		assert_int_equal(err.kind, ERROR_USAGE);
		assert_null(strstr(err.message, "planted"));
	}
}

/* ---- in the row that owns it ---- */

static void take_strips_one_newline_and_closes(void **state)
{
	struct error err;
	int fd = fd_memfd_sealed("s", "line one\nline two\n\n", 19);
	struct secret *secret = secret_take(fd, &err);
	size_t len;

	(void)state;
	assert_non_null(secret);
	assert_string_equal(secret_expose(secret, &len), "line one\nline two\n");
	assert_int_equal(len, 18);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	secret_wipe(secret);
	secret_wipe(NULL);
}

static void take_ignores_the_position(void **state)
{
	int fd = fd_memfd_sealed("s", "token", 5);

	(void)state;
	lseek(fd, 3, SEEK_SET);
	holds(fd, "token");
}

static void take_unfit_is_refused_and_closed(void **state)
{
	static const struct {
		const char *text;
		size_t len;
	} cases[] = {{"", 0}, {"\n", 1}, {"a\0b", 3}, {"abc\0", 4}};
	char *big AUTO_FREE = mem_calloc(SECRET_MAX + 2, 1);
	struct error err;
	int fd;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		fd = fd_memfd_sealed("s", cases[i].text, cases[i].len);
		assert_null(secret_take(fd, &err));
		assert_int_equal(fcntl(fd, F_GETFD), -1);
	}
	memset(big, 'x', SECRET_MAX + 1);
	assert_null(secret_take(fd_memfd_sealed("s", big, SECRET_MAX + 1), &err));
	big[SECRET_MAX] = '\0';
	holds(fd_memfd_sealed("s", big, SECRET_MAX), big);
	assert_null(secret_take(-1, &err));
	assert_int_equal(err.kind, ERROR_FAILED);
}

/* Locked, not dumped, wiped in a child: as the kernel shows it. */
static void take_memory_is_out_of_reach(void **state)
{
	struct error err;
	struct secret *secret = secret_take(fd_memfd_sealed("s", "token", 5), &err);
	FILE *maps = fopen("/proc/self/smaps", "re");
	char line[512], flags[512] = "";
	bool inside = false;
	size_t len;
	int status;
	pid_t pid;

	(void)state;
	assert_non_null(secret);
	assert_non_null(maps);
	while (maps && fgets(line, sizeof(line), maps)) {
		unsigned long from, to;

		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = (uintptr_t)secret >= from && (uintptr_t)secret < to;
		else if (inside && strncmp(line, "VmFlags:", 8) == 0)
			memcpy(flags, line, sizeof(flags));
	}
	if (maps)
		fclose(maps);
	assert_non_null(strstr(flags, " dd")); /* do not dump */
	assert_non_null(strstr(flags, " wf")); /* wipe on fork */
#ifndef AGENT_SANITIZED			       /* the sanitizers make mlock do nothing */
	assert_non_null(strstr(flags, " lo"));
#endif
	pid = fork();
	if (pid == 0)
		_exit(secret_expose(secret, &len)[0] == '\0' ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_string_equal(secret_expose(secret, &len), "token");
	secret_wipe(secret);
}

int main(int argc, char **argv, char **envp)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(adopted_variable_leaves_the_environment),
	    cmocka_unit_test(adopted_variable_leaves_proc_environ),
	    cmocka_unit_test(adopted_proxy_keeps_its_address),
	    cmocka_unit_test(file_private_is_opened_not_read),
	    cmocka_unit_test(file_home_is_known),
	    cmocka_unit_test(file_unfit_is_refused_with_the_remedy),
	    cmocka_unit_test(file_of_another_user_is_refused),
	    cmocka_unit_test(credential_is_a_name_in_the_directory),
	    cmocka_unit_test(command_output_is_sealed_and_kept),
	    cmocka_unit_test(command_failures_are_told_apart),
	    cmocka_unit_test(source_malformed_is_refused_and_not_shown),
	    cmocka_unit_test(take_strips_one_newline_and_closes),
	    cmocka_unit_test(take_ignores_the_position),
	    cmocka_unit_test(take_unfit_is_refused_and_closed),
	    cmocka_unit_test(take_memory_is_out_of_reach),
	};
	int failed;

	if (argc == 1 && strcmp(argv[0], "adopt-child") == 0)
		return adopt_child(envp);
	if (!mkdtemp(dir))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	return fd_remove_tree(AT_FDCWD, dir) < 0 ? 1 : failed;
}
