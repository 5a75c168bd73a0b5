/* gitignore(5); git itself is the oracle. */
#include "fixture.h"

#include "gitops/ignore.h"

static bool is_ignored(const char *root, const char *sub, const char *path, bool is_dir)
{
	AUTO_IGNORE_STACK struct ignore_stack *stack = ignore_stack_new();

	ignore_push(stack, "", root, strlen(root));
	if (sub)
		ignore_push(stack, "sub", sub, strlen(sub));
	return ignore_match(stack, path, is_dir);
}

static void rules_apply_in_order(void **state)
{
	static const struct {
		const char *root, *sub, *path;
		bool is_dir, wanted;
	} cases[] = {{"*.o\n", NULL, "a.o", false, true},
		     {"*.o\n", "", "sub/a.o", false, true},
		     {"*.o\n!a.o\n", NULL, "a.o", false, false},
		     {"!a.o\n*.o\n", NULL, "a.o", false, true},
		     {"*.o\n", "!a.o\n", "sub/a.o", false, false},
		     {"!a.o\n", "*.o\n", "sub/a.o", false, true},
		     {"build/\n", NULL, "build", true, true},
		     {"build/\n", NULL, "build", false, false},
		     {"/build\n", "", "sub/build", true, false},
		     {"sub/build\n", "", "sub/build", true, true},
		     {"/sub/*\n", "", "sub/x", false, true},
		     {"# c\n\n\\#x\n", NULL, "#x", false, true},
		     {"\\!x\n", NULL, "!x", false, true},
		     {"x   \n", NULL, "x", false, true},
		     {"x\\ \n", NULL, "x ", false, true},
		     {"x\r\ny", NULL, "x", false, true},
		     {"x\r\ny", NULL, "y", false, true},
		     {"\xEF\xBB\xBFx\n", NULL, "x", false, true},
		     {"[a\nx\n", NULL, "x", false, true},
		     {"/\n!\n!/\n", NULL, "x", true, false},
		     {"**/x\n", "", "sub/x", false, true},
		     {"", NULL, "x", false, false}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (is_ignored(cases[i].root, cases[i].sub, cases[i].path, cases[i].is_dir) !=
		    cases[i].wanted)
			fail_msg("case %zu: %s in %s", i, cases[i].path, cases[i].root);
}

static void leaving_a_directory_forgets_its_rules(void **state)
{
	AUTO_IGNORE_STACK struct ignore_stack *stack = ignore_stack_new();

	(void)state;
	ignore_push(stack, "", NULL, 0);
	ignore_push(stack, "d", "x\n", 2);
	assert_true(ignore_match(stack, "d/x", false));
	ignore_pop(stack);
	assert_false(ignore_match(stack, "x", false));
}

static unsigned long next_random(unsigned long *seed)
{
	*seed = *seed * 6364136223846793005UL + 1442695040888963407UL;
	return *seed >> 33;
}

static void random_word(unsigned long *seed, const char *alphabet, size_t most, char *word)
{
	size_t len = 1 + next_random(seed) % most;

	for (size_t i = 0; i < len; i++)
		word[i] = alphabet[next_random(seed) % strlen(alphabet)];
	word[len] = '\0';
}

/* Patterns and names of a few letters, many of which match. */
static void random_patterns_ignore_what_git_ignores(void **state)
{
	static const char *const init[] = {"git", "init", "-q", ".", NULL};
	static const char *const ask[] = {"git", "check-ignore", "--no-index", "--stdin",
					  "-v",	 "-n",		 NULL};
	struct fixture f;
	struct strbuf rules, names;
	char words[64][8];
	unsigned long seed = 20240229;

	(void)state;
	fixture_init(&f);
	strbuf_init(&rules, STRBUF_MAX);
	strbuf_init(&names, STRBUF_MAX);
	AUTO_FREE char *dir = mem_printf("%s/ignore", f.dir);
	AUTO_FREE char *file = mem_printf("%s/.gitignore", dir);
	assert_int_equal(mkdir(dir, 0755), 0);
	free(run_program(dir, init, ""));
	for (int round = 0; round < 40; round++) {
		strbuf_reset(&rules);
		strbuf_reset(&names);
		strbuf_adds(&rules, "always\n"); /* git fails when nothing is ignored */
		strbuf_adds(&names, "always\n");
		for (int i = 0; i < 3; i++) {
			char word[16];

			random_word(&seed, "ab*?!/[]-\\ .", 6, word);
			strbuf_addf(&rules, "%s\n", word);
		}
		for (int i = 0; i < 64; i++) {
			random_word(&seed, "ab-! ", 3, words[i]);
			strbuf_addf(&names, "%s\n", words[i]);
		}
		int fd AUTO_FD = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
		assert_int_equal(fd_write_all(fd, rules.data, rules.len), 0);
		AUTO_FREE char *answer = run_program(dir, ask, names.data);
		const char *line = strchr(answer, '\n') + 1;
		for (int i = 0; i < 64; i++, line = strchr(line, '\n') + 1) {
			/* ".gitignore:2:pattern<TAB>name", "::<TAB>name"; "!" negates */
			const char *tab = strchr(line, '\t'), *second = strchr(line, ':');
			const char *pattern = strchr(second + 1, ':') + 1;
			bool wanted = pattern < tab && pattern[0] != '!';

			if (is_ignored(rules.data, NULL, words[i], false) != wanted)
				fail_msg("'%s' with rules\n%sgit says %.*s", words[i],
					 rules.data, (int)(tab - line), line);
		}
	}
	strbuf_release(&rules);
	strbuf_release(&names);
	fixture_release(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rules_apply_in_order),
	    cmocka_unit_test(leaving_a_directory_forgets_its_rules),
	    cmocka_unit_test(random_patterns_ignore_what_git_ignores),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
