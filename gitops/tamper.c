#include "tamper.h"

#include <string.h>
#include <strings.h>

#include "line_changes.h"
#include "pipeline/base/mem.h"

/* ---- paths ---- */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), size = strlen(end);

	return len >= size && strcasecmp(text + len - size, end) == 0;
}

/* Whether a directory of the path has one of the names (a NULL ends them). */
static bool has_directory(const char *path, const char *const *names)
{
	for (const char *slash; (slash = strchr(path, '/')); path = slash + 1)
		for (size_t i = 0; names[i]; i++)
			if (strlen(names[i]) == (size_t)(slash - path) &&
			    strncasecmp(path, names[i], strlen(names[i])) == 0)
				return true;
	return false;
}

static bool is_code(const char *name)
{
	static const char *const ends[] = {
	    ".py", ".js",   ".mjs",   ".cjs", ".jsx",  ".ts",	 ".tsx", ".mts", ".go",	 ".rs",
	    ".c",  ".h",    ".cc",    ".cpp", ".cxx",  ".hpp",	 ".m",	 ".mm",	 ".kt",	 ".kts",
	    ".cs", ".fs",   ".rb",    ".php", ".pl",   ".t",	 ".sh",	 ".ex",	 ".exs", ".erl",
	    ".hs", ".ml",   ".scala", ".clj", ".lua",  ".swift", ".r",	 ".jl",	 ".zig", ".nim",
	    ".d",  ".dart", ".vue",   ".ps1", ".bats", ".el",	 ".java"};

	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		if (ends_with(name, ends[i]))
			return true;
	return false;
}

static bool is_snapshot(const char *path)
{
	static const char *const directories[] = {"__snapshots__", "snapshots", "goldens",
						  "golden", NULL};
	static const char *const ends[] = {".snap",	    ".ambr",	 ".golden",
					   ".approved.txt", ".approved", ".expected",
					   ".snap.new"};

	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		if (ends_with(path, ends[i]))
			return true;
	return has_directory(path, directories) && !is_code(base_name(path));
}

static bool is_configuration(const char *path)
{
	static const char *const names[] = {
	    "conftest.py",	 "pytest.ini",	 "tox.ini",	  ".coveragerc",
	    "noxfile.py",	 "phpunit.xml",	 ".mocharc.js",	  ".mocharc.json",
	    ".mocharc.yml",	 ".mocharc.cjs", ".rspec",	  "nextest.toml",
	    "CTestCustom.cmake", ".nycrc",	 "karma.conf.js", "cypress.json",
	    "phpunit.xml.dist",	 "testng.xml",	 ".bazelrc"};
	static const char *const starts[] = {"jest.config.",	  "vitest.config.",
					     "vitest.workspace.", "playwright.config.",
					     "cypress.config.",	  "ava.config."};
	const char *name = base_name(path);

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	for (size_t i = 0; i < ARRAY_LEN(starts); i++)
		if (strncmp(name, starts[i], strlen(starts[i])) == 0)
			return true;
	return false;
}

/* test_x.py, x_test.go, x.test.ts, x.spec.js, x_spec.rb, XTest.java, XTests.cs, TestX.java */
static bool is_test_name(const char *name)
{
	char stem[256];
	size_t len = strcspn(name, ".");
	const char *rest = name + len;

	if (!is_code(name) || len >= sizeof(stem))
		return false;
	memcpy(stem, name, len);
	stem[len] = '\0';
	if (strncasecmp(rest, ".test.", 6) == 0 || strncasecmp(rest, ".spec.", 6) == 0 ||
	    strncasecmp(rest, ".cy.", 4) == 0 || strncasecmp(rest, ".e2e.", 5) == 0)
		return true;
	if (strncasecmp(stem, "test_", 5) == 0 || strncasecmp(stem, "test-", 5) == 0 ||
	    strcasecmp(stem, "test") == 0 || strcasecmp(stem, "tests") == 0)
		return true;
	if (ends_with(stem, "_test") || ends_with(stem, "_tests") || ends_with(stem, "-test") ||
	    ends_with(stem, "_spec") || ends_with(stem, "_unittest"))
		return true;
	size_t size = strlen(stem);
	return (size > 4 && strcmp(stem + size - 4, "Test") == 0) ||
	       (size > 5 && strcmp(stem + size - 5, "Tests") == 0) ||
	       (size > 4 && strcmp(stem + size - 4, "Spec") == 0) ||
	       (size > 2 && strcmp(stem + size - 2, "IT") == 0 && ends_with(name, ".java"));
}

