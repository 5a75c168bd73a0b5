/* The base of a run: refs and formats read from real repositories that git made. */
#include "fixture.h"

#include "gitops/base.h"
#include "gitops/refs.h"
#include "gitops/status.h"
#include "pipeline/base/json.h"

struct scene {
	struct fixture f;
	char *work; /* a work tree with a repository */
	char *gitdir;
};

#define WORK(s, ...)                                                                           \
	free(run_program((s)->work, (const char *const[]){"git", __VA_ARGS__, NULL}, NULL))

static void write_text(struct scene *s, const char *name, const char *text)
{
	AUTO_FREE char *path = mem_printf("%s/%s", s->work, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
	close(fd);
}

static void scene_init(struct scene *s)
{
	memset(s, 0, sizeof(*s));
	fixture_init(&s->f);
	s->work = mem_printf("%s/work", s->f.dir);
	s->gitdir = mem_printf("%s/.git", s->work);
	assert_int_equal(mkdir(s->work, 0755), 0);
	WORK(s, "init", "-q", "-b", "main");
}

static void commit_all(struct scene *s)
{
	WORK(s, "add", "-A");
	WORK(s, "commit", "-q", "-m", "a commit");
}

static void scene_release(struct scene *s)
{
	free(s->work);
	free(s->gitdir);
	fixture_release(&s->f);
}

static struct json *read_base(struct scene *s, const char *rev)
{
	struct gitops_paths paths = {.gitdir = s->gitdir};

	s->f.err = (struct error){0};
	return base_read(&paths, rev, NULL, &s->f.err);
}

static void expect_refused(struct scene *s, const char *rev, const char *part)
{
	struct json *base = read_base(s, rev);

	assert_null(base);
	assert_int_equal(s->f.err.kind, ERROR_USAGE);
	if (!strstr(s->f.err.message, part))
		fail_msg("'%s' does not say '%s'", s->f.err.message, part);
	assert_null(strchr(s->f.err.message, '\n'));
}

static void head_of_a_branch_is_found(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s);
	write_text(&s, "package.json", "{}\n");
	write_text(&s, "a", "1");
	AUTO_FREE char *dir = mem_printf("%s/.agent", s.work);
	assert_int_equal(mkdir(dir, 0755), 0);
	write_text(&s, ".agent/config", "[test]\n\tcommand = make\n");
	commit_all(&s);
	write_text(&s, ".agent/config",
		   "[test]\n\tcommand = evil\n"); /* uncommitted: not seen */
	struct json *base = read_base(&s, "HEAD");
	if (!base)
		fail_msg("%s", s.f.err.message);
	assert_string_equal(js_str(base, "ref", ""), "refs/heads/main");
	assert_string_equal(js_str(base, "config", ""), "[test]\n\tcommand = make\n");
	assert_int_equal(js_int(base, "committer_time", 0), 1700000000);
	assert_string_equal(js_str(base, "object_format", ""), "sha1");
	assert_int_equal(js_len(js_get(base, "files")), 1);
	assert_string_equal(js_str(js_at(js_get(base, "files"), 0), "path", ""),
			    "package.json");
	AUTO_FREE char *commit = mem_strdup(js_str(base, "commit", ""));
	js_free(base);
	/* the same by other names, packed too */
	WORK(&s, "tag", "-a", "-m", "t", "v1");
	WORK(&s, "branch", "other");
	WORK(&s, "branch", "dir/inner");
	for (int packed = 0; packed < 2; packed++) {
		static const char *const revs[] = {
		    "main",	    "v1",	 "other", "dir/inner", "refs/heads/main",
		    "refs/tags/v1", "heads/main"};
		for (size_t i = 0; i < ARRAY_LEN(revs) - 1; i++) {
			base = read_base(&s, revs[i]);
			if (!base)
				fail_msg("%s: %s", revs[i], s.f.err.message);
			assert_string_equal(js_str(base, "commit", ""), commit);
			js_free(base);
		}
		WORK(&s, "pack-refs", "--all");
	}
	base = read_base(&s, commit);
	assert_non_null(base);
	assert_null(js_str(base, "ref", NULL));
	js_free(base);
	expect_refused(&s, "nowhere", "no branch, tag or ref");
	expect_refused(&s, "../../etc/passwd", "no branch, tag or ref");
	expect_refused(&s, "-x", "no branch, tag or ref");
	expect_refused(&s, "refs/heads/../../HEAD", "no branch, tag or ref");
	expect_refused(&s, "1111111111111111111111111111111111111111", "no object");
	scene_release(&s);
}

