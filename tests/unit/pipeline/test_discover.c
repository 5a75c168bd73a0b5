#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline/base/error.h"
#include "pipeline/base/fdio.h"
#include "pipeline/base/json.h"
#include "pipeline/base/mem.h"
#include "pipeline/discover.h"

static char root[] = "/tmp/test-discover-XXXXXX";

static void put(const char *name, const char *text)
{
	char *path AUTO_FREE = mem_printf("%s/%s", root, name);
	char *dir AUTO_FREE = mem_strdup(path);
	FILE *file;

	*strrchr(dir, '/') = '\0';
	assert_int_equal(fd_mkdir_all(dir), 0);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static int make_repositories(void **state)
{
	(void)state;
	strcpy(root, "/tmp/test-discover-XXXXXX");
	if (!mkdtemp(root))
		return -1;
	put("main/.git/HEAD", "ref: refs/heads/main\n");
	put("main/.git/objects/info/alternates", "# c\n../../../other/objects\n/nonexistent\n");
	put("main/.git/refs/x", "");
	put("main/.git/config",
	    "[core]\n\tsshCommand = evil\n[url \"file:///evil\"]\n\tpushInsteadOf = good\n"
	    "[remote \"origin\"]\n\turl = ../bare.git\n\tpushurl = /evil\n[remote \"net\"]\n"
	    "\turl = git@example.com:a/b.git\n");
	put("main/sub/deep/x", "");
	put("main/.git/worktrees/w/HEAD", "ref: refs/heads/w\n");
	put("main/.git/worktrees/w/commondir", "../..\n");
	put("linked/x", "");
	put("other/objects/x", "");
	put("bare.git/HEAD", "ref: refs/heads/main\n");
	put("bare.git/objects/x", "");
	put("bare.git/refs/x", "");
	put("plain/x", "");
	{
		char *text AUTO_FREE = mem_printf("gitdir: %s/main/.git/worktrees/w\n", root);

		put("linked/.git", text);
	}
	return 0;
}

static int remove_repositories(void **state)
{
	(void)state;
	return fd_remove_tree(AT_FDCWD, root);
}

static int find(const char *below, struct repository *repo, struct error *err)
{
	char *path AUTO_FREE = mem_printf("%s/%s", root, below);

	memset(err, 0, sizeof(*err));
	return repository_find(path, repo, err);
}

static void find_from_below_work_tree(void **state)
{
	char *git AUTO_FREE = mem_printf("%s/main/.git", root), *other AUTO_FREE = NULL;
	struct repository repo;
	struct error err;

	(void)state;
	other = mem_printf("%s/other/objects", root);
	assert_int_equal(find("main/sub/deep", &repo, &err), 0);
	assert_string_equal(repo.git_dir, git);
	assert_string_equal(repo.common_dir, git);
	assert_int_equal(repo.alternate_count, 1);
	assert_string_equal(repo.alternates[0], other);
	repository_release(&repo);
}

static void find_linked_work_tree_and_bare(void **state)
{
	char *git AUTO_FREE = mem_printf("%s/main/.git", root);
	struct repository repo;
	struct error err;

	(void)state;
	assert_int_equal(find("linked", &repo, &err), 0);
	assert_string_equal(repo.common_dir, git);
	assert_string_not_equal(repo.git_dir, git);
	repository_release(&repo);
	assert_int_equal(find("bare.git", &repo, &err), 0);
	assert_null(repo.work_dir);
	repository_release(&repo);
}

static void find_none_is_told(void **state)
{
	struct repository repo;
	struct error err;

	(void)state;
	assert_int_equal(find("plain", &repo, &err), ERROR_USAGE);
	assert_non_null(strstr(err.message, "not in a git repository"));
	assert_true(err.next[0]);
	repository_release(&repo);
	assert_int_equal(find("missing", &repo, &err), ERROR_USAGE);
	repository_release(&repo);
}

static void remote_url_only_url_counts(void **state)
{
	struct repository repo;
	struct error err;
	char *origin, *net, *bare AUTO_FREE = NULL;

	(void)state;
	assert_int_equal(find("main", &repo, &err), 0);
	origin = repository_remote_url(&repo, "origin", &err);
	net = repository_remote_url(&repo, "net", &err);
	bare = mem_printf("%s/bare.git", root);
	assert_string_equal(origin, bare);
	assert_string_equal(net, "git@example.com:a/b.git");
	assert_null(repository_remote_url(&repo, "none", &err));
	assert_non_null(strstr(err.message, "no remote"));
	free(origin);
	free(net);
	net = repository_remote_url(&repo, "https://example.com/x", &err);
	assert_string_equal(net, "https://example.com/x");
	free(net);
	repository_release(&repo);
}

static void remote_url_relative_is_told_as_what_it_leads_to(void **state)
{
	static const struct {
		const char *given, *wanted; /* below root; wanted NULL: as given */
	} cases[] = {
	    {"./bare.git", "/bare.git"},
	    {"main/sub/../../bare.git", "/bare.git"},
	    {"link/../../bare.git", "/bare.git"}, /* by the links, not by the words */
	    {"nowhere/../no.git", "/no.git"},
	    {"main/./nowhere//no.git/", "/main/nowhere/no.git"},
	    {"nowhere/../../../../../../../../no.git", NULL},
	};
	struct repository repo;
	struct error err;
	char *cwd AUTO_FREE = getcwd(NULL, 0), *there AUTO_FREE = realpath(root, NULL);
	char *far AUTO_FREE = mem_printf("%s/link", root);

	(void)state;
	assert_int_equal(find("main", &repo, &err), 0);
	assert_int_equal(symlink("main/sub", far), 0);
	assert_int_equal(chdir(root), 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *url AUTO_FREE = repository_remote_url(&repo, cases[i].given, &err);
		char *wanted AUTO_FREE =
		    mem_printf("%s%s", cases[i].wanted ? there : "",
			       cases[i].wanted ? cases[i].wanted : "/no.git");

		assert_string_equal(url, wanted);
	}
	assert_int_equal(chdir(cwd), 0);
	assert_int_equal(unlink(far), 0);
	repository_release(&repo);
}

static void remotes_each_once(void **state)
{
	struct repository repo;
	struct error err;
	struct json *names AUTO_JSON = NULL;

	(void)state;
	assert_int_equal(find("main", &repo, &err), 0);
	names = repository_remotes(&repo);
	assert_int_equal(js_len(names), 2);
	assert_string_equal(js_text(js_at(names, 0)), "origin");
	assert_string_equal(js_text(js_at(names, 1)), "net");
	repository_release(&repo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(find_from_below_work_tree),
	    cmocka_unit_test(find_linked_work_tree_and_bare),
	    cmocka_unit_test(find_none_is_told),
	    cmocka_unit_test(remote_url_only_url_counts),
	    cmocka_unit_test(remote_url_relative_is_told_as_what_it_leads_to),
	    cmocka_unit_test(remotes_each_once),
	};

	return cmocka_run_group_tests(tests, make_repositories, remove_repositories);
}