/* By its directories or its name. */
static bool is_test_path(const char *path)
{
	static const char *const directories[] = {"test",     "tests",	 "__tests__", "spec",
						  "specs",    "e2e",	 "testing",   "t",
						  "unittest", "cypress", NULL};
	const char *name = base_name(path);

	return is_test_name(name) || (has_directory(path, directories) && is_code(name));
}

bool tamper_same_role(const char *from, const char *to)
{
	const char *from_name = base_name(from), *to_name = base_name(to);
	const char *from_end = strrchr(from_name, '.'), *to_end = strrchr(to_name, '.');

	if (is_configuration(from)) /* it counts where it is */
		return false;
	if (is_snapshot(from))
		return is_snapshot(to);
	if (strcmp(from_end ? from_end : "", to_end ? to_end : "") != 0)
		return false;
	return is_test_name(from_name) ? is_test_name(to_name) : is_test_path(to);
}

static bool has_program(const char *command, const char *program)
{
	size_t len = strlen(program);

	for (const char *at = command; (at = strstr(at, program)); at++)
		if ((at == command || strchr(" \t/;&|(", at[-1])) &&
		    (!at[len] || strchr(" \t;&|)", at[len])))
			return true;
	return false;
}

bool tamper_runs(const char *command, const char *path)
{
	static const struct {
		const char *program, *name; /* name "*X": ends in X */
	} orders[] = {
	    {"make", "GNUmakefile"},	 {"make", "Makefile"},	   {"make", "*.mk"},
	    {"gmake", "GNUmakefile"},	 {"gmake", "Makefile"},	   {"gmake", "*.mk"},
	    {"cmake", "CMakeLists.txt"}, {"cmake", "*.cmake"},	   {"ctest", "CMakeLists.txt"},
	    {"ctest", "*.cmake"},	 {"meson", "meson.build"}, {"ninja", "meson.build"},
	    {"ninja", "CMakeLists.txt"}, {"ninja", "build.ninja"}, {"tox", "tox.ini"},
	    {"nox", "noxfile.py"},	 {"rake", "Rakefile"},	   {"just", "justfile"},
	    {"just", ".justfile"},	 {"task", "Taskfile.yml"}, {"task", "Taskfile.yaml"},
	    {"ant", "build.xml"},	 {"scons", "SConstruct"},  {"scons", "SConscript"},
	    {"invoke", "tasks.py"},	 {"mage", "magefile.go"},  {"bazel", "*.bzl"},
	    {"bazel", "BUILD"},		 {"bazel", "BUILD.bazel"}, {"grunt", "Gruntfile.js"},
	    {"gulp", "gulpfile.js"},	 {"prove", ".proverc"},
	};
	const char *name = base_name(path);

	for (size_t i = 0; i < ARRAY_LEN(orders); i++)
		if ((*orders[i].name == '*' ? ends_with(name, orders[i].name + 1)
					    : strcasecmp(name, orders[i].name) == 0) &&
		    has_program(command, orders[i].program))
			return true;
	return false;
}

/* ---- lines ---- */

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_';
}