static void detached_head_linked_work_tree_and_bare_are_fine(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s);
	write_text(&s, "a", "1");
	commit_all(&s);
	WORK(&s, "worktree", "add", "-q", "-b", "side", "../linked");
	WORK(&s, "checkout", "-q", "--detach");
	struct json *base = read_base(&s, "HEAD");
	assert_non_null(base);
	assert_true(js_is_null(js_get(base, "ref")));
	js_free(base);
	AUTO_FREE char *linked = mem_printf("%s/worktrees/linked", s.gitdir);
	struct gitops_paths paths = {.gitdir = linked, .common = s.gitdir};
	base = base_read(&paths, "HEAD", NULL, &s.f.err);
	if (!base)
		fail_msg("%s", s.f.err.message);
	assert_string_equal(js_str(base, "ref", ""), "refs/heads/side");
	js_free(base);
	free(run_program(
	    s.f.dir,
	    (const char *const[]){"git", "clone", "-q", "--bare", "work", "bare.git", NULL},
	    NULL));
	AUTO_FREE char *bare = mem_printf("%s/bare.git", s.f.dir);
	paths = (struct gitops_paths){.gitdir = bare};
	base = base_read(&paths, "side", NULL, &s.f.err);
	assert_non_null(base);
	js_free(base);
	scene_release(&s);
}

static void configuration_comes_from_the_trusted_ref(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s);
	AUTO_FREE char *dir = mem_printf("%s/.agent", s.work);
	assert_int_equal(mkdir(dir, 0755), 0);
	write_text(&s, ".agent/config", "[test]\n\tcommand = theirs\n");
	commit_all(&s);
	WORK(&s, "checkout", "-q", "-b", "task");
	write_text(&s, ".agent/config", "[test]\n\tcommand = mine\n");
	write_text(&s, "package.json", "{}");
	commit_all(&s);
	struct gitops_paths paths = {.gitdir = s.gitdir};
	AUTO_JSON struct json *own = base_read(&paths, "task", NULL, &s.f.err);
	AUTO_JSON struct json *base =
	    base_read(&paths, "refs/heads/task", "refs/heads/main", &s.f.err);
	assert_non_null(own);
	assert_non_null(strstr(js_str(own, "config", ""), "mine"));
	assert_string_equal(js_str(own, "config_commit", ""), js_str(own, "commit", "?"));
	assert_string_equal(js_str(own, "config_ref", ""), "refs/heads/task");
	assert_non_null(base);
	assert_string_equal(js_str(base, "commit", ""), js_str(own, "commit", "?"));
	assert_non_null(strstr(js_str(base, "config", ""), "theirs"));
	assert_string_equal(js_str(base, "config_ref", ""), "refs/heads/main");
	assert_string_not_equal(js_str(base, "config_commit", ""), js_str(base, "commit", ""));
	assert_int_equal(js_len(js_get(base, "files")), 1);
	/* no such ref: nothing says how to test, and the pushed one does not step in */
	assert_null(base_read(&paths, "task", "refs/heads/none", &s.f.err));
	assert_non_null(strstr(s.f.err.message, "the configuration at refs/heads/none"));
	scene_release(&s);
}

static void expect_commit(struct scene *s, const char *rev, const char *commit, const char *ref)
{
	struct json *base AUTO_JSON = read_base(s, rev);

	if (!base)
		fail_msg("%s: %s", rev, s->f.err.message);
	assert_string_equal(js_str(base, "commit", ""), commit);
	assert_string_equal(js_str(base, "ref", ""), ref);
	assert_int_equal(s->f.err.kind, 0);
}

/* Two blobs whose ids begin with the same four digits, which are left in digits. */
static void write_alike(struct scene *s, char digits[5])
{
	static char seen[2000][GITOPS_OID_SIZE];

	for (int i = 0; i < 2000; i++) {
		AUTO_FREE char *text = mem_printf("%d\n", i);

		repo_hash_blob(text, strlen(text), seen[i]);
		for (int k = 0; k < i; k++) {
			if (memcmp(seen[i], seen[k], 4) != 0)
				continue;
			AUTO_FREE char *other = mem_printf("%d\n", k);
			write_text(s, "one", text);
			write_text(s, "two", other);
			memcpy(digits, seen[i], 4);
			digits[4] = '\0';
			return;
		}
	}
	fail_msg("no two of 2000 blobs are alike");
}

