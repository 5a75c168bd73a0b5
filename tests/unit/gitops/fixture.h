/*
 * A small repository for the tests of gitops: an empty git directory in a temporary place,
 * with a quarantine beside it. Trees are made by the code under test or, for what it refuses
 * to make (links, submodules, odd modes), by git itself.
 */
#ifndef TESTS_GITOPS_FIXTURE_H
#define TESTS_GITOPS_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <unistd.h>

#include <cmocka.h>

#include "gitops/edit.h"
#include "gitops/repo.h"
#include "gitops/tree.h"
#include "gitops/view.h"
#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"

#define EMPTY_TREE "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

struct fixture {
	char dir[64];
	char *gitdir, *objects;
	struct gitops_repo *repo;
	struct error err;
};

/* Runs a program (argv, NULL-terminated) in dir with input; its output (NUL-terminated,
 * owned) or fails the test. */
static inline char *run_program(const char *dir, const char *const *argv, const char *input)
{
	int in[2], out[2], status;
	struct strbuf buf;

	assert_int_equal(pipe(in), 0);
	assert_int_equal(pipe(out), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		static char *const env[] = {
		    (char *)(uintptr_t) "PATH=/usr/bin:/bin",
		    (char *)(uintptr_t) "HOME=/nonexistent",
		    (char *)(uintptr_t) "GIT_CONFIG_NOSYSTEM=1",
		    (char *)(uintptr_t) "GIT_AUTHOR_NAME=t",
		    (char *)(uintptr_t) "GIT_AUTHOR_EMAIL=t@example.org",
		    (char *)(uintptr_t) "GIT_COMMITTER_NAME=t",
		    (char *)(uintptr_t) "GIT_COMMITTER_EMAIL=t@example.org",
		    (char *)(uintptr_t) "GIT_AUTHOR_DATE=1700000000 +0000",
		    (char *)(uintptr_t) "GIT_COMMITTER_DATE=1700000000 +0000",
		    NULL};
		char *args[64] = {NULL};
		for (size_t i = 0; argv[i] && i < 63; i++)
			args[i] = (char *)(uintptr_t)argv[i];
		dup2(in[0], 0);
		dup2(out[1], 1);
		close(in[1]);
		close(out[0]);
		if (chdir(dir) == 0)
			execvpe(args[0], args, env);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	assert_int_equal(fd_write_all(in[1], input ? input : "", input ? strlen(input) : 0), 0);
	close(in[1]);
	strbuf_init(&buf, STRBUF_MAX);
	assert_int_equal(fd_read_all(out[0], &buf), 0);
	close(out[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status != 0)
		fail_msg("%s ends with %d: %s", argv[0], status, buf.data);
	while (buf.len && buf.data[buf.len - 1] == '\n')
		buf.data[--buf.len] = '\0';
	return strbuf_steal(&buf);
}

#define GIT(f, input, ...)                                                                     \
	run_program((f)->gitdir,                                                               \
		    (const char *const[]){"git", "--git-dir=.", __VA_ARGS__, NULL}, input)

static inline void fixture_open(struct fixture *f)
{
	struct gitops_paths paths = {.gitdir = f->gitdir, .quarantine = f->objects};

	if (repo_open(&paths, &f->repo, &f->err) < 0)
		fail_msg("%s", f->err.message);
}

static inline void fixture_init(struct fixture *f)
{
	memset(f, 0, sizeof(*f));
	strcpy(f->dir, "/tmp/gitops-test-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	f->gitdir = mem_printf("%s/repo.git", f->dir);
	f->objects = mem_printf("%s/objects", f->dir);
	assert_int_equal(mkdir(f->objects, 0700), 0);
	free(run_program(f->dir,
			 (const char *const[]){"git", "init", "-q", "--bare", "repo.git", NULL},
			 NULL));
	fixture_open(f);
}

static inline void fixture_release(struct fixture *f)
{
	repo_close(f->repo);
	fd_remove_tree(AT_FDCWD, f->dir);
	free(f->gitdir);
	free(f->objects);
}

/* A tree of one or more files: path, content, path, content, …, NULL. */
static inline void fixture_tree(struct fixture *f, char tree[GITOPS_OID_SIZE], ...)
{
	struct view *view = view_new(f->repo, EMPTY_TREE, NULL, &f->err);
	va_list args;
	const char *path;

	assert_non_null(view);
	va_start(args, tree);
	while ((path = va_arg(args, const char *))) {
		const char *text = va_arg(args, const char *);
		if (view_put(view, path, VIEW_FILE, text, strlen(text), &f->err) < 0)
			fail_msg("%s", f->err.message);
	}
	va_end(args);
	if (tree_write(view, tree, &f->err) < 0)
		fail_msg("%s", f->err.message);
	view_free(view);
}

/* The bytes of a file of the view; owned. */
static inline char *fixture_read(struct view *view, const char *path, size_t *len)
{
	struct strbuf buf;
	struct error err = {0};

	strbuf_init(&buf, STRBUF_MAX);
	if (view_read(view, path, &buf, &err) < 0)
		fail_msg("%s", err.message);
	if (len)
		*len = buf.len;
	return strbuf_steal(&buf);
}

#endif