/* Whether a needle stands in a line, not as a part of a longer word. */
static bool has(const struct changed_line *line, const char *needle)
{
	size_t size = strlen(needle);
	const char *at = line->text, *end = line->text + line->len;

	while ((at = memmem(at, (size_t)(end - at), needle, size))) {
		bool left = at == line->text || !is_word(at[-1]) || !is_word(needle[0]);
		bool right =
		    at + size == end || !is_word(at[size]) || !is_word(needle[size - 1]);

		if (left && right)
			return true;
		at++;
	}
	return false;
}

static bool has_one(const struct changed_line *line, const char *const *needles)
{
	for (size_t i = 0; needles[i]; i++)
		if (has(line, needles[i]))
			return true;
	return false;
}

static bool begins(const struct changed_line *line, const char *start)
{
	size_t size = strlen(start);

	return line->len >= size && memcmp(line->text, start, size) == 0;
}

/* Out of force: an assertion in a comment asserts nothing. */
static bool is_comment(const struct changed_line *line)
{
	if (begins(line, "#["))
		return false;
	return begins(line, "#") || begins(line, "//") || begins(line, "/*") ||
	       begins(line, "* ") || begins(line, "--") || begins(line, "<!--") ||
	       begins(line, "\"\"\"") || begins(line, "'''") || begins(line, ";;");
}

/* "def test_x", "func TestX", "it('…'", "#[test]", "@Test", "TEST(…", "test \"…\"" */
static bool is_definition(const struct changed_line *line)
{
	static const char *const needles[] = {"#[test]",
					      "#[tokio::test]",
					      "@Test",
					      "@ParameterizedTest",
					      "TEST",
					      "TEST_F",
					      "TEST_P",
					      "TEST_CASE",
					      "[Fact]",
					      "[Theory]",
					      "[Test]",
					      "[TestMethod]",
					      "cmocka_unit_test",
					      "@test",
					      "BOOST_AUTO_TEST_CASE",
					      NULL};
	static const char *const calls[] = {"it(",  "test(",   "it.each",  "test.each", "it \"",
					    "it '", "test \"", "specify(", "scenario(", NULL};

	if (is_comment(line))
		return false;
	if (begins(line, "def test") || begins(line, "async def test") ||
	    begins(line, "func Test") || begins(line, "func Fuzz") ||
	    begins(line, "fun test") || begins(line, "public void test") ||
	    begins(line, "public function test") || begins(line, "func test") ||
	    begins(line, "sub test"))
		return true;
	for (size_t i = 0; calls[i]; i++)
		if (begins(line, calls[i]))
			return true;
	return has_one(line, needles);
}

static bool is_assertion(const struct changed_line *line)
{
	static const char *const needles[] = {
	    "assert",	   "assert_eq!", "assert_ne!",	"assert!",     "debug_assert!",
	    "expect(",	   "should",	 "EXPECT_EQ",	"EXPECT_TRUE", "t.Error",
	    "t.Errorf",	   "t.Fatal",	 "t.Fatalf",	"t.Fail",      "pytest.raises",
	    "assertEqual", "assertTrue", "assertFalse", "assertThat",  "assertRaises",
	    "REQUIRE",	   "CHECK",	 "is_deeply",	"verify(",     "require.",
	    NULL};

	if (is_comment(line))
		return false;
	if (has_one(line, needles))
		return true;
	/* assertX, assert_x, EXPECT_X, ASSERT_X: any longer word that begins so */
	for (size_t at = 0; at + 7 < line->len; at++) {
		const char *text = line->text + at;

		if (at && is_word(text[-1]))
			continue;
		if (!memcmp(text, "assert_", 7) || !memcmp(text, "ASSERT_", 7) ||
		    !memcmp(text, "EXPECT_", 7) || !memcmp(text, "CHECK_", 6) ||
		    (!memcmp(text, "assert", 6) && text[6] >= 'A' && text[6] <= 'Z') ||
		    (!memcmp(text, "Assert", 6) && (text[6] == '.' || text[6] == ':')))
			return true;
	}
	return false;
}

