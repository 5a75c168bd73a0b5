/* What agent maintain learns of a repository: tasks, what they see, what was merged. */
#include "fixture.h"

#include "gitops/tasks.h"
#include "pipeline/base/json.h"

struct scene {
	struct fixture f;
	char *work; /* a work tree with a repository */
	char *gitdir;
};

#define WORK(s, ...)                                                                           \
	free(run_program((s)->work, (const char *const[]){"git", __VA_ARGS__, NULL}, NULL))

static void scene_init(struct scene *s)
{
	memset(s, 0, sizeof(*s));
	fixture_init(&s->f);
	s->work = mem_printf("%s/work", s->f.dir);
	s->gitdir = mem_printf("%s/.git", s->work);
	assert_int_equal(mkdir(s->work, 0755), 0);
	WORK(s, "init", "-q", "-b", "main");
}

static void scene_release(struct scene *s)
{
	free(s->work);
	free(s->gitdir);
	fixture_release(&s->f);
}

/* A commit with one file more. */
static void commit(struct scene *s, const char *name, const char *text)
{
	AUTO_FREE char *path = mem_printf("%s/%s", s->work, name);
	int fd;

	for (char *slash = strchr(path + strlen(s->work) + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0755);
		*slash = '/';
	}
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
	close(fd);
	WORK(s, "add", "-A");
	WORK(s, "commit", "-q", "-m", "a commit");
}

/* what: the rest of the job. */
static struct json *ask(struct scene *s, const char *what)
{
	char *text AUTO_FREE = mem_printf("{\"paths\":{\"repo\":\"%s\"},%s}", s->gitdir, what);
	AUTO_JSON struct json *job = js_parse(text, strlen(text), 65536, "job", &s->f.err);
	struct json *answer;

	assert_non_null(job);
	answer = tasks_read(job, &s->f.err);
	if (!answer)
		fail_msg("%s", s->f.err.message);
	return answer;
}

static void read_tells_each_file_or_why_not(void **state)
{
	struct scene s;
	AUTO_JSON struct json *none = NULL, *answer = NULL;
	const struct json *files;

	(void)state;
	scene_init(&s);
	commit(&s, "a.txt", "a\n");
	none = ask(&s, "\"read\":true");
	assert_int_equal(js_len(js_get(none, "files")), 0);
	commit(&s, ".agent/maintain/one.md", "---\n---\nDo\n");
	commit(&s, ".agent/maintain/readme.txt", "no task\n");
	commit(&s, ".agent/maintain/sub/two.md", "no task\n");
	commit(&s, ".agent/maintain/bad.md", "\xff\n");
	WORK(&s, "update-index", "--add", "--cacheinfo",
	     "120000,78981922613b2afb6025042ff6bd878ac1994e85,.agent/maintain/link.md");
	WORK(&s, "commit", "-q", "-m", "a link");
	answer = ask(&s, "\"read\":true");
	files = js_get(answer, "files");
	assert_int_equal(js_len(files), 3);
	assert_string_equal(js_str(js_at(files, 0), "path", ""), ".agent/maintain/bad.md");
	assert_string_equal(js_str(js_at(files, 0), "why", ""), "it is no text in UTF-8");
	assert_string_equal(js_str(js_at(files, 1), "why", ""), "it is no regular file");
	assert_string_equal(js_str(js_at(files, 2), "text", ""), "---\n---\nDo\n");
	assert_string_equal(js_str(answer, "ref", ""), "refs/heads/main");
	scene_release(&s);
}

static void seen_changes_with_what_matches(void **state)
{
	static const char job[] = "\"seen\":[[\"src\"],[]]";
	struct scene s;
	AUTO_JSON struct json *first = NULL, *second = NULL, *third = NULL;

	(void)state;
	scene_init(&s);
	commit(&s, "src/a.c", "a\n");
	first = ask(&s, job);
	commit(&s, "doc.txt", "x\n");
	second = ask(&s, job);
	commit(&s, "src/a.c", "b\n");
	third = ask(&s, job);
#define SEEN(answer, i) js_text(js_at(js_get(answer, "seen"), i))
	assert_string_equal(SEEN(first, 0), SEEN(second, 0));
	assert_string_not_equal(SEEN(second, 0), SEEN(third, 0));
	assert_string_not_equal(SEEN(first, 1), SEEN(second, 1));
	scene_release(&s);
}

static bool merged(struct scene *s, const char *oid, const char *changes)
{
	char *job AUTO_FREE =
	    mem_printf("\"made\":[{\"commit\":\"%s\",\"changes\":[%s]}]", oid, changes);
	AUTO_JSON struct json *answer = ask(s, job);

	return js_bool(js_at(js_get(answer, "made"), 0), "merged", false);
}

static void made_is_merged_by_name_or_by_what_it_did(void **state)
{
	static const char b[] =
	    "{\"path\":\"a.txt\",\"new_oid\":\"61780798228d17af2d34fce4cfbdf35556832472\"}";
	static const char gone[] = ",{\"path\":\"old.txt\",\"new_oid\":\"\"}";
	char *both AUTO_FREE = mem_printf("%s%s", b, gone);
	struct scene s;
	char *oid;

	(void)state;
	scene_init(&s);
	commit(&s, "a.txt", "a\n");
	WORK(&s, "checkout", "-q", "-b", "work");
	commit(&s, "a.txt", "b\n");
	oid =
	    run_program(s.work, (const char *const[]){"git", "rev-parse", "HEAD", NULL}, NULL);
	oid[strcspn(oid, "\n")] = '\0';
	assert_true(merged(&s, oid, ""));
	WORK(&s, "checkout", "-q", "main");
	commit(&s, "x.txt", "x\n");
	assert_false(merged(&s, oid, ""));
	assert_false(merged(&s, oid, b));
	commit(&s, "a.txt", "b\n"); /* squashed */
	assert_false(merged(&s, oid, ""));
	assert_true(merged(&s, oid, b));
	assert_true(merged(&s, oid, both));
	commit(&s, "old.txt", "there\n");
	assert_false(merged(&s, oid, both));
	assert_false(merged(&s, "0123", ""));
	assert_false(merged(&s, "0123456789012345678901234567890123456789", ""));
	free(oid);
	scene_release(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(read_tells_each_file_or_why_not),
	    cmocka_unit_test(seen_changes_with_what_matches),
	    cmocka_unit_test(made_is_merged_by_name_or_by_what_it_did),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