static void abbreviated_ids_are_taken_as_git_takes_them(void **state)
{
	struct scene s;
	char digits[5];

	(void)state;
	scene_init(&s);
	write_alike(&s, digits);
	commit_all(&s);
	AUTO_FREE char *commit =
	    run_program(s.work, (const char *const[]){"git", "rev-parse", "HEAD", NULL}, NULL);
	commit[strcspn(commit, "\n")] = '\0';
	AUTO_FREE char *abbreviated = mem_strndup(commit, 12), *three = mem_strndup(commit, 3);
	AUTO_FREE char *upper = mem_strdup(commit);
	for (char *p = upper; *p; p++)
		*p = (char)(*p >= 'a' ? *p - 'a' + 'A' : *p);

	expect_commit(&s, abbreviated, commit, "");
	expect_commit(&s, upper, commit, "");
	expect_refused(&s, three, "no branch, tag or ref");
	expect_refused(&s, digits, "more than one object's id begins with");
	/* a branch of that name comes first */
	WORK(&s, "commit", "-q", "--allow-empty", "-m", "another");
	AUTO_FREE char *name = mem_printf("refs/heads/%s", abbreviated);
	WORK(&s, "update-ref", name, "HEAD");
	AUTO_FREE char *other =
	    run_program(s.work, (const char *const[]){"git", "rev-parse", "HEAD", NULL}, NULL);
	other[strcspn(other, "\n")] = '\0';
	expect_commit(&s, abbreviated, other, name);
	scene_release(&s);
}

static void what_is_no_repository_is_refused_in_one_line(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s);
	expect_refused(&s, "HEAD", "no commit yet");
	AUTO_FREE char *none = mem_printf("%s/none", s.f.dir);
	struct gitops_paths paths = {.gitdir = none};
	assert_null(base_read(&paths, "HEAD", NULL, &s.f.err));
	assert_non_null(strstr(s.f.err.message, "not a git repository"));
	assert_int_equal(mkdir(none, 0755), 0);
	assert_null(base_read(&paths, "HEAD", NULL, &s.f.err));
	assert_int_equal(s.f.err.kind, ERROR_USAGE);
	scene_release(&s);
}

static void formats_that_cannot_be_read_are_refused(void **state)
{
	static const struct {
		const char *config, *part;
	} cases[] = {
	    {"[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n",
	     "sha256"},
	    {"[core]\n\trepositoryformatversion = 1\n[extensions]\n\trefStorage = reftable\n",
	     "reftable"},
	    {"[Core]\n RepositoryFormatVersion=1\n[ExTensions]\n PartialClone = \"origin\" # "
	     "x\n",
	     "partial clone"},
	    {"[remote \"origin\"]\n\tpromisor = true\n", "partial clone"},
	    {"[remote \"origin\"] promisor\n", "partial clone"},
	    {"[core]\n\trepositoryformatversion = 2\n", "format version 2"},
	    {"[core]\n\trepositoryformatversion = 1\n[extensions]\n\tsomethingNew = true\n",
	     "somethingnew"},
	};
	struct scene s;

	(void)state;
	scene_init(&s);
	write_text(&s, "a", "1");
	commit_all(&s);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		write_text(&s, ".git/config", cases[i].config);
		expect_refused(&s, "HEAD", cases[i].part);
	}
	write_text(&s, ".git/config",
		   "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = "
		   "true\n\tnoop\n[include]\n\tpath = /nonexistent\n garbage [[[\n");
	struct json *base = read_base(&s, "HEAD");
	if (!base)
		fail_msg("%s", s.f.err.message);
	js_free(base);
	scene_release(&s);
}

static void damaged_refs_and_objects_are_errors(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s);
	write_text(&s, "a", "1");
	commit_all(&s);
	write_text(&s, ".git/refs/heads/bad", "not an id\n");
	expect_refused(&s, "bad", "malformed");
	write_text(&s, ".git/refs/heads/loop", "ref: refs/heads/loop\n");
	expect_refused(&s, "loop", "leads through");
	write_text(&s, ".git/refs/heads/out", "ref: ../../outside\n");
	expect_refused(&s, "out", "no valid ref");
	write_text(&s, ".git/refs/heads/gone", "1111111111111111111111111111111111111111\n");
	expect_refused(&s, "gone", "no object");
	AUTO_FREE char *link = mem_printf("%s/.git/refs/heads/link", s.work);
	assert_int_equal(symlink("/etc/hostname", link), 0);
	assert_null(read_base(&s, "link"));
	AUTO_FREE char *fifo = mem_printf("%s/.git/refs/heads/dir", s.work);
	assert_int_equal(mkdir(fifo, 0755), 0);
	expect_refused(&s, "dir", "no branch");
	AUTO_FREE char *blob = run_program(
	    s.work, (const char *const[]){"git", "rev-parse", "HEAD:a", NULL}, NULL);
	expect_refused(&s, blob, "not a commit");
	scene_release(&s);
}