/* Marks and calls of the common frameworks. */
static const char *const skips[] = {"@pytest.mark.skip",
				    "@pytest.mark.skipif",
				    "@pytest.mark.xfail",
				    "pytest.skip(",
				    "pytest.xfail(",
				    "pytest.importorskip(",
				    "pytestmark = pytest.mark.skip",
				    "@unittest.skip",
				    "@unittest.skipIf",
				    "@unittest.skipUnless",
				    "@unittest.expectedFailure",
				    "@expectedFailure",
				    "SkipTest",
				    "skipTest(",
				    "@skip",
				    "t.Skip(",
				    "t.Skipf(",
				    "t.SkipNow(",
				    "b.Skip(",
				    "#[ignore]",
				    "#[ignore =",
				    "#[should_panic",
				    "it.skip",
				    "test.skip",
				    "describe.skip",
				    "context.skip",
				    "suite.skip",
				    "it.todo",
				    "test.todo",
				    "test.fails",
				    "it.fails",
				    "test.fixme",
				    "test.failing",
				    "it.failing",
				    "xit(",
				    "xtest(",
				    "xdescribe(",
				    "xcontext(",
				    "this.skip(",
				    "{ skip:",
				    "skip: true",
				    "@Ignore",
				    "@Disabled",
				    "@DisabledIf",
				    "@EnabledIf",
				    "GTEST_SKIP",
				    "BOOST_TEST_DISABLED",
				    "Skip =",
				    "[Ignore]",
				    "markTestSkipped(",
				    "markTestIncomplete(",
				    "SKIP:",
				    "Assume.assume",
				    "assumeTrue(",
				    "#if 0",
				    "if false",
				    "XCTSkip",
				    "os._exit(0)",
				    "sys.exit(0)",
				    "process.exit(0)",
				    "DISABLED_",
				    NULL};

/*
 * "exit 0" as a command: at the line's beginning, or behind what one may stand behind, and up to the end of a
 * command. Within quotes it is a word of a test's own (a script that it writes, a hook that it plants).
 */
static bool ends_well(const struct changed_line *line)
{
	static const char *const words[] = {"then", "else", "do", "&&", "||", "{", ";", "("};
	const char *at = line->text, *end = line->text + line->len;
	char quote = '\0';

	for (; at < end; at++) {
		size_t before = (size_t)(at - line->text);
		bool starts;

		if (*at == '\\') {
			at++;
			continue;
		}
		if (*at == '\'' || *at == '"' || *at == '`') {
			quote = quote == *at ? '\0' : quote ? quote : *at;
			continue;
		}
		if (quote || end - at < 6 || memcmp(at, "exit 0", 6) != 0 ||
		    (at + 6 < end && (is_word(at[6]) || at[6] == '\'' || at[6] == '"')))
			continue;
		while (before &&
		       (line->text[before - 1] == ' ' || line->text[before - 1] == '\t'))
			before--;
		starts = before == 0;
		for (size_t i = 0; i < ARRAY_LEN(words) && !starts; i++) {
			size_t size = strlen(words[i]);

			starts = before >= size &&
				 memcmp(line->text + before - size, words[i], size) == 0 &&
				 (!is_word(*words[i]) || before == size ||
				  strchr(" \t;", line->text[before - size - 1]));
		}
		if (starts)
			return true;
	}
	return false;
}

static bool is_skip(const struct changed_line *line)
{
	if (begins(line, "//") || begins(line, "# ") || begins(line, "* "))
		return false;
	for (size_t i = 0; skips[i]; i++)
		if (has(line, skips[i]))
			return true;
	return ends_well(line) || memmem(line->text, line->len, "DISABLED_", 9) != NULL;
}

static bool is_focus(const struct changed_line *line)
{
	static const char *const needles[] = {"it.only",    "test.only",   "describe.only",
					      "fit(",	    "fdescribe(",  "context.only",
					      "suite.only", "only: true",  "fcontext(",
					      ":focus",	    "focus: true", NULL};

	return !is_comment(line) && has_one(line, needles);
}

typedef bool line_test_fn(const struct changed_line *line);

static size_t count_lines(const struct changed_line *lines, size_t count, line_test_fn *test,
			  const struct changed_line **first)
{
	size_t found = 0;

	for (size_t i = 0; i < count; i++)
		if (test(&lines[i]) && !found++)
			*first = &lines[i];
	return found;
}

/* ---- a file ---- */

static void add(struct tamper *found, size_t *used, enum tamper_kind kind, size_t count,
		const struct changed_line *line)
{
	found[(*used)++] = (struct tamper){kind, line ? line->number : 0, count,
					   line ? line->text : NULL, line ? line->len : 0};
}

/* Old lines against new ones: tests, skips, focus, assertions. */
static void compare(const struct line_changes *changes, struct tamper *found, size_t *used)
{
	const struct changed_line *gone = NULL, *came = NULL;
	size_t removed, added;

	removed = count_lines(changes->removed, changes->removed_count, is_definition, &gone);
	added = count_lines(changes->added, changes->added_count, is_definition, &came);
	if (removed > added)
		add(found, used, TAMPER_REMOVED, removed - added, gone);
	added = count_lines(changes->added, changes->added_count, is_skip, &came);
	if (added > count_lines(changes->removed, changes->removed_count, is_skip, &gone))
		add(found, used, TAMPER_SKIPPED, added, came);
	if ((added = count_lines(changes->added, changes->added_count, is_focus, &came)))
		add(found, used, TAMPER_FOCUSED, added, came);
	removed = count_lines(changes->removed, changes->removed_count, is_assertion, &gone);
	added = count_lines(changes->added, changes->added_count, is_assertion, &came);
	if (removed > added)
		add(found, used, TAMPER_ASSERTIONS, removed - added, gone);
	if (removed && added)
		add(found, used, TAMPER_EXPECTATION, removed < added ? removed : added, came);
}

/* Rust keeps unit tests beside the code that they test. */
static bool has_inline_tests(const struct tamper_file *file)
{
	return ends_with(file->path, ".rs") && file->old &&
	       memmem(file->old, file->old_len, "#[test]", 7) != NULL;
}

size_t tamper_find(const struct tamper_file *file, struct tamper found[TAMPER_KIND_COUNT])
{
	bool test = is_test_path(file->path), snapshot = is_snapshot(file->path);
	struct line_changes changes;
	size_t used = 0;

	if (snapshot && file->old && !file->moved)
		add(found, &used, TAMPER_SNAPSHOT, 1, NULL);
	if (is_configuration(file->path) && !file->moved)
		add(found, &used, TAMPER_CONFIGURATION, 1, NULL);
	if (snapshot || (!test && !has_inline_tests(file)))
		return used;
	if (!file->now) {
		if (!file->moved)
			add(found, &used, TAMPER_DELETED, 1, NULL);
		return used;
	}
	line_changes_find(file->old ? file->old : "", file->old_len, file->now, file->now_len,
			  true, &changes);
	compare(&changes, found, &used);
	line_changes_release(&changes);
	return used;
}

const char *tamper_kind_text(enum tamper_kind kind)
{
	static const char *const names[TAMPER_KIND_COUNT] = {
	    [TAMPER_DELETED] = "deleted",	[TAMPER_REMOVED] = "removed",
	    [TAMPER_SKIPPED] = "skipped",	[TAMPER_FOCUSED] = "focused",
	    [TAMPER_ASSERTIONS] = "assertions", [TAMPER_EXPECTATION] = "expectation",
	    [TAMPER_SNAPSHOT] = "snapshot",	[TAMPER_CONFIGURATION] = "configuration",
	};

	return names[kind];
}