static void odd_configuration_files_are_refused_or_left_out(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s);
	AUTO_FREE char *dir = mem_printf("%s/.agent", s.work),
		       *link = mem_printf("%s/.agent/config", s.work);
	assert_int_equal(mkdir(dir, 0755), 0);
	assert_int_equal(symlink("/etc/passwd", link), 0);
	commit_all(&s);
	expect_refused(&s, "HEAD", "not a regular file");
	assert_int_equal(unlink(link), 0);
	write_text(&s, ".agent/config", "\xFF\xFE");
	commit_all(&s);
	expect_refused(&s, "HEAD", "not UTF-8");
	AUTO_FREE char *big = mem_calloc(70001, 1);
	memset(big, '#', 70000);
	write_text(&s, ".agent/config", big);
	commit_all(&s);
	expect_refused(&s, "HEAD", "bigger than");
	assert_int_equal(unlink(link), 0);
	assert_int_equal(rmdir(dir), 0);
	write_text(&s, ".agent", "somebody's file\n");
	commit_all(&s);
	struct json *base = read_base(&s, "HEAD");
	assert_non_null(base);
	assert_true(js_is_null(js_get(base, "config")));
	js_free(base);
	scene_release(&s);
}

static void status_counts_changes_and_writes_nothing(void **state)
{
	struct scene s;
	struct status_facts facts;
	struct stat before, after;

	(void)state;
	scene_init(&s);
	write_text(&s, "a", "1");
	write_text(&s, "b", "1");
	write_text(&s, ".gitignore", "ignored\n");
	commit_all(&s);
	AUTO_FREE char *index = mem_printf("%s/index", s.gitdir);
	assert_int_equal(stat(index, &before), 0);
	assert_int_equal(status_read(s.gitdir, s.work, &facts, &s.f.err), 0);
	assert_int_equal(facts.changed, 0);
	write_text(&s, "a", "changed");
	write_text(&s, "new", "1");
	write_text(&s, "ignored", "1");
	write_text(&s, "staged", "1");
	WORK(&s, "add", "staged");
	assert_int_equal(stat(index, &before), 0);
	assert_int_equal(status_read(s.gitdir, s.work, &facts, &s.f.err), 0);
	assert_int_equal(facts.changed, 3);
	assert_int_equal(facts.untracked, 1);
	assert_int_equal(stat(index, &after), 0);
	assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
	assert_int_equal(before.st_ino, after.st_ino);
	scene_release(&s);
}

/* A FIFO in the place of a file of the repository, at rest or found by a ref. */
static void fifo_in_the_repository_is_told_at_once(void **state)
{
	static const char *const names[] = {"HEAD",
					    "config",
					    "packed-refs",
					    "objects/info/alternates",
					    "objects/pack/multi-pack-index",
					    "refs/heads/main"};
	struct scene s;
	struct status_facts facts;

	(void)state;
	scene_init(&s);
	write_text(&s, "a", "1\n");
	commit_all(&s);
	alarm(20);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		AUTO_FREE char *path = mem_printf("%s/%s", s.gitdir, names[i]);
		AUTO_FREE char *kept = mem_printf("%s.kept", path);
		bool there = rename(path, kept) == 0;

		assert_int_equal(mkfifo(path, 0600), 0);
		struct json *base AUTO_JSON = read_base(&s, "HEAD");
		assert_null(base);
		if (!strstr(s.f.err.message,
			    strrchr(names[i], '/') ? strrchr(names[i], '/') + 1 : names[i]))
			fail_msg("%s: %s", names[i], s.f.err.message);
		if (i < 4)
			assert_true(status_read(s.gitdir, s.work, &facts, &s.f.err) < 0);
		assert_int_equal(unlink(path), 0);
		if (there)
			assert_int_equal(rename(kept, path), 0);
	}
	alarm(0);
	scene_release(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(head_of_a_branch_is_found),
	    cmocka_unit_test(detached_head_linked_work_tree_and_bare_are_fine),
	    cmocka_unit_test(configuration_comes_from_the_trusted_ref),
	    cmocka_unit_test(abbreviated_ids_are_taken_as_git_takes_them),
	    cmocka_unit_test(what_is_no_repository_is_refused_in_one_line),
	    cmocka_unit_test(formats_that_cannot_be_read_are_refused),
	    cmocka_unit_test(damaged_refs_and_objects_are_errors),
	    cmocka_unit_test(odd_configuration_files_are_refused_or_left_out),
	    cmocka_unit_test(fifo_in_the_repository_is_told_at_once),
	    cmocka_unit_test(status_counts_changes_and_writes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
